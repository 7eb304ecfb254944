"""Which of equivalent ways is the fastest, by measuring whole programs kernel by kernel.

A program is compiled once for each number of a way, not for each site: in the second program all
sites go their second way, and the times of their kernels tell them apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hlo.codegen.choices import Choices, Site
from hlo.compiler.tuning.record import Tuning
from hlo.compiler.tuning.timing import KernelTimes
from hlo.runtime.executable import Executable

# What another way must win to be taken: less is noise.
_GAIN = 0.97
# Turns in which all programs run, at the least and the most.
_FEWEST_TURNS, _MOST_TURNS = 3, 50
# The part of the time that goes to comparing whole programs at the end.
_CONFIRMING = 0.2

# Compiles a module with choices and an instrumentation, if any.
Compiler = Callable[[Choices, KernelTimes | None], Executable]


class _Candidate:
    """A program in which every site goes its way of one number."""

    def __init__(self, compiled: Compiler, triple: str, taken: Mapping[str, str]) -> None:
        self.choices = Choices(taken)
        self.times = KernelTimes(triple)
        self.run = compiled(self.choices, self.times)
        # The least ticks of a run, by instruction.
        self.least: dict[str, int] = {}

    def measure(self, values: list[Any]) -> None:
        self.run.run_values(values)
        for name, ticks in self.times.taken().items():
            self.least[name] = min(ticks, self.least.get(name, ticks))

    def ticks(self, site: Site) -> int:
        return sum(self.least.get(name, 0) for name in site.instructions)


def tune(
    compiled: Compiler, inputs: Callable[[Executable], list[Any]], triple: str, processor: str,
    seconds: float, known: Tuning,
) -> Tuning:  # fmt: skip
    """Return the fastest way at each site of a module; it takes about so many seconds.

    inputs: makes a checked value for each parameter. triple, processor: of this machine. known:
    what need not be measured again. Whatever does not make the whole program faster is not taken.
    """
    end = time.perf_counter() + seconds
    first = _Candidate(compiled, triple, known.choices)
    spent = time.perf_counter() + seconds - end
    sites = {
        key: site for key, site in first.choices.sites.items()
        if len(site.ways) > 1 and key not in known.choices
    }  # fmt: skip
    if not sites:
        return known
    candidates = [first]
    for number in range(1, max(len(site.ways) for site in sites.values())):
        # Compiling all takes half of the time at the most; the programs of the last ways are those
        # that the estimate expects the least of.
        if number > 1 and time.perf_counter() + spent > end - seconds / 2:
            break
        ways = {k: s.ways[number] for k, s in sites.items() if number < len(s.ways)}
        candidates.append(_Candidate(compiled, triple, {**known.choices, **ways}))

    values = inputs(first.run)
    _in_turns([partial(c.measure, values) for c in candidates], end - _CONFIRMING * seconds)
    found = {key: _fastest(key, site, candidates) for key, site in sites.items()}
    if all(way == sites[key].ways[0] for key, way in found.items()):
        return known.merged(Tuning(processor, found))

    programs = [compiled(Choices(c), None) for c in (known.choices, {**known.choices, **found})]
    before, after = _in_turns([partial(p.run_values, values) for p in programs], end)
    if after >= before:
        found = {key: site.ways[0] for key, site in sites.items()}
    return known.merged(Tuning(processor, found))


def _fastest(key: str, site: Site, candidates: list[_Candidate]) -> str:
    """Return the way of the candidate in which the kernels of a site took the least time."""
    first, *others = candidates
    best, least = site.ways[0], first.ticks(site) * _GAIN
    for candidate in others:
        took = candidate.ticks(site)
        if key in candidate.choices.taken and took < least:
            best, least = candidate.choices.taken[key], took
    return best


def _in_turns(runs: list[Callable[[], Any]], end: float) -> list[float]:
    """Run all in turns until the time has come; returns the least seconds of each.

    The first turn is not counted: it is the one that touches memory for the first time.
    """
    least = [float("inf")] * len(runs)
    for turn in range(1 + _MOST_TURNS):
        if turn > _FEWEST_TURNS and time.perf_counter() > end:
            break
        for n, run in enumerate(runs):
            start = time.perf_counter()
            run()
            if turn:
                least[n] = min(least[n], time.perf_counter() - start)
    return least
