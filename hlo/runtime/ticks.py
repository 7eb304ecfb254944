"""The clock of native code that is measured: the processor's counter, and what its ticks last.

These counters run at one rate on all processors of a machine, whatever their frequency, and take
some nanoseconds to read. Where there is none that programs may read it is the system's monotonic
clock, in nanoseconds.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hlo.runtime.jit import Machine, NativeCode, host_machine

# How long two readings of both clocks have to be apart to tell the rate.
_CALIBRATION_S = 0.02
_TRIALS = 5

# What reads the counter, by architecture: of AArch64 the one of cycles is not for programs.
_COUNTERS = {
    "x86_64": "@llvm.readcyclecounter()",
    "aarch64": "@llvm.read_volatile_register.i64(metadata !0)",
    "powerpc64le": "@llvm.readcyclecounter()",
}
_COUNTER = """
declare i64 @llvm.readcyclecounter()
declare i64 @llvm.read_volatile_register.i64(metadata)
!0 = !{!"cntvct_el0"}

define internal i64 @ticks() alwaysinline nounwind {
  %ticks = call i64 READ
  ret i64 %ticks
}
"""
_CLOCK = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @ticks() alwaysinline nounwind {
  %time = alloca { i64, i64 }
  %told = call i32 @clock_gettime(i32 CLOCK, ptr %time)
  %seconds = load i64, ptr %time
  %nano.at = getelementptr i64, ptr %time, i64 1
  %nano = load i64, ptr %nano.at
  %whole = mul i64 %seconds, 1000000000
  %ticks = add i64 %whole, %nano
  ret i64 %ticks
}
"""


def ticks_ir(triple: str) -> str:
    """Return the function `ticks`, which reads the counter of a machine."""
    architecture = triple.split("-")[0]
    if architecture not in _COUNTERS or (architecture == "x86_64" and not _is_steady()):
        return _CLOCK.replace("CLOCK", str(getattr(time, "CLOCK_MONOTONIC", 1)))
    return _COUNTER.replace("READ", _COUNTERS[architecture])


@cache
def _is_steady() -> bool:
    """Return whether the counter of this processor runs at one rate, also while it is idle."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:  # no such file: any x86 of this century's second decade
        return True
    return "constant_tsc" in flags or "flags" not in flags


@dataclass(frozen=True)
class Reading:
    """Both clocks at one moment: the counter, and seconds of `time.perf_counter`."""

    ticks: int
    seconds: float


class Ticker:
    """Reads the counter, and tells what a tick is."""

    def __init__(self, machine: Machine) -> None:
        text = ticks_ir(machine.triple) + (
            "define i64 @read_ticks() nounwind {\n  %now = call i64 @ticks()\n  ret i64 %now\n}\n"
        )
        code = machine.object_code(machine.optimize(text))
        self._code = NativeCode([code], "read_ticks")
        # Without the lock released, which would take longer than reading.
        self._read = ctypes.PYFUNCTYPE(ctypes.c_int64)(self._code.addresses["read_ticks"])
        self._first = self.read()

    def read(self) -> Reading:
        """Return both clocks, read as close to each other as they can be."""
        best, least = Reading(0, 0.0), float("inf")
        for _ in range(_TRIALS):
            before = time.perf_counter()
            ticks = self._read()
            after = time.perf_counter()
            if after - before < least:
                best, least = Reading(ticks, (before + after) / 2), after - before
        return best

    @property
    def seconds_per_tick(self) -> float:
        """What a tick lasts, the better known the longer this object has lived."""
        now = self.read()
        missing = _CALIBRATION_S - (now.seconds - self._first.seconds)
        if missing > 0:
            time.sleep(missing)
            now = self.read()
        return (now.seconds - self._first.seconds) / max(1, now.ticks - self._first.ticks)


@cache
def ticker() -> Ticker:
    """Return the clock of this processor."""
    return Ticker(host_machine())
