"""A fair measurement of programs: pinned, warmed up, in turns, until the interval is narrow."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.frontends.programs import module_of
from hlo.io.arguments import Parameter, bind_call
from hlo.ir import Module, need_module
from hlo.profiler.intervals import CONFIDENCE, Estimate, estimate
from hlo.support.notebook import block, paragraph, table
from hlo.support.signature import checked
from hlo.values.arrays import TOKEN_VALUE, actual

FORMAT = "hlo-bench"
# Turns are at least so long: shorter runs are repeated in a row, as programs would run them.
_TURN_S = 2e-3
_WARM_S = 0.1
_FIRST_TURNS = 12
_DRIFT = 0.03
# Two processes of one program differ by up to so much for as long as they live, by where their
# memory lies. A difference is one beyond it, in an interval that is right in all but one of a
# thousand comparisons.
_SAME, _SURE = 0.05, 0.999


@dataclass(frozen=True)
class Side:
    """What is measured: a file, and how it runs.

    file: its name, or that of the module in it. path: where it is. backend: `compiled`, or `xla`
    through jaxlib. python: the interpreter whose package runs it, by default this one. threads: by
    default one for each processor that is used. inputs: a file of arrays; random ones without it.
    strict: with strict arithmetic.
    """

    file: str
    path: str = ""
    backend: str = "compiled"
    passes: str = "default"
    threads: int | None = None
    python: str = ""
    inputs: str = ""
    strict: bool = False

    def __str__(self) -> str:
        parts = [self.file]
        if self.backend != "compiled":
            parts.append(self.backend)
        if self.passes != "default":
            parts.append(f"passes={self.passes or 'none'}")
        parts += [f"threads={self.threads}"] if self.threads else []
        parts += ["strict-math=on"] if self.strict else []
        return " ".join(parts + ([f"({self.python})"] if self.python else []))


@dataclass(frozen=True)
class Measured:
    """The seconds of a run of one side.

    compile_s: of its compilation in a new process, with an empty cache. warm_compile_s: of another
    one in that process, with the program in the cache; None for XLA, which has no such cache.
    """

    side: Side
    seconds: Estimate
    version: str
    compile_s: float
    runs: int
    warm_compile_s: float | None = None

    @property
    def compilation(self) -> str:
        """The times of compilation, as text."""
        warm = self.warm_compile_s
        return duration(self.compile_s) + ("" if warm is None else f" cold, {duration(warm)} warm")


@dataclass(frozen=True)
class Comparison:
    """What was measured of one or two sides.

    ratio: of the second side's time to the first one's, pair by pair; None for one side. warnings:
    reasons to trust it less. cpus: the processors that ran it. is_different: whether one is surely
    faster than the other, by more than two processes that run the same.
    """

    sides: tuple[Measured, ...]
    ratio: Estimate | None
    warnings: tuple[str, ...]
    cpus: tuple[int, ...]
    is_different: bool = False

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.ratio is None:
            (only,) = self.sides
            s = only.seconds
            return (
                f"{duration(s.value)} ({duration(s.low)} to {duration(s.high)}, {CONFIDENCE:.0%})"
            )
        r = self.ratio
        if not self.is_different:
            found = f"no difference found: {r.low:.3g} to {r.high:.3g} ({CONFIDENCE:.0%})"
            if r.low <= 1 <= r.high:
                return found
            return f"{found}, as two processes of one program may differ"
        if r.value < 1:
            r = Estimate(1 / r.value, 1 / r.high, 1 / r.low, r.count)
            faster = self.sides[1]
        else:
            faster = self.sides[0]
        return (
            f"{faster.side} is {r.value:.3g}x faster ({r.low:.3g} to {r.high:.3g}, "
            f"{CONFIDENCE:.0%})"
        )

    def to_json(self) -> dict[str, Any]:
        """Return all as values of JSON, which docs/schemas/hlo-bench.schema.json describes."""

        def bounded(e: Estimate) -> dict[str, Any]:
            return asdict(e) | {"high": e.high if math.isfinite(e.high) else None}

        return {
            "format": FORMAT,
            "version": 1,
            "sides": [
                {k: v for k, v in asdict(m.side).items() if k not in ("path", "inputs")}
                | {"seconds": bounded(m.seconds), "version": m.version}
                | {"compile_s": m.compile_s, "warm_compile_s": m.warm_compile_s, "runs": m.runs}
                for m in self.sides
            ],
            "ratio": None if self.ratio is None else bounded(self.ratio),
            "confidence": CONFIDENCE,
            "different": self.is_different,
            "verdict": self.verdict,
            "warnings": list(self.warnings),
            "cpus": list(self.cpus),
        }

    def __repr__(self) -> str:
        return f"<Comparison of {' and '.join(str(m.side) for m in self.sides)}: {self.verdict}>"

    def _repr_html_(self) -> str:
        rows = (
            (str(m.side), *map(duration, (m.seconds.value, m.seconds.low, m.seconds.high)),
             str(m.runs), m.compilation, m.version)
            for m in self.sides
        )  # fmt: skip
        columns = ["side", "a run", "from", "to", "runs", "compilation", "version"]
        warnings = (paragraph(f"warning: {w}") for w in self.warnings)
        return block(table(columns, rows, left=(0, 6)), paragraph(self.verdict), *warnings)

    def __str__(self) -> str:
        lines = [
            f"{m.side}: {duration(m.seconds.value)} a run, {m.runs} runs, compiled in "
            f"{m.compilation}, {m.version}"
            for m in self.sides
        ]
        return "\n".join([*lines, self.verdict, *(f"warning: {w}" for w in self.warnings)])


def duration(seconds: float) -> str:
    """Return seconds with a unit, three digits."""
    if not math.isfinite(seconds):
        return "any time"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


@checked
def bench(
    module: Any, *args: Any, other: Any = None, vs: str | None = None,
    passes: str = "default", threads: int | None = None, baseline_python: str | None = None,
    precision: float = 0.01, max_time: float = 30.0, seed: int = 0, strict: bool = False,
    **named: Any,
) -> Comparison:  # fmt: skip
    """Measure a run of a module, or compare two sides in turns.

    Args:
        module: the module; or the name of a file, as of `hlo.load`, or a program of JAX, as of
            `hlo.from_jax`.
        args: as of `hlo.interpret`, or none at all for random ones. A second module or file in
            place of them is `other`.
        other: a second module, file or program of JAX to compare with.
        vs: what else runs in comparison: `xla`, or options `passes=..`, `threads=..` and
            `strict-math=on` (or `off`).
        passes: the pipeline, as for `hlo.compile`.
        threads: how many work on a run, each on a processor of its own; by default all.
        baseline_python: an interpreter with another version of this package to compare with.
        precision: how far the interval may reach from the median on either side, as a fraction of
            it.
        max_time: seconds after which to stop in any case.
        seed: of random inputs.
        strict: strict arithmetic, as for `hlo.compile`.
        named: parameters by name, as of `hlo.interpret`.

    Raises:
        HloError: for what cannot be run.

    >>> text = "HloModule m ENTRY e { x = f32[64] parameter(0) ROOT y = f32[64] tanh(x) }"
    >>> module = hlo.parse(text)
    >>> found = hlo.bench(module, max_time=0.5)
    >>> found.sides[0].seconds.value > 0
    True
    """
    if len(args) == 1 and isinstance(args[0], Module | str | Path):
        if other is not None:
            raise HloError.at("bad-value", "give only one other side")
        other, args = args[0], ()
    with tempfile.TemporaryDirectory(prefix="hlo-bench-") as folder:
        first = Side(*_file_of(module, args, named, Path(folder) / "module.hlo"))
        inputs = _inputs_of(first, module, args, named, Path(folder) / "inputs.npz")
        first = replace(first, passes=passes, threads=threads, inputs=inputs, strict=strict)
        sides = [first]
        if other is not None:
            name, path = _file_of(other, args, named, Path(folder) / "other.hlo")
            sides.append(replace(first, file=name, path=path))
        if vs is not None:
            sides.append(_versus(first, vs))
        if baseline_python is not None:
            sides.append(replace(first, python=baseline_python))
        if len(sides) > 2:
            raise HloError.at("bad-value", "give only one of OTHER, --vs and --baseline-python")
        if not 0 < precision < 1 or max_time <= 0:
            raise HloError.at(
                "bad-value", "precision must be between 0 and 1, and max_time more than 0"
            )
        return compare_sides(sides, precision=precision, max_time=max_time, seed=seed)


def _file_of(
    given: Any, args: Sequence[Any], named: Mapping[str, Any], path: Path
) -> tuple[str, str]:
    """Return what a module is called, and its file: a new one where it is not in a file."""
    if isinstance(given, str | Path):
        return str(given), os.path.abspath(given)
    module = module_of(given, args, named, calls=True)
    need_module(module)
    path.write_text(str(module), "utf-8")
    return module.name, str(path)


def _inputs_of(
    side: Side, given: Any, args: Sequence[Any], named: Mapping[str, Any], path: Path
) -> str:
    """Write the arguments of a run to a file; "" if there are none."""
    if not args and not named:
        return ""
    module = module_of(given, args, named, calls=True)
    parameters = [Parameter(p.parameter_number, p.name, p.shape) for p in module.entry.parameters]
    values = bind_call(parameters, args, named, module.usable_trees)
    np.savez(path, *(array for value in values for array in _leaves(value)))
    return str(path)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the arrays of an argument, without tokens."""
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    elif value is not TOKEN_VALUE:
        yield actual(value)


