"""Native code that calls MPI: the steps of a collective, one after the other.

A collective is called often and its steps are always the same, up to the addresses of operands and
results. So Python prepares them once (`plans.py`); from then on a call of compiled code goes
straight to MPI, in half a microsecond. The code is LLVM IR, so that no compiler and no header is
needed: the size of MPI's handles, which differs between libraries, is filled in here.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

from hlo.runtime.jit import NativeCode, host_machine


class StepKind(IntEnum):
    """What a step does."""

    REDUCE = 0  # function(source, target, count, type, operation, comm)
    GATHER = 1  # function(source, count, type, target, count, type, comm)
    SHIFT = 2  # MPI_Sendrecv from source, to target
    CHAIN = 3  # target = (block 0 of source + block 1) + ...
    COPY = 4
    ZERO = 5
    BROADCAST = 6  # function(target, count, type, to, comm)


class Base(IntEnum):
    """What the offset of an address counts from."""

    OPERAND = 0
    RESULT = 1
    ADDRESS = 2  # zero: scratch memory, and MPI_IN_PLACE


class Step(ctypes.Structure):
    """One step. Every field takes eight bytes, MPI's handles too."""

    _fields_ = tuple((name, ctypes.c_int64) for name in (
        "kind", "source_base", "source_index", "source_offset",
        "target_base", "target_index", "target_offset",
        # Of MPI: how many elements of which type are sent and received, and from whom to whom.
        "send_count", "send_type", "receive_count", "receive_type", "operation", "comm",
        "to", "from_",
        # Of blocks: how many, how far apart in bytes, and of how many elements (or bytes) each.
        "blocks", "stride", "count",
        # The address of what does it at once, and of what begins it; where its request goes.
        "function", "beginning", "request",
    ))  # fmt: skip


class Plan(ctypes.Structure):
    """The steps of a collective.

    op: where its description is: a program that was loaded again has it elsewhere. begun: how many
    of the steps can be begun, to be waited for; the others follow after that. requests, statuses:
    room for those of MPI. calls: how often the collective was called.
    """

    _fields_ = tuple((name, ctypes.c_int64) for name in (
        "op", "steps", "count", "begun", "num_requests", "requests", "statuses", "calls",
    ))  # fmt: skip


class Context(ctypes.Structure):
    """What the functions of a table know: `context` of `hlo_collectives`.

    python: run, start and wait, for collectives without a plan. moves: grows whenever one is
    called. current: the number of the collective that is being called, from 1, or 0. plans: the
    address of a plan for each collective of the program, or 0.
    """

    _fields_ = (
        ("python", ctypes.c_int64 * 3), ("moves", ctypes.c_int64), ("current", ctypes.c_int64),
        ("plans", ctypes.c_int64),
    )  # fmt: skip


_STEP_FIELDS, _PLAN_FIELDS = ([field[0] for field in r._fields_] for r in (Step, Plan))
_CALLED_WITH = ("count", "begun", "num_requests", "requests", "statuses", "calls")
_CALL = "{ i64, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64 }"
# Offset of `number` in `hlo_collective`.
_NUMBER_AT = 36


def _read(record: str, fields: list[str], *names: str) -> str:
    """Return IR that reads fields of a record of 8-byte words."""
    return "\n".join(
        f"  %{n}.at = getelementptr i64, ptr %{record}, i64 {fields.index(n)}\n"
        f"  %{n} = load i64, ptr %{n}.at" for n in names
    )  # fmt: skip


_ADDRESS = f"""
define internal ptr @address(ptr %call, i64 %base, i64 %index, i64 %offset) {{
entry:
  %fixed = icmp eq i64 %base, {int(Base.ADDRESS)}
  br i1 %fixed, label %number, label %offset.in
number:
  %known = inttoptr i64 %offset to ptr
  ret ptr %known
offset.in:
  %tables = getelementptr {_CALL}, ptr %call, i64 0, i32 3
  %table.at = getelementptr ptr, ptr %tables, i64 %base
  %table = load ptr, ptr %table.at
  %entry.at = getelementptr ptr, ptr %table, i64 %index
  %start = load ptr, ptr %entry.at
  %found = getelementptr i8, ptr %start, i64 %offset
  ret ptr %found
}}
"""


