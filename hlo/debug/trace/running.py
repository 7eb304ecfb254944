"""Runs of modules with probes, on the interpreter or as native code, on one device or several."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hlo.compiler.pipeline import compile as compile_module
from hlo.compiler.pipeline import on_host
from hlo.debug.trace.probes import TARGET, Listener, Probe, Probed
from hlo.debug.trace.record import Frame
from hlo.errors import HloError, did_you_mean
from hlo.eval import run_values
from hlo.host import Host, run_together
from hlo.ir import Module
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of
from hlo.runtime.executable import Executable
from hlo.verifier import verify_as

BACKENDS = ("compiled", "reference")
# Takes the values that a probe of a device hands over, and its callers.
Take = Callable[[int, Probe, list[Any], tuple[Frame, ...]], None]


def need_backend(backend: str) -> None:
    """Raise HloError for a backend that cannot be traced."""
    if backend not in BACKENDS:
        raise HloError.at(
            "bad-backend", f"{backend!r} cannot be traced: {', '.join(BACKENDS)}",
            hint=did_you_mean(backend, BACKENDS),
        )  # fmt: skip


def optimized(module: Module, passes: str, verify: str) -> Module:
    """Return a verified module as native code is made from it; the module stays as it is."""
    verify_as(module, verify)
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
    host: Host | None = None, threads: int | None = None,
) -> list[Any]:  # fmt: skip
    """Run a module with probes; returns the result of each device.

    values: checked arguments, for each device. host: as a run is to find it; it stays as it is.
    Raises HloError, and what `take` raises.
    """
    counts = probed.module.device_counts
    devices = math.prod(counts)
    hosts = [
        fresh_host(host, {TARGET: Listener(probed.calls, partial(take, n))})
        for n in range(devices)
    ]  # fmt: skip
    if backend == "reference":
        runs = [
            partial(run_values, probed.module, v, h) for v, h in zip(values, hosts, strict=True)
        ]
    else:
        program = compile_module(
            probed.module, cache=False, threads=threads, host=hosts[0], passes="", verify="lenient"
        )
        assert isinstance(program, Executable)
        runs = [
            partial(on_host(program, h).run_values, v) for v, h in zip(values, hosts, strict=True)
        ]
    return run_together(hosts, counts, runs)
