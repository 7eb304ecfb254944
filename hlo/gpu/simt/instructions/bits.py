"""Bits: logic, shifts, fields, permutations of bytes, counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo.gpu.simt.instructions.code import BITS, LLVM_TYPES, Code
from hlo.gpu.simt.instructions.integer import is_signed
from hlo.gpu.simt.instructions.operation import Scalar, Semantics, UnknownInstruction

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def _logic(opcode: str) -> Semantics:
    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        type_ = modifiers[-1]
        t = LLVM_TYPES[type_]
        return Scalar(
            (type_,) * 2, (type_,), lambda c, v: [c.let(f"{opcode} {t} {v[0]}, {v[1]}")],
            _LOGIC[opcode],
        )  # fmt: skip

    return semantics


def invert(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`not`."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]
    return Scalar((type_,), (type_,), lambda c, v: [c.let(f"xor {t} {v[0]}, -1")], np.invert)


def is_nothing(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`cnot`: 1 if no bit is set, and else 0."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]
    return Scalar(
        (type_,), (type_,),
        lambda c, v: [c.let(f"zext i1 {c.let(f'icmp eq {t} {v[0]}, 0')} to {t}")],
    )  # fmt: skip


def lookup(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`lop3`: any function of three bits, by a table of 8."""
    if modifiers != ("b32",):
        raise UnknownInstruction("only lop3.b32 is known")

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        found = "0"
        for row in range(8):
            bit = c.let(f"and i32 {c.let(f'lshr i32 {v[3]}, {row}')}, 1")
            term = c.let(f"sub i32 0, {bit}")
            for n, x in enumerate(v[:3]):
                wanted = x if row >> (2 - n) & 1 else c.let(f"xor i32 {x}, -1")
                term = c.let(f"and i32 {term}, {wanted}")
            found = c.let(f"or i32 {found}, {term}")
        return [found]

    return Scalar(("b32",) * 4, ("b32",), emit)


# --- shifts ---------------------------------------------------------------------------------------


def _shift(opcode: str) -> Semantics:
    """`shl` and `shr`: by the width and more, no bit is left but copies of the sign."""

    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        type_ = modifiers[-1]
        t = LLVM_TYPES[type_]
        signed = opcode == "shr" and is_signed(type_)
        how = "ashr" if signed else {"shl": "shl", "shr": "lshr"}[opcode]

        def emit(c: Code, v: Sequence[str]) -> list[str]:
            # One bit less than the width is enough of a signed shift, and else the result is 0.
            last = BITS[t] - 1
            count = c.intrinsic("umin", "i32", v[1], str(last))
            found = c.let(f"{how} {t} {v[0]}, {c.resize('i32', count, t)}")
            if signed:
                return [found]
            is_all = c.let(f"icmp ugt i32 {v[1]}, {last}")
            return [c.select(is_all, t, "0", found)]

        return Scalar((type_, "u32"), (type_,), emit)

    return semantics


