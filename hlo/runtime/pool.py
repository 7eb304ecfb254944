"""A small pool of native threads.

Compiled programs know nothing of threads: their entry takes null or a `Threads` pair, a function
and its state, and calls it to run `task(context, begin, end)` over [0, n) in chunks. This is that
function, in LLVM IR so that no compiler is needed where the package is installed.

A job is open while its generation is odd. Chunks are distributed by an atomic counter; the
assignment of chunks to threads never affects a result, because every chunk writes memory of its
own. A worker joins a job by incrementing the count of active workers and then checking that the
job is still open; the caller works too, closes the job when no chunk is left, and waits for the
active workers. So it never waits for one that sleeps or has not been scheduled. An idle worker
spins for some microseconds, then sleeps on a condition variable. If the pool is busy with another
call, the caller does its work alone, so that calls from several Python threads neither wait nor
interfere.

A caller that has to stop (see `hlo.runtime.watch`) tells the workers, which check between chunks
and where their code polls, and returns when the last one has stopped.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from hlo.runtime.jit import Machine
from hlo.runtime.watch import STOP, WORDS, word

# Offsets in bytes into a pool's state. Fields that different threads write are on cache lines of
# their own.
_BUSY, _TASK, _CONTEXT, _N, _CHUNK = 0, 8, 16, 24, 32
_NEXT, _GENERATION, _ACTIVE, _SLEEPERS, _MUTEX, _CONDITION, _STOP = 64, 128, 192, 256, 320, 448, 576
_STATE_BYTES = 640
# Iterations of a spin loop, of about 20 nanoseconds each: of a worker before it sleeps, and of
# the caller between two yields of its processor.
_SPINS, _PATIENCE = 4000, 500
# Chunks that a caller without workers runs at once.
_PIECE = 16

# The pause instruction of a spin loop.
PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}

_IR = f"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
DECLARE_PAUSE

; Run shares until none is left.
define internal void @work(ptr %pool) nounwind {{
entry:
  %task.at = getelementptr i8, ptr %pool, i64 {_TASK}
  %context.at = getelementptr i8, ptr %pool, i64 {_CONTEXT}
  %n.at = getelementptr i8, ptr %pool, i64 {_N}
  %chunk.at = getelementptr i8, ptr %pool, i64 {_CHUNK}
  %next.at = getelementptr i8, ptr %pool, i64 {_NEXT}
  %task = load ptr, ptr %task.at
  %context = load ptr, ptr %context.at
  %n = load i64, ptr %n.at
  %chunk = load i64, ptr %chunk.at
  br label %take
take:
  %begin = atomicrmw add ptr %next.at, i64 %chunk monotonic
  %some = icmp slt i64 %begin, %n
  br i1 %some, label %share, label %done
share:
  %left = sub i64 %n, %begin
  %last = icmp sle i64 %left, %chunk
  %count = select i1 %last, i64 %left, i64 %chunk
  %end = add i64 %begin, %count
  call void %task(ptr %context, i64 %begin, i64 %end)
  call void @hlo.poll()
  br label %take
done:
  ret void
}}

; `hlo.poll`, as what a guard takes.
define internal void @look(ptr %pool) nounwind {{
  call void @hlo.poll()
  ret void
}}

define internal ptr @worker(ptr %pool) nounwind {{
entry:
  %watch = alloca [{WORDS} x i64]
  store [{WORDS} x i64] zeroinitializer, ptr %watch
{word("%watch", "stop", STOP)}
  %stop = getelementptr i8, ptr %pool, i64 {_STOP}
  store ptr %stop, ptr %stop.at
  call void @watch_set(ptr %watch)
  %generation.at = getelementptr i8, ptr %pool, i64 {_GENERATION}
  %active.at = getelementptr i8, ptr %pool, i64 {_ACTIVE}
  %sleepers.at = getelementptr i8, ptr %pool, i64 {_SLEEPERS}
  %mutex = getelementptr i8, ptr %pool, i64 {_MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 {_CONDITION}
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %job, %leave ]
  br label %spin
spin:
  %turn = phi i32 [ 0, %idle ], [ %turns, %again ]
  %now = load atomic i64, ptr %generation.at seq_cst, align 8
  %now.odd = trunc i64 %now to i1
  %now.new = icmp ne i64 %now, %seen
  %now.open = and i1 %now.odd, %now.new
  br i1 %now.open, label %join, label %again
again:
  PAUSE
  %turns = add i32 %turn, 1
  %tired = icmp ugt i32 %turns, {_SPINS}
  br i1 %tired, label %sleep, label %spin
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %slept = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  br label %check
check:
  %state = load atomic i64, ptr %generation.at seq_cst, align 8
  %state.odd = trunc i64 %state to i1
  %state.new = icmp ne i64 %state, %seen
  %state.open = and i1 %state.odd, %state.new
  br i1 %state.open, label %wake, label %wait
wait:
  %waited = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
wake:
  %woken = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %join
join:
  %job = phi i64 [ %now, %spin ], [ %state, %wake ]
  %joined = atomicrmw add ptr %active.at, i64 1 seq_cst
  %current = load atomic i64, ptr %generation.at seq_cst, align 8
  %open = icmp eq i64 %current, %job
  br i1 %open, label %run, label %leave
run:
  %jumped = call i32 @watch_guard(ptr %watch, ptr @work, ptr %pool)
  br label %leave
leave:
  %left = atomicrmw sub ptr %active.at, i64 1 seq_cst
  br label %idle
}}

; Start the workers of a zeroed pool; returns how many could be started.
define i64 @pool_start(ptr %pool, i64 %workers) nounwind {{
entry:
  %thread = alloca i64
  %mutex = getelementptr i8, ptr %pool, i64 {_MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 {_CONDITION}
  %mutex.made = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %condition.made = call i32 @pthread_cond_init(ptr %condition, ptr null)
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %j, %started ]
  %more = icmp slt i64 %i, %workers
  br i1 %more, label %start, label %done
start:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %pool)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %started, label %done
started:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  %j = add i64 %i, 1
  br label %next
done:
  ret i64 %i
}}

; The function that compiled programs call.
define void @pool_run(ptr %pool, ptr %task, ptr %context, i64 %n, i64 %chunk) nounwind {{
entry:
  %busy = cmpxchg ptr %pool, i64 0, i64 1 seq_cst monotonic
  %mine = extractvalue {{ i64, i1 }} %busy, 1
  br i1 %mine, label %share, label %alone
alone:
  %piece = mul i64 %chunk, {_PIECE}
  call void @hlo.alone(ptr %task, ptr %context, i64 %n, i64 %piece)
  ret void
share:
  %watch = call ptr @watch_here()
  %task.at = getelementptr i8, ptr %pool, i64 {_TASK}
  %context.at = getelementptr i8, ptr %pool, i64 {_CONTEXT}
  %n.at = getelementptr i8, ptr %pool, i64 {_N}
  %chunk.at = getelementptr i8, ptr %pool, i64 {_CHUNK}
  %next.at = getelementptr i8, ptr %pool, i64 {_NEXT}
  %generation.at = getelementptr i8, ptr %pool, i64 {_GENERATION}
  %active.at = getelementptr i8, ptr %pool, i64 {_ACTIVE}
  %sleepers.at = getelementptr i8, ptr %pool, i64 {_SLEEPERS}
  %mutex = getelementptr i8, ptr %pool, i64 {_MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 {_CONDITION}
  %stop.at = getelementptr i8, ptr %pool, i64 {_STOP}
  store ptr %task, ptr %task.at
  store ptr %context, ptr %context.at
  store i64 %n, ptr %n.at
  store i64 %chunk, ptr %chunk.at
  store atomic i64 0, ptr %next.at monotonic, align 8
  %opened = atomicrmw add ptr %generation.at, i64 1 seq_cst
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %help
help:
  %early = call i32 @watch_guard(ptr %watch, ptr @work, ptr %pool)
  %early.stop = sext i32 %early to i64
  store atomic i64 %early.stop, ptr %stop.at seq_cst, align 8
  %closed = atomicrmw add ptr %generation.at, i64 1 seq_cst
  br label %wait
wait:
  %turn = phi i32 [ 0, %help ], [ %turns, %again ], [ 0, %yield ]
  %active = load atomic i64, ptr %active.at seq_cst, align 8
  %finished = icmp eq i64 %active, 0
  br i1 %finished, label %done, label %again
again:
  PAUSE
  %turns = add i32 %turn, 1
  %tired = icmp ugt i32 %turns, {_PATIENCE}
  br i1 %tired, label %rest, label %wait
rest:
  %yielded = call i32 @sched_yield()
  %stopping = load atomic i64, ptr %stop.at seq_cst, align 8
  %going = icmp eq i64 %stopping, 0
  br i1 %going, label %look, label %yield
look:
  %late = call i32 @watch_guard(ptr %watch, ptr @look, ptr %pool)
  %late.stop = sext i32 %late to i64
  store atomic i64 %late.stop, ptr %stop.at seq_cst, align 8
  br label %yield
yield:
  br label %wait
done:
  %stopped = load atomic i64, ptr %stop.at seq_cst, align 8
  store atomic i64 0, ptr %stop.at seq_cst, align 8
  store atomic i64 0, ptr %pool release, align 8
  %fine = icmp eq i64 %stopped, 0
  br i1 %fine, label %end, label %jump
jump:
  call void @watch_jump(ptr %watch)
  unreachable
end:
  ret void
}}
"""