def _step(begins: bool) -> str:
    """Return the function that does a step, or one that begins it."""
    name, function, more = ("begin", "begun", ", ptr %slot") if begins else ("do", "now", "")
    shift = """\
  %receiving = call i32 @MPI_Irecv(ptr %target, i32 %rn, HANDLE %rt, i32 %from, i32 0, HANDLE %c, ptr %slot)
  %bad = icmp ne i32 %receiving, 0
  br i1 %bad, label %refused, label %send
refused:
  ret i32 %receiving
send:
  %next = getelementptr HANDLE, ptr %slot, i64 1
  %sending = call i32 @MPI_Isend(ptr %source, i32 %sn, HANDLE %st, i32 %dest, i32 0, HANDLE %c, ptr %next)
  ret i32 %sending"""  # noqa: E501
    if not begins:
        shift = """\
  %shifted = call i32 @MPI_Sendrecv(ptr %source, i32 %sn, HANDLE %st, i32 %dest, i32 0,
    ptr %target, i32 %rn, HANDLE %rt, i32 %from, i32 0, HANDLE %c, ptr %statuses)
  ret i32 %shifted"""
    return f"""
define internal i32 @{name}(ptr %step, ptr %call, ptr %requests, ptr %statuses) {{
entry:
{_read("step", _STEP_FIELDS, *_STEP_FIELDS)}
  %source = call ptr @address(ptr %call, i64 %source_base, i64 %source_index, i64 %source_offset)
  %target = call ptr @address(ptr %call, i64 %target_base, i64 %target_index, i64 %target_offset)
  %now = inttoptr i64 %function to ptr
  %begun = inttoptr i64 %beginning to ptr
  %slot = getelementptr HANDLE, ptr %requests, i64 %request
  %sn = trunc i64 %send_count to i32
  %rn = trunc i64 %receive_count to i32
  %dest = trunc i64 %to to i32
  %from = trunc i64 %from_ to i32
  %st = TO_HANDLE i64 %send_type to HANDLE
  %rt = TO_HANDLE i64 %receive_type to HANDLE
  %op = TO_HANDLE i64 %operation to HANDLE
  %c = TO_HANDLE i64 %comm to HANDLE
  switch i64 %kind, label %zero [
    i64 {int(StepKind.REDUCE)}, label %reduce
    i64 {int(StepKind.GATHER)}, label %gather
    i64 {int(StepKind.SHIFT)}, label %shift
    i64 {int(StepKind.CHAIN)}, label %chain
    i64 {int(StepKind.COPY)}, label %copy
    i64 {int(StepKind.BROADCAST)}, label %broadcast
  ]
reduce:
  %reduced = call i32 %{function}(ptr %source, ptr %target, i32 %sn, HANDLE %st, HANDLE %op,
    HANDLE %c{more})
  ret i32 %reduced
gather:
  %gathered = call i32 %{function}(ptr %source, i32 %sn, HANDLE %st, ptr %target, i32 %rn,
    HANDLE %rt, HANDLE %c{more})
  ret i32 %gathered
broadcast:
  %told = call i32 %{function}(ptr %target, i32 %rn, HANDLE %rt, i32 %dest, HANDLE %c{more})
  ret i32 %told
shift:
{shift}
chain:
  %block = phi i64 [ 1, %entry ], [ %block.next, %chain ]
  %so.far = phi ptr [ %source, %entry ], [ %target, %chain ]
  %at = mul i64 %block, %stride
  %other = getelementptr i8, ptr %source, i64 %at
  call void %now(ptr %so.far, ptr %other, ptr %target, i64 %count)
  %block.next = add i64 %block, 1
  %more = icmp slt i64 %block.next, %blocks
  br i1 %more, label %chain, label %done
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %count, i1 false)
  ret i32 0
zero:
  call void @llvm.memset.p0.i64(ptr %target, i8 0, i64 %count, i1 false)
  ret i32 0
done:
  ret i32 0
}}
"""


def _all(name: str, first: str, end: str) -> str:
    """Return the function that does steps of a plan in order, up to the first that fails."""
    return f"""
define internal i32 @{name}.all(ptr %plan, ptr %call, i64 %first, i64 %end) {{
entry:
{_read("plan", _PLAN_FIELDS, "steps", "requests", "statuses")}
  %table = inttoptr i64 %steps to ptr
  %room = inttoptr i64 %requests to ptr
  %status.room = inttoptr i64 %statuses to ptr
  br label %test
test:
  %n = phi i64 [ %first, %entry ], [ %next, %step ]
  %open = icmp slt i64 %n, %end
  br i1 %open, label %step, label %done
step:
  %offset = mul i64 %n, {ctypes.sizeof(Step)}
  %one = getelementptr i8, ptr %table, i64 %offset
  %status = call i32 @{name}(ptr %one, ptr %call, ptr %room, ptr %status.room)
  %next = add i64 %n, 1
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %test
failed:
  ret i32 %status
done:
  ret i32 0
}}
"""


