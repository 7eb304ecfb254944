"""dot, ragged-dot and scaled-dot against XLA, and against sums written out where XLA has none."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.ops.contract import contraction_eval
from tests.harness.combine import combine, operands
from tests.harness.run_both import errors, run, run_both

MATMUL = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
ROWS = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"


def test_dot_takes_any_dimension_numbers() -> None:
    lines = [
        f"f32[3,5] dot(f32[3,4] a, f32[4,5] b), {MATMUL}",
        "f32[] dot(f32[7] a, f32[7] b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f32[2,3] dot(f32[2] a, f32[3] b)",
        "f32[] dot(f32[] a, f32[] b)",
        "f32[2,3] dot(f32[] a, f32[2,3] b)",
        "f32[5,2,4] dot(f32[2,3,5] a, f32[5,4,3] b), lhs_batch_dims={2}, "
        "lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={2}",
        "f32[4,2,3,5] dot(f32[3,7,4,2,6] a, f32[2,6,5,4,7] b), lhs_batch_dims={2,3}, "
        "lhs_contracting_dims={4,1}, rhs_batch_dims={3,0}, rhs_contracting_dims={1,4}",
        "f32[3] dot(f32[3,4] a, f32[3,4] b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        f"f32[3,5] dot(f32[3,0] a, f32[0,5] b), {MATMUL}",
        f"f32[0,5] dot(f32[0,4] a, f32[4,5] b), {MATMUL}",
    ]
    run_both(combine(lines), operands(lines), atol=1e-5)


@pytest.mark.parametrize(
    "types",
    ["pred,pred,pred pred,pred,s32 s4,s4,s4 s8,s8,s8 s8,s8,s32 u8,s8,s32 s32,s32,s32 s64,s64,s64 "
     "u64,u64,u64 u32,u32,u32 s32,s32,s8 s32,s32,pred",
     "bf16,bf16,bf16 bf16,bf16,f32 f16,f16,f16 f32,f32,f32 f64,f64,f64 bf16,f32,f32 f32,f32,bf16 "
     "f8e4m3fn,f8e5m2,f32 f8e4m3fn,f8e4m3fn,f8e4m3fn f32,f32,s32 s8,f32,f32 f32,f32,f64",
     "c64,c64,c64 c128,c128,c128 c64,f32,c64 c64,c64,f32"],
    ids=["integers", "floats", "complex"],
)  # fmt: skip
def test_dot_takes_operands_and_results_of_any_types(types: str) -> None:
    lines = [
        f"{o}[4,3] dot({a}[4,9] a, {b}[9,3] b), {MATMUL}"
        for a, b, o in (t.split(",") for t in types.split())
    ]
    integers = "s32" in types and "f32" not in types
    run_both(combine(lines), operands(lines, edges=integers), atol=1e-5)


@pytest.mark.parametrize("t", ["s32", "u32", "s64", "u64"])
def test_integer_sums_wrap_exactly(t: str) -> None:
    rng = np.random.default_rng(0)
    dtype = np.dtype({"s": "i", "u": "u"}[t[0]] + str(int(t[1:]) // 8))
    info = np.iinfo(dtype)
    a, b = (rng.integers(info.min, info.max, s, dtype) for s in ((5, 300), (300, 4)))
    want = a.astype(object) @ b.astype(object) % (1 << info.bits)
    got = run(f"{t}[5,4] dot({t}[5,300] a, {t}[300,4] b), {MATMUL}", [a, b])
    assert (got.astype(object) % (1 << info.bits) == want).all()


def test_products_with_infinity_and_nan_are_not_skipped() -> None:
    values = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], np.float32)
    text = "f32[6,6] dot(f32[6,1] a, f32[1,6] b), " + MATMUL
    run_both(text, [values[:, None], values[None]])
    # A zero beside the infinity, in every kernel that BLAS has for vectors and matrices.
    for m, n in ((1, 1), (1, 40), (40, 1), (40, 40)):
        a, b = np.zeros((m, 40), np.float32), np.ones((40, n), np.float32)
        b[7] = np.inf
        got = run(f"f32[{m},{n}] dot(f32[{m},40] a, f32[40,{n}] b), {MATMUL}", [a, b])
        assert np.isnan(got).all()


def test_a_sum_is_rounded_once() -> None:
    # 1 + 2**-8 is halfway between two bf16 numbers: what the last product adds decides, and an f32
    # on the way would lose it.
    a = np.array([[1, 2**-4, 2**-20]], ml_dtypes.bfloat16)
    b = np.array([[1], [2**-4], [2**-20]], ml_dtypes.bfloat16)
    got = run(f"bf16[1,1] dot(bf16[1,3] a, bf16[3,1] b), {MATMUL}", [a, b])
    assert float(got[0, 0]) == 1 + 2**-7
    # Large terms that cancel leave the small one.
    c = np.array([[1e8, 1, -1e8]], np.float32)
    got = run(f"f32[1,1] dot(f32[1,3] a, f32[3,1] b), {MATMUL}", [c, np.ones((3, 1), np.float32)])
    assert got[0, 0] == 1


def test_large_operands_are_multiplied_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "s64[3,5,4] dot(s64[3,5,70] a, s64[3,70,4] b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        "pred[5,4] dot(pred[5,70] a, pred[70,4] b), " + MATMUL,
    ]
    args = operands(lines, edges=True)
    whole = run(combine(lines), args)
    monkeypatch.setattr(contraction_eval, "BLOCK_ELEMENTS", 32)
    for got, want in zip(run(combine(lines), args), whole, strict=True):
        assert (got == want).all()


# --- ragged-dot: XLA:CPU has no implementation ----------------------------------------------------


def masked(sizes: np.ndarray, length: int) -> np.ndarray:
    """Return `[groups, length]`: which indices each group holds."""
    ends = np.cumsum(np.maximum(sizes, 0))
    at = np.arange(length)
    return (at >= (ends - np.maximum(sizes, 0))[:, None]) & (at < ends[:, None])


@pytest.mark.parametrize("sizes", [[2, 0, 3], [0, 0, 0], [1, 1, 1], [4, 4, 4], [2, -1, 2]])
def test_ragged_rows_meet_the_matrix_of_their_group(sizes: list[int]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 4)), rng.standard_normal((3, 4, 2))
    text = f"f64[5,2] ragged-dot(f64[5,4] a, f64[3,4,2] b, s32[3] c), {ROWS}"
    got = run(text, [a, b, np.array(sizes, np.int32)])
    want = np.einsum("gm,mk,gkn->mn", masked(np.array(sizes), 5), a, b)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_ragged_rows_may_have_sizes_for_each_batch() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((2, 4, 6, 7))
    sizes = np.array(rng.integers(0, 4, (2, 3, 2)), np.int64)
    b = rng.standard_normal((2, 6, 2, 4))
    text = (
        "f64[2,3,5,6] ragged-dot(f64[2,3,5,4] a, f64[2,6,2,4] b, s64[2,3,2] c), "
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, "
        "rhs_contracting_dims={3}, lhs_ragged_dims={2}, rhs_group_dims={2}"
    )
    got = run(text, [a, b, sizes])
    mask = np.array([[masked(s, 5) for s in row] for row in sizes])
    want = np.einsum("bcgm,bcmk,bngk->bcmn", mask, a, b)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_ragged_sums_are_taken_over_each_group_apart() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 3, 5)), rng.standard_normal((3, 5, 2))
    a[0, 0, 0] = np.inf  # in a group that holds nothing it must not be met
    form = (
        "f64[3,4,2] ragged-dot(f64[4,3,5] a, f64[3,5,2] b, s32[{}3] c), "
        "lhs_contracting_dims={{1,2}}, rhs_contracting_dims={{0,1}}, lhs_ragged_dims={{2}}"
    )
    sizes = np.array([[0, 2, 3], [1, 1, 1], [5, 0, 0]], np.int32)
    finite = np.where(np.isinf(a), 0, a)
    for text, s in ((form.format("3,"), sizes), (form.format(""), sizes[0])):
        mask = np.array([masked(row, 5) for row in np.broadcast_to(s, (3, 3))])
        got = run(text, [a, b, s])
        want = np.einsum("cgk,mck,ckn->gmn", mask, finite, b)
        np.testing.assert_allclose(got[:, 1:], want[:, 1:], rtol=1e-12)
        assert np.isfinite(got[0, 0]).all() and not np.isfinite(got[1, 0]).any()


def test_ragged_batches_are_a_dot() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 5, 4)), rng.standard_normal((3, 4, 2))
    text = (
        "f64[3,5,2] ragged-dot(f64[3,5,4] a, f64[3,4,2] b, s32[2] c), lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}"
    )
    np.testing.assert_allclose(run(text, [a, b, np.array([1, 2], np.int32)]), a @ b, rtol=1e-12)


# --- scaled-dot: the way to XLA's compiler does not know it ---------------------------------------


def test_scales_multiply_blocks() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 8)).astype(ml_dtypes.float8_e4m3fn)
    b = rng.standard_normal((8, 6)).astype(ml_dtypes.float8_e5m2)
    s = 2.0 ** rng.integers(-3, 4, (4, 2))
    t = 2.0 ** rng.integers(-3, 4, (2, 3))
    scales = [s.astype(ml_dtypes.float8_e8m0fnu), t.astype(ml_dtypes.float8_e8m0fnu)]
    text = (
        "f32[4,6] scaled-dot(f8e4m3fn[4,8] a, f8e5m2[8,6] b, f8e8m0fnu[4,2] c, "
        "f8e8m0fnu[2,3] d), " + MATMUL
    )
    left = a.astype(np.float64) * np.repeat(s, 4, 1)
    right = b.astype(np.float64) * np.repeat(np.repeat(t, 4, 0), 2, 1)
    got = run(text, [a, b, *scales])
    assert (got == (left @ right).astype(np.float32)).all()


# --- what is refused ------------------------------------------------------------------------------

BROKEN = [
    ("f32[3,5] dot(f32[3,4] a, f32[6,5] b), " + MATMUL, "shape-mismatch", "4, and"),
    ("f32[3,5] dot(f32[3,4] a, f32[4,5] b), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
     "bad-dimension", "outside [0, 2)"),
    ("f32[3,5] dot(f32[3,4] a, f32[4,5] b), lhs_contracting_dims={-1}, rhs_contracting_dims={0}",
     "bad-dimension", "outside [0, 2)"),
    ("f32[3,5] dot(f32[3,4] a, f32[4,5] b), lhs_contracting_dims={1}", "bad-dimension", "rhs 0"),
    ("f32[3] dot(f32[3,3] a, f32[3] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
     "lhs_batch_dims={1}, rhs_batch_dims={0}", "bad-dimension", "a second time"),
    ("f32[5,3] dot(f32[3,4] a, f32[4,5] b), " + MATMUL, "shape-mismatch", "f32[3,5]"),
    ("f32[] dot(f32[] a, f32[] b), operand_precision={high,high,high}", "bad-value",
     "3 precisions"),
    ("f32[] dot(f32[] a)", "operand-count", "2 operands"),
    ("f32[5,2] ragged-dot(f32[5,4] a, f32[3,4,2] b, f32[3] c), " + ROWS, "type-mismatch", "f32"),
    ("f32[5,2] ragged-dot(f32[5,4] a, f32[3,4,2] b, s32[4] c), " + ROWS, "shape-mismatch", "4"),
    ("f32[5,2] ragged-dot(f32[5,4] a, f32[3,4,2] b, s32[] c), " + ROWS, "shape-mismatch", "rank 1"),
    ("f32[5,2] ragged-dot(f32[5,4] a, f32[4,2] b, s32[3] c), " + MATMUL, "bad-dimension", "one"),
    ("f32[5,2] ragged-dot(f32[5,4] a, f32[4,2] b, s32[3] c), lhs_ragged_dims={0}, " + MATMUL,
     "bad-dimension", "rhs_group_dims"),
    ("f32[5,2] ragged-dot(f32[5,4] a, f32[4,2] b, s32[3] c), lhs_ragged_dims={7}, " + MATMUL,
     "bad-dimension", "outside [0, 2)"),
    ("f32[4,6] scaled-dot(bf16[4,8] a, bf16[8,6] b, bf16[4,3] c, bf16[2,6] d), " + MATMUL,
     "shape-mismatch", "blocks"),
    ("f32[4,6] scaled-dot(bf16[4,8] a, bf16[8,6] b, bf16[4] c, bf16[2,6] d), " + MATMUL,
     "shape-mismatch", "blocks"),
    ("s32[4,6] scaled-dot(s8[4,8] a, s8[8,6] b, bf16[4,2] c, bf16[2,6] d), " + MATMUL,
     "type-mismatch", "floating-point"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "words"), BROKEN)
def test_a_broken_contraction_is_refused(text: str, code: str, words: str) -> None:
    found = errors(text)
    assert [c for c, _ in found] == [code], found
    assert words in found[0][1]


def test_a_result_larger_than_memory_is_refused() -> None:
    # Operands that take no memory whose product has 10**18 elements.
    text = "s8[1000000000,1000000000] dot(s8[1000000000] a, s8[1000000000] b)"
    ones = np.broadcast_to(np.int8(1), (10**9,))
    with pytest.raises(HloError) as caught:
        run(text, [ones, ones])
    assert caught.value.code == "out-of-memory"


# --- bytes of two numbers -------------------------------------------------------------------------

PACKED = {
    "s8, wider": f"s32[3,5] dot(s8[3,4] a, s8[4,5] b), {MATMUL}",
    "s8, wrapping": f"s8[3,5] dot(s8[3,4] a, s8[4,5] b), {MATMUL}",
    "u8": f"u8[3,5] dot(u8[3,4] a, u8[4,5] b), {MATMUL}",
    "both": f"s32[3,5] dot(u8[3,4] a, s8[4,5] b), {MATMUL}",
    "a convolution": "s32[3,5] convolution(s8[3,4] a, s8[4,5] b), dim_labels=bf_io->bf",
}
_TYPES: dict[str, Any] = {"s8": np.int8, "u8": np.uint8, "s32": np.int32}


def _packed(text: str, precision: str) -> tuple[hlo.Module, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    types = [_TYPES[word.partition("[")[0]] for word in text.partition("(")[2].split(", ")[:2]]
    args = [
        rng.integers(np.iinfo(t).min, np.iinfo(t).max, size, t, endpoint=True)
        for t, size in zip(types, ((3, 4), (4, 5)), strict=True)
    ]
    return hlo.parse(f"{text}, operand_precision={{{precision}}}"), args


def _precisions(source: str | bytes) -> tuple[str, ...]:
    module = hlo.parse(source) if isinstance(source, str) else hlo.from_proto(source)
    found: tuple[str, ...] = module.entry.root.attrs["operand_precision"]
    return found


@pytest.mark.parametrize("name", PACKED)
def test_bytes_of_two_numbers_are_multiplied_by_halves(name: str) -> None:
    module, (a, b) = _packed(PACKED[name], "PACKED_NIBBLE,packed_nibble")

    def halves(x: np.ndarray) -> list[np.ndarray]:
        wide = x.astype(np.int32)
        low = wide & 15
        return [np.where(low > 7, low - 16, low) if x.dtype == np.int8 else low, wide >> 4]

    out = _TYPES[PACKED[name].partition("[")[0]]
    want = sum(x @ y for x, y in zip(halves(a), halves(b), strict=True)).astype(out)
    for passes in ("", "default", "operand-upcaster,result-caster,dot-library-rewriter,default"):
        assert np.array_equal(hlo.compile(module, cache=False, passes=passes)(a, b), want)
        ran = hlo.optimize(module.clone(), passes=passes)
        assert np.array_equal(hlo.interpret(ran, a, b), want)
    assert "operand_precision={packed_nibble,packed_nibble}" in str(module)
    data = hlo.to_proto(module)
    assert b"\x0a\x02\x03\x03" in data and _precisions(data) == _precisions(str(module))
    with pytest.raises(HloError, match="packs no numbers"):
        hlo.to_stablehlo(module)


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        (PACKED["s8, wider"], "packed_nibble,default"),
        (PACKED["s8, wider"].replace("s8", "s32"), "packed_nibble,packed_nibble"),
    ],
)
def test_other_products_are_not_of_halves(text: str, precision: str) -> None:
    module, (a, b) = _packed(text, precision)
    want = a.astype(np.int32) @ b.astype(np.int32)
    assert np.array_equal(hlo.interpret(module, a, b), want)
    assert np.array_equal(hlo.compile(module, cache=False)(a, b), want)
    assert _precisions(hlo.to_proto(module)) == tuple(precision.split(","))