def _versus(side: Side, text: str) -> Side:
    if text.strip() == "xla":
        return replace(side, backend="xla")
    found: dict[str, Any] = {}
    for part in text.split():
        name, sign, value = part.partition("=")
        name = "strict" if name == "strict-math" else name
        if not sign or name not in ("passes", "threads", "strict") or name in found:
            hint = "use xla, or passes=.., threads=.. and strict-math=on, separated by spaces"
            raise HloError.at("bad-value", f"--vs: unknown option {part!r}", None, hint)
        if name == "threads" and not (value.isdecimal() and int(value)):
            raise HloError.at(
                "bad-value", f"--vs: threads={value}: threads must be a positive integer"
            )
        if name == "strict" and value not in ("on", "off"):
            raise HloError.at("bad-value", f"--vs: strict-math={value} is neither on nor off")
        found[name] = value
        if name != "passes":
            found[name] = int(value) if name == "threads" else value == "on"
    if not found:
        raise HloError.at("bad-value", "--vs is empty")
    return replace(side, **found)


def compare_sides(
    sides: Sequence[Side], *, precision: float, max_time: float, seed: int = 0
) -> Comparison:
    """Measure one or two sides in turns of random order. Raises HloError if one does not run."""
    cpus = _processors()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_worker(side, cpus, seed)) for side in sides]
        for w in workers:
            w.warm_up()
        times: list[list[float]] = [[] for _ in sides]
        rng, end, goal = random.Random(seed), time.monotonic() + max_time, _FIRST_TURNS
        found = None
        while True:
            order = list(range(len(sides)))
            rng.shuffle(order)
            for n in order:
                times[n].append(workers[n].turn())
            if len(times[0]) >= goal or time.monotonic() > end:
                found = _estimated(times)
                # Looking after each turn would stop at the first narrow interval by chance.
                goal = math.ceil(goal * 1.5)
                if found.spread <= precision or time.monotonic() > end:
                    break
        measured = tuple(
            Measured(w.side, estimate(t), w.version, w.compile_s, w.runs, w.warm_compile_s)
            for w, t in zip(workers, times, strict=True)
        )
    warnings = list(_warnings(times, found, precision, load, len(cpus)))
    if len(sides) == 1:
        return Comparison(measured, None, tuple(warnings), tuple(cpus))
    different = is_difference(_ratios(times))
    return Comparison(measured, found, tuple(warnings), tuple(cpus), different)


