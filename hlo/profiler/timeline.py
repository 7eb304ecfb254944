"""The memory of a compiled program over the steps of a run, as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hlo.support.notebook import block, paragraph
from hlo.support.notebook import table as html_table
from hlo.support.quantities import bytes_text

FORMAT = "hlo-memory-timeline"
# Of the chart and of the buffers at the peak.
_ROWS, _BAR, _MOST = 24, 40, 20
_SEVERAL = {
    "argument": "of arguments", "result": "of results", "constant": "of constants",
    "argument and result": "of arguments that become results",
    "temporary": "of temporaries", "workspace": "of workspace",
}  # fmt: skip


@dataclass(frozen=True)
class LiveBuffer:
    """A buffer and the steps at which it is in use, inclusive.

    name: the instruction whose value it holds first, with the index path in its result. shape: of
    that. kind: `argument`, `result`, `argument and result` (aliased), `constant`, `temporary`, or
    `workspace` of one kernel. computation, location: of the instruction. values: the names of all
    values that it holds, one after the other.
    """

    name: str
    shape: str
    bytes: int
    begin: int
    end: int
    kind: str
    computation: str = ""
    location: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """Something that would lower the peak. bytes: by how much, as planned again with the change."""

    kind: str
    text: str
    bytes: int

    def __str__(self) -> str:
        return f"{self.text}: saves {bytes_text(self.bytes)}"


@dataclass(frozen=True)
class MemoryTimeline:
    """What a compiled program holds at each step of a run, arguments and results included.

    points: step, instruction and live bytes, one for each kernel, call and loop, in order of
    execution; the steps of a loop's body are those of one iteration. buffers: all, in order of
    begin. peak_bytes, peak_step: where the most is live. arena_bytes: of the block of memory that
    has all temporaries. planned_bytes: what the program asks for in all: arguments, results,
    constants and the arena. advice: what would lower it, most first. measured_bytes: the high-water
    mark of a run, if it was measured.
    """

    module: str
    points: tuple[tuple[int, str, int], ...]
    buffers: tuple[LiveBuffer, ...]
    peak_bytes: int
    peak_step: int
    arena_bytes: int
    planned_bytes: int
    suggestions: tuple[Advice, ...] = field(default=())
    measured_bytes: int | None = None

    @property
    def at_peak(self) -> list[LiveBuffer]:
        """The buffers in use at the peak, the largest first."""
        live = [b for b in self.buffers if b.begin <= self.peak_step <= b.end]
        return sorted(live, key=lambda b: -b.bytes)

    @property
    def advice(self) -> list[str]:
        """What would lower the memory, as sentences."""
        return [str(a) for a in self.suggestions]

    @property
    def peak_at(self) -> str:
        """The instruction at the peak."""
        return next((name for step, name, _ in self.points if step == self.peak_step), "")

    def to_json(self) -> dict[str, Any]:
        """Return all as values of JSON; docs/schemas/memory-timeline.schema.json describes them."""
        found = asdict(self) | {"format": FORMAT, "version": 1, "peak_at": self.peak_at}
        found["at_peak"] = [b.name for b in self.at_peak]
        found["advice"] = self.advice
        return _as_lists(found)

    def __repr__(self) -> str:
        return (
            f"<MemoryTimeline of {self.module}: at most {bytes_text(self.peak_bytes)} "
            f"at {self.peak_at}, {len(self.points)} steps>"
        )

    def _repr_html_(self) -> str:
        live = self.at_peak
        rows = (
            (b.name, b.kind, b.shape, bytes_text(b.bytes), f"{b.begin} to {b.end}", b.location)
            for b in live[:_MOST]
        )
        columns = ["live at the peak", "kind", "shape", "bytes", "steps", "where"]
        shown = html_table(columns, rows, left=(0, 1, 2, 5), count=len(live))
        return block(*map(paragraph, self._head()), shown, *map(paragraph, self.advice))

    def table(self) -> str:
        """Return a chart of the steps, the buffers at the peak and the advice, as text."""
        return "\n".join([*self._head(), "", *self._chart(), "", *self._peak(), *self._advice()])

    def _head(self) -> list[str]:
        kinds: dict[str, int] = {}
        for b in self.at_peak:
            kinds[b.kind] = kinds.get(b.kind, 0) + b.bytes
        lines = [
            f"{self.module}: at most {bytes_text(self.peak_bytes)} live, at {self.peak_at}: "
            + ", ".join(f"{bytes_text(n)} {_SEVERAL[kind]}" for kind, n in kinds.items()),
            f"allocated: {bytes_text(self.planned_bytes)}",
        ]
        if self.arena_bytes:
            lines[-1] += f", including one {bytes_text(self.arena_bytes)} arena of temporaries"
        if self.measured_bytes is not None:
            lines.append(f"measured in a run: {bytes_text(self.measured_bytes)}")
        return lines

    def _chart(self) -> list[str]:
        """Return bars: of neighbouring steps the one with the most."""
        points, top = self.points, max(self.peak_bytes, 1)
        each = -(-len(points) // _ROWS) or 1
        rows = [max(points[i : i + each], key=lambda p: p[2]) for i in range(0, len(points), each)]
        return [
            f"{step:6}  {bytes_text(n):>10}  {'#' * round(_BAR * n / top):{_BAR}}  {name}"
            for step, name, n in rows
        ]

    def _peak(self) -> list[str]:
        live = self.at_peak
        lines = [f"live at {self.peak_at}:"]
        for b in live[:_MOST]:
            where = f"  {b.location}" if b.location else ""
            lines.append(
                f"{bytes_text(b.bytes):>10}  {b.kind:9}  {b.begin:5} to {b.end:<5}  {b.name} "
                f"{b.shape[:60]}{where}"
            )
        rest = live[_MOST:]
        if rest:
            lines.append(f"and {len(rest)} more: {bytes_text(sum(b.bytes for b in rest))}")
        return lines

    def _advice(self) -> list[str]:
        if not self.suggestions:
            return [""]
        return ["", "how to lower it:", *(f"  {text}" for text in self.advice), ""]


def _as_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_lists(v) for key, v in value.items()}
    return [_as_lists(v) for v in value] if isinstance(value, list | tuple) else value
