"""Runs of modules with probes, on the interpreter or as native code, on one device or several."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hlo.compiler.pipeline import compile as compile_module
from hlo.compiler.pipeline import compile_instrumented, on_host
from hlo.debug.trace.nonfinite import NonfiniteProbes
from hlo.debug.trace.probes import TARGET, Listener, Probe, Probed
from hlo.debug.trace.record import Frame
from hlo.errors import HloError
from hlo.eval import run_values
from hlo.host import Host, run_together
from hlo.ir import Module
from hlo.lenient import verified
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of
from hlo.runtime.executable import Executable

BACKENDS = ("compiled", "reference")
# Takes the values that a probe of a device hands over, and its callers.
Take = Callable[[int, Probe, list[Any], tuple[Frame, ...]], None]


def need_backend(backend: str) -> None:
    """Raise HloError for a backend that cannot be traced."""
    if backend not in BACKENDS:
        raise HloError.at(
            "bad-backend", f"{backend!r} cannot be traced",
            hint=f"{' and '.join(BACKENDS)} can; --first-divergence compares others with them",
        )  # fmt: skip


def optimized(module: Module, passes: str, verify: str) -> Module:
    """Return a verified module as native code is made from it; the module stays as it is."""
    module = verified(module, verify)
    if not passes:
        return module
    copy = module.clone()
    run_pipeline(copy, pipeline_of(passes, fuses=False))
    return copy


def fresh_host(host: Host | None, custom_calls: Mapping[str, Any] = {}) -> Host:
    """Return a host as a run is to find it, with further custom calls."""
    given = host or Host()
    return replace(
        given, infeed=given.infeed.copy(), outfeed=[], channels={}, receiving={},
        custom_calls={**given.custom_calls, **custom_calls},
    )  # fmt: skip


def run_probed(
    probed: Probed, values: Sequence[Sequence[Any]], take: Take, *, backend: str,
    host: Host | None = None, threads: int | None = None, finite: bool = True,
) -> list[Any]:  # fmt: skip
    """Run a module with probes; returns the result of each device.

    values: checked arguments, for each device. host: as a run is to find it; it stays as it is.
    finite: also what is finite is handed over; without, native code leaves that out, by the first
    value of each probe. Raises HloError, and what `take` raises.
    """
    counts = probed.module.device_counts
    devices = math.prod(counts)
    checks = None
    if not finite and backend != "reference":
        checks = NonfiniteProbes(probed, calls=True, devices=devices)
    iterations = None if checks is None else checks.iterations
    hosts = [
        fresh_host(host, {TARGET: Listener(probed.calls, partial(take, n), iterations)})
        for n in range(devices)
    ]  # fmt: skip
    if backend == "reference":
        runs = [
            partial(run_values, probed.module, v, h) for v, h in zip(values, hosts, strict=True)
        ]
        return run_together(hosts, counts, runs)
    if checks is not None:
        program = compile_instrumented(
            probed.module, checks, threads=threads, host=hosts[0], passes="", verify="lenient"
        )
    else:
        plain = compile_module(
            probed.module, cache=False, threads=threads, host=hosts[0], passes="", verify="lenient"
        )
        assert isinstance(plain, Executable)
        program = plain
    return _run_on(program, hosts, counts, values)


def first_nonfinite(
    probed: Probed, values: Sequence[Sequence[Any]], host: Host | None, threads: int | None
) -> list[tuple[Probe, tuple[Frame, ...]]]:
    """Run as native code; returns the probes whose first value had a NaN or an infinity.

    They are in the order of that, with the callers, and iterations of loops, where it was first;
    of several devices the iterations are unknown, and 0. Else as `run_probed`. Raises HloError.
    """
    counts = probed.module.device_counts
    devices = math.prod(counts)
    checks = NonfiniteProbes(probed, calls=False, devices=devices)
    hosts = [fresh_host(host, {TARGET: _no_call}) for _ in range(devices)]
    program = compile_instrumented(
        probed.module, checks, threads=threads, host=hosts[0], passes="", verify="lenient"
    )
    _run_on(program, hosts, counts, values)
    return checks.first_met()


def _no_call(op: Any, args: Sequence[Any]) -> tuple[()]:
    raise AssertionError("the calls of these probes are left out")


def _run_on(
    program: Executable, hosts: Sequence[Host], counts: tuple[int, int],
    values: Sequence[Sequence[Any]],
) -> list[Any]:  # fmt: skip
    """Run a program on several devices together; returns the result of each."""
    runs = [partial(on_host(program, h).run_values, v) for v, h in zip(values, hosts, strict=True)]
    return run_together(hosts, counts, runs)
