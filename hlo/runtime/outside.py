"""External functions that a program calls: native ones, and Python's.

A program gets a table of them, an `hlo_host`; `hlo/include/hlo_ffi.h` declares it and the
functions' arguments.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np

from hlo.errors import HloError, InferError
from hlo.runtime.collectives import Collective, Together, Transport
from hlo.runtime.jit import NativeCode, host_machine
from hlo.runtime.rendezvous import Meetings, Rendezvous
from hlo.values.types import ArrayShape

MESSAGE_BYTES = 4096


@dataclass(frozen=True)
class Import:
    """One external function that a program needs: an entry of its table.

    opcode, target: the operation that calls it; api_version: of a custom call, 1 to 4, else 0.
    text: a module whose entry's root is the instruction, for functions that are resolved in
    Python.
    """

    opcode: str
    target: str
    api_version: int
    text: str


@dataclass(frozen=True)
class Function:
    """An entry of the table: two addresses, and the object that keeps them valid."""

    handler: int
    state: int = 0
    keep: Any = None


@dataclass(frozen=True)
class Outside:
    """What a program calls outside: a function for each of its imports, and collectives.

    ids: the replica and partition that run the program. device: its number among those of the run.
    together: the run that it is part of, None for a single device. absent: returns the error of a
    collective with devices that are not there.
    """

    imports: Sequence[Import]
    functions: Sequence[Function]
    collectives: Sequence[Collective] = ()
    ids: Callable[[], tuple[int, int]] = lambda: (0, 0)
    device: Callable[[], int] = lambda: 0
    together: Callable[[], Together | None] = lambda: None
    absent: Callable[[Collective], HloError] | None = None


# --- native functions ---------------------------------------------------------------------------

# Adapters from the type that programs call to functions of older custom-call versions: the state
# is the function's address. The offsets are those of `hlo_ffi_call` and `hlo_ffi_op`.
_CALL = "{ i64, ptr, ptr, ptr, ptr, ptr, i64 }"
_OP = "{ ptr, ptr, i64, i32, i32, i64, ptr, i64, ptr, i64, ptr }"


def _field(name: str, struct: str, base: str, number: int, type_: str) -> str:
    return f"""\
  %{name}.at = getelementptr {struct}, ptr {base}, i64 0, i32 {number}
  %{name} = load {type_}, ptr %{name}.at
"""


_COMMON = (
    _field("function", _CALL, "%call", 1, "ptr")
    + _field("op", _CALL, "%call", 2, "ptr")
    + _field("in", _CALL, "%call", 3, "ptr")
    + _field("results", _CALL, "%call", 4, "ptr")
    + _field("config", _OP, "%op", 1, "ptr")
    + _field("size", _OP, "%op", 2, "i64")
    + _field("is_tuple", _OP, "%op", 4, "i32")
    + _field("count", _OP, "%op", 7, "i64")
    + """\
  %tuple = icmp ne i32 %is_tuple, 0
  %none = icmp eq i64 %count, 0
  %plain = or i1 %tuple, %none
  br i1 %plain, label %go, label %one
one:
  %first = load ptr, ptr %results
  br label %go
go:
  %out = phi ptr [ %results, %entry ], [ %first, %one ]
"""
)


def _adapter(name: str, arguments: str, has_status: bool) -> str:
    status = ""
    if has_status:
        status = """\
  %status = alloca { ptr, i32 }
  store ptr %call, ptr %status
  %failed.at = getelementptr { ptr, i32 }, ptr %status, i64 0, i32 1
  store i32 0, ptr %failed.at
