"""Elementwise operations, compiled, on every element type: equal to the reference on edge values.

One module for each type computes all operations that the table defines for it. Reals may differ by
`_ULP` units in the last place, complex numbers by `_COMPLEX_ULP` units of their modulus; NaN,
infinities and signs of zero have to be the same, what is exact bit for bit.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.codegen.pipeline import emit_program
from hlo.codegen.targets.cpu import cpu_target
from hlo.errors import HloError
from hlo.ops.elementwise.casts import UNSIGNED_OF
from hlo.runtime.jit import Machine
from hlo.values.types import ELEMENT_TYPES, ElementType, complex_part, element_type, integer_range

FLOATS = [t.name for t in ELEMENT_TYPES.values() if t.is_float]
COMPLEX = [t.name for t in ELEMENT_TYPES.values() if t.is_complex]
INTEGERS = [t.name for t in ELEMENT_TYPES.values() if t.is_integer or t.is_pred]
UNARY = """abs acos acosh asin asinh atanh cbrt ceil cosine cosh count-leading-zeros erf exponential
exponential-minus-one floor imag is-finite log log-plus-one logistic negate not popcnt real
round-nearest-afz round-nearest-even rsqrt sign sine sinh sqrt tan tanh""".split()
BINARY = """add and atan2 divide maximum minimum mulhi multiply or power remainder shift-left
shift-right-arithmetic shift-right-logical subtract xor complex""".split()
EXACT = """abs add and ceil clamp convert count-leading-zeros divide floor imag maximum minimum
mulhi multiply negate not or popcnt real remainder round-nearest-afz round-nearest-even shift-left
shift-right-arithmetic shift-right-logical sign sqrt subtract xor""".split()
_ULP = {64: 3, 32: 2, 16: 1, 8: 1, 6: 1, 4: 1}
_COMPLEX_ULP = {"c64": 4, "c128": 64}
# A logarithm near 0 of a quotient near 1: the formula itself loses what is beyond this.
_ATAN2_ERROR = {"c64": 1e-7, "c128": 1e-11}


def values(et: ElementType) -> np.ndarray:
    """Return the values at which operations change their mind, and some ordinary ones."""
    if et.is_pred:
        return np.array([False, True])
    if et.is_integer:
        low, high = integer_range(et)
        some = {low, low + 1, high, high - 1, high // 3, et.bits - 1, et.bits, et.bits + 1}
        kept = sorted(v for v in some | {0, 1, 2, 3, 5, -1, -2, -3, -7} if low <= v <= high)
        return np.array(kept, np.int64 if et.is_signed else np.uint64).astype(et.dtype)
    if et.is_complex:
        parts = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 30.0])
        both = list(itertools.product(parts, parts))
        z = np.empty(len(both), et.dtype)
        z.real, z.imag = zip(*both, strict=True)
        return z
    if et.bits <= 8:
        return np.arange(1 << et.bits, dtype=np.uint8).view(et.dtype)
    info = ml_dtypes.finfo(et.dtype)
    some = [
        np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0,
        10.0, -10.0, 20.0, 100.0, -100.0, 88.8, -88.0, -103.5, 709.0, -745.0, 1e-4, -1e-4,
        0.99999, -0.99999, 0.41421, 0.49999997, -0.49999997, 8388609.0, 1e22, 1e5, -6.4e3, 0.3,
        -7.7, 0.87, 3.1415927, 3.1415927,
        float(info.max), float(info.min), float(info.tiny), -float(info.tiny),
        float(info.smallest_subnormal), -float(info.smallest_subnormal), 3 * float(info.tiny),
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.array(some).astype(et.dtype)


def run(calls: Sequence[tuple[str, str]], args: Sequence[np.ndarray]) -> tuple[list, list]:
    """Return what (result type, call) pairs give compiled and interpreted."""
    n = args[0].size
    lines = [
        f"p{i} = {hlo.values.types.element_type_of(a.dtype)}[{n}] parameter({i})"
        for i, a in enumerate(args)
    ]
    lines += [f"r{i} = {t}[{n}] {c}" for i, (t, c) in enumerate(calls)]
    names = ", ".join(f"r{i}" for i in range(len(calls)))
    shapes = ", ".join(f"{t}[{n}]" for t, _ in calls)
    body = "\n".join([*lines, f"ROOT out = ({shapes}) tuple({names})"])
    module = hlo.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n")
    return hlo.compile(module, cache=False)(*args), hlo.interpret(module, *args)


def is_valid(op: str, et: str, arity: int) -> str | None:
    """Return the result type of an operation on a type, or None where there is no such thing."""
    result = {"is-finite": "pred", "compare": "pred", "complex": f"c{element_type(et).bits * 2}",
              "abs": complex_part(element_type(et)).name}.get(op, et)  # fmt: skip
    if op in ("real", "imag"):
        result = complex_part(element_type(et)).name
    if result not in ELEMENT_TYPES:
        return None
    operands = ", ".join(f"{et}[2] x{i}" for i in range(arity))
    try:
        hlo.verify(hlo.parse(f"{result}[2] {op}({operands})"))
    except HloError:
        return None
    return result


def defined(ops: Sequence[str], et: str, arity: int) -> list[tuple[str, str]]:
    names = ", ".join(f"p{i}" for i in range(arity))
    found = [(is_valid(op, et, arity), f"{op}({names})") for op in ops]
    return [(t, call) for t, call in found if t is not None]


def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return how many units in the last place lie between floats; 0 between NaNs."""

    def key(a: np.ndarray) -> np.ndarray:
        bits = a.view(f"i{a.itemsize}").astype(object)
        width = element_type_bits(a)
        sign = 1 << (width - 1)
        return np.array([int(b) if int(b) % (2 * sign) < sign else -(int(b) % sign) for b in bits])

    apart = np.abs(key(x) - key(y))
    nan = np.isnan(wide(x)), np.isnan(wide(y))
    zeros = (wide(x) == 0) & (wide(y) == 0)
    signs = np.signbit(wide(x)) != np.signbit(wide(y))
    apart = np.where(zeros, np.where(signs, 10**9, 0), apart)
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] | nan[1], 10**9, apart))


