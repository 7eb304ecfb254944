"""Layouts: the documents' examples, and that packing is a bijection for any layout."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hlo
from hlo.errors import InferError
from hlo.values.layout import (
    layout_problem,
    linear_index,
    multi_index,
    physical_bytes,
    physical_dims,
    physical_elements,
)
from hlo.values.layout.packing import pack, unpack
from hlo.values.numerals import bits_of
from hlo.values.scan import Scanner
from hlo.values.shape_text import read_shape
from hlo.values.types import ELEMENT_TYPES, ArrayShape, Layout, Tile


def shape_of(text: str) -> ArrayShape:
    shape = read_shape(Scanner(text))
    assert isinstance(shape, ArrayShape)
    return shape


def places(text: str) -> list[int]:
    """Return the linear index of each element, in logical order."""
    shape = shape_of(text)
    return [linear_index(shape, i) for i in np.ndindex(shape.dims)]


# --- the documents' examples --------------------------------------------------------------------


@pytest.mark.parametrize(("order", "memory"), [("0,1", "adbecf"), ("1,0", "abcdef")])
def test_minor_to_major_orders_letters(order: str, memory: str) -> None:
    """Document 001, "Minor-to-major dimension ordering": [2 x 3] letters a..f."""
    shape = shape_of(f"u8[2,3]{{{order}}}")
    letters = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
    assert pack(letters, shape).tobytes().decode() == memory


def test_padded_dimensions_are_one_tile() -> None:
    """Document 004, "Padding": [2 x 3] letters padded to [3 x 5], which layouts have no more."""
    letters = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
    packed = pack(letters, shape_of("u8[2,3]{0,1:T(5,3)}"), np.array(ord("0"), np.uint8))
    assert packed.tobytes() == b"ad0be0cf0000000"
    padded = np.full((3, 5), ord("0"), np.uint8)
    padded[:2, :3] = letters
    assert np.array_equal(packed, pack(padded, shape_of("u8[3,5]{0,1}")))


def test_missing_layout_is_row_major() -> None:
    assert places("f32[2,3]") == [0, 1, 2, 3, 4, 5]


def test_tail_padding_rounds_up_the_number_of_elements() -> None:
    """Document 001, "Padding": after tiling, up to a multiple."""
    assert physical_elements(shape_of("f32[3,5]{1,0:T(2,2)L(32)}")) == 32
    assert physical_elements(shape_of("f32[5]{0:L(4)}")) == 8
    assert multi_index(shape_of("f32[5]{0:L(4)}"), 7) is None


def test_figure_1_two_by_two_tiles() -> None:
    """tiled_layout.md: element (2,3) of F32[3,5]{1,0:T(2,2)} is at 17."""
    shape = shape_of("f32[3,5]{1,0:T(2,2)}")
    assert physical_dims(shape) == (2, 3, 2, 2)
    assert linear_index(shape, (2, 3)) == 17
    assert multi_index(shape, 17) == (2, 3)
    assert physical_bytes(shape) == 24 * 4


def test_figure_2_repeated_tiles() -> None:
    """tiled_layout.md: 4x8 by (2,4)(2,1) puts two rows of a column side by side."""
    shape = shape_of("u8[4,8]{1,0:T(2,4)(2,1)}")
    assert places("u8[4,8]{1,0:T(2,4)(2,1)}")[:8] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert linear_index(shape, (1, 0)) == 1
    assert linear_index(shape, (2, 0)) == 16


def test_tiles_of_tiles() -> None:
    """tiled_layout.md, alternative 16-bit format: (6,5) of 8x8 by (2,4)(2,1,1,1) is at 51."""
    shape = shape_of("bf16[8,8]{1,0:T(2,4)(2,1,1,1)}")
    assert linear_index(shape, (6, 5)) == 51
    big = shape_of("bf16[32,256]{1,0:T(8,128)(2,1,1,1)}")
    assert physical_dims(big) == (2, 2, 8, 128, 2, 1, 1, 1)


def test_star_combines_dimensions() -> None:
    """tiled_layout.md: F32[2,7,8,11,10] by (*,*,2,*,3) is F32[112,110] by (2,3)."""
    combined = shape_of("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}")
    flat = shape_of("f32[112,110]{1,0:T(2,3)}")
    assert physical_dims(combined) == physical_dims(flat)
    assert linear_index(combined, (1, 3, 5, 7, 9)) == linear_index(flat, (85, 79))


def test_example_shape_of_document_001() -> None:
    shape = shape_of("bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}")
    assert physical_dims(shape) == (1, 8, 160, 128, 4, 128, 2, 1)
    assert physical_bytes(shape) == math.prod(shape.dims) * 2


def test_tile_with_more_dimensions_than_the_array() -> None:
    assert physical_bytes(shape_of("f32[100]{0:T(8,128)}")) == 8 * 128 * 4
    assert physical_bytes(shape_of("f32[]{:T(128)}")) == 512


# --- elements in bits ---------------------------------------------------------------------------


def test_sub_byte_elements_start_in_the_low_bits() -> None:
    values = np.array([1, -2, 7, -8, 3]).astype(ELEMENT_TYPES["s4"].dtype)
    assert pack(values, shape_of("s4[5]{0:E(4)}")).tolist() == [0xE1, 0x87, 0x03]
    assert pack(values, shape_of("s4[5]{0}")).tolist() == [1, 254, 7, 248, 3]


def test_pred_in_one_bit_and_in_four_bytes() -> None:
    values = np.array([True, False, True])
    assert pack(values, shape_of("pred[3]{0:E(1)}")).tolist() == [0b101]
    wide = pack(values, shape_of("pred[3]{0:E(32)}"))
    assert wide.view("<u4").tolist() == [1, 0, 1]
    assert unpack(wide, shape_of("pred[3]{0:E(32)}")).tolist() == [True, False, True]


def test_metadata_prefix_stands_in_front() -> None:
    buffer = pack(np.array([5, 6], np.uint8), shape_of("u8[2]{0:M(3)}"))
    assert buffer.tolist() == [0, 0, 0, 5, 6]


@pytest.mark.parametrize("name", ["bf16", "f8e4m3fn", "s4", "c64", "pred", "f64", "f8e8m0fnu"])
def test_padding_of_a_value(name: str) -> None:
    et = ELEMENT_TYPES[name]
    array = np.array([[2, 1]]).astype(et.dtype)
    buffer = pack(array, shape_of(f"{name}[1,2]{{1,0:T(2,2)L(6)}}"), array[0, 1:].reshape(()))
    assert buffer.view(et.dtype).tolist() == [*array[0], *[array[0, 1]] * 4]


# --- any layout ---------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn) -> ArrayShape:
    rank = draw(st.integers(0, 4))
    dims = tuple(draw(st.lists(st.integers(0, 5), min_size=rank, max_size=rank)))
    order = tuple(draw(st.permutations(range(rank))))
    tiles = []
    for _ in range(draw(st.integers(0, 3))):
        sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, Tile.COMBINE]), min_size=1, max_size=4))
        tiles.append(Tile((*sizes[:-1], abs(sizes[-1]))))
    name = draw(st.sampled_from(sorted(ELEMENT_TYPES)))
    et = ELEMENT_TYPES[name]
    # Six bits are no fraction of a byte.
    own = et.bits if et.bits != 6 else 8
    bits = draw(st.sampled_from([0, own, 8 * et.byte_width, 16 * et.byte_width]))
    layout = Layout(
        order, tiles=tuple(tiles), tail_padding=draw(st.integers(1, 9)), element_bits=bits,
        dynamic_prefix_bytes=draw(st.sampled_from([0, 0, 8])),
    )  # fmt: skip
    return ArrayShape(et, dims, layout)


@settings(deadline=None, max_examples=150)
@given(layouts())
def test_pack_and_unpack_are_inverse(shape: ArrayShape) -> None:
    rng = np.random.default_rng(shape.num_elements)
    et = shape.element_type
    if et.is_float or et.is_complex:
        array = rng.standard_normal(shape.dims).astype(et.dtype)
    else:
        array = rng.integers(0, min(2**et.bits, 2**31), shape.dims).astype(et.dtype)
    buffer = pack(array, shape)
    assert len(buffer) == physical_bytes(shape)
    back = unpack(buffer, shape)
    assert back.dtype == array.dtype and back.shape == array.shape
    assert np.array_equal(bits_of(back), bits_of(array))


@settings(deadline=None, max_examples=100)
@given(layouts())
def test_linear_index_is_a_bijection_onto_the_places_that_are_no_padding(shape: ArrayShape) -> None:
    indices = list(np.ndindex(shape.dims)) if shape.num_elements else []
    seen = [linear_index(shape, i) for i in indices]
    assert len(set(seen)) == len(seen) == shape.num_elements
    assert [multi_index(shape, k) for k in seen] == indices
    if physical_elements(shape) < 3000:
        used = set(seen)
        for k in range(physical_elements(shape)):
            assert (multi_index(shape, k) is None) == (k not in used)


@settings(deadline=None, max_examples=60)
@given(layouts())
def test_buffer_holds_each_element_at_its_linear_index(shape: ArrayShape) -> None:
    shape = ArrayShape(ELEMENT_TYPES["u32"], shape.dims, shape.layout)
    assert shape.layout is not None
    shape = shape.with_layout(
        Layout(shape.layout.minor_to_major, tiles=shape.layout.tiles, tail_padding=3)
    )
    array = np.arange(1, shape.num_elements + 1, dtype=np.uint32).reshape(shape.dims)
    memory = pack(array, shape).view(np.uint32)
    if shape.num_elements:
        grid = np.indices(shape.dims)
        assert np.array_equal(memory[linear_index(shape, list(grid))], array)
    assert np.count_nonzero(memory) == shape.num_elements


# --- what is rejected ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (ArrayShape(ELEMENT_TYPES["f32"], (2, 3), Layout((0, 0))), "not a permutation"),
        (ArrayShape(ELEMENT_TYPES["f32"], (2,), Layout((0,), tiles=(Tile((0,)),))), "below 1"),
        (ArrayShape(ELEMENT_TYPES["f32"], (2,), Layout((0,), tiles=(Tile((-1,)),))), "combine"),
        (
            ArrayShape(ELEMENT_TYPES["f32"], (2,), Layout((0,), tiles=(Tile((2,)),) * 65)),
            "65 tiles",
        ),
        (ArrayShape(ELEMENT_TYPES["f32"], (2,), Layout((0,), element_bits=16)), "do not hold f32"),
        (ArrayShape(ELEMENT_TYPES["s2"], (2,), Layout((0,), element_bits=3)), "fraction of one"),
        (ArrayShape(ELEMENT_TYPES["f32"], (2,), Layout((0,), tail_padding=0)), "tail padding"),
        (ArrayShape(ELEMENT_TYPES["f32"], (2,), Layout((0,), memory_space=-1)), "memory space"),
    ],
)
def test_bad_layouts(shape: ArrayShape, problem: str) -> None:
    assert problem in str(layout_problem(shape))
    with pytest.raises(InferError) as e:
        physical_bytes(shape)
    assert e.value.code == "bad-layout"


def test_a_huge_tile_is_refused_before_memory_is_taken() -> None:
    shape = shape_of("f32[2]{0:T(1000000000000)}")
    with pytest.raises(InferError) as e:
        pack(np.zeros(2, np.float32), shape)
    assert e.value.code == "out-of-memory"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: hlo.pack(np.zeros(3, np.float32), "f32[2]"), "type-mismatch"),
        (lambda: hlo.pack(np.zeros(2, np.float32), "f32[2]{0:E(16)}"), "bad-layout"),
        (lambda: hlo.pack(np.zeros(2, np.int32), "s32[2]", np.int64(0)), "type-mismatch"),
        (lambda: hlo.unpack(np.zeros(7, np.uint8), "f32[2]"), "shape-mismatch"),
        (lambda: hlo.unpack(np.zeros(8, np.uint8), "(f32[2])"), "type-mismatch"),
        (lambda: hlo.parse_shape("f32[2"), "syntax"),
    ],
)
def test_callers_get_hlo_errors(call: Callable[[], object], code: str) -> None:
    with pytest.raises(hlo.HloError) as e:
        call()
    assert e.value.code == code


@pytest.mark.parametrize("index", [3, -1, 10**30])
def test_an_index_outside_is_refused(index: int) -> None:
    with pytest.raises(InferError, match="outside dimension 1"):
        linear_index(shape_of("f32[2,3]"), (0, index))


@pytest.mark.parametrize("note", ["SC(1:1)", "D(D,C)", "T(2,2)SC(0:1)(1:2)"])
def test_splits_and_levels_move_nothing(note: str) -> None:
    tiles = "T(2,2)" if "T" in note else ""
    without = f"f32[2,3]{{0,1:{tiles}}}" if tiles else "f32[2,3]{0,1}"
    assert places(f"f32[2,3]{{0,1:{note}}}") == places(without)


def test_a_physical_shape_of_its_own_is_refused() -> None:
    with pytest.raises(InferError, match="physical shape") as e:
        physical_bytes(shape_of("f32[2,3]{1,0:D(D,C)P(f32[4])}"))
    assert e.value.code == "unsupported"
