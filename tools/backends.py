"""What can run a module for `hlo-run`: native code, or the reference interpreter."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.compiler.constants import Constants
    from hlo.host import Host
    from hlo.io.arguments import Parameter, Path
    from hlo.io.random import Domain
    from hlo.ir import Module
    from hlo.values.types import Shape


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
) -> Runnable:
    """Return the native code of a module's text. Raises HloError.

    host: makes what a device sees besides arguments. device_counts: by default those that the
    module needs. constants: gives elided ones values.
    """
    from hlo.compiler.pipeline import compile_text, on_host

    exe = compile_text(
        source,
        name,
        cache=cache,
        threads=threads,
        host=host(),
        passes=passes,
        constants=constants,
        verify=verify,
    )
    counts = device_counts or exe.device_counts
    together, hosts = None, []
    if counts != (1, 1) or exe.uses_host:
        hosts = _hosts(host, counts)
        together = partial(_together, hosts, counts, [on_host(exe, h).run_values for h in hosts])

    def run(values: Sequence[Sequence[Any]]) -> list[Any]:
        with _interruptible():
            return [exe.run_values(values[0])] if together is None else together(values)

    return Runnable(
        exe.parameters, exe.result_shape, counts, run, exe.compile_seconds, exe.domains, exe.cost,
        exe.elided, exe.unused_devices, hosts, exe.working_bytes,
    )  # fmt: skip


def _hosts(host: Callable[[], Host | None], counts: tuple[int, int]) -> list[Host]:
    from hlo.host import Host, need_devices

    need_devices(counts)
    return [host() or Host() for _ in range(prod(counts))]


def _together(
    hosts: list[Host], counts: tuple[int, int], runs: Sequence[Callable[[Sequence[Any]], Any]],
    values: Sequence[Sequence[Any]],
) -> list[Any]:  # fmt: skip
    from hlo.host import run_together

    bound = [partial(run, own) for run, own in zip(runs, values, strict=True)]
    return run_together(hosts, counts, bound)


def reference(
    source: bytes, name: str, host: Callable[[], Host | None],
    device_counts: tuple[int, int] | None = None, constants: Constants | None = None,
    verify: str = "strict",
) -> Runnable:  # fmt: skip
    """Return a module's text for the interpreter; see `compiled`. Raises HloError."""
    from hlo import api
    from hlo.analysis.devices import devices_of, unused_devices
    from hlo.analysis.domains import domains_of
    from hlo.analysis.elided import elided_constants
    from hlo.frontends.sources import read_module
    from hlo.io.arguments import known_bytes

    start = time.perf_counter()
    module = read_module(source, name)
    parsed = time.perf_counter()
    api.verify(module, verify)
    if constants is not None:
        constants.fill(module)
    seconds = {"parse": parsed - start, "verify": time.perf_counter() - parsed}
    counts = device_counts or devices_of(module)
    hosts = _hosts(host, counts)
    runs = [partial(_interpret, module, h) for h in hosts]
    return Runnable(
        api.parameters_of(module), module.entry.result_shape, counts,
        partial(_together, hosts, counts, runs), seconds, domains_of(module),
        elided=[inst.name for inst in elided_constants(module)],
        unused_devices=unused_devices(module), hosts=hosts,
        working_bytes={"results": known_bytes(module.entry.result_shape)},
    )  # fmt: skip


def _interpret(module: Module, host: Host, values: Sequence[Any]) -> Any:
    from hlo.api import run_values

    return run_values(module, values, host)


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
