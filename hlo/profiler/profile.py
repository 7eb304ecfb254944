"""A profile: where the time of a program's runs went, as data and in the forms it is shown in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hlo.analysis.source_location import SourceLocation
from hlo.errors import HloError
from hlo.profiler.records import KernelTime, Peak, ProfileData, Slice, Spread
from hlo.profiler.stacks import folded_stacks
from hlo.profiler.table import head, table, table_html
from hlo.profiler.trace_events import chrome_trace


@dataclass(frozen=True)
class Profile(ProfileData):
    """Where the time of a program's runs on one device went; see `ProfileData` for what it has."""

    def __repr__(self) -> str:
        return f"<Profile of {head(self)[0]}>"

    def _repr_html_(self) -> str:
        return table_html(self)

    def table(self, limit: int | None = None) -> str:
        """Return a text table, an entry a line; limit: of how many lines, all by default."""
        return table(self, limit)

    def chrome_trace(self) -> dict[str, Any]:
        """Return the timeline as Chrome trace events, which Perfetto and speedscope open."""
        return chrome_trace([self])

    def folded_stacks(self, by: str = "computation") -> str:
        """Return stacks with nanoseconds, a line each, as tools for flame graphs read them.

        by: `computation`, the path of loops and conditionals, or `op_name`, that of the framework.
        """
        return folded_stacks([self], by)

    def to_json(self) -> dict[str, Any]:
        """Return the profile as a JSON object; `docs/schemas/profile.schema.json` describes it."""
        return asdict(self) | {
            "timeline": [[*asdict(s).values()] for s in self.timeline],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Profile:
        """Return the profile that `to_json` was of. Raises HloError for other objects."""
        try:
            peak = data["peak"]
            return cls(
                **{
                    **data,
                    "wall_s": Spread(**data["wall_s"]),
                    "native_s": Spread(**data["native_s"]),
                    "entries": tuple(map(_entry, data["entries"])),
                    "busy_s": tuple(data["busy_s"]),
                    "timeline": tuple(Slice(*s) for s in data["timeline"]),
                    "peak": None if peak is None else Peak(**peak),
                }
            )
        except (KeyError, TypeError, ValueError) as e:
            raise HloError.at("bad-value", f"not a profile: {e}") from None


def _entry(data: Mapping[str, Any]) -> KernelTime:
    return KernelTime(
        **{
            **data,
            "steps": tuple(data["steps"]),
            "fused": tuple(data["fused"]),
            "runs_s": Spread(**data["runs_s"]),
            "location": SourceLocation(**data["location"]),
        }
    )


def with_peak(profile: Profile, peak: Peak, like: Callable[[str], str]) -> Profile:
    """Return a profile whose entries say which part of the machine's peak they reach.

    like: the type among those of the peak that computes like an element type.
    """
    entries = tuple(replace(e, **_share(e, peak, like)) for e in profile.entries)
    return replace(profile, entries=entries, peak=peak)


def _share(entry: KernelTime, peak: Peak, like: Callable[[str], str]) -> dict[str, Any]:
    """Return the share of the peak, and what bounds it: what would take longest at best."""
    seconds = entry.self_s
    flops = peak.flops.get(like(entry.element_type), 0.0)
    least = {
        "compute": (entry.operations + entry.transcendentals) / flops if flops else 0.0,
        "memory": entry.bytes / peak.bytes if peak.bytes else 0.0,
    }
    bound = max(least, key=lambda kind: least[kind])
    if not seconds or not least[bound]:
        return {"peak_share": 0.0, "bound": ""}
    return {"peak_share": least[bound] / seconds, "bound": bound}


def spread(seconds: Sequence[float]) -> Spread:
    """Return the spread of some runs, of zero for none."""
    if not seconds:
        return Spread()
    ordered, count = sorted(seconds), len(seconds)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return Spread(ordered[0], middle, sum(ordered) / count)
