"""What can run a module for `hlo-run`: native code, or another backend."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, cast

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from hlo.compiler.backends import LoadedModule, Run
    from hlo.compiler.constants import Constants
    from hlo.compiler.lowering import Clock
    from hlo.host import Host
    from hlo.host.host import Others
    from hlo.io.arguments import Parameter, Path
    from hlo.io.random import Domain
    from hlo.ir import Module
    from hlo.profiler.interpreting import InterpreterProfiler
    from hlo.profiler.launching import LaunchProfiler
    from hlo.profiler.profile import Profile
    from hlo.runtime.executable import Executable
    from hlo.values.types import Shape


class Profiler(Protocol):
    """What profiles the runs on one device."""

    def forget(self) -> None:
        """Forget the runs so far."""

    def profile(self, device: int = 0) -> Profile:
        """Return the profile of the runs since then."""


class BackendName(click.ParamType):
    """The name of a backend: packages that register some are asked for names of theirs only."""

    name = "backend"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in ("compiled", "reference"):
            from hlo.compiler.backends import need_name
            from hlo.errors import HloError

            try:
                need_name(value)
            except HloError as e:
                hint = f"; {e.diagnostics[0].hint}" if e.diagnostics[0].hint else ""
                self.fail(f"{e.diagnostics[0].message}{hint}", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from hlo.compiler.backends import names

        return [CompletionItem(name) for name in names() if name.startswith(incomplete)]


@dataclass
class Runnable:
    """A module that is ready to run.

    device_counts: the numbers of replicas and of partitions that a run takes. run: takes checked
    values of the parameters for each device, and returns the result of each. seconds: how long each
    stage of getting here took. cost: what one device does, where that was counted. domains: the
    values of parameters that make sense, by number and index path. elided: names of constants
    without values that results depend on. unused_devices: what the module says of devices, where it
    runs on one for all of that. hosts: what each device sees besides arguments, empty if nothing.
    working_bytes: what a run takes on each device besides the values of parameters, by what it is
    for.
    """

    parameters: Sequence[Parameter]
    result: Shape
    device_counts: tuple[int, int]
    run: Callable[[Sequence[Sequence[Any]]], list[Any]]
    seconds: Mapping[str, float]
    domains: Mapping[tuple[int, Path], Domain]
    cost: Mapping[str, int] = field(default_factory=dict)
    elided: Sequence[str] = ()
    unused_devices: str = ""
    hosts: Sequence[Host] = ()
    working_bytes: Mapping[str, int] = field(default_factory=dict)
    # What profiles the runs of each device, where that was asked for.
    profilers: Sequence[Profiler] = ()


def compiled(
    source: bytes,
    name: str,
    *,
    cache: bool,
    threads: int | None,
    host: Callable[[], Host | None],
    passes: str = "default",
    verify: str = "strict",
    device_counts: tuple[int, int] | None = None,
    constants: Constants | None = None,
    others: Others | None = None,
    profiled: bool = False,
    clock: Clock | None = None,
    strict: bool = False,
) -> Runnable:
    """Return the native code of a module's text. Raises HloError.

    host: makes what a device sees besides arguments. device_counts: by default those that the
    module needs. constants: gives elided ones values. others: the processes that it runs with.
    profiled: with counters. clock: divides the time of compilation. With either it is not from the
    cache. strict: with strict arithmetic.
    """
    from hlo.compiler.pipeline import compile_text, on_host

    options: dict[str, Any] = {"threads": threads, "host": host(), "passes": passes}
    options |= {"constants": constants, "verify": verify, "strict": strict}
    exe: Executable
    if profiled or clock is not None:
        from hlo.profiler.measure import compile_anew

        exe = compile_anew(source, name, counters=profiled, clock=clock, **options)
    else:
        exe = compile_text(source, name, cache=cache, **options)
    programs = [exe]
    counts = device_counts or exe.device_counts
    together, hosts = None, []
    if counts != (1, 1) or exe.uses_host or others is not None:
        hosts = _hosts(host, counts, others)
        programs = [on_host(exe, h) for h in hosts]
        runs = [program.run_values for program in programs]
        together = partial(_together, hosts, counts, runs, others)

    def run(values: Sequence[Sequence[Any]]) -> list[Any]:
        with _interruptible():
            return [exe.run_values(values[0])] if together is None else together(values)

    return Runnable(
        exe.parameters, exe.result_shape, counts, run, exe.compile_seconds, exe.domains, exe.cost,
        exe.elided, exe.unused_devices, hosts, exe.working_bytes,
        cast("Sequence[Profiler]", programs) if profiled else (),
    )  # fmt: skip


def _hosts(
    host: Callable[[], Host | None], counts: tuple[int, int], others: Others | None
) -> list[Host]:
    """Return what each device of this process sees besides arguments."""
    from hlo.host import Host, need_devices

    if others is not None:
        others.need_counts(counts)
        return [host() or Host() for _ in others.devices]
    need_devices(counts)
    return [host() or Host() for _ in range(prod(counts))]


def _together(
    hosts: list[Host], counts: tuple[int, int], runs: Sequence[Callable[[Sequence[Any]], Any]],
    others: Others | None, values: Sequence[Sequence[Any]],
) -> list[Any]:  # fmt: skip
    from hlo.host import run_together

    bound = [partial(run, own) for run, own in zip(runs, values, strict=True)]
    return run_together(hosts, counts, bound, others)


def loaded(
    source: bytes, name: str, backend: str, host: Callable[[], Host | None],
    passes: str = "default", verify: str = "strict",
    device_counts: tuple[int, int] | None = None, constants: Constants | None = None,
    others: Others | None = None, *, profiled: bool = False, cache: bool = False,
    strict: bool = False,
) -> Runnable:  # fmt: skip
    """Return a module's text on a backend other than native code; see `compiled`.

    profiled: of the interpreter, or of a GPU. Raises HloError.
    """
    from hlo.analysis.strict_math import ask_for_strict_math
    from hlo.compiler.backends import load
    from hlo.compiler.lowering import Clock
    from hlo.frontends.sources import read_module
    from hlo.runtime.cache import Cache

    clock = Clock()
    with clock("parse"):
        module = read_module(source, name)
    if strict:
        ask_for_strict_math(module)
    if constants is not None:
        constants.fill(module)
    # A profile names what the kernels compute, which the cache does not.
    store = Cache() if cache and not profiled else None
    program = load(module, backend, passes=passes, verify=verify, clock=clock, store=store)
    counts = device_counts or program.device_counts
    hosts = _hosts(host, counts, others)
    profilers: list[Profiler] = []
    if profiled:
        of = [_profiler(module, program) for _ in hosts]
        profilers += of
        bound = [partial(p.run, h) for p, h in zip(of, hosts, strict=True)]
    else:
        bound = [partial(_run, program.on(h)) for h in hosts]
    return Runnable(
        program.parameters, program.result_shape, counts,
        partial(_together, hosts, counts, bound, others),
        clock.seconds,
        program.domains, program.cost, program.elided, program.unused_devices, hosts,
        program.working_bytes, profilers,
    )  # fmt: skip


def _profiler(module: Module, program: LoadedModule) -> InterpreterProfiler | LaunchProfiler:
    if program.timed is not None:
        from hlo.profiler.launching import LaunchProfiler

        return LaunchProfiler(program)
    from hlo.profiler.interpreting import InterpreterProfiler

    return InterpreterProfiler(module)


def _run(run: Run, values: Sequence[Any]) -> Any:
    return run(values, None)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process: native code does not see Python's exceptions."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
