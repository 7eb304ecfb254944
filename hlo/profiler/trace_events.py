"""Profiles as Chrome trace events, the timeline that Perfetto and speedscope show.

All are complete events, with begin and duration in microseconds. A device is a process; thread 0
is the one that called the program, with loops, iterations and kernels nested as they ran, the
others show their shares of kernels.

Perfetto rounds to nanoseconds, and drops events of a thread that overlap otherwise than by nesting:
all times are whole nanoseconds, so that none overlap for being rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hlo.profiler.records import KernelTime, ProfileData, Slice

# An open event: what it is of, and its place in the list. An iteration has the place of its loop.
_Frame = tuple[str, int]


def chrome_trace(profiles: Sequence[ProfileData]) -> dict[str, Any]:
    """Return the timelines of one program on some devices, in the format's object form."""
    events: list[dict[str, Any]] = []
    for profile in profiles:
        lanes = sorted({s.thread for s in profile.timeline} | {0})
        events.append(_name("process_name", profile.device, 0, _process(profile)))
        for lane in lanes:
            what = "parts" if profile.backend == "compilation" else "shares of kernels"
            name = "caller" if lane == 0 else f"{what}, thread {lane}"
            events.append(_name("thread_name", profile.device, lane, name))
        events += _Nested(profile).events()
        events += _shares(profile)
    first = profiles[0]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"module": first.module, "backend": first.backend, "runs": first.runs},
    }


def _process(profile: ProfileData) -> str:
    return f"{profile.module}, device {profile.device}"


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _shares(profile: ProfileData) -> Iterator[dict[str, Any]]:
    """Return what threads besides the caller did, each one thing after the other."""
    ends: dict[int, int] = {}
    for s in profile.timeline:
        if s.thread:
            begin, end = _within(s, ends.get(s.thread, 0))
            ends[s.thread] = end
            name = profile.entries[s.entry].label
            yield _complete(profile, name, "share", s.thread, begin, end, {})


def _within(s: Slice, last: int) -> tuple[int, int]:
    """Return begin and end of a slice in nanoseconds; the one before it ended at `last`."""
    begin = max(last, round(s.begin_s * 1e9))
    return begin, max(begin, round((s.begin_s + s.duration_s) * 1e9))


def _complete(
    profile: ProfileData, name: str, category: str, thread: int, begin: int, end: int,
    args: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    return {
        "ph": "X", "name": name, "cat": category, "pid": profile.device, "tid": thread,
        "ts": begin / 1000, "dur": (end - begin) / 1000, "args": args,
    }  # fmt: skip


def describe(entry: KernelTime) -> dict[str, Any]:
    """Return what an event says of an entry besides its name."""
    place = entry.location
    known = {
        "hlo": entry.hlo, "op_name": place.op_name, "source": place.source, "line": place.hlo,
        "fused": ", ".join(entry.fused), "steps": ", ".join(entry.steps),
    }  # fmt: skip
    return {name: text for name, text in known.items() if text}


class _Nested:
    """Makes nested events of the slices of the calling thread, which follow one another."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self.found: list[dict[str, Any]] = []
        # The open events, outermost first, and when they began.
        self.open: list[tuple[_Frame, dict[str, Any], int]] = []
        # How many runs have begun; of open loops the number of the next iteration, None after some
        # that are not divided any further.
        self.runs = 0
        self.next: dict[int, int | None] = {}
        # The end of the last slice, in nanoseconds.
        self.end = 0

    def events(self) -> list[dict[str, Any]]:
        """Return the events in the order of their beginning."""
        for s in self.profile.timeline:
            if s.thread == 0:
                self._add(s)
        self._close(0)
        return self.found

    def _add(self, s: Slice) -> None:
        if s.mark == "run":
            self._close(0)
        is_turn = s.mark in ("iteration", "untimed")
        wanted: list[_Frame] = []
        number = s.entry
        while number >= 0:
            wanted.append(("entry", number))
            number = self.profile.entries[number].parent
        wanted.reverse()
        for place, (frame, _, _) in enumerate(self.open):
            kind, loop = frame
            # An iteration is open for as long as what runs is inside of its loop.
            inside = place <= len(wanted) and wanted[place - 1] == ("entry", loop)
            if kind == "iteration" and inside and not (is_turn and s.entry == loop):
                wanted.insert(place, frame)
        if is_turn:
            wanted.append((s.mark, s.entry))
        same = 0
        for (frame, _, _), want in zip(self.open, wanted, strict=False):
            if frame != want or (is_turn and same == len(wanted) - 1):
                break
            same += 1
        self._close(same)
        begin, end = _within(s, self.end)
        for frame in wanted[same:]:
            self._begin(frame, begin)
        self.end = end

    def _begin(self, frame: _Frame, at: int) -> None:
        kind, number = frame
        entry = self.profile.entries[number]
        name = self._name_of(kind, number)
        category = entry.kind if kind == "entry" else "loop"
        args = describe(entry) if kind == "entry" else {}
        event = _complete(self.profile, name, category, 0, at, at, args)
        self.found.append(event)
        self.open.append((frame, event, at))

    def _name_of(self, kind: str, number: int) -> str:
        """Return the name of a new event: runs and iterations have their numbers, from 0."""
        entry = self.profile.entries[number]
        if kind == "untimed":
            self.next[number] = None
            return "iterations"
        if kind == "iteration":
            at = self.next.get(number, 0)
            if at is None:
                return "iteration"
            self.next[number] = at + 1
            return f"iteration {at}"
        self.next[number] = 0
        if entry.kind != "entry":
            return entry.label
        self.runs += 1
        return f"run {self.runs - 1}"

    def _close(self, count: int) -> None:
        """End all open events but the first ones."""
        while len(self.open) > count:
            _, event, begin = self.open.pop()
            event["dur"] = (self.end - begin) / 1000
