"""Mutates modules, and optimizes, compiles and runs the mutants that are valid.

    python -m tests.sweeps.fuzz_run [--first SEED] [--count N] [--corpus DIR] [--keep DIR] [--quick]
        [--low-limits] [--edges]

Each seed makes one mutant of a module of the repository, or of a module in DIR. The interpreter
runs it on random inputs. What the default passes make of it has to be valid after each of them and
give the same; so has native code, of the mutant as it is or optimized. Findings are: results that
differ by more than rounding, errors of one backend alone, exceptions that are no HloError, the end
of the process, and what takes more than 10 seconds or 2 GB. Prints the first of each kind, and
exits 1 when there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, overload

import numpy as np

import hlo
from hlo.analysis.cost import cost_of
from hlo.analysis.devices import devices_of
from hlo.analysis.patterns import order_terms
from hlo.analysis.rounding import rounded_digits
from hlo.analysis.trips import trip_count
from hlo.codegen.pipeline import Program  # noqa: F401  (loaded here, not by each process)
from hlo.compiler.binding import bind
from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import build
from hlo.errors import HloError, InferError
from hlo.eval import Interpreter, interpret, interpret_devices
from hlo.frontends.text import parse
from hlo.host import Host
from hlo.ir import Computation, Instruction, Module
from hlo.ir.extract import extract
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of
from hlo.passes.observers import VerifyEach
from hlo.runtime.executable import Executable
from hlo.runtime.jit import host_machine
from hlo.support.memory import collector_paused
from hlo.testing.compare import compare, is_inexact, nudged, spread
from hlo.testing.sampling import random_value
from hlo.values.arrays import actual
from hlo.values.layout import physical_bytes
from hlo.values.types import UNBOUNDED, ArrayShape, array
from hlo.verifier import verify
from tests.harness.low_limits import lower_limits
from tests.harness.oracle import leaves
from tests.harness.paths import TESTS
from tests.sweeps import fuzz, mutate
from tests.sweeps.compare_generated import quick_machine

# What a case may take; above, it is skipped.
_OPERATIONS = 1_000_000
_BYTES = 4_000_000
_INSTRUCTIONS = 300
_STEPS = 10_000
_DEVICES = 8
# What takes longer than this in the interpreter is no finding: it may be a loop without end.
_SLOW_S = 0.7
# Above these, a case is a finding.
_LIMIT_S = 10
_LIMIT_BYTES = 2 << 30
# How much more than the last places of the inputs those of what is computed of them may change.
_MORE = 8
# How often there is a line on the way.
_SHOWN_S = 30
# Larger modules are cut into pieces, so many of each.
_LARGE = 6000
_PIECES = 60

# What one backend may say alone: that it cannot do it. Native code needs each custom call that
# there is, not only those that run, and layouts that say where elements are.
_LIMITS = ("unsupported", "too-large", "call-depth", "unknown-custom-call", "bad-layout")


class Slow(Exception):
    """The interpreter takes too long."""


class Verdict(NamedTuple):
    """What became of a case: `ok`, why it was skipped, or with `found` what is wrong."""

    what: str
    found: str = ""


# --- texts to begin with ------------------------------------------------------------------------


def corpus(folder: Path | None = None) -> Beginnings:
    """Return the modules that mutants are made of: of a folder, else the repository's."""
    here = TESTS
    if folder is not None:
        files = sorted(p for p in folder.rglob("*") if p.suffix in (".hlo", ".txt"))
        return Beginnings([p.read_text(errors="replace") for p in files])
    sources = fuzz.corpus()
    sources += [p.read_text() for p in sorted((here.parent / "examples").glob("*.hlo"))]
    for path in sorted(here.glob("test_*.py")):
        sources += mutate.modules_in_python(path.read_text())
    return Beginnings(sources)


