"""Interruptible calls of native code: by Ctrl-C, by a deadline, by a failure on another device.

Python handles signals in its main thread, between bytecode instructions; native code runs without
the GIL and does not see them. So programs poll: they call `hlo.poll` at back edges of loops,
between kernels, and between the chunks of a large one, each time after some fraction of a
millisecond's work (`Builder.poll`). Ten times a second, in the main thread only, that takes the
GIL and has Python run its signal handlers. Their exceptions propagate to the caller.

A call that ends early jumps back to its start (`longjmp`), across kernels and the entry function,
none of which owns resources that would have to be released; the thread pool intercepts the jump
and stops its workers first. Partially written results are discarded.

These functions are LLVM IR, so that no compiler is needed where the package is installed.
"""

from __future__ import annotations

import os
import sys
import time
from enum import IntEnum

# A watch: the arguments and the state of a call, in 8-byte words. The first are the arguments of
# a program's entry.
(
    ENTRY, ARGUMENTS, RESULTS, ARENA, CONSTANTS, THREADS, HOST, STOP, DEADLINE,
    _JUMP, _NEXT, _STATE, _STATUS, _BEFORE,
) = range(14)  # fmt: skip
WORDS = 14


class Ended(IntEnum):
    """The status that `watch_call` returns for a call that was stopped, instead of the entry's."""

    RAISED = -2  # a handler of a signal has raised: Python's error is set
    STOPPED = -3  # the word at the address STOP was not zero
    LATE = -4  # it was past DEADLINE, in milliseconds of Python's monotonic clock


# How often a call has Python check for signals. A thread that computes in Python releases the GIL
# after five milliseconds, which is the cost of one check.
_INTERVAL_MS = 100


def now_ms() -> int:
    """Return the current time of the deadline clock."""
    if hasattr(time, "clock_gettime"):
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000
    return time.monotonic_ns() // 1_000_000


# Larger than that of any supported system.
_JUMP_BYTES = 1024
# Linux's coarse clock takes a quarter of the time of the others, and lags a few milliseconds.
_CLOCK = 6 if sys.platform == "linux" else getattr(time, "CLOCK_MONOTONIC", 1)


def word(watch: str, name: str, number: int) -> str:
    """Return the line that makes `%name.at` the address of a word of a watch."""
    return f"  %{name}.at = getelementptr i64, ptr {watch}, i64 {number}"


_ENTRY_WORDS = {
    "args": ARGUMENTS, "results": RESULTS, "arena": ARENA, "constants": CONSTANTS,
    "threads": THREADS, "host": HOST,
}  # fmt: skip
_CALL_ENTRY = "\n".join(
    [
        word("%watch", "entry", ENTRY),
        "  %entry = load ptr, ptr %entry.at",
        *(
            f"{word('%watch', n, k)}\n  %{n} = load ptr, ptr %{n}.at"
            for n, k in _ENTRY_WORDS.items()
        ),
        f"  %did = call i32 %entry({', '.join(f'ptr %{n}' for n in _ENTRY_WORDS)})",
    ]
)

# Without setjmp and longjmp, calls cannot be interrupted.
_PLAIN = f"""
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define i32 @watch_run(ptr %watch) nounwind {{
{_CALL_ENTRY}
  ret i32 %did
}}

define i32 @watch_call(ptr %watch) nounwind {{
  %state = call ptr @PyEval_SaveThread()
  %did = call i32 @watch_run(ptr %watch)
  call void @PyEval_RestoreThread(ptr %state)
  ret i32 %did
}}

define void @hlo.poll() nounwind {{
  ret void
}}

define ptr @watch_here() nounwind {{
  ret ptr null
}}

define i32 @watch_guard(ptr %watch, ptr %function, ptr %argument) nounwind {{
  call void %function(ptr %argument)
  ret i32 0
}}

define void @watch_jump(ptr %watch) nounwind noreturn {{
  unreachable
}}
"""

