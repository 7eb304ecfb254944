"""Profiles as text tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo.profiler.records import KernelTime, ProfileData
from hlo.support.notebook import ROWS, block, paragraph
from hlo.support.notebook import table as html_table

_HEADINGS = (
    "time", "share", "sum", "calls", "a call", "Gop/s", "GB/s", "of peak", "threads", "what",
    "where",
)  # fmt: skip
# How many columns are numbers, aligned to the right.
_NUMBERS = 9
_MOST_FUSED = 4
# Kinds of entries that compute no instruction.
_PLAIN = frozenset({"entry", "call", "results", "stage", "pass", "part"})
_MOST_NAME = 60


def table(profile: ProfileData, limit: int | None) -> str:
    """Return a profile as a table, those that took most time first."""
    entries = profile.by_time()
    shown = entries if limit is None else entries[:limit]
    rows = [list(_HEADINGS), *_rows(profile, shown)]
    # Columns that are empty for all.
    kept = [n for n in range(len(_HEADINGS)) if any(row[n] for row in rows[1:])]
    widths = [max(len(row[n]) for row in rows) if n in kept else 0 for n in range(len(_HEADINGS))]
    lines = [_line(row, widths) for row in rows]
    if len(shown) < len(entries):
        rest = sum(e.self_s for e in entries[limit:])
        lines.append(f"and {len(entries) - len(shown)} more: {duration(rest)}")
    return "\n".join([*head(profile), *lines]) + "\n"


def table_html(profile: ProfileData) -> str:
    """Return a profile as HTML for notebooks, those that took most time first."""
    entries = profile.by_time()
    left = range(_NUMBERS, len(_HEADINGS))
    rows = _rows(profile, entries[:ROWS])
    shown = html_table(_HEADINGS, rows, left=left, count=len(entries))
    return block(*map(paragraph, head(profile)), shown)


def _rows(profile: ProfileData, entries: Sequence[KernelTime]) -> Iterator[list[str]]:
    whole, total = profile.wall_s.mean or 1.0, 0.0
    for e in entries:
        total += e.self_s
        yield _row(e, whole, total)


def head(profile: ProfileData) -> list[str]:
    """Return the lines about all of a profile; the first says how long a run takes."""
    p = profile
    device = f", device {p.device}" if p.device else ""
    runs = "1 run" if p.runs == 1 else f"{p.runs} runs"
    lines = [
        f"{p.module}: {runs} on {_threads(p.threads)}, {duration(p.wall_s.mean)} a run{device}"
    ]
    if p.runs > 1:
        lines[0] += f" (min {duration(p.wall_s.min)}, median {duration(p.wall_s.median)})"
    if p.threads > 1 and p.wall_s.mean:
        share = p.idle_s / (p.threads * p.wall_s.mean)
        lines.append(f"threads idle: {duration(p.idle_s)} of {_threads(p.threads)}, {share:.1%}")
    if p.peak is not None:
        flops = ", ".join(f"{t} {x * 1e-9:.4g}" for t, x in p.peak.flops.items())
        lines.append(f"peak of {p.peak.cpu}: {flops} Gop/s, {p.peak.bytes * 1e-9:.4g} GB/s")
    return lines


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _row(e: KernelTime, whole: float, total: float) -> list[str]:
    work = e.operations + e.transcendentals
    return [
        duration(e.self_s),
        f"{e.self_s / whole:.1%}",
        f"{total / whole:.1%}",
        f"{e.calls:.6g}",
        duration(e.self_s / e.calls) if e.calls else "",
        f"{work / e.self_s * 1e-9:.3g}" if work else "",
        f"{e.bytes / e.self_s * 1e-9:.3g}" if e.bytes else "",
        f"{e.peak_share:.0%} {e.bound}" if e.bound else "",
        f"{e.busy_threads:.2g}" if e.busy_threads > 1 else "",
        _what(e),
        str(e.location),
    ]


def _what(e: KernelTime) -> str:
    """Return what an entry computes: its name, the operation, and what is fused into it."""
    if e.kind in _PLAIN:
        return " ".join([e.label, *(f"({step})" for step in e.steps)])
    name = e.name if len(e.name) <= _MOST_NAME else e.name[: _MOST_NAME - 3] + "..."
    text = f"{name} = {e.opcode}" if e.kind != "group" else name
    if e.kind == "while":
        text += f" ({e.iterations:.6g} iterations)"
    elif e.fused and e.kind != "group":
        more = ", ..." if len(e.fused) > _MOST_FUSED else ""
        text += f" of {', '.join(e.fused[:_MOST_FUSED])}{more}"
    return text + (" ~" if e.is_sampled else "")


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if n < _NUMBERS else cell.ljust(width)
        for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        if width
    ]
    return "  ".join(cells).rstrip()


def duration(seconds: float) -> str:
    """Return a time in the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        count = seconds / size
        if count >= 1:
            return f"{count:.3g} {unit}" if count < 999 else f"{count:.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"
