"""Calls of small programs as a builtin function of Python: without bytecode, without ctypes.

Such a function is made of a native one (`METH_FASTCALL`). It looks at its arguments as numpy's C
ABI lays arrays out; if all are as the program wants them in memory, it has the results allocated
and runs the program on a frame of its own. If not, or if that frame is in use, it returns None, and
the caller takes the long way, which can convert, copy and complain. A run that fails gives its
status, an `int`.

These functions are LLVM IR, so that no compiler is needed where the package is installed.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hlo.runtime.boundary import Port
from hlo.runtime.watch import ARGUMENTS, RESULTS, THREADS, Ended

# The words of what a function knows of its program: whether its frame is in use; the address of the
# frame's watch, and of the handle of the pool, if it has one; how many leaves there are.
_BUSY, _WATCH, _POOL, _ARGUMENTS, _RESULTS, _IS_TUPLE, _ARRAY, _NONE, _HEAD = range(9)
# After these, words for each argument: its dtype, rank and the address of its dimensions; then for
# each result: what allocates it, the number of arguments that takes, and two of these.
_DTYPE, _RANK, _DIMS, _IN = range(4)
_ALLOCATE, _COUNT, _FIRST, _OUT = 0, 1, 2, 4
# Results that take more come from a port, which may have kept memory for them.
_PLAIN_BYTES = 512
# Bits of an array's flags: C-contiguous, aligned.
READY = 0x1 | 0x100
# Where an array object has its type, data, rank, dimensions, dtype and flags, in bytes.
_TYPE_AT, _DATA_AT, _RANK_AT, _DIMS_AT, _DTYPE_AT, _FLAGS_AT = 8, 16, 24, 32, 56, 64

_FASTCALL = 0x80


def _loads(base: str, *fields: tuple[str, str, int]) -> str:
    """Return the lines that load fields: name, type, offset in bytes."""
    return "\n".join(
        f"  %{name}.at = getelementptr i8, ptr {base}, i64 {offset}\n"
        f"  %{name} = load {type_}, ptr %{name}.at"
        for name, type_, offset in fields
    )


_WORDS = {"watch": _WATCH, "pool": _POOL, "array": _ARRAY, "none": _NONE}

IR = f"""
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)