def pool_ir(machine: Machine) -> str:
    """Return the pool's functions, `pool_start` and `pool_run`, with those of `watch`."""
    declare, pause = PAUSE.get(machine.triple.split("-")[0], ("", ""))
    return _IR.replace("DECLARE_PAUSE", declare).replace("PAUSE", pause)


class Pool:
    """A number of threads, the caller's included, that live as long as the process."""

    def __init__(self, threads: int, addresses: Mapping[str, int]) -> None:
        self._threads = threads
        self._addresses = addresses
        # Zero until the threads are started.
        self._handle = ctypes.c_size_t()
        self._lock = threading.Lock()

    @property
    def handle(self) -> int:
        """What an entry takes as its threads: the address of their `Threads` pair."""
        if not self._handle.value:
            with self._lock:
                if not self._handle.value:
                    self._start()
        return self._handle.value

    @property
    def handle_at(self) -> int:
        """The address of the handle, which is zero while the threads are not started."""
        return ctypes.addressof(self._handle)

    def _start(self) -> None:
        # Workers use their state for as long as the process runs: never freed.
        state = _forever(_STATE_BYTES)
        pair = ctypes.c_void_p * 2
        handle = _forever(ctypes.sizeof(pair))
        pair.from_address(handle)[:] = [self._addresses["pool_run"], state]
        start = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        start(self._addresses["pool_start"])(state, self._threads - 1)
        self._handle.value = handle

    def forget(self) -> None:
        """Start anew on next use: a forked process has the memory of the pool but no threads."""
        self._handle.value = 0
        self._lock = threading.Lock()


def _forever(size_bytes: int) -> int:
    """Return the address of zeroed, aligned memory that is never freed."""
    raw = (ctypes.c_char * (size_bytes + 64))()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))
    address = ctypes.addressof(raw)
    return address + -address % 64


_pools: dict[int, Pool] = {}


def pool_of(threads: int, addresses: Mapping[str, int]) -> Pool | None:
    """Return the pool with this many threads, the caller's included; None for one.

    addresses: of `pool_run` and `pool_start`. There is no pool where the system has no POSIX
    threads.
    """
    if threads < 2 or "pool_start" not in addresses:
        return None
    return _pools.setdefault(threads, Pool(threads, addresses))


def _after_fork() -> None:
    for pool in _pools.values():
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def default_threads() -> int:
    """Return the number of processors this process may use: those of its affinity and its quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, _quota()))


@cache
def _quota() -> int:
    """Return the number of processors that the control group of this process may use."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):  # no control group, or none that limits processors
        return sys.maxsize
    return sys.maxsize if quota == "max" else int(quota) // int(period)