_POSIX = f"""
@hlo.key = internal global i64 0
@watch_main_thread = global i64 0

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i64)
declare i32 @pthread_setspecific(i64, ptr)
declare i64 @pthread_self()
declare i32 @clock_gettime(i32, ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @_longjmp(ptr, i32) noreturn

; Once, before anything else here is called.
define i32 @watch_start() nounwind {{
  %failed = call i32 @pthread_key_create(ptr @hlo.key, ptr null)
  ret i32 %failed
}}

; The watch of the call that this thread works on, or null.
define ptr @watch_here() nounwind {{
  %key = load i64, ptr @hlo.key
  %watch = call ptr @pthread_getspecific(i64 %key)
  ret ptr %watch
}}

define internal void @watch_set(ptr %watch) nounwind {{
  %key = load i64, ptr @hlo.key
  %failed = call i32 @pthread_setspecific(i64 %key, ptr %watch)
  ret void
}}

; Call the entry of a watch, without Python's lock. `state` is the thread's, null where Python is to
; have no part in it.
define i32 @watch_run(ptr %watch) nounwind {{
  %jump = alloca [{_JUMP_BYTES} x i8], align 16
{word("%watch", "jump", _JUMP)}
{word("%watch", "next", _NEXT)}
{word("%watch", "status", _STATUS)}
{word("%watch", "before", _BEFORE)}
  %before = call ptr @watch_here()
  store ptr %before, ptr %before.at
  store ptr %jump, ptr %jump.at
  store i64 0, ptr %next.at
  store i64 0, ptr %status.at
  call void @watch_set(ptr %watch)
  %jumped = call i32 @_setjmp(ptr %jump) returns_twice
  %early = icmp ne i32 %jumped, 0
  br i1 %early, label %ended, label %run
run:
{_CALL_ENTRY}
  br label %done
ended:
  %status = load i32, ptr %status.at
  br label %done
done:
  %result = phi i32 [ %did, %run ], [ %status, %ended ]
  %former = load ptr, ptr %before.at
  call void @watch_set(ptr %former)
  ret i32 %result
}}

; Call the entry of a watch: with Python's lock held, which is let go for as long as it runs.
define i32 @watch_call(ptr %watch) nounwind {{
{word("%watch", "state", _STATE)}
  %state = call ptr @PyEval_SaveThread()
  store ptr %state, ptr %state.at
  %did = call i32 @watch_run(ptr %watch)
  %held = load ptr, ptr %state.at
  call void @PyEval_RestoreThread(ptr %held)
  ret i32 %did
}}

; Call a function so that a jump ends in it; returns whether there was one. The watch may be null.
define i32 @watch_guard(ptr %watch, ptr %function, ptr %argument) nounwind {{
  %jump = alloca [{_JUMP_BYTES} x i8], align 16
  %kept = alloca ptr
  %none = icmp eq ptr %watch, null
  br i1 %none, label %plain, label %guard
plain:
  call void %function(ptr %argument)
  ret i32 0
guard:
{word("%watch", "jump", _JUMP)}
  %outer = load ptr, ptr %jump.at
  store ptr %outer, ptr %kept
  store ptr %jump, ptr %jump.at
  %jumped = call i32 @_setjmp(ptr %jump) returns_twice
  %early = icmp ne i32 %jumped, 0
  br i1 %early, label %done, label %run
run:
  call void %function(ptr %argument)
  br label %done
done:
  %back = load ptr, ptr %kept
  store ptr %back, ptr %jump.at
  ret i32 %jumped
}}

; End what the watch guards.
define void @watch_jump(ptr %watch) nounwind noreturn {{
{word("%watch", "jump", _JUMP)}
  %jump = load ptr, ptr %jump.at
  call void @_longjmp(ptr %jump, i32 1)
  unreachable
}}

; What programs call: returns if they are to go on. Workers, which have no state of Python's, only
; look whether to stop.
define void @hlo.poll() nounwind {{
entry:
  %time = alloca {{ i64, i64 }}
  %watch = call ptr @watch_here()
  %none = icmp eq ptr %watch, null
  br i1 %none, label %go, label %look
look:
{word("%watch", "stop", STOP)}
{word("%watch", "state", _STATE)}
{word("%watch", "next", _NEXT)}
{word("%watch", "status", _STATUS)}
{word("%watch", "deadline", DEADLINE)}
  %stop = load ptr, ptr %stop.at
  %unstoppable = icmp eq ptr %stop, null
  br i1 %unstoppable, label %own, label %ask
ask:
  %stopped = load atomic i64, ptr %stop seq_cst, align 8
  %on = icmp eq i64 %stopped, 0
  br i1 %on, label %own, label %end
own:
  %state = load ptr, ptr %state.at
  %works = icmp eq ptr %state, null
  br i1 %works, label %go, label %clock
clock:
  %told = call i32 @clock_gettime(i32 {_CLOCK}, ptr %time)
  %seconds = load i64, ptr %time
  %nano.at = getelementptr i64, ptr %time, i64 1
  %nano = load i64, ptr %nano.at
  %whole = mul i64 %seconds, 1000
  %part = sdiv i64 %nano, 1000000
  %now = add i64 %whole, %part
  %following = add i64 %now, {_INTERVAL_MS}
  %next = load i64, ptr %next.at
  %first = icmp eq i64 %next, 0
  br i1 %first, label %begin, label %wait
begin:
  store i64 %following, ptr %next.at
  br label %late
wait:
  %due = icmp sge i64 %now, %next
  br i1 %due, label %python, label %late
python:
  store i64 %following, ptr %next.at
  %self = call i64 @pthread_self()
  %main = load i64, ptr @watch_main_thread
  %is.main = icmp eq i64 %self, %main
  br i1 %is.main, label %signals, label %late
signals:
  call void @PyEval_RestoreThread(ptr %state)
  %raised = call i32 @PyErr_CheckSignals()
  %saved = call ptr @PyEval_SaveThread()
  store ptr %saved, ptr %state.at
  %fine = icmp eq i32 %raised, 0
  br i1 %fine, label %late, label %end
late:
  %deadline = load i64, ptr %deadline.at
  %some = icmp ne i64 %deadline, 0
  %past = icmp sge i64 %now, %deadline
  %over = and i1 %some, %past
  br i1 %over, label %end, label %go
end:
  %why = phi i64
    [ {Ended.STOPPED:d}, %ask ], [ {Ended.RAISED:d}, %signals ], [ {Ended.LATE:d}, %late ]
  store i64 %why, ptr %status.at
  call void @watch_jump(ptr %watch)
  unreachable
go:
  ret void
}}
"""

# A kernel that one thread runs alone, chunk by chunk.
_ALONE = """
define void @hlo.alone(ptr %task, ptr %context, i64 %n, i64 %piece) nounwind {
entry:
  br label %next
next:
  %begin = phi i64 [ 0, %entry ], [ %end, %share ]
  %left = sub i64 %n, %begin
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %share, label %done
share:
  %last = icmp sle i64 %left, %piece
  %count = select i1 %last, i64 %left, i64 %piece
  %end = add i64 %begin, %count
  call void %task(ptr %context, i64 %begin, i64 %end)
  call void @hlo.poll()
  br label %next
done:
  ret void
}
"""

IR = (_POSIX if os.name == "posix" else _PLAIN) + _ALONE
SYMBOLS: tuple[str, ...] = (
    "watch_call", "watch_run", "hlo.poll", "hlo.alone", "watch_here", "watch_guard", "watch_jump"
)  # fmt: skip
if os.name == "posix":
    SYMBOLS += ("watch_start", "watch_main_thread")
# The functions that programs call.
CALLED = ("hlo.poll", "hlo.alone")
