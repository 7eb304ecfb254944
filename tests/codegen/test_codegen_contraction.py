"""Compiled dot, ragged-dot and scaled-dot against the interpreter, and a few against XLA."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.analysis.fusion.roles import Role
from hlo.codegen.plan.roles import assign_roles
from hlo.frontends.text import parse
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import assert_same, leaves, xla_run
from tests.harness.run_compiled import check, compiled_for, run_leaves

_NARROW = {"rtol": 2e-2, "atol": 5e-2}
_WIDE = {"rtol": 1e-4, "atol": 1e-3}


def values(rng: np.random.Generator, name: str, dims: tuple[int, ...]) -> np.ndarray:
    et = ELEMENT_TYPES[name]
    if et.is_complex:
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(et.dtype)
    if et.is_float:
        return rng.standard_normal(dims).astype(et.dtype)
    if et.is_pred:
        return rng.integers(0, 4, dims) == 0
    low = -(1 << et.bits - 1) if et.is_signed else 0
    high = (1 << et.bits - et.is_signed) - 1
    return rng.integers(max(low, -(2**31)), min(high, 2**31), dims).astype(et.dtype)


def dot(
    m: int, k: int, n: int, types: tuple[str, str, str], *, turned: tuple[int, int] = (0, 0)
) -> tuple[str, list[np.ndarray]]:
    """Return a module that multiplies two matrices, either of them transposed, and arguments."""
    rng = np.random.default_rng(m + 7 * k + 31 * n)
    lhs, rhs = ((k, m) if turned[0] else (m, k)), ((n, k) if turned[1] else (k, n))
    a, b, c = types
    text = f"""HloModule m
ENTRY main {{
  a = {a}[{lhs[0]},{lhs[1]}] parameter(0)
  b = {b}[{rhs[0]},{rhs[1]}] parameter(1)
  ROOT c = {c}[{m},{n}] dot(a, b), lhs_contracting_dims={{{1 - turned[0]}}},
    rhs_contracting_dims={{{turned[1]}}}
}}"""
    return text, [values(rng, a, lhs), values(rng, b, rhs)]


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (5, 7, 3), (16, 64, 64), (100, 77, 33), (1, 300, 70), (70, 300, 1), (13, 700, 45),
     (200, 1, 300), (3, 2000, 5), (128, 530, 96)],
)  # fmt: skip
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_dot_of_any_size_and_order(sizes: tuple[int, int, int], turned: tuple[int, int]) -> None:
    text, args = dot(*sizes, ("f32", "f32", "f32"), turned=turned)
    check(text, args, **_WIDE)


@pytest.mark.parametrize(
    "types",
    ["bf16 bf16 bf16", "f16 f16 f32", "f8e4m3fn f8e5m2 f32", "f64 f64 f64", "f32 bf16 f32",
     "s8 s8 s32", "s4 s4 s32", "u8 s8 s32", "s8 s8 s8", "s32 s32 s32", "u16 u16 u32", "s64 s64 s64",
     "pred pred pred", "pred pred s32", "s32 s32 pred", "s8 s8 f32", "f32 f32 s32", "f32 s32 f64",
     "c64 c64 c64", "c128 c128 c128", "c64 f32 c64", "f32 f32 c64", "c64 c64 f32", "u4 s4 s4"],
)  # fmt: skip
@pytest.mark.parametrize("sizes", [(5, 7, 3), (19, 35, 70)])
def test_dot_in_types(types: str, sizes: tuple[int, int, int]) -> None:
    lhs, rhs, result = types.split()
    text, args = dot(*sizes, (lhs, rhs, result), turned=(0, sizes[0] % 2))
    narrow = "f8" in types or "16" in result
    check(text, args, **(_NARROW if narrow else _WIDE))


def test_integer_sums_wrap() -> None:
    text, _ = dot(2, 70, 2, ("s8", "s8", "s8"))
    check(text, [np.full((2, 70), -128, np.int8), np.full((70, 2), 127, np.int8)])


def test_pairs_of_the_lowest_numbers_are_exact() -> None:
    text, _ = dot(4, 64, 64, ("s16", "s16", "s32"))
    lowest = -(2**15)
    check(text, [np.full((4, 64), lowest, np.int16), np.full((64, 64), lowest, np.int16)])


@pytest.mark.parametrize("dims", ["0,3 3,4", "2,0 0,4", "2,3 3,0"])
def test_dot_of_nothing(dims: str) -> None:
    lhs, rhs = dims.split()
    m, n = lhs.split(",")[0], rhs.split(",")[1]
    text = f"""HloModule m