define ptr @quick_call(ptr %self, ptr %args, i64 %given) nounwind {{
  %q = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
{_loads("%q", *((name, "ptr", 8 * at) for name, at in _WORDS.items()))}
{_loads("%q", ("busy", "i64", 8 * _BUSY), ("wanted", "i64", 8 * _ARGUMENTS))}
{_loads("%q", ("outs", "i64", 8 * _RESULTS), ("is.tuple", "i64", 8 * _IS_TUPLE))}
{_loads("%watch", ("table", "ptr", 8 * ARGUMENTS), ("out.table", "ptr", 8 * RESULTS))}
  %first = getelementptr i64, ptr %q, i64 {_HEAD}
  %used = icmp ne i64 %busy, 0
  %other = icmp ne i64 %wanted, %given
  %unfit = or i1 %used, %other
  br i1 %unfit, label %no, label %claim
claim:
  store i64 1, ptr %busy.at
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %next, label %threads
threads:
  %handle = load ptr, ptr %pool
  %threads.at = getelementptr i64, ptr %watch, i64 {THREADS}
  store ptr %handle, ptr %threads.at
  %asleep = icmp eq ptr %handle, null
  br i1 %asleep, label %leave, label %next
next:
  %i = phi i64 [ 0, %claim ], [ 0, %threads ], [ %following, %take ]
  %in.at = mul i64 %i, {_IN}
  %in = getelementptr i64, ptr %first, i64 %in.at
  %some = icmp slt i64 %i, %wanted
  br i1 %some, label %check, label %make
check:
  %a.at = getelementptr ptr, ptr %args, i64 %i
  %a = load ptr, ptr %a.at
{_loads("%a", ("type", "ptr", _TYPE_AT))}
  %is.array = icmp eq ptr %type, %array
  br i1 %is.array, label %inside, label %leave
inside:
{_loads("%a", ("data", "ptr", _DATA_AT), ("rank", "i32", _RANK_AT))}
{_loads("%a", ("dims", "ptr", _DIMS_AT), ("dtype", "ptr", _DTYPE_AT), ("flags", "i32", _FLAGS_AT))}
{_loads("%in", ("my.dtype", "ptr", 8 * _DTYPE), ("my.dims", "ptr", 8 * _DIMS))}
{_loads("%in", ("my.rank", "i64", 8 * _RANK))}
  %rank.64 = zext i32 %rank to i64
  %ready = and i32 %flags, {READY}
  %bad.dtype = icmp ne ptr %dtype, %my.dtype
  %bad.rank = icmp ne i64 %rank.64, %my.rank
  %bad.flags = icmp ne i32 %ready, {READY}
  %bad.1 = or i1 %bad.dtype, %bad.rank
  %bad = or i1 %bad.1, %bad.flags
  br i1 %bad, label %leave, label %sizes
sizes:
  %d = phi i64 [ 0, %inside ], [ %d.next, %size ]
  %more = icmp slt i64 %d, %my.rank
  br i1 %more, label %size, label %take
size:
  %x.at = getelementptr i64, ptr %dims, i64 %d
  %y.at = getelementptr i64, ptr %my.dims, i64 %d
  %x = load i64, ptr %x.at
  %y = load i64, ptr %y.at
  %same = icmp eq i64 %x, %y
  %d.next = add i64 %d, 1
  br i1 %same, label %sizes, label %leave
take:
  %place = getelementptr ptr, ptr %table, i64 %i
  store ptr %data, ptr %place
  %following = add i64 %i, 1
  br label %next
make:
  %tuple = icmp ne i64 %is.tuple, 0
  br i1 %tuple, label %several, label %results
several:
  %made = call ptr @PyTuple_New(i64 %outs)
  %no.tuple = icmp eq ptr %made, null
  br i1 %no.tuple, label %failed, label %results
results:
  %whole = phi ptr [ null, %make ], [ %made, %several ]
  br label %result
result:
  %n = phi i64 [ 0, %results ], [ %n.next, %kept ]
  %value = phi ptr [ %whole, %results ], [ %all, %kept ]
  %out.at = mul i64 %n, {_OUT}
  %out = getelementptr i64, ptr %in, i64 %out.at
  %unmade = icmp slt i64 %n, %outs
  br i1 %unmade, label %allocate, label %run
allocate:
{_loads("%out", ("allocator", "ptr", 8 * _ALLOCATE), ("count", "i64", 8 * _COUNT))}
  %out.args = getelementptr i64, ptr %out, i64 {_FIRST}
  %r = call ptr @PyObject_Vectorcall(ptr %allocator, ptr %out.args, i64 %count, ptr null)
  %nothing = icmp eq ptr %r, null
  br i1 %nothing, label %drop, label %keep
keep:
{_loads("%r", ("memory", "ptr", _DATA_AT))}
  %there = getelementptr ptr, ptr %out.table, i64 %n
  store ptr %memory, ptr %there
  br i1 %tuple, label %element, label %kept
element:
  %set = call i32 @PyTuple_SetItem(ptr %value, i64 %n, ptr %r)
  br label %kept
kept:
  %all = phi ptr [ %r, %keep ], [ %value, %element ]
  %n.next = add i64 %n, 1
  br label %result
run:
  %ended = call i32 @watch_call(ptr %watch)
  store i64 0, ptr %busy.at
  %fine = icmp eq i32 %ended, 0
  br i1 %fine, label %done, label %early
done:
  ret ptr %value
early:
  call void @Py_DecRef(ptr %value)
  %raised = icmp eq i32 %ended, {Ended.RAISED:d}
  br i1 %raised, label %error, label %status
status:
  %ended.64 = sext i32 %ended to i64
  %number = call ptr @PyLong_FromLongLong(i64 %ended.64)
  ret ptr %number
drop:
  br i1 %tuple, label %forget, label %failed
forget:
  call void @Py_DecRef(ptr %value)
  br label %failed
failed:
  store i64 0, ptr %busy.at
  br label %error
error:
  ret ptr null
leave:
  store i64 0, ptr %busy.at
  br label %no
no:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}}
"""


class _Method(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


@functools.cache
def is_possible() -> bool:
    """Return whether array objects of this process are laid out as the native function expects."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != _DATA_AT:
        return False
    probe = np.zeros((2, 3, 1), np.int16)
    read, at = ctypes.c_size_t.from_address, id(probe)
    dims = read(at + _DIMS_AT).value
    return (
        read(at + _TYPE_AT).value == id(np.ndarray)
        and read(at + _DATA_AT).value == probe.ctypes.data
        and ctypes.c_int.from_address(at + _RANK_AT).value == 3
        and read(at + _DTYPE_AT).value == id(probe.dtype)
        and ctypes.c_int.from_address(at + _FLAGS_AT).value == probe.flags.num
        and tuple((ctypes.c_ssize_t * 3).from_address(dims)) == probe.shape
    )


@functools.cache
def _method(function: int) -> _Method:
    return _Method(b"run", function, _FASTCALL, None)


class QuickCall:
    """The function of one program, `call`.

    inputs, outputs: the ports of its leaves, which are plain. is_tuple: of the program's result.
    frame: whose tables and arena it uses; `watch` has the address of its watch. pool: the address
    of the word with the pool's handle, which is zero until it is started; 0 without one.
    addresses: of the native functions.
    """

    def __init__(
        self,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        is_tuple: bool,
        frame: Any,
        pool: int,
        addresses: Mapping[str, int],
    ) -> None:
        dims = [(ctypes.c_ssize_t * max(1, len(p.dims)))(*p.dims) for p in inputs]
        self.frame = frame
        # Whatever else the native function has the address of.
        self._kept: list[Any] = [*dims, *(p.dtype for p in inputs)]
        words = [0, frame.watch_at, pool, len(inputs), len(outputs), is_tuple]
        words += [id(np.ndarray), id(None)]
        for p, sizes in zip(inputs, dims, strict=True):
            words += [id(p.dtype), len(p.dims), ctypes.addressof(sizes)]
        for p in outputs:
            made_by: tuple[Any, ...] = (p.allocate,)
            if p.size_bytes < _PLAIN_BYTES:
                made_by = (np.empty, p.dims, p.dtype)
            self._kept.append(made_by)
            allocate, *rest = map(id, made_by)
            words += [allocate, len(rest), *rest, *[0] * (2 - len(rest))]
        self._words = (ctypes.c_size_t * len(words))(*words)
        api = ctypes.pythonapi
        new_capsule = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
        )(("PyCapsule_New", api))
        new_function = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )(("PyCFunction_NewEx", api))
        capsule = new_capsule(ctypes.addressof(self._words), None, None)
        method = ctypes.addressof(_method(addresses["quick_call"]))
        self.call: Callable[..., Any] = new_function(method, capsule, None)