class Beginnings(Sequence[str]):
    """The texts that mutants are made of, each made ready when it is first asked for.

    A large module is in as many pieces; what is not valid, or does not fit, is an empty text.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = sources
        self._places = [
            (n, piece) for n, source in enumerate(sources)
            for piece in range(_PIECES if len(source) > _LARGE else 1)
        ]  # fmt: skip
        self._modules: dict[int, Module | None] = {}
        self._texts: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self[n] for n in range(len(self))[at]]
        if at not in self._texts:
            source, piece = self._places[at]
            if source not in self._modules:
                self._modules[source] = mutate.valid(self._sources[source])
            module = self._modules[source]
            is_whole = len(self._sources[source]) <= _LARGE
            self._texts[at] = "" if module is None else _small(
                random.Random(at), mutate.plain(module if is_whole else _piece(module, piece))
            )  # fmt: skip
        return self._texts[at]


def _piece(module: Module, number: int) -> Module:
    """Return a few instructions of a module, as a module."""
    rng = random.Random(number)
    inside = [i for i in module.instructions() if i.operands and not i.shape.is_token]
    return extract(rng.choice(inside), rng.choice((0, 1, 1, 2, 3, 5))) if inside else module


def _small(rng: random.Random, text: str) -> str:
    """Return a text with sizes that fit, an empty one if none were found."""
    for tried in (text, *(mutate.smaller(rng, text) for _ in range(8))):
        found = mutate.valid(tried, fits) if len(tried) < 2 * _LARGE else None
        if found is not None:
            return mutate.plain(found)
    return ""


def fits(module: Module) -> bool:
    """Return whether a module is small enough to be run by the thousands."""
    if sum(1 for _ in module.instructions()) > _INSTRUCTIONS:
        return False
    cost = cost_of(module.entry)
    shapes = [leaf for inst in module.instructions() for _, leaf in inst.shape.leaves()]
    try:
        held = sum(physical_bytes(leaf) for leaf in shapes if isinstance(leaf, ArrayShape))
    except InferError:  # a layout without addresses, which is for both backends to refuse
        held = 0
    counts = devices_of(module)
    return (
        cost.operations + 8 * cost.transcendentals <= _OPERATIONS
        and max(cost.bytes, held) <= _BYTES
        and _steps(module.entry, {}) <= _STEPS
        and counts[0] * counts[1] <= _DEVICES
        and all(isinstance(leaf, ArrayShape) and UNBOUNDED not in leaf.dims
                for shape in module.entry.parameter_shapes for _, leaf in shape.leaves())
    )  # fmt: skip


def _steps(comp: Computation, known: dict[Computation, int]) -> int:
    """Return how many instructions run, loops of unknown length once."""
    if comp not in known:
        total = len(comp)
        for inst in comp:
            times = 1 if inst.opcode != "while" else trip_count(inst) or 1
            total += times * sum(_steps(c, known) for c in inst.called_computations)
        known[comp] = total
    return known[comp]


# --- one case -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How cases are run. edges: inputs have special values, and passes are left out."""

    quick: bool = False
    edges: bool = False


Run = Callable[[Sequence[Any]], list[np.ndarray]]


def judge(text: str, seed: int, options: Options) -> Verdict:
    """Return what becomes of a module, which is valid.

    seed: says on which inputs it runs, and in which ways.
    """
    module, rng = parse(text), random.Random(seed)
    counts = devices_of(module)
    args = [_arguments(module, seed + 1000003 * n, options) for n in range(counts[0] * counts[1])]
    try:
        with _timer(_SLOW_S):
            want = _outcome(_interpreted(module, counts), args)
    except Slow:
        return Verdict("slow to interpret")
    verdict = Verdict("ok" if isinstance(want, list) else f"ok, {want.diagnostics[0].code}")
    with _timer(_LIMIT_S):
        passes = "" if options.edges else rng.choice(("", "default", "default"))
        if passes:
            optimized = module.clone()
            run_pipeline(optimized, pipeline_of("default"), [VerifyEach(verify)])
            printed = str(optimized)
            if str(parse(printed)) != printed:
                return Verdict("print", "the print of the optimized module is another one")
            again = _outcome(_interpreted(optimized, counts), args)
            if found := _difference(module, again, want, args, counts, optimized=True):
                return Verdict("passes", f"optimized, interpreted: {found}")
        got = native(module, counts, passes, args, options)
        if found := _difference(module, got, want, args, counts, optimized=bool(passes)):
            return Verdict("native", f"native, passes={passes!r}: {found}")
    return verdict


# What these make of extreme numbers depends on the order in which they add.
_SUMS = frozenset(
    """dot convolution reduce reduce-window scatter select-and-scatter fft ragged-dot scaled-dot
    scan batch-norm-training batch-norm-grad batch-norm-inference all-reduce reduce-scatter cholesky
    triangular-solve custom-call""".split()
)


def _arguments(module: Module, seed: int, options: Options) -> list[Any]:
    if not options.edges or any(i.opcode in _SUMS for i in module.instructions()):
        return hlo.random_inputs(module, seed)
    rng = np.random.default_rng(seed)
    return [random_value(rng, p.shape, edges=True) for p in module.entry.parameters]


def _interpreted(module: Module, counts: tuple[int, int]) -> Run:
    if counts == (1, 1):
        return lambda args: interpret(module, args[0])
    return lambda args: interpret_devices(module, args, counts)


def native(
    module: Module, counts: tuple[int, int], passes: str, args: Sequence[Any], options: Options
) -> list[np.ndarray] | HloError:
    """Return the result leaves of all devices from native code, or the error that it ends in."""
    try:
        if counts != (1, 1):
            client = hlo.Client(counts[0] * counts[1], backend="compiled", cache=False)
            results = client.execute_replicated(module, args)
            return [actual(v) for r in results for v in leaves(client.transfer(r).value)]
        machine = quick_machine() if options.quick else host_machine("")
        program = build(module, machine, Clock(), passes)
        outside = bind(program.imports, Host(), program.collectives) if program.uses_host else None
        return _outcome(lambda a: Executable(program, threads=2, outside=outside)(*a[0]), args)
    except HloError as e:
        return e


