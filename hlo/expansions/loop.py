"""Counted loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.ir import Instruction
from hlo.ir.builder import Builder, build_computation
from hlo.values.types import S32, S64, ElementType, TupleShape, array

# Appends a step, from its number, the values so far and the constants, and returns new values.
Step = Callable[
    [Builder, Instruction, list[Instruction], list[Instruction]], Sequence[Instruction]
]  # fmt: skip


def counter_type(count: int) -> ElementType:
    """Return the type in which a loop counts up to `count`."""
    return S32 if count < 2**31 else S64


def counted_loop(
    b: Builder,
    count: int | Instruction,
    values: Sequence[Instruction],
    constants: Sequence[Instruction],
    step: Step,
) -> list[Instruction]:
    """Append a loop of `count` steps over values; returns what they are in the end.

    count: how many, known or an s32 scalar. constants: what a step needs besides the values, which
    keep their shapes, layouts too.
    """
    known = count if isinstance(count, int) else None
    if isinstance(count, Instruction):
        constants = [*constants, count]
    scalar = array(S32 if known is None else counter_type(known), ())
    state = TupleShape((scalar, *(v.shape for v in (*values, *constants))))

    def test(b: Builder, p: Instruction) -> Instruction:
        at = b.element(p, 0)
        last = len(state.elements) - 1
        end = b.element(p, last) if known is None else b.constant(scalar.element_type, known)
        return b.compare(at, end, "LT")

    def body(b: Builder, p: Instruction) -> Instruction:
        at, *rest = (b.element(p, n) for n in range(len(state.elements)))
        old, fixed = rest[: len(values)], rest[len(values) :]
        new = step(b, at, old, fixed)
        following = b.op("add", at, b.constant(scalar.element_type, 1))
        kept = (b.relaid(v, o.shape) for v, o in zip(new, old, strict=True))
        return b.tuple(following, *kept, *fixed)

    name = b.like.opcode if b.like is not None else "loop"
    loop = b.op(
        "while", b.tuple(b.constant(scalar.element_type, 0), *values, *constants), shape=state,
        condition=build_computation(f"{name}.condition", [state], test, b.like),
        body=build_computation(f"{name}.body", [state], body, b.like),
    )  # fmt: skip
    return [b.element(loop, 1 + n) for n in range(len(values))]
