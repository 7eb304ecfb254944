"""The report of a module: its page, put together of what other packages know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlo.errors import HloError
from hlo.gpu.model import device_named
from hlo.ir import Module
from hlo.passes.default import pipeline_of
from hlo.passes.manager import PassRun, run_pipeline
from hlo.passes.pipeline import Fix, Step
from hlo.profiler.memory import memory_timeline, optimized_timeline
from hlo.reports.gpu import GpuReport, gpu_report
from hlo.reports.graph.data import graph_data
from hlo.reports.graph.html import GRAPH_SCRIPTS, GRAPH_STYLES
from hlo.reports.html.changes import PassChanges
from hlo.reports.html.device import device_peaks, device_profile
from hlo.reports.html.distribution import distribution
from hlo.reports.html.roofline import estimated_seconds, peaks_of, roofline
from hlo.reports.html.summary import Spent, summary_html
from hlo.reports.html.times import times_of
from hlo.reports.module import statistics
from hlo.reports.numbers import bytes_text
from hlo.reports.page import escaped, page
from hlo.support.memory import collector_paused

_SCRIPTS = (
    *GRAPH_SCRIPTS, "report/grid.js", "report/instructions.js", "report/charts.js",
    "report/roofline.js", "report/memory.js", "report/passes.js", "report/distribution.js",
    "report/report.js",
)  # fmt: skip
_STYLES = (*GRAPH_STYLES, "report/report.css")


@collector_paused()
def report_page(
    module: Module,
    *,
    passes: str = "default",
    profile: Mapping[str, Any] | None = None,
    device: str | None = None,
) -> str:
    """Return the report of a verified module as a page; the module stays as it is.

    passes: the pipeline whose changes it shows. profile: as JSON. device: the GPU that times are
    estimated for, by name, where there is no profile. Raises HloError for a pipeline that fails,
    and a device that is not known.
    """
    notes: list[str] = []
    spread, program = distribution(module)
    estimated = None if device is None else _estimated(program, device, passes, notes)
    if device is not None and profile is not None:
        raise HloError.at("bad-value", "a report has the times of a profile or of a device")
    if estimated is not None:
        profile = device_profile(module, estimated)
    how = "measured" if estimated is None else "estimated"
    times = None if profile is None else times_of(module, profile)
    if times is not None and profile is not None:
        notes += _time_notes(module, profile, times.elsewhere, how)
    optimized = module.clone()
    pipeline = pipeline_of(passes, name="passes")
    changes, unfused = PassChanges(optimized), _BeforeFusion(pipeline, passes)
    run_pipeline(optimized, pipeline, [changes, unfused])
    peaks = peaks_of(module, profile) if estimated is None else device_peaks(estimated)
    data: dict[str, Any] = {
        "module": graph_data(module, None if times is None else times.seconds),
        "passes": {"pipeline": passes, "runs": changes.passes},
        "optimized": graph_data(optimized),
        "roofline": roofline(module, profile, peaks, is_estimate=estimated is not None),
        "distribution": spread,
    }
    if estimated is not None:
        data["module"]["times"] = f"estimated for {estimated.cost.estimate.device.name}"
    try:
        memory = _memory(program, passes, unfused.module if program is module else None)
        data["memory"] = memory | {"measured_bytes": _measured(profile)}
    except HloError as e:
        notes.append(f"There is no memory timeline: {e.diagnostics[0].message}")
    seconds = estimated_seconds(module, peaks) if times is None else times.seconds
    spent = Spent(
        seconds, sum(seconds.values()) + (0.0 if times is None else times.elsewhere),
        "estimated, unfused" if times is None else how, peaks.origin,
    )  # fmt: skip
    summary = summary_html(
        module, statistics(module), notes, spent, _peak(data.get("memory")), estimated
    )
    return page(
        f"{module.name}: report", _body(module, summary, data),
        data=data, scripts=_SCRIPTS, styles=_STYLES, whole=True,
    )  # fmt: skip


def _peak(memory: Mapping[str, Any] | None) -> str | None:
    """Return the peak of a memory timeline, and the instruction at which it is."""
    if memory is None:
        return None
    at = next((name for step, name, _ in memory["points"] if step == memory["peak_step"]), "")
    return bytes_text(memory["peak_bytes"]) + (f" at {at}" if at else "")


def _estimated(program: Module, device: str, passes: str, notes: list[str]) -> GpuReport | None:
    """Return what a run takes on a GPU; where it cannot run there, a note says why."""
    device_named(device)
    try:
        found = gpu_report(program, device, passes=passes, verify="lenient")
    except HloError as e:
        notes.append(f"There is no estimate for {device}: {e.diagnostics[0].message}")
        return None
    notes += found.warnings
    return found


class _BeforeFusion:
    """Keeps what code generation gets of a pipeline that fuses at its end.

    Attributes:
        module: that, None for a pipeline in which it does not occur.
    """

    def __init__(self, pipeline: Sequence[Step | Fix], passes: str) -> None:
        self.module: Module | None = None
        shared = pipeline_of(passes, fuses=False)
        is_prefix = pipeline[: len(shared)] == shared and len(shared) < len(pipeline)
        self._next = pipeline[len(shared)] if is_prefix else None

    def before(self, module: Module, step: Step) -> None:
        if step is self._next:
            self.module = module.clone()

    def after(self, module: Module, run: PassRun) -> None: ...


def _memory(program: Module, passes: str, optimized: Module | None) -> dict[str, Any]:
    """Return the memory timeline of a program, as much of it as the page shows.

    optimized: what the passes make of it for code generation, if that is known.
    """
    if optimized is not None:
        found, _ = optimized_timeline(optimized)
    else:
        found = memory_timeline(program, passes=passes, verify="lenient")
    return {
        "points": found.points,
        "buffers": [
            {"name": b.name, "shape": b.shape, "bytes": b.bytes, "begin": b.begin, "end": b.end,
             "kind": b.kind}
            for b in found.buffers
        ],
        "peak_bytes": found.peak_bytes, "peak_step": found.peak_step,
        "planned_bytes": found.planned_bytes, "advice": found.advice,
    }  # fmt: skip


def _measured(profile: Mapping[str, Any] | None) -> int | None:
    """Return the high-water mark of a run that a profile has, if it has one."""
    found = None if profile is None else profile.get("memory_bytes")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _time_notes(
    module: Module, profile: Mapping[str, Any], elsewhere: float, how: str
) -> list[str]:
    notes = []
    name = profile.get("module", module.name)
    if name != module.name:
        notes.append(f"The profile is of a module called {name}.")
    whose = "profile's" if how == "measured" else how
    total = sum(e["self_s"] for e in profile["entries"])
    if total > 0 and elsewhere / total > 0.2:
        notes.append(
            f"{elsewhere / total:.0%} of the {whose} time is at no instruction of this module: "
            "around the kernels, or at instructions that passes have made."
        )
    return notes


# The parts of the page, each with the data without which it is left out.
_TABS = (
    ("summary", "Summary", "module"), ("graph", "Graph", "module"),
    ("instructions", "Instructions", "module"), ("roofline", "Roofline", "roofline"),
    ("memory", "Memory", "memory"), ("passes", "Passes", "passes"),
    ("distribution", "Devices", "distribution"),
)  # fmt: skip


def _body(module: Module, summary: str, data: Mapping[str, Any]) -> str:
    """Return the frame of the page; all but the summary is filled in when it is looked at."""
    shown = [(name, title) for name, title, needed in _TABS if data.get(needed) is not None]
    tabs = "".join(
        f'<button type="button" role="tab" id="tab-{name}" aria-controls="{name}">{title}</button>'
        for name, title in shown
    )
    panels = "\n".join(
        f'<section role="tabpanel" id="{name}" aria-labelledby="tab-{name}" '
        f'class="panel{" graph-panel" if name == "graph" else ""}"'
        f"{'' if name == 'summary' else ' hidden'}>{summary if name == 'summary' else ''}</section>"
        for name, _ in shown
    )
    return (
        f'<header class="page"><h1>{escaped(module.name)}</h1>'
        f'<nav role="tablist" aria-label="Parts of the report">{tabs}</nav>'
        '<span class="space"></span>'
        f'<button type="button" class="theme">Toggle theme</button></header>\n{panels}'
    )