def _entry(name: str, number: int, body: str) -> str:
    """Return a function of the table: Python's for collectives without a plan, else the body."""
    return f"""
define i32 @{name}(ptr %call) {{
entry:
  %context.at = getelementptr {_CALL}, ptr %call, i64 0, i32 1
  %context = load ptr, ptr %context.at
  %op.at = getelementptr {_CALL}, ptr %call, i64 0, i32 2
  %op = load ptr, ptr %op.at
  %number.at = getelementptr i8, ptr %op, i64 {_NUMBER_AT}
  %number.32 = load i32, ptr %number.at
  %number = zext i32 %number.32 to i64
{_read("context", ["run", "start", "wait", "moves", "current", "plans"], name, "moves", "plans")}
  %table = inttoptr i64 %plans to ptr
  %plan.at = getelementptr ptr, ptr %table, i64 %number
  %plan = load ptr, ptr %plan.at
  %none = icmp eq ptr %plan, null
  br i1 %none, label %python, label %compare
compare:
  %planned = load ptr, ptr %plan
  %same = icmp eq ptr %planned, %op
  br i1 %same, label %native, label %python
python:
  %function = inttoptr i64 %{name} to ptr
  %answer = call i32 %function(ptr %call)
  ret i32 %answer
native:
{_read("plan", _PLAN_FIELDS, *_CALLED_WITH)}
  %moves.next = add i64 %moves, 1
  store volatile i64 %moves.next, ptr %moves.at
  %current.at = getelementptr i64, ptr %context, i64 4
  %current = add i64 %number, 1
{body}
}}
"""


_COMES = """\
  %calls.next = add i64 %calls, 1
  store volatile i64 %calls.next, ptr %calls.at"""

_IR = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @MPI_Sendrecv(ptr, i32, HANDLE, i32, i32, ptr, i32, HANDLE, i32, i32, HANDLE, ptr)
declare i32 @MPI_Irecv(ptr, i32, HANDLE, i32, i32, HANDLE, ptr)
declare i32 @MPI_Isend(ptr, i32, HANDLE, i32, i32, HANDLE, ptr)
declare i32 @MPI_Waitall(i32, ptr, ptr)
{_ADDRESS}{_step(False)}{_step(True)}{_all("do", "0", "count")}{_all("begin", "0", "begun")}
""" + _entry("run", 0, f"""{_COMES}
  store volatile i64 %current, ptr %current.at
  %status = call i32 @do.all(ptr %plan, ptr %call, i64 0, i64 %count)
  store volatile i64 0, ptr %current.at
  ret i32 %status""") + _entry("start", 1, f"""{_COMES}
  %status = call i32 @begin.all(ptr %plan, ptr %call, i64 0, i64 %begun)
  ret i32 %status""") + _entry("wait", 2, """\
  store volatile i64 %current, ptr %current.at
  %status.room = inttoptr i64 %statuses to ptr
  %how.many = trunc i64 %num_requests to i32
  %room = inttoptr i64 %requests to ptr
  %waited = call i32 @MPI_Waitall(i32 %how.many, ptr %room, ptr %status.room)
  %bad = icmp ne i32 %waited, 0
  br i1 %bad, label %failed, label %rest
failed:
  ret i32 %waited
rest:
  %status = call i32 @do.all(ptr %plan, ptr %call, i64 %begun, i64 %count)
  store volatile i64 0, ptr %current.at
  ret i32 %status""")  # fmt: skip

_CALLED = ("MPI_Sendrecv", "MPI_Irecv", "MPI_Isend", "MPI_Waitall")


class Functions:
    """The library's functions, and those of a table that run plans.

    handle_bytes: the size of MPI's handles. table: the addresses of `run`, `start` and `wait`.
    """

    def __init__(self, mpi: Any) -> None:
        self._library = ctypes.CDLL(mpi.__file__)
        self.handle_bytes: int = mpi._sizeof(mpi.Comm)
        wide = self.handle_bytes == 8
        text = _IR.replace("TO_HANDLE", "inttoptr" if wide else "trunc")
        text = text.replace("HANDLE", "ptr" if wide else "i32")
        called = {name: self.address(name) for name in _CALLED}
        self._code = NativeCode(
            [host_machine().quick_code(text)], "run", "start", "wait", called=called
        )
        self.table = self._code.addresses

    def address(self, name: str) -> int:
        """Return the address of a function of MPI."""
        found = ctypes.cast(self._library[name], ctypes.c_void_p).value
        assert found is not None
        return found
