"""Runs single instructions of PTX on arrays."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from hlo.gpu.ptx import parse_ptx
from hlo.gpu.simt.instructions import Operation, operation_of

_REGISTERS = """
    .reg .pred %p<9>;
    .reg .b16 %rs<9>;
    .reg .b32 %r<30>;
    .reg .b64 %rd<20>;
"""
_WIDTHS = {"%p": np.bool_, "%rs": np.uint16, "%r": np.uint32, "%rd": np.uint64}
Values = Any


def operation(text: str) -> Operation:
    """Return the operation of an instruction on registers %p, %rs, %r and %rd."""
    head = ".version 8.6\n.target sm_90\n.address_size 64\n"
    kernel = parse_ptx(f"{head}.entry k() {{{_REGISTERS}{text};\n}}").kernels["k"]
    return operation_of(kernel.blocks[0].instructions[0], kernel.registers)


def run(text: str, *values: Values) -> Any:
    """Return what an instruction does to values: integers, floats (as bits of the width), arrays.

    One array for one result, else a tuple.
    """
    found = operation(text)
    arrays = [_bits(v, t) for v, t in zip(values, found.operands, strict=True)]
    with np.errstate(all="ignore"):
        if found.lanes:
            raise AssertionError("lanes have a function of their own")
        results = found.apply(*arrays)
    several = results if isinstance(results, tuple) else (results,)
    assert tuple(r.dtype for r in several) == found.results
    return results


def run_lanes(text: str, *values: Values, active: Values = True) -> Any:
    """Return what the lanes of warps do; values are broadcast to (warps, 32)."""
    found = operation(text)
    assert found.lanes
    arrays = [_bits(v, t) for v, t in zip(values, found.operands, strict=True)]
    warps = max([a.shape[0] for a in arrays if a.ndim == 2], default=1)
    arrays = [np.ascontiguousarray(np.broadcast_to(a, (warps, 32))) for a in arrays]
    return found.apply(np.broadcast_to(np.array(active, np.bool_), (warps, 32)), *arrays)


def _bits(value: Values, type_: np.dtype[Any]) -> np.ndarray:
    """Return values as bits of a register's type."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and array.dtype.itemsize == type_.itemsize:
        return np.asarray(array).view(type_)
    if array.dtype.kind == "f":
        return np.asarray(array.astype({4: np.float32, 2: np.float16}[type_.itemsize])).view(type_)
    if array.dtype == object or array.dtype.kind == "i":
        mask = (1 << (8 * type_.itemsize)) - 1
        flat = [int(v) & mask for v in array.ravel()] if type_.kind != "b" else array.ravel()
        return np.array(flat, type_).reshape(array.shape)
    return array.astype(type_)


def f32(bits: int) -> float:
    """Return the number of bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def ints(rng: np.random.Generator, width: int, count: int) -> list[int]:
    """Return integers of a width, with many near the ends and powers of two."""
    edges = [0, 1, 2, (1 << width) - 1, (1 << width) - 2, 1 << (width - 1), (1 << (width - 1)) - 1]
    drawn = [int(x) >> (64 - width) for x in rng.integers(0, 1 << 64, count, np.uint64)]
    powers = [(1 << int(n)) + int(d) for n, d in rng.integers(-1, width, (count, 2)) if n >= 0]
    found = [*drawn, *edges, *[p & ((1 << width) - 1) for p in powers]]
    return [found[int(i)] for i in rng.permutation(len(found))[:count]]


def floats(rng: np.random.Generator, dtype: type, count: int) -> np.ndarray:
    """Return numbers of random bits, with special ones and many of similar sizes."""
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    drawn = rng.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype)
    info = np.finfo(dtype)
    edges = np.array(
        [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal],
        dtype,
    )
    near = (rng.integers(-(1 << 12), 1 << 12, count) / 64.0).astype(dtype)
    return rng.permutation(np.concatenate([drawn, edges, near]))[:count]
