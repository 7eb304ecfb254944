"""A topological order of a computation, maintained while instructions are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hlo.ir import Computation, Instruction

# The search for a dependence gives up after this many edges, and assumes one.
_MAX_EDGES = 512


class Group:
    """Instructions that are merged. place: position in the order, in numbers used by all groups."""

    __slots__ = ("members", "place")

    def __init__(self, inst: Instruction, place: int) -> None:
        self.members = [inst]
        self.place = place

    def users(self) -> Iterator[Instruction]:
        for inst in self.members:
            yield from inst.users
            yield from inst.control_successors

    def needs(self) -> Iterator[Instruction]:
        for inst in self.members:
            yield from inst.predecessors()


class Order:
    """The groups of a computation, at first one for each instruction, in topological order.

    Merging two visits only groups between them, and moves only those that depend on them (the
    dynamic topological order of Pearce and Kelly).
    """

    def __init__(self, comp: Computation) -> None:
        self.groups = {inst: Group(inst, n) for n, inst in enumerate(comp.in_order())}
        self._rank = {inst: group.place for inst, group in self.groups.items()}

    def merge(self, a: Group, b: Group) -> bool:
        """Merge two groups, unless one depends on the other through a third."""
        if a.place > b.place:
            a, b = b, a
        after = self._between(a, b, Group.users, lambda place: place < b.place)
        before = self._between(b, a, Group.needs, lambda place: place > a.place)
        if after is None or before is None or not before.isdisjoint(after):
            return False
        places = sorted(g.place for g in (a, b, *after, *before))
        a.members = sorted([*a.members, *b.members], key=self._rank.__getitem__)
        for inst in b.members:
            self.groups[inst] = a
        moved = [*sorted(before, key=_place), a, *sorted(after, key=_place)]
        for group, place in zip(moved, places, strict=False):
            group.place = place
        return True

    def _between(
        self,
        start: Group,
        end: Group,
        step: Callable[[Group], Iterator[Instruction]],
        is_inside: Callable[[int], bool],
    ) -> set[Group] | None:
        """Return the groups reachable from one group before the other; None if that is among them.

        Also None when the search takes too long. A direct edge between the two is ignored.
        """
        found: set[Group] = set()
        stack, edges = [start], 0
        while stack:
            group = stack.pop()
            for inst in step(group):
                edges += 1
                if edges > _MAX_EDGES:
                    return None
                other = self.groups[inst]
                if other is end:
                    if group is not start:
                        return None
                elif other is not group and is_inside(other.place) and other not in found:
                    found.add(other)
                    stack.append(other)
        return found


def _place(group: Group) -> int:
    return group.place
