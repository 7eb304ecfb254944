"""The process of `make gpu-check` that runs cases: one that loses the device is started again.

It reads the name of a case from each line of standard input, and answers with a line of JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hlo
from hlo.analysis.devices import devices_of
from hlo.compiler.backends import LoadedModule, load, machine_of
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.host import Host
from hlo.io.arguments import bind_arguments
from hlo.ir import Module
from hlo.ops import OPS
from hlo.values.arrays import actual
from tests.generators.ops import Case
from tests.harness.oracle import leaves
from tests.harness.paths import ROOT
from tests.sweeps.compare_generated import GENERATORS, OF_ONE, compare_results
from tests.sweeps.compare_gpu import example

# Large programs are compared with native code, which is compared with the interpreter elsewhere;
# sums are in another order.
_RTOL_OF_LARGE = 1e-3
# Runs are timed for about so long, and each program so often at least.
_SECONDS, _LEAST_RUNS = 0.5, 5
_STATEFUL = {"infeed", "outfeed", "send", "recv", "rng", "rng-get-and-update-state", "custom-call"}


def names(count: int, models: Path | None) -> list[str]:
    """Return the names of all cases; count: of generated modules."""
    found = [f"example {op} {n}" for op, spec in OPS.items() for n in range(len(spec.examples))]
    kinds = list(GENERATORS)
    found += [f"generated {kinds[n % len(kinds)]} {n // len(kinds)}" for n in range(count)]
    folders = [ROOT / "examples", *([models] if models is not None else [])]
    found += [f"model {path}" for folder in folders for path in sorted(folder.glob("*.hlo"))]
    return found + suite()


def suite() -> list[str]:
    """Return the names of the benchmark's programs, which JAX writes; none without it."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from cases import CASES
    except ImportError:
        return []
    return [f"suite {name}" for name in CASES]


class Worker:
    """Runs cases on one backend."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        machine = machine_of(backend)
        assert machine is not None
        self.machine = machine

    def run(self, name: str) -> dict[str, Any]:
        """Return what was found: `failed` says what is wrong, if anything is."""
        before = self.machine.device.allocated_bytes
        found: dict[str, Any] = {"name": name}
        try:
            self._run(name, found)
        except Exception as e:  # whatever goes wrong is a result
            said = (str(e) or type(e).__name__).strip().splitlines()
            found["failed"] = " ".join(said[:3])[:400]
            found["code"] = getattr(e, "code", type(e).__name__)
        gc.collect()
        leaked = self.machine.device.allocated_bytes - before
        if leaked and "failed" not in found:
            found["failed"] = f"{leaked} bytes of device memory were not given back"
            found["code"] = "leak"
        return found

    def _run(self, name: str, found: dict[str, Any]) -> None:
        kind, _, rest = name.partition(" ")
        if kind in ("example", "generated"):
            self._run_small(_small(kind, rest), found)
            return
        module, args = _large(kind, rest)
        if devices_of(module) != (1, 1):
            found["skipped"] = "it is for several devices"
            return
        start = time.perf_counter()
        native = hlo.compile(module, cache=False)
        found["native_compile_s"] = time.perf_counter() - start
        program = self._load(module, "default", found)
        values = [*args]
        want = leaves(native(*values))
        self._compare(program, values, want, _RTOL_OF_LARGE, has_state=_has_state(module))
        self._time(module, program, values, found)

    def _run_small(self, case: Case, found: dict[str, Any]) -> None:
        """Compare with the interpreter, where it refuses to run the error."""
        program = self._load(case.module, "", found)
        try:
            want = leaves(interpret(case.module, case.args))
        except HloError as e:
            try:
                program(*case.args)
            except HloError as other:
                assert other.code == e.code, f"{other.code} instead of {e.code}"
                return
            raise AssertionError(f"it runs, instead of {e.code}") from None
        has_state = _has_state(case.module)
        self._compare(program, case.args, want, case.rtol, has_state=has_state)

    def _load(self, module: Module, passes: str, found: dict[str, Any]) -> LoadedModule:
        start = time.perf_counter()
        program = load(module, self.backend, passes=passes)
        found["compile_s"] = time.perf_counter() - start
        return program

    def _compare(
        self, program: LoadedModule, args: Sequence[Any], want: Sequence[Any],
        rtol: float | None, *, has_state: bool,
    ) -> None:  # fmt: skip
        """Fail unless results are right, and those of three runs are the same bits."""
        first = [np.asarray(actual(leaf)) for leaf in leaves(program(*args))]
        compare_results(first, [np.asarray(actual(leaf)) for leaf in want], rtol)
        if has_state:
            return
        # The second run records what the third replays.
        for which in ("second", "third"):
            again = [np.asarray(actual(leaf)) for leaf in leaves(program(*args))]
            same = [a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True)]
            assert all(same), f"the {which} run gives other bits than the first"

    def _time(
        self, module: Module, program: LoadedModule, args: Sequence[Any], found: dict[str, Any]
    ) -> None:
        """Note the time of a run on data of the device, beside XLA's if it is there."""
        here = [self.machine.put(np.asarray(arg)) for arg in args]
        sides: dict[str, Callable[[], Any]] = {"run_s": lambda: program(*here)}
        xla = _on_xla(module, args)
        if isinstance(xla, str):
            found["xla_failed"] = xla
        elif xla is not None:
            sides["xla_s"] = xla
            found["xla_difference"] = difference(leaves(program(*here)), xla())
        found |= interleaved(sides)
        assert program.timed is not None
        values = bind_arguments(program.parameters, [self.machine.taken(x) for x in here])
        _, timings = program.timed(Host(), values)
        found["kernels_s"] = sum(seconds for _, seconds in timings)
        found["launches"] = len(timings)


