"""Which values of two computations stand for the same: by structure, by names, by source positions.

Passes keep the name of what they leave, and the span of what they rewrite, with the call sites of
what they inline. What neither says is found from operands and from users.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

from hlo.debug.divergence.nodes import Actions, Node, Region, flat, leaves
from hlo.debug.divergence.origins import Origins
from hlo.ir import Instruction
from hlo.values.types import ArrayShape

CONTROL = frozenset({"while", "conditional"})
# Pairs of elements of the states of two loops, by their numbers.
Elements = frozenset[tuple[int, int]]


class Pairing:
    """Pairs of nodes of two regions, the given one and the other.

    of: the given node for a node of the other region. claimed: the other way around, the last
    where there are several. known: pairs of instructions from elsewhere. unlike: elements of the
    parameters, the states of two loops, that are no pairs. origins: annotations of two modules.
    """

    def __init__(
        self, given: Region, other: Region, actions: Actions,
        known: Mapping[Instruction, Instruction] | None = None, unlike: Elements = frozenset(),
        origins: Origins | None = None,
    ) -> None:  # fmt: skip
        self.of: dict[Node, Node] = {}
        self.claimed: dict[Node, Node] = {}
        self._exact: dict[Node, bool] = {}
        self._given, self._other = given, other
        self._actions = actions
        self._known = known or {}
        self._unlike = unlike
        self._by_path: dict[tuple[str, ...], Node] = {n.path: n for n in given.nodes}
        self._by_inst: dict[Instruction, list[Node]] = defaultdict(list)
        for node in given.nodes:
            self._by_inst[node.inst].append(node)
        self._by_action: dict[Hashable, list[Node]] = defaultdict(list)
        for node in given.nodes:
            if node.opcode != "parameter":
                self._by_action[self._action(node, None)].append(node)
        self.places = Places(given, origins)
        self._located = Counter(
            (place, n.opcode) for n in other.nodes if (place := self.places.of(n))
        )
        for p, q in zip(given.parameters, other.parameters, strict=False):
            if p.shape == q.shape or (p.is_array and _same_array(p, q)):
                self._pair(p, q)
        self._forward()
        self._by_root()
        self._backward()
        self._by_span()
        self._forward()
        self._backward()
        self._exact.clear()

    def is_exact(self, node: Node) -> bool:
        """True if a node of the other region does what its partner does, to the same values."""
        found = self._exact.get(node)
        if found is None:
            found = self._exact[node] = self._is_exact(node)
        return found

    def _is_exact(self, node: Node) -> bool:
        partner = self.of.get(node)
        if partner is None or node.opcode == "parameter":
            return partner is not None and (partner.is_array or not self._unlike)
        if self._actions.key(node.inst) != self._actions.key(partner.inst):
            return False
        mine, its = list(node.operand_nodes()), list(partner.operand_nodes())
        return len(mine) == len(its) and all(
            # Values of several arrays are not compared themselves, but each array taken of them.
            self.of.get(a) is b and (a.is_array or self.is_exact(a))
            for a, b in zip(mine, its, strict=True)
        )

    def _pair(self, given: Node, other: Node) -> None:
        if self._unlike and self._are_unlike(given, other):
            return
        self.of[other] = given
        self.claimed[given] = other

    def _are_unlike(self, given: Node, other: Node) -> bool:
        """True for elements of two states that are no pair."""
        if not given.opcode == other.opcode == "get-tuple-element":
            return False
        mine, its = given.operands[0], other.operands[0]
        return (
            mine in self._given.parameters
            and its in self._other.parameters
            and (given.inst.tuple_index, other.inst.tuple_index) in self._unlike
        )

    def _action(self, node: Node, partners: Mapping[Node, Node] | None) -> Hashable:
        operands = tuple(
            id(n if partners is None else partners.get(n)) for n in node.operand_nodes()
        )
        return self._actions.key(node.inst), operands

    def _forward(self) -> None:
        """Pair nodes in order: by what they do to paired operands, and by their names."""
        for node in self._other.nodes:
            if node in self.of or node.opcode == "parameter":
                continue
            named = self._named(node)
            if named is not None and named not in self.claimed and _fits(named, node):
                self._pair(named, node)
            elif all(o in self.of for o in node.operand_nodes()):
                same = self._by_action.get(self._action(node, self.of), [])
                if same:
                    self._pair(next((n for n in same if n not in self.claimed), same[0]), node)

    def _named(self, node: Node) -> Node | None:
        """Return what has the name of a node, and is not known to be something else."""
        place, has_origin = self.places.of(node), node in self.places.from_origins
        found = self._by_path.get(node.path)
        if found is not None and found.opcode == node.opcode:
            if place and place == self.places.of(found):
                return found
        if (len(place) > 1 or has_origin) and self._located[place, node.opcode] == 1:
            # Inlined, and no rewrite has made others of this kind of it.
            there = self.places.at(place)
            return there if there is not None and there.opcode == node.opcode else None
        known = self._known.get(node.inst)
        if known is not None:
            return self._most_alike(self._by_inst[known], node)
        if found is None:
            return None
        if place != self.places.of(found) and (has_origin or _share_text(found, node)):
            return None  # a name that became free, and was given again
        if not place and found.inst.span is not None and found.opcode != node.opcode:
            return None
        return found

    def _most_alike(self, given: Sequence[Node], other: Node) -> Node | None:
        """Return that of an instruction's nodes, one a call, whose operands are a node's."""

        def likeness(node: Node) -> tuple[int, bool, bool]:
            pairs = zip(node.operand_nodes(), other.operand_nodes(), strict=False)
            alike = sum(self.of.get(b) is a for a, b in pairs)
            return alike, node not in self.claimed, not node.callers

        return max(given, key=likeness, default=None)

    def _by_root(self) -> None:
        mine, its = flat(self._other.root), flat(self._given.root)
        if len(mine) == len(its):
            for b, a in zip(mine, its, strict=True):
                if b not in self.of and a not in self.claimed and _fits(a, b):
                    self._pair(a, b)

    def _backward(self) -> None:
        """Pair what paired operations of one kind use in the same place."""
        for node in reversed(self._other.nodes):
            partner = self.of.get(node)
            if partner is None or partner.opcode != node.opcode:
                continue
            mine, its = list(node.operand_nodes()), list(partner.operand_nodes())
            if len(mine) != len(its):
                continue
            for b, a in zip(mine, its, strict=True):
                if b in self.of or a in self.claimed or not _fits(a, b):
                    continue
                if a.opcode == "constant":
                    if stands_at(a, b):
                        self._pair(a, b)
                elif b.inst.span is None or (a.opcode == b.opcode and not self._is_another(a, b)):
                    self._pair(a, b)

    def _is_another(self, given: Node, other: Node) -> bool:
        """True if a node is, by its place, another one of the given region."""
        found = self.places.at(self.places.of(other))
        return found is not None and found is not given and found.opcode == other.opcode

    def _by_span(self) -> None:
        """Pair what a pass has made with what it was made of, which stands at the same place.

        A rewrite makes operands before results: the last one with the shape is the value.
        """
        places: dict[Place, list[Node]] = defaultdict(list)
        for node in self._given.nodes:
            if node not in self.claimed and node.inst.span is not None:
                places[self.places.of(node)].append(node)
        copies: dict[tuple[Place, str], Node] = {}
        for node in reversed(self._other.nodes):
            place = self.places.of(node)
            if node in self.of or not place or node.opcode == "constant":
                continue
            # Fusions have copies of what they compute again, under its name.
            twin = copies.get((place, node.inst.name))
            if twin is not None and twin.callers != node.callers and twin.shape == node.shape:
                self.of[node] = self.of[twin]
                continue
            inner = any(self.places.of(u) == place for u in node.users)
            for candidate in reversed(places.get(place, ())):
                if inner and candidate.opcode != node.opcode:
                    continue
                if candidate not in self.claimed and _fits(candidate, node):
                    self._pair(candidate, node)
                    copies[place, node.inst.name] = node
                    break


# The span of an instruction and those of the calls that lead to it; empty without a span.
Place = tuple[int, ...]


class Places:
    """Where nodes come from: their spans, and the call sites that they are seen or inlined at.

    from_origins: the nodes whose `origin` says it.
    """

    def __init__(self, given: Region, origins: Origins | None) -> None:
        self.from_origins: set[Node] = set()
        self._given, self._origins = given, origins
        self._sites = {
            id(c.span.original) for n in given.nodes for c in n.callers if c.span is not None
        }
        self._known = {n: self._place(n) for n in given.nodes}
        self._nodes = {place: n for n, place in self._known.items() if place}

    def of(self, node: Node) -> Place:
        """Return the place of a node of either region."""
        place = self._known.get(node)
        if place is None:
            found = None if self._origins is None else self._origins.of(node, self._given)
            if found is not None:
                self.from_origins.add(node)
            place = self._known[node] = self._place(node) if found is None else self._known[found]
        return place

    def is_made_of(self, other: Node, given: Node) -> bool:
        """True if a pass has made one at the place of the other."""
        return self.of(other) == self.of(given) != ()

    def at(self, place: Place) -> Node | None:
        """Return the node of the given region at a place."""
        return self._nodes.get(place)

    def _place(self, node: Node) -> Place:
        span = node.inst.span
        if span is None:
            return ()
        sites = list(span.call_sites)
        for caller in reversed(node.callers):
            # Fusions that passes have made are no call sites of the given module.
            if caller.span is not None and id(caller.span.original) in self._sites:
                sites += [caller.span.original, *caller.span.call_sites]
        return (id(span.original), *map(id, sites))


def _share_text(given: Node, other: Node) -> bool:
    a, b = given.inst.span, other.inst.span
    return a is not None and b is not None and a.source is b.source


def stands_at(given: Node, other: Node) -> bool:
    """True if name or place in the text say that one is the other; where nothing says, too."""
    a, b = given.inst, other.inst
    if a.name == b.name:
        return True
    if a.span is None or b.span is None:
        return a.span is b.span
    return a.span.source is not b.span.source or a.span.original is b.span.original


def _fits(given: Node, other: Node) -> bool:
    """True if one may stand for the other: arrays of one shape, or both control flow."""
    if given.opcode in CONTROL or other.opcode in CONTROL:
        return given.opcode == other.opcode
    if given.opcode == "parameter" or other.opcode == "parameter":
        return False
    return _same_array(given, other)


def _same_array(given: Node, other: Node) -> bool:
    a, b = given.shape, other.shape
    return (
        isinstance(a, ArrayShape)
        and isinstance(b, ArrayShape)
        and a.dims == b.dims
        and a.element_type is b.element_type
    )


def unpaired_before(node: Node, paired: Mapping[Node, Node]) -> list[Node]:
    """Return the nodes that a node depends on by way of nodes without a partner, itself last."""
    found = {node}
    stack = [node]
    while stack:
        for operand in stack.pop().operand_nodes():
            if operand not in paired and operand not in found and operand.opcode != "parameter":
                found.add(operand)
                stack.append(operand)
    return sorted(found, key=lambda n: n.number)


def state_pairs(given: Region, other: Region, pairing: Pairing) -> list[tuple[int, int]]:
    """Return which elements of the states of two loop bodies stand for the same.

    Both have one parameter, a tuple; its elements are used by way of get-tuple-element.
    """
    if given.parameters[0].shape == other.parameters[0].shape:
        return [(n, n) for n in range(_width(given))]
    found = set()
    for b, a in pairing.of.items():
        if a.opcode == b.opcode == "get-tuple-element" and (
            a.operands[0] is given.parameters[0] and b.operands[0] is other.parameters[0]
        ):
            found.add((a.inst.tuple_index, b.inst.tuple_index))
    return sorted(found)


def _width(region: Region) -> int:
    return len(region.root) if isinstance(region.root, tuple) else len(list(leaves(region.root)))
