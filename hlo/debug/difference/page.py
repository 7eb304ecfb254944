"""A difference as an HTML page: what happened and what it costs, then both modules side by side."""

from __future__ import annotations

from typing import Any

from hlo.analysis.source_location import source_location
from hlo.debug.difference.changes import ADDED, REMOVED, Change
from hlo.debug.difference.record import Pattern, Record
from hlo.debug.difference.text import cost_sentence, cost_text, short_line, signed_time
from hlo.ir import Computation, Instruction
from hlo.reports.page import escaped, page
from hlo.support.notebook import ROWS, block, paragraph, table

_SAME = "same"


def page_of(difference: Record) -> str:
    """Return the page of a difference: one file that needs no other."""
    left, right = map(escaped, difference.names)
    rows = _Rows(difference)
    sections = rows.sections()
    header = "".join(
        f"<tr><td>{escaped(d.what)}</td><td class='removed mono'>{escaped(d.left or 'none')}</td>"
        f"<td class='added mono'>{escaped(d.right or 'none')}</td></tr>"
        for d in difference.header
    )
    body = (
        '<header class="page"><h1>Difference of modules</h1><span class="space"></span>'
        '<input type="search" id="search" placeholder="Search instructions" '
        'aria-label="Search instructions"><span id="found" class="muted" role="status"></span>'
        '<button class="theme">Toggle theme</button></header><main>'
        f'<p class="mono"><span class="removed">- {left}</span><br>'
        f'<span class="added">+ {right}</span></p>'
        f"<p>{escaped(difference.summary)}</p>"
        f"<p>{escaped(cost_sentence(difference)).replace(chr(10), '<br>')}</p>"
        + (f"<h2>Header</h2><table>{header}</table>" if header else "")
        + (_patterns(difference, rows) if difference.patterns else "")
        + '<h2>Side by side</h2><div id="sections"></div></main>'
    )
    title = " and ".join(difference.names)
    return page(
        f"hlo-diff: {title}", body, data={"sections": sections}, scripts=["diff.js"],
        styles=["diff.css"],
    )  # fmt: skip


def fragment(difference: Record) -> str:
    """Return the summary of a difference as HTML, for notebooks."""
    patterns = difference.patterns
    rows = ((str(len(p.places)), p.words, cost_text(p.cost)) for p in patterns[:ROWS])
    shown = table(["places", "what", "cost"], rows, left=(1,), count=len(patterns))
    lines = [difference.summary, *cost_sentence(difference).splitlines()]
    return block(*map(paragraph, lines), shown)


def _patterns(difference: Record, rows: _Rows) -> str:
    lines = [_pattern(p, rows) for p in difference.patterns]
    return (
        '<h2>What changed</h2><table class="sortable" id="patterns"><thead><tr>'
        '<th class="number">Places</th><th>What</th><th>Cost of a run</th>'
        '<th class="number">Estimated time</th></tr></thead><tbody>'
        f"{''.join(lines)}</tbody></table>"
    )


def _pattern(pattern: Pattern, rows: _Rows) -> str:
    marks = []
    for place in pattern.places:
        change = place[0]
        name = (change.right or change.left or place[0].instructions[0]).name
        marks.append(
            f'<button class="place" data-row="{rows.id_of(change)}">%{escaped(name)}</button>'
        )
    work = pattern.cost.operations + pattern.cost.transcendentals
    cost = escaped(cost_text(pattern.cost))
    return (
        f'<tr><td class="number" data-value="{len(pattern.places)}">{len(pattern.places)}</td>'
        f"<td>{escaped(pattern.words)}<details><summary>places</summary>{' '.join(marks)}</details>"
        f'</td><td data-value="{work or pattern.cost.bytes}">{cost}</td>'
        f'<td class="number" data-value="{pattern.seconds}">'
        f"{escaped(signed_time(pattern.seconds)) if pattern.seconds else ''}</td></tr>"
    )


class _Rows:
    """The lines of both modules, those of partners beside each other.

    A row is `[id, kind, left, left line, right, right line, details]`; what a side does not have is
    "" and 0.
    """

    def __init__(self, difference: Record) -> None:
        self._difference = difference
        self._changes: dict[Instruction, Change] = {}
        for change in difference.changes:
            for inst in change.instructions:
                self._changes.setdefault(inst, change)
        self._ids: dict[int, int] = {}
        self._count = 0

    def id_of(self, change: Change) -> int:
        """Return the row of a change."""
        return self._ids[id(change)]

    def sections(self) -> list[dict[str, Any]]:
        """Return the computations: names of both sides, and rows."""
        matching = self._difference.matching
        found, done = [], set()
        partners: dict[Computation, Computation] = {}
        for f, g in matching.computations:
            if g not in done:
                done.add(g)
                partners.setdefault(f, g)
        for comp in reversed(matching.left.computations):
            found.append(self._section(comp, partners.get(comp)))
        for comp in reversed(matching.right.computations):
            if comp not in partners.values():
                found.append(self._section(None, comp))
        return found

    def _section(self, left: Computation | None, right: Computation | None) -> dict[str, Any]:
        of = self._difference.matching.of
        rows: list[list[Any]] = []
        ours = [] if left is None else left.in_order()
        theirs = [] if right is None else right.in_order()
        # What only the right has stands where it is used: before the partner of what follows it.
        waiting: list[Instruction] = []
        before: dict[Instruction, list[Instruction]] = {}
        for inst in theirs:
            partner = of(inst)
            if partner is None or partner.parent is not left:
                waiting.append(inst)
            elif waiting:
                before[inst], waiting = waiting, []
        for inst in ours:
            partner = of(inst)
            beside = partner if partner is not None and partner.parent is right else None
            if beside is not None:
                rows.extend(self._row(None, other) for other in before.get(beside, ()))
            rows.append(self._row(inst, beside))
        rows.extend(self._row(None, other) for other in waiting)
        return {
            "left": "" if left is None else left.name,
            "right": "" if right is None else right.name,
            "entry": any(c is not None and c.module is not None and c.module.entry is c
                         for c in (left, right)),
            "rows": rows,
        }  # fmt: skip

    def _row(self, left: Instruction | None, right: Instruction | None) -> list[Any]:
        inst = left if left is not None else right
        assert inst is not None
        change = self._changes.get(inst)
        if change is None and right is not None:
            change = self._changes.get(right)
        number, self._count = self._count, self._count + 1
        if change is not None:
            self._ids.setdefault(id(change), number)
        kind = _SAME if change is None else change.kind
        if change is None and (left is None or right is None):
            kind = ADDED if left is None else REMOVED
        details = [] if change is None else [str(d) for d in change.details]
        if change is not None and (left is None or right is None):
            details += _elsewhere(change, inst)
        return [number, kind, *_side(left), *_side(right), details]


def _elsewhere(change: Change, inst: Instruction) -> list[str]:
    """Return where the partner of an instruction is that has no partner beside it."""
    if change.left is None or change.right is None:
        return []
    other = change.right if inst is change.left else change.left
    assert other.parent is not None
    where = f"in {other.parent.name}, as %{other.name}"
    return [f"now {where}" if other is change.right else f"before {where}"]


def _side(inst: Instruction | None) -> tuple[str, int]:
    if inst is None:
        return "", 0
    return short_line(inst), source_location(inst).hlo_line or 0