ENTRY main {{ a = f32[{lhs}] parameter(0)  b = f32[{rhs}] parameter(1)
  ROOT c = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    shapes = [tuple(map(int, x.split(","))) for x in (lhs, rhs)]
    check(text, [np.ones(s, np.float32) for s in shapes])


def test_infinity_and_nan_stay_in_their_row() -> None:
    text, args = dot(9, 33, 17, ("f32", "f32", "f32"))
    args[0][3, 5], args[0][7, 32] = np.inf, np.nan
    check(text, args, **_WIDE)


def random_dot(seed: int) -> tuple[str, list[np.ndarray]]:
    """Return a dot of any ranks, dimension numbers, layouts and types."""
    rng = np.random.default_rng(seed)
    counts = {kind: int(rng.integers(0, 3)) for kind in "bkmn"}
    dims = {
        f"{kind}{i}": int(rng.choice([1, 2, 3, 4, 7, 17])) for kind in "bkmn"
        for i in range(counts[kind])
    }  # fmt: skip
    lhs = [d for d in dims if d[0] in "bkm"]
    rhs = [d for d in dims if d[0] in "bkn"]
    rng.shuffle(lhs)
    rng.shuffle(rhs)
    batch, summed = ([d for d in dims if d[0] == kind] for kind in "bk")
    free = [d for d in lhs if d[0] == "m"] + [d for d in rhs if d[0] == "n"]
    et = str(rng.choice(["f32", "f32", "f64", "bf16", "s8", "c64", "pred"]))

    def shape(names: list[str], name: str) -> str:
        order = list(range(len(names)))
        rng.shuffle(order)
        layout = "{" + ",".join(map(str, order)) + "}" if order else ""
        return f"{name}[{','.join(str(dims[d]) for d in names)}]{layout}"

    def numbers(side: list[str], names: list[str]) -> str:
        return "{" + ",".join(str(side.index(d)) for d in names) + "}"

    result = "s32" if et == "s8" else et
    text = f"""HloModule m
ENTRY main {{
  a = {shape(lhs, et)} parameter(0)
  b = {shape(rhs, et)} parameter(1)
  ROOT c = {shape([*batch, *free], result)} dot(a, b),
    lhs_batch_dims={numbers(lhs, batch)}, lhs_contracting_dims={numbers(lhs, summed)},
    rhs_batch_dims={numbers(rhs, batch)}, rhs_contracting_dims={numbers(rhs, summed)}
}}"""
    return text, [values(rng, et, tuple(dims[d] for d in side)) for side in (lhs, rhs)]


@pytest.mark.parametrize("seed", range(30))
def test_random_dots(seed: int) -> None:
    text, args = random_dot(seed)
    check(text, args, **(_NARROW if "bf16" in text else _WIDE))


_MOVED = """HloModule m
ENTRY main {
  x = bf16[2,12,32] parameter(0)
  y = f32[4,8,10] parameter(1)
  heads = bf16[2,12,4,8] reshape(x)
  turned = bf16[2,4,12,8] transpose(heads), dimensions={0,2,1,3}
  wide = f32[2,4,12,8] convert(turned)
  flipped = f32[4,8,10] reverse(y), dimensions={1}
  part = f32[4,8,5] slice(flipped), slice={[0:4], [0:8], [0:10:2]}
  both = f32[2,4,8,5] broadcast(part), dimensions={1,2,3}
  ROOT c = f32[2,4,12,5] dot(wide, both), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
    lhs_contracting_dims={3}, rhs_contracting_dims={2}
}"""


def test_operands_are_read_through_movements() -> None:
    rng = np.random.default_rng(0)
    check(_MOVED, [values(rng, "bf16", (2, 12, 32)), values(rng, "f32", (4, 8, 10))], **_WIDE)


def test_operands_that_no_strides_describe() -> None:
    text = """HloModule m
ENTRY main {
  x = f32[3,4] parameter(0)
  y = f32[5] parameter(1)
  s = f32[] parameter(2)
  turned = f32[4,3] transpose(x), dimensions={1,0}
  row = f32[2,6] reshape(turned)
  same = f32[6,5] broadcast(s), dimensions={}
  scale = f32[6,5] broadcast(y), dimensions={1}
  sum = f32[6,5] add(same, scale)
  ROOT c = f32[2,5] dot(row, sum), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    rng = np.random.default_rng(0)
    args = [values(rng, "f32", (3, 4)), values(rng, "f32", (5,)), np.float32(2)]
    check(text, args, **_WIDE)


@pytest.mark.parametrize(
    ("sizes", "turned"),
    [((300, 400, 200), (0, 0)), ((64, 20000, 64), (0, 1)), ((1, 3000, 900), (0, 0))],
)  # fmt: skip
def test_threads_do_not_show(sizes: tuple[int, int, int], turned: tuple[int, int]) -> None:
    text, args = dot(*sizes, ("f32", "f32", "f32"), turned=turned)
    one, two = (compiled_for(text, threads)(*args) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_random_dots_agree_with_xla(seed: int) -> None:
    text, args = random_dot(seed)
    tolerance = _NARROW if "bf16" in text else _WIDE
    assert_same(run_leaves(text, args), xla_run(text, args), **tolerance)


# --- groups and scales --------------------------------------------------------------------------

_SIZES = [("s32", "2, 2"), ("s32", "-3, 2"), ("s32", "4, 9"), ("u64", "18446744073709551615, 3"),
          ("s8", "1, 4")]  # fmt: skip


@pytest.mark.parametrize(("et", "sizes"), _SIZES)
@pytest.mark.parametrize(
    "ragged",
    ["f32[5,4] ragged-dot(a, b, s), rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
     "rhs_group_dims={0}",
     "f32[2,5,2] ragged-dot(a, c, s), rhs_contracting_dims={0}, lhs_ragged_dims={1}"],
)  # fmt: skip
def test_ragged_dot(et: str, sizes: str, ragged: str) -> None:
    text = f"""HloModule m
ENTRY main {{
  a = f32[5,3] parameter(0)
  b = f32[2,3,4] parameter(1)
  c = f32[3,2] parameter(2)
  s = {et}[2] constant({{{sizes}}})
  ROOT r = {ragged}, lhs_contracting_dims={{1}}
}}"""
    rng = np.random.default_rng(0)
    check(text, [values(rng, "f32", d) for d in ((5, 3), (2, 3, 4), (3, 2))], **_WIDE)


@pytest.mark.parametrize(
    ("lhs", "rhs", "sizes", "call"),
    [((2, 5, 3), (2, 4, 3, 6), [[1, 0, 3, 1], [2, 2, 0, 0]],
      "f32[2,5,6] ragged-dot(a, b, s), rhs_batch_dims={0}, rhs_contracting_dims={2}, "
      "lhs_ragged_dims={1}, rhs_group_dims={1}"),
     ((2, 5, 7), (7, 6, 2), [[1, 0, 3], [2, 2, 5]],
      "f32[3,2,5,6] ragged-dot(a, b, s), rhs_batch_dims={2}, rhs_contracting_dims={0}, "
      "lhs_ragged_dims={2}"),
     ((2, 5, 7), (2, 7, 6), [1, 0, 3],
      "f32[2,5,6] ragged-dot(a, b, s), rhs_batch_dims={0}, rhs_contracting_dims={1}, "
      "lhs_ragged_dims={0}")],
)  # fmt: skip
def test_ragged_dot_in_batches(
    lhs: tuple[int, ...], rhs: tuple[int, ...], sizes: list[int], call: str
) -> None:
    table = np.array(sizes, np.int32)
    text = f"""HloModule m
ENTRY main {{
  a = f32[{",".join(map(str, lhs))}] parameter(0)
  b = f32[{",".join(map(str, rhs))}] parameter(1)
  s = s32[{",".join(map(str, table.shape))}] parameter(2)
  ROOT r = {call}, lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}
}}"""
    rng = np.random.default_rng(0)
    check(text, [values(rng, "f32", lhs), values(rng, "f32", rhs), table], **_WIDE)


def test_infinity_of_one_group_stays_there() -> None:
    text = """HloModule m
ENTRY main {
  a = f32[4,2] parameter(0)
  b = f32[2,2,2] parameter(1)
  s = s32[2] constant({2, 2})
  ROOT r = f32[4,2] ragged-dot(a, b, s), lhs_contracting_dims={1}, rhs_contracting_dims={1},
    lhs_ragged_dims={0}, rhs_group_dims={0}
}"""
    b = np.ones((2, 2, 2), np.float32)
    b[1] = np.inf
    check(text, [np.zeros((4, 2), np.float32), b])


@pytest.mark.parametrize("result", ["f32", "bf16", "s32"])
def test_scaled_dot(result: str) -> None:
    text = f"""HloModule m
ENTRY main {{
  a = f8e4m3fn[2,8] parameter(0)
  b = f8e5m2[8,4] parameter(1)
  c = f8e8m0fnu[2,2] parameter(2)
  d = f8e8m0fnu[2,4] parameter(3)
  ROOT r = {result}[2,4] scaled-dot(a, b, c, d), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{0}}
}}"""
    rng = np.random.default_rng(0)
    scales = [
        (2.0 ** rng.integers(-3, 4, dims)).astype(ml_dtypes.float8_e8m0fnu)
        for dims in ((2, 2), (2, 4))
    ]
    check(text, [values(rng, "f8e4m3fn", (2, 8)), values(rng, "f8e5m2", (8, 4)), *scales])


def test_rows_of_no_group_are_nan_in_a_type_without_zero() -> None:
    text = """HloModule m
