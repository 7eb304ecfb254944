"""Packed buffers beside the documents' formulas, written out plainly, and beside XLA's buffers."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from hlo.testing.sampling import random_array
from hlo.values.layout import element_bits, linear_index, physical_bytes, physical_elements
from hlo.values.layout.packing import pack, unpack
from hlo.values.numerals import bits_of
from hlo.values.types import ELEMENT_TYPES, ArrayShape, Tile
from tests.values.test_layout import layouts, shape_of

# --- the documents' formulas --------------------------------------------------------------------


def horner(index: Sequence[int], dims: Sequence[int]) -> int:
    """Return the linear index of a row-major array."""
    return sum(i * math.prod(dims[k + 1 :]) for k, i in enumerate(index))


def merged(index: Sequence[int], dims: Sequence[int], tile: Tile) -> tuple[list[int], list[int]]:
    """Return index and dimensions with those combined that `*` names."""
    ones = max(0, len(tile.sizes) - len(dims))
    index, dims = [0] * ones + list(index), [1] * ones + list(dims)
    first = len(dims) - len(tile.sizes)
    at, sizes = index[:first], dims[:first]
    k = first
    while k < len(dims):
        end = k
        while tile.sizes[end - first] == Tile.COMBINE:
            end += 1
        at.append(horner(index[k : end + 1], dims[k : end + 1]))
        sizes.append(math.prod(dims[k : end + 1]))
        k = end + 1
    return at, sizes


def tiled_index(index: Sequence[int], dims: Sequence[int], tiles: Sequence[Tile]) -> int:
    """Return the linear index after tiling, as tiled_layout.md defines it.

    index, dims: major to minor. The index of the tile comes first, then the index inside it; the
    next tile takes the result for an array.
    """
    if not tiles:
        return horner(index, dims)
    at, sizes = merged(index, dims, tiles[0])
    tile = [t for t in tiles[0].sizes if t != Tile.COMBINE]
    n = len(at) - len(tile)
    outer = [*at[:n], *(i // t for i, t in zip(at[n:], tile, strict=True))]
    bounds = [*sizes[:n], *(math.ceil(d / t) for d, t in zip(sizes[n:], tile, strict=True))]
    inside = [i % t for i, t in zip(at[n:], tile, strict=True)]
    return tiled_index([*outer, *inside], [*bounds, *tile], tiles[1:])


def place_by_formula(shape: ArrayShape, index: Sequence[int]) -> int:
    assert shape.layout is not None
    order = shape.layout.minor_to_major[::-1]
    return tiled_index(
        [index[d] for d in order], [shape.dims[d] for d in order], shape.layout.tiles
    )


@settings(deadline=None, max_examples=150)
@given(layouts())
def test_linear_index_is_the_formula(shape: ArrayShape) -> None:
    for index in np.ndindex(shape.dims):
        assert linear_index(shape, index) == place_by_formula(shape, index)


@settings(deadline=None, max_examples=150)
@given(layouts())
def test_buffer_is_the_formula_bit_by_bit(shape: ArrayShape) -> None:
    """The buffer as one number: element k is in bits [k*bits, (k+1)*bits) behind the prefix."""
    et, layout = shape.element_type, shape.layout
    assert layout is not None
    array = random_array(np.random.default_rng(shape.num_elements), et, shape.dims, edges=True)
    bits = layout.element_bits or 8 * et.byte_width
    number = 0
    for index in np.ndindex(shape.dims):
        element = array[index]
        value = int(element) if et.is_integer else int.from_bytes(element.tobytes(), "little")
        number |= (value & ((1 << bits) - 1)) << (bits * place_by_formula(shape, index))
    expected = number.to_bytes(-(-physical_elements(shape) * bits // 8), "little")
    assert pack(array, shape).tobytes() == bytes(layout.dynamic_prefix_bytes) + expected


# --- XLA's buffers ------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)])
@pytest.mark.parametrize("name", ["f32", "bf16", "c64", "pred", "s4", "u2"])
def test_buffer_is_the_one_that_xla_holds(name: str, dims: tuple[int, ...]) -> None:
    """Orders of dimensions, and elements in bits, are what XLA:CPU has of layouts."""
    jax = pytest.importorskip("jax")
    from jax.experimental.layout import Format, Layout

    device = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
    et = ELEMENT_TYPES[name]
    array = random_array(np.random.default_rng(7), et, dims)
    note = f":E({et.bits})" if et.is_integer and et.bits < 8 else ""
    for order in itertools.permutations(range(len(dims))):
        shape = shape_of(f"{et}[{','.join(map(str, dims))}]"
                         f"{{{','.join(map(str, order))}{note}}}")  # fmt: skip
        held = jax.device_put(array, Format(Layout(major_to_minor=order[::-1]), device))
        held.block_until_ready()
        size = physical_bytes(shape)
        memory = (ctypes.c_char * size).from_address(held.unsafe_buffer_pointer()).raw
        unpacked = unpack(np.frombuffer(memory, np.uint8), shape)
        assert np.array_equal(bits_of(unpacked), bits_of(array)), shape
        # What is behind the last element of a byte is anything in XLA's.
        whole = math.prod(dims) * element_bits(shape) // 8
        assert memory[:whole] == pack(array, shape)[:whole].tobytes(), shape


def test_an_empty_array_has_no_tiles_however_large_they_are() -> None:
    shape = shape_of("f32[0,3]{1,0:T(4294967296,4294967296)}")
    packed = pack(np.zeros((0, 3), np.float32), shape)
    assert packed.size == 0 and unpack(packed, shape).shape == (0, 3)