def _outcome(run: Run, args: Sequence[Any]) -> list[np.ndarray] | HloError:
    try:
        return [actual(v) for v in leaves(run(args))]
    except HloError as e:
        str(e)
        return e


def _difference(
    module: Module, got: list[np.ndarray] | HloError, want: list[np.ndarray] | HloError,
    args: Sequence[Any], counts: tuple[int, int], *, optimized: bool,
) -> str:  # fmt: skip
    """Return how two outcomes differ, "" if they do not."""
    if isinstance(got, HloError):
        code = got.diagnostics[0].code
        if code in _LIMITS or (isinstance(want, HloError) and want.diagnostics[0].code == code):
            return ""
        first = f"{code}: {got.diagnostics[0].message}"
        if isinstance(want, HloError):
            return f"{first}; expected {want.diagnostics[0].code}: {want.diagnostics[0].message}"
        return f"fails alone: {first}"
    if isinstance(want, HloError):
        # What is not needed is not computed, and need not fail.
        needed = module.clone()
        run_pipeline(needed, pipeline_of("default" if optimized else "dce"))
        still = _outcome(_interpreted(needed, counts), args)
        if isinstance(still, HloError) and still.diagnostics[0].code not in _LIMITS:
            return f"gives results, no {want.diagnostics[0].code}: {want.diagnostics[0].message}"
        return ""
    if len(got) != len(want):
        return f"{len(got)} results, {len(want)} expected"
    near: list[np.ndarray] | HloError | None = None
    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"result {n} is {g.dtype}{list(g.shape)}, not {w.dtype}{list(w.shape)}"
        found = compare(g, w)
        if found.same:
            continue
        if near is None:
            digits = rounded_digits(module)
            nearby = [[nudged(v, digits) for v in own] for own in args]
            near = _outcome(_interpreted(module, counts), nearby)
        if isinstance(near, HloError) or not _is_stable(w, near[n], g):
            continue
        # Inside of loops, what rounding does grows further.
        found = compare(g, w, sensitivity=_MORE * spread(w, near[n]))
        if not found.same and not any(map(_is_unspecified, module.instructions())):
            return f"result {n} {w.dtype}{list(w.shape)}: {found}"
    return ""


def _is_unspecified(inst: Instruction) -> bool:
    """Return whether results may be others each time: random, or by no order, or by any order."""
    if inst.opcode == "sort":
        return order_terms(inst.attrs["to_apply"]) is None
    if inst.opcode in ("reduce", "reduce-window"):
        return not _is_associative(inst.attrs["to_apply"])
    return inst.opcode == "rng"  # what is drawn depends on what was drawn before


