"""Addresses of elements: every load and store of an array by index goes through here.

A layout is *plain* if elements take whole bytes, as in numpy, without gaps: then it is only an
order of dimensions. All values inside a program have plain layouts (see `relayout`). Arguments and
results may also have tiles, padding or bit packing: they are read element by element, and written
position by position, including padding.

Source: `hlo.values.layout`, which has the same formulas on numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hlo.codegen.llvm import TRUE, Builder, Index, Val, i64, int_const
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.values.layout import Tiling, element_bits, physical_dims, physical_elements, tilings
from hlo.values.layout.plain import is_plain
from hlo.values.types import ArrayShape, ElementType

Indices = tuple[Index, ...]


def physical_index(b: Builder, shape: ArrayShape, indices: Indices) -> Index:
    """Return the offset of an element, in elements."""
    assert shape.layout is not None
    order = shape.layout.minor_to_major[::-1]
    at = [indices[d] for d in order]
    if shape.layout.tiles:
        for step in tilings(shape, shape.layout):
            at = _into_tiles(b, step, at)
        dims = physical_dims(shape)
    else:
        dims = tuple(shape.dims[d] for d in order)
    return _linear(b, at, dims)


def load(b: Builder, shape: ArrayShape, base: str, indices: Indices) -> Value:
    """Load an element of an array at `base`."""
    at = physical_index(b, shape, indices)
    et = shape.element_type
    if is_plain(shape):
        return scalar.load(b, et, base, at)
    assert shape.layout is not None
    bits, base = element_bits(shape), _behind_prefix(b, shape, base)
    if bits < 8:
        raw = b.load("i8", b.element_address(base, "i8", b.udiv(at, 8 // bits)))
        shift = b.cast("trunc", i64(b.mul(b.urem(at, 8 // bits), bits)), "i8")
        return _of_low_bits(b, et, bits, b.binary("lshr", raw, shift))
    start = b.element_address(base, "i8", b.mul(at, bits // 8))
    parts = []
    mem = scalar.memory_type(et)
    for part in range(2 if et.is_complex else 1):
        address = b.element_address(start, mem, part)
        raw = b.load(mem, address, align=1)
        parts.append(raw if et.is_complex else _of_low_bits(b, et, 8, raw))
    return Cplx(*parts) if et.is_complex else parts[0]


def store(b: Builder, shape: ArrayShape, value: Value, base: str, indices: Indices) -> None:
    """Store an element of an array of plain layout at `base`."""
    assert is_plain(shape), shape
    scalar.store(b, shape.element_type, value, base, physical_index(b, shape, indices))


# --- tiles --------------------------------------------------------------------------------------


def _linear(b: Builder, at: list[Index], dims: tuple[int, ...]) -> Index:
    linear: Index = 0
    for i, n in zip(at, dims, strict=True):
        linear = b.add(b.mul(linear, n), i)
    return linear


def _unravel(b: Builder, linear: Index, dims: tuple[int, ...]) -> list[Index]:
    at: list[Index] = []
    for n in reversed(dims[1:]):
        at.append(b.urem(linear, n))
        linear = b.udiv(linear, n)
    return [linear, *reversed(at)] if dims else []


def _into_tiles(b: Builder, step: Tiling, at: list[Index]) -> list[Index]:
    rest = iter([0] * step.lead + at)
    merged = [_linear(b, [next(rest) for _ in group], group) for group in step.grouped]
    parts = [_split(b, i, n) for i, n in zip(merged[step.kept :], step.sizes, strict=True)]
    return [*merged[: step.kept], *(tile for tile, _ in parts), *(i for _, i in parts)]


def _split(b: Builder, at: Index, size: int) -> tuple[Index, Index]:
    """Split an index into the tile's and that inside it, without division if composed of both."""
    found: tuple[Index, Index] | None = b.remembered(("tile", at, size))
    return found or (b.udiv(at, size), b.urem(at, size))


def _out_of_tiles(b: Builder, step: Tiling, at: list[Index]) -> tuple[list[Index], Val]:
    """Return the indices before a tiling step, and whether there is an element."""
    count, inside = len(step.sizes), TRUE
    merged = at[: step.kept]
    tiles, within = at[step.kept : step.kept + count], at[step.kept + count :]
    limits = step.merged[step.kept :]
    for tile, i, size, limit in zip(tiles, within, step.sizes, limits, strict=True):
        place = b.add(b.mul(tile, size), i)
        if limit % size:
            inside = b.both(inside, b.compare("slt", place, limit))
            place = b.minimum(place, limit - 1)
        else:
            b.remember(("tile", place, size), (tile, i))
        merged.append(place)
    found: list[Index] = []
    for place, group in zip(merged, step.grouped, strict=True):
        found += _unravel(b, place, group)
    return found[step.lead :], inside


# --- writing whole arrays -----------------------------------------------------------------------