def interleaved(sides: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median time of each side, measured in turns."""
    for run in sides.values():
        for _ in range(3):
            run()
    times: dict[str, list[float]] = {name: [] for name in sides}
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(next(iter(times.values()))) < _LEAST_RUNS:
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(found)) for name, found in times.items()}


def difference(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """Return the largest difference of results, beside the largest number of each.

    XLA computes products of f32 in tf32, unless the module says otherwise.
    """
    largest = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        a, b = np.asarray(mine).astype(np.complex128), np.asarray(other).astype(np.complex128)
        both = np.isfinite(a) & np.isfinite(b)
        scale = float(np.max(np.abs(b), initial=0.0, where=both)) or 1.0
        largest = max(largest, float(np.max(np.abs(a - b), initial=0.0, where=both)) / scale)
    return largest


def _on_xla(module: Module, args: Sequence[Any]) -> Callable[[], Any] | str | None:
    """Return what runs a module on XLA:GPU, why that fails, or None where jax has no GPU."""
    try:
        import jax

        jax.devices("gpu")
    except (ImportError, RuntimeError):
        return None
    from hlo.profiler.bench_worker import xla_run

    try:
        run = xla_run(hlo.to_proto(module), list(args), "gpu")
        run()
    except Exception as e:  # XLA's own
        return str(e).splitlines()[0][:200]
    return run


def _has_state(module: Module) -> bool:
    """Return whether a run may give another result than the one before."""
    return any(inst.opcode in _STATEFUL for inst in module.instructions())


def _small(kind: str, rest: str) -> Case:
    name, number = rest.rsplit(" ", 1)
    if kind == "generated":
        return (GENERATORS | OF_ONE)[name](int(number))
    seed = list(OPS).index(name)
    return example(parse(OPS[name].examples[int(number)]), seed)


def _large(kind: str, rest: str) -> tuple[Module, list[Any]]:
    if kind == "suite":
        sys.path.insert(0, str(ROOT / "bench"))
        from cases import export

        text, args = export(rest)
        return parse(text), list(args)
    module = hlo.load(rest)
    # Inputs are used again: results get memory of their own.
    for promise in ("input_output_alias", "buffer_donor"):
        module.attrs.pop(promise, None)
    return module, list(hlo.random_inputs(module, seed=0))


def main() -> None:
    # Whatever a program prints is no answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        answers.write(json.dumps(worker.run(line.rstrip("\n"))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
