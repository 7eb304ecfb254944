"""List scheduling of a computation's instructions for low peak memory."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo.ir import Instruction

Order = list[Instruction]
# An array in memory: the instruction that defines it, and the index among its results.
Value = tuple[Instruction, Any]


@dataclass
class Graph:
    """A dependence graph of instructions, with the values that they define and use.

    given: the instructions in their current order. before: the predecessors of each. size: the
    bytes of every value. made, uses: the values that an instruction defines, and those that must
    be live while it runs. inside: its temporary memory. results: the values that are live at the
    end. Memory that every order needs, such as that of arguments, is best left out: values of 0
    bytes.
    """

    given: Order
    before: Mapping[Instruction, dict[Instruction, None]]
    size: Mapping[Value, int]
    made: Mapping[Instruction, Sequence[Value]]
    uses: Mapping[Instruction, Sequence[Value]]
    inside: Mapping[Instruction, int]
    results: frozenset[Value]
    after: dict[Instruction, dict[Instruction, None]] = field(init=False)
    users: dict[Value, list[Instruction]] = field(init=False)
    _bytes: dict[Instruction, int] = field(init=False)

    def __post_init__(self) -> None:
        self._bytes = {i: sum([self.size[v] for v in self.made[i]]) for i in self.given}
        self.after = {i: {} for i in self.given}
        self.users = {v: [] for v in self.size}
        for inst in self.given:
            for pred in self.before[inst]:
                self.after[pred][inst] = None
            for value in self.uses[inst]:
                self.users[value].append(inst)

    def bytes_of(self, inst: Instruction) -> int:
        """Return the bytes that an instruction defines."""
        return self._bytes[inst]

    def peak(self, order: Sequence[Instruction]) -> int:
        """Return the peak memory of an order."""
        last: dict[Value, Instruction] = {}
        for inst in order:
            for value in self.made[inst]:
                last[value] = inst
            for value in self.uses[inst]:
                last[value] = inst
        freed: dict[Instruction, int] = {}
        for value, inst in last.items():
            if value not in self.results:
                freed[inst] = freed.get(inst, 0) + self.size[value]
        most = now = 0
        for inst in order:
            now += self._bytes[inst]
            most = max(most, now + self.inside[inst])
            now -= freed.get(inst, 0)
        return most

    def least_peak(self) -> int:
        """Return a bound that no order's peak is below: what single instructions need."""
        size = self.size
        return max(
            sum([size[v] for v in {*self.uses[inst], *self.made[inst]}]) + self.inside[inst]
            for inst in self.given
        )


def list_order(graph: Graph) -> Order:
    """Greedy list scheduling: of the ready instructions, run the one that frees most memory;
    among equals, the one that allocates least."""
    left = {value: len(users) for value, users in graph.users.items()}
    scheduled: set[Instruction] = set()

    def gain(inst: Instruction) -> int:
        freed = sum(
            graph.size[v] for v in graph.uses[inst] if left[v] == 1 and v not in graph.results
        )
        return freed - max(graph.bytes_of(inst), graph.inside[inst])

    def done(inst: Instruction) -> list[Instruction]:
        scheduled.add(inst)
        changed = []
        for value in graph.uses[inst]:
            left[value] -= 1
            if left[value] == 1 and graph.size[value]:
                changed.append(next(u for u in graph.users[value] if u not in scheduled))
        return changed

    return _greedy(graph.given, graph.before, graph.after, gain, done)


def reverse_list_order(graph: Graph) -> Order:
    """List scheduling from the end: run last the instruction with large values and small uses."""
    wanted = set(graph.results)

    def gain(inst: Instruction) -> int:
        needed = sum(graph.size[v] for v in graph.uses[inst] if v not in wanted)
        made = sum(graph.size[v] for v in graph.made[inst] if v in wanted)
        return made - max(needed, graph.inside[inst])

    def done(inst: Instruction) -> list[Instruction]:
        new = [v for v in graph.uses[inst] if v not in wanted and graph.size[v]]
        wanted.update(graph.uses[inst])
        return [user for v in new for user in (v[0], *graph.users[v])]

    order = _greedy(graph.given[::-1], graph.after, graph.before, gain, done)
    return order[::-1]


def _greedy(
    given: Sequence[Instruction],
    before: Mapping[Instruction, dict[Instruction, None]],
    after: Mapping[Instruction, dict[Instruction, None]],
    gain: Callable[[Instruction], int],
    done: Callable[[Instruction], list[Instruction]],
) -> Order:
    """Repeatedly take the ready instruction with the largest gain; among equals the first given.

    done: called with the instruction taken; returns those whose gain may have increased.
    """
    place = {inst: n for n, inst in enumerate(given)}
    missing = {inst: len(before[inst]) for inst in given}
    best: dict[Instruction, int] = {}
    heap: list[tuple[int, int, Instruction]] = []

    def push(inst: Instruction) -> None:
        value = gain(inst)
        if best.get(inst) != value:
            best[inst] = value
            heapq.heappush(heap, (-value, place[inst], inst))

    for inst in given:
        if not missing[inst]:
            push(inst)
    order: Order = []
    while heap:
        negative, _, inst = heapq.heappop(heap)
        if best.get(inst) != -negative:
            continue  # its gain has increased since
        del best[inst]
        order.append(inst)
        for user in done(inst):
            if user in best:
                push(user)
        for follower in after[inst]:
            missing[follower] -= 1
            if not missing[follower]:
                push(follower)
    return order


def depth_first_order(graph: Graph) -> Order:
    """Depth-first order: the operands of an instruction right before it, the most expensive in
    memory first.

    As in Sethi-Ullman register allocation: the operand with the largest peak over its result
    comes first, while little else is live. Values with several users are counted for each.
    """
    need: dict[Instruction, int] = {}
    left: dict[Instruction, int] = {}
    rank: dict[Instruction, list[Instruction]] = {}
    for inst in graph.given:
        # Ordered by the peak of an operand minus its result.
        preds = sorted(graph.before[inst], key=lambda p: left[p] - need[p])
        held = most = 0
        for pred in preds:
            most = max(most, held + need[pred])
            held += left[pred]
        left[inst] = graph.bytes_of(inst)
        need[inst] = max(most, held + left[inst] + graph.inside[inst])
        rank[inst] = preds
    done: set[Instruction] = set()
    order: Order = []
    for start in (i for i in graph.given if not graph.after[i]):
        done.add(start)
        stack = [(start, iter(rank[start]))]
        while stack:
            inst, rest = stack[-1]
            for pred in rest:
                if pred not in done:
                    done.add(pred)
                    stack.append((pred, iter(rank[pred])))
                    break
            else:
                order.append(inst)
                stack.pop()
    return order
