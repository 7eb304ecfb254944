"""The layout explorer: documents' figures as text, and drawings whose boxes do not overlap."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings

import hlo
from hlo.errors import HloError, InferError
from hlo.reports.explorer import facts_text, layout_facts, layout_svg, layout_text, layout_view
from hlo.reports.explorer.formula import place_formula
from hlo.values.layout import linear_index, multi_index, with_padded_dims
from hlo.values.types import ArrayShape
from tests.values.test_layout import layouts, shape_of

# --- the documents' figures ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "memory"), [("0,1", "a d | b e | c f"), ("1,0", "a b c | d e f")]
)
def test_letters_of_document_001(order: str, memory: str) -> None:
    """Document 001, "Minor-to-major dimension ordering"."""
    text = layout_text(layout_view(f"u8[2,3]{{{order}}}", letters=True))
    assert re.search(r" a b c\n +1 +d e f\n", text)
    assert text.endswith(f"\n  0  {memory}\n")


def test_figure_1_as_text() -> None:
    """tiled_layout.md: F32[3,5] in tiles of 2 by 2, whose element (2,3) is in place 17."""
    assert layout_text(layout_view("f32[3,5]{1,0:T(2,2)}")) == (
        """by index: the place of each element; . is padding
  i0 \\ i1
       0  1 |  2  3 |  4  .
   0   0  1 |  4  5 |  8  .
   1   2  3 |  6  7 | 10  .
     ----------------------
   2  12 13 | 16 17 | 20  .
   .   .  . |  .  . |  .  .

in memory: the index of the element in each place, lines from the byte where they start
   0  0,0 0,1 1,0 1,1 | 0,2 0,3 1,2 1,3 | 0,4 .   1,4 .
  48  2,0 2,1 .   .   | 2,2 2,3 .   .   | 2,4 .   .   .
