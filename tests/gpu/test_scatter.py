"""Scatters on GPUs: at once, by atomic updates, and in the order of destinations."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.emulated import check_emulated, program

SUM = "ROOT r = {t}[] add(a, b)"
LAST = "z = {t}[] add(a, b) ROOT r = {t}[] copy(b)"
NO_SUM = "ROOT r = {t}[] subtract(b, a)"


def scatter(rows: int, columns: int, n: int, et: str, body: str, extra: str = "") -> str:
    return f"""
HloModule m
f {{ a = {et}[] parameter(0) b = {et}[] parameter(1) {body.format(t=et)} }}
ENTRY e {{
  x = {et}[{rows},{columns}] parameter(0) i = s32[{n},1] parameter(1)
  u = {et}[{n},{columns}] parameter(2)
  ROOT s = {et}[{rows},{columns}] scatter(x, i, u), update_window_dims={{1}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
    to_apply=f{extra}
}}"""


def check(rows: int, columns: int, n: int, et: str, body: str, outside: int = 2) -> None:
    """Check with indices of which some are equal, and some out of bounds, so far at the most."""
    rng = np.random.default_rng(rows * n)
    numpy_type = np.dtype({"f32": "f4", "s32": "i4", "u64": "u8", "s8": "i1", "c64": "c8"}[et])

    def values(*shape: int) -> np.ndarray:
        return rng.integers(0, 9, shape).astype(numpy_type)

    index = rng.integers(-outside, rows + outside, (n, 1), dtype=np.int32)
    check_emulated(
        scatter(rows, columns, n, et, body), values(rows, columns), index, values(n, columns)
    )


@pytest.mark.parametrize("body", [SUM, LAST, NO_SUM])
@pytest.mark.parametrize(
    ("rows", "columns", "n"), [(4, 3, 1), (10, 3, 7), (100, 16, 50), (5, 1, 300), (1, 2, 5000)]
)
def test_equal_destinations(rows: int, columns: int, n: int, body: str) -> None:
    check(rows, columns, n, "f32", body)


@pytest.mark.parametrize(("rows", "n"), [(1, 65), (1, 130), (3, 700), (2, 9000), (900, 1500)])
def test_the_last_destination_has_the_last_updates(rows: int, n: int) -> None:
    check(rows, 2, n, "f32", SUM, outside=0)


@pytest.mark.parametrize("et", ["s32", "u64", "s8", "c64"])
def test_types(et: str) -> None:
    check(20, 5, 90, et, SUM)


@pytest.mark.parametrize("opcode", ["maximum", "minimum", "and", "or", "xor"])
def test_integers_are_combined_by_memory(opcode: str) -> None:
    body = f"ROOT r = {{t}}[] {opcode}(a, b)"
    check(7, 3, 60, "s32", body)
    check(7, 3, 60, "u64", body)


def test_launches() -> None:
    """Integers take one launch; sums of floats a sort of indices before, which has no floats."""
    whole, text = program(scatter(100, 16, 5000, "s32", SUM))
    assert len(whole.plan.launches) == 1
    assert "add.u32" in text or "add.s32" in text
    ordered, text = program(scatter(100, 16, 50, "f32", SUM))
    assert len(ordered.plan.launches) == 2
    assert "atom" not in text
    unique, text = program(scatter(100, 16, 50, "f32", SUM, ", unique_indices=true"))
    assert len(unique.plan.launches) == 1
    assert "atom" not in text


def test_windows_that_overlap() -> None:
    rng = np.random.default_rng(3)
    check_emulated(
        """
HloModule m
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[9,11] parameter(0) i = s32[20,2] parameter(1) u = f32[20,3,4] parameter(2)
  ROOT s = f32[9,11] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=f
}""",
        rng.standard_normal((9, 11), np.float32), rng.integers(-1, 10, (20, 2), dtype=np.int32),
        rng.standard_normal((20, 3, 4), np.float32),
    )  # fmt: skip


def test_several_operands_and_batches() -> None:
    rng = np.random.default_rng(4)
    check_emulated(
        """
HloModule m
f { a = f32[] parameter(0) x = s32[] parameter(1) b = f32[] parameter(2) y = s32[] parameter(3)
  p = f32[] add(a, b) q = s32[] multiply(x, y) ROOT r = (f32[], s32[]) tuple(p, q) }
ENTRY e {
  x = f32[4,9,11] parameter(0) y = s32[4,9,11] parameter(1) i = s32[4,20,1] parameter(2)
  u = f32[4,20,5] parameter(3) v = s32[4,20,5] parameter(4)
  ROOT s = (f32[4,9,11], s32[4,9,11]) scatter(x, y, i, u, v), update_window_dims={2},
    inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0},
    scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=f
}""",
        rng.standard_normal((4, 9, 11), np.float32), rng.integers(-3, 4, (4, 9, 11), np.int32),
        rng.integers(-1, 10, (4, 20, 1), np.int32), rng.standard_normal((4, 20, 5), np.float32),
        rng.integers(-3, 4, (4, 20, 5), np.int32),
    )  # fmt: skip
