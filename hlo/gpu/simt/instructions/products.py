"""Products of small matrices of many warps, in code of LLVM.

The elements are where the registers of the lanes have them: to arrange them as matrices takes
longer than to multiply them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np

from hlo.gpu.simt.instructions.ufuncs import native_functions

_GROUPS, _MEMBERS, _LANES = 8, 4, 32
# From arrays of (register, warp, element) of the factors to one of (element, warp, lane).
Product = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@cache
def products_of(rows: int, depths: int, each: int) -> Product:
    """Return a product of matrices. The addend that it takes too is not used.

    rows: of groups of 8. depths: of registers along the depth. each: elements of a register.
    """
    name = f"product_{rows}_{depths}_{each}"
    [address] = native_functions(_text(name, rows, depths, each), [name], level=2)
    pointer = ctypes.c_void_p
    function = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_int64)(address)

    def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        warps = a.shape[1]
        found = np.empty((2 * rows, warps, _LANES))
        function(a.ctypes.data, b.ctypes.data, found.ctypes.data, warps)
        return found

    return product


def _text(name: str, rows: int, depths: int, each: int) -> str:
    """Return LLVM IR: a loop over rows of all warps, each times the 8 columns of its warp."""
    length = _MEMBERS * each
    vector = f"<{length} x double>"
    of_warp = _GROUPS * length
    suffix = f"v{length}f64"
    lines = [
        f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})",
        f"declare double @llvm.vector.reduce.fadd.{suffix}(double, {vector})",
        f"define void @{name}(ptr noalias %a, ptr noalias %b, ptr noalias %d, i64 %warps) {{",
        "entry:", f"%count = mul i64 %warps, {rows * _GROUPS}", "br label %head",
        "head:", "%i = phi i64 [0, %entry], [%next, %body]",
        "%more = icmp slt i64 %i, %count", "br i1 %more, label %body, label %end",
        # The row of the warp, and the lanes that have it.
        "body:", f"%w = udiv i64 %i, {rows * _GROUPS}", f"%row = urem i64 %i, {rows * _GROUPS}",
        f"%half = udiv i64 %row, {_GROUPS}", f"%g = urem i64 %row, {_GROUPS}",
        f"%wa = mul i64 %w, {of_warp}", f"%ga = mul i64 %g, {length}",
    ]  # fmt: skip
    for k in range(depths):
        lines += [
            f"%ra{k} = add i64 %half, {k * rows}", f"%rw{k} = mul i64 %ra{k}, %warps",
            f"%rv{k} = mul i64 %rw{k}, {of_warp}", f"%oa{k} = add i64 %rv{k}, %wa",
            f"%pa{k} = add i64 %oa{k}, %ga", f"%xa{k} = getelementptr double, ptr %a, i64 %pa{k}",
            f"%a{k} = load {vector}, ptr %xa{k}, align 8",
            f"%rb{k} = mul i64 %warps, {k * of_warp}", f"%ob{k} = add i64 %rb{k}, %wa",
            f"%xb{k} = getelementptr double, ptr %b, i64 %ob{k}",
        ]  # fmt: skip
    lines += [
        "%r0 = mul i64 %half, 2", "%r1 = add i64 %r0, 1", f"%wd = mul i64 %w, {_LANES}",
        f"%gd = mul i64 %g, {_MEMBERS}", "%at = add i64 %wd, %gd",
    ]  # fmt: skip
    for j in range(2):
        lines += [
            f"%rd{j} = mul i64 %r{j}, %warps", f"%re{j} = mul i64 %rd{j}, {_LANES}",
            f"%od{j} = add i64 %re{j}, %at", f"%xd{j} = getelementptr double, ptr %d, i64 %od{j}",
        ]  # fmt: skip
    for n in range(_GROUPS):
        total = "zeroinitializer"
        for k in range(depths):
            at = f"{n}_{k}"
            lines += [
                f"%y{at} = getelementptr double, ptr %xb{k}, i64 {n * length}",
                f"%b{at} = load {vector}, ptr %y{at}, align 8",
                f"%s{at} = call {vector} @llvm.fma.{suffix}({vector} %a{k}, {vector} %b{at},"
                f" {vector} {total})",
            ]
            total = f"%s{at}"
        lines += [
            f"%t{n} = call reassoc double @llvm.vector.reduce.fadd.{suffix}(double 0.0,"
            f" {vector} {total})",
            f"%z{n} = getelementptr double, ptr %xd{n % 2}, i64 {n // 2}",
            f"store double %t{n}, ptr %z{n}, align 8",
        ]
    lines += ["%next = add i64 %i, 1", "br label %head", "end:", "ret void", "}"]
    return "\n".join(lines)
