"""Statistics of arrays in native code: functions in LLVM IR, one for each element type.

`hlo_trace_T(ptr data, i64 n, i64 id, ptr threads)` reads n elements once and appends an event: the
id, the words of a row (`statistics_rows`), and the iterations of the loops that are running. Of one
element `hlo_trace_T_one(ptr data, i64 id)` does it in less time. Floats narrower than f32 are
converted to it, of a byte or less by a table. Large arrays are shared among the threads of the
program, each chunk with a row of its own.

Of floats a block of elements is read as if all were finite: few vector instructions do that, and
tell if it is so. A block that is not, which is in the cache by then, is read again element by
element, as integers are from the start.
"""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np

from hlo.debug.trace.loop_counters import LOOPS_IR
from hlo.debug.trace.statistics_rows import GREATEST, LEAST, ROW, is_whole, rows_ir
from hlo.values.types import ElementType

# Larger arrays are shared among threads, in at most so many chunks.
_SHARED_ELEMENTS = 1 << 16
_CHUNKS = 32
# A block: few enough for a sum in f32, of each lane of a vector, to lose nothing that is shown.
_BLOCK = 1 << 11


def function_name(et: ElementType) -> str:
    """Return the name of the function for an element type; a complex one is two of its parts."""
    return f"hlo_trace_{et.name}"


def statistics_ir(types: list[ElementType], depth: int) -> str:
    """Return the functions for element types. depth: how deep loops are nested."""
    parts = [LOOPS_IR, rows_ir(depth)]
    for et in types:
        parts.append(_function(et))
    return "\n".join(parts)


# The bits of an infinity.
_INFINITY = {32: 0x7F800000, 64: 0x7FF0000000000000}
# Adds elements [begin, end), a block at most, to a row, whatever they are.
_ANY = """
define internal void @NAME_any(ptr noalias %data, i64 %begin, i64 %end, ptr noalias %row)
    alwaysinline {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %loop ]
  %low = phi KEY [ GREATEST, %entry ], [ %low.next, %loop ]
  %high = phi KEY [ LEAST, %entry ], [ %high.next, %loop ]
  %sum = phi double [ 0.0, %entry ], [ %sum.next, %loop ]
  %nan = phi i32 [ 0, %entry ], [ %nan.next, %loop ]
  %inf = phi i32 [ 0, %entry ], [ %inf.next, %loop ]
  %zero = phi i32 [ 0, %entry ], [ %zero.next, %loop ]
  %small = phi i32 [ 0, %entry ], [ %small.next, %loop ]
BODY
  %sum.next = fadd reassoc double %sum, %value
  %zero.one = zext i1 %is.zero to i32
  %zero.next = add i32 %zero, %zero.one
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %end
  br i1 %more, label %loop, label %joined
joined:
  EXTEND
  %nans = zext i32 %nan.next to i64
  %infs = zext i32 %inf.next to i64
  %zeros = zext i32 %zero.next to i64
  %smalls = zext i32 %small.next to i64
  %n = sub i64 %end, %begin
  call void @join(ptr %row, i64 %low.wide, i64 %high.wide, double %sum.next,
    i64 %nans, i64 %infs, i64 %zeros, i64 %smalls, i64 %n)
  ret void
}
"""

