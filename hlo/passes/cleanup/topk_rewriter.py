"""Sorts of which the first elements are taken."""

from __future__ import annotations

from hlo.analysis.patterns import order_terms
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import S32

_RULES = RuleSet("topk_rewriter")


@module_pass
def topk_rewriter(module: Module, rewrites: Rewrites) -> None:
    """Turn sorts of which only the first k elements are used into `topk`.

    Floats have to be compared in their total order, which is that of `topk`.
    """
    _RULES.apply(module, rewrites)


@_RULES.rule("slice", "slice(sort(x, iota), 0:k) = topk(x), where nothing else uses the sort",
             static=True)  # fmt: skip
def first_of_sorted(inst: Instruction, b: Builder) -> Instruction | None:
    value = inst.operands[0]
    sort = value.operands[0] if value.opcode == "get-tuple-element" else value
    largest = _sorts_lines(sort) if sort.opcode == "sort" else None
    count = _taken(inst)
    if largest is None or not count or sort.is_root:
        return None
    parts = [sort] if sort.shape.is_array else sort.users
    for part in parts:
        if part.is_root or any(_taken(user) != count for user in part.users):
            return None
    found = b.op("topk", sort.operands[0], k=count, largest=largest)
    index = 0 if value is sort else value.tuple_index
    return b.op("get-tuple-element", found, index=index)


def _taken(inst: Instruction) -> int:
    """Return how many leading elements of each line a slice keeps; 0 for other slices."""
    if inst.opcode != "slice" or not inst.slice:
        return 0
    *outer, last = inst.slice
    dims = inst.operands[0].array_shape.dims
    whole = all(
        (s.start, s.limit, s.stride) == (0, n, 1) for s, n in zip(outer, dims, strict=False)
    )
    return last.limit if whole and (last.start, last.stride) == (0, 1) else 0


def _sorts_lines(sort: Instruction) -> bool | None:
    """Return whether the largest come first in a sort of lines, None for what `topk` cannot do.

    Only positions may be sorted with the elements. Equal elements stay in order, or are in any.
    """
    x, *others = sort.operands
    shape = x.array_shape
    if sort.dimensions != (shape.rank - 1,):
        return None
    for other in others:
        is_position = other.opcode == "iota" and other.array_shape.element_type is S32
        if not is_position or other.iota_dimension != shape.rank - 1:
            return None
    terms = order_terms(sort.to_apply)
    if len(others) > 1 or terms is None or len(terms) != 1:
        return None
    (term,) = terms
    if term.key.opcode != "parameter" or term.key.parameter_number != 0:
        return None
    return term.descending if term.total_order or not shape.element_type.is_float else None
