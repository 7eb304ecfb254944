"""Statistics of arrays in native code: functions in LLVM IR, one for each element type.

`hlo_trace_T(ptr data, i64 n, i64 id, ptr threads)` reads n elements once and appends an event: the
id, the eight words of a row, and the iterations of the loops that are running. A row has:

    key of the least and of the greatest finite element, sum of these as a double,
    counts of NaN, infinities, zeros and denormals, and n

A key is an integer that orders elements as they are: of an integer itself; of a float its bits,
with those below the sign inverted where it is negative, so that minima are vectorized as those of
integers. Narrower floats are converted to f32 first, of a byte or less by a table. Large arrays are
shared among the threads of the program, each chunk with a row of its own.
"""

from __future__ import annotations

import functools
import struct

import ml_dtypes
import numpy as np

from hlo.debug.trace.loop_counters import LOOPS_IR
from hlo.values.types import ElementType

# Words of a row.
ROW = 8
# Larger arrays are shared among threads, in at most so many chunks.
_SHARED_ELEMENTS = 1 << 16
_CHUNKS = 32
# Counters inside of a loop over so many elements take 32 bits.
_BLOCK = 1 << 14


def function_name(et: ElementType) -> str:
    """Return the name of the function for an element type; a complex one is two of its parts."""
    return f"hlo_trace_{et.name}"


def statistics_ir(types: list[ElementType], depth: int) -> str:
    """Return the functions for element types. depth: how deep loops are nested."""
    parts = [LOOPS_IR, _COMMON.format(words=1 + ROW + depth, row=ROW, depth_bytes=8 * depth)]
    for et in types:
        parts.append(_function(et))
    return "\n".join(parts)


# The least and the greatest key: what an empty minimum and maximum are.
_LEAST, _GREATEST = -(2**63), 2**63 - 1

_COMMON = """
@hlo_trace_state = external global [2 x i64]
@hlo_trace_events = external global i64
declare void @hlo_trace_flush()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)

define internal void @clear(ptr %row) {{
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
    i64 %nan, i64 %inf, i64 %zero, i64 %small, i64 %n) {{
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

define internal void @append(i64 %id, ptr %row) {{
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

# Sums up a row over elements [begin, end), a block at a time.
_FUNCTION = """
define internal void @NAME_part(ptr noalias %data, i64 %begin, i64 %end, ptr noalias %row) {
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %block, label %done
block:
  %from = phi i64 [ %begin, %entry ], [ %to, %joined ]
  %rest = sub i64 %end, %from
  %least = call i64 @llvm.smin.i64(i64 %rest, i64 BLOCK)
  %to = add i64 %from, %least
  br label %loop
loop:
  %i = phi i64 [ %from, %block ], [ %i.next, %loop ]
  %low = phi KEY [ GREATEST, %block ], [ %low.next, %loop ]
  %high = phi KEY [ LEAST, %block ], [ %high.next, %loop ]
  %sum = phi double [ 0.0, %block ], [ %sum.next, %loop ]
  %nan = phi i32 [ 0, %block ], [ %nan.next, %loop ]
  %inf = phi i32 [ 0, %block ], [ %inf.next, %loop ]
  %zero = phi i32 [ 0, %block ], [ %zero.next, %loop ]
  %small = phi i32 [ 0, %block ], [ %small.next, %loop ]
BODY
  %sum.next = fadd reassoc double %sum, %value
  %zero.one = zext i1 %is.zero to i32
  %zero.next = add i32 %zero, %zero.one
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %to
  br i1 %more, label %loop, label %joined
joined:
  EXTEND
  %nans = zext i32 %nan.next to i64
  %infs = zext i32 %inf.next to i64
  %zeros = zext i32 %zero.next to i64
  %smalls = zext i32 %small.next to i64
  call void @join(ptr %row, i64 %low.wide, i64 %high.wide, double %sum.next,
    i64 %nans, i64 %infs, i64 %zeros, i64 %smalls, i64 %least)
  %again = icmp slt i64 %to, %end
  br i1 %again, label %block, label %done
done:
  ret void
}

define internal void @NAME_task(ptr %context, i64 %begin, i64 %end) {
  %data = load ptr, ptr %context
  %rows.at = getelementptr ptr, ptr %context, i64 1
  %rows = load ptr, ptr %rows.at
  %chunk.at = getelementptr ptr, ptr %context, i64 2
  %chunk = load i64, ptr %chunk.at
  %number = udiv i64 %begin, %chunk
  %row = getelementptr [ROW x i64], ptr %rows, i64 %number
  call void @NAME_part(ptr %data, i64 %begin, i64 %end, ptr %row)
  ret void
}

