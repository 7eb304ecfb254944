"""Semantics of PTX's integer instructions, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hlo.errors import HloError
from tests.gpu.instructions import ints, operation, run

_COUNT = 300
_REGISTER = {16: "%rs", 32: "%r", 64: "%rd"}


def signed(value: int, width: int) -> int:
    """Return the number that bits mean in two's complement."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


def check(
    name: str, widths: tuple[int, ...], result: int, expected: Callable[..., int], seed: int = 0
) -> None:
    """Compare an instruction of registers of widths with a function of unsigned integers."""
    rng = np.random.default_rng(seed)
    operands = [ints(rng, w, _COUNT) for w in widths]
    registers = [f"{_REGISTER[w]}{n}" for n, w in enumerate((result, *widths))]
    got = run(f"{name} {', '.join(registers)}", *(np.array(o, object) for o in operands))
    mask = (1 << result) - 1
    for found, *values in zip(got.tolist(), *operands, strict=True):
        assert found == expected(*values) & mask, (name, [hex(v) for v in values], hex(found))


def truncated(a: int, b: int) -> int:
    """Return a / b toward zero, or all bits set for 0."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("sign", ["s", "u"])
def test_sums_products_and_quotients(sign: str, width: int) -> None:
    t, w = f"{sign}{width}", (width, width)

    def number(v: int) -> int:
        return signed(v, width) if sign == "s" else v

    check(f"add.{t}", w, width, lambda a, b: a + b)
    check(f"sub.{t}", w, width, lambda a, b: a - b)
    check(f"mul.lo.{t}", w, width, lambda a, b: a * b)
    check(f"mul.hi.{t}", w, width, lambda a, b: number(a) * number(b) >> width)
    check(f"min.{t}", w, width, lambda a, b: min(number(a), number(b)))
    check(f"max.{t}", w, width, lambda a, b: max(number(a), number(b)))
    check(f"div.{t}", w, width, lambda a, b: truncated(number(a), number(b)))

    def rest(a: int, b: int) -> int:
        return number(a) - truncated(number(a), number(b)) * number(b) if b else a

    check(f"rem.{t}", w, width, rest)
    check(f"sad.{t}", (*w, width), width, lambda a, b, c: c + abs(number(a) - number(b)))
    check(f"mad.lo.{t}", (*w, width), width, lambda a, b, c: a * b + c)
    check(
        f"mad.hi.{t}", (*w, width), width,
        lambda a, b, c: (number(a) * number(b) >> width) + c,
    )  # fmt: skip


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("sign", ["s", "u"])
def test_wide_products(sign: str, width: int) -> None:
    def number(v: int) -> int:
        return signed(v, width) if sign == "s" else v

    t, w = f"{sign}{width}", (width, width)
    check(f"mul.wide.{t}", w, 2 * width, lambda a, b: number(a) * number(b))
    check(
        f"mad.wide.{t}", (*w, 2 * width), 2 * width, lambda a, b, c: number(a) * number(b) + c
    )  # fmt: skip


def test_products_of_24_bits() -> None:
    def low(v: int) -> int:
        return signed(v & 0xFFFFFF, 24)

    check("mul24.lo.s32", (32, 32), 32, lambda a, b: low(a) * low(b))
    check("mul24.hi.u32", (32, 32), 32, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16)
    check("mad24.lo.s32", (32, 32, 32), 32, lambda a, b, c: low(a) * low(b) + c)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_signs(width: int) -> None:
    check(f"neg.s{width}", (width,), width, lambda a: -a)
    check(f"abs.s{width}", (width,), width, lambda a: abs(signed(a, width)))


def test_sums_that_saturate() -> None:
    def clamped(v: int) -> int:
        return max(-(1 << 31), min((1 << 31) - 1, v))

    check("add.sat.s32", (32, 32), 32, lambda a, b: clamped(signed(a, 32) + signed(b, 32)))
    check("sub.sat.s32", (32, 32), 32, lambda a, b: clamped(signed(a, 32) - signed(b, 32)))


@pytest.mark.parametrize("width", [32, 64])
def test_chains_of_carries(width: int) -> None:
    """Numbers of two registers, in the way LLVM adds integers of twice the width."""
    rng = np.random.default_rng(1)
    a_low, a_high, b_low, b_high = (np.array(ints(rng, width, _COUNT), object) for _ in range(4))
    r = _REGISTER[width]
    a, b = (a_high << width) + a_low, (b_high << width) + b_low
    for name, total in (("add", a + b), ("sub", a - b)):
        low, carry = run(f"{name}.cc.u{width} {r}1, {r}2, {r}3", a_low, b_low)
        high = run(f"{name}c.u{width} {r}1, {r}2, {r}3", a_high, b_high, carry)
        got = (high.astype(object) << width) + low.astype(object)
        assert (got == total % (1 << (2 * width))).all()


def test_a_chain_of_products() -> None:
    low, carry = run("mad.lo.cc.u32 %r1, %r2, %r3, %r4", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    assert (int(low), bool(carry)) == (0, True)
    high, carry = run("madc.hi.cc.u32 %r1, %r2, %r3, %r4", 0xFFFFFFFF, 0xFFFFFFFF, 1, True)
    assert (int(high), bool(carry)) == (0, True)


def test_dot_products_of_bytes() -> None:
    def byte(v: int, n: int, sign: bool) -> int:
        b = v >> (8 * n) & 255
        return signed(b, 8) if sign else b

    def dot(a: int, b: int, c: int) -> int:
        return c + sum(byte(a, n, True) * byte(b, n, False) for n in range(4))

    check("dp4a.s32.u32", (32, 32, 32), 32, dot)

    def halves(a: int, b: int, c: int) -> int:
        parts = [signed(a >> s & 0xFFFF, 16) for s in (0, 16)]
        return c + sum(p * byte(b, n, True) for p, n in zip(parts, (2, 3), strict=True))

    check("dp2a.hi.s32.s32", (32, 32, 32), 32, halves)


# --- bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [16, 32, 64])
def test_logic_and_shifts(width: int) -> None:
    t, w = f"b{width}", (width, width)
    check(f"and.{t}", w, width, lambda a, b: a & b)
    check(f"or.{t}", w, width, lambda a, b: a | b)
    check(f"xor.{t}", w, width, lambda a, b: a ^ b)
    check(f"not.{t}", (width,), width, lambda a: ~a)
    check(f"cnot.{t}", (width,), width, lambda a: a == 0)
    r = _REGISTER[width]
    rng = np.random.default_rng(2)
    values = ints(rng, width, 140)
    counts = [*range(70), *range(width - 2, width + 3), 1 << 16, 1 << 31, (1 << 32) - 1]
    counts = (counts * 2)[:140]
    pairs = np.array(values[: len(counts)], object), np.array(counts, object)
    for name, expected in {
        f"shl.{t}": lambda a, n: a << min(n, width),
        f"shr.u{width}": lambda a, n: a >> min(n, width),
        f"shr.s{width}": lambda a, n: signed(a, width) >> min(n, width),
    }.items():
        got = run(f"{name} {r}1, {r}2, %r3", *pairs).tolist()
        mask = (1 << width) - 1
        assert got == [expected(a, n) & mask for a, n in zip(*pairs, strict=True)]


def test_logic_of_predicates() -> None:
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert run("and.pred %p1, %p2, %p3", a, b).tolist() == [False, False, False, True]
    assert run("or.pred %p1, %p2, %p3", a, b).tolist() == [False, True, True, True]
    assert run("xor.pred %p1, %p2, %p3", a, b).tolist() == [False, True, True, False]
    assert run("not.pred %p1, %p2", a).tolist() == [True, True, False, False]
    assert run("mov.pred %p1, %p2", a).tolist() == a.tolist()


def test_a_function_of_three_bits() -> None:
    for table in (0x80, 0x96, 0xE8, 0x1B):
        got = int(run(f"lop3.b32 %r1, %r2, %r3, %r4, {table}", 0xF0, 0xCC, 0xAA, table))
        assert got & 0xFF == table


def test_funnel_shifts() -> None:
    def whole(a: int, b: int) -> int:
        return b << 32 | a

    args = (32, 32, 32)
    check("shf.l.wrap.b32", args, 32, lambda a, b, n: whole(a, b) << (n & 31) >> 32)
    check("shf.r.wrap.b32", args, 32, lambda a, b, n: whole(a, b) >> (n & 31))
    check("shf.l.clamp.b32", args, 32, lambda a, b, n: whole(a, b) << min(n, 32) >> 32)
    check("shf.r.clamp.b32", args, 32, lambda a, b, n: whole(a, b) >> min(n, 32))


def extracted(a: int, start: int, length: int, width: int, *, sign: bool) -> int:
    """Return a field bit by bit."""
    start, length, last = start & 255, length & 255, width - 1
    fill = a >> min(start + length - 1, last) & 1 if sign and length else 0
    bits = [
        a >> (start + n) & 1 if n < length and start + n <= last else fill for n in range(width)
    ]
    return sum(bit << n for n, bit in enumerate(bits))


@pytest.mark.parametrize("width", [32, 64])
def test_fields(width: int) -> None:
    rng = np.random.default_rng(3)
    values = np.array(ints(rng, width, 500), object)
    base = np.array(ints(rng, width, 500), object)
    at, length = (np.array(rng.choice([*range(70), 255, 256, 300], 500), object) for _ in "ab")
    r = _REGISTER[width]
    for sign in "su":
        got = run(f"bfe.{sign}{width} {r}1, {r}2, %r3, %r4", values, at, length)
        rows = zip(values, at, length, strict=True)
        assert got.tolist() == [extracted(*row, width, sign=sign == "s") for row in rows]
    got = run(f"bfi.b{width} {r}1, {r}2, {r}3, %r4, %r5", values, base, at, length).tolist()
    for found, a, b, start, n in zip(got, values, base, at, length, strict=True):
        mask = ((1 << (n & 255)) - 1) << (start & 255) & ((1 << width) - 1)
        assert found == (a << (start & 255)) & mask | b & ~mask


def test_masks_and_extensions() -> None:
    assert int(run("bmsk.clamp.b32 %r1, %r2, %r3", 4, 8)) == 0xFF0
    assert int(run("bmsk.clamp.b32 %r1, %r2, %r3", 30, 8)) == 0xC0000000
    assert int(run("szext.clamp.s32 %r1, %r2, %r3", 0x1F8, 4)) == 0xFFFFFFF8
    assert int(run("szext.clamp.u32 %r1, %r2, %r3", 0x1F8, 4)) == 8
    assert int(run("szext.clamp.s32 %r1, %r2, %r3", 0x1F8, 0)) == 0


def test_permutations_of_bytes() -> None:
    a, b = 0x33221180, 0x77665544
    assert int(run("prmt.b32 %r1, %r2, %r3, %r4", a, b, 0x7510)) == 0x77551180
    # The sign of byte 0 is set, that of byte 1 is not.
    assert int(run("prmt.b32 %r1, %r2, %r3, %r4", a, b, 0x0098)) == 0x808000FF
    for mode, selector, expected in [
        ("f4e", 1, 0x44332211), ("b4e", 1, 0x66778011), ("rc8", 2, 0x22222222),
        ("ecl", 2, 0x33222222), ("ecr", 1, 0x11111180), ("rc16", 1, 0x33223322),
    ]:  # fmt: skip
        assert int(run(f"prmt.b32.{mode} %r1, %r2, %r3, %r4", a, b, selector)) == expected, mode


@pytest.mark.parametrize("width", [32, 64])
def test_counts(width: int) -> None:
    r = _REGISTER[width]
    rng = np.random.default_rng(4)
    values = [0, 1, (1 << width) - 1, *ints(rng, width, 200)]
    array = np.array(values, object)
    assert run(f"popc.b{width} %r1, {r}2", array).tolist() == [v.bit_count() for v in values]
    assert run(f"clz.b{width} %r1, {r}2", array).tolist() == [
        width - v.bit_length() for v in values
    ]
    assert run(f"brev.b{width} {r}1, {r}2", array).tolist() == [
        int(f"{v:0{width}b}"[::-1], 2) for v in values
    ]
    assert run(f"bfind.u{width} %r1, {r}2", array).tolist() == [
        (v.bit_length() - 1) % (1 << 32) for v in values
    ]


def test_the_highest_bit_that_differs_from_the_sign() -> None:
    values = np.array([-1, -2, 0, 5, -(1 << 31)], object)
    assert run("bfind.s32 %r1, %r2", values).astype(np.int32).tolist() == [-1, 0, -1, 2, 30]
    assert run("bfind.shiftamt.u32 %r1, %r2", np.array([0, 1], object)).tolist() == [
        0xFFFFFFFF, 31,
    ]  # fmt: skip


# --- comparisons ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [16, 32, 64])
def test_comparisons(width: int) -> None:
    rng = np.random.default_rng(5)
    a, b = (ints(rng, width, _COUNT) for _ in "ab")
    a[:20] = b[:20]
    r = _REGISTER[width]
    table = {
        "eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__",
        "ge": "__ge__", "lo": "__lt__", "ls": "__le__", "hi": "__gt__", "hs": "__ge__",
    }  # fmt: skip
    for sign in "us":
        for how, method in table.items():
            if sign == "s" and how in ("lo", "ls", "hi", "hs"):
                continue
            got = run(
                f"setp.{how}.{sign}{width} %p1, {r}2, {r}3",
                np.array(a, object),
                np.array(b, object),
            )
            numbers = [[signed(v, width) if sign == "s" else v for v in x] for x in (a, b)]
            expected = [getattr(x, method)(y) for x, y in zip(*numbers, strict=True)]
            assert got.tolist() == expected, (sign, how)


def test_comparisons_combined_with_a_predicate() -> None:
    values, other = np.array([1, 1, 2, 2], object), np.array([0, 1, 0, 1], bool)
    both = run("setp.eq.and.s32 %p1|%p2, %r1, %r2, %p3", values, 1, other)
    assert [p.tolist() for p in both] == [[False, True, False, False], [False, False, False, True]]
    got = run("setp.eq.or.s32 %p1, %r1, %r2, !%p3", values, 1, other)
    assert got.tolist() == [True, True, True, False]
    got = run("setp.ne.xor.s32 %p1, %r1, %r2, %p3", values, 1, other)
    assert got.tolist() == [False, True, True, False]


def test_choices() -> None:
    yes = np.array([1, 0], bool)
    assert run("selp.b64 %rd1, %rd2, %rd3, %p1", 5, 6, yes).tolist() == [5, 6]
    assert run("selp.b16 %rs1, %rs2, %rs3, %p1", 5, 6, yes).tolist() == [5, 6]
    by = np.array([-1, 0], object)
    assert run("slct.b32.s32 %r1, %r2, %r3, %r4", 5, 6, by).tolist() == [6, 5]
    assert run("set.lt.u32.s32 %r1, %r2, %r3", by, 0).tolist() == [0xFFFFFFFF, 0]
    assert run("set.lt.f32.s32 %r1, %r2, %r3", by, 0).tolist() == [0x3F800000, 0]


def test_moves_and_parts() -> None:
    assert int(run("mov.b32 %r1, %r2", 7)) == 7
    low, high = run("mov.b64 {%r1, %r2}, %rd3", 0x1234567890ABCDEF)
    assert (int(low), int(high)) == (0x90ABCDEF, 0x12345678)
    assert int(run("mov.b64 %rd1, {%r2, %r3}", 1, 2)) == (2 << 32) + 1
    assert int(run("mov.b32 %r1, {%rs2, %rs3}", 1, 2)) == (2 << 16) + 1
    parts = run("mov.b64 {%rs1, %rs2, %rs3, _}, %rd3", 0x1234567890ABCDEF)
    assert [int(p) for p in parts] == [0xCDEF, 0x90AB, 0x5678, 0x1234]


def test_unknown_instructions_are_errors() -> None:
    unknown = ".reg .b128 %q<2>; mov.b128 %q1, %q0"
    for text in (
        unknown,
        "frobnicate.b32 %r1, %r2",
        "add.b9 %r1, %r2, %r3",
        "cvt.frob.f32.f64 %r1, %rd1",
    ):
        with pytest.raises(HloError) as caught:
            operation(text)
        assert caught.value.code == "unsupported-ptx"