"""
    result = "  %failed = load i32, ptr %failed.at\n  ret i32 %failed\n" if has_status else (
        "  ret i32 0\n"
    )  # fmt: skip
    return (
        f"define i32 @{name}(ptr %call) {{\nentry:\n{status}{_COMMON}"
        f"  call void %function({arguments})\n{result}}}\n"
    )


_ADAPTERS = {
    1: ("original", "ptr %out, ptr %in", False),
    2: ("status", "ptr %out, ptr %in, ptr %status", True),
    3: ("unified", "ptr %out, ptr %in, ptr %config, i64 %size, ptr %status", True),
}
# Functions of this version need no adapter.
_TYPED = 4


@cache
def _adapters() -> NativeCode:
    machine = host_machine()
    text = "".join(_adapter(*parts) for parts in _ADAPTERS.values())
    names = [name for name, _, _ in _ADAPTERS.values()]
    return NativeCode([machine.quick_code(text)], *names)


def native_function(address: int, api_version: int) -> Function:
    """Return the entry for a native function of a version of custom calls."""
    if api_version == _TYPED:
        return Function(address)
    if api_version not in _ADAPTERS:
        raise HloError.at("bad-value", f"there is no version {api_version} of native custom calls")
    code = _adapters()
    return Function(code.addresses[_ADAPTERS[api_version][0]], address, code)


# --- Python functions ---------------------------------------------------------------------------

_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
# The exception of a function that failed, by the thread of the run. Python has no state of its own
# that lasts for a thread that native code started, so this is no `threading.local`.
_pending: dict[int, BaseException] = {}


def python_function(
    run: Callable[[list[np.ndarray]], Sequence[np.ndarray]],
    operands: Sequence[ArrayShape],
    results: Sequence[ArrayShape],
) -> Function:
    """Return the entry for a Python function on arrays in logical order.

    run: gets copies of the operands, and returns arrays of exactly the results' dimensions and
    dtypes. Its exceptions propagate to the caller of the program.
    """
    sources, targets = [_Strided(s) for s in operands], [_Strided(s) for s in results]

    def handler(call: int) -> int:
        try:
            # The fields of `hlo_ffi_call` before these take eight bytes each on every machine that
            # numpy runs on but 32-bit ones, where pointers take four.
            tables = (ctypes.c_size_t * 2).from_address(call + _TABLES)
            held = _read(tables[0], sources)
            values = run([v.at(a).copy() for v, a in zip(sources, held, strict=True)])
            places = _read(tables[1], targets)
            for view, address, value in zip(targets, places, values, strict=True):
                view.at(address)[...] = value
        except BaseException as e:
            _pending[threading.get_ident()] = e
            return 1
        return 0

    callback = _HANDLER(handler)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    return Function(address, 0, callback)


# Offsets of the tables of operands and results in an `hlo_ffi_call`.
_TABLES = 8 + 2 * ctypes.sizeof(ctypes.c_void_p)


def _read(table: int, views: Sequence[_Strided]) -> list[int]:
    return list((ctypes.c_size_t * len(views)).from_address(table)) if views else []


class _Strided:
    """Converts memory in a shape's layout to arrays."""

    def __init__(self, shape: ArrayShape) -> None:
        order = shape.layout.minor_to_major[::-1] if shape.layout else tuple(range(shape.rank))
        self._dims = tuple(shape.dims[d] for d in order)
        self._back = tuple(int(d) for d in np.argsort(order))
        self._dtype = shape.element_type.dtype
        self._bytes = shape.num_elements * self._dtype.itemsize

    def at(self, address: int) -> np.ndarray:
        """Return the array at an address, in logical order."""
        memory = (ctypes.c_char * self._bytes).from_address(address)
        array = np.frombuffer(memoryview(memory), self._dtype).reshape(self._dims)
        return array.transpose(self._back) if self._dims else array


# --- tables -------------------------------------------------------------------------------------


class HostTable:
    """The memory of an `hlo_host`: for one call at a time."""

    def __init__(self, outside: Outside, meetings: Meetings | None) -> None:
        self._outside = outside
        self._meetings = meetings
        self._transport: Transport | None = None
        self._message = ctypes.create_string_buffer(MESSAGE_BYTES)
        count = len(outside.functions)

        class Table(ctypes.Structure):
            _fields_ = (
                ("message", ctypes.c_void_p), ("message_size", ctypes.c_int64),
                ("replica_id", ctypes.c_uint32), ("partition_id", ctypes.c_uint32),
                ("collectives", ctypes.c_void_p),
                ("imports", ctypes.c_void_p * (2 * count)),
            )  # fmt: skip

        flat = [x for f in outside.functions for x in (f.handler, f.state)]
        self._table = Table(
            ctypes.addressof(self._message),
            MESSAGE_BYTES,
            0,
            0,
            None,
            (ctypes.c_void_p * len(flat))(*flat),
        )
        self.address = ctypes.addressof(self._table)

    def begin(self) -> int:
        """Prepare a call; returns the address of the word that stops it, or 0."""
        outside = self._outside
        self._table.replica_id, self._table.partition_id = outside.ids()
        self._together = together = outside.together()
        if together is None:
            self._transport, self._table.collectives = None, None
            return 0
        if outside.collectives:
            self._transport = together.transport(self._rendezvous)
            table = self._transport.table(outside.device(), outside.collectives)
            self._table.collectives = table
        return together.stop_at

    def _rendezvous(self, count: int) -> Rendezvous:
        assert self._meetings is not None
        return Rendezvous(self._meetings, count)

    def leave(self) -> None:
        """End what the program has started, since a call has ended early."""
        if self._transport is not None:
            assert self._together is not None
            self._together.stop()
            self._transport.leave(self._outside.device())

    def raise_stopped(self) -> NoReturn:
        """Raise the error of a call that was stopped."""
        assert self._together is not None
        try:
            self._together.need_going()
        except InferError as e:
            raise HloError.at(e.code, e.message, None, e.hint) from None
        raise AssertionError("the devices continue")

    def fail_collective(self, number: int) -> NoReturn:
        """Raise the error of a failed collective."""
        outside = self._outside
        collective = outside.collectives[number]
        if self._transport is not None:
            self._transport.fail(outside.device(), collective)
        assert outside.absent is not None
        raise outside.absent(collective)

    def fail(self, program: str, number: int) -> NoReturn:
        """Raise the error of a failed function: a Python exception, or HloError with its message.

        number: of the function that failed.
        """
        which = self._outside.imports[number]
        error = _pending.pop(threading.get_ident(), None)
        if error is not None:
            raise error
        message = self._message.value.decode(errors="replace") or "no reason given"
        self._message.value = b""
        raise HloError.at(
            "custom-call-failed", f"{program}: {which.opcode} of {which.target!r} failed: {message}"
        )