ENTRY main { a = f8e8m0fnu[3,2] parameter(0)  b = f8e8m0fnu[1,2,2] parameter(1)
  s = s32[1] parameter(2)
  ROOT r = f8e8m0fnu[3,2] ragged-dot(a, b, s), lhs_contracting_dims={1},
    rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0} }"""
    ones = [np.ones(dims, ml_dtypes.float8_e8m0fnu) for dims in ((3, 2), (1, 2, 2))]
    (got,) = check(text, [*ones, np.array([2], np.int32)])
    assert np.isnan(got.astype(np.float32)).tolist() == [[False] * 2, [False] * 2, [True] * 2]


def test_a_long_product_is_a_sum_of_short_ones() -> None:
    """In one chain of additions it would be off by some ten units in the last place."""
    rng = np.random.default_rng(0)
    x, y = (rng.random(dims, np.float32) for dims in ((1, 10000), (10000, 64)))
    text, _ = dot(1, 10000, 64, ("f32", "f32", "f32"))
    (got,) = run_leaves(text, [x, y])
    want = x.astype(np.float64) @ y.astype(np.float64)
    assert np.max(np.abs(got / want - 1)) < 4 * np.finfo(np.float32).eps


def test_all_small_sizes() -> None:
    for m, k, n in itertools.product((1, 3), (1, 2, 17), (1, 5)):
        text, args = dot(m, k, n, ("f32", "f32", "f32"))
        check(text, args, **_WIDE)


_E8_TINY = {
    "elementwise": "f8e8m0fnu[2] multiply(a, b)",
    "dot": "f8e8m0fnu[2,2] dot(a, b), lhs_contracting_dims={}, rhs_contracting_dims={}",
    "into it": "f8e8m0fnu[2,2] dot(f, g), lhs_contracting_dims={}, rhs_contracting_dims={}",
    "convolution": "f8e8m0fnu[1,2,1] convolution(x, y), window={size=1}, dim_labels=b0f_0io->b0f",
    "cholesky": "f8e8m0fnu[2,2] cholesky(m), lower=true",
    "triangular-solve": "f8e8m0fnu[2,1] triangular-solve(m, w), left_side=true, lower=true, "
    "transpose_a=NO_TRANSPOSE",
}


@pytest.mark.parametrize("name", _E8_TINY)
def test_what_underflows_in_a_type_without_zero_is_nan(name: str) -> None:
    """Arithmetic is f32's: what is a positive number there rounds up to the least, zero is NaN."""
    text = f"""HloModule m
ENTRY main {{
  a = f8e8m0fnu[2] parameter(0)  b = f8e8m0fnu[2] parameter(1)  m = f8e8m0fnu[2,2] parameter(2)
  f = f32[2] convert(a)  g = f32[2] convert(b)  w = f8e8m0fnu[2,1] reshape(a)
  x = f8e8m0fnu[1,2,1] reshape(a)  c = f8e8m0fnu[1] slice(b), slice={{[1:2]}}
  y = f8e8m0fnu[1,1,1] reshape(c)
  ROOT r = {_E8_TINY[name]}
}}"""
    a, b, m = (
        np.array(v).astype(ml_dtypes.float8_e8m0fnu)
        for v in ([2.0**-127, 2.0**-60], [2.0**-4, 2.0**-120], [[2.0**120, 1], [2.0**-127, 1]])
    )
    (got,) = check(text, [a, b, m])
    values = got.astype(np.float32)
    assert np.isnan(values).any()
    if name in ("elementwise", "dot", "into it"):
        assert (values == 2.0**-127).any()


