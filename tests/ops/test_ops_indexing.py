"""Gather, scatter and dynamic slices: against XLA, at edges, and their rules."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.testing.sampling import random_array
from hlo.values.types import ArrayShape, element_type
from hlo.verifier import verify
from tests.harness.oracle import assert_same, xla_run


def arguments(text: str) -> list[Any]:
    """Return random arguments; integers are indices, some far outside."""
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    args = []
    for shape in parse(text).entry.parameter_shapes:
        assert isinstance(shape, ArrayShape)
        args.append(random_array(rng, shape.element_type, shape.dims))
    return args


def run(text: str, *args: Any) -> Any:
    module = parse(text)
    verify(module)
    return interpret(module, args)


def check(text: str, *args: Any) -> None:
    """Compare with XLA, on random arguments if none are given."""
    values = list(args) or arguments(text)
    assert_same(run(text, *values), xla_run(text, values))


# --- gather -------------------------------------------------------------------------------------

GATHERS = {
    "rows": "f32[6,3] gather(f32[9,3] a, s32[6,1] i), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    "part of rows": "f32[6,2] gather(f32[9,3] a, s32[6] i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}",
    "columns": "f32[3,6] gather(f32[3,9] a, s32[6,1] i), offset_dims={0}, "
    "collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={3,1}",
    "implicit vector": "s8[2,4] gather(s8[7] a, s64[2,4] i), offset_dims={}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1}",
    "points": "f32[4] gather(f32[3,5] a, s32[4,2] i), offset_dims={}, "
    "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
    "swapped map": "f32[4] gather(f32[3,5] a, s32[4,2] i), offset_dims={}, "
    "collapsed_slice_dims={0,1}, start_index_map={1,0}, index_vector_dim=1, slice_sizes={1,1}",
    "vector first": "f32[3,2,4] gather(f32[5,4] a, s32[2,3,4] i), offset_dims={1}, "
    "collapsed_slice_dims={1}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,1}",
    "vector in the middle": "c64[3,4,2,2] gather(c64[5,4] a, s16[3,2,4] i), offset_dims={2,3}, "
    "collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,2}",
    "window around the batch": "f32[2,4,3] gather(f32[5,6] a, s32[4,2] i), offset_dims={0,2}, "
    "collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,3}",
    "one window": "pred[2,3] gather(pred[5,6] a, s32[2] i), offset_dims={0,1}, "
    "collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={2,3}",
    "batching": "f32[2,4] gather(f32[2,9] a, s32[2,4] i), offset_dims={}, "
    "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
    "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}",
    "two batchings": "f32[3,2,4,2] gather(f32[2,9,3,5] a, s32[1,3,2,4] i), offset_dims={3}, "
    "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0,2}, "
    "start_indices_batching_dims={2,1}, index_vector_dim=0, slice_sizes={1,1,1,2}",
    "no index": "f32[4,2] gather(f32[3] a, s32[4,0] i), offset_dims={1}, "
    "collapsed_slice_dims={}, start_index_map={}, index_vector_dim=1, slice_sizes={2}",
    "no windows": "f32[0,3] gather(f32[9,3] a, s32[0,1] i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    "empty windows": "f32[2,3] gather(f32[4,3] a, s32[2,1] i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={0,3}",
    "empty operand": "f32[2,0] gather(f32[4,0] a, s32[2,1] i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,0}",
    "sorted": "bf16[3,2] gather(bf16[4,2] a, u32[3] i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}",
}


@pytest.mark.parametrize("name", GATHERS)
def test_gather_equals_xla(name: str) -> None:
    check(GATHERS[name])


@pytest.mark.parametrize("et", "s8 s16 s32 s64 u8 u16 u32 u64 s4 u4".split())
def test_indices_of_every_integer_type_are_clamped(et: str) -> None:
    # Clamping is of the number that an index is: XLA takes a u64 above the maximum of s64 in a
    # gather for a negative number, which the specification does not.
    t = element_type(et)
    low = -(1 << (t.bits - 1)) if t.is_signed else 0
    high = (1 << (t.bits - t.is_signed)) - 1
    values = [low, high, 0, 1, 5]
    index = np.array(values, object).astype(t.dtype)
    text = (
        f"s32[5] gather(s32[6] a, {et}[5] i), offset_dims={{}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}"
    )
    want = np.clip(np.array(values, object), 0, 5).astype(np.int32)
    assert_same(run(text, np.arange(6, dtype=np.int32), index), want)
    slices = f"s32[1] dynamic-slice(s32[6] a, {et}[] i), dynamic_slice_sizes={{1}}"
    for i, w in zip(index, want, strict=True):
        assert_same(run(slices, np.arange(6, dtype=np.int32), np.asarray(i)), w.reshape(1))


@pytest.mark.parametrize("et", "s4 u2 f8e4m3fn f4e2m1fn bf16 c128 pred u64".split())
def test_any_type_can_be_gathered_and_scattered(et: str) -> None:
    rng = np.random.default_rng(3)
    dtype = element_type(et).dtype
    data = random_array(rng, element_type(et), (5, 3))
    index = np.array([[4], [-1], [2]], np.int32)
    text = (
        f"{et}[3,3] gather({et}[5,3] a, s32[3,1] i), offset_dims={{1}}, collapsed_slice_dims={{0}}"
        f", start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,3}}"
    )
    assert run(text, data, index).tobytes() == data[[4, 0, 2]].tobytes()
    text = scatter(et, "5,3", "3,1", "3,3", ROWS, "ROOT r = ET[] copy(q)")
    got = run(text, data, index, np.zeros((3, 3), dtype))
    assert (
        got.tobytes()
        == np.where(np.isin(np.arange(5), [2, 4])[:, None], 0, data).astype(dtype).tobytes()
    )


# --- scatter ------------------------------------------------------------------------------------

ROWS = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1"
)
ADD = "ROOT r = ET[] add(p, q)"
OVERWRITE = "ROOT r = ET[] copy(q)"
SECOND = ""  # the root is the second parameter


def scatter(et: str, operand: str, indices: str, updates: str, attrs: str, body: str) -> str:
    root = "" if body else "ROOT "
    return f"""HloModule scatter