def num_positions(shape: ArrayShape) -> int:
    """Return how many positions `store_position` fills: elements, or bytes of packed ones."""
    if not math.prod(physical_dims(shape)):
        return 0
    bits = element_bits(shape)
    count = physical_elements(shape)
    return count if bits >= 8 else -(-count * bits // 8)


def store_prefix(b: Builder, shape: ArrayShape, base: str) -> None:
    """Fill the metadata prefix of an array with zeros, if it has one."""
    assert shape.layout is not None
    if shape.layout.dynamic_prefix_bytes:
        with b.loop(0, shape.layout.dynamic_prefix_bytes) as n:
            b.store(Val("i8", "0"), b.element_address(base, "i8", n))


def store_position(
    b: Builder,
    shape: ArrayShape,
    base: str,
    place: Index,
    element: Callable[[Indices], Value],
) -> None:
    """Fill one position of an array of any layout; padding becomes zero.

    element: returns the value at indices in range.
    """
    assert shape.layout is not None
    et, bits = shape.element_type, element_bits(shape)
    base = _behind_prefix(b, shape, base)
    if bits >= 8:
        inside, indices = _element_at(b, shape, place)
        _store_whole(b, et, bits, element(indices), inside, _place(b, base, place, bits))
        return
    octet = int_const(8, 0)
    for n in range(8 // bits):
        inside, indices = _element_at(b, shape, b.add(b.mul(place, 8 // bits), n))
        raw = b.select(inside, _low_bits(b, et, bits, element(indices)), int_const(8, 0))
        octet = b.binary("or", octet, b.binary("shl", raw, n * bits))
    b.store(octet, b.element_address(base, "i8", place))


def store_in_order(
    b: Builder, shape: ArrayShape, base: str, at: list[Index], element: Callable[[Indices], Value]
) -> None:
    """Fill the position at physical indices, of an array with whole-byte elements."""
    bits = element_bits(shape)
    inside, indices = _indices_of(b, shape, at)
    place = _linear(b, at, physical_dims(shape))
    start = _place(b, _behind_prefix(b, shape, base), place, bits)
    _store_whole(b, shape.element_type, bits, element(indices), inside, start)


def _place(b: Builder, base: str, place: Index, bits: int) -> str:
    """Return the address of a whole-byte element."""
    return b.element_address(base, "i8", b.mul(place, bits // 8))


def _element_at(b: Builder, shape: ArrayShape, place: Index) -> tuple[Val, Indices]:
    """Return whether a position is an element, and its indices, or else any valid indices."""
    assert shape.layout is not None
    dims = physical_dims(shape)
    count, inside = math.prod(dims), TRUE
    if physical_elements(shape) != count or element_bits(shape) < 8:
        inside = b.compare("slt", place, count)
        place = b.minimum(place, count - 1)
    here, indices = _indices_of(b, shape, _unravel(b, place, dims))
    return b.both(inside, here), indices


def _indices_of(b: Builder, shape: ArrayShape, at: list[Index]) -> tuple[Val, Indices]:
    """Return whether there is an element at physical indices, and its logical indices."""
    assert shape.layout is not None
    inside = TRUE
    for step in reversed(tilings(shape, shape.layout)):
        at, here = _out_of_tiles(b, step, at)
        inside = b.both(inside, here)
    indices: list[Index] = [0] * shape.rank
    for d, i in zip(shape.layout.minor_to_major[::-1], at, strict=True):
        indices[d] = i
    return inside, tuple(indices)


def _store_whole(
    b: Builder, et: ElementType, bits: int, value: Value, inside: Val, address: str
) -> None:
    """Store an element as whole bytes: integers extended, anything else padded with zeros."""
    parts = [value.re, value.im] if isinstance(value, Cplx) else [value]
    raws = [part if et.is_complex else scalar.to_memory(b, et, part) for part in parts]
    width = et.byte_width
    if not et.is_complex and raws[0].type.startswith("i") and bits > 8 * width:
        how = "sext" if et.is_signed else "zext"
        raws = [b.cast(how, raws[0], f"i{bits}")]
        width = bits // 8
    for n, raw in enumerate(raws):
        zero = Val(raw.type, "0" if raw.type.startswith("i") else "0.0")
        at = b.element_address(address, raw.type, n)
        b.store(b.select(inside, raw, zero), at, align=1)
    for n in range(width, bits // 8):
        b.store(Val("i8", "0"), b.element_address(address, "i8", n))


def _low_bits(b: Builder, et: ElementType, bits: int, value: Value) -> Val:
    """Return a byte with the bits of an element as its low bits."""
    assert isinstance(value, Val)
    raw = scalar.to_memory(b, et, value)
    return b.binary("and", raw, (1 << bits) - 1)


def _of_low_bits(b: Builder, et: ElementType, bits: int, raw: Val) -> Val:
    """Return the element in the low bits of a byte, or of a wider integer."""
    used = bits if et.is_pred else min(bits, et.bits)
    if raw.type == "i8" and used < 8:
        raw = b.binary("and", raw, (1 << used) - 1)
    return scalar.from_memory(b, et, raw)


def _behind_prefix(b: Builder, shape: ArrayShape, base: str) -> str:
    assert shape.layout is not None
    return b.element_address(base, "i8", shape.layout.dynamic_prefix_bytes)
