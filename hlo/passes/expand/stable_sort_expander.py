"""Stable sorts by sorts of any kind."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_computation
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import PRED, S32, S64, array


@module_pass
def stable_sort_expander(module: Module, rewrites: Rewrites) -> None:
    """Make sorts stable by comparing the positions of equal elements.

    A sort that has its positions as an operand already uses that one.
    """
    expand_instructions(module, rewrites, "stable_sort_expander.expand", ["sort"], _expanded)


def _expanded(inst: Instruction) -> Computation | None:
    if not inst.is_stable or any(o.array_shape.is_dynamic for o in inst.operands):
        return None
    d = Draft(inst)
    (dim,) = inst.dimensions
    at = next((n for n, o in enumerate(inst.operands) if _is_position(o, dim)), None)
    operands = list(d.parameters)
    if at is None:
        shape = inst.operands[0].array_shape
        at = len(operands)
        wide = S64 if shape.dims[dim] > 2**31 - 1 else S32
        positions = array(wide, shape.dims).with_layout(shape.layout)
        operands.append(d.op("iota", shape=positions, iota_dimension=dim))
    ordered = d.op(
        "sort", *operands, dimensions=(dim,), is_stable=False,
        to_apply=_with_positions(inst, at, operands),
    )  # fmt: skip
    results = [d.element(ordered, n) for n in range(len(inst.operands))]
    return d.done(d.tuple(*results) if inst.shape.is_tuple else results[0])


def _is_position(operand: Instruction, dim: int) -> bool:
    return (
        operand.opcode == "iota"
        and operand.iota_dimension == dim
        and operand.array_shape.element_type.bits >= 32
    )


def _with_positions(inst: Instruction, at: int, operands: list[Instruction]) -> Computation:
    """Return a comparator that decides by positions where the given one finds neither first."""
    before: Computation = inst.to_apply
    scalars = [array(o.array_shape.element_type, ()) for o in operands for _ in range(2)]

    def body(b: Builder, *p: Instruction) -> Instruction:
        args = p[: 2 * len(inst.operands)]
        swapped = [args[n ^ 1] for n in range(len(args))]
        shape = array(PRED, ())
        first = b.op("call", *args, shape=shape, to_apply=before)
        second = b.op("call", *swapped, shape=shape, to_apply=before)
        same = b.compare(first, second, "EQ")
        earlier = b.compare(p[2 * at], p[2 * at + 1], "LT")
        return b.op("select", same, earlier, first)

    return build_computation(f"{before.name}.stable", scalars, body, inst)
