"""Loops over vectors: what loops become some, and that they compute the same."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.codegen.pipeline import emit_program
from hlo.codegen.targets.cpu import cpu_target
from hlo.runtime.jit import host_machine
from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES
from tests.harness.run_compiled import check

# Neither a multiple of a vector's elements, nor less than some vectors in a row.
SIZE = 1031
UNARY = {
    "float": "abs negate exponential log sine tanh sqrt rsqrt floor round-nearest-afz sign "
    "is-finite logistic cbrt erf log-plus-one",
    "integer": "abs negate not sign popcnt count-leading-zeros",
}
BINARY = {
    "float": "add subtract multiply divide maximum minimum atan2",
    "integer": "add subtract multiply maximum minimum and or xor shift-left "
    "shift-right-arithmetic shift-right-logical",
}
TYPES = "f32 f64 f16 bf16 f8e5m2 s1 u1 s8 u8 s16 s32 u32 s64 u64 pred c64".split()


def llvm(text: str, features: str = "+avx512bw,+avx512vl,+avx512f") -> str:
    machine = host_machine()
    target = cpu_target("x86_64-unknown-linux-gnu", machine.data_layout, features)
    return emit_program(hlo.parse(text).entry, "entry", target).llvm


def kind(name: str) -> str:
    return "integer" if ELEMENT_TYPES[name].is_integer else "float"


@pytest.mark.parametrize("name", TYPES)
def test_elementwise_operations_on_many_elements(name: str) -> None:
    et, lines = ELEMENT_TYPES[name], []
    unary, binary = UNARY[kind(name)].split(), BINARY[kind(name)].split()
    if name[0] == "u":
        unary = ["not", "popcnt", "count-leading-zeros"]
    if name == "pred":
        unary, binary = ["not"], ["and", "or", "xor"]
    if et.is_complex:
        unary, binary = ["negate", "real", "imag"], ["add", "multiply"]
    for n, op in enumerate(unary):
        shape = "pred" if op == "is-finite" else "f32" if op in ("real", "imag") else name
        lines.append(f"unary{n} = {shape}[{SIZE}] {op}(x)")
    lines += [f"binary{n} = {name}[{SIZE}] {op}(x, y)" for n, op in enumerate(binary)]
    values = [line.split(" ")[0] for line in lines]
    shapes = ", ".join(line.split(" ")[2] for line in lines)
    text = (
        f"HloModule m\nENTRY e {{ x = {name}[{SIZE}] parameter(0) y = {name}[{SIZE}] parameter(1)\n"
        + "\n".join(lines)
        + f"\nROOT t = ({shapes}) tuple({', '.join(values)}) }}"
    )
    rng = np.random.default_rng(0)
    check(text, [random_array(rng, et, (SIZE,), edges=True) for _ in range(2)])


@pytest.mark.parametrize("name", "f32 f64 bf16 s8 u16 s32 s64".split())
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_reductions_over_many_elements(name: str, op: str) -> None:
    start = {"add": "0", "multiply": "1", "maximum": "0", "minimum": "0"}[op]
    text = f"""HloModule m
    f {{ a = {name}[] parameter(0) b = {name}[] parameter(1) ROOT r = {name}[] {op}(a, b) }}
    ENTRY e {{ x = {name}[3,{SIZE}] parameter(0) s = {name}[] constant({start})
      ROOT r = {name}[3] reduce(x, s), dimensions={{1}}, to_apply=f }}"""
    x = random_array(np.random.default_rng(0), ELEMENT_TYPES[name], (3, SIZE))
    check(text, [1 + x / 4096 if op == "multiply" and name[0] in "bf" else x])


@pytest.mark.parametrize("size", [64, SIZE])
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("start", ["-inf", "inf", "0", "-0", "nan", "1e-42"])
def test_extrema_of_zeros_infinities_and_nan(op: str, start: str, name: str, size: int) -> None:
    text = f"""HloModule m
    f {{ a = {name}[] parameter(0) b = {name}[] parameter(1) ROOT r = {name}[] {op}(a, b) }}
    ENTRY e {{ x = {name}[12,{size}] parameter(0) s = {name}[] constant({start})
      ROOT r = {name}[12] reduce(x, s), dimensions={{1}}, to_apply=f }}"""
    x = np.random.default_rng(0).normal(size=(12, size))
    for row, value in enumerate((0.0, -0.0, 0.0, -0.0, np.inf, -np.inf, 1e-42, -1e-42)):
        x[row] = value
    x[2, size // 2], x[3, 3] = -0.0, 0.0
    x[8], x[9] = -abs(x[8]), abs(x[9])
    x[10, -1], x[11, 0] = np.nan, -np.nan
    check(text, [x.astype(ELEMENT_TYPES[name].dtype)], signed_zero=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[4096] add(f32[4096] a, f32[4096] b)", True),
        ("f32[80,64] broadcast(f32[64] a), dimensions={1}", True),
        ("f32[64,80] broadcast(f32[64] a), dimensions={0}", True),
        ("f32[64,70] broadcast(f32[64] a), dimensions={0}", True),
        ("s32[4096] iota(), iota_dimension=0", True),
        # Elements that lie apart, and integer division, are for LLVM to judge.
        ("s8[70] slice(s8[140] a), slice={[0:140:2]}", False),
        ("s32[4096] divide(s32[4096] a, s32[4096] b)", False),
    ],
)
def test_which_loops_become_loops_over_vectors(text: str, expected: bool) -> None:
    assert ("\nvectors" in llvm(text)) == expected


@pytest.mark.parametrize("name", ["f32", "s8"])
def test_machines_without_vectors_have_none(name: str) -> None:
    text = f"{name}[4096] add({name}[4096] a, {name}[4096] b)"
    target = cpu_target("riscv64-unknown-linux-gnu", "", "+m")
    assert "\nvectors" not in emit_program(hlo.parse(text).entry, "entry", target).llvm


def test_a_loop_that_LLVM_has_to_look_at_leaves_the_function_to_it() -> None:
    """Its vectorizer takes as long for one loop of a function as for all."""
    text = """HloModule m
    ENTRY e { x = f32[40,512] parameter(0) p = s32[40,512] parameter(1)
      c = s32[40,512] divide(p, p) f = f32[40,512] convert(c)
      z = f32[] constant(0) r = f32[40] reduce(x, z), dimensions={1}, to_apply=g
      ROOT t = (f32[40,512], f32[40]) tuple(f, r) }
    g { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"""
    functions = llvm(text).split("define ")
    assert any("\nvectors" in f for f in functions)
    assert all("\nvectors" not in f for f in functions if " sdiv " in f)


@pytest.mark.parametrize("size", [15, 16, 33, 63, 100, SIZE])
@pytest.mark.parametrize(("wide", "narrow"), [("u64", "u32"), ("f64", "f32"), ("s32", "s16")])
def test_a_few_wide_values_among_many_narrow_ones_take_two_vectors(
    wide: str, narrow: str, size: int
) -> None:
    lines, last = [], "n"
    for n in range(40):
        op = ("add", "multiply")[n % 2] if narrow[0] == "f" else ("add", "xor", "multiply")[n % 3]
        lines.append(f"  v{n} = {narrow}[{size}] {op}({last}, y)")
        last = f"v{n}"
    text = (
        f"HloModule m\nENTRY e {{ x = {wide}[{size}] parameter(0)\n"
        f"  y = {narrow}[{size}] parameter(1)\n"
        f"  n = {narrow}[{size}] convert(x)\n" + "\n".join(lines) + f"\n"
        f"  w = {wide}[{size}] convert({last})\n"
        f"  ROOT t = ({narrow}[{size}], {wide}[{size}]) tuple({last}, w) }}"
    )
    rng = np.random.default_rng(3)
    x = rng.integers(0, 1000, size).astype(ELEMENT_TYPES[wide].dtype)
    y = (rng.integers(1, 3, size) / 2).astype(ELEMENT_TYPES[narrow].dtype)
    check(text, [x, y])
    if size == SIZE:
        lanes = 512 // ELEMENT_TYPES[narrow].bits
        assert f"<{lanes} x {'float' if narrow == 'f32' else 'i' + narrow[1:]}>" in llvm(text)


# Below, at and above whole vectors of the narrowest and the widest types, and several of them.
SIZES = [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 257, 4097]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", "f32 f64 f16 bf16 s8 s16 s32 s64 pred".split())
def test_parts_of_vectors_are_written_and_no_more(name: str, size: int) -> None:
    """Rows follow each other in memory: what is written behind one shows in the next."""
    et = ELEMENT_TYPES[name]
    op = "xor" if name == "pred" else "add"
    text = f"""HloModule m
    ENTRY e {{ x = {name}[3,{size}] parameter(0) y = {name}[{size},3] parameter(1)
      z = {name}[{size}] parameter(2) w = {name}[3,{size}] transpose(y), dimensions={{1,0}}
      v = {name}[3,{size}] broadcast(z), dimensions={{1}}
      a = {name}[3,{size}] {op}(x, v) ROOT b = {name}[3,{size}] {op}(a, w) }}"""
    rng = np.random.default_rng(size)
    check(text, [random_array(rng, et, s) for s in ((3, size), (size, 3), (size,))])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["f32", "bf16", "f64", "s8"])
def test_long_loops_over_parts_of_vectors(name: str, size: int) -> None:
    """Loops of many operations are masked in all turns, which are of two vectors."""
    et = ELEMENT_TYPES[name]
    lines, last = [], "x"
    for n in range(40):
        lines.append(f"  v{n} = {name}[{size}] {('multiply', 'add', 'subtract')[n % 3]}({last}, y)")
        last = f"v{n}"
    text = (
        f"HloModule m\nENTRY e {{ x = {name}[{size}] parameter(0)\n"
        f"  y = {name}[{size}] parameter(1)\n" + "\n".join(lines) + f"\n"
        f"  ROOT r = {name}[{size}] negate({last}) }}"
    )
    rng = np.random.default_rng(size)
    small = [rng.integers(-2, 3, size).astype(et.dtype) / et.dtype.type(2) for _ in range(2)]
    whole = [rng.integers(-128, 128, size).astype(np.int8) for _ in range(2)]
    check(text, whole if name == "s8" else [x.astype(et.dtype) for x in small])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "op"), [
    ("f32", "add"), ("f32", "maximum"), ("f64", "minimum"), ("s32", "add"), ("s8", "maximum"),
    ("u16", "minimum"), ("pred", "or"), ("pred", "and"),
])  # fmt: skip
def test_reductions_over_parts_of_vectors(name: str, op: str, size: int) -> None:
    start = {"or": "false", "and": "true", "add": "0", "maximum": "0", "minimum": "7"}[op]
    text = f"""HloModule m
    f {{ a = {name}[] parameter(0) b = {name}[] parameter(1) ROOT r = {name}[] {op}(a, b) }}
    ENTRY e {{ x = {name}[3,{size}] parameter(0) s = {name}[] constant({start})
      ROOT r = {name}[3] reduce(x, s), dimensions={{1}}, to_apply=f }}"""
    check(text, [random_array(np.random.default_rng(size), ELEMENT_TYPES[name], (3, size))])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("index", ["s32", "s64", "u16"])
@pytest.mark.parametrize("name", ["f32", "f64", "s32", "s8"])
def test_elements_that_lie_apart(name: str, index: str, size: int) -> None:
    """Short loops over them are of two vectors a turn, long ones of one."""
    add = "\n".join(f"  v{n + 1} = {name}[{size}] add(v{n}, y)" for n in range(30))
    text = f"""HloModule m
    ENTRY e {{ x = {name}[300] parameter(0) i = {index}[{size},1] parameter(1)
      y = {name}[{size}] parameter(2) z = {name}[{size},9] parameter(3)
      g = {name}[{size}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
      h = {name}[{size},1] slice(z), slice={{[0:{size}], [5:6]}} k = {name}[{size}] reshape(h)
      a = {name}[{size}] add(g, y) b = {name}[{size}] multiply(a, k)
      s = {name}[{size}] subtract(b, g) v0 = {name}[{size}] add(s, k)
    {add}
      ROOT t = ({name}[{size}], {name}[{size}]) tuple(s, v30) }}"""
    rng, et = np.random.default_rng(size), ELEMENT_TYPES[name]
    # Some are out of bounds.
    places = rng.integers(0 if index == "u16" else -9, 320, (size, 1))
    x, y, z = (rng.integers(-3, 4, s).astype(et.dtype) for s in (300, size, (size, 9)))
    check(text, [x, places.astype(ELEMENT_TYPES[index].dtype), y, z])
