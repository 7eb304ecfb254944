"""Reducers, and registration of rules that are exact or reassociate depending on them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops import OPS, Trait
from hlo.passes.algsimp._match import (
    dims_of,
    is_exact,
    is_splat,
    type_of,
)
from hlo.passes.algsimp._rules import rule
from hlo.passes.rules import Rewriter
from hlo.values.types import ArrayShape, ElementType


def combiner(inst: Instruction) -> str | None:
    """Return the operation that a reduction of one array applies, in one type throughout."""
    if len(inst.operands) != 2 or not isinstance(inst.shape, ArrayShape):
        return None
    comp = inst.to_apply
    op = single_binary_op(comp)
    if op is None:
        return None
    et = inst.shape.element_type
    for value in (comp.root, *comp.parameters, *inst.operands):
        if not isinstance(value.shape, ArrayShape) or value.shape.element_type is not et:
            return None
    return op


def is_idempotent(op: str | None) -> bool:
    """True for operations with x op x = x."""
    return op is not None and OPS[op].has(Trait.IDEMPOTENT)


def is_order_free(op: str | None, et: ElementType) -> bool:
    """True for operations that may be applied to elements in any order, to the bit."""
    return op is not None and OPS[op].is_associative(et)


def is_identity(op: str, inst: Instruction) -> bool:
    """True for a constant e with x op e = x, for every x to the bit."""
    identity = OPS[op].identity
    value = None if identity is None else identity(type_of(inst))
    return value is not None and is_splat(inst, value)


def is_neutral(op: str, inst: Instruction) -> bool:
    """True for a constant that changes no result but perhaps the sign of zero."""
    return is_identity(op, inst) or (op == "add" and is_splat(inst, 0.0))


def combined(b: Builder, op: str, init: Instruction, x: Instruction) -> Instruction:
    """Append `init op x`, for a scalar init."""
    return x if is_identity(op, init) else b.op(op, b.broadcast(init, x.array_shape), x)


def by_order(opcodes: str, equation: str, on: str = "") -> Callable[[Rewriter], Rewriter]:
    """Register a rewrite of reductions twice: where order does not matter, and for float sums.

    The second is approximate and called `NAME_of_floats`. on: as for `RuleSet.rule`.
    """

    def add(rewrite: Rewriter) -> Rewriter:
        @functools.wraps(rewrite)
        def exact(inst: Instruction, b: Builder) -> Instruction | None:
            op = combiner(inst)
            return rewrite(inst, b) if op and is_order_free(op, type_of(inst)) else None

        @functools.wraps(rewrite)
        def rounded(inst: Instruction, b: Builder) -> Instruction | None:
            # The type first: most reductions are no sums of floats.
            if not isinstance(inst.shape, ArrayShape) or is_exact(type_of(inst)):
                return None
            return rewrite(inst, b) if combiner(inst) in ("add", "multiply") else None

        _register_both(opcodes, equation, on, rewrite, exact, rounded)
        return rewrite

    return add


def by_type(opcodes: str, equation: str, on: str = "") -> Callable[[Rewriter], Rewriter]:
    """Register a rewrite of sums of products twice: for exact types, and for floats.

    The second is approximate and called `NAME_of_floats`. on: as for `RuleSet.rule`.
    """

    def add(rewrite: Rewriter) -> Rewriter:
        @functools.wraps(rewrite)
        def exact(inst: Instruction, b: Builder) -> Instruction | None:
            return rewrite(inst, b) if _in_exact_types(inst) else None

        @functools.wraps(rewrite)
        def rounded(inst: Instruction, b: Builder) -> Instruction | None:
            return None if _in_exact_types(inst) else rewrite(inst, b)

        _register_both(opcodes, equation, on, rewrite, exact, rounded)
        return rewrite

    return add


def _in_exact_types(inst: Instruction) -> bool:
    return is_exact(type_of(inst)) and all([is_exact(type_of(o)) for o in inst.operands])


def _register_both(
    opcodes: str, equation: str, on: str, rewrite: Rewriter, exact: Rewriter, rounded: Rewriter
) -> None:
    rule(opcodes, f"{equation}, in any order", on=on)(exact)
    rounded.__name__ = f"{rewrite.__name__}_of_floats"
    rule(opcodes, f"{equation}, but for rounding", approximate=True, on=on)(rounded)


def reduce(b: Builder, inst: Instruction, x: Instruction, dims: list[int]) -> Instruction:
    """Append a reduction of x like `inst`, over other dimensions; over none, only its initial
    value is combined."""
    op = combiner(inst)
    assert op is not None
    if all(dims_of(x)[d] == 1 for d in dims):
        kept = [n for d, n in enumerate(dims_of(x)) if d not in dims]
        return combined(b, op, inst.operands[1], b.reshape(x, kept))
    return b.op(
        "reduce", x, inst.operands[1], dimensions=tuple(sorted(dims)),
        to_apply=inst.to_apply,
    )  # fmt: skip
