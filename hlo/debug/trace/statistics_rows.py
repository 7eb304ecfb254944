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

# The least and the greatest key: what an empty minimum and maximum are.
LEAST, GREATEST = -(2**63), 2**63 - 1

_ADDED = "add i64 {x}, {y}"
# The words of a row: its name and type, what it is of no elements, and of two parts.
_WORDS = (
    ("low", "i64", str(GREATEST), "call i64 @llvm.smin.i64(i64 {x}, i64 {y})"),
    ("high", "i64", str(LEAST), "call i64 @llvm.smax.i64(i64 {x}, i64 {y})"),
    ("sum", "double", "0.0", "fadd double {x}, {y}"),
    *((name, "i64", "0", _ADDED) for name in ("nan", "inf", "zero", "small", "n")),
)
ROW = len(_WORDS)

_ROWS = """
@hlo_trace_state = external global [2 x i64]
@hlo_trace_events = external global i64
declare void @hlo_trace_flush()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)

{functions}
define internal void @append(i64 %id, ptr %row) alwaysinline {{
  %at = load i64, ptr @hlo_trace_state
  %event = getelementptr i64, ptr @hlo_trace_events, i64 %at
  store i64 %id, ptr %event
  %to = getelementptr i64, ptr %event, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %row, i64 {row_bytes}, i1 false)
  %loops = getelementptr i64, ptr %event, i64 {loops_at}
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
"""


def rows_ir(depth: int) -> str:
    """Return functions that write rows, and append them to the events. depth: of nested loops."""
    return _ROWS.format(
        functions=_clear_and_join(), words=1 + ROW + depth, row_bytes=8 * ROW, loops_at=1 + ROW,
        depth_bytes=8 * depth,
    )  # fmt: skip


def _clear_and_join() -> str:
    """Return the functions that begin a row, and that add what other elements have."""
    clear, join, parameters = [], [], ["ptr %row"]
    for at, (name, kind, empty, joined) in enumerate(_WORDS):
        place = f"  %{name}.at = getelementptr i64, ptr %row, i64 {at}"
        clear += [place, f"  store {kind} {empty}, ptr %{name}.at"]
        join += [
            place,
            f"  %{name}.old = load {kind}, ptr %{name}.at",
            f"  %{name}.new = {joined.format(x=f'%{name}.old', y=f'%{name}')}",
            f"  store {kind} %{name}.new, ptr %{name}.at",
        ]
        parameters.append(f"{kind} %{name}")
    return "\n".join([
        "define internal void @clear(ptr %row) alwaysinline {", *clear, "  ret void", "}",
        f"define internal void @join({', '.join(parameters)}) alwaysinline {{", *join,
        "  ret void", "}",
    ])  # fmt: skip


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
