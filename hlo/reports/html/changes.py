"""What each pass of a pipeline changed: the lines of HLO before and after, beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo.ir import Computation, Instruction, Module
from hlo.passes.manager import PassRun
from hlo.passes.pipeline import Step
from hlo.reports.graph.style import line

# Lines that are kept of one pass, of all, and how much of each. What is left out is counted.
_MOST_ROWS, _MOST_IN_ALL, _MOST_TEXT = 200, 2500, 400
_SAME, _CHANGED, _REMOVED, _ADDED, _GAP = "", "changed", "removed", "added", "gap"
Row = tuple[str, str, str]


@dataclass
class _Snapshot:
    """A computation as it was: its instructions in order, what each consisted of, its text."""

    name: str
    order: list[Instruction] = field(default_factory=list)
    parts: dict[Instruction, tuple[object, ...]] = field(default_factory=dict)
    text: dict[Instruction, str] = field(default_factory=dict, compare=False)


class PassChanges:
    """An observer of a pipeline that remembers what its passes changed.

    Attributes:
        passes: a row of data for each run of a pass, for the page.
    """

    def __init__(self, module: Module) -> None:
        self.passes: list[dict[str, Any]] = []
        self._known = {comp: _snapshot(comp, None) for comp in module.computations}
        self._left = _MOST_IN_ALL

    def before(self, module: Module, step: Step) -> None: ...

    def after(self, module: Module, run: PassRun) -> None:
        computations: list[dict[str, Any]] = []
        omitted = 0
        if run.changed:
            now = {c: _snapshot(c, self._known.get(c)) for c in module.computations}
            rows_left = min(_MOST_ROWS, self._left)
            for comp in [*now, *(c for c in self._known if c not in now)]:
                rows = _rows(self._known.get(comp), now.get(comp))
                kept = rows[: max(0, rows_left)]
                rows_left -= len(kept)
                self._left -= len(kept)
                omitted += sum(1 for row in rows[len(kept) :] if row[0] not in (_SAME, _GAP))
                if kept:
                    computations.append({"computation": comp.name, "rows": kept})
            self._known = now
        self.passes.append(
            {
                "number": run.number, "name": run.name, "step": str(run.step),
                "seconds": run.seconds, "before": run.before, "after": run.after,
                "rewrites": len(run.rewrites),
                "rules": Counter(r.rule for r in run.rewrites).most_common(),
                "approximate": sum(r.approximate for r in run.rewrites),
                "computations": computations, "omitted": omitted,
            }
        )  # fmt: skip


def _snapshot(comp: Computation, before: _Snapshot | None) -> _Snapshot:
    """Return a computation as it is; the text of what has not changed is taken from before.

    One that has not changed at all is the snapshot from before.
    """
    new = _Snapshot(comp.name, comp.in_order())
    new.parts = {inst: _parts(inst) for inst in new.order}
    if before is None:
        new.text = {inst: _text(inst) for inst in new.order}
        return new
    if new == before:
        return before
    for inst, parts in new.parts.items():
        is_known = before.parts.get(inst) == parts
        new.text[inst] = before.text[inst] if is_known else _text(inst)
    return new


def _parts(inst: Instruction) -> tuple[object, ...]:
    """Return what an instruction's line consists of."""
    parts = (inst.name, inst.shape, *inst.operands, *inst.attrs.values())
    return (*parts, *inst.annotations.values(), inst.is_root)


def _text(inst: Instruction) -> str:
    text = f"{'ROOT ' if inst.is_root else ''}{line(inst).removeprefix('ROOT ')}"
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} …"


def _rows(old: _Snapshot | None, new: _Snapshot | None) -> list[Row]:
    """Return the lines that differ, each with the one around it."""
    if old is new:
        return []
    all_rows = list(_aligned(old or _Snapshot(""), new or _Snapshot("")))
    near: set[int] = set()
    for n, (kind, _, _) in enumerate(all_rows):
        if kind != _SAME:
            near.update((n - 1, n, n + 1))
    found: list[Row] = []
    last = -1
    for n, row in enumerate(all_rows):
        if n in near:
            if found and n != last + 1:
                found.append((_GAP, "", ""))
            found.append(row)
            last = n
    return found


def _aligned(old: _Snapshot, new: _Snapshot) -> Iterator[Row]:
    """Yield the lines of both: removed and added ones after the one that stayed before them."""
    removed = _after_kept(old.order, new.parts)
    added = _after_kept(new.order, old.parts)
    yield from _beside(old, new, removed.get(None, []), added.get(None, []))
    for inst in new.order:
        if inst in old.parts:
            before, after = old.text[inst], new.text[inst]
            yield (_SAME if before == after else _CHANGED, before, after)
            yield from _beside(old, new, removed.get(inst, []), added.get(inst, []))


def _after_kept(
    order: Sequence[Instruction], kept: dict[Instruction, tuple[object, ...]]
) -> dict[Instruction | None, list[Instruction]]:
    """Return the instructions that are not kept, by the kept one before them."""
    found: dict[Instruction | None, list[Instruction]] = {}
    last: Instruction | None = None
    for inst in order:
        if inst in kept:
            last = inst
        else:
            found.setdefault(last, []).append(inst)
    return found


def _beside(
    old: _Snapshot, new: _Snapshot, removed: list[Instruction], added: list[Instruction]
) -> Iterator[Row]:
    for n in range(max(len(removed), len(added))):
        before = old.text[removed[n]] if n < len(removed) else ""
        after = new.text[added[n]] if n < len(added) else ""
        kind = _CHANGED if before and after else _REMOVED if before else _ADDED
        # The same text under another identity, as a pass that rebuilds everything leaves it.
        yield (_SAME if before == after else kind, before, after)
