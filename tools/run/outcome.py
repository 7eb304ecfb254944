"""What came of a run of `hlo-run`, and how it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from .results import aligned

if TYPE_CHECKING:
    from hlo.io.random import Domain
    from hlo.profiler.profile import Profile
    from hlo.testing.compare import Comparison, Mismatch

    from .trace_options import Inspection

_NAMED_INPUTS = 6


@dataclass
class Outcome:
    """What came of one file."""

    file: str
    devices: int = 1
    results: dict[str, Any] = field(default_factory=dict)
    made_up: list[str] = field(default_factory=list)
    # What random inputs were kept to, by their names.
    assumed: Mapping[str, Domain] = field(default_factory=dict)
    # Constants without values that results depend on.
    elided: Sequence[str] = ()
    # What the module says of devices, where it ran on one for all of that.
    unused_devices: str = ""
    prepare_s: dict[str, float] = field(default_factory=dict)
    runs_s: list[float] = field(default_factory=list)
    cost: Mapping[str, int] = field(default_factory=dict)
    # How each result compares with others, by their source: "the interpreter", or a file.
    checks: dict[str, dict[str, Comparison]] = field(default_factory=dict)
    # What was fed out, by device and place in its queue.
    outfeed: dict[str, Any] = field(default_factory=dict)
    # How many elements of results are NaN, where there are to be none; None if there may be.
    rejected: dict[str, int] | None = None
    # By device: the arguments, the result, and that of what it was compared with, if asked for.
    arguments: Sequence[Sequence[Any]] = ()
    whole: Sequence[Any] = ()
    whole_reference: Sequence[Any] = ()
    # What was looked for inside of the run, instead of results.
    inspection: Inspection | None = None
    # Where the time of the runs on each device went, and that of the compilation.
    profiles: Sequence[Profile] = ()
    compilation: Sequence[Profile] = ()
    # What the kernels did, as the SIMT machine counts it: a table, and for JSON.
    simt_report: str = ""
    simt_counts: Sequence[Mapping[str, Any]] = ()

    @property
    def failed(self) -> bool:
        compared = [c for found in self.checks.values() for c in found.values()]
        if self.inspection is not None and self.inspection.failed:
            return True
        return bool(self.rejected) or not all(c.same for c in compared)


def nan_counts(results: Mapping[str, Any]) -> dict[str, int]:
    """Return how many elements are NaN, of those results that have any."""
    from hlo.testing.compare import nan_count

    counts = {name: nan_count(value) for name, value in results.items()}
    return {name: count for name, count in counts.items() if count}


def made_up_text(outcome: Outcome, seed: int, *, vary: bool) -> str:
    """Return a note of the inputs that are random."""
    names = outcome.made_up
    which = ", ".join(names[:_NAMED_INPUTS]) + (", ..." if len(names) > _NAMED_INPUTS else "")
    plural = "s are" if len(names) > 1 else " is"
    each = ("other ones" if vary else "the same") + " on each device"
    whose = f", {each}" if outcome.devices > 1 else ""
    return f"{outcome.file}: {len(names)} input{plural} random from seed {seed}{whose}: {which}"


def assumed_text(outcome: Outcome) -> str:
    """Return a note of what random inputs were kept to."""
    assumed = [f"{name} {domain}" for name, domain in outcome.assumed.items()]
    rest = len(assumed) - _NAMED_INPUTS
    shown = "; ".join(assumed[:_NAMED_INPUTS]) + (f"; and {rest} more" if rest > 0 else "")
    return f"{outcome.file}: assumed of random inputs: {shown}"


def verdicts(outcome: Outcome) -> list[str]:
    """Return how each result compares with others, and how many are the same."""
    lines = []
    for whose, checks in outcome.checks.items():
        for n, c in checks.items():
            lines.append(f"{n}: {c}")
            lines[-1] += "".join(f"\n  {row}" for row in mismatch_table(c))
        lines += [
            f"warning: all of {n} is NaN, so nothing was compared"
            for n, c in checks.items()
            if c.is_all_nan
        ]
        same = sum(c.same for c in checks.values())
        lines.append(f"{same} of {len(checks)} results match {whose}")
    return [f"{outcome.file}: {line}" for line in lines]


def mismatch_table(c: Comparison) -> list[str]:
    """Return the lines of a table of those elements that are furthest off, if any are."""
    if not c.worst:
        return []
    rows = [["index", "expected", "found", "difference", "relative", "ulp"]]
    for m in c.worst:
        ulps = "-" if m.ulps is None else str(m.ulps)
        place = f"[{','.join(map(str, m.index))}]"
        rows.append(
            [place, str(m.want), str(m.got), f"{m.difference:.6g}", f"{m.relative:.3g}", ulps]
        )
    return aligned(rows, begin=1)


def times(outcome: Outcome) -> str:
    """Return how long it took, and how fast that is."""
    stages = ", ".join(f"{name} {seconds:.3f}" for name, seconds in outcome.prepare_s.items())
    text = f"{outcome.file}: prepared in {sum(outcome.prepare_s.values()):.3f} s ({stages})"
    if not outcome.runs_s:
        return text
    ran = speed(outcome)
    text += "\n"
    text += f"{outcome.file}: ran in {ran['median']:.6f} s"
    if len(outcome.runs_s) > 1:
        text += f" (median of {len(outcome.runs_s)}; min {ran['min']:.6f}, max {ran['max']:.6f})"
    if outcome.cost:
        about = "" if outcome.cost["exact"] else "at least "
        text += f", {about}{ran['gflops']:.4g} GFLOP/s, {about}{ran['gbytes']:.4g} GB/s"
    return text


def speed(outcome: Outcome) -> dict[str, float]:
    """Return seconds a run, and at the median 10^9 operations and bytes a second."""
    from statistics import median

    runs = outcome.runs_s
    if not runs:
        return {}
    found = {"min": min(runs), "median": median(runs), "max": max(runs)}
    if outcome.cost:
        rate = 1e-9 / max(found["median"], 1e-9)
        found["gflops"] = rate * (outcome.cost["operations"] + outcome.cost["transcendentals"])
        found["gbytes"] = rate * outcome.cost["bytes"]
    return found


def comparison(c: Comparison) -> dict[str, Any]:
    """Return the JSON object of a comparison."""
    found: dict[str, Any] = {
        "elements": c.elements,
        "mismatches": c.mismatches,
        "nan": c.nans,
        "error": c.error,
        "relative_error": c.relative_error,
        "rtol": c.relative,
        "atol": c.absolute,
    }
    if c.sensitivity:
        found["sensitivity"] = c.sensitivity
    if c.worst:
        first = c.worst[0]
        found |= {"worst": first.index, "got": str(first.got), "want": str(first.want)}
        found["mismatched"] = [mismatch(m) for m in c.worst]
    return found


def mismatch(m: Mismatch) -> dict[str, Any]:
    """Return the JSON object of an element that differs."""
    return {
        "index": m.index, "got": str(m.got), "want": str(m.want),
        "difference": m.difference if isfinite(m.difference) else None,
        "relative": m.relative if isfinite(m.relative) else None,
        "ulps": m.ulps,
    }  # fmt: skip