"""
    )


def test_facts_of_the_example_of_document_001() -> None:
    facts = layout_facts("bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}")
    assert facts.physical_dims == (1, 8, 160, 128, 4, 128, 2, 1)
    assert (facts.padding, facts.bytes, facts.waste) == (0, 8 * 1280 * 16384 * 2, 0)


@pytest.mark.parametrize(
    ("shape", "tiles", "tail", "size"),
    [
        ("f32[3,5]{1,0:T(2,2)}", [9], 0, 96),
        ("f32[3,5]{1,0:T(2,2)L(32)}", [9], 8, 128),
        ("f32[5]{0:L(4)}", [], 3, 32),
        ("bf16[8,128]{1,0:T(8,128)(2,1)}", [0, 0], 0, 2048),
        ("u8[3,4]{1,0:T(3,4)(2,1)}", [0, 4], 0, 16),
        ("f32[100]{0:T(8,128)}", [924], 0, 4096),
        ("s4[7,3]{0,1:L(32)E(4)}", [], 11, 16),
        ("u8[3]{0:M(5)}", [], 0, 8),
        ("f32[0,5]{1,0:T(2,2)}", [0], 0, 0),
    ],
)
def test_padding_and_where_it_comes_from(
    shape: str, tiles: list[int], tail: int, size: int
) -> None:
    facts = layout_facts(shape)
    assert [n for _, n in facts.tile_padding] == tiles
    assert (facts.tail_padding, facts.bytes) == (tail, size)
    assert facts.padding == sum(tiles) + tail
    used = facts.elements * facts.element_bits / 8
    assert facts.waste == pytest.approx((size - used) / size if size else 0)


def test_unused_bits_and_prefix_are_told() -> None:
    text = facts_text(layout_facts("s4[3]{0:M(8)}"))
    assert "3, 8 bits each, 4 of them unused" in text and "11 bytes, 8 of them prefix" in text
    assert "1, 1 bit each\n" in facts_text(layout_facts("pred[1]{0:E(1)}"))


def test_dynamic_and_split_dimensions_are_told() -> None:
    text = facts_text(layout_facts("f32[8,<=3]{1,0:SC(0:3,5)}"))
    assert "dynamic       i1: as many places as the largest size takes\n" in text
    assert "split         i0 in 3 parts, each in a memory: 0 to 2, 3 to 4, 5 to 7\n" in text
    large = layout_view("f32[800,3]{1,0:SC(0:300)}")
    assert {299, 300} <= set(large.rows.shown)


def test_padded_dimensions_of_document_004() -> None:
    """ "Padding": 2 by 3, padded to 3 by 5 with the value 0, column-major."""
    shape = with_padded_dims(shape_of("u8[2,3]{0,1}"), (3, 5))
    text = layout_text(layout_view(shape, letters=True, padding="0"))
    assert text.endswith("\n  0  a d 0 b e 0 c f 0 0 0 0 0 0 0\n")
    assert " a b c 0 0\n   1  d e f 0 0\n   .  0 0 0 0 0\n" in text
    letters = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
    assert hlo.pack(letters, shape, np.uint8(ord("0"))).tobytes() == b"ad0be0cf0000000"


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ("u8[2,3]", (3,)),
        ("u8[2,3]", (2, 2)),
        ("u8[2,0]", (2, 2)),
        ("u8[2,3]{1,0:T(2,2)}", (2, 4)),
        ("u8[?]", (2,)),
    ],
)
def test_sizes_that_cannot_be_padded_to(shape: str, sizes: tuple[int, ...]) -> None:
    with pytest.raises(InferError) as e:
        with_padded_dims(shape_of(shape), sizes)
    assert e.value.code == "bad-layout"


@pytest.mark.parametrize(
    ("shape", "formula"),
    [
        ("f32[2,3]{1,0}", "i0 * 3 + i1"),
        ("f32[2,3]{0,1}", "i1 * 2 + i0"),
        ("f32[3,5]{1,0:T(2,2)}", "((i0 // 2 * 3 + i1 // 2) * 2 + i0 % 2) * 2 + i1 % 2"),
        ("f32[8,1,4]{2,1,0}", "i0 * 4 + i2"),
        ("f32[2,128]{1,0:T(8,128)}", "i0 * 128 + i1"),
        ("f32[4,4,4]{2,1,0:T(*,8,4)}", "((i0 * 4 + i1) // 8 * 8 + (i0 * 4 + i1) % 8) * 4 + i2"),
        ("f32[]{:T(128)}", "0"),
    ],
)
def test_formulas(shape: str, formula: str) -> None:
    assert place_formula(shape_of(shape)) == formula


@settings(deadline=None, max_examples=100)
@given(layouts())
def test_formula_is_the_linear_index(shape: ArrayShape) -> None:
    formula = compile(place_formula(shape), "formula", "eval")
    for index in np.ndindex(shape.dims):
        names = {f"i{d}": i for d, i in enumerate(index)}
        assert eval(formula, {}, names) == linear_index(shape, index)


# --- what is shown ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(layouts())
def test_cells_show_what_is_in_their_places(shape: ArrayShape) -> None:
    """Padding has the right places too."""
    view = layout_view(shape, 8)
    cells = [c for line in view.memory if line for c in line]
    cells += [c for p in view.panels if p for row in p.rows for c in row if c]
    for cell in cells:
        assert multi_index(shape, cell.place) == cell.index
        assert cell.index is None or linear_index(shape, cell.index) == cell.place
    ET.fromstring(layout_svg(view))


def test_all_is_shown_of_what_is_small_and_borders_of_what_is_large() -> None:
    small = layout_view("f32[2,3,4]{2,1,0:T(2,2)}")
    shown = [c.index for p in small.panels if p for r in p.rows for c in r if c and c.index]
    assert sorted(shown) == list(np.ndindex(2, 3, 4))
    large = layout_view("f32[1280,16384]{1,0:T(8,128)}")
    assert {0, 7, 8, 1271, 1272, 1279} <= set(large.rows.shown)
    assert {0, 127, 128, 16255, 16256, 16383} <= set(large.columns.shown)
    assert None in large.rows.shown and len(large.rows.shown) < 24


def test_lines_of_memory_are_whole_bytes_and_parts_of_tiles() -> None:
    assert layout_view("f32[3,5]{1,0:T(2,2)}").width == 12
    assert layout_view("s4[7,3]{0,1:E(4)}").width % 2 == 0
    assert layout_view("u8[8,128]{1,0:T(8,128)}").width == 16
    assert layout_view("u8[5,37]{1,0}").width == 16


@pytest.mark.parametrize("shape", ["f32[]", "f32[0]", "f32[0,3]{1,0:T(2,2)}", "pred[1]{0:E(1)}"])
def test_nothing_and_little_can_be_shown(shape: str) -> None:
    view = layout_view(shape)
    assert layout_text(view) and ET.fromstring(layout_svg(view)) is not None


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ("f32[2", "syntax"),
        ("(f32[2], f32[])", "type-mismatch"),
        ("f32[?]", "bad-layout"),
        ("f32[2]{0:E(16)}", "bad-layout"),
        ("f32[2,3]{1,0:D(D,C)P(f32[4])}", "unsupported"),
        ("u8[2,2]{1,0:T(4611686018427387904,4)}", "bad-layout"),
    ],
)
def test_shapes_without_places_are_refused(shape: str, code: str) -> None:
    with pytest.raises(HloError) as e:
        layout_view(shape)
    assert e.value.code == code


# --- the drawing --------------------------------------------------------------------------------

_SVG = "{http://www.w3.org/2000/svg}"
# As wide as characters of monospaced fonts get, in units of their size.
_WIDEST_CHARACTER = 7 / 11


@pytest.mark.parametrize(
    "shape",
    [
        "f32[3,5]{1,0:T(2,2)}",
        "bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}",
        "s4[7,3]{0,1:L(32)E(4)}",
        "f32[2,3,5]{2,1,0:T(*,2,3)(2)}",
        "f32[100]{0:T(8,128)M(8)}",
        "u8[9,9,9,9]",
        "u8[2,3,2,3,2,3]",
        "f32[1000000000,2000000]{0,1:T(8,128)}",
        "bf16[8,<=128,1280,16384]{3,2,0,1:T(8,128)(2,1)L(4096)E(32)S(1)SC(0:1,2,3,4)(1:3,5)M(64)}",
        "f32[]",
        "f32[0,5]{1,0:T(2,2)}",
    ],
)
def test_boxes_do_not_overlap_and_hold_their_labels(shape: str) -> None:
    root = ET.fromstring(layout_svg(layout_view(shape, padding="-128")))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = []
    for group in root.iter(f"{_SVG}g"):
        (rect,) = group.findall(f"{_SVG}rect")
        x, y, w, h = (float(rect.attrib[k]) for k in ("x", "y", "width", "height"))
        boxes.append((x, y, x + w, y + h))
        for text in group.findall(f"{_SVG}text"):
            assert len(text.text or "") * 11 * _WIDEST_CHARACTER <= w
            assert float(text.attrib["x"]) == pytest.approx(x + w / 2)
    assert all(0 < x and 0 < y and r < width and b < height for x, y, r, b in boxes)
    texts = [_extent(text) for text in root.findall(f"{_SVG}text")]
    assert all(0 <= x and 0 <= y and r <= width and b <= height for x, y, r, b in texts)
    # Two boxes overlap if each starts before the other ends, in both directions.
    everything = np.array([*boxes, *texts])
    before = np.all(everything[:, None, :2] + 0.01 < everything[None, :, 2:], axis=2)
    assert np.count_nonzero(before & before.T) == len(everything)


def _extent(text: ET.Element) -> tuple[float, float, float, float]:
    """Return where a text is at most, but for what is below its base line."""
    kinds = text.attrib.get("class", "").split()
    size = 14 if "title" in kinds else 11
    width = len(text.text or "") * size * _WIDEST_CHARACTER
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    x -= width if "end" in kinds else width / 2 if "middle" in kinds else 0
    return x, y - 0.75 * size, x + width, y


def test_a_shade_is_explained_where_tiles_have_tiles() -> None:
    words = "a shade for each tile inside it"
    assert words in layout_svg(layout_view("f32[9,9]{1,0:T(4,4)(2,1)}"))
    assert words not in layout_svg(layout_view("f32[9,9]{1,0:T(4,4)}"))


def test_a_drawing_stands_alone() -> None:
    text = layout_svg(layout_view("f32[3,5]{1,0:T(2,2)L(32)}"))
    assert "href" not in text and "<script" not in text and "prefers-color-scheme: dark" in text
    assert text.count("url(#tile-padding)") == 9 + 9 + 1  # by index, in memory, legend
    assert text.count("url(#tail-padding)") == 8 + 1
    assert "<title>index (2,3), place 17, byte 68</title>" in text
