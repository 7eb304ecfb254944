"""Whether an array has a NaN or an infinity, in native code: LLVM IR, a function for each type.

`i1 @hlo_nonfinite_T(ptr data, i64 n, ptr threads)` reads n elements once. An element has none if
`(bits ^ flip) & mask` is below a limit; the greatest of these is found with vectors. Large arrays
are shared among the threads of the program.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from hlo.values.types import ElementType

# Larger arrays are shared among threads, in at most so many chunks.
_SHARED_ELEMENTS = 1 << 16
_CHUNKS = 32


class BitTest(NamedTuple):
    """An element is a NaN or an infinity if `(bits ^ flip) & mask >= limit`."""

    flip: int
    mask: int
    limit: int


@functools.cache
def bit_test(et: ElementType) -> BitTest | None:
    """Return the test of a type of floats, None if all of its elements are finite."""
    if et.bits >= 16:
        mask = 2 ** (et.bits - 1) - 1
        word = np.dtype(f"u{et.bits // 8}")
        return BitTest(0, mask, int(np.array(np.inf, et.dtype).view(word)))
    codes = np.arange(2**et.bits)
    bad = ~np.isfinite(codes.astype(np.uint8).view(et.dtype).astype(np.float32))
    if not bad.any():
        return None
    every = 2**et.bits - 1
    # Those of a type without infinities have one code, or one for each sign.
    for flip, mask in ((0, every >> 1), (0, every), (every >> 1, every)):
        found = (codes ^ flip) & mask
        test = BitTest(flip, mask, int(found[bad].min()))
        if ((found >= test.limit) == bad).all():
            return test
    raise AssertionError(f"NaN of {et.name}")


def function_name(et: ElementType) -> str:
    """Return the name of the function for an element type; a complex one is two of its parts."""
    return f"hlo_nonfinite_{et.name}"


def nonfinite_ir(types: list[ElementType]) -> str:
    """Return the functions for element types that have NaN or infinities."""
    widths = dict.fromkeys(max(8, et.bits) for et in types)
    greatest = [f"declare i{n} @llvm.umax.i{n}(i{n}, i{n})" for n in widths]
    return "\n".join([*greatest, *map(_function, types)])


_FUNCTION = """
define internal i1 @{name}_part(ptr noalias %data, i64 %begin, i64 %end) {{
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %loop ]
  %most = phi i{bits} [ 0, %entry ], [ %most.next, %loop ]
  %at = getelementptr i{bits}, ptr %data, i64 %i
  %bits = load i{bits}, ptr %at
  %flipped = xor i{bits} %bits, {flip}
  %size = and i{bits} %flipped, {mask}
  %most.next = call i{bits} @llvm.umax.i{bits}(i{bits} %most, i{bits} %size)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %end
  br i1 %more, label %loop, label %done
done:
  %all = phi i{bits} [ 0, %entry ], [ %most.next, %loop ]
  %bad = icmp uge i{bits} %all, {limit}
  ret i1 %bad
}}

define internal void @{name}_task(ptr %context, i64 %begin, i64 %end) {{
  %data = load ptr, ptr %context
  %bad = call i1 @{name}_part(ptr %data, i64 %begin, i64 %end)
  br i1 %bad, label %tell, label %done
tell:
  %flag = getelementptr ptr, ptr %context, i64 1
  store atomic i64 1, ptr %flag monotonic, align 8
  br label %done
done:
  ret void
}}

define i1 @{name}(ptr %data, i64 %n, ptr %threads) {{
  %context = alloca {{ ptr, i64 }}
  %many = icmp sge i64 %n, {shared}
  %some = icmp ne ptr %threads, null
  %is.shared = and i1 %many, %some
  br i1 %is.shared, label %share, label %alone
alone:
  %bad = call i1 @{name}_part(ptr %data, i64 0, i64 %n)
  ret i1 %bad
share:
  store ptr %data, ptr %context
  %flag = getelementptr ptr, ptr %context, i64 1
  store i64 0, ptr %flag
  %up = add i64 %n, {chunks_less}
  %chunk = udiv i64 %up, {chunks}
  %run = load ptr, ptr %threads
  %state.at = getelementptr {{ ptr, ptr }}, ptr %threads, i64 0, i32 1
  %state = load ptr, ptr %state.at
  call void %run(ptr %state, ptr @{name}_task, ptr %context, i64 %n, i64 %chunk)
  %found = load atomic i64, ptr %flag monotonic, align 8
  %shared.bad = icmp ne i64 %found, 0
  ret i1 %shared.bad
}}
"""


def _function(et: ElementType) -> str:
    test = bit_test(et)
    assert test is not None
    return _FUNCTION.format(
        name=function_name(et), bits=max(8, et.bits), flip=test.flip, mask=test.mask,
        limit=test.limit, shared=_SHARED_ELEMENTS, chunks=_CHUNKS, chunks_less=_CHUNKS - 1,
    )  # fmt: skip