# Adds elements [begin, end), a block at most, to a row if all are finite, as is their sum. Minima
# are of floats: what they are of a NaN is not used.
_FINITE = """
define internal i1 @NAME_finite(ptr noalias %data, i64 %begin, i64 %end, ptr noalias %row) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %loop ]
  %low = phi FLOAT [ POSITIVE, %entry ], [ %low.next, %loop ]
  %high = phi FLOAT [ NEGATIVE, %entry ], [ %high.next, %loop ]
  %sum = phi FLOAT [ 0.0, %entry ], [ %sum.next, %loop ]
  %most = phi INT [ 0, %entry ], [ %most.next, %loop ]
  %zero = phi INT [ 0, %entry ], [ %zero.next, %loop ]
  %small = phi INT [ 0, %entry ], [ %small.next, %loop ]
LOAD
  %bits = bitcast FLOAT %wide to INT
  %size = and INT %bits, MASK
  %most.next = call INT @llvm.smax.INT(INT %most, INT %size)
  %is.low = fcmp nnan nsz olt FLOAT %wide, %low
  %low.next = select nnan nsz i1 %is.low, FLOAT %wide, FLOAT %low
  %is.high = fcmp nnan nsz ogt FLOAT %wide, %high
  %high.next = select nnan nsz i1 %is.high, FLOAT %wide, FLOAT %high
  %sum.next = fadd reassoc FLOAT %sum, %wide
  %is.zero = icmp eq INT %size, 0
  %zero.one = zext i1 %is.zero to INT
  %zero.next = add INT %zero, %zero.one
  %is.small = icmp slt INT %size, LIMIT
  %small.one = zext i1 %is.small to INT
  %small.next = add INT %small, %small.one
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %end
  br i1 %more, label %loop, label %look
look:
  %sum.bits = bitcast FLOAT %sum.next to INT
  %sum.size = and INT %sum.bits, MASK
  %largest = call INT @llvm.smax.INT(INT %most.next, INT %sum.size)
  %finite = icmp slt INT %largest, INFINITY
  br i1 %finite, label %join, label %done
join:
  LOWKEY
  HIGHKEY
  %total = SUMWIDE
  %zeros = zext INT %zero.next to i64x
  %below = zext INT %small.next to i64x
  %smalls = sub i64 %below, %zeros
  %n = sub i64 %end, %begin
  call void @join(ptr %row, i64 %low.key, i64 %high.key, double %total,
    i64 0, i64 0, i64 %zeros, i64 %smalls, i64 %n)
  br label %done
done:
  ret i1 %finite
}
"""

