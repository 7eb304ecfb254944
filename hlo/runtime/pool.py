"""A small pool of native threads.

Compiled programs know nothing of threads: their entry takes null or a `Threads` pair, a function
and its state, and calls it to run `task(context, begin, end)` over [0, n) in shares. This is that
function, in LLVM IR so that no compiler is needed where the package is installed.

Shares are handed out by an atomic counter; which thread runs which share never shows in a result,
because every share writes memory of its own. A worker that finds nothing to do spins for some
microseconds, then sleeps on a condition variable. A pool that is busy with another call lets the
caller do its work alone, so that calls from several Python threads neither wait nor interfere.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from hlo.runtime.jit import NativeCode, to_object

# Offsets in bytes into a pool's state. Fields that different threads write are on cache lines of
# their own.
_BUSY, _TASK, _CONTEXT, _N, _CHUNK, _WORKERS = 0, 8, 16, 24, 32, 40
_NEXT, _GENERATION, _REMAINING, _SLEEPERS, _MUTEX, _CONDITION = 64, 128, 192, 256, 320, 448
_STATE_BYTES = 576
# Iterations of the waiting loop before a worker sleeps: of the order of 50 microseconds.
_SPINS = 2000

_IR = f"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

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
  %begin = atomicrmw add ptr %next.at, i64 %chunk acq_rel
  %some = icmp slt i64 %begin, %n
  br i1 %some, label %share, label %done
share:
  %limit = add i64 %begin, %chunk
  %over = icmp sgt i64 %limit, %n
  %end = select i1 %over, i64 %n, i64 %limit
  call void %task(ptr %context, i64 %begin, i64 %end)
  br label %take
done:
  ret void
}}

define internal ptr @worker(ptr %pool) nounwind {{
entry:
  %generation.at = getelementptr i8, ptr %pool, i64 {_GENERATION}
  %remaining.at = getelementptr i8, ptr %pool, i64 {_REMAINING}
  %sleepers.at = getelementptr i8, ptr %pool, i64 {_SLEEPERS}
  %mutex = getelementptr i8, ptr %pool, i64 {_MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 {_CONDITION}
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %found, %run ]
  br label %spin
spin:
  %count = phi i32 [ 0, %idle ], [ %more, %again ]
  %now = load atomic i32, ptr %generation.at acquire, align 4
  %fresh = icmp ne i32 %now, %seen
  br i1 %fresh, label %run.spun, label %again
again:
  %more = add i32 %count, 1
  %yielded = call i32 @sched_yield()
  %tired = icmp ugt i32 %more, {_SPINS}
  br i1 %tired, label %sleep, label %spin
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %joined = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  br label %check
check:
  %state = load atomic i32, ptr %generation.at seq_cst, align 4
  %changed = icmp ne i32 %state, %seen
  br i1 %changed, label %wake, label %wait
wait:
  %waited = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
wake:
  %left = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %run
run.spun:
  br label %run
run:
  %found = phi i32 [ %now, %run.spun ], [ %state, %wake ]
  call void @work(ptr %pool)
  %rest = atomicrmw sub ptr %remaining.at, i32 1 acq_rel
  br label %idle
}}

; Start the workers of a zeroed pool; returns how many could be started.
define i64 @pool_start(ptr %pool, i64 %workers) nounwind {{
entry:
  %thread = alloca i64
  %workers.at = getelementptr i8, ptr %pool, i64 {_WORKERS}
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
  %have = phi i64 [ %i, %next ], [ %i, %start ]
  store i64 %have, ptr %workers.at
  ret i64 %have
}}

; The function that compiled programs call.
define void @pool_run(ptr %pool, ptr %task, ptr %context, i64 %n, i64 %chunk) nounwind {{
entry:
  %taken = cmpxchg ptr %pool, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %mine, label %share, label %alone
alone:
  call void %task(ptr %context, i64 0, i64 %n)
  ret void
share:
  %task.at = getelementptr i8, ptr %pool, i64 {_TASK}
  %context.at = getelementptr i8, ptr %pool, i64 {_CONTEXT}
  %n.at = getelementptr i8, ptr %pool, i64 {_N}
  %chunk.at = getelementptr i8, ptr %pool, i64 {_CHUNK}
  %workers.at = getelementptr i8, ptr %pool, i64 {_WORKERS}
  %next.at = getelementptr i8, ptr %pool, i64 {_NEXT}
  %generation.at = getelementptr i8, ptr %pool, i64 {_GENERATION}
  %remaining.at = getelementptr i8, ptr %pool, i64 {_REMAINING}
  %sleepers.at = getelementptr i8, ptr %pool, i64 {_SLEEPERS}
  %mutex = getelementptr i8, ptr %pool, i64 {_MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 {_CONDITION}
  store ptr %task, ptr %task.at
  store ptr %context, ptr %context.at
  store i64 %n, ptr %n.at
  store i64 %chunk, ptr %chunk.at
  store i64 0, ptr %next.at
  %workers = load i64, ptr %workers.at
  %workers32 = trunc i64 %workers to i32
  store atomic i32 %workers32, ptr %remaining.at release, align 4
  %generation = atomicrmw add ptr %generation.at, i32 1 seq_cst
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %help
help:
  call void @work(ptr %pool)
  br label %wait
wait:
  %left = load atomic i32, ptr %remaining.at acquire, align 4
  %finished = icmp eq i32 %left, 0
  br i1 %finished, label %done, label %yield
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
done:
  store atomic i64 0, ptr %pool release, align 8
  ret void
}}
"""


class Pool:
    """Threads that stay for the life of the process. `handle` is what an entry takes."""

    def __init__(self, workers: int) -> None:
        self._code = NativeCode(to_object(_IR), "pool_run", "pool_start")
        raw = (ctypes.c_char * (_STATE_BYTES + 64))()
        address = ctypes.addressof(raw)
        state = address + -address % 64
        start = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(
            self._code.addresses["pool_start"]
        )
        start(state, workers)
        self._pair = (ctypes.c_void_p * 2)(self._code.addresses["pool_run"], state)
        self._keep = raw
        self.handle = ctypes.addressof(self._pair)


@cache
def pool_of(threads: int) -> int | None:
    """Return the handle of a pool of so many threads, the caller's included; None for one."""
    return None if threads <= 1 else _keep(Pool(threads - 1))


# Workers hold the addresses of their pool for as long as the process runs.
_POOLS: list[Pool] = []


def _keep(pool: Pool) -> int:
    _POOLS.append(pool)
    return pool.handle


def default_threads() -> int:
    """Return the number of processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
