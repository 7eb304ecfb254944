"""Profiles of runs of a module."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import compile_instrumented
from hlo.errors import HloError
from hlo.frontends.programs import takes_programs
from hlo.host import Host
from hlo.io.arguments import bind_call
from hlo.io.inputs import Sampler
from hlo.ir import Module
from hlo.profiler.assemble import assemble
from hlo.profiler.counters import Counters
from hlo.profiler.executable import RecordingExecutable
from hlo.profiler.profile import Profile, with_peak
from hlo.profiler.records import KernelTime
from hlo.profiler.roofline import machine_peak, measured_like
from hlo.runtime.executable import Executable
from hlo.runtime.jit import host_machine
from hlo.support.signature import checked

if TYPE_CHECKING:
    from hlo.compiler.constants import Constants


# So many bytes no cache holds.
_UNCACHED_BYTES = 1 << 28


class ProfiledExecutable(RecordingExecutable):
    """An executable whose runs leave a profile."""

    def profile(self, device: int = 0) -> Profile:
        """Return the profile of the runs since `forget`; device: the number that it is to have."""
        return assemble(self, device=device)

    def perf_map(self) -> str:
        """Return the addresses of native functions as `perf` reads them in /tmp/perf-PID.map."""
        return "".join(f"{at:x} {size:x} {name}\n" for at, size, name in self.symbols())


@takes_programs
@checked
def profile(
    module: Module, *args: Any, repeat: int = 10, warmup: int = 1, threads: int | None = None,
    passes: str = "default", host: Host | None = None, verify: str = "strict", peak: bool = True,
    **named: Any,
) -> Profile:  # fmt: skip
    """Run a module as native code, and return where the time went, kernel by kernel.

    Args:
        module: the module; it stays as it is.
        args: as of `hlo.interpret`, or none at all for random ones.
        repeat: the number of runs, which the profile has the average of.
        warmup: runs before these, which are not measured.
        threads: how many may work on a run, by default one a processor.
        passes: the pipeline that runs first, as for `hlo.optimize`.
        host: custom calls, queues and random state that the module uses; by default a fresh one.
        verify: as for `hlo.verify`.
        peak: compare with what the machine can do, which is measured once and kept on disk.
        named: parameters by name, as of `hlo.interpret`.

    Raises:
        HloError: for an invalid module or arguments, and where a run fails.

    >>> module = hlo.parse('''HloModule m ENTRY e { x = f32[512,512] parameter(0)
    ...   y = f32[512,512] tanh(x)
    ...   ROOT z = f32[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }''')
    >>> found = hlo.profile(module, threads=1, peak=False)
    >>> [e.name for e in found.entries if e.kind == "kernel"]
    ['y', 'z']
    >>> abs(sum(e.self_s for e in found.entries) - found.wall_s.mean) < 1e-9
    True
    """
    if repeat < 1 or warmup < 0:
        raise HloError.at("bad-value", "hlo.profile: runs must be at least 1")
    executable = compile_profiled(module, threads=threads, passes=passes, host=host, verify=verify)
    if args or named or not executable.parameters:
        values = bind_call(executable.parameters, args, named, module.usable_trees)
    else:
        values = Sampler(domains=executable.domains).values(list(executable.parameters))
    for _ in range(warmup):
        executable.run_values(values)
    executable.forget()
    for _ in range(repeat):
        executable.run_values(values)
    found = executable.profile()
    return beside_peak([found])[0] if peak else found


def compile_profiled(
    module: Module, *, threads: int | None = None, features: str = "", host: Host | None = None,
    passes: str = "default", verify: str = "strict", clock: Clock | None = None,
) -> ProfiledExecutable:  # fmt: skip
    """Return a module as native code whose runs leave a profile; options as of `hlo.compile`.

    Raises HloError.
    """
    triple = host_machine(features).triple
    counters = Counters(triple, has_threads=os.name == "posix", tables=module.tables)
    executable = compile_instrumented(
        module, counters, kind=partial(ProfiledExecutable, counters), threads=threads,
        features=features, host=host, passes=passes, verify=verify, clock=clock,
    )  # fmt: skip
    assert isinstance(executable, ProfiledExecutable)
    return executable


def compile_anew(
    text: bytes, name: str, *, counters: bool, clock: Clock | None = None,
    threads: int | None = None, host: Host | None = None, passes: str = "default",
    verify: str = "strict", constants: Constants | None = None, strict: bool = False,
) -> Executable:  # fmt: skip
    """Return the module in the content of a file as native code that is not from the cache.

    name: stands for it in errors. counters: as a `ProfiledExecutable`. clock: divides the time.
    constants: gives elided ones values. strict: with strict arithmetic. Raises HloError.
    """
    from hlo.analysis.strict_math import ask_for_strict_math
    from hlo.frontends.sources import read_module

    clock = clock or Clock()
    with clock("parse"):
        module = read_module(text, name)
    if strict:
        ask_for_strict_math(module)
    if constants is not None:
        with clock("fill constants"):
            constants.fill(module)
    options: dict[str, Any] = {"threads": threads, "host": host, "passes": passes}
    options |= {"verify": verify, "clock": clock}
    if counters:
        return compile_profiled(module, **options)
    return compile_instrumented(module, Instrumentation(), **options)


def beside_peak(profiles: Sequence[Profile]) -> list[Profile]:
    """Return profiles that say which part of the machine's peak each kernel reaches."""
    types = {e.element_type for p in profiles for e in p.entries if e.operations} | {"f32"}
    for again in (False, True):
        peak = machine_peak(profiles[0].threads, types, again=again)
        found = [with_peak(p, peak, measured_like) for p in profiles]
        if not any(_is_beyond(e) for p in found for e in p.entries):
            break
        # Whatever the machine did besides when the peak was measured, it can do more.
    return found


def _is_beyond(entry: KernelTime) -> bool:
    """True if a kernel is faster than the peak allows. What caches hold may be."""
    is_in_caches = entry.bound == "memory" and entry.bytes < _UNCACHED_BYTES * entry.calls
    return entry.peak_share > 1 and not is_in_caches
