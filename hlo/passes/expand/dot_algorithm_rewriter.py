"""Products in several narrow ones, as their algorithm says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hlo.expansions import Draft
from hlo.ir import Computation, Instruction, Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ELEMENT_TYPES, ElementType

_F32, _U32, _BF16 = (ELEMENT_TYPES[name] for name in ("f32", "u32", "bf16"))


@dataclass(frozen=True)
class _Split:
    """How an algorithm takes products apart.

    mask: the bits of an f32 that a part has. et: the type that the parts are multiplied in.
    single: the algorithm of each product. terms: which parts, 0 for the largest, of the left and of
    the right operand are multiplied; the least products first, without that of the largest parts.
    """

    mask: int
    et: ElementType
    single: str
    terms: tuple[tuple[int, int], ...]


_X3 = ((1, 0), (0, 1))
_X6 = ((1, 1), (0, 2), (2, 0), *_X3)
_X9 = ((2, 2), (1, 2), (2, 1), *_X6)
_SPLITS = {
    "dot_bf16_bf16_f32_x3": _Split(0xFFFF0000, _BF16, "dot_bf16_bf16_f32", _X3),
    "dot_bf16_bf16_f32_x6": _Split(0xFFFF0000, _BF16, "dot_bf16_bf16_f32", _X6),
    "dot_bf16_bf16_f32_x9": _Split(0xFFFF0000, _BF16, "dot_bf16_bf16_f32", _X9),
    "dot_tf32_tf32_f32_x3": _Split(0xFFFFE000, _F32, "dot_tf32_tf32_f32", _X3),
}


@module_pass
def dot_algorithm_rewriter(module: Module, rewrites: Rewrites) -> None:
    """Expand f32 dots with an algorithm such as dot_bf16_bf16_f32_x3 to sums of narrow dots.

    Each operand is split into parts that the narrow type holds. What the small terms make of
    infinities is not counted: the product of the largest parts has the right ones.
    """
    expand_instructions(
        module, rewrites, "dot_algorithm_rewriter.split", ["dot"], _expanded, approximate=True
    )


def _expanded(inst: Instruction) -> Computation | None:
    split = _SPLITS.get(inst.algorithm)
    shapes = [inst.array_shape, *(o.array_shape for o in inst.operands)]
    is_plain = len(inst.operands) == 2 and not any(s.is_dynamic for s in shapes)
    if split is None or not is_plain or any(s.element_type is not _F32 for s in shapes):
        return None
    d = Draft(inst)
    count = 1 + max(max(term) for term in split.terms)
    parts = [_parts(d, p, split, count) for p in d.parameters]
    attrs = {**inst.attrs, "algorithm": split.single}

    def product(lhs: int, rhs: int) -> Instruction:
        return d.op("dot", parts[0][lhs], parts[1][rhs], shape=inst.array_shape, **attrs)

    total = product(*split.terms[0])
    for term in split.terms[1:]:
        total = d.op("add", total, product(*term))
    limit = d.broadcast(d.constant(_F32, math.inf), inst.array_shape)
    zero = d.broadcast(d.constant(_F32, 0), inst.array_shape)
    counts = d.compare(limit, d.op("abs", total), "GE")
    return d.done(d.op("add", d.op("select", counts, total, zero), product(0, 0)))


def _parts(d: Draft, x: Instruction, split: _Split, count: int) -> list[Instruction]:
    """Return numbers that are x together, the largest first; only the last one is rounded."""
    parts = []
    for _ in range(count - 1):
        bits = d.op("bitcast-convert", x, shape=x.array_shape.with_type(_U32))
        mask = d.broadcast(d.constant(_U32, split.mask), bits.array_shape)
        part = d.op("bitcast-convert", d.op("and", bits, mask), shape=x.array_shape)
        parts.append(part)
        x = d.op("subtract", x, part)
    return [d.convert(part, split.et) for part in (*parts, x)]