def is_difference(ratios: Sequence[float]) -> bool:
    """True if the ratios of two sides' times, pair by pair, are surely not those of equal ones."""
    sure = estimate(ratios, _SURE)
    return sure.low > 1 + _SAME or sure.high < 1 - _SAME


def _ratios(times: Sequence[Sequence[float]]) -> list[float]:
    return [b / a for a, b in zip(*times, strict=True)]


def _estimated(times: Sequence[Sequence[float]]) -> Estimate:
    """Return the estimate of the time of one side, or of the ratio of pairs of turns."""
    if len(times) == 1:
        return estimate(times[0])
    return estimate(_ratios(times))


def _warnings(
    times: Sequence[Sequence[float]], found: Estimate, precision: float, load: float, cpus: int
) -> Iterator[str]:
    if found.spread > precision:
        reach = f"{found.spread:.2%}" if math.isfinite(found.spread) else "no bound"
        yield f"the interval is wider than requested: {reach}, not {precision:.2%}"
    if load > 0.5 * cpus:
        yield f"the machine was busy before: a load of {load:.1f} on {cpus} processors"
    for number, values in enumerate(times, 1):
        half = len(values) // 2
        change = median(values[half:]) / median(values[:half]) - 1 if half else 0.0
        if abs(change) > _DRIFT:
            yield (
                f"times of side {number} drifted by {change:+.1%}: the processor's frequency, or "
                "what else runs, changed"
            )


