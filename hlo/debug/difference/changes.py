"""The differences of two modules, an instruction each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hlo.analysis.cost import Cost
from hlo.analysis.matching import Matching, comparable, comparable_annotation
from hlo.debug.difference.costs import Costs
from hlo.debug.difference.details import OPERANDS, SWAPPED, Detail, details_of, different_keys
from hlo.debug.difference.sites import Sites
from hlo.frontends.text.header import MODULE_ATTRS
from hlo.ir import Instruction, Module
from hlo.values.types import Shape

ADDED, REMOVED, CHANGED, MOVED, SWAPPED_KIND = "added", "removed", "changed", "moved", "swapped"
KINDS = (REMOVED, ADDED, CHANGED, MOVED, SWAPPED_KIND)
# What the header says about where a program comes from.
_COUNTS = ("replica_count", "num_partitions")
_NOTES = ("origin_recovery_table", "debug_attributes")


@dataclass(frozen=True)
class Change:
    """A difference of one instruction.

    kind: `added`; `removed`; `changed`, by itself or in what it refers to; `moved`, to another
    computation; or `swapped`: a commutative operation with its operands the other way round.
    left, right: the instruction in both modules; None in the one that does not have it.
    details: what differs. cost: what a run takes more on the right; `seconds` the estimated time.
    """

    kind: str
    left: Instruction | None
    right: Instruction | None
    details: tuple[Detail, ...] = ()
    cost: Cost = field(default_factory=Cost)
    seconds: float = 0.0

    @property
    def instructions(self) -> list[Instruction]:
        """The instruction in the modules that have it, left first."""
        return [i for i in (self.left, self.right) if i is not None]


def header_details(left: Module, right: Module, *, metadata: bool = False) -> list[Detail]:
    """Return what differs between the headers of two modules, names and tables aside."""
    found = []
    for key, codec in MODULE_ATTRS.items():
        if key == "entry_computation_layout" or (key in _NOTES and not metadata):
            continue
        ours, theirs = left.attrs.get(key) or None, right.attrs.get(key) or None
        if _header_value(left, key, ours) != _header_value(right, key, theirs):
            if key == "backend_config":
                ours, theirs = different_keys(ours, theirs)
            default = 1 if key in _COUNTS else None
            ours, theirs = ours or default, theirs or default
            found.append(
                Detail(key, *("" if v is None else codec.write(v) for v in (ours, theirs)))
            )
    return [*found, *_program_layout(left, right)]


def _header_value(module: Module, key: str, value: Any) -> Hashable:
    """Return an attribute of a header as it is compared; None is what an absent one means."""
    if key in _COUNTS:
        return value or 1
    if key.startswith("allow_spmd_sharding_propagation"):
        # It says something where there is a partitioner; one value is for all.
        if module.device_counts[1] == 1 or not any(value or ()):
            return None
        return all(value) or comparable(value)
    return comparable_annotation(key, value) or None


def _program_layout(left: Module, right: Module) -> Iterator[Detail]:
    """Yield the layouts at the boundary that differ where the entry's own shapes do not."""
    (ours, result), (theirs, other_result) = left.program_shapes, right.program_shapes
    own, others = left.entry.parameter_shapes, right.entry.parameter_shapes
    what = "entry_computation_layout"

    def differs(a: Shape, b: Shape, inner: Shape, other: Shape) -> bool:
        return a != b and inner == other

    if len(ours) == len(theirs):
        for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if differs(a, b, own[n], others[n]):
                yield Detail(what, f"parameter {n}: {a}", f"parameter {n}: {b}")
    if differs(result, other_result, left.entry.result_shape, right.entry.result_shape):
        yield Detail(what, f"result: {result}", f"result: {other_result}")


def changes_of(
    matching: Matching, sites: Sites, costs: Costs, *, metadata: bool = False
) -> list[Change]:
    """Return the changes from the left module to the right one, in the order of the left."""
    found: list[Change] = []
    exact = matching.exact
    for a, b in matching.pairs:
        moved = not _same_place(matching, a, b)
        if (a, b) in exact and not moved and not metadata:
            continue
        details = details_of(matching, sites, a, b, metadata=metadata)
        if not details and not moved:
            continue
        if moved and a.opcode == "parameter":
            continue
        kind = CHANGED
        if moved and {d.what for d in details} <= {SWAPPED, OPERANDS}:
            kind = MOVED
        elif [d.what for d in details] == [SWAPPED]:
            kind = SWAPPED_KIND
        found.append(_costed(Change(kind, a, b, tuple(details)), costs))
    for a, b in _other_roots(matching):
        found.append(Change(CHANGED, a, b, (Detail("result", f"%{a.name}", f"%{b.name}"),)))
    for kind, alone in ((REMOVED, matching.only_left), (ADDED, matching.only_right)):
        matched = {c[kind == ADDED] for c in matching.computations}
        for inst in alone:
            comp = inst.parent
            assert comp is not None
            if inst.opcode == "parameter" and comp not in matched and len(comp) > 1:
                continue  # comes and goes with its computation
            left, right = (inst, None) if kind == REMOVED else (None, inst)
            found.append(_costed(Change(kind, left, right), costs))
    return _in_order(matching, found)


def _in_order(matching: Matching, changes: list[Change]) -> list[Change]:
    """Return changes in the order of the left module, added ones before what they are used by."""
    at: dict[Instruction, tuple[int, int]] = {}
    for module in (matching.left, matching.right):
        for c, comp in enumerate(module.computations):
            for n, inst in enumerate(comp.in_order()):
                at[inst] = c, n
    # The first instruction of the left module that an added one is for.
    before: dict[Instruction, tuple[int, int]] = {}
    for comp in matching.right.computations:
        for inst in reversed(comp.in_order()):
            if (partner := matching.of(inst)) is not None:
                before[inst] = at[partner]
            else:
                before[inst] = min((before[u] for u in inst.users), default=at[inst])

    def position(change: Change) -> tuple[int, ...]:
        if change.left is not None:
            return (*at[change.left], 1, 0, 0)
        assert change.right is not None
        return (*before[change.right], 0, *at[change.right])

    return sorted(changes, key=position)


def _same_place(matching: Matching, a: Instruction, b: Instruction) -> bool:
    assert a.parent is not None and b.parent is not None
    return matching.same_computation(a.parent, b.parent)


def _other_roots(matching: Matching) -> list[tuple[Instruction, Instruction]]:
    """Return the results of matched computations that are other instructions, both there before."""
    found = []
    for f, g in matching.computations:
        partner = matching.of(f.root)
        if partner is None or partner.parent is not g or partner is g.root:
            continue
        if matching.of(g.root) is not None:
            found.append((f.root, g.root))
    return found


def _costed(change: Change, costs: Costs) -> Change:
    cost, seconds = costs.between(change.left, change.right)
    return Change(change.kind, change.left, change.right, change.details, cost, seconds)
