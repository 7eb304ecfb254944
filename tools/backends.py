"""What can run a module for `hlo-run`: native code, or the reference interpreter."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.arguments import Parameter
    from hlo.host import Host
    from hlo.types import Shape


@dataclass
class Runnable:
    """A module that is ready to run.

    run: takes a checked value for each parameter. seconds: how long each stage of getting here
    took. cost: what one run does, where that was counted.
    """

    parameters: Sequence[Parameter]
    result: Shape
    run: Callable[[Sequence[Any]], Any]
    seconds: Mapping[str, float]
    cost: Mapping[str, int] = field(default_factory=dict)


def compiled(
    source: bytes,
    name: str,
    *,
    cache: bool,
    threads: int | None,
    host: Host | None = None,
    passes: str = "default",
) -> Runnable:
    """Return the native code of a module's text. Raises HloError."""
    from hlo.compiler import compile_text

    exe = compile_text(source, name, cache=cache, threads=threads, host=host, passes=passes)

    def run(values: Sequence[Any]) -> Any:
        with _interruptible():
            return exe.run_values(values)

    return Runnable(exe.parameters, exe.result_shape, run, exe.compile_seconds, exe.cost)


def reference(source: bytes, name: str, host: Host | None = None) -> Runnable:
    """Return a module's text for the interpreter. Raises HloError."""
    from hlo import api
    from hlo.sources import read_module

    start = time.perf_counter()
    module = read_module(source, name)
    parsed = time.perf_counter()
    api.verify(module)
    seconds = {"parse": parsed - start, "verify": time.perf_counter() - parsed}
    return Runnable(
        api.parameters_of(module), module.entry.result_shape,
        lambda values: api.run_values(module, values, host), seconds,
    )  # fmt: skip


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process: native code does not see Python's exception."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
