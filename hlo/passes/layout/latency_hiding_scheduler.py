"""Scheduling that hides communication behind computation."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from hlo.analysis.effects import Effects
from hlo.analysis.list_scheduling import Graph, Order
from hlo.analysis.memory import Peaks
from hlo.analysis.network.costs import Network
from hlo.analysis.network.transfers import synchronous
from hlo.analysis.simulation.durations import Durations, begun_by, is_done, is_start
from hlo.analysis.simulation.machine import Machine
from hlo.ir import Instruction, Module
from hlo.ops import Trait
from hlo.passes.layout._memory_graph import memory_graph
from hlo.passes.layout._scheduled import mark_scheduled
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites

# How many collectives are under way at once; schedules with fewer need less memory.
_OPEN = (1 << 30, 8, 4, 2, 1)
# Times that differ by less than this part are equal: they are estimates.
_SAME = 1e-3


@module_pass
def latency_hiding_scheduler(
    module: Module,
    rewrites: Rewrites,
    *,
    memory_ratio: float = 1.1,
    flops: float = 100e12,
    memory_bandwidth: float = 2e12,
    network_bandwidth: float = 50e9,
    network_latency: float = 2e-6,
    schedule: bool = False,
) -> None:
    """Schedule starts of asynchronous collectives early and their dones late, to hide the time.

    Of several orders the one that takes least by the cost model, where its peak memory is at most
    memory_ratio times that of the order before. flops, memory_bandwidth: operations and bytes of
    memory per second; network_bandwidth, network_latency: bytes that a device sends per second, and
    seconds of a message. schedule: mark the module as scheduled.
    """
    if not schedule and not any(map(is_start, module.instructions())):
        return
    machine, network = Machine(flops, memory_bandwidth), Network(network_bandwidth, network_latency)
    durations = Durations(module, machine, network)
    effects, peaks = Effects(), Peaks()

    def keeps_order(inst: Instruction) -> bool:
        # All devices run the same order, whichever it is, so collectives meet in any.
        free = inst.opcode == "parameter" or _is_collective(inst) or effects.is_function(inst)
        return not free

    # Callees first: what a loop takes counts where it stands.
    for comp in module.callees_first():
        if not any(map(is_start, comp)):
            continue
        graph = memory_graph(comp, peaks, keeps_order)
        most = memory_ratio * graph.peak(graph.given)
        while (best := _better(graph, durations, most)) is not None:
            if not rewrites.allow("latency_hiding_scheduler.reorder", comp.root):
                return
            comp.reorder(best)
            peaks.forget(comp)
            durations.forget(comp)
            # From a better order there may be one that is better still.
            graph = memory_graph(comp, peaks, keeps_order)
    if schedule:
        mark_scheduled(module, rewrites, "latency_hiding_scheduler.mark")


def _better(graph: Graph, durations: Durations, most_bytes: float) -> Order | None:
    """Return an order that takes less time than the given one, None if none is found."""
    best, least = None, durations.makespan(graph.given) * (1 - _SAME)
    for order in _orders(graph, durations):
        seconds = durations.makespan(order)
        if seconds < least and graph.peak(order) <= most_bytes:
            best, least = order, seconds
    return best


def _is_collective(inst: Instruction) -> bool:
    return is_start(inst) or is_done(inst) or inst.spec.has(Trait.COLLECTIVE)


def _orders(graph: Graph, durations: Durations) -> list[Order]:
    """Return candidates: one near the given order, and those by the longest path to the end."""
    place = {inst: n for n, inst in enumerate(graph.given)}
    # A done right before its first user.
    near = {
        inst: min((place[u] for u in graph.after[inst]), default=len(place)) - 0.5
        if is_done(inst)
        else -1.0
        if is_start(inst) or inst.opcode == "parameter"
        else float(place[inst])
        for inst in graph.given
    }
    orders = [_scheduled(graph, near, most) for most in _OPEN]
    path = _longest_paths(graph, durations)
    far = {
        inst: -1.0 if inst.opcode == "parameter" else 1.0 - path[inst] / (1 + max(path.values()))
        for inst in graph.given
    }
    return orders + [_scheduled(graph, far, most, durations) for most in _OPEN]


def _longest_paths(graph: Graph, durations: Durations) -> dict[Instruction, float]:
    """Return the seconds from the begin of each instruction to the end of the computation."""
    found: dict[Instruction, float] = {}
    for inst in reversed(graph.given):
        after = max((found[u] for u in graph.after[inst]), default=0.0)
        found[inst] = after + durations.computing(inst) + durations.sending(inst)
    return found


def _scheduled(
    graph: Graph,
    rank: Mapping[Instruction, float],
    most_open: int,
    durations: Durations | None = None,
) -> Order:
    """Return a list schedule: of the ready instructions the one of least rank.

    most_open: how many collectives may be under way, where anything else is ready. durations: a
    done is not ready until its collective has ended, unless nothing else is.
    """
    return _ListSchedule(graph, rank, most_open, durations).run()


class _ListSchedule:
    def __init__(
        self,
        graph: Graph,
        rank: Mapping[Instruction, float],
        most_open: int,
        durations: Durations | None,
    ) -> None:
        self._graph, self._rank, self._most_open = graph, rank, most_open
        self._durations = durations
        self._place = {inst: n for n, inst in enumerate(graph.given)}
        self._ready: list[tuple[float, int, Instruction]] = []
        # Dones of collectives under way, by when these end; starts that have to wait for others.
        self._waiting: list[tuple[float, int, Instruction]] = []
        self._held: list[tuple[float, int, Instruction]] = []
        self._ends: dict[Instruction, float] = {}
        self._now = self._network = 0.0
        self._open = 0

    def run(self) -> Order:
        graph = self._graph
        missing = {inst: len(graph.before[inst]) for inst in graph.given}
        for inst in graph.given:
            if not missing[inst]:
                self._push(inst)
        order: Order = []
        while len(order) < len(graph.given):
            inst = self._next()
            order.append(inst)
            self._advance(inst)
            for follower in graph.after[inst]:
                missing[follower] -= 1
                if not missing[follower]:
                    self._push(follower)
        return order

    def _push(self, inst: Instruction) -> None:
        if self._durations is not None and is_done(inst):
            end = self._ends[begun_by(inst)]
            heapq.heappush(self._waiting, (end, self._place[inst], inst))
        else:
            heapq.heappush(self._ready, (self._rank[inst], self._place[inst], inst))

    def _next(self) -> Instruction:
        while self._waiting and self._waiting[0][0] <= self._now:
            _, place, inst = heapq.heappop(self._waiting)
            heapq.heappush(self._ready, (self._rank[inst], place, inst))
        while self._ready:
            entry = heapq.heappop(self._ready)
            if not is_start(entry[2]) or self._open < self._most_open:
                return entry[2]
            heapq.heappush(self._held, entry)
        first = self._waiting or self._held
        return heapq.heappop(first)[2]

    def _advance(self, inst: Instruction) -> None:
        if is_start(inst):
            self._open += 1
        elif is_done(inst):
            self._open -= 1
            for entry in self._held:
                heapq.heappush(self._ready, entry)
            self._held.clear()
        if self._durations is None:
            return
        if is_done(inst):
            self._now = max(self._now, self._ends[begun_by(inst)])
        elif synchronous(inst) is not None:
            self._network = max(self._now, self._network) + self._durations.sending(inst)
            self._ends[inst] = self._network
            if not is_start(inst):
                self._now = self._network
        else:
            self._now += self._durations.computing(inst)
