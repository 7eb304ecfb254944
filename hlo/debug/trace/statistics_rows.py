"""Rows of statistics, which native code writes, and what they say.

A row has eight words:

    key of the least and of the greatest finite element, sum of these as a double,
    counts of NaN, infinities, zeros and denormals, and of all elements

A key is an integer that orders elements as they are: of an integer itself; of a float its bits,
with those below the sign inverted where it is negative. Narrower floats have the keys of f32.
"""

from __future__ import annotations

import functools
import struct

import numpy as np

from hlo.values.types import ElementType

# Words of a row.
ROW = 8
# The least and the greatest key: what an empty minimum and maximum are.
LEAST, GREATEST = -(2**63), 2**63 - 1

_ROWS = """
@hlo_trace_state = external global [2 x i64]
@hlo_trace_events = external global i64
declare void @hlo_trace_flush()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)

define internal void @clear(ptr %row) alwaysinline {{
  store i64 9223372036854775807, ptr %row
  %a = getelementptr i64, ptr %row, i64 1
  store i64 -9223372036854775808, ptr %a
  %b = getelementptr i64, ptr %row, i64 2
  store double 0.0, ptr %b
  %c = getelementptr i64, ptr %row, i64 3
  store i64 0, ptr %c
  %d = getelementptr i64, ptr %row, i64 4
  store i64 0, ptr %d
  %e = getelementptr i64, ptr %row, i64 5
  store i64 0, ptr %e
  %f = getelementptr i64, ptr %row, i64 6
  store i64 0, ptr %f
  %g = getelementptr i64, ptr %row, i64 7
  store i64 0, ptr %g
  ret void
}}

define internal void @join(ptr %row, i64 %low, i64 %high, double %sum, 
    i64 %nan, i64 %inf, i64 %zero, i64 %small, i64 %n) alwaysinline {{
  %low0 = load i64, ptr %row
  %low1 = call i64 @llvm.smin.i64(i64 %low0, i64 %low)
  store i64 %low1, ptr %row
  %a = getelementptr i64, ptr %row, i64 1
  %high0 = load i64, ptr %a
  %high1 = call i64 @llvm.smax.i64(i64 %high0, i64 %high)
  store i64 %high1, ptr %a
  %b = getelementptr i64, ptr %row, i64 2
  %sum0 = load double, ptr %b
  %sum1 = fadd double %sum0, %sum
  store double %sum1, ptr %b
  %c = getelementptr i64, ptr %row, i64 3
  %nan0 = load i64, ptr %c
  %nan1 = add i64 %nan0, %nan
  store i64 %nan1, ptr %c
  %d = getelementptr i64, ptr %row, i64 4
  %inf0 = load i64, ptr %d
  %inf1 = add i64 %inf0, %inf
  store i64 %inf1, ptr %d
  %e = getelementptr i64, ptr %row, i64 5
  %zero0 = load i64, ptr %e
  %zero1 = add i64 %zero0, %zero
  store i64 %zero1, ptr %e
  %f = getelementptr i64, ptr %row, i64 6
  %small0 = load i64, ptr %f
  %small1 = add i64 %small0, %small
  store i64 %small1, ptr %f
  %g = getelementptr i64, ptr %row, i64 7
  %n0 = load i64, ptr %g
  %n1 = add i64 %n0, %n
  store i64 %n1, ptr %g
  ret void
}}

define internal void @append(i64 %id, ptr %row) alwaysinline {{
  %at = load i64, ptr @hlo_trace_state
  %event = getelementptr i64, ptr @hlo_trace_events, i64 %at
  store i64 %id, ptr %event
  %to = getelementptr i64, ptr %event, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %row, i64 {row}8, i1 false)
  %loops = getelementptr i64, ptr %event, i64 {row1}
  call void @llvm.memcpy.p0.p0.i64(ptr %loops, ptr @hlo_trace_active, i64 {depth_bytes}, i1 false)
  %next = add i64 %at, {words}
  store i64 %next, ptr @hlo_trace_state
  %limit.at = getelementptr i64, ptr @hlo_trace_state, i64 1
  %limit = load i64, ptr %limit.at
  %full = icmp sge i64 %next, %limit
  br i1 %full, label %flush, label %done
flush:
  call void @hlo_trace_flush()
  br label %done
done:
  ret void
}}
""".replace("{row}8", str(8 * ROW)).replace("{row1}", str(1 + ROW))


def rows_ir(depth: int) -> str:
    """Return functions that write rows, and append them to the events. depth: of nested loops."""
    return _ROWS.format(words=1 + ROW + depth, row=ROW, depth_bytes=8 * depth)


def is_whole(et: ElementType) -> bool:
    """True for integers whose keys are themselves."""
    return et.is_pred or (et.is_integer and et.bits >= 8)


def values_of_keys(et: ElementType, keys: np.ndarray) -> list[float | int | None]:
    """Return the elements with these keys, None for those of empty minima and maxima."""
    if is_whole(et):
        shift = 2**63 if et.bits == 64 and not et.is_signed else 0
        return [int(k) + shift for k in keys]
    bits, least = (64, LEAST) if et.name == "f64" else (32, -(2**31))
    found: list[float | int | None] = []
    for key in map(int, keys):
        if key in (least, -least - 1):
            found.append(None)
            continue
        number = key if key >= 0 else key ^ (2 ** (bits - 1) - 1)
        value = _number(number, bits)
        found.append(int(value) if et.is_integer else value + 0.0)
    return found


@functools.cache
def _number(number: int, bits: int) -> float:
    codes = ("<i", "<f") if bits == 32 else ("<q", "<d")
    return float(struct.unpack(codes[1], struct.pack(codes[0], number))[0])
