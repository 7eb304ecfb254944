"""Integer arithmetic: sums, products, quotients, chains of carries, dot products of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hlo.gpu.simt.instructions.code import BITS, LLVM_TYPES, Code, is_float
from hlo.gpu.simt.instructions.operation import Scalar, Semantics, UnknownInstruction

_TWICE = {"i16": "i32", "i32": "i64", "i64": "i128"}
_HALVES = "<2 x i16>"
_UFUNCS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def is_signed(type_: str) -> bool:
    """Return whether an integer type of PTX is signed."""
    return type_.startswith("s")


def _sum(opcode: str) -> Semantics:
    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        type_ = modifiers[-1]
        t = LLVM_TYPES[type_]
        if type_.endswith("x2"):
            return _of_halves(type_, lambda c, a, b: c.let(f"{opcode} {_HALVES} {a}, {b}"))
        if "sat" in modifiers:
            how = f"{'s' if is_signed(type_) else 'u'}{opcode}.sat"
            return Scalar((type_,) * 2, (type_,), lambda c, v: [c.intrinsic(how, t, *v)])
        return Scalar(
            (type_,) * 2, (type_,), lambda c, v: [c.let(f"{opcode} {t} {v[0]}, {v[1]}")],
            _UFUNCS[opcode],
        )  # fmt: skip

    return semantics


def _product(code: Code, type_: str, part: str, a: str, b: str) -> tuple[str, str]:
    """Return the low, the high or the whole (`wide`) product, and its LLVM type."""
    t = LLVM_TYPES[type_]
    if part == "lo":
        return code.let(f"mul {t} {a}, {b}"), t
    wide = _TWICE[t]
    a, b = (code.resize(t, v, wide, signed=is_signed(type_)) for v in (a, b))
    whole = code.let(f"mul {wide} {a}, {b}")
    if part == "wide":
        return whole, wide
    return code.let(f"trunc {wide} {code.let(f'lshr {wide} {whole}, {BITS[t]}')} to {t}"), t


def _part(modifiers: tuple[str, ...]) -> tuple[str, str, str]:
    """Return which part of a product is wanted, its factors' type, and that of the result."""
    type_ = modifiers[-1]
    part = next((m for m in modifiers if m in ("lo", "hi", "wide")), "")
    if not part:
        raise UnknownInstruction("a product of integers has to say lo, hi or wide")
    width = BITS[LLVM_TYPES[type_]] * (2 if part == "wide" else 1)
    return part, type_, f"{type_[0]}{width}"


