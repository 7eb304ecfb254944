"""dot on GPUs: all types, layouts and sizes, and which kernels compute it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hlo.codegen.targets.gpu.kernels.matmul import choice
from hlo.codegen.targets.gpu.kernels.matmul.tiles import Tiling, WarpTiling
from tests.gpu.emulated import check_emulated, program

TYPES = (
    "pred s4 u4 s8 u8 s16 u16 s32 u32 s64 u64 f4e2m1fn f8e4m3fn f8e5m2 f8e4m3b11fnuz f8e4m3fnuz "
    "f8e5m2fnuz f8e3m4 f8e8m0fnu bf16 f16 f32 f64 c64 c128"
).split()


def dot(
    sizes: tuple[int, int, int], types: str = "f32", result: str = "", lhs: str = "mk",
    rhs: str = "kn", batch: int = 0, extra: str = "",
) -> str:  # fmt: skip
    """Return a product of m by n by k. types: of the operands, one or two. lhs, rhs: which
    dimensions they have, in order."""
    size = {**dict(zip("mnk", sizes, strict=True)), "b": batch}
    if batch:
        lhs, rhs = ("b" + s if "b" not in s else s for s in (lhs, rhs))
        extra += f", lhs_batch_dims={{{lhs.index('b')}}}, rhs_batch_dims={{{rhs.index('b')}}}"
    a, w = (",".join(str(size[c]) for c in side) for side in (lhs, rhs))
    out = ",".join(str(size[c]) for c in ("bmn" if batch else "mn"))
    left, *right = types.split()
    second = right[0] if right else left
    return f"""
HloModule m
ENTRY e {{
  a = {left}[{a}] parameter(0)
  w = {second}[{w}] parameter(1)
  ROOT d = {result or left}[{out}] dot(a, w), lhs_contracting_dims={{{lhs.index("k")}}},
    rhs_contracting_dims={{{rhs.index("k")}}}{extra}
}}"""


@pytest.mark.parametrize("et", TYPES)
def test_every_type(et: str) -> None:
    check_emulated(dot((37, 41, 29), et))
    check_emulated(dot((5, 3, 9), et))
    check_emulated(dot((9, 2, 150), et, lhs="km"))


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (1, 300, 64), (300, 1, 64), (2, 2, 5000), (16, 16, 3000), (129, 127, 17),
     (8, 8, 8), (7, 500, 500), (3, 4, 0), (0, 4, 3), (65, 65, 3001)],
)  # fmt: skip
def test_sizes(sizes: tuple[int, int, int]) -> None:
    check_emulated(dot(sizes))


@pytest.mark.parametrize(
    "types",
    ["f16 > f32", "bf16 > bf16", "f32 > f32", "f64 > f64", "s8 > s32", "u8 > u32", "s8 u8 > s32",
     "f8e4m3fn f8e5m2 > f32", "bf16 f16 > f32", "s4 s8 > s8", "bf16 f32 > f32"],
)  # fmt: skip
@pytest.mark.parametrize(("lhs", "rhs"), [*product(("mk", "km"), ("kn", "nk"))])
def test_tensor_cores(types: str, lhs: str, rhs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_LEAST_SPLIT", 0)
    operands, result = types.split(" > ")
    check_emulated(dot((32, 48, 64), operands, result, lhs, rhs))
    text = dot((35, 45, 39), operands, result, lhs, rhs)
    check_emulated(text)
    assert "mma.sync" in program(text)[1]


@pytest.mark.parametrize(
    ("m", "n", "rows", "columns"),
    [(64, 64, 2, 2), (128, 128, 2, 4), (128, 64, 2, 2), (128, 32, 4, 1), (32, 128, 1, 4),
     (128, 256, 2, 4), (256, 128, 4, 2)],
)  # fmt: skip
def test_tiles(m: int, n: int, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = WarpTiling(Tiling(m, n, 32), rows, columns, 4)
    monkeypatch.setattr(choice, "_tilings", lambda p, unit, most: [tiles])
    check_emulated(dot((m, n, 64), "f16", "f32"))
    check_emulated(dot((m + 1, n - 1, 40), "f16", "f32", "km", "nk"))


@pytest.mark.parametrize(("lhs", "rhs"), [*product(("mk", "km"), ("kn", "nk"))])
def test_matrix_and_vectors(lhs: str, rhs: str) -> None:
    for sizes in ((1, 300, 640), (300, 1, 640), (7, 50, 333), (2, 2, 5000)):
        check_emulated(dot(sizes, "f32", "", lhs, rhs))


def test_rows_are_read_sixteen_bytes_at_a_time() -> None:
    assert "ld.global.v4" in program(dot((1024, 1, 4096), "f32"))[1]


def test_batches() -> None:
    check_emulated(dot((20, 24, 30), batch=3))
    check_emulated(dot((20, 24, 30), batch=3, lhs="mbk", rhs="nkb"))
    check_emulated(dot((40, 48, 32), "bf16", batch=3))


def test_k_in_parts() -> None:
    text = dot((64, 64, 4096), "bf16", "f32")
    check_emulated(text)
    assert len(program(text)[0].plan.launches) == 2


def test_infinities_of_split_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_LEAST_SPLIT", 0)
    rng = np.random.default_rng(1)
    a, w = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    a[3, 5], a[7, 9], a[11, 2] = np.inf, -np.inf, np.nan
    # Of a number that tf32 has, nothing is left for the second part.
    w[5, 8], w[9, 9], w[5, 21], w[6, 30] = np.inf, np.nan, 0, -np.inf
    w[:, 20] = 1
    a[20], a[31], w[:, 41] = 1, 1e-40, 1e30
    check_emulated(dot((64, 64, 64)), a, w)


@pytest.mark.parametrize(
    ("extra", "instruction"),
    [
        ("", "tf32.tf32"),
        (", algorithm=dot_tf32_tf32_f32", "tf32.tf32"),
        (", algorithm=dot_bf16_bf16_f32", "bf16.bf16"),
        (", operand_precision={highest,highest}", "fma.rn.f32"),
    ],
)
def test_how_f32_is_multiplied(extra: str, instruction: str) -> None:
    code = program(dot((256, 256, 256), extra=extra))[1]
    assert instruction in code
    assert ("mma.sync" in code) == (instruction != "fma.rn.f32")


@pytest.mark.parametrize(
    "body",
    [
        "a = f32[] parameter(0) b = f32[] parameter(1) ROOT d = f32[] dot(a, b)",
        "a = f32[5] parameter(0) b = f32[6] parameter(1) ROOT d = f32[5,6] dot(a, b)",
        "a = f32[20,3,8] parameter(0) b = f32[8,3,24] parameter(1) ROOT d = f32[20,24] dot(a, b), "
        "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}",
        "a = bf16[40,48] parameter(0) w = bf16[48,40] parameter(1) x = f32[40,48] convert(a) "
        "y = f32[48,40] convert(w) ROOT d = f32[40,40] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
        "a = f32[48,40] parameter(0) w = f32[96,40] parameter(1) "
        "t = f32[40,48] transpose(a), dimensions={1,0} "
        "s = f32[48,40] slice(w), slice={[1:96:2],[0:40]} ROOT d = f32[40,40] dot(t, s), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = f32[400,200] parameter(0) w = f32[400,40] parameter(1) s = f32[] parameter(2) "
        "q = f32[400,200] broadcast(s), dimensions={} x = f32[400,200] multiply(a, q) "
        "ROOT d = f32[200,40] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ],
)
def test_operands_that_are_no_matrices(body: str) -> None:
    check_emulated(f"HloModule m\nENTRY e {{ {body} }}")


ENDINGS = {
    "bias and activation": """
      a = f32[25,12] parameter(0) w = f32[12,64] parameter(1) bias = f32[64] parameter(2)
      d = f32[25,64] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      bb = f32[25,64] broadcast(bias), dimensions={1} s = f32[25,64] add(d, bb)
      ROOT r = f32[25,64] tanh(s)""",
    "conversion": """
      a = bf16[70,64] parameter(0) w = bf16[64,64] parameter(1) bias = bf16[64] parameter(2)
      d = bf16[70,64] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      bb = bf16[70,64] broadcast(bias), dimensions={1} s = bf16[70,64] add(d, bb)
      ROOT r = f32[70,64] convert(s)""",
    "residual": """
      x = f32[64,64] parameter(0) w = f32[64,64] parameter(1)
      d = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      s = f32[64,64] add(d, x) ROOT r = f32[64,64] tanh(s)""",
    "index": """
      a = bf16[3,40,64] parameter(0) w = bf16[3,64,48] parameter(1)
      d = f32[3,40,48] dot(a, w), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={1}
      i = f32[3,40,48] iota(), iota_dimension=1 ROOT m = f32[3,40,48] multiply(d, i)""",
    "transposed": """
      a = bf16[40,64] parameter(0) w = bf16[64,48] parameter(1)
      d = f32[40,48] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      t = f32[48,40] transpose(d), dimensions={1,0} ROOT m = f32[48,40] tanh(t)""",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_what_is_computed_of_each_sum(name: str) -> None:
    text = f"HloModule m\nENTRY e {{ {ENDINGS[name]} }}"
    check_emulated(text)
    assert len(program(text)[0].plan.launches) == 1


def test_what_is_computed_of_sums_of_parts() -> None:
    text = """