# Sums up a row over elements [begin, end), a block at a time.
_FUNCTION = """
define internal void @NAME_part(ptr noalias %data, i64 %begin, i64 %end, ptr noalias %row) {
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %block, label %done
block:
  %from = phi i64 [ %begin, %entry ], [ %to, %next ]
  %rest = sub i64 %end, %from
  %least = call i64 @llvm.smin.i64(i64 %rest, i64 BLOCK)
  %to = add i64 %from, %least
  TRY
slow:
  call void @NAME_any(ptr %data, i64 %from, i64 %to, ptr %row)
  br label %next
next:
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

define void @NAME_one(ptr %data, i64 %id) {
  %row = alloca [ROW x i64]
  call void @clear(ptr %row)
  call void @NAME_any(ptr %data, i64 0, i64 1, ptr %row)
  call void @append(i64 %id, ptr %row)
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
    tables, body, key, load = _body(et)
    least, greatest = (-(2**31), 2**31 - 1) if key == "i32" else (LEAST, GREATEST)
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
    text = _ANY.replace("BODY", body).replace("EXTEND", extend)
    attempt = "br label %slow"
    if load:
        text += _finite(load, key, _smallest(et))
        attempt = (
            "%finite = call i1 @NAME_finite(ptr %data, i64 %from, i64 %to, ptr %row)\n"
            "  br i1 %finite, label %next, label %slow"
        )
    text += _FUNCTION.replace("TRY", attempt)
    for name, value in (
        ("LOADS", "\n  ".join(loads)), ("GREATEST", str(greatest)), ("LEAST", str(least)),
        ("KEY", key), ("BLOCK", str(_BLOCK)), ("ROW", str(ROW)), ("CHUNKS", str(_CHUNKS)),
        ("SHARED", str(_SHARED_ELEMENTS)), ("LESS", str(_CHUNKS - 1)), ("NAME", function_name(et)),
    ):  # fmt: skip
        text = text.replace(name, value)
    return tables + text


def _finite(load: str, key: str, smallest: float) -> str:
    """Return the function of blocks of finite elements, which `load` reads as %wide."""
    is_single = key == "i32"
    bits = 32 if is_single else 64
    infinity = _INFINITY[bits]
    keys = []
    for name in ("low", "high"):
        keys.append(
            f"%{name}.bits = bitcast FLOAT %{name}.next to INT\n"
            f"  %{name}.sign = ashr INT %{name}.bits, {bits - 1}\n"
            f"  %{name}.turn = and INT %{name}.sign, MASK\n"
            f"  %{name}.short = xor INT %{name}.bits, %{name}.turn\n"
            f"  %{name}.key = {'sext' if is_single else 'add'} "
            + (f"i32 %{name}.short to i64" if is_single else f"i64 %{name}.short, 0")
        )
    low, high = keys
    text = _FINITE.replace("LOWKEY", low).replace("HIGHKEY", high).replace("LOAD", load)
    total = "fpext float %sum.next to double" if is_single else "fadd double %sum.next, -0.0"
    if is_single:
        text = text.replace("i64x", "i64")
    else:
        for name, value in (("zeros", "zero"), ("below", "small")):
            text = text.replace(
                f"%{name} = zext INT %{value}.next to i64x", f"%{name} = add i64 %{value}.next, 0"
            )
    # The bits of a double, by which LLVM writes constants of either type.
    for name, value in (
        ("SUMWIDE", total), ("POSITIVE", "0x7FF0000000000000"), ("NEGATIVE", "0xFFF0000000000000"),
        ("FLOAT", "float" if is_single else "double"), ("INT", key), ("INFINITY", str(infinity)),
        ("MASK", str(2 ** (bits - 1) - 1)), ("LIMIT", str(max(1, _bits_of(smallest, bits)))),
    ):  # fmt: skip
        text = text.replace(name, value)
    return text


def _body(et: ElementType) -> tuple[str, str, str, str]:
    """Return the tables, the work on an element, the type of keys, and what loads a float."""
    if is_whole(et):
        return "", _integer(et), "i64", ""
    tables, at = "", "  %at = getelementptr {}, ptr %data, i64 %i\n"
    if et.name == "f64":
        load = at.format("double") + "  %wide = load double, ptr %at"
        return "", _float(64, load, _smallest(et)), "i64", load
    if et.name == "f32":
        load = at.format("float") + "  %wide = load float, ptr %at"
    elif et.name == "f16":
        load = (
            at.format("half")
            + "  %narrow = load half, ptr %at\n  %wide = fpext half %narrow to float"
        )
    elif et.name == "bf16":
        load = at.format("i16") + (
            "  %narrow = load i16, ptr %at\n  %longer = zext i16 %narrow to i32\n"
            "  %shifted = shl i32 %longer, 16\n  %wide = bitcast i32 %shifted to float"
        )
    else:
        name = f"@table_{et.name}"
        values = np.arange(256, dtype=np.uint8).view(et.dtype).astype(np.float32).view(np.uint32)
        numbers = ", ".join(f"i32 {v}" for v in values)
        tables = f"{name} = internal constant [256 x i32] [{numbers}]\n"
        load = at.format("i8") + (
            "  %narrow = load i8, ptr %at\n  %number = zext i8 %narrow to i64\n"
            f"  %entry.at = getelementptr i32, ptr {name}, i64 %number\n"
            "  %wide = load float, ptr %entry.at"
        )
    return tables, _float(32, load, _smallest(et)), "i32", load


def _smallest(et: ElementType) -> float:
    """Return the smallest normal number of floats; narrow integers have no denormals."""
    return float(ml_dtypes.finfo(et.dtype).smallest_normal) if et.is_float else 0.0


def _bits_of(number: float, bits: int) -> int:
    floats, integers = ("<f", "<I") if bits == 32 else ("<d", "<Q")
    return int(struct.unpack(integers, struct.pack(floats, number))[0])


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


def _float(bits: int, load: str, smallest: float) -> str:
    """Return the work on an element that was loaded as %wide: by its bits."""
    f, i = ("float", "i32") if bits == 32 else ("double", "i64")
    mask = 2 ** (bits - 1) - 1
    infinity, limit = _INFINITY[bits], _bits_of(smallest, bits)
    least, greatest = -(2 ** (bits - 1)), mask
    value = "  %value = fpext float %kept to double" if bits == 32 else (
        "  %value = fadd double %kept, -0.0"
    )  # fmt: skip
    return f"""{load}
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
