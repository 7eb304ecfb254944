"""Values in any layout, compiled. `compare_layouts.py` is for thousands of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.testing.sampling import random_value
from tests.harness.run_compiled import check, compiled
from tests.ops.test_op_table import EXAMPLES
from tests.sweeps.compare_generated import GENERATORS
from tests.sweeps.compare_layouts import (
    Layouts,
    compare_bitcast,
    compare_example,
    compare_generated,
)


@pytest.mark.parametrize("first", range(8))
def test_an_operation_in_any_layout(first: int) -> None:
    for name, index in EXAMPLES[first::40]:
        compare_example(name, index, Layouts(first))


@pytest.mark.parametrize("kind", GENERATORS)
def test_generated_modules_in_any_layout(kind: str) -> None:
    for seed in range(8):
        compare_generated(kind, seed, Layouts(seed))


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_memory_under_another_shape(first: int) -> None:
    for seed in range(first, first + 20):
        compare_bitcast(seed, Layouts(seed))


# --- what callers see ---------------------------------------------------------------------------

BORDER = """HloModule m, entry_computation_layout={%s}%s
ENTRY e {
  a = f32[3,5]{0,1} parameter(0)
  b = (s4[7,3], f32[]) parameter(1)
  c = s4[7,3] get-tuple-element(b), index=0
  d = f32[] get-tuple-element(b), index=1
  f = f32[3,5] broadcast(d), dimensions={}
  g = f32[3,5]{1,0} add(a, f)
  ROOT t = (f32[3,5], s4[7,3]) tuple(g, c)
}
"""
LAYOUTS = (
    "(f32[3,5]{1,0:T(2,4)}, (s4[7,3]{0,1:E(4)S(1)}, f32[]{:L(4)}))"
    "->(f32[3,5]{0,1:T(2,2)(2,1)}, s4[7,3]{1,0:E(4)})"
)


def border_arguments() -> list[object]:
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    s4 = hlo.parse("s4[7,3] negate(s4[7,3] x)").entry.result_shape
    c = (np.arange(21).reshape(7, 3) % 16 - 8).astype(s4.element_type.dtype)  # type: ignore[attr-defined]
    return [a, (c, np.float32(2))]


def test_the_layouts_of_the_header_are_those_of_callers() -> None:
    text = BORDER % (LAYOUTS, "")
    check(text, border_arguments())
    exe = compiled(text)
    shown = ", ".join(str(p.shape) for p in exe.parameters)
    assert f"({shown})->{exe.result_shape}" == LAYOUTS


def test_what_is_left_open_in_the_header_is_row_major() -> None:
    exe = compiled(BORDER % ("(f32[3,5], (s4[7,3], f32[]))->(f32[3,5]{0,1}, s4[7,3])", ""))
    assert str(exe.parameters[0].shape) == "f32[3,5]{1,0}"
    assert str(exe.result_shape) == "(f32[3,5]{0,1}, s4[7,3]{1,0})"


@pytest.mark.parametrize(
    ("parameter", "result", "is_shared"),
    [("{0,1}", "{0,1}", True), ("{1,0}", "{1,0}", True), ("{1,0}", "{0,1}", False),
     ("{1,0:T(2,4)}", "{1,0:T(2,4)}", False)],
)  # fmt: skip
def test_an_argument_in_the_memory_of_a_result(
    parameter: str, result: str, is_shared: bool
) -> None:
    layouts = f"(f32[3,5]{parameter}, (s4[7,3], f32[]))->(f32[3,5]{result}, s4[7,3])"
    text = BORDER % (layouts, ", input_output_alias={ {0}: (0, {}) }")
    check(text, border_arguments())
    a, b = border_arguments()
    given = np.asarray(a, order="F" if parameter == "{0,1}" else "C").copy(order="K")
    got, _ = compiled(text)(given, b, donate=True)
    np.testing.assert_array_equal(got, np.asarray(a) + 2)
    assert np.shares_memory(got, given) is is_shared


@pytest.mark.parametrize("note", ["SC(1:1)", "D(D,C)", "M(8)", "S(3)", "#(u32)"])
def test_notes_on_layouts(note: str) -> None:
    shape = f"f32[2,3]{{0,1:{note}}}"
    text = f"HloModule m\nENTRY e {{\n a = {shape} parameter(0)\n ROOT b = {shape} negate(a)\n}}\n"
    check(text, [np.arange(6, dtype=np.float32).reshape(2, 3)])


@pytest.mark.parametrize("place", ["parameter", "result"])
def test_a_layout_without_places_names_its_instruction(place: str) -> None:
    shapes = ["f32[2,3]", "f32[2,3]"]
    shapes[place == "result"] += "{1,0:D(D,C)P(f32[4])}"
    text = (
        f"HloModule m\nENTRY e {{\n a = {shapes[0]} parameter(0)\n"
        f" ROOT b = {shapes[1]} negate(a)\n}}\n"
    )
    line, name = (4, "b") if place == "result" else (3, "a")
    with pytest.raises(HloError, match="physical shape") as error:
        compiled(text)
    assert re.match(rf"<test>:{line}:.*{name}: ", str(error.value))


# --- arrays across the innermost loop ------------------------------------------------------------


@pytest.mark.parametrize("et", ["f32", "bf16", "c64", "s4"])
@pytest.mark.parametrize("dims", ["65,270", "16,11,96"])
def test_arrays_that_are_turned_over(et: str, dims: str) -> None:
    rank = dims.count(",") + 1
    lines = ",".join(map(str, range(rank)))
    op = "or" if et == "pred" else "add"
    text = f"""HloModule turned
ENTRY main {{
  a = {et}[{dims}] parameter(0)
  b = {et}[{dims}]{{{lines}}} parameter(1)
  c = {et}[{dims}]{{{lines}}} copy(a)
  d = {et}[{dims}] {op}(a, b)
  e = {et}[{dims}]{{{lines}}} {op}(a, d)
  ROOT t = ({et}[{dims}]{{{lines}}}, {et}[{dims}], {et}[{dims}]{{{lines}}}) tuple(c, d, e)
}}
"""
    rng = np.random.default_rng(0)
    check(text, [random_value(rng, s) for s in hlo.parse(text).entry.parameter_shapes])


@pytest.mark.parametrize("dims", [(16, 16), (64, 48), (80, 100), (17, 33), (3, 32, 40)])
def test_arrays_that_lie_across_a_loop_are_read_block_by_block(dims: tuple[int, ...]) -> None:
    order = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)
    turned = ",".join(str(dims[d]) for d in order)
    shape = ",".join(map(str, dims))
    text = (
        f"HloModule m\nENTRY e {{ x = f32[{turned}] parameter(0) y = f32[{shape}] parameter(1)\n"
        f"  t = f32[{shape}] transpose(x), dimensions={{{','.join(map(str, order))}}}\n"
        f"  ROOT r = f32[{shape}] add(t, y) }}"
    )
    rng = np.random.default_rng(0)
    y = rng.standard_normal(dims).astype(np.float32)
    check(text, [rng.standard_normal([dims[d] for d in order]).astype(np.float32), y])
