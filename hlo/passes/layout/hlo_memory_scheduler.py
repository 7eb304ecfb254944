"""Scheduling for low peak memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hlo.analysis.list_scheduling import (
    Graph,
    Order,
    depth_first_order,
    list_order,
    reverse_list_order,
)
from hlo.analysis.memory import Peaks
from hlo.errors import HloError, did_you_mean
from hlo.ir import Instruction, Module
from hlo.passes.layout._memory_graph import memory_graph
from hlo.passes.layout._scheduled import mark_scheduled
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused

_ALGORITHMS: Mapping[str, Callable[[Graph], Order]] = {
    "list": list_order,
    "reverse-list": reverse_list_order,
    "dfs": depth_first_order,
    "post-order": lambda graph: graph.given[0].parent.post_order(),  # type: ignore[union-attr]
}
_BEST = "best"


@module_pass
def hlo_memory_scheduler(
    module: Module, rewrites: Rewrites, *, algorithm: str = _BEST, schedule: bool = False
) -> None:
    """Schedule instructions outside fusions for low peak memory.

    algorithm: list, reverse-list, dfs, post-order, or the best of them. An order without a lower
    peak than the current one changes nothing. schedule: mark the module as scheduled, so that its
    order is that of execution.
    """
    if algorithm != _BEST and algorithm not in _ALGORITHMS:
        names = [_BEST, *_ALGORITHMS]
        hint = did_you_mean(algorithm, names) or f"one of {', '.join(names)}"
        raise HloError.at("bad-pass-option", f"unknown algorithm {algorithm}", None, hint)
    chosen = list(_ALGORITHMS) if algorithm == _BEST else [algorithm]
    effects, peaks = rewrites.analyses.effects, Peaks()
    # Callees first: the peak inside a loop counts at its position. Inside a fusion nothing is in
    # memory.
    for comp in unfused(module):
        graph = memory_graph(
            # Side effects and random numbers keep their order.
            comp, peaks, lambda i: i.opcode != "parameter" and not effects.is_function(i)
        )  # fmt: skip
        while True:
            present = graph.peak(graph.given)
            if present <= graph.least_peak():
                break
            orders = [_parameters_first(_ALGORITHMS[name](graph)) for name in chosen]
            measured = [graph.peak(order) for order in orders]
            # Equal schedules keep the current order.
            if min(measured) >= present:
                break
            best = orders[measured.index(min(measured))]
            if not rewrites.allow("hlo_memory_scheduler.reorder", comp.root):
                return
            comp.reorder(best)
            peaks.forget(comp)
            graph = replace(graph, given=best)
    if schedule:
        mark_scheduled(module, rewrites, "hlo_memory_scheduler.mark")


def _parameters_first(order: Sequence[Instruction]) -> Order:
    """Return an order with the parameters first, whose memory is allocated anyway."""
    return sorted(order, key=lambda i: i.opcode != "parameter")
