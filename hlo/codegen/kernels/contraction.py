"""Contractions: dot."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.codegen import scalar
from hlo.codegen.element import Indices
from hlo.codegen.fusion import Role
from hlo.codegen.kernel import Extent, Kernel, Plan, loop_nest, over_elements, planner
from hlo.codegen.kernels.gemm import plan_product, product_of
from hlo.codegen.llvm import Index, Val
from hlo.codegen.target import Target
from hlo.ir import Instruction
from hlo.types import ArrayShape


@planner("dot")
def plan_dot(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Choose the packed product, or a plain loop for types without vector arithmetic."""
    assert isinstance(inst.shape, ArrayShape)
    et = inst.shape.element_type
    if et.is_complex or et.is_pred or et.bits < 8:
        return Plan((_plain_dot,))
    return plan_product(product_of(inst), roles, target)


def _plain_dot(k: Kernel) -> Extent:
    """Sum products over the contracted dimensions, one result element at a time."""
    lhs, rhs = k.inst.operands
    assert isinstance(lhs.shape, ArrayShape) and isinstance(rhs.shape, ArrayShape)
    a = k.inst.attrs
    lb, rb = a["lhs_batch_dims"], a["rhs_batch_dims"]
    lc, rc = a["lhs_contracting_dims"], a["rhs_contracting_dims"]
    lfree = [d for d in range(lhs.shape.rank) if d not in lb and d not in lc]
    rfree = [d for d in range(rhs.shape.rank) if d not in rb and d not in rc]
    et = k.shape.element_type

    def body(at: Indices) -> None:
        b = k.b
        slot = b.alloca(scalar.ssa_type(et))
        zero = scalar.constant(et, et.dtype.type(0))
        b.write(f"store {zero}, ptr {slot.name}")

        def step(found: tuple[str, ...]) -> None:
            li: list[Index] = [0] * lhs.shape.rank  # type: ignore[attr-defined]
            ri: list[Index] = [0] * rhs.shape.rank  # type: ignore[attr-defined]
            nb = len(lb)
            for d, i in zip([*lb, *lfree], [*at[:nb], *at[nb : nb + len(lfree)]], strict=True):
                li[d] = i
            for d, i in zip([*rb, *rfree], [*at[:nb], *at[nb + len(lfree) :]], strict=True):
                ri[d] = i
            for d, e, i in zip(lc, rc, found, strict=True):
                li[d], ri[e] = i, i
            x, y = k.elements.at(lhs, tuple(li)), k.elements.at(rhs, tuple(ri))
            x = scalar.convert(b, x, lhs.shape.element_type, et)  # type: ignore[attr-defined]
            y = scalar.convert(b, y, rhs.shape.element_type, et)  # type: ignore[attr-defined]
            assert isinstance(x, Val) and isinstance(y, Val)
            t = x.type
            kind = "f" if t in ("float", "double") else ""
            product = b.op(t, f"{kind}mul {'contract ' if kind else ''}{x}, {y.name}")
            acc = b.effect(t, f"load {t}, ptr {slot.name}")
            total = b.op(t, f"{kind}add {'contract reassoc ' if kind else ''}{acc}, {product.name}")
            b.write(f"store {total}, ptr {slot.name}")

        loop_nest(b, [(0, lhs.shape.dims[d]) for d in lc], step)  # type: ignore[attr-defined]
        t = scalar.ssa_type(et)
        k.store(b.effect(t, f"load {t}, ptr {slot.name}"), at)

    return over_elements(k, k.shape, body)
