"""Triangular systems by substitution."""

from __future__ import annotations

from hlo.expansions import Draft
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.expand import _matrix as mx
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def triangular_solve_expander(module: Module, rewrites: Rewrites) -> None:
    """Express `triangular-solve` by a loop that computes one row of unknowns per iteration.

    In f64 or c128, rounded once.
    """
    expand_instructions(
        module, rewrites, "triangular_solve_expander.expand", ["triangular-solve"], _expanded,
        approximate=True,
    )  # fmt: skip


def _expanded(inst: Instruction) -> Computation | None:
    shape = inst.array_shape
    if any(o.array_shape.is_dynamic for o in inst.operands):
        return None
    d = Draft(inst)
    if not shape.num_elements:
        return d.done(d.zeros(shape))
    n = inst.operands[0].array_shape.dims[-1]
    a, y = (mx.widened(d, p) for p in d.parameters)
    lower = inst.lower
    if inst.transpose_a == "ADJOINT":
        a = mx.conjugate(d, a)
    if (inst.transpose_a != "NO_TRANSPOSE") == inst.left_side:
        # Once for op, once more where x op(a) = b is solved as op(a)^T x^T = b^T.
        a, lower = mx.swapped(d, a), not lower
    if not inst.left_side:
        y = mx.swapped(d, y)
    unit = inst.unit_diagonal

    def step(
        b: Builder, at: Instruction, solved: list[Instruction], fixed: list[Instruction]
    ) -> list[Instruction]:
        matrix, right = fixed
        if not lower:
            at = b.op("subtract", b.constant(at.array_shape.element_type, n - 1), at)
        row = mx.taken(b, matrix, at, 1)
        # What is not known yet is zero, and its coefficients may be anything.
        known = mx.positions(b, row, 2, "LT" if lower else "GT", at)
        sums = mx.product(b, mx.kept(b, known, row), solved[0])
        x = b.op("subtract", mx.taken(b, right, at, 1), sums)
        if not unit:
            x = b.op("divide", x, mx.spread(b, mx.taken(b, row, at, 2), x))
        return [mx.put(b, solved[0], x, at, 1)]

    unknown = d.zeros(y.array_shape)
    (x,) = counted_loop(d, n, [unknown], [a, y], step)
    if not inst.left_side:
        x = mx.swapped(d, x)
    return d.done(d.relaid(d.convert(d.reshape(x, shape.dims), shape.element_type), shape))
