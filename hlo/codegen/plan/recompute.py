"""Rematerialization of cheap values for late uses, at the peak of the arena.

A network's activations are live from the forward to the backward pass. Many are a few operations on
another value that is live as well: recomputing them takes less time than the system takes for the
first use of the memory that they would occupy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from hlo.analysis.fusion.operations import CHEAP, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.analysis.list_scheduling import Graph, Order
from hlo.codegen.plan.liveness import Liveness, Storage
from hlo.ir import Computation, Instruction

# Rematerialization is not worth it for smaller arenas.
_LARGE_BYTES = 1 << 28
# Values that are split at once, and the reduction of the peak that this has to achieve.
_BATCH = 8
_GAIN = 0.002
# The part of its savings that a copy may cost by extending other live ranges.
_KEPT = 0.25
# They are not executed: their position in the order means nothing.
_PASSIVE = (Role.FUSED, Role.ALIAS)


def recompute(
    comp: Computation, graph: Graph, order: Order, live: Liveness, updated: Collection[Storage]
) -> Order:
    """Add copies of cheap values to a computation; returns the order with them.

    order: the schedule. updated: values that are updated in place.
    """
    work = _Work(graph, live, updated, [i for i in order if live.roles[i] not in _PASSIVE])
    while work.peak >= _LARGE_BYTES and work.round():
        pass
    if not work.copies:
        return order
    for copy in work.copies:
        comp.add(copy)
    return _with_passive(comp, work.order)


@dataclass
class _Split:
    """A value and its copy, and the users of the copy."""

    value: Storage
    copy: Instruction
    made: list[Instruction]
    users: list[tuple[Instruction, int]]
    readers: list[Instruction]


@dataclass
class _Work:
    """The schedule, and the values in memory at each position."""

    graph: Graph
    live: Liveness
    updated: Collection[Storage]
    order: Order
    copies: list[Instruction] = field(default_factory=list)
    peak: int = 0

    def __post_init__(self) -> None:
        self.size = dict(self.graph.size)
        self.made = {i: list(self.graph.made[i]) for i in self.order}
        self.uses = {i: list(self.graph.uses[i]) for i in self.order}
        self._walk()

    def _walk(self) -> None:
        """Find the peak."""
        self.place = {inst: n for n, inst in enumerate(self.order)}
        self.last: dict[Storage, int] = {}
        for n, inst in enumerate(self.order):
            self.last.update(dict.fromkeys((*self.made[inst], *self.uses[inst]), n))
        ends = [0] * len(self.order)
        for value, n in self.last.items():
            ends[n] += self.size[value]
        self.peak = now = self.at = 0
        for n, inst in enumerate(self.order):
            now += sum(self.size[v] for v in self.made[inst])
            if now > self.peak:
                self.peak, self.at = now, n
            now -= ends[n]

    def round(self) -> bool:
        """Split some values that are live at the peak; False if that does not help."""
        before, order = self.peak, self.order
        waiting = [
            v for i in order[: self.at] for v in self.made[i]
            if self.last[v] > self.at and v not in self.uses[order[self.at]]
        ]  # fmt: skip
        # Of equals the one defined last: others may be live for it.
        waiting.sort(key=lambda v: (-self.size[v], -self.place[v[0]]))
        splits: list[_Split] = []
        ahead: dict[Instruction, list[Instruction]] = {}
        for value in waiting:
            split = self._split(value, ahead)
            if split is not None:
                splits.append(split)
                if len(splits) == _BATCH:
                    break
        self.order = _with(order, ahead)
        self._walk()
        if self.peak < before * (1 - _GAIN):
            self.copies += [i for split in splits for i in split.made]
            return True
        for split in reversed(splits):
            self._undo(split)
        self.order = order
        self._walk()
        return False

    def _split(self, value: Storage, ahead: dict[Instruction, list[Instruction]]) -> _Split | None:
        """Give the late readers of a value a copy, if that is cheap and possible."""
        inst = value[0]
        if self.live.roles[inst] is not Role.KERNEL or not is_on_demand(inst):
            return None
        if value in self.updated or value in self.graph.results:
            return None
        if any(v in self.updated for v in self.uses[inst]):
            return None
        chain = self._chain(inst)
        if sum(i.spec.cost for i in chain) > CHEAP:
            return None
        users, readers = [], dict[Instruction, None]()
        for user in inst.users:
            found = self._readers(user)
            late = [self.place[r] > self.at for r in found]
            if any(late):
                if not all(late):
                    return None
                readers |= dict.fromkeys(found)
                users += [(user, n) for n, o in enumerate(user.operands) if o is inst]
        if not readers:
            return None
        first = min(readers, key=lambda r: self.place[r])
        kept = sum(self.size[v] for v in self.uses[inst] if self.last[v] < self.place[first])
        if kept > _KEPT * self.size[value]:
            return None
        made: dict[Instruction, Instruction] = {}
        for node in chain:
            made[node] = node.clone([made.get(o, o) for o in node.operands])
            self.live.roles[made[node]] = self.live.roles[node]
        copy = made[inst]
        for user, n in users:
            user.replace_operand(n, copy)
        self.made[copy], self.uses[copy] = [(copy, ())], list(self.uses[inst])
        self.size[copy, ()] = self.size[value]
        for reader in readers:
            self._replace(reader, value, (copy, ()))
        self.place[copy] = self.place[first]
        for v in self.uses[inst]:
            self.last[v] = max(self.last[v], self.place[first])
        ahead.setdefault(first, []).append(copy)
        return _Split(value, copy, list(made.values()), users, list(readers))

    def _replace(self, reader: Instruction, old: Storage, new: Storage) -> None:
        self.uses[reader] = [new if v == old else v for v in self.uses[reader]]

    def _undo(self, split: _Split) -> None:
        for user, n in split.users:
            user.replace_operand(n, split.value[0])
        for reader in split.readers:
            self._replace(reader, (split.copy, ()), split.value)
        del self.made[split.copy], self.uses[split.copy]
        for inst in reversed(split.made):
            inst.drop_edges()

    def _chain(self, inst: Instruction) -> list[Instruction]:
        """Return an instruction and what is fused into it, operands first."""
        found: list[Instruction] = []
        stack, seen = [(inst, False)], {inst}
        while stack:
            node, is_done = stack.pop()
            if is_done:
                found.append(node)
                continue
            stack.append((node, True))
            for operand in node.operands:
                if operand not in seen and self.live.roles[operand] is Role.FUSED:
                    seen.add(operand)
                    stack.append((operand, False))
        return found

    def _readers(self, user: Instruction) -> list[Instruction]:
        """Return the scheduled instructions that read a value through a user."""
        found: dict[Instruction, None] = {}
        stack = [user]
        while stack:
            node = stack.pop()
            if self.live.roles[node] in _PASSIVE:
                stack += node.users
            else:
                found[node] = None
        return list(found)


def _with(order: Order, ahead: dict[Instruction, list[Instruction]]) -> Order:
    """Return an order with other instructions inserted before some, in their own order."""
    found: Order = []
    stack = order[::-1]
    while stack:
        inst = stack.pop()
        before = ahead.pop(inst, None)
        if before is None:
            found.append(inst)
        else:
            stack += [inst, *reversed(before)]
    return found


def _with_passive(comp: Computation, order: Sequence[Instruction]) -> Order:
    """Return an order of all instructions, with those not executed before their first user."""
    found: dict[Instruction, None] = {}
    stack = [iter((*order, *comp))]
    # The current path, outermost first.
    path: list[Instruction] = []
    while stack:
        inst = next(stack[-1], None)
        if inst is not None:
            if inst not in found:
                path.append(inst)
                stack.append(inst.predecessors())
            continue
        stack.pop()
        if path:
            found[path.pop()] = None
    return list(found)