combine {{
  p = {et}[] parameter(0)
  {root}q = {et}[] parameter(1)
  {body.replace("ET", et)}
}}
ENTRY main {{
  a = {et}[{operand}] parameter(0)
  i = s32[{indices}] parameter(1)
  u = {et}[{updates}] parameter(2)
  ROOT s = {et}[{operand}] scatter(a, i, u), {attrs}, to_apply=combine
}}
"""


SCATTERS = {
    "rows": ("9,3", "7,1", "7,3", ROWS),
    "part of rows": ("9,3", "7", "7,2", ROWS),
    "columns": ("3,9", "7", "3,7",
        "update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
        "index_vector_dim=1"),
    "overlapping windows": ("9", "5,1", "5,4",
        "update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1"),
    "windows before the batch": ("5,6", "4,2", "2,4,3",
        "update_window_dims={0,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, "
        "index_vector_dim=1"),
    "swapped map": ("5,6", "2,3,4", "3,4",
        "update_window_dims={}, inserted_window_dims={0,1}, "
        "scatter_dims_to_operand_dims={1,0}, index_vector_dim=0"),
    "points": ("8", "30", "30",
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1"),
    "scalar index": ("8", "1", "3",
        "update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=0"),
    "no index": ("4", "3,0", "3,2",
        "update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, "
        "index_vector_dim=1"),
    "batching": ("2,9,3", "4,2,1", "4,3,2",
        "update_window_dims={1}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
        "input_batching_dims={0}, scatter_indices_batching_dims={1}, index_vector_dim=2"),
    "no updates": ("4,3", "0,1", "0,3", ROWS),
    "empty operand": ("0,3", "2,1", "2,3", ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("body", [ADD, SECOND], ids=["add", "overwrite"])
def test_scatter_equals_xla(name: str, body: str) -> None:
    operand, indices, updates, attrs = SCATTERS[name]
    check(scatter("s32", operand, indices, updates, attrs, body))


@pytest.mark.parametrize(
    ("et", "op"),
    [
        *itertools.product(["f32", "bf16"], ["add", "multiply", "maximum", "minimum", "subtract"]),
        *itertools.product(["s32", "u8"], ["add", "multiply", "maximum", "minimum", "and", "xor"]),
        ("pred", "or"), ("c64", "add"), ("f16", "add"), ("s64", "or"), ("f64", "divide"),
    ],
)  # fmt: skip
def test_every_combiner_takes_duplicates_in_order(et: str, op: str) -> None:
    text = scatter(et, "4,2", "40,1", "40,2", ROWS, f"ROOT r = ET[] {op}(p, q)")
    args = arguments(text)
    args[1] = np.random.default_rng(1).integers(-1, 5, (40, 1)).astype(np.int32)
    check(text, *args)


def test_a_general_combiner_is_applied_update_by_update() -> None:
    body = "two = ET[] constant(2)\n  t = ET[] multiply(p, two)\n  ROOT r = ET[] subtract(t, q)"
    text = scatter("f32", "2", "5", "5", SCATTERS["points"][3], body)
    index, updates = np.array([0, 1, 0, 0, 7], np.int32), np.array([1, 2, 3, 4, 5], np.float32)
    check(text, np.array([1, 1], np.float32), index, updates)


def test_a_long_run_of_duplicates_rounds_at_every_step() -> None:
    text = scatter("bf16", "1", "2000", "2000", SCATTERS["points"][3], ADD)
    ones = np.ones(2000, ml_dtypes.bfloat16)
    got = run(text, np.zeros(1, ml_dtypes.bfloat16), np.zeros(2000, np.int32), ones)
    assert got[0] == 256  # where adding one is lost


def test_minimum_and_maximum_keep_nan() -> None:
    text = scatter("f32", "2", "12", "12", SCATTERS["points"][3], "ROOT r = ET[] maximum(p, q)")
    updates = np.arange(12, dtype=np.float32)
    updates[5] = np.nan
    check(text, np.zeros(2, np.float32), np.zeros(12, np.int32), updates)


def test_a_window_that_does_not_fit_is_left_out_whole() -> None:
    # The specification speaks of single elements here; compiled XLA looks at the window.
    text = scatter("f32", "5", "3,1", "3,2", SCATTERS["overlapping windows"][3], ADD)
    args = (np.zeros(5, np.float32), np.array([[4], [-1], [3]], np.int32))
    check(text, *args, np.ones((3, 2), np.float32))
    assert run(text, *args, np.ones((3, 2), np.float32)).tolist() == [0, 0, 0, 1, 1]


def test_unsigned_indices_beyond_s64_are_out_of_range() -> None:
    text = scatter("s32", "4", "3", "3", SCATTERS["points"][3], ADD).replace("s32[3] parameter(1)",
        "u64[3] parameter(1)")  # fmt: skip
    index = np.array([2**64 - 1, 1, 2**63], np.uint64)
    got = run(text, np.zeros(4, np.int32), index, np.ones(3, np.int32))
    assert got.tolist() == [0, 1, 0, 0]


def test_every_update_counts_where_index_vectors_are_empty() -> None:
    # They all go to the origin, as the specification has it; compiled XLA takes one of them.
    attrs = SCATTERS["no index"][3].replace("inserted_window_dims={}", "inserted_window_dims={1}")
    text = scatter("s32", "2,5", "2,0", "2,1", attrs, ADD)
    updates = np.array([[3], [4]], np.int32)
    got = run(text, np.zeros((2, 5), np.int32), np.zeros((2, 0), np.int32), updates)
    assert got[0, 0] == 7
    assert got.sum() == 7


VARIADIC = """HloModule variadic
combine {
  a = s32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = f32[] parameter(3)
  less = pred[] compare(b, d), direction=LT
  x = s32[] select(less, c, a)
  y = f32[] select(less, d, b)
  ROOT t = (s32[], f32[]) tuple(x, y)
}
ENTRY main {
  x = s32[6] parameter(0)
  y = f32[6] parameter(1)
  at = s32[20] parameter(2)
  u = s32[20] parameter(3)
  v = f32[20] parameter(4)
  ROOT s = (s32[6], f32[6]) scatter(x, y, at, u, v), update_window_dims={}, \
inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
}
"""


def test_a_variadic_scatter_combines_its_operands_together() -> None:
    check(VARIADIC)


def test_many_rows_are_scattered() -> None:
    text = scatter("f32", "50000,64", "16384,1", "16384,64", ROWS, ADD)
    rng = np.random.default_rng(0)
    index = rng.integers(0, 50000, (16384, 1)).astype(np.int32)
    updates = rng.standard_normal((16384, 64)).astype(np.float32)
    got = run(text, np.zeros((50000, 64), np.float32), index, updates)
    assert_same(got.sum(0), updates.sum(0), rtol=1e-3, atol=1e-2)


# --- dynamic slices -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "f32[2,2] dynamic-slice(f32[3,4] a, s32[] i, s32[] j), dynamic_slice_sizes={2,2}",
        "f32[3,1] dynamic-slice(f32[3,4] a, u8[] i, u8[] j), dynamic_slice_sizes={3,1}",
        "f32[0,2] dynamic-slice(f32[3,4] a, s64[] i, s64[] j), dynamic_slice_sizes={0,2}",
        "s4[2] dynamic-slice(s4[5] a, s32[] i), dynamic_slice_sizes={2}",
        "f32[3,4] dynamic-update-slice(f32[3,4] a, f32[2,3] u, s32[] i, s32[] j)",
        "bf16[3,4] dynamic-update-slice(bf16[3,4] a, bf16[3,4] u, s16[] i, s16[] j)",
        "f32[3,4] dynamic-update-slice(f32[3,4] a, f32[0,3] u, s32[] i, s32[] j)",
        "pred[5] dynamic-update-slice(pred[5] a, pred[1] u, u32[] i)",
    ],
)
def test_dynamic_slices_equal_xla(text: str) -> None:
    args = arguments(text)
    scalars = [i for i, a in enumerate(args) if not a.shape]
    for start in (-3, 0, 1, 2, 100):
        for i in scalars:
            args[i] = np.asarray(max(start, 0) if args[i].dtype.kind == "u" else start).astype(
                args[i].dtype
            )
        check(text, *args)


def test_one_vector_of_starts_is_the_older_form() -> None:
    # XLA's way through MLIR has lost this form.
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    at = np.array([9, 1], np.int32)
    text = "f32[2,2] dynamic-slice(f32[3,4] a, s32[2] i), dynamic_slice_sizes={2,2}"
    assert_same(run(text, a, at), a[1:3, 1:3])
    text = "f32[3,4] dynamic-update-slice(f32[3,4] a, f32[2,2] u, s32[2] i)"
    want = a.copy()
    want[1:3, 1:3] = 0
    assert_same(run(text, a, np.zeros((2, 2), np.float32), at), want)


def test_operations_leave_their_operands_alone() -> None:
    a, u = np.zeros(4, np.float32), np.ones(2, np.float32)
    run("f32[4] dynamic-update-slice(f32[4] a, f32[2] u, s32[] i)", a, u, np.int32(1).reshape(()))
    run(scatter("f32", "4", "2", "2", SCATTERS["points"][3], ADD), a, np.array([0, 1], np.int32), u)
    assert not a.any()


# --- rules --------------------------------------------------------------------------------------

GATHER = (
    "f32[6,3] gather(f32[9,3] a, s32[6,1] i), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}"
)
SCATTER = scatter("f32", "9,3", "6,1", "6,3", ROWS, ADD)
SLICE = "f32[2] dynamic-slice(f32[5] a, s32[] i), dynamic_slice_sizes={2}"
UPDATE = "f32[5] dynamic-update-slice(f32[5] a, f32[2] u, s32[] i)"
BATCHED = "operand_batching_dims={1}, start_indices_batching_dims={0}, index_vector_dim=1"

WRONG = [
    (GATHER, "s32[6,1]", "f32[6,1]", "type-mismatch", "an integer type"),
    (GATHER, "s32[6,1]", "pred[6,1]", "type-mismatch", "an integer type"),
    (GATHER, "index_vector_dim=1", "index_vector_dim=3", "bad-dimension", "index_vector_dim is 3"),
    (GATHER, "index_vector_dim=1", "index_vector_dim=-1", "bad-dimension", "is -1"),
    (GATHER, "index_map={0}", "index_map={0,1}", "shape-mismatch", "has 2 elements"),
    (GATHER, "index_map={0}", "index_map={2}", "bad-dimension", "outside [0, 2)"),
    (GATHER, "s32[6,1] i), offset_dims={1}", "s32[6,2] i), offset_dims={1}", "shape-mismatch",
     "the index vectors (dimension 1 of the indices) have 2"),
    (GATHER, "offset_dims={1}", "offset_dims={2}", "bad-dimension", "offset_dims"),
    (GATHER, "offset_dims={1}", "offset_dims={1,1}", "bad-dimension", "twice"),
    (GATHER, "offset_dims={1}", "offset_dims={1,0}", "bad-dimension", "not ascending"),
    (GATHER, "offset_dims={1}", "offset_dims={}", "shape-mismatch", "do not add up"),
    (GATHER, "slice_dims={0}", "slice_dims={2}", "bad-dimension", "collapsed_slice_dims"),
    (GATHER, "slice_dims={0}", "slice_dims={1}", "bad-value", "at most 1"),
    (GATHER, "slice_sizes={1,3}", "slice_sizes={1}", "shape-mismatch", "slice_sizes has 1"),
    (GATHER, "slice_sizes={1,3}", "slice_sizes={1,4}", "bad-value", "outside [0, 3]"),
    (GATHER, "slice_sizes={1,3}", "slice_sizes={1,-1}", "bad-value", "outside [0, 3]"),
    (GATHER, "slice_sizes={1,3}", "slice_sizes={2,3}", "bad-value", "at most 1"),
    (GATHER, "f32[6,3] g", "f32[3,6] g", "shape-mismatch", "f32[6,3]"),
    (GATHER, "index_vector_dim=1", BATCHED, "shape-mismatch", "batching dimension 1"),
    (GATHER, "index_vector_dim=1", "operand_batching_dims={0}, " + BATCHED[26:], "bad-dimension",
     "both start_index_map and operand_batching_dims"),
    (GATHER, "index_vector_dim=1", BATCHED.replace("dims={0}", "dims={1}"), "bad-dimension",
     "which is index_vector_dim"),
    (GATHER, "index_vector_dim=1", BATCHED.replace("dims={0}", "dims={}"), "shape-mismatch",
     "start_indices_batching_dims has 0"),
    (SCATTER, "s32[6,1]", "f32[6,1]", "type-mismatch", "an integer type"),
    (SCATTER, "scatter(a, i, u)", "scatter(a, i, u, u)", "operand-count", "odd number"),
    (SCATTER, "f32[6,3] parameter", "f32[6,4] parameter", "shape-mismatch", "more than the 3"),
    (SCATTER, "f32[6,3] parameter", "f32[5,3] parameter", "shape-mismatch", "need 6"),
    (SCATTER, "f32[6,3] parameter", "f32[6] parameter", "shape-mismatch", "rank 2 is needed"),
    (SCATTER, "f32[6,3] parameter", "s32[6,3] parameter", "type-mismatch", "element type"),
    (SCATTER, "update_window_dims={1}", "update_window_dims={2}", "bad-dimension", "window_dims"),
    (SCATTER, "inserted_window_dims={0}", "inserted_window_dims={}", "shape-mismatch", "add up"),
    (SCATTER, "operand_dims={0}", "operand_dims={5}", "bad-dimension", "outside [0, 2)"),
    (SCATTER, "operand_dims={0}", "operand_dims={}", "shape-mismatch", "have 1"),
    (SCATTER, "index_vector_dim=1", "index_vector_dim=9", "bad-dimension", "outside [0, 2]"),
    (SCATTER, "f32[9,3] scatter", "f32[9,4] scatter", "shape-mismatch", "f32[9,3]"),
    (SLICE, "s32[] i", "f32[] i", "type-mismatch", "an integer type"),
    (SLICE, "s32[] i", "s32[2] i", "shape-mismatch", "rank 0"),
    (SLICE, "s32[] i", "s32[] i, s32[] j", "operand-count", "2 start indices"),
    (SLICE, "sizes={2}", "sizes={6}", "bad-value", "outside [0, 5]"),
    (SLICE, "sizes={2}", "sizes={-2}", "bad-value", "outside [0, 5]"),
    (SLICE, "sizes={2}", "sizes={2,2}", "shape-mismatch", "has 2 elements"),
    (SLICE, "f32[2] dyn", "f32[3] dyn", "shape-mismatch", "f32[2]"),
    (UPDATE, "f32[2] u", "f32[6] u", "shape-mismatch", "more than the operand's 5"),
    (UPDATE, "f32[2] u", "f32[2,1] u", "shape-mismatch", "rank 1"),
    (UPDATE, "f32[2] u", "s32[2] u", "type-mismatch", "element type"),
    (UPDATE, "s32[] i", "pred[] i", "type-mismatch", "an integer type"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new", "code", "message"), WRONG, ids=range(len(WRONG)))
def test_a_broken_rule_is_named(text: str, old: str, new: str, code: str, message: str) -> None:
    assert old in text
    with pytest.raises(HloError) as caught:
        verify(parse(text.replace(old, new, 1)))
    assert code in {d.code for d in caught.value.diagnostics}, str(caught.value)
    assert message in str(caught.value)


def test_starts_of_two_types_are_rejected() -> None:
    text = "f32[2,2] dynamic-slice(f32[3,4] a, s32[] i, s64[] j), dynamic_slice_sizes={2,2}"
    with pytest.raises(HloError, match="differ in element type"):
        verify(parse(text))


def test_the_combiner_has_to_fit() -> None:
    compare = "ROOT c = pred[] compare(p, q), direction=LT"
    for old, new in [("p = f32[]", "p = f32[2]"), ("ROOT r = f32[] add(p, q)", compare)]:
        with pytest.raises(HloError) as caught:
            verify(parse(SCATTER.replace(old, new)))
        assert "bad-computation" in {d.code for d in caught.value.diagnostics}