def _processors() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


class _Worker:
    """The process of one side."""

    def __init__(self, side: Side, process: subprocess.Popen[str], request: dict[str, Any]) -> None:
        self.side, self._process = side, process
        about = self._ask(request)
        self.version, self.compile_s = about["version"], about["compile_s"]
        self.warm_compile_s = about["warm_compile_s"]
        self.runs, self._count = 0, 1

    def _ask(self, request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "its process ended"}
        if "failed" in answer:
            raise HloError.at(
                answer.get("code") or "bad-value", f"{self.side} does not run: {answer['failed']}",
                hint=answer.get("hint"),
            )  # fmt: skip
        return answer

    def warm_up(self) -> None:
        """Run until caches and frequencies have settled, and choose how many runs a turn has."""
        end, count = time.monotonic() + _WARM_S, 1
        while True:
            seconds = float(self._ask(count)["seconds"])
            if time.monotonic() > end and seconds > _TURN_S / 4:
                break
            if seconds < _TURN_S:
                count *= 2
        self._count = max(1, round(_TURN_S * count / seconds))

    def turn(self) -> float:
        """Return the seconds of a run, in a turn of some."""
        self.runs += self._count
        return float(self._ask(self._count)["seconds"]) / self._count


@contextlib.contextmanager
def _worker(side: Side, cpus: Sequence[int], seed: int) -> Iterator[_Worker]:
    """Start the process of a side, which ends with the context. Raises HloError."""
    mine = list(cpus[: side.threads] if side.threads else cpus)
    threads = side.threads or len(mine) or 1
    request = asdict(side) | {"cpus": mine, "threads": threads, "seed": seed}
    request["file"] = side.path or os.path.abspath(side.file)
    # A cache of its own, empty at first: compilation is measured cold and warm.
    cache = tempfile.mkdtemp(prefix="hlo-bench-")
    env = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    env["XDG_CACHE_HOME"] = cache
    if not side.python:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    source = Path(__file__).with_name("bench_worker.py").read_text("utf-8")
    try:
        process = subprocess.Popen(
            [side.python or sys.executable, "-c", source], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env,
        )  # fmt: skip
    except OSError as e:
        shutil.rmtree(cache, ignore_errors=True)
        raise HloError.at("bad-file", f"{side.python}: {(e.strerror or str(e)).lower()}") from None
    try:
        yield _Worker(side, process, request)
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(cache, ignore_errors=True)