def multiply(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`mul` of integers."""
    part, type_, result = _part(modifiers)
    return Scalar(
        (type_,) * 2, (result,), lambda c, v: [_product(c, type_, part, v[0], v[1])[0]],
        np.multiply if part == "lo" else None,
    )  # fmt: skip


def multiply_add(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`mad` of integers."""
    part, type_, result = _part(modifiers)

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        product, t = _product(c, type_, part, v[0], v[1])
        if "sat" in modifiers:
            return [c.intrinsic("sadd.sat", t, product, v[2])]
        return [c.let(f"add {t} {product}, {v[2]}")]

    return Scalar((type_, type_, result), (result,), emit)


def _multiply_24(with_sum: bool) -> Semantics:
    """`mul24` and `mad24`: of the low 24 bits."""

    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        part, type_, result = _part(modifiers)
        shift = "ashr" if is_signed(type_) else "lshr"

        def emit(c: Code, v: Sequence[str]) -> list[str]:
            factors = [c.let(f"{shift} i32 {c.let(f'shl i32 {x}, 8')}, 8") for x in v[:2]]
            wide = [c.resize("i32", x, "i64", signed=is_signed(type_)) for x in factors]
            product = c.let(f"mul i64 {wide[0]}, {wide[1]}")
            if part == "hi":
                product = c.let(f"lshr i64 {product}, 16")
            found = c.let(f"trunc i64 {product} to i32")
            return [c.let(f"add i32 {found}, {v[2]}") if with_sum else found]

        return Scalar((type_,) * (3 if with_sum else 2), (result,), emit)

    return semantics


def _quotient(opcode: str) -> Semantics:
    """`div` and `rem`: toward zero. A quotient by 0 has all bits set, as the hardware has it."""

    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        type_ = modifiers[-1]
        t = LLVM_TYPES[type_]
        how = f"{'s' if is_signed(type_) else 'u'}{opcode}"

        def emit(c: Code, v: Sequence[str]) -> list[str]:
            a, b = v
            is_zero = c.let(f"icmp eq {t} {b}, 0")
            divisor = c.select(is_zero, t, "1", b)
            if not is_signed(type_):
                found = c.let(f"{how} {t} {a}, {divisor}")
                return [c.select(is_zero, t, "-1" if opcode == "div" else a, found)]
            # The quotient of the lowest number by -1 is that number again.
            is_minus = c.let(f"icmp eq {t} {divisor}, -1")
            found = c.let(f"{how} {t} {a}, {c.select(is_minus, t, '1', divisor)}")
            opposite = c.let(f"sub {t} 0, {a}") if opcode == "div" else "0"
            found = c.select(is_minus, t, opposite, found)
            return [c.select(is_zero, t, "-1" if opcode == "div" else a, found)]

        return Scalar((type_,) * 2, (type_,), emit)

    return semantics


def _extreme(opcode: str) -> Semantics:
    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        type_ = modifiers[-1]
        how = f"{'s' if is_signed(type_) else 'u'}{opcode}"
        if type_.endswith("x2"):
            name = f"llvm.{how}.v2i16"
            return _of_halves(
                type_, lambda c, a, b: c.call(name, _HALVES, (_HALVES, a), (_HALVES, b))
            )

        def emit(c: Code, v: Sequence[str]) -> list[str]:
            t = LLVM_TYPES[type_]
            found = v[0]
            for x in v[1:]:
                found = c.intrinsic(how, t, found, x)
            if "relu" in modifiers:
                found = c.intrinsic("smax", t, found, "0")
            return [found]

        return Scalar((type_,) * sources, (type_,), emit)

    return semantics


def _of_halves(type_: str, one: Callable[[Code, str, str], str]) -> Scalar:
    """Return semantics of an operation on both numbers of pairs."""

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        a, b = (c.let(f"bitcast i32 {x} to {_HALVES}") for x in v)
        return [c.let(f"bitcast {_HALVES} {one(c, a, b)} to i32")]

    return Scalar((type_, type_), (type_,), emit)


def negate(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`neg` of integers."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]
    return Scalar((type_,), (type_,), lambda c, v: [c.let(f"sub {t} 0, {v[0]}")], np.negative)


def absolute(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`abs` of integers; of the lowest one it is that number."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        return [c.intrinsic("smax", t, v[0], c.let(f"sub {t} 0, {v[0]}"))]

    return Scalar((type_,), (type_,), emit)


def absolute_difference(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`sad`: c + |a - b|."""
    type_ = modifiers[-1]
    t, sign = LLVM_TYPES[type_], "s" if is_signed(type_) else "u"

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        high, low = (c.intrinsic(f"{sign}{how}", t, v[0], v[1]) for how in ("max", "min"))
        return [c.let(f"add {t} {v[2]}, {c.let(f'sub {t} {high}, {low}')}")]

    return Scalar((type_,) * 3, (type_,), emit)


# --- chains of carries ----------------------------------------------------------------------------


def carries(opcode: str, modifiers: tuple[str, ...]) -> tuple[bool, bool]:
    """Return whether an instruction reads the carry, and whether it writes it."""
    reads = opcode in ("addc", "subc", "madc")
    return reads, "cc" in modifiers and (reads or opcode in ("add", "sub", "mad"))


def _chain(opcode: str) -> Semantics:
    """`add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`; the carry is the last operand."""
    base = opcode.removesuffix("c")

    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        type_ = modifiers[-1]
        t = LLVM_TYPES[type_]
        wide = _TWICE[t]
        reads, writes = carries(opcode, modifiers)
        how = "sub" if base == "sub" else "add"

        def emit(c: Code, v: Sequence[str]) -> list[str]:
            a, b = v[0], v[1]
            if base == "mad":
                a, b = _product(c, type_, _part(modifiers)[0], a, b)[0], v[2]
            a, b = c.resize(t, a, wide), c.resize(t, b, wide)
            total = c.let(f"{how} {wide} {a}, {b}")
            if reads:
                carry = c.let(f"zext i1 {v[-1]} to {wide}")
                total = c.let(f"{how} {wide} {total}, {carry}")
            found = [c.let(f"trunc {wide} {total} to {t}")]
            if writes:
                rest = c.let(f"lshr {wide} {total}, {BITS[t]}")
                found.append(c.let(f"icmp ne {wide} {rest}, 0"))
            return found

        numbers = (type_,) * (3 if base == "mad" else 2)
        return Scalar(
            (*numbers, "pred") if reads else numbers, (type_, "pred") if writes else (type_,), emit
        )

    return semantics


# --- dot products ---------------------------------------------------------------------------------


def dot_of_bytes(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`dp4a.atype.btype`: four products of bytes and a sum."""
    a_signed, b_signed = (is_signed(m) for m in modifiers[-2:])

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        total = v[2]
        for n in range(4):
            a, b = _piece(c, v[0], n, 8, a_signed), _piece(c, v[1], n, 8, b_signed)
            total = c.let(f"add i32 {total}, {c.let(f'mul i32 {a}, {b}')}")
        return [total]

    return Scalar(("b32",) * 3, ("b32",), emit)


def dot_of_halves(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`dp2a.mode.atype.btype`: two products of halves and bytes, and a sum."""
    a_signed, b_signed = (is_signed(m) for m in modifiers[-2:])
    first = 2 if "hi" in modifiers else 0

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        total = v[2]
        for n in range(2):
            a, b = _piece(c, v[0], n, 16, a_signed), _piece(c, v[1], first + n, 8, b_signed)
            total = c.let(f"add i32 {total}, {c.let(f'mul i32 {a}, {b}')}")
        return [total]

    return Scalar(("b32",) * 3, ("b32",), emit)


def _piece(c: Code, value: str, number: int, width: int, signed: bool) -> str:
    """Return a byte or a half of an i32, extended."""
    top = c.let(f"shl i32 {value}, {32 - width * (number + 1)}")
    return c.let(f"{'ashr' if signed else 'lshr'} i32 {top}, {32 - width}")


SEMANTICS: dict[str, Semantics] = {
    "add": _sum("add"),
    "sub": _sum("sub"),
    "mul": multiply,
    "mad": multiply_add,
    "mul24": _multiply_24(False),
    "mad24": _multiply_24(True),
    "div": _quotient("div"),
    "rem": _quotient("rem"),
    "min": _extreme("min"),
    "max": _extreme("max"),
    "neg": negate,
    "abs": absolute,
    "sad": absolute_difference,
    "addc": _chain("addc"),
    "subc": _chain("subc"),
    "madc": _chain("madc"),
    "dp4a": dot_of_bytes,
    "dp2a": dot_of_halves,
}
CHAINS: dict[str, Semantics] = {o: _chain(o) for o in ("add", "sub", "mad", "addc", "subc", "madc")}


def integer_semantics(opcode: str, modifiers: tuple[str, ...]) -> Semantics | None:
    """Return the semantics of an instruction on integers, or None if it is of others."""
    if is_float(modifiers[-1]) if modifiers else True:
        return None
    return (CHAINS if any(carries(opcode, modifiers)) else SEMANTICS).get(opcode)
