"""Which of the values that a wrong one comes from is to blame, and whether it is wrong at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from hlo.debug.divergence.beside import Beside, Frames
from hlo.debug.divergence.nodes import Node
from hlo.debug.divergence.pairing import stands_at, unpaired_before
from hlo.ops import Trait
from hlo.testing.compare import Comparison

# Below a wrong value at most so many are tried for where it comes from.
_TRIES = 200
_FORWARDS = frozenset({"get-tuple-element", "copy", "bitcast", "parameter"})


@dataclass(frozen=True)
class Suspect:
    """A value that one module gets wrong, given the other's values of what it is computed from.

    given: in the given module; other: in the other one, None where it has no such value. frames:
    where that ran in the given module. comparison: of the other's value with the given one's.
    """

    given: Node
    other: Node | None
    frames: Frames
    comparison: Comparison
    operands: Sequence[Any]
    got: Any
    want: Any


def stands_for_something_else(run: Beside, node: Node, value: Any) -> bool:
    """True if what uses a value is right with it: then it only has the name of another one."""
    partner = run.partner(node)
    assert partner is not None
    told = False
    for user in run.users_with_partners(node):
        wanted = run.partner(user)
        assert wanted is not None
        if run.pairing.is_exact(user) and partner in wanted.operand_nodes():
            return False
        cone = unpaired_before(user, {**run.paired(), node: wanted})
        cone = [n for n in cone if n is not node]
        want, tolerance = run.given[wanted], run.tolerance
        if not tolerance.compare(run.again_with(cone, node, value), want).same:
            return False
        right = run.again_with(cone, node, run.given[partner])
        told = told or not tolerance.compare(right, want).same
    return told


def blamed(run: Beside, given: Node, other: Node, want: Any, found: Comparison) -> Suspect:
    """Return which of the values that a wrong one comes from is to blame.

    The first one that, put right, puts it right.
    """
    cone = unpaired_before(other, run.paired())
    claimed = {p: n for n, p in run.paired().items()}
    sources = unpaired_before(given, claimed)
    for source, place, position in islice(_candidates(run, cone, sources[:-1]), _TRIES):
        edge = None
        if position is not None:
            edge = list(place.operand_nodes())[position]
            right = _as(edge, run.given[source])
            got = run.value(edge)
            healed = run.again(cone, {}, edge=(place, position, right))
        else:
            right = _as(place, run.given[source])
            got = run.again(cone[: cone.index(place) + 1], {})
            healed = run.again(cone, {place: right})
        off = run.tolerance.compare(got, right)
        if not off.same and run.tolerance.compare(healed, want).same:
            got, right = (_as(source, v) for v in (got, right))
            off = run.tolerance.compare(got, right)
            return _suspect(run, source, edge or place, off, got, right)
    for source in sources[:-1]:
        # What a pass has made of one value may have come to stand in the place of another one.
        if run.pairing.places.is_made_of(other, source) and _is_alike(source, other):
            got, right = _as(source, run.other_value(other)), run.given[source]
            off = run.tolerance.compare(got, right)
            if not off.same:
                return _suspect(run, source, other, off, got, right)
    while _forwards(given):
        before = next(given.operand_nodes(), None)
        if before is None or before in claimed or before.shape != given.shape:
            break
        given = before
    return _suspect(run, given, other, found, run.other_value(other), want)


def _suspect(
    run: Beside, given: Node, other: Node, comparison: Comparison, got: Any, want: Any
) -> Suspect:
    operands = [run.given.tree(t) for t in given.operands]
    frames = run.frames + tuple((c, None) for c in given.callers)
    return Suspect(given, other, frames, comparison, operands, got, want)


def _forwards(node: Node) -> bool:
    """True for a copy of a value, which is never at fault."""
    return node.opcode in _FORWARDS or node.inst.spec.has(Trait.FORWARDS)


# A value of the given module, and where it may belong in the other one: at a node, or at an operand
# of one. Operands are leaves, by their numbers.
_Candidate = tuple[Node, Node, int | None]


def _candidates(run: Beside, cone: Sequence[Node], sources: Sequence[Node]) -> Iterator[_Candidate]:
    """Yield what may be to blame: first what a pass has made of a value, or what reads the same."""
    sources = [s for s in sources if s.is_array and not _forwards(s)]
    is_made_of = run.pairing.places.is_made_of
    made = {(s, n) for s in sources for n in cone[:-1] if is_made_of(n, s)}
    for source, node in product(sources, cone[:-1]):
        if (source, node) in made and _is_alike(source, node):
            yield source, node, None
    inside = set(cone)
    read = dict.fromkeys(o for n in cone for o in n.operand_nodes() if o not in inside)
    others: list[_Candidate] = []
    for source in sources:
        # If it is read already, a pass has found what is equal to it.
        is_read = any(_is_alike(source, o) and _equal(run, source, o) for o in read)
        for node, position in _positions(cone, source):
            if (source, node) not in made if position is None else not is_read:
                others.append((source, node, position))
    yield from sorted(others, key=lambda c: c[2] is not None or not _share_operands(run, *c[:2]))


def _share_operands(run: Beside, given: Node, other: Node) -> bool:
    """True if two nodes read a value that is the same one."""
    mine = set(given.operand_nodes())
    return any(run.partner(o) in mine for o in other.operand_nodes())


def _equal(run: Beside, given: Node, other: Node) -> bool:
    value = run.value(other)
    return bool(np.array_equal(_as(other, run.given[given]), value))


def _positions(cone: Sequence[Node], source: Node) -> Iterator[tuple[Node, int | None]]:
    """Yield where a value of the given module may belong."""
    for node in cone[:-1]:
        if _is_alike(source, node) and (source.opcode != "constant" or stands_at(source, node)):
            yield node, None
    if source.opcode == "constant":
        return
    inside = set(cone)
    for node in cone:
        for number, operand in enumerate(node.operand_nodes()):
            if operand not in inside and _is_alike(source, operand):
                yield node, number


def _is_alike(a: Node, b: Node) -> bool:
    """True if one array may hold what the other does: passes add and drop dimensions of size 1."""
    if not (a.is_array and b.is_array):
        return False
    x, y = a.inst.array_shape, b.inst.array_shape
    return x.element_type is y.element_type and _sizes(x.dims) == _sizes(y.dims)


def _sizes(dims: tuple[int, ...]) -> list[int]:
    return [d for d in dims if d != 1]


def _as(node: Node, value: Any) -> Any:
    """Return an array in the dimensions of a node that is alike."""
    dims = node.inst.array_shape.dims
    return (
        value if np.shape(value) == dims or not hasattr(value, "reshape") else value.reshape(dims)
    )
