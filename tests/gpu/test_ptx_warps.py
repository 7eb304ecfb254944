"""Semantics of PTX's instructions of a whole warp: exchanges, votes, products of matrices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo.gpu.simt.instructions import matrix
from tests.gpu.instructions import floats, run_lanes

_LANES = np.arange(32, dtype=np.uint32)
_ALL = 0xFFFFFFFF


def shuffled(mode: str, lane: Any, bound: int) -> list[int]:
    """Return the lanes that each lane reads."""
    found = run_lanes(f"shfl.sync.{mode}.b32 %r1, %r2, %r3, %r4, %r5", _LANES, lane, bound, _ALL)
    return [int(v) for v in found[0]]


def test_exchanges() -> None:
    assert shuffled("bfly", 1, 31) == [n ^ 1 for n in range(32)]
    assert shuffled("down", 4, 31) == [n + 4 if n < 28 else n for n in range(32)]
    assert shuffled("up", 4, 0) == [n - 4 if n >= 4 else n for n in range(32)]
    assert shuffled("idx", 7, 31) == [7] * 32
    assert shuffled("idx", _LANES[::-1], 31) == list(range(32))[::-1]


def test_exchanges_in_parts_of_a_warp() -> None:
    """The mask in bits 8 to 12 keeps a lane in its part, here of 8 lanes."""
    bound = 0x1807
    assert shuffled("down", 3, bound) == [n + 3 if n % 8 < 5 else n for n in range(32)]
    assert shuffled("idx", 1, bound) == [n // 8 * 8 + 1 for n in range(32)]
    assert shuffled("up", 3, 0x1800) == [n - 3 if n % 8 >= 3 else n for n in range(32)]


def test_exchanges_say_whether_there_is_such_a_lane() -> None:
    _, found = run_lanes(
        "shfl.sync.down.b32 %r1|%p1, %r2, %r3, %r4, %r5", _LANES, 16, 31, _ALL
    )  # fmt: skip
    assert found[0].tolist() == [True] * 16 + [False] * 16


def test_votes() -> None:
    is_odd = _LANES % 2 == 1
    warps = np.stack([is_odd, np.ones(32, bool), np.zeros(32, bool)])
    for mode, expected in {
        "all": [False, True, False], "any": [True, True, False], "uni": [False, True, True],
    }.items():  # fmt: skip
        found = run_lanes(f"vote.sync.{mode}.pred %p1, %p2, %r1", warps, _ALL)
        assert found[:, 0].tolist() == expected, mode
        assert (found == found[:, :1]).all()
    found = run_lanes("vote.sync.ballot.b32 %r1, %p2, %r2", warps, _ALL)
    assert found[:, 5].tolist() == [0xAAAAAAAA, _ALL, 0]


def test_lanes_that_take_no_part_do_not_vote() -> None:
    is_odd = _LANES % 2 == 1
    found = run_lanes("vote.sync.all.pred %p1, %p2, %r1", is_odd, 0xAAAAAAAA)
    assert found.all()
    found = run_lanes("vote.sync.ballot.b32 %r1, %p2, %r2", True, _ALL, active=is_odd)
    assert set(found[0].tolist()) == {0xAAAAAAAA}
    found = run_lanes("activemask.b32 %r1", active=is_odd)
    assert set(found[0].tolist()) == {0xAAAAAAAA}


def test_reductions_of_a_warp() -> None:
    values = np.array([*range(-16, 16)], np.int32).view(np.uint32)
    for name, expected in {
        "add.s32": -16, "min.s32": -16, "max.s32": 15, "max.u32": -1, "min.u32": 0, "and.b32": 0,
        "or.b32": -1, "xor.b32": 0,
    }.items():  # fmt: skip
        found = run_lanes(f"redux.sync.{name} %r1, %r2, %r3", values, _ALL)
        assert set(found[0].view(np.int32).tolist()) == {expected}, name
    found = run_lanes("redux.sync.add.u32 %r1, %r2, %r3", 3, 0xFF)
    assert int(found[0, 0]) == 24


def test_matches() -> None:
    found = run_lanes("match.any.sync.b32 %r1, %r2, %r3", _LANES % 2, _ALL)
    assert found[0, :2].tolist() == [0x55555555, 0xAAAAAAAA]
    found, same = run_lanes("match.all.sync.b32 %r1|%p1, %r2, %r3", _LANES // 16, 0xFFFF)
    assert (int(found[0, 0]), bool(same[0, 0])) == (0xFFFF, True)
    found, same = run_lanes("match.all.sync.b64 %r1|%p1, %rd2, %r3", _LANES // 16, _ALL)
    assert (int(found[0, 0]), bool(same[0, 0])) == (0, False)


def test_one_lane_is_elected() -> None:
    first, is_it = run_lanes("elect.sync %r1|%p1, %r2", 0xF0)
    assert set(first[0].tolist()) == {4}
    assert is_it[0].tolist() == [n == 4 for n in range(32)]


# --- products of matrices -------------------------------------------------------------------------


def element_of_left(shape: tuple[int, int], each: int, lane: int, n: int) -> tuple[int, int]:
    """Return row and column of a lane's n-th element of the first factor, by the ISA's figures."""
    register, part = divmod(n, each)
    group, member = divmod(lane, 4)
    if shape[0] == 8:
        return group, member * each + part + 4 * each * register
    return group + 8 * (register % 2), member * each + part + 4 * each * (register // 2)


def fragments(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, each: int
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return the elements that lanes hold of three matrices, one array for each element."""
    count_a, count_b = (m.size // 32 for m in (a, b))
    of_a = [np.array([a[element_of_left(a.shape, each, lane, n)] for lane in range(32)], a.dtype)
            for n in range(count_a)]  # fmt: skip
    of_b, of_c = [], []
    for n in range(count_b):
        register, part = divmod(n, each)
        at = [(lane % 4 * each + part + 4 * each * register, lane // 4) for lane in range(32)]
        of_b.append(np.array([b[i] for i in at], b.dtype))
    for n in range(c.size // 32):
        at = [(lane // 4 + 8 * (n // 2), lane % 4 * 2 + n % 2) for lane in range(32)]
        of_c.append(np.array([c[i] for i in at], c.dtype))
    return of_a, of_b, of_c


def packed(elements: list[np.ndarray], each: int) -> list[np.ndarray]:
    """Return registers of several elements each."""
    word = np.uint64 if elements[0].dtype.itemsize == 8 else np.uint32
    groups = [elements[n : n + each] for n in range(0, len(elements), each)]
    return [np.stack(g, axis=-1).view(word).reshape(1, 32) for g in groups]


_PRODUCTS = [
    ("m16n8k16.row.col.f32.f16.f16.f32", np.float16, np.float32),
    ("m16n8k8.row.col.f32.f16.f16.f32", np.float16, np.float32),
    ("m16n8k16.row.col.f32.bf16.bf16.f32", ml_dtypes.bfloat16, np.float32),
    ("m16n8k8.row.col.f32.tf32.tf32.f32", np.float32, np.float32),
    ("m16n8k4.row.col.f32.tf32.tf32.f32", np.float32, np.float32),
    ("m16n8k32.row.col.s32.s8.s8.s32", np.int8, np.int32),
    ("m16n8k32.row.col.s32.u8.u8.s32", np.uint8, np.int32),
    ("m16n8k16.row.col.s32.s8.s8.s32", np.int8, np.int32),
    ("m16n8k32.row.col.f32.e4m3.e4m3.f32", ml_dtypes.float8_e4m3fn, np.float32),
    ("m16n8k32.row.col.f32.e5m2.e5m2.f32", ml_dtypes.float8_e5m2, np.float32),
    ("m8n8k4.row.col.f64.f64.f64.f64", np.float64, np.float64),
    ("m16n8k8.row.col.f64.f64.f64.f64", np.float64, np.float64),
    ("m16n8k16.row.col.f16.f16.f16.f16", np.float16, np.float16),
]


@pytest.mark.parametrize(("name", "of_factors", "of_sum"), _PRODUCTS)
def test_products_of_matrices(name: str, of_factors: Any, of_sum: Any) -> None:
    rows, columns, depth = map(
        int, name.split(".")[0][1:].replace("n", " ").replace("k", " ").split()
    )
    rng = np.random.default_rng(7)
    low, high = (0, 8) if of_factors is np.uint8 else (-8, 8)
    a = rng.integers(low, high, (rows, depth)).astype(of_factors)
    b = rng.integers(low, high, (depth, columns)).astype(of_factors)
    c = rng.integers(-8, 8, (rows, columns)).astype(of_sum)
    each = max(1, 4 // a.dtype.itemsize)
    each_of_sum = max(1, 4 // c.dtype.itemsize)
    elements = fragments(a, b, c, each)
    of_a, of_b, of_c = (
        packed(e, n) for e, n in zip(elements, (each, each, each_of_sum), strict=True)
    )
    kind = "%rd" if of_factors is np.float64 else "%r"
    lists, at = [], 0
    for group in (of_c, of_a, of_b, of_c):
        lists.append("{" + ", ".join(f"{kind}{at + n}" for n in range(len(group))) + "}")
        at += len(group)
    found = run_lanes(f"mma.sync.aligned.{name} {', '.join(lists)}", *of_a, *of_b, *of_c)
    expected = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    _, _, wanted = fragments(a, b, expected.astype(of_sum), each)
    for got, register in zip(found, packed(wanted, each_of_sum), strict=True):
        assert np.array_equal(got, register)


def test_tf32_has_no_low_bits() -> None:
    zeros = np.zeros((1, 32), np.uint32)
    a = np.full((1, 32), np.float32(1 + 2.0**-11)).view(np.uint32)
    one = np.ones((1, 32), np.float32).view(np.uint32)
    found = run_lanes(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r0, %r1, %r2, %r3},"
        " {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r10, %r11, %r12, %r13}",
        a, a, a, a, one, one, zeros, zeros, zeros, zeros,
    )  # fmt: skip
    assert set(found[0].view(np.float32)[0].tolist()) == {8.0}


def test_sums_of_integers_wrap_or_saturate() -> None:
    big = np.full((1, 32), (1 << 31) - 1, np.uint32)
    ones = np.full((1, 32), 0x01010101, np.uint32)
    for extra, expected in (("", -(1 << 31) + 15), (".satfinite", (1 << 31) - 1)):
        found = run_lanes(
            f"mma.sync.aligned.m16n8k16.row.col{extra}.s32.s8.s8.s32 {{%r0, %r1, %r2, %r3}},"
            " {%r4, %r5}, {%r6}, {%r7, %r8, %r9, %r10}",
            ones, ones, ones, big, big, big, big,
        )  # fmt: skip
        assert int(found[0].view(np.int32)[0, 0]) == expected


def test_matrices_of_halves_are_spread_over_lanes() -> None:
    rows = np.arange(128, dtype=np.uint16).reshape(2, 8, 8)
    plain = matrix.spread(rows, transposed=False)
    assert plain[1, :2].tolist() == [64 | 65 << 16, 66 | 67 << 16]
    across = matrix.spread(rows, transposed=True)
    assert across[0, :2].tolist() == [0 | 8 << 16, 16 | 24 << 16]
    for transposed in (False, True):
        register = matrix.spread(rows, transposed=transposed)
        assert np.array_equal(matrix.collect(register, transposed=transposed), rows)
    found = run_lanes("movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2", plain)
    assert np.array_equal(found, across)


def test_f64_products_are_fused() -> None:
    rng = np.random.default_rng(8)
    a, b, c, d = (floats(rng, np.float64, 32).clip(-1e3, 1e3).reshape(1, 32) for _ in range(4))
    found = run_lanes(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd0, %rd1}, {%rd2}, {%rd3},"
        " {%rd4, %rd5}",
        *(x.view(np.uint64) for x in (a, b, c, d)),
    )  # fmt: skip
    left, right = a.reshape(8, 4), b.reshape(8, 4)
    expected = (left @ right.T)[0, 0] + c[0, 0]
    np.testing.assert_allclose(found[0].view(np.float64)[0, 0], expected, rtol=1e-12)


def test_products_of_many_warps_are_those_of_each() -> None:
    rng = np.random.default_rng(9)
    registers = [
        rng.standard_normal((300, 32)).astype(np.float32).view(np.uint32) for _ in range(10)
    ]
    text = (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r0, %r1, %r2, %r3},"
        " {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r10, %r11, %r12, %r13}"
    )
    together = run_lanes(text, *registers)
    for warp in (0, 127, 128, 299):
        alone = run_lanes(text, *(r[warp : warp + 1] for r in registers))
        for whole, part in zip(together, alone, strict=True):
            assert np.array_equal(whole[warp : warp + 1], part)