# --- operands that are computed while they are packed -------------------------------------------

DEQUANTIZED = """HloModule m
ENTRY main {{
  x = {float}[{m},300] parameter(0)
  w = s8[{dims}] parameter(1)
  scale = {float}[{n}] parameter(2)
  f = {float}[{dims}] convert(w)
  s = {float}[{dims}] broadcast(scale), dimensions={{{columns}}}
  y = {float}[{dims}] multiply(f, s)
  ROOT z = {float}[{m},{n}] dot({order}), {contracting}
}}"""


@pytest.mark.parametrize("m", [1, 7, 200])
@pytest.mark.parametrize("n", [232, 333])
@pytest.mark.parametrize("et", ["f32", "f64", "bf16"])
def test_an_operand_is_computed_while_it_is_packed(m: int, n: int, et: str) -> None:
    text = DEQUANTIZED.format(
        float=et, m=m, n=n, dims=f"300,{n}", columns=1, order="x, y",
        contracting="lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )  # fmt: skip
    rng = np.random.default_rng(m + n)
    dtype = ELEMENT_TYPES[et].dtype
    w = rng.integers(-128, 128, (300, n)).astype(np.int8)
    args = [rng.normal(size=(m, 300)).astype(dtype), w, rng.normal(size=n).astype(dtype)]
    check(text, args, **(_NARROW if et == "bf16" else {"rtol": 1e-4, "atol": 1e-2}))
    (kernel,) = (i for i, r in assign_roles(parse(text).entry).items() if r is Role.KERNEL)
    assert kernel.opcode == "dot"


def test_an_operand_in_another_order_is_in_memory() -> None:
    text = DEQUANTIZED.format(
        float="f32", m=7, n=256, dims="256,300", columns=0, order="x, y",
        contracting="lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    )  # fmt: skip
    kernels = [i for i, r in assign_roles(parse(text).entry).items() if r is Role.KERNEL]
    assert [i.opcode for i in kernels] == ["multiply", "dot"]


@pytest.mark.parametrize(
    "types",
    [("f32", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f8e5m2", "f32"), ("s8", "s32")],
    ids="-".join,
)
def test_a_row_by_a_matrix(types: tuple[str, str]) -> None:
    et, result = types
    rng = np.random.default_rng(1)
    lines, args, names, shapes = list[str](), list[np.ndarray](), list[str](), list[str]()
    for number, (k, n, is_row) in enumerate(
        [(1, 3, 1), (13, 64, 1), (700, 300, 1), (1300, 600, 1), (90, 333, 0), (1100, 520, 0)]
    ):
        left, right = (f"{k}", f"{k},{n}") if is_row else (f"{k},{n}", f"{k}")
        lines.append(f"""
  a{number} = {et}[{left}] parameter({2 * number})
  b{number} = {et}[{right}] parameter({2 * number + 1})
  c{number} = {result}[{n}] dot(a{number}, b{number}), lhs_contracting_dims={{0}},
    rhs_contracting_dims={{0}}""")
        for dims in (left, right):
            args.append(values(rng, et, tuple(map(int, dims.split(",")))))
        names.append(f"c{number}")
        shapes.append(f"{result}[{n}]")
    text = (
        f"HloModule m\nENTRY main {{{''.join(lines)}\n"
        f"  ROOT all = ({', '.join(shapes)}) tuple({', '.join(names)})\n}}"
    )
    check(text, args, **({"rtol": 1e-4, "atol": 2e-2} if result != "f16" else _NARROW))
    run = leaves(compiled_for(text, 1)(*args)), leaves(compiled_for(text, 3)(*args))
    assert_same(*run, rtol=0, atol=0)


def test_operands_that_are_computed_run_along_dimensions_that_are_there() -> None:
    """The innermost dimension of the second operand has one element, and is read from tiles."""
    module = hlo.parse("""HloModule m,
  entry_computation_layout={(f32[8,1]{1,0}, f32[1,3]{1,0:T(2,2)})->f32[8,3]{1,0}}
ENTRY main {
  a = f32[8,1]{1,0} parameter(0)
  b = f32[1,3]{0,1} parameter(1)
  ROOT c = f32[8,3]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
    a, b = np.arange(8, dtype=np.float32).reshape(8, 1), np.float32([[1, 2, 3]])
    np.testing.assert_array_equal(hlo.compile(module, cache=False, passes="")(a, b), a @ b)