def funnel_shift(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`shf.l` and `shf.r`: of a low and a high word, by up to 32 bits (`clamp`) or modulo 32."""
    left, clamps = "l" in modifiers, "clamp" in modifiers

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        count = c.intrinsic("umin", "i32", v[2], "32") if clamps else c.let(f"and i32 {v[2]}, 31")
        low, high, n = (c.resize("i32", x, "i64") for x in (v[0], v[1], count))
        whole = c.let(f"or i64 {c.let(f'shl i64 {high}, 32')}, {low}")
        if left:
            whole = c.let(f"lshr i64 {c.let(f'shl i64 {whole}, {n}')}, 32")
        else:
            whole = c.let(f"lshr i64 {whole}, {n}")
        return [c.let(f"trunc i64 {whole} to i32")]

    return Scalar(("b32", "b32", "u32"), ("b32",), emit)


# --- fields ---------------------------------------------------------------------------------------


def _field(c: Code, position: str, length: str) -> tuple[str, str]:
    """Return where a field begins and how long it is: the low 8 bits of each."""
    return c.let(f"and i32 {position}, 255"), c.let(f"and i32 {length}, 255")


def _ones(c: Code, count: str) -> str:
    """Return an i128 whose low bits are set, so many of up to 64."""
    count = c.resize("i32", c.intrinsic("umin", "i32", count, "64"), "i128")
    return c.let(f"sub i128 {c.let(f'shl i128 1, {count}')}, 1")


def extract(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`bfe`: a field of bits; of a signed number, it and what lies beyond repeat the sign."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]
    last = BITS[t] - 1

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        start, length = _field(c, v[1], v[2])
        wide = c.resize(t, v[0], "i128", signed=is_signed(type_))
        at = c.resize("i32", c.intrinsic("umin", "i32", start, "127"), "i128")
        moved = c.let(f"{'ashr' if is_signed(type_) else 'lshr'} i128 {wide}, {at}")
        field = c.let(f"and i128 {moved}, {_ones(c, length)}")
        found = c.let(f"trunc i128 {field} to {t}")
        if not is_signed(type_):
            return [found]
        # The sign is the last bit of the field, or of the number if it ends in the field.
        end = c.let(f"add i32 {start}, {c.let(f'sub i32 {length}, 1')}")
        top = c.resize("i32", c.intrinsic("umin", "i32", end, str(last)), t)
        bit = c.let(f"and {t} {c.let(f'lshr {t} {v[0]}, {top}')}, 1")
        signs = c.let(f"sub {t} 0, {bit}")
        used = c.let(f"trunc i128 {_ones(c, length)} to {t}")
        inside = c.let(f"and {t} {found}, {used}")
        rest = c.let(f"and {t} {signs}, {c.let(f'xor {t} {used}, -1')}")
        is_empty = c.let(f"icmp eq i32 {length}, 0")
        return [c.select(is_empty, t, "0", c.let(f"or {t} {inside}, {rest}"))]

    return Scalar((type_, "u32", "u32"), (type_,), emit)


def insert(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`bfi`: the low bits of a number as a field of another."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        start, length = _field(c, v[2], v[3])
        at = c.resize("i32", c.intrinsic("umin", "i32", start, "64"), "i128")
        mask = c.let(f"trunc i128 {c.let(f'shl i128 {_ones(c, length)}, {at}')} to {t}")
        wide = c.let(f"shl i128 {c.resize(t, v[0], 'i128')}, {at}")
        inside = c.let(f"and {t} {c.let(f'trunc i128 {wide} to {t}')}, {mask}")
        outside = c.let(f"and {t} {v[1]}, {c.let(f'xor {t} {mask}, -1')}")
        return [c.let(f"or {t} {inside}, {outside}")]

    return Scalar((type_, type_, "u32", "u32"), (type_,), emit)


def mask(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`bmsk`: a number whose only bits are those of a field."""
    if "clamp" not in modifiers:
        raise UnknownInstruction("only bmsk.clamp is known")

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        at = c.resize("i32", c.intrinsic("umin", "i32", v[0], "32"), "i128")
        found = c.let(f"shl i128 {_ones(c, v[1])}, {at}")
        return [c.let(f"trunc i128 {found} to i32")]

    return Scalar(("u32", "u32"), ("b32",), emit)


def extend(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`szext`: the low bits of a number, extended by their sign or by zeros."""
    if "clamp" not in modifiers:
        raise UnknownInstruction("only szext.clamp is known")
    type_ = modifiers[-1]
    shift = "ashr" if is_signed(type_) else "lshr"

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        count = c.let(f"sub i32 32, {c.intrinsic('umin', 'i32', v[1], '32')}")
        n = c.resize("i32", count, "i64")
        high = c.let(f"shl i64 {c.resize('i32', v[0], 'i64')}, 32")
        high = c.let(f"shl i64 {high}, {n}")
        found = c.let(f"{shift} i64 {c.let(f'{shift} i64 {high}, {n}')}, 32")
        return [c.let(f"trunc i64 {found} to i32")]

    return Scalar((type_, "u32"), (type_,), emit)


# --- bytes and counts -----------------------------------------------------------------------------

# The bytes that modes of `prmt` choose, four for each of the four values of the selector.
_CHOICES = {
    "f4e": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)],
    "b4e": [(0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)],
    "rc8": [(0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)],
    "ecl": [(0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)],
    "ecr": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)],
    "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
}


def permute(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`prmt`: four of the eight bytes of two words, or copies of their signs."""
    mode = next((m for m in modifiers if m in _CHOICES), "")

    def selector(c: Code, word: str) -> str:
        """Return the selector of the general mode that does what another mode does."""
        if not mode:
            return word
        which = c.let(f"and i32 {word}, 3")
        found = "0"
        for n, choice in enumerate(_CHOICES[mode]):
            bits = sum(byte << (4 * at) for at, byte in enumerate(choice))
            found = c.select(c.let(f"icmp eq i32 {which}, {n}"), "i32", str(bits), found)
        return found

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        low, high = (c.resize("i32", x, "i64") for x in v[:2])
        whole = c.let(f"or i64 {c.let(f'shl i64 {high}, 32')}, {low}")
        choice = selector(c, v[2])
        found = "0"
        for n in range(4):
            which = c.let(f"lshr i32 {choice}, {4 * n}")
            at = c.let(f"shl i32 {c.let(f'and i32 {which}, 7')}, 3")
            moved = c.let(f"lshr i64 {whole}, {c.resize('i32', at, 'i64')}")
            byte = c.let(f"trunc i64 {moved} to i8")
            is_sign = c.let(f"trunc i32 {c.let(f'lshr i32 {which}, 3')} to i1")
            byte = c.select(is_sign, "i8", c.let(f"ashr i8 {byte}, 7"), byte)
            place = c.let(f"shl i32 {c.resize('i8', byte, 'i32')}, {8 * n}")
            found = c.let(f"or i32 {found}, {place}")
        return [found]

    return Scalar(("b32",) * 3, ("b32",), emit)


def _count(opcode: str) -> Semantics:
    """`popc` and `clz`: counts are u32."""

    def semantics(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
        type_ = modifiers[-1]
        t = LLVM_TYPES[type_]

        def emit(c: Code, v: Sequence[str]) -> list[str]:
            if opcode == "popc":
                found = c.intrinsic("ctpop", t, v[0])
            else:
                found = _leading(c, t, v[0])
            return [c.resize(t, found, "i32")]

        return Scalar((type_,), ("u32",), emit)

    return semantics


def _leading(c: Code, t: str, value: str) -> str:
    """Return the number of leading zeros, the width of 0."""
    return c.call(f"llvm.ctlz.{t}", t, (t, value), ("i1", "false"))


def reverse(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`brev`."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]
    return Scalar((type_,), (type_,), lambda c, v: [c.intrinsic("bitreverse", t, v[0])])


def find(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`bfind`: the highest bit that is set, or differs from the sign; -1 if there is none."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        value = v[0]
        if is_signed(type_):
            signs = c.let(f"ashr {t} {value}, {BITS[t] - 1}")
            value = c.let(f"xor {t} {value}, {signs}")
        zeros = c.resize(t, _leading(c, t, value), "i32")
        found = c.let(f"sub i32 {BITS[t] - 1}, {zeros}")
        if "shiftamt" in modifiers:
            is_none = c.let(f"icmp eq {t} {value}, 0")
            found = c.select(is_none, "i32", "-1", zeros)
        return [found]

    return Scalar((type_,), ("u32",), emit)


SEMANTICS: dict[str, Semantics] = {
    **{opcode: _logic(opcode) for opcode in _LOGIC},
    "not": invert,
    "cnot": is_nothing,
    "lop3": lookup,
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "shf": funnel_shift,
    "bfe": extract,
    "bfi": insert,
    "bmsk": mask,
    "szext": extend,
    "prmt": permute,
    "popc": _count("popc"),
    "clz": _count("clz"),
    "brev": reverse,
    "bfind": find,
}
