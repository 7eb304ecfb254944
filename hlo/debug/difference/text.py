"""A difference as text: a summary, the patterns by cost, and the lines of both sides."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from hlo.analysis.cost import Cost
from hlo.analysis.source_location import source_location
from hlo.debug.difference.changes import ADDED, CHANGED, MOVED, Change
from hlo.debug.difference.clusters import RUNS
from hlo.debug.difference.record import Pattern, Record
from hlo.frontends.text import PrintOptions, print_instruction
from hlo.ir import Instruction
from hlo.reports.numbers import bytes_text, count_text
from hlo.support.quantities import quantity_text

# Places of a pattern that are shown, and changes of a place.
SHOWN = 3
# Places of more instructions than this are shown once; and of a place so many instructions.
_SMALL, _LARGE = 4, 12
# Users of an added instruction that are shown.
_USERS = 2
_LINE = PrintOptions(constant_limit=10, metadata=False, index_comments=False)
# Attributes of instructions are cut where a line becomes longer than this.
_WIDTH = 300


def report(difference: Record, *, shown: int | None = SHOWN) -> str:
    """Return a report as lines of text.

    shown: places of each pattern, None for all.
    """
    return "\n".join(_lines(difference, shown)) + "\n"


def _lines(difference: Record, shown: int | None) -> Iterator[str]:
    if not difference:
        yield "no difference"
        return
    yield f"--- {difference.names[0]}"
    yield f"+++ {difference.names[1]}"
    yield difference.summary
    if cost := cost_sentence(difference):
        yield cost
    for detail in difference.header:
        yield ""
        yield f"header: {detail.what}"
        yield f"- {detail.left or 'none'}"
        yield f"+ {detail.right or 'none'}"
    for pattern in difference.patterns:
        yield ""
        yield headline(pattern)
        places = pattern.places if shown is None else pattern.places[:shown]
        for n, place in enumerate(places):
            if shown is None:
                most = len(place)
            elif n == 0 or len(place) <= _SMALL:
                most = _LARGE
            else:
                most = 1
            yield from _place(place, most)
        if rest := len(pattern.places) - len(places):
            yield f"  ... and {rest} more such place{'s' if rest > 1 else ''}"


def headline(pattern: Pattern) -> str:
    """Return what happened, how often and at what cost."""
    count = f"{len(pattern.places)} x " if len(pattern.places) > 1 else ""
    cost = cost_text(pattern.cost)
    if cost and pattern.seconds:
        cost += f", about {signed_time(pattern.seconds)}"
    return f"{count}{pattern.words}" + (f"  ({cost})" if cost else "")


def _place(changes: Sequence[Change], most: int) -> Iterator[str]:
    """Yield the changes of a place, at most some, those that hold others first."""
    changes = sorted(changes, key=lambda c: not _holds_others(c))
    where = changes[0].instructions[0].parent
    assert where is not None
    is_entry = where.module is not None and where.module.entry is where
    yield f"  @@ {'ENTRY ' if is_entry else ''}{where.name} @@"
    # One more is not longer than the line that says that there is one more.
    count = len(changes) if len(changes) <= most + 1 else most
    added = {c.right for c in changes if c.kind == ADDED}
    for change in changes[:count]:
        yield from _change(change)
        if change.kind == ADDED and change.right is not None:
            yield from _users(change.right, added)
    if rest := len(changes) - count:
        yield f"    ... and {rest} more instructions"


def _change(change: Change) -> Iterator[str]:
    if change.kind == MOVED:
        assert change.left is not None and change.right is not None
        assert change.right.parent is not None
        yield f"  > {instruction_line(change.left)}    now in {change.right.parent.name}"
        return
    if change.left is not None:
        yield f"  - {instruction_line(change.left)}"
    if change.right is not None:
        yield f"  + {instruction_line(change.right)}"
    if change.kind == CHANGED:
        for detail in change.details:
            yield f"      {detail}"


def _users(inst: Instruction, added: set[Instruction | None]) -> Iterator[str]:
    """Yield the users of an added instruction that are not added with it."""
    users = [u for u in inst.users if u not in added]
    for user in users[:_USERS]:
        yield f"      used by {instruction_line(user)}"
    if (rest := len(users) - _USERS) > 0:
        yield f"      ... and {rest} more user{'s' if rest > 1 else ''}"


def _holds_others(change: Change) -> bool:
    """True for a fusion, call or loop that only one side has."""
    is_alone = change.left is None or change.right is None
    return is_alone and change.instructions[0].opcode in RUNS


def instruction_line(inst: Instruction) -> str:
    """Return an instruction with its place, as `m.hlo:12: %x = ...`; the header has the folder."""
    text = short_line(inst)
    place = source_location(inst)
    if not place.hlo_file:
        return text
    return f"{os.path.basename(place.hlo_file)}:{place.hlo_line}: {text}"


def short_line(inst: Instruction) -> str:
    """Return the text of an instruction without metadata, cut where it is very long."""
    text = print_instruction(inst, _LINE)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


# --- costs --------------------------------------------------------------------------------------


def cost_sentence(difference: Record) -> str:
    """Return what a run of the right module costs more, or nothing if that is nothing."""
    more, (left, _) = difference.more, difference.totals
    parts = []
    for what, unit, n, before in (
        ("arithmetic", "flop", more.operations, left.operations),
        ("transcendentals", "", more.transcendentals, left.transcendentals),
        ("memory traffic", "B", more.bytes, left.bytes),
    ):
        if n:
            size = bytes_text(abs(n)) if unit == "B" else f"{count_text(abs(n))} {unit}".strip()
            share = f" ({n / before:+.1%})" if before else ""
            parts.append(f"{what} {'+' if n > 0 else '-'}{size}{share}")
    if not parts:
        return ""
    text = "cost of a run: " + ", ".join(parts)
    seconds = difference.seconds
    if seconds:
        text += f"; about {signed_time(seconds)} at {difference.machine}"
    if rest := cost_text(difference.elsewhere):
        text += f"\nof which in instructions that did not change: {rest}"
    if not more.exact:
        text += "\n(loops of unknown length count as one iteration, custom calls as their traffic)"
    return text


def cost_text(cost: Cost) -> str:
    """Return what is not nothing of a cost, signed."""
    parts = []
    if cost.operations:
        parts.append(f"{_sign(cost.operations)}{count_text(abs(cost.operations))} flop")
    if cost.transcendentals:
        parts.append(
            f"{_sign(cost.transcendentals)}{count_text(abs(cost.transcendentals))} transcendentals"
        )
    if cost.bytes:
        parts.append(f"{_sign(cost.bytes)}{bytes_text(abs(cost.bytes))}")
    return ", ".join(parts)


def _sign(n: float) -> str:
    return "+" if n > 0 else "-"


def signed_time(seconds: float) -> str:
    """Return a time with its sign and unit."""
    return f"{_sign(seconds)}{quantity_text(abs(seconds), 's')}"
