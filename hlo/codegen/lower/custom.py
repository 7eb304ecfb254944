"""Custom calls with known semantics, as plain operations.

Annotations become their operand, and calls of vendors' libraries what they compute. Other calls are
external: their operands are in the layouts that the call states.
"""

from __future__ import annotations

from hlo.codegen.lower.lapack import cholesky_factor
from hlo.expansions import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.library_calls import expand_call
from hlo.ops.host.custom_targets import (
    Triangle,
    is_annotation,
    need_annotation,
    need_top_k,
    triangle,
    verify_target,
)
from hlo.ops.rules import unbuffered
from hlo.values.types import TupleShape


@expansion("custom-call")
def _custom_call(inst: Instruction) -> Computation | None:
    name = inst.custom_call_target
    # Passes and callers of code generation may have created unverified instructions.
    verify_target(inst)
    if is_annotation(name):
        return _annotation(inst)
    if name in ("AllocateBuffer", "CreateBuffer"):
        d = Draft(inst)
        return d.done(d.zeros(inst.shape))
    if name == "SetBound":
        d = Draft(inst)
        return d.done(d.relaid(d.parameters[0], inst.shape))
    if name == "TopK":
        return _top_k(inst)
    library = expand_call(inst)
    if library is not None:
        return library
    factor = cholesky_factor(inst)
    if factor is not None:
        return factor
    solve = triangle(inst)
    return _with_layouts(inst) if solve is None else _triangular_solve(inst, solve)


def _annotation(inst: Instruction) -> Computation:
    need_annotation(inst)
    # Pinned buffers become arrays: code generation assigns their memory itself.
    d = Draft(inst, [unbuffered(s) for s in inst.operand_shapes])
    if inst.shape == TupleShape():
        return d.done(d.op("tuple"))
    return d.done(d.relaid(d.parameters[0], unbuffered(inst.shape)))


def _top_k(inst: Instruction) -> Computation:
    values, positions = need_top_k(inst)
    d = Draft(inst)
    found = d.op("topk", *d.parameters, k=values.dims[-1], largest=True)
    best, places = (d.op("get-tuple-element", found, index=n) for n in range(2))
    results = [best, d.convert(places, positions.element_type)]
    pairs = zip(results, (values, positions), strict=True)
    return d.done(d.op("tuple", *(d.relaid(r, s) for r, s in pairs)))


def _triangular_solve(inst: Instruction, solve: Triangle) -> Computation:
    d = Draft(inst)
    solved = d.op(
        "triangular-solve", *d.parameters, shape=inst.shape, left_side=solve.left_side,
        lower=solve.lower, unit_diagonal=solve.unit_diagonal, transpose_a=solve.transpose,
    )  # fmt: skip
    return d.done(solved)


def _with_layouts(inst: Instruction) -> Computation | None:
    """Copy operands to the layouts that the call states, if they differ."""
    wanted = inst.operand_layout_constraints
    if wanted is None or all(a == b for a, b in zip(wanted, inst.operand_shapes, strict=True)):
        return None
    d = Draft(inst)
    operands = [d.relaid(p, s) for p, s in zip(d.parameters, wanted, strict=True)]
    if [o.shape for o in operands] == list(inst.operand_shapes):
        return None
    return d.done(d.comp.add(inst.clone(operands, name="custom-call")))