HloModule m
ENTRY e {
  a = bf16[32,4096] parameter(0) w = bf16[4096,64] parameter(1) bias = f32[64] parameter(2)
  d = f32[32,64] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[32,64] broadcast(bias), dimensions={1} s = f32[32,64] add(d, bb)
  ROOT r = f32[32,64] multiply(s, s)
}"""
    check_emulated(text)
    assert len(program(text)[0].plan.launches) == 2


def test_copies_are_asynchronous_in_all_layouts() -> None:
    for et, (lhs, rhs) in product(("f16", "f32"), product(("mk", "km"), ("kn", "nk"))):
        code = program(dot((256, 256, 256), et, "f32", lhs, rhs))[1]
        assert "cp.async.cg.shared.global" in code
        assert "st.shared" not in code


def test_f8_is_multiplied_as_it_is_where_that_is_possible() -> None:
    text = dot((256, 256, 256), "f8e4m3fn f8e5m2", "f32", rhs="nk")
    assert "f32.e4m3.e5m2.f32" in program(text, "sm_100a")[1]
    assert "f32.f16.f16.f32" in program(text, "sm_90")[1]


def test_products_in_functions_of_elements() -> None:
    check_emulated("""
HloModule m
f {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  b = f32[3] broadcast(x), dimensions={}
  c = f32[3,2] broadcast(y), dimensions={}
  d = f32[2] dot(b, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  s = f32[1] slice(d), slice={[1:2]}
  ROOT r = f32[] reshape(s)
}
ENTRY e {
  a = f32[40] parameter(0)
  w = f32[40] parameter(1)
  ROOT m = f32[40] map(a, w), dimensions={0}, to_apply=f
}""")
