"""Random programs of one operation that finds elements by index, for partitioning."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.values.types import ELEMENT_TYPES

TYPES = ("f32", "bf16", "pred", "s32", "u8", "c64", "f8e8m0fnu", "s64", "f8e5m2")
INDEX_TYPES = ("s32", "u8", "s64", "u64", "s8")
SIZES = (1, 2, 3, 4, 5, 7, 8, 12)


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and how closely the partitioned one has to agree.

    tolerance: relative and absolute; 0 for to the bit.
    """

    text: str
    arguments: Sequence[Any]
    result_ranks: Sequence[int]
    tolerance: float = 0.0


def data(draw: random.Random, name: str, dims: Sequence[int]) -> np.ndarray:
    """Return random elements of a type; among floats negative zeros and NaN."""
    rng = np.random.default_rng(draw.randrange(1 << 30))
    et = ELEMENT_TYPES[name]
    if et.is_pred:
        return rng.integers(0, 2, dims).astype(bool)
    if et.is_integer:
        return rng.integers(-100 if et.is_signed else 0, 100, dims).astype(et.dtype)
    if name == "f8e8m0fnu":
        return (2.0 ** rng.integers(-8, 8, dims)).astype(et.dtype)
    x = rng.standard_normal(dims)
    x = np.where(rng.random(dims) < 0.1, -0.0, x)
    x = np.where(rng.random(dims) < 0.05, np.nan, x)
    return (x * (1 - 2j) if et.is_complex else x).astype(et.dtype)


def joined(numbers: Sequence[Any]) -> str:
    """Return numbers as HLO lists them."""
    return ",".join(map(str, numbers))


def some_dims(draw: random.Random, most: int = 3) -> list[int]:
    """Return dimensions of an array."""
    return [draw.choice(SIZES) for _ in range(draw.randint(1, most))]


def _starts(draw: random.Random, dims: Sequence[int], name: str) -> list[np.ndarray]:
    """Return the starts of a slice, some of them out of range."""
    found = []
    for size in dims:
        start = draw.choice([-3, -1, 0, 1, 2, 5, 100, draw.randrange(size + 2)])
        signed = ELEMENT_TYPES[name].is_signed
        found.append(np.array(start if signed else abs(start)).astype(ELEMENT_TYPES[name].dtype))
    return found


def _window(draw: random.Random, dims: Sequence[int]) -> list[int]:
    least = 0 if draw.random() < 0.1 else 1
    return [draw.choice([d, d, 1, draw.randint(least, d)]) for d in dims]


def dynamic_slice(draw: random.Random) -> Case:
    """Return a dynamic-slice."""
    dims, et, index = some_dims(draw), draw.choice(TYPES), draw.choice(INDEX_TYPES)
    sizes, starts = _window(draw, dims), _starts(draw, dims, index)
    declared = [f"  i{n} = {index}[] parameter({n + 1})" for n in range(len(dims))]
    text = f"""HloModule m
ENTRY e {{
  x = {et}[{joined(dims)}] parameter(0)
{chr(10).join(declared)}
  ROOT r = {et}[{joined(sizes)}] dynamic-slice(x, {", ".join(f"i{n}" for n in range(len(dims)))}), \
dynamic_slice_sizes={{{joined(sizes)}}}
}}"""
    return Case(text, [data(draw, et, dims), *starts], [len(dims)])


def dynamic_update_slice(draw: random.Random) -> Case:
    """Return a dynamic-update-slice."""
    dims, et, index = some_dims(draw), draw.choice(TYPES), draw.choice(INDEX_TYPES)
    sizes, starts = _window(draw, dims), _starts(draw, dims, index)
    declared = [f"  i{n} = {index}[] parameter({n + 2})" for n in range(len(dims))]
    text = f"""HloModule m
ENTRY e {{
  x = {et}[{joined(dims)}] parameter(0)
  u = {et}[{joined(sizes)}] parameter(1)
{chr(10).join(declared)}
  ROOT r = {et}[{joined(dims)}] dynamic-update-slice(x, u, \
{", ".join(f"i{n}" for n in range(len(dims)))})
}}"""
    return Case(text, [data(draw, et, dims), data(draw, et, sizes), *starts], [len(dims)])


CASES: dict[str, Callable[[random.Random], Case]] = {
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
}
