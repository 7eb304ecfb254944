"""Measure one program in this process, on one backend or on all in turns; print JSON.

    python bench/measure.py all|ours|xla CASE.hlo INPUTS.npz [SECONDS]
    python bench/measure.py kept CASE.hlo INPUTS.npz FOLDER

`all` times runs in alternation, so that whatever else the machine does hits all alike, and compares
the results; ours also runs as it is without passes, and where a case has functions of other
libraries for the same job, or ONNX the operations, these run, too. `ours` and `xla` measure a fresh
process: from the text to the first result, and the memory that takes beside the inputs. `kept` is
`ours` with a folder in which kernels are kept, but no programs.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from accuracy import in_double, relative_error, widened
from to_onnx import Unsupported, model_of

if TYPE_CHECKING:
    from hlo.runtime.cache import Cache

Run = Callable[[], list[np.ndarray]]
# Threads of a library that has done its work wait for more, taking a processor each: OpenBLAS's for
# 27 ms, onnxruntime's longer. A turn begins when they sleep, at the latest after so many seconds,
# with runs that nobody times.
SPIN_S, WARM_S = 2.0, 0.02
# Results with at most so many times XLA's error are not wrong, however much they differ.
ERROR = 1.5


def ours(
    text: str, args: list[np.ndarray], passes: str = "default", cache: Cache | None = None
) -> Run:
    """Return a function that runs the program compiled by this package."""
    from hlo.compiler.pipeline import compile_text

    exe = compile_text(text.encode(), "case", cache=cache or False, passes=passes)

    def run() -> list[np.ndarray]:
        result = exe(*args)
        return list(result) if isinstance(result, tuple) else [result]

    return run


def xla(text: str, args: list[np.ndarray]) -> Run:
    """Return a function that runs the program compiled by XLA for this processor."""
    import jaxlib._hlo

    from hlo.profiler.bench_worker import xla_run

    module = jaxlib._hlo.hlo_module_from_text(text)
    return xla_run(module.as_serialized_hlo_module_proto(), args)


BACKENDS = {"ours": ours, "xla": xla}


def prepare(backend: str) -> None:
    """Import what a backend needs, so that it is not part of what is measured."""
    if backend == "xla":
        import jax
        import jax._src.lax.linalg  # registers the LAPACK custom-call targets
        from jaxlib import lapack

        jax.devices("cpu")
        # Lowering a program does this; here a lowered one is read.
        lapack._lapack.initialize()
    else:
        import scipy.linalg  # noqa: F401  what has the LAPACK of custom calls

        import hlo

        hlo.compile(hlo.parse("f32[2] add(f32[2] a, f32[2] b)"), cache=False)


def wait_for_sleep() -> None:
    """Return when no thread of this process computes any more."""
    end, busy = time.perf_counter() + SPIN_S, True
    while busy and time.perf_counter() < end:
        before = time.process_time()
        time.sleep(0.01)
        busy = time.process_time() - before > 0.002


def timed(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def others(name: str, text: str, args: list[np.ndarray]) -> dict[str, Run]:
    """Return functions of other libraries that do the job of a program, by the library's name."""
    from cases import CASES

    def run_of(function: Callable[..., Any]) -> Run:
        def run() -> list[np.ndarray]:
            result = function(*args)
            return list(result) if isinstance(result, tuple) else [result]

        return run

    known = CASES[name].others if name in CASES else {}
    runs = {library: run_of(function) for library, function in known.items()}
    with contextlib.suppress(Unsupported):
        runs["onnxruntime"] = onnxruntime(text, args)
    return runs