define void @NAME(ptr %data, i64 %n, i64 %id, ptr %threads) {
entry:
  %row = alloca [ROW x i64]
  %rows = alloca [CHUNKS x [ROW x i64]]
  %context = alloca { ptr, ptr, i64 }
  call void @clear(ptr %row)
  %many = icmp sge i64 %n, SHARED
  %some = icmp ne ptr %threads, null
  %shared = and i1 %many, %some
  br i1 %shared, label %share, label %alone
alone:
  call void @NAME_part(ptr %data, i64 0, i64 %n, ptr %row)
  br label %done
share:
  %up = add i64 %n, LESS
  %chunk = udiv i64 %up, CHUNKS
  store ptr %data, ptr %context
  %rows.at = getelementptr ptr, ptr %context, i64 1
  store ptr %rows, ptr %rows.at
  %chunk.at = getelementptr ptr, ptr %context, i64 2
  store i64 %chunk, ptr %chunk.at
  br label %clears
clears:
  %c = phi i64 [ 0, %share ], [ %c.next, %clears ]
  %cleared = getelementptr [ROW x i64], ptr %rows, i64 %c
  call void @clear(ptr %cleared)
  %c.next = add i64 %c, 1
  %c.more = icmp slt i64 %c.next, CHUNKS
  br i1 %c.more, label %clears, label %run
run:
  %run.function = load ptr, ptr %threads
  %state.at = getelementptr { ptr, ptr }, ptr %threads, i64 0, i32 1
  %state = load ptr, ptr %state.at
  call void %run.function(ptr %state, ptr @NAME_task, ptr %context, i64 %n, i64 %chunk)
  br label %joins
joins:
  %j = phi i64 [ 0, %run ], [ %j.next, %joins ]
  %part = getelementptr [ROW x i64], ptr %rows, i64 %j
  LOADS
  call void @join(ptr %row, i64 %p0, i64 %p1, double %p2,
    i64 %p3, i64 %p4, i64 %p5, i64 %p6, i64 %p7)
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, CHUNKS
  br i1 %j.more, label %joins, label %done
done:
  call void @append(i64 %id, ptr %row)
  ret void
}
"""


def _function(et: ElementType) -> str:
    tables, body, key = _body(et)
    least, greatest = (-(2**31), 2**31 - 1) if key == "i32" else (_LEAST, _GREATEST)
    # An empty minimum stays one when it is widened.
    extend = "\n  ".join(
        [
            *(f"%{x}.wide = sext i32 %{x}.next to i64" for x in ("low", "high") if key == "i32"),
            *(f"%{x}.wide = add i64 %{x}.next, 0" for x in ("low", "high") if key == "i64"),
        ]
    )
    loads = []
    for n in range(ROW):
        kind = "double" if n == 2 else "i64"
        loads.append(f"%q{n} = getelementptr i64, ptr %part, i64 {n}")
        loads.append(f"%p{n} = load {kind}, ptr %q{n}")
    text = _FUNCTION.replace("BODY", body).replace("EXTEND", extend)
    for name, value in (
        ("LOADS", "\n  ".join(loads)), ("GREATEST", str(greatest)), ("LEAST", str(least)),
        ("KEY", key), ("BLOCK", str(_BLOCK)), ("ROW", str(ROW)), ("CHUNKS", str(_CHUNKS)),
        ("SHARED", str(_SHARED_ELEMENTS)), ("LESS", str(_CHUNKS - 1)), ("NAME", function_name(et)),
    ):  # fmt: skip
        text = text.replace(name, value)
    return tables + text


def _body(et: ElementType) -> tuple[str, str, str]:
    """Return the tables, the work on an element, and the type of keys, of an element type."""
    if is_whole(et):
        return "", _integer(et), "i64"
    if et.name == "f64":
        return "", _float("double", 64, "  %wide = load double, ptr %at", 2.0**-1022), "i64"
    smallest = float(ml_dtypes.finfo(et.dtype).smallest_normal) if et.is_float else 0.0
    tables = ""
    if et.name == "f32":
        load = "  %wide = load float, ptr %at"
        kind = "float"
    elif et.name == "f16":
        load = "  %narrow = load half, ptr %at\n  %wide = fpext half %narrow to float"
        kind = "half"
    elif et.name == "bf16":
        load = (
            "  %narrow = load i16, ptr %at\n  %longer = zext i16 %narrow to i32\n"
            "  %shifted = shl i32 %longer, 16\n  %wide = bitcast i32 %shifted to float"
        )
        kind = "i16"
    else:
        name = f"@table_{et.name}"
        values = np.arange(256, dtype=np.uint8).view(et.dtype).astype(np.float32).view(np.uint32)
        numbers = ", ".join(f"i32 {v}" for v in values)
        tables = f"{name} = internal constant [256 x i32] [{numbers}]\n"
        load = (
            "  %narrow = load i8, ptr %at\n  %number = zext i8 %narrow to i64\n"
            f"  %entry.at = getelementptr i32, ptr {name}, i64 %number\n"
            "  %wide = load float, ptr %entry.at"
        )
        kind = "i8"
    return tables, _float(kind, 32, load, smallest), "i32"


def is_whole(et: ElementType) -> bool:
    """True for integers whose keys are themselves."""
    return et.is_pred or (et.is_integer and et.bits >= 8)


def _integer(et: ElementType) -> str:
    bits = max(8, et.bits)
    if bits == 64:
        widen = "  %key = or i64 %x, 0"
    else:
        widen = f"  %key = {'sext' if et.is_signed else 'zext'} i{bits} %x to i64"
    # Unsigned numbers above the signed ones are inverted in their highest bit, to be ordered.
    is_u64 = bits == 64 and not et.is_signed
    order = "  %ordered = xor i64 %key, -9223372036854775808" if is_u64 else (
        "  %ordered = or i64 %key, 0"
    )  # fmt: skip
    return f"""  %at = getelementptr i{bits}, ptr %data, i64 %i
  %x = load i{bits}, ptr %at
{widen}
{order}
  %low.next = call i64 @llvm.smin.i64(i64 %low, i64 %ordered)
  %high.next = call i64 @llvm.smax.i64(i64 %high, i64 %ordered)
  %value = {"uitofp" if is_u64 else "sitofp"} i64 %key to double
  %is.zero = icmp eq i64 %key, 0
  %nan.next = add i32 %nan, 0
  %inf.next = add i32 %inf, 0
  %small.next = add i32 %small, 0"""


def _float(kind: str, bits: int, load: str, smallest: float) -> str:
    """Return the work on an element that was loaded as %wide: by its bits."""
    f, i = ("float", "i32") if bits == 32 else ("double", "i64")
    mask = 2 ** (bits - 1) - 1
    infinity = 0x7F800000 if bits == 32 else 0x7FF0000000000000
    code = "<f" if bits == 32 else "<d"
    (limit,) = struct.unpack("<I" if bits == 32 else "<Q", struct.pack(code, smallest))
    least, greatest = -(2 ** (bits - 1)), mask
    value = "  %value = fpext float %kept to double" if bits == 32 else (
        "  %value = fadd double %kept, -0.0"
    )  # fmt: skip
    return f"""  %at = getelementptr {kind}, ptr %data, i64 %i
{load}
  %bits = bitcast {f} %wide to {i}
  %size = and {i} %bits, {mask}
  %is.nan = icmp sgt {i} %size, {infinity}
  %is.inf = icmp eq {i} %size, {infinity}
  %is.zero = icmp eq {i} %size, 0
  %finite = icmp slt {i} %size, {infinity}
  %size.less = sub {i} %size, 1
  %is.small = icmp ult {i} %size.less, {max(0, limit - 1)}
  %sign = ashr {i} %bits, {bits - 1}
  %turn = and {i} %sign, {mask}
  %key = xor {i} %bits, %turn
  %low.key = select i1 %finite, {i} %key, {i} {greatest}
  %high.key = select i1 %finite, {i} %key, {i} {least}
  %low.next = call {i} @llvm.smin.{i}({i} %low, {i} %low.key)
  %high.next = call {i} @llvm.smax.{i}({i} %high, {i} %high.key)
  %kept = select i1 %finite, {f} %wide, {f} 0.0
{value}
  %nan.one = zext i1 %is.nan to i32
  %nan.next = add i32 %nan, %nan.one
  %inf.one = zext i1 %is.inf to i32
  %inf.next = add i32 %inf, %inf.one
  %small.one = zext i1 %is.small to i32
  %small.next = add i32 %small, %small.one"""


# --- reading rows ---------------------------------------------------------------------------------


def values_of_keys(et: ElementType, keys: np.ndarray) -> list[float | int | None]:
    """Return the elements with these keys, None for those of empty minima and maxima."""
    if is_whole(et):
        shift = 2**63 if et.bits == 64 and not et.is_signed else 0
        return [int(k) + shift for k in keys]
    bits, least = (64, _LEAST) if et.name == "f64" else (32, -(2**31))
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
