"""A compiled program as a callable on numpy arrays."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from hlo.errors import HloError
from hlo.io.arguments import Parameter, bind_call
from hlo.io.notebook import program_html
from hlo.runtime.boundary import Port, port
from hlo.runtime.collectives import FAILED_STATUS
from hlo.runtime.frame import Frame, address_of
from hlo.runtime.jit import NativeCode
from hlo.runtime.leaves import leaf_arrays, only, wrapper
from hlo.runtime.outside import HostTable, Outside
from hlo.runtime.pool import default_threads, pool_of
from hlo.runtime.program import NativeProgram, array_leaves
from hlo.runtime.quick import READY, QuickCall, is_possible
from hlo.runtime.rendezvous import meetings
from hlo.runtime.support import support
from hlo.runtime.watch import (
    CONSTANTS,
    DEADLINE,
    ENTRY,
    HOST,
    STOP,
    THREADS,
    Ended,
    now_ms,
)  # fmt: skip
from hlo.support.deadline import check_timeout, late
from hlo.support.memory import check_available
from hlo.support.signature import need
from hlo.support.trees import Trees, given_by
from hlo.values.types import ArrayShape, Shape, signature_text

# Calls that need more memory than this check first that it is available.
_CHECKED_BYTES = 1 << 26
# Arenas kept for reuse: one per concurrent call, unless large.
_KEPT_FRAMES = 8
# Programs with smaller arenas have one more for calls the short way.
_QUICK_ARENA_BYTES = 1 << 20


@dataclass(frozen=True)
class Native:
    """What native code needs to call a program: valid for as long as the executable.

    Attributes:
        entry: the address of a function of six addresses that returns a status: the tables of
            arguments and results, the arena, the constants, the threads and the host's table.
        run: the address of a function that calls the entry with the words of a watch
            (`hlo.runtime.watch`) at an address, so that it can be stopped.
        constants: the address of the constants.
        threads_at: the address of the word with the handle of the threads, 0 for a single thread.
        arguments, results: the shapes of the array leaves.
        aliases: by result leaf the argument leaf whose value has to be in its memory before a call.
    """

    entry: int
    run: int
    constants: int
    threads_at: int
    arguments: tuple[ArrayShape, ...]
    results: tuple[ArrayShape, ...]
    aliases: Mapping[int, int]


class Executable:
    """Native code that is called on the arguments of a module; `hlo.compile` returns it.

    A call takes an argument for each parameter, tuples nested, or all array leaves flat: arrays of
    the parameter's dimensions and dtype, in logical order, of numpy, JAX, PyTorch or any library
    that speaks DLPack; also Python numbers and lists that convert exactly. An array that lies in
    memory as the parameter's layout says is not copied. It returns a numpy array, also for a
    scalar, or a tuple.

    Parameters go by name, too, `exe(x, w=w)`, leaves of tuples by theirs, `**{"state.0": x}`; those
    called `donate` and `timeout` by position only. A module of `hlo.from_jax` takes the arguments
    of the function too, and gives its result.

    Args:
        donate: parameters, by number, whose memory may be overwritten where the module's
            `input_output_alias` names them; their arrays hold results afterwards. True means all of
            these.
        timeout: seconds after which a call ends with HloError, code `timeout`, some tenths of a
            second late at the most where kernels are short.

    Raises:
        HloError: for arguments that do not fit, and where the run fails.
        TypeError: for names that no parameter has.

    Calls from several Python threads run at the same time, each in memory of its own. Ctrl-C ends a
    call in the main thread, as does what any other handler of a signal raises. What has been
    donated to a call that ended early holds anything.

    >>> module = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sqrt(x) }")
    >>> exe = hlo.compile(module)
    >>> exe(4), exe(x=np.float32(9))
    (array(2., dtype=float32), array(3., dtype=float32))
    """

    def __init__(
        self,
        program: NativeProgram,
        *,
        threads: int | None = None,
        outside: Outside | None = None,
        called: Mapping[str, int] = {},
    ) -> None:
        """Load a program.

        threads: how many may work on a call, by default one per processor. outside: the external
        functions that the program calls, if any. called: addresses of what its code refers to by
        symbol besides.
        """
        self.name, self.program = program.name, program
        self.parameters: tuple[Parameter, ...] = program.parameters
        self.result_shape: Shape = program.result
        self.arena_bytes = program.arena_bytes
        self.cost = program.cost
        self.imports, self.uses_host = program.imports, program.uses_host
        # The numbers of replicas and of partitions that a run needs.
        self.device_counts = program.device_counts
        # The domains of parameters, by number and index path.
        self.domains = program.domains
        # Names of constants without values that results depend on.
        self.elided = program.elided
        # The device annotations of a module that runs on one device regardless.
        self.unused_devices = program.unused_devices
        # The pytrees of the function that the module was made from.
        self.trees: Trees | None = None
        # The functions of that module for its custom calls: see `hlo.ir.Module`.
        self.custom_calls: Mapping[str, Any] = {}
        # The duration of each compilation stage, in seconds.
        self.compile_seconds: dict[str, float] = {}
        self.threads = max(1, default_threads() if threads is None else threads)
        self.collectives = program.collectives
        self._outside = outside
        self._support = support(program.support)
        addresses = self._support.addresses
        self._meetings = meetings(program.meetings, addresses) if program.meetings else None
        self._call = self._support.call
        self._entry_at = self._load(program, called)
        self._pool = pool_of(self.threads, addresses) if program.is_parallel else None
        self._constants = program.constants
        self._checks = {number: (code, message) for number, code, message in program.checks}
        self._inputs = [port(s) for s in program.arguments]
        self._outputs = [port(s) for s in program.results]
        self._output_bytes = sum(p.size_bytes for p in self._outputs)
        # The argument leaf that shares a result's memory.
        self._aliases = dict(program.aliases)
        self._frames = self._no_frames()
        # See `_short_way`.
        self._is_called = False
        self._quick: QuickCall | None = None
        self._quick_call = _the_long_way
        self._wrap = wrapper(program.result)
        # What was measured before it was compiled, if anything; see `hlo.compile`.
        self.tuning: Any = None
        # By which the cache has the program, if it has.
        self.key = ""
        # How to write the program to a file, where that is known.
        self.saver: Callable[..., None] | None = None

    # The parts of the entry's arguments that change from call to call.
    _threads_word, _host_word = THREADS, HOST

    def _load(self, program: NativeProgram, called: Mapping[str, int]) -> int:
        """Return the address of the native entry: a function of six addresses."""
        known = {**self._support.called, **called}
        self._code = NativeCode(program.code, program.symbol, called=known)
        return self._code.addresses[program.symbol]

    def _no_frames(self) -> deque[Frame]:
        return deque(maxlen=1 if self.arena_bytes > _CHECKED_BYTES else _KEPT_FRAMES)

    def beside(self, outside: Outside | None) -> Executable:
        """Return the same code with other external functions, as another device runs it."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._outside, other._frames = outside, self._no_frames()
        other._quick, other._quick_call = None, _the_long_way
        return other

    def native(self) -> Native:
        """Return what native code needs to call the program, whose threads are started."""
        threads_at = 0
        if self._pool is not None and self._pool.handle:
            threads_at = self._pool.handle_at
        return Native(
            self._entry_at, self._support.addresses["watch_run"], self._constants.ctypes.data,
            threads_at,
            tuple(p.shape for p in self._inputs), tuple(p.shape for p in self._outputs),
            self._aliases,
        )  # fmt: skip

    def host_table(self) -> HostTable:
        """Return a table of the external functions for the runs of a native caller."""
        assert self._outside is not None
        return HostTable(self._outside, self._meetings)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self.name} is native code in this process: copy or pickle its module, and compile it"
        )

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the program as a library, an object file, ... according to the file's extension.

        `hlo.load_library` calls a shared library, C programs call any. options: `name`, `header`,
        `target`, `cpu`, `features`, `debug_info`, `linker`, as of `hlo-compile`. Raises HloError.
        """
        if self.saver is None:
            raise HloError.at("unsupported", f"{self.name}: a loaded program cannot be saved again")
        need(path, str | os.PathLike, "save: path")
        self.saver(str(os.fspath(path)), **options)

    def _repr_html_(self) -> str:
        return program_html(repr(self).strip("<>"), self.parameters, self.result_shape)

    def __repr__(self) -> str:
        named = ((p.name, p.shape) for p in self.parameters)
        return f"<Executable {self.name}: {signature_text(named, self.result_shape)}>"

    def __call__(
        self,
        *args: Any,
        donate: bool | Collection[int] = False,
        timeout: float | None = None,
        **named: Any,
    ) -> Any:
        """Run on arguments; see the class."""
        if named or donate is not False or timeout is not None:
            result = self._long_way(args, named, donate, timeout)
        else:
            result = self._quick_call(*args)
            if result is None:
                result = self._long_way(args, named, donate, timeout)
            elif type(result) is int:
                assert self._quick is not None
                self._raise(result, self._quick.frame, None)
        return result if self.trees is None else given_by(self.trees, result)

    def _long_way(
        self,
        args: Sequence[Any],
        named: Mapping[str, Any],
        donate: bool | Collection[int],
        timeout: float | None,
    ) -> Any:
        """Run on arguments as they come."""
        if timeout is not None:
            check_timeout(timeout)
        if named or donate is not False or not self._ready(args):
            return self._slow_call(args, named, donate, timeout)
        if self._is_called:  # many programs run once
            self._short_way()
        self._is_called = True
        return self._wrap(self._run(args, {}, timeout))

    def _short_way(self) -> None:
        """Have the next call take the short way, if there can be one; see `quick`."""
        ports = [*self._inputs, *self._outputs]
        if (
            self._quick is not None
            or type(self) is not Executable
            or not is_possible()
            or self._outside is not None
            or self._aliases
            or not all(p.is_plain for p in ports)
            or self.arena_bytes >= _QUICK_ARENA_BYTES
            or self._output_bytes > _CHECKED_BYTES
            or self._wrap not in (only, tuple)
        ):
            return
        pool = 0 if self._pool is None else self._pool.handle_at
        is_tuple, addresses = self._wrap is tuple, self._support.addresses
        self._quick = QuickCall(
            self._inputs, self._outputs, is_tuple, self._frame(), pool, addresses
        )
        self._quick_call = self._quick.call

    def run_values(self, values: Sequence[Any], timeout: float | None = None) -> Any:
        """Run on one checked value for each parameter, as `bind_arguments` returns them.

        timeout: as of the class, checked.
        """
        arrays = leaf_arrays(self.parameters, values)
        memory = self._physical(arrays)
        return self._wrap(self._run(memory, {}, timeout))

    # --- arguments ------------------------------------------------------------------------------

    def _ready(self, args: Sequence[Any]) -> bool:
        """True when the arguments are flat, valid, and have the layouts of the parameters."""
        if len(args) != len(self._inputs):
            return False
        for a, p in zip(args, self._inputs):  # noqa: B905 (the lengths are equal)
            if (
                type(a) is not np.ndarray
                or a.dtype != p.dtype
                or a.shape != p.dims
                or not p.is_plain
                or a.flags.num & READY != READY
            ):
                return False
        return True

    def _slow_call(
        self,
        args: Sequence[Any],
        named: Mapping[str, Any],
        donate: bool | Collection[int],
        timeout: float | None,
    ) -> Any:
        arrays = leaf_arrays(self.parameters, bind_call(self.parameters, args, named, self.trees))
        memory = self._physical(arrays)
        return self._wrap(self._run(memory, self._donated(memory, arrays, donate), timeout))

    def _physical(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return arguments in the parameters' layouts, which some tiles make much larger."""
        self._need(0, 0, sum(p.packed_bytes for p in self._inputs))
        return [p.physical(a) for p, a in zip(self._inputs, arrays, strict=True)]

    def _donated(
        self, memory: list[np.ndarray], given: list[np.ndarray], donate: bool | Collection[int]
    ) -> dict[int, np.ndarray]:
        """Return the argument memory that results may use, by number of the result leaf.

        Memory that several arguments share is not donated.
        """
        if donate is False:
            return {}
        owners = [p for p in self.parameters for _ in array_leaves(p.shape)]
        wanted = {p.number for p in self.parameters} if donate is True else set(donate)
        aliased = {owners[leaf].number for leaf in self._aliases.values()}
        if donate is not True and wanted - aliased:
            raise HloError.at(
                "bad-donation", f"parameter {min(wanted - aliased)} shares no memory with a result",
            )  # fmt: skip
        found = {}
        for result, leaf in self._aliases.items():
            was_copied = address_of(memory[leaf]) != address_of(given[leaf])
            if owners[leaf].number not in wanted or was_copied:
                continue
            if not given[leaf].flags.writeable:
                raise HloError.at(
                    "bad-donation",
                    f"argument {owners[leaf].name} is read-only: it cannot be donated",
                )
            others = [m for n, m in enumerate(memory) if n != leaf]
            if not any(np.may_share_memory(given[leaf], m) for m in others):
                found[result] = memory[leaf]
        return found

    # --- running --------------------------------------------------------------------------------

    def _run(
        self,
        memory: Sequence[np.ndarray],
        donated: Mapping[int, np.ndarray],
        timeout: float | None = None,
    ) -> list[np.ndarray]:
        """Run on the arguments' memory; returns the result leaves."""
        try:
            frame = self._frames.pop()
            self._need(self._output_bytes)
        except IndexError:
            self._need(self._output_bytes, self.arena_bytes)
            frame = self._frame()
        table = frame.arguments
        for n, a in enumerate(memory):
            table[n] = address_of(a)
        outs = []
        table = frame.results
        for n, p in enumerate(self._outputs):
            out = donated.get(n) if donated else None
            if out is None:
                out = p.allocate()
                if n in self._aliases:
                    np.copyto(out, memory[self._aliases[n]])
            outs.append(out)
            table[n] = address_of(out)
        watch, host = frame.watch, frame.host
        if self._pool is not None:
            watch[self._threads_word] = self._pool.handle
        if host is not None:
            watch[STOP] = host.begin()
        if timeout is not None:
            watch[DEADLINE] = now_ms() + max(1, int(timeout * 1000))
        ended = self._call(frame.watch_at)
        if ended:
            self._raise(ended, frame, timeout)
        if timeout is not None:
            watch[DEADLINE] = 0
        self._frames.append(frame)
        return [o if p.is_plain else p.logical(o) for o, p in zip(outs, self._outputs)]  # noqa: B905

    def _raise(self, ended: int, frame: Frame, timeout: float | None) -> NoReturn:
        """Raise the error for the nonzero status of the entry or the watch."""
        if frame.host is not None:
            frame.host.leave()
        if ended == Ended.LATE:
            assert timeout is not None
            raise late(self.name, timeout)
        self.fail(ended, frame.host)

    def fail(self, status: int, host: HostTable | None) -> NoReturn:
        """Raise the error for the nonzero status of a run.

        host: the table of external functions that it had.
        """
        if status < 0 and status != Ended.STOPPED:
            # A library does not describe its status codes.
            unknown = f"{self.name}: a size is outside its bound, or a loop would never end"
            raise HloError.at(*self._checks.get(status, ("index-out-of-range", unknown)))
        assert host is not None
        if status == Ended.STOPPED:
            host.raise_stopped()
        if status >= FAILED_STATUS:
            host.fail_collective(status - FAILED_STATUS)
        host.fail(self.name, status - 1)

    def _frame(self) -> Frame:
        host = None if self._outside is None else HostTable(self._outside, self._meetings)
        frame = Frame(len(self._inputs), len(self._outputs), self.arena_bytes, host)
        frame.watch[ENTRY] = self._entry_at
        frame.watch[CONSTANTS] = self._constants.ctypes.data
        if frame.host is not None:
            frame.watch[self._host_word] = frame.host.address
        return frame

    @property
    def working_bytes(self) -> dict[str, int]:
        """The bytes that a call allocates, by purpose."""
        return {
            "results": self._output_bytes,
            "temporaries": self.arena_bytes,
            "arguments in their layouts": sum(p.packed_bytes for p in self._inputs),
        }

    def _need(self, results: int, arena: int = 0, packed: int = 0) -> None:
        """Raise HloError if a call needs more memory than there is."""
        if results + arena + packed > _CHECKED_BYTES:
            check_available(
                f"a call of {self.name}",
                {"results": results, "temporaries": arena, "arguments in their layouts": packed},
            )


def _the_long_way(*_: Any) -> None:
    """Stand for the short way where there is none."""


__all__ = ["Executable", "Port"]
