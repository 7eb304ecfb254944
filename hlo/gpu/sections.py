"""The steps of a launch plan in sections, which the device can do without the host.

Launches and copies that follow one another are one section. Loops whose number of turns is known
are unrolled into sections, wholly or by as many turns as a section may have steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hlo.gpu.plan import Copy, HostCall, Launch, Place, Step, Switch, While

# A section made of several turns of a loop has so many steps at the most.
MOST_STEPS = 1024


@dataclass(frozen=True, eq=False)
class Section:
    """Launches and copies, one after the other."""

    steps: tuple[Launch | Copy, ...]


@dataclass(frozen=True, eq=False)
class Repeat:
    """Runs nodes so many times."""

    body: tuple[Node, ...]
    times: int


@dataclass(frozen=True, eq=False)
class Loop:
    """Runs `condition`, and as long as the byte at `flag` is not 0 then, `turn`.

    turn: the body and then the condition. never_ends: as of `While`.
    """

    condition: tuple[Node, ...]
    flag: Place
    turn: tuple[Node, ...]
    never_ends: str


@dataclass(frozen=True, eq=False)
class Choice:
    """Runs one of several branches, as `Switch`."""

    index: Place
    branches: tuple[tuple[Node, ...], ...]


Node = Section | Repeat | Loop | Choice | HostCall


def sections_of(steps: Iterable[Step]) -> tuple[Node, ...]:
    """Return the steps of a plan in sections."""
    found: list[Node] = []
    straight: list[Launch | Copy] = []

    def finish() -> None:
        if straight:
            found.append(Section(tuple(straight)))
            straight.clear()

    for step in steps:
        if isinstance(step, Launch | Copy):
            straight.append(step)
            continue
        nodes = _nodes(step)
        for node in nodes:
            # Short loops and what follows them are one section with what comes before.
            if isinstance(node, Section) and len(straight) + len(node.steps) <= MOST_STEPS:
                straight += node.steps
            else:
                finish()
                found.append(node)
    finish()
    return tuple(found)


def _nodes(step: While | Switch | HostCall) -> tuple[Node, ...]:
    if isinstance(step, HostCall):
        return (step,)
    if isinstance(step, Switch):
        return (Choice(step.index, tuple(map(sections_of, step.branches))),)
    if step.trips is None:
        turn = sections_of((*step.body, *step.condition))
        return (Loop(sections_of(step.condition), step.flag, turn, step.never_ends),)
    return _repeated(sections_of(step.body), step.trips)


def _repeated(body: tuple[Node, ...], times: int) -> tuple[Node, ...]:
    """Return nodes that run a body so many times."""
    if not body or not times:
        return ()
    if len(body) > 1 or not isinstance(body[0], Section):
        return (Repeat(body, times),)
    steps = body[0].steps
    at_once = min(times, max(1, MOST_STEPS // len(steps)))
    whole, rest = divmod(times, at_once)
    nodes: list[Node] = []
    unrolled = Section(steps * at_once)
    nodes.append(unrolled if whole == 1 else Repeat((unrolled,), whole))
    if rest:
        nodes.append(Section(steps * rest))
    return tuple(nodes)