def element_type_bits(a: np.ndarray) -> int:
    return hlo.values.types.element_type_of(a.dtype).bits


def wide(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float64)


def complex_distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the distance of complex numbers in units of the modulus' last place."""
    part = np.float32 if x.dtype == np.complex64 else np.float64
    apart = np.zeros(x.shape)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(y.real), np.abs(y.imag))
        for a, b in ((x.real, y.real), (x.imag, y.imag)):
            same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
            # C99 leaves open the sign of an infinity beside NaN.
            same |= np.isinf(a) & np.isinf(b) & (np.isnan(y.real) | np.isnan(y.imag))
            finite = np.isfinite(a) & np.isfinite(b)
            unit = np.spacing(np.where(np.isfinite(size), size, 1).astype(part))
            error = np.where(finite, np.abs(a - b) / unit, 1e9)
            apart = np.maximum(apart, np.where(same, 0, error))
    return apart


def check(calls: Sequence[tuple[str, str]], args: Sequence[np.ndarray]) -> None:
    got, want = run(calls, args)
    wrong = []
    for (result, call), g, w in zip(calls, got, want, strict=True):
        et = element_type(result)
        op = call.split("(")[0]
        if et.is_complex:
            apart, limit = complex_distance(g, w), _COMPLEX_ULP[et.name]
            if op in ("atan2", "power"):
                size = np.maximum(1.0, np.abs(w)) if op == "atan2" else np.abs(w)
                with np.errstate(invalid="ignore"):
                    close = np.abs(g - w) <= _ATAN2_ERROR[et.name] * size
                apart = np.where(close, 0, apart)
        elif et.is_float:
            limit = 0 if op in EXACT else _ULP[et.bits]
            if args[0].dtype.kind == "c":
                limit = _COMPLEX_ULP["c64" if et.bits == 32 else "c128"]
            apart = distance(g, w)
        else:
            apart, limit = (g != w).astype(int), 0
        bad = apart > limit
        if bad.any():
            at = np.nonzero(bad)[0][:6]
            wrong.append(
                f"{result} {call}: {bad.sum()} of {g.size}: "
                + "; ".join(f"{[a[i] for a in args]} gives {g[i]}, not {w[i]}" for i in at)
            )
    assert not wrong, "\n".join(wrong)


