"""Compiled scatters against the interpreter and XLA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlo.frontends.text import parse
from hlo.testing.sampling import random_array, random_value
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same, xla_run
from tests.harness.run_compiled import check, compiled_for

RNG = np.random.default_rng(6)

# operand, indices, updates (dims), and the attributes.
FORMS = {
    "elements": ("9", "20,1", "20", "update_window_dims={}, inserted_window_dims={0}, "
                 "scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
    "elements, no vector": ("9", "20", "20", "update_window_dims={}, inserted_window_dims={0}, "
                            "scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
    "rows": ("30,40", "25,1", "25,40", "update_window_dims={1}, inserted_window_dims={0}, "
             "scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
    "parts of rows": ("30,40", "25,2", "25,17", "update_window_dims={1}, "
                      "inserted_window_dims={0}, scatter_dims_to_operand_dims={0,1}, "
                      "index_vector_dim=1"),
    "columns": ("30,40", "25,1", "30,25", "update_window_dims={0}, inserted_window_dims={1}, "
                "scatter_dims_to_operand_dims={1}, index_vector_dim=1"),
    "blocks": ("12,13", "2,3,2", "4,2,5,3", "update_window_dims={0,2}, inserted_window_dims={}, "
               "scatter_dims_to_operand_dims={1,0}, index_vector_dim=2"),
    "vectors first": ("6,7", "2,9", "9", "update_window_dims={}, inserted_window_dims={0,1}, "
                      "scatter_dims_to_operand_dims={1,0}, index_vector_dim=0"),
    "batches": ("5,8", "6,5,1", "6,5", "update_window_dims={}, inserted_window_dims={1}, "
                "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
                "scatter_indices_batching_dims={1}, index_vector_dim=2"),
    "no dimensions": ("", "0", "", "update_window_dims={}, inserted_window_dims={}, "
                      "scatter_dims_to_operand_dims={}, index_vector_dim=0"),
    "no updates": ("9", "0,1", "0", "update_window_dims={}, inserted_window_dims={0}, "
                   "scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
    "no elements": ("0,4", "3,1", "3,4", "update_window_dims={1}, inserted_window_dims={0}, "
                    "scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
}  # fmt: skip


def dims_of(text: str) -> tuple[int, ...]:
    return tuple(int(d) for d in text.split(",") if d)


def scatter(t: str, body: str, form: str, it: str = "s32", layout: str = "", out: str = "") -> str:
    operand, indices, updates, attrs = FORMS[form]
    return (
        f"HloModule m\n"
        f"f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) {body.replace('T[]', t + '[]')} }}\n"
        f"ENTRY e {{ x = {t}[{operand}]{layout} parameter(0) i = {it}[{indices}] parameter(1)\n"
        f"  u = {t}[{updates}] parameter(2)\n"
        f"  ROOT r = {t}[{operand}]{out} scatter(x, i, u), {attrs}, to_apply=f }}"
    )


def args_of(t: str, form: str, it: str = "s32") -> list[Any]:
    operand, indices, updates, _ = FORMS[form]
    et, index = ELEMENT_TYPES[t], ELEMENT_TYPES[it]
    high = max(dims_of(operand), default=1) + 2
    low = -2 if index.is_signed else 0
    # Some windows are out of range, and some meet.
    places = RNG.integers(low, high, dims_of(indices)).astype(index.dtype)
    return [
        random_array(RNG, et, dims_of(operand)), places, random_array(RNG, et, dims_of(updates))
    ]  # fmt: skip


ADD, SET = "ROOT c = T[] add(a, b)", "ROOT c = T[] copy(b)"
AFFINE = "two = T[] add(a, a) ROOT c = T[] subtract(b, two)"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("t", "body"), [("f32", ADD), ("s32", AFFINE), ("bf16", ADD), ("u8", SET), ("c64", ADD)]
)
def test_scatter(form: str, t: str, body: str) -> None:
    check(scatter(t, body, form), args_of(t, form), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("it", ["s8", "u8", "u32", "s64", "u64"])
def test_index_types(it: str) -> None:
    args = args_of("s32", "rows", it)
    args[1][0] = np.iinfo(args[1].dtype).max
    check(scatter("s32", ADD, "rows", it), args)


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("out", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("form", ["rows", "blocks", "batches"])
def test_layouts(form: str, layout: str, out: str) -> None:
    check(scatter("s32", AFFINE, form, "s32", layout, out), args_of("s32", form))


@pytest.mark.parametrize("form", ["elements", "rows", "parts of rows", "blocks", "batches"])
def test_agrees_with_xla(form: str) -> None:
    text, args = scatter("s32", ADD, form), args_of("s32", form)
    assert_same(check(text, args), xla_run(text, args))


def test_of_several_windows_at_one_place_the_last_one_stays() -> None:
    args = [np.zeros((30, 40), np.int32), np.full((25, 1), 3, np.int32),
            np.arange(1000, dtype=np.int32).reshape(25, 40)]  # fmt: skip
    (result,) = check(scatter("s32", SET, "rows"), args)
    assert (result[3] == args[2][24]).all()


PAIR = """HloModule m
f { a = s32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = f32[] parameter(3)
  e = f32[] add(b, d) g = s32[] maximum(a, c) ROOT t = (s32[], f32[]) tuple(g, e) }
