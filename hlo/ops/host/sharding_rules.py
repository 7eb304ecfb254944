"""Sharding rules that a program gives for a custom call: Shardy's `op_sharding_rule`, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hlo.errors import InferError
from hlo.ops.factors import DimFactors, Factor, FactorKind, FactorRule
from hlo.ops.spec import OpView
from hlo.values.types import ArrayShape, Shape

# What says itself how it is partitioned: see `hlo.spmd.custom_partitioning`.
CUSTOM_PARTITIONING = "CustomSPMDPartitioning"
ATTRIBUTE = "xla.sdy.sharding_rule"
_RULE = re.compile(r"\(([^()]*)\)\s*->\s*\(([^()]*)\)\s*\{([^{}]*)\}")
_FACTOR = re.compile(r"[a-z](?:_\d+)?")
_KINDS = {
    "reduction": FactorKind.REDUCTION,
    "need_replication": FactorKind.NEED_REPLICATION,
    "permutation": FactorKind.PERMUTATION,
}


def rule_in_text(op: OpView) -> FactorRule | None:
    """Return the rule in a custom call's attributes, None without one. Raises InferError."""
    notes = op.annotations.get("frontend_attributes", {})
    text = notes.get(ATTRIBUTE) if isinstance(notes, Mapping) else None
    if text is None:
        return None
    found = _RULE.search(text)
    if found is None:
        raise _bad(op, f"{text!r} is none")
    sizes = dict(re.findall(rf"({_FACTOR.pattern})\s*=\s*(\d+)", found[3]))
    numbers = {name: n for n, name in enumerate(sizes)}
    kinds = {
        name: kind
        for word, kind in _KINDS.items()
        for names in re.findall(rf"\b{word}\s*=\s*\{{([^{{}}]*)\}}", text[found.end() :])
        for name in _FACTOR.findall(names)
    }
    factors = tuple(Factor(int(s), kinds.get(n, FactorKind.PASS_THROUGH)) for n, s in sizes.items())
    operands = _arrays(op, found[1], op.operand_shapes, numbers)
    results = _arrays(op, found[2], [s for _, s in op.shape.leaves()], numbers)
    return FactorRule(factors, operands, results, "its sharding rule says so" if kinds else "")


def _arrays(
    op: OpView, text: str, shapes: Sequence[Shape], numbers: Mapping[str, int]
) -> tuple[DimFactors, ...]:
    insides = re.findall(r"\[([^\]]*)\]", text)
    arrays = [inside.split(",") if inside.strip() else [] for inside in insides]
    ranks = [s.rank if isinstance(s, ArrayShape) else 0 for s in shapes]
    if [len(dims) for dims in arrays] != ranks:
        raise _bad(op, f"({text}) has other arrays, or ranks, than the call")
    names = [[_FACTOR.findall(dim) for dim in dims] for dims in arrays]
    if unknown := {n for dims in names for dim in dims for n in dim} - numbers.keys():
        raise _bad(op, f"the factor {min(unknown)} has no size")
    return tuple(tuple(tuple(numbers[n] for n in dim) for dim in dims) for dims in names)


def _bad(op: OpView, problem: str) -> InferError:
    return InferError(
        f"custom-call: the sharding rule of {op.custom_call_target!r}: {problem}",
        code="bad-sharding",
    )