def onnxruntime(text: str, args: list[np.ndarray]) -> Run:
    """Return a function that runs the program as a model of ONNX.

    Raises Unsupported if it is none, or has operations of types that onnxruntime has no kernel for.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as errors

    import hlo

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    model = model_of(hlo.parse(text)).SerializeToString()
    feeds = {f"arg{i}": a for i, a in enumerate(args)}
    try:
        session = onnxruntime.InferenceSession(model, options)
        session.run(None, feeds)
    except (errors.NotImplemented, errors.InvalidGraph, RuntimeError) as e:
        raise Unsupported(str(e)) from None
    return lambda: session.run(None, feeds)


def roof(text: str, args: list[np.ndarray]) -> float:
    """Return the least seconds in which this machine could run a program.

    For the operations of one with products at the speed of a large product of the type of the
    largest array, and for the bytes of arguments and results at that of a sum of large arrays.
    """
    import hlo
    from hlo.profiler.roofline import machine_peak, measured_like

    module = hlo.parse(text)
    arrays = [s for i in module.entry.parameters for _, s in i.shape.leaves()]
    arrays += [s for _, s in module.entry.result_shape.leaves()]
    widest = max(arrays, key=lambda s: s.byte_size).element_type.name
    peak = machine_peak(element_types=[widest])
    moved = sum(s.byte_size for s in arrays)
    has_products = any(i.opcode in ("dot", "convolution") for i in module.instructions())
    operations = hlo.compile(module, cache=False).cost["operations"] if has_products else 0
    return float(max(operations / peak.flops[measured_like(widest)], moved / peak.bytes))


def every(name: str, text: str, args: list[np.ndarray], seconds: float) -> dict[str, Any]:
    """Return the median seconds of runs and of compiling; `plain` runs are those without passes."""
    found: dict[str, Any] = {}
    runs: dict[str, Run] = {}
    for backend, make in BACKENDS.items():
        prepare(backend)
        start = time.perf_counter()
        runs[backend] = make(text, args)
        found[f"{backend} compile"] = time.perf_counter() - start
    runs |= others(name, text, args)
    found["others"] = list(runs)[len(BACKENDS) :]
    results = {library: [np.asarray(a) for a in run()] for library, run in runs.items()}
    found |= errors(text, args, results)
    # Which of two that differ is right, double precision says.
    is_closer = (found.get("ours error") or math.inf) <= ERROR * (found.get("xla error") or 0)
    said = {b: difference(results["ours"], r, b) for b, r in results.items() if b != "ours"}
    if not said["xla"]:
        # What alone differs from both is wrong, and its time says nothing: onnxruntime's threads
        # lose updates where a scatter adds to one element twice.
        for library in [library for library, text in said.items() if text and not is_closer]:
            found.setdefault("left out", []).append(f"{library} is wrong, {said.pop(library)}")
            found["others"].remove(library)
            del runs[library]
    found["difference"] = None if is_closer else next(filter(None, said.values()), None)
    del results
    found["roof"] = roof(text, args)
    runs["plain"] = ours(text, args, passes="")
    times: dict[str, list[float]] = {backend: [] for backend in runs}
    # Turns of some milliseconds: short runs are measured in a row, as programs would run them. The
    # second call prepares for the others.
    counts = {}
    for backend, run in runs.items():
        once = min(timed(run) for _ in range(3))
        counts[backend] = max(1, min(1000, int(2e-3 / max(once, 1e-7))))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["ours"]) < 5:
        for backend, run in runs.items():
            wait_for_sleep()
            warm = time.perf_counter() + WARM_S
            while time.perf_counter() < warm:
                run()
            start = time.perf_counter()
            for _ in range(counts[backend]):
                run()
            times[backend].append((time.perf_counter() - start) / counts[backend])
    return found | {f"{backend} run": median(t) for backend, t in times.items()}


def errors(
    text: str, args: list[np.ndarray], results: dict[str, list[np.ndarray]]
) -> dict[str, float | None]:
    """Return the relative errors of both backends beside XLA's results in double precision."""
    wide = in_double(text)
    if wide is None:
        return {}
    import hlo

    with_double = xla(hlo.print_module(wide), widened(args))
    exact = [np.asarray(a) for a in with_double()]
    return {f"{b} error": relative_error(results[b], exact) for b in BACKENDS}


def difference(got: list[np.ndarray], want: list[np.ndarray], library: str) -> str | None:
    """Return how results differ from what a library has, None if they do not."""
    from hlo.testing.compare import compare

    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        # Other libraries have other types of integers and of intermediate sums.
        found = compare(g, w.astype(g.dtype) if library != "xla" else w)
        if not found.same:
            return f"result {n} beside {library}: {found}"
    return None


def alone(backend: str, text: str, args: list[np.ndarray]) -> dict[str, Any]:
    """Return seconds from the text to the first result, and bytes of memory that took."""
    prepare(backend)
    from hlo.profiler.resident import reset_peak, status_bytes

    before = reset_peak()
    start = time.perf_counter()
    BACKENDS[backend](text, args)()
    seconds = time.perf_counter() - start
    return {f"{backend} first": seconds, f"{backend} memory": status_bytes("VmHWM") - before}


def with_kernels(text: str, args: list[np.ndarray], folder: str) -> dict[str, Any]:
    """Return seconds to compile, and to the first result, where kernels are kept in a folder."""
    prepare("ours")
    from hlo.runtime.cache import Cache

    class Kernels(Cache):
        """A cache in which no program is found."""

        def get(self, key: str) -> None:
            return None

        def put(self, key: str, program: object) -> None:
            pass

    start = time.perf_counter()
    run = ours(text, args, cache=Kernels(folder))
    compiled = time.perf_counter()
    run()
    return {"kept compile": compiled - start, "kept first": time.perf_counter() - start}


def main() -> None:
    mode, text_path, inputs_path, *rest = sys.argv[1:]
    with open(text_path) as file:
        text = file.read()
    args = load_inputs(inputs_path)
    name = Path(text_path).stem
    match mode:
        case "all":
            result = every(name, text, args, float(rest[0]))
        case "kept":
            result = with_kernels(text, args, rest[0])
        case _:
            result = alone(mode, text, args)
    print(json.dumps(result))


def save_inputs(path: str, args: list[np.ndarray]) -> None:
    """Write arguments, also of types that numpy's files do not keep."""
    names = np.array([a.dtype.name for a in args])
    raw = {f"arg{i}": np.ascontiguousarray(a).view(np.uint8) for i, a in enumerate(args) if a.ndim}
    raw |= {f"arg{i}": a.reshape(1).view(np.uint8) for i, a in enumerate(args) if not a.ndim}
    dims = {f"dims{i}": np.array(a.shape, np.int64) for i, a in enumerate(args)}
    np.savez(path, names=names, **raw, **dims)


def load_inputs(path: str) -> list[np.ndarray]:
    """Return what `save_inputs` wrote."""
    import ml_dtypes

    args = []
    with np.load(path) as stored:
        for i, name in enumerate(stored["names"]):
            dtype = np.dtype(getattr(ml_dtypes, str(name), str(name)))
            args.append(stored[f"arg{i}"].reshape(-1).view(dtype).reshape(stored[f"dims{i}"]))
    return args


if __name__ == "__main__":
    main()