ENTRY e { x = s32[6,9] parameter(0) y = f32[6,9]{0,1} parameter(1) i = s32[20,1] parameter(2)
  u = s32[20,9] parameter(3) v = f32[20,9] parameter(4)
  ROOT r = (s32[6,9]{0,1}, f32[6,9]) scatter(x, y, i, u, v), update_window_dims={1},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"""


def test_several_operands() -> None:
    shapes = [
        ("s32", (6, 9)),
        ("f32", (6, 9)),
        ("s32", (20, 1)),
        ("s32", (20, 9)),
        ("f32", (20, 9)),
    ]
    check(PAIR, [random_array(RNG, ELEMENT_TYPES[t], d) for t, d in shapes], rtol=1e-6, atol=1e-6)


def test_the_operand_may_be_used_again() -> None:
    text = scatter("s32", ADD, "rows").replace("ROOT r = s32", "r = s32")
    text = text[: text.rindex("}")] + "  ROOT s = s32[30,40] add(r, x) }"
    check(text, args_of("s32", "rows"))


def test_the_operand_may_be_computed() -> None:
    text = scatter("f32", ADD, "rows").replace("scatter(x,", "scatter(z,")
    text = text.replace("  u =", "  z = f32[30,40] negate(x)\n  u =")
    check(text, args_of("f32", "rows"), rtol=1e-6, atol=1e-6)


def test_threads_do_not_change_a_scatter() -> None:
    text = scatter("f32", ADD, "rows").replace("25", "4000")
    args = [random_array(RNG, ELEMENT_TYPES["f32"], (30, 40)),
            RNG.integers(0, 30, (4000, 1)).astype(np.int32),
            random_array(RNG, ELEMENT_TYPES["f32"], (4000, 40))]  # fmt: skip
    one, two = (compiled_for(text, threads)(*args) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("et", ["f32", "pred", "s4", "c64", "bf16", "u64"])
@pytest.mark.parametrize("rows", [0, 3])
def test_windows_without_elements_give_zeros(rows: int, et: str) -> None:
    text = f"""HloModule m
ENTRY e {{
  x = {et}[{rows},2] parameter(0)
  i = s32[5] parameter(1)
  g = {et}[5,2] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{0,2}}
  ROOT t = {et}[2,5] transpose(g), dimensions={{1,0}}
}}
"""
    shape = parse(text).entry.parameter_shapes[0]
    check(text, [random_value(np.random.default_rng(0), shape), np.arange(5, dtype=np.int32)])


@pytest.mark.parametrize("it", ["s8", "u8", "s64"])
@pytest.mark.parametrize("layout", ["", "{0,1,2}"])
def test_starts_of_a_slice_may_be_one_vector(it: str, layout: str) -> None:
    text = f"""HloModule m
ENTRY e {{
  x = s32[4,5,6]{layout} parameter(0)
  i = {it}[3] parameter(1)
  u = s32[2,1,3] parameter(2)
  j = {it}[<=2] parameter(3)
  y = s32[4,5] iota(), iota_dimension=1
  s = s32[2,1,3] dynamic-slice(x, i), dynamic_slice_sizes={{2,1,3}}
  d = s32[4,5,6]{layout} dynamic-update-slice(x, add(s, u), i)
  v = s32[1,3] dynamic-slice(y, j), dynamic_slice_sizes={{1,3}}
  ROOT t = (s32[4,5,6], s32[1,3]) tuple(d, v)
}}
"""
    index = ELEMENT_TYPES[it].dtype
    x, u = (random_array(RNG, ELEMENT_TYPES["s32"], dims) for dims in ((4, 5, 6), (2, 1, 3)))
    check(text, [x, np.array([1, 100, 2], index), u, np.array([2, 1], index)])
