"""What a profile consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hlo.analysis.source_location import SourceLocation


@dataclass(frozen=True)
class Spread:
    """Seconds of several runs."""

    min: float = 0.0
    median: float = 0.0
    mean: float = 0.0


@dataclass(frozen=True)
class Peak:
    """What the machine can do with a number of threads, measured.

    flops: floating-point or integer operations a second, by element type. bytes: those that it
    moves to and from memory in a second. They are upper bounds of large problems: a kernel whose
    data are in the cache moves more.
    """

    cpu: str
    threads: int
    flops: Mapping[str, float]
    bytes: float


@dataclass(frozen=True)
class KernelTime:
    """The time of one kernel, loop, conditional or call, or of what is around them.

    parent: the place among the entries of the loop or conditional that it is in, -1 for none.
    kind: `kernel`, `group` (of short kernels that were timed together), `while`, `conditional`,
    `host` (a call outside), `results` (copies to the results), `entry` (the rest of the entry
    function) or `call` (what is around native code); of the interpreter `instruction`, of
    compilations `stage`, `pass` and `part`. opcode: of
    the instruction that it computes; fused: names of those that it computes besides. calls: how
    often it ran in one run, on average; iterations: those of a loop. self_s, total_s: seconds a
    run, without and with what is inside; runs_s: the total by run. is_sampled: not all of its calls
    were timed.
    operations, transcendentals, bytes: those of one run, as `hlo.analysis.cost` counts them.
    element_type: of its operands. busy_threads: how many worked on it, on average. peak_share: of
    what the machine can do, `compute` or `memory`, which is `bound`; 0 and "" if not known.
    """

    name: str
    kind: str
    parent: int = -1
    opcode: str = ""
    computation: str = ""
    steps: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()
    calls: float = 1.0
    iterations: float = 0.0
    self_s: float = 0.0
    total_s: float = 0.0
    runs_s: Spread = Spread()
    is_sampled: bool = False
    operations: float = 0.0
    transcendentals: float = 0.0
    bytes: float = 0.0
    element_type: str = ""
    busy_threads: float = 1.0
    peak_share: float = 0.0
    bound: str = ""
    hlo: str = ""
    location: SourceLocation = field(default_factory=SourceLocation)

    @property
    def label(self) -> str:
        """What readers see: the name, and what kind of thing it is if that is not a kernel."""
        return _LABELS.get(self.kind, self.name)


_LABELS = {"entry": "entry/overhead", "call": "call/python", "results": "entry/results"}


@dataclass(frozen=True)
class Slice:
    """A part of the timeline: which entry ran, since when, and how long, in seconds.

    thread: 0 is the one that called the program. mark: `run` or `iteration` if one begins here,
    `untimed` for several iterations that are not divided any further.
    """

    entry: int
    begin_s: float
    duration_s: float
    thread: int = 0
    mark: str = ""


@dataclass(frozen=True)
class ProfileData:
    """Where the time of a program's runs on one device went.

    wall_s, native_s: seconds of a run, with and without what Python does around native code.
    entries: all kernels and what is around them; their `self_s` add up to the mean of `wall_s`.
    idle_s: seconds of a run that threads waited, all together; busy_s: of each thread but the
    first, what it worked. timeline: the first slices in order of time; dropped: how many more there
    would be. peak: what the machine can do, if it was measured. memory_bytes: the high-water
    mark of the first run, arguments and constants included, if the system tells (Linux) and there
    is one device.
    """

    module: str
    backend: str = "compiled"
    device: int = 0
    runs: int = 0
    threads: int = 1
    wall_s: Spread = Spread()
    native_s: Spread = Spread()
    entries: tuple[KernelTime, ...] = ()
    idle_s: float = 0.0
    busy_s: tuple[float, ...] = ()
    timeline: tuple[Slice, ...] = ()
    dropped: int = 0
    peak: Peak | None = None
    memory_bytes: int | None = None

    def by_time(self) -> list[KernelTime]:
        """Return the entries that took time, those that took most first."""
        return sorted((e for e in self.entries if e.self_s > 0), key=lambda e: -e.self_s)

    def path(self, number: int) -> list[KernelTime]:
        """Return an entry by its place, and what it is in, the outermost first."""
        found: list[KernelTime] = []
        while number >= 0:
            found.append(self.entries[number])
            number = self.entries[number].parent
        return found[::-1]