def pairs(v: np.ndarray) -> list[np.ndarray]:
    return [np.repeat(v, v.size), np.tile(v, v.size)]


@pytest.mark.parametrize("et", [*FLOATS, *COMPLEX, *INTEGERS])
def test_unary(et: str) -> None:
    check(defined(UNARY, et, 1), [values(element_type(et))])


@pytest.mark.parametrize("et", [*FLOATS, *COMPLEX, *INTEGERS])
def test_binary(et: str) -> None:
    v = values(element_type(et))
    args = pairs(v[:: max(1, v.size // 64)] if et not in COMPLEX else v[::3])
    calls = defined(BINARY, et, 2)
    directions = ["EQ", "NE"] if et in COMPLEX else ["EQ", "NE", "LT", "LE", "GT", "GE"]
    calls += [("pred", f"compare(p0, p1), direction={d}") for d in directions]
    if et in (*FLOATS, *COMPLEX):
        calls += [("pred", f"compare(p0, p1), direction={d}, type=TOTALORDER") for d in directions]
    check(calls, args)


@pytest.mark.parametrize("et", [*FLOATS, *COMPLEX, *INTEGERS])
def test_ternary(et: str) -> None:
    v = values(element_type(et))
    v = v[:: max(1, v.size // 12)]
    low, x, high = (a.reshape(-1) for a in np.meshgrid(v, v, v))
    check([(et, "clamp(p0, p1, p2)")], [low, x, high])
    p = np.arange(x.size) % 3 == 0
    check([(et, "select(p0, p1, p2)")], [p, x, high])


@pytest.mark.parametrize("et", list(ELEMENT_TYPES))
def test_convert_to_every_type(et: str) -> None:
    v = values(element_type(et))
    check([(t, "convert(p0)") for t in ELEMENT_TYPES], [v])


@pytest.mark.parametrize("et", FLOATS)
def test_reduce_precision(et: str) -> None:
    formats = [(1, 0), (2, 1), (4, 3), (5, 2), (5, 10), (8, 7), (8, 23), (11, 52), (3, 30)]
    name = "reduce-precision(p0), exponent_bits={}, mantissa_bits={}"
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [values(element_type(et)), (rng.normal(size=500) * 8).astype(element_type(et).dtype)]
    )
    check([(et, name.format(e, m)) for e, m in formats], [x])


@pytest.mark.parametrize("et", ["f64", "f32", "bf16", "f16", "f8e5m2", "f4e2m1fn"])
def test_stochastic_convert(et: str) -> None:
    v = values(element_type(et))
    random = UNSIGNED_OF[element_type(et).bits]
    r = np.linspace(0, integer_range(random)[1], 9).astype(np.float64)
    r = (
        np.minimum(r, float(integer_range(random)[1]) * 0.999)
        .astype(np.uint64)
        .astype(random.dtype)
    )
    x, y = np.repeat(v, r.size), np.tile(r, v.size)
    targets = [t.name for t in ELEMENT_TYPES.values() if t.is_signed]
    check([(t, "stochastic-convert(p0, p1)") for t in targets], [x, y])


@pytest.mark.parametrize("et", list(ELEMENT_TYPES))
def test_bitcast_convert_to_every_type(et: str) -> None:
    """Widths may differ: a last dimension comes or goes."""
    source = element_type(et)
    rng = np.random.default_rng(0)
    args, lines, shapes = [], [], []
    for t in ELEMENT_TYPES.values():
        # Any byte but 0 and 1 is no pred.
        if t.is_complex != source.is_complex or (t.is_pred and not source.is_pred):
            continue
        ratio, rest = divmod(max(source.bits, t.bits), min(source.bits, t.bits))
        if rest:  # six bits and any others
            continue
        args.append(random_bits(rng, (6, ratio) if source.bits < t.bits else (6,), source))
        dims = ",".join(map(str, args[-1].shape))
        shapes.append(f"{t}[6]" if source.bits <= t.bits else f"{t}[6,{ratio}]")
        n = len(lines)
        lines.append(
            f"p{n} = {et}[{dims}] parameter({n})\nr{n} = {shapes[-1]} bitcast-convert(p{n})"
        )
    names = ", ".join(f"r{n}" for n in range(len(lines)))
    body = "\n".join([*lines, f"ROOT out = ({', '.join(shapes)}) tuple({names})"])
    module = hlo.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n")
    got, want = hlo.compile(module, cache=False)(*args), hlo.interpret(module, *args)
    for g, w, shape, x in zip(got, want, shapes, args, strict=True):
        nan = w.dtype.kind in "fcV"
        assert np.array_equal(g, w, equal_nan=nan), (shape, x, g, w)


def random_bits(rng: np.random.Generator, dims: tuple[int, ...], et: ElementType) -> np.ndarray:
    """Return numbers of random bits, none of them NaN, whose payload no one promises."""
    raw = rng.integers(0, 2 if et.is_pred else 256, (*dims, et.byte_width), dtype=np.uint8)
    if et.bits < 8:
        raw &= (1 << et.bits) - 1
        if et.is_integer:
            return raw[..., 0].astype(et.dtype)
    x = raw.view(et.dtype)[..., 0]
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(x), et.dtype.type(1), x)


# --- loops with rare cases ----------------------------------------------------------------------


@pytest.mark.parametrize("et", ["f32", "f64", "bf16", "c64"])
def test_rare_angles_among_others(et: str) -> None:
    """A strip of a loop in which an angle is of very many turns is computed again."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=1000) * 3).astype(element_type(et).dtype)
    x[[5, 300, 301, 999]] = [1e30, 1e6, -7e4, 12345.0]
    for op in ("sine", "cosine", "tan"):
        limit = _COMPLEX_ULP.get(et, _ULP[min(element_type(et).bits, 64)])
        text = f"{et}[1000] {op}({et}[1000] x)"
        got, want = hlo.compile(hlo.parse(text), cache=False)(x), hlo.interpret(hlo.parse(text), x)
        apart = complex_distance(got, want) if et in COMPLEX else distance(got, want)
        assert apart.max() <= limit


def test_rare_angles_where_a_loop_writes_over_what_it_reads() -> None:
    text = """HloModule m
    c { s = (s32[], f32[700]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(3)
        ROOT r = pred[] compare(i, n), direction=LT }
    b { s = (s32[], f32[700]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[700] get-tuple-element(s), index=1
        k = s32[] constant(1)
        j = s32[] add(i, k)
        y = f32[700] sine(x)
        z = f32[700] multiply(y, x)
        ROOT r = (s32[], f32[700]) tuple(j, z) }
    ENTRY e { x = f32[700] parameter(0)
        i = s32[] constant(0)
        s = (s32[], f32[700]) tuple(i, x)
        w = (s32[], f32[700]) while(s), condition=c, body=b
        ROOT r = f32[700] get-tuple-element(w), index=1 }"""
    x = np.linspace(-8, 8, 700).astype(np.float32)
    x[[3, 255, 256, 699]] = [1e8, 8000.0, np.inf, 1e5]
    module = hlo.parse(text)
    got, want = hlo.compile(module, cache=False)(x), hlo.interpret(module, x)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-6)


# --- other machines -----------------------------------------------------------------------------

_TARGETS = [
    ("x86_64-unknown-linux-gnu", "x86-64", ""),
    ("aarch64-unknown-linux-gnu", "generic", ""),
    ("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c"),
    ("wasm32-unknown-unknown", "generic", ""),
]


@pytest.mark.parametrize(("triple", "cpu", "features"), _TARGETS)
def test_no_target_needs_a_library(triple: str, cpu: str, features: str) -> None:
    """What is called is defined, or copies or fills memory."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    calls, parameters = [], []
    for n, et in enumerate(["f16", "f32", "f64", "s64", "u8"]):
        parameters.append(f"p{n} = {et}[8] parameter({n})")
        floats = ["f16", "bf16", "f32", "f64", "s64", "u64", "s4", "f8e4m3fn"]
        unary = [(t, "convert({0})") for t in floats if t != et]
        unary += [(t, c.replace("p0", "{0}")) for t, c in defined(UNARY, et, 1)]
        binary = [(t, c.replace("p0", "{0}").replace("p1", "{0}"))
                  for t, c in defined(BINARY, et, 2)]  # fmt: skip
        calls += [f"{t}[8] {c.format(f'p{n}')}" for t, c in unary + binary]
    lines = [*parameters, *(f"r{i} = {c}" for i, c in enumerate(calls))]
    shapes = ", ".join(c.split(" ")[0] for c in calls)
    names = ", ".join(f"r{i}" for i in range(len(calls)))
    body = "\n".join([*lines, f"ROOT out = ({shapes}) tuple({names})"])
    module = hlo.parse(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n")
    machine = Machine(triple, cpu, features)
    target = cpu_target(triple, machine.data_layout, features)
    text = machine.assembly(machine.optimize(emit_program(module.entry, "entry", target).llvm))
    defined_here = set(re.findall(r"^([\w.$@]+):", text, re.M))
    called = re.findall(
        r"^\s+(?:callq?|jmpq?|bl|b|tail|call|jal)\s+\*?([A-Za-z_][\w.$]*)(?:@\w+)?(?:\(%rip\))?\s*$",
        text, re.M,
    )  # fmt: skip
    assert set(called) - defined_here <= {"memcpy", "memset", "memmove"}


# --- values of few bits -------------------------------------------------------------------------


def _compiled_and_interpreted(op: str, t: str, *args: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = args[0].size
    lines = [f"  {x} = {t}[{size}] parameter({n})\n" for n, x in enumerate("xy")]
    text = f"HloModule m\nENTRY e {{\n{''.join(lines)}  ROOT r = {t}[{size}] {op}(x, y)\n}}\n"
    module = hlo.parse(text)
    return hlo.compile(module, cache=False)(*args), hlo.interpret(module, *args)


@pytest.mark.parametrize("op", ["power", "atan2"])
@pytest.mark.parametrize("t", ["f8e4m3b11fnuz", "f8e5m2", "f6e3m2fn", "f16", "bf16"])
def test_results_in_the_middle_round_as_in_the_reference(op: str, t: str) -> None:
    et = ELEMENT_TYPES[t]
    word = f"u{et.dtype.itemsize}"
    if et.bits <= 8:
        values = np.arange(1 << et.bits, dtype=word).view(et.dtype)
        x, y = np.repeat(values, values.size), np.tile(values, values.size)
    else:
        rng = np.random.default_rng(0)
        x, y = (rng.integers(0, 1 << 16, 1 << 17).astype(word).view(et.dtype) for _ in range(2))
    got, want = _compiled_and_interpreted(op, t, x, y)
    both_nan = np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32))
    assert ((got.view(word) == want.view(word)) | both_nan).all()
    if op == "power" and t == "f8e5m2":
        # 3 * 3 lies between 8 and 10.
        assert want[(x == 3) & (y == 2)].tolist() == [8]


def test_numbers_below_the_normal_ones_of_f32_as_powers_of_two() -> None:
    values = np.ldexp(np.float32([1, 1.03125, 1.5, 1.96875, 0.5, 0.75]), -127).astype(np.float32)
    module = hlo.parse(
        "HloModule m\nENTRY e { p = f32[6] parameter(0)\n ROOT r = f8e8m0fnu[6] convert(p) }"
    )
    for found in (hlo.interpret(module, values), hlo.compile(module, cache=False)(values)):
        assert found.view(np.uint8).tolist() == [0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(("et", "least"), [("f32", -103.97), ("f64", -745.13)])
def test_exp_far_below_is_zero(et: str, least: float) -> None:
    dtype = ELEMENT_TYPES[et].dtype
    x = np.array([least, 1.001 * least, 1.5 * least, 2 * least, 1e3 * least, -np.inf], dtype)
    got = hlo.compile(hlo.parse(f"{et}[6] exponential({et}[6] x)"), cache=False)(x)
    np.testing.assert_array_equal(got > 0, [True] + [False] * 5)