def _is_associative(function: Computation) -> bool:
    """Return whether it seems that a function of accumulators and elements is associative."""
    rng = np.random.default_rng(0)
    shapes = [array(p.array_shape.element_type, [4096]) for p in function.parameters]
    count = len(shapes) // 2
    if shapes[:count] != shapes[count:]:
        return False
    a, b, c = ([random_value(rng, s) for s in shapes[:count]] for _ in range(3))

    def apply(x: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> list[np.ndarray]:
        return leaves(Interpreter().apply(function, [*x, *y]))

    pairs = zip(apply(apply(a, b), c), apply(a, apply(b, c)), strict=True)
    return all(compare(x, y).same for x, y in pairs)


def _is_stable(want: np.ndarray, near: np.ndarray, got: np.ndarray) -> bool:
    """Return whether the last places of the inputs do not decide what a result is like."""
    if want.shape != near.shape:
        return False
    if not is_inexact(want.dtype):
        return bool((want == near).all())
    with np.errstate(all="ignore"):
        return bool((np.isfinite(want) == np.isfinite(near)).all())


@contextlib.contextmanager
def _timer(seconds: float) -> Iterator[None]:
    """Raise Slow after seconds of this process's own time, in whatever thread they are spent.

    The garbage of what ran before is none of it; what is raised while it is collected gets lost.
    """
    end, done, main = time.process_time() + seconds, threading.Event(), threading.get_ident()

    def watch() -> None:
        while not done.wait(0.02):
            if time.process_time() > end:
                signal.pthread_kill(main, signal.SIGUSR1)
                return

    def ring(signum: int, frame: FrameType | None) -> None:
        raise Slow(f"more than {seconds} s")

    previous = signal.signal(signal.SIGUSR1, ring)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        with collector_paused():
            yield
    finally:
        done.set()
        watcher.join()
        signal.signal(signal.SIGUSR1, previous)


def checked(text: str, seed: int, options: Options) -> Verdict:
    """Return what becomes of a module, whatever goes wrong."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return judge(text, seed, options)
    except Slow as e:
        return Verdict("hang", f"{e} at {_place(e)}")
    except HloError as e:
        return Verdict("error", f"{e.diagnostics[0].code}: {e.diagnostics[0].message}")
    except Exception as e:
        return _exception(e)


def _exception(error: BaseException) -> Verdict:
    return Verdict("exception", f"{type(error).__name__} at {_place(error)}: {str(error)[:200]}")


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/tests/" not in f.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


# --- many, in a process that may die --------------------------------------------------------------


def _work(ask: Connection, texts: Sequence[str], options: Options) -> None:
    """Answer seeds with the text of the case, and then with what became of it."""
    with contextlib.suppress(EOFError):
        while True:
            seed = ask.recv()
            try:
                text = mutate.mutant(random.Random(seed), texts, fits)
            except mutate.Broken as e:
                ask.send(e.text)
                ask.send(_exception(e.__cause__ or e))
                continue
            ask.send(text)
            if text is not None:
                ask.send(checked(text, seed, options))


class Worker:
    """A process that runs cases, and another one when it has died."""

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        self._texts, self._options = texts, options
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        self._ask, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(theirs, self._texts, self._options), daemon=True
        )
        self._process.start()
        theirs.close()

    def run(self, seed: int) -> tuple[str | None, Verdict]:
        """Return the mutant of a seed and what became of it."""
        text: str | None = None
        verdict = None
        try:
            self._ask.send(seed)
            verdict = self._watch()
            if verdict is None:
                text = self._ask.recv()
                if text is None:
                    return None, Verdict("no mutant")
                verdict = self._watch() or self._ask.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            verdict = Verdict("crash", f"the process ended with {self._process.exitcode}")
        if verdict.what in ("crash", "memory", "stuck"):
            self.close()
            self._start()
        return text, verdict

    def _watch(self) -> Verdict | None:
        """Wait for an answer; returns why it is not waited for any longer."""
        begun = _spent(self._process.pid)
        while not self._ask.poll(0.05):
            cpu_s, held = _spent(self._process.pid)
            if held > _LIMIT_BYTES:
                return Verdict("memory", f"more than {_LIMIT_BYTES >> 30} GB")
            if cpu_s - begun[0] > 2 * _LIMIT_S:
                return Verdict("stuck", f"more than {2 * _LIMIT_S} s")
        return None

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._ask.close()


def _spent(pid: int | None) -> tuple[float, int]:
    """Return the seconds of processor time that a process took, and the bytes it holds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0, 0
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * resource.getpagesize()


@dataclass
class Tally:
    """What became of the cases so far."""

    cases: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    start: float = field(default_factory=time.monotonic)

    def line(self) -> str:
        run = self.cases - self.ends["no mutant"]
        return (
            f"{self.cases} seeds, {run} mutants run in {time.monotonic() - self.start:.0f} s, "
            f"{sum(self.kinds.values())} findings of {len(self.kinds)} kinds"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--corpus", type=Path, help="folder of modules instead of our own")
    parser.add_argument("--keep", type=Path, help="folder for the cases that are findings")
    parser.add_argument("--quick", action="store_true", help="without LLVM's optimizations")
    parser.add_argument("--low-limits", action="store_true", help="compile as if all were large")
    parser.add_argument("--edges", action="store_true", help="special values among the inputs")
    given = parser.parse_args()
    if given.low_limits:
        lower_limits()
    texts = corpus(given.corpus)
    print(f"{len(texts)} modules, or pieces of them, to begin with", flush=True)
    worker, tally = Worker(texts, Options(given.quick, given.edges)), Tally()
    shown = tally.start
    for seed in range(given.first, given.first + given.count):
        text, verdict = worker.run(seed)
        tally.cases += 1
        tally.ends[verdict.what] += 1
        if verdict.found:
            kind = re.sub(r"%?[\w.-]*\d[\w.+-]*", "N", verdict.found)[:100]
            tally.kinds[kind] += 1
            if tally.kinds[kind] <= 3:
                print(f"--- {seed}: {verdict.what}: {verdict.found}", flush=True)
                if given.keep and text is not None:
                    given.keep.mkdir(parents=True, exist_ok=True)
                    path = given.keep / f"{seed}.hlo"
                    path.write_text(f"// {verdict.found.splitlines()[0]}\n{text}")
        if time.monotonic() - shown >= _SHOWN_S:
            print(tally.line(), flush=True)
            shown = time.monotonic()
    worker.close()
    for what, times in tally.ends.most_common():
        print(f"{times:7d}  {what}")
    for kind, times in tally.kinds.most_common():
        print(f"{times:7d}  {kind}")
    print(tally.line())
    return 1 if tally.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
