"""Comparisons, and choices by what they say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo.gpu.simt.instructions.code import LLVM_TYPES, Code, double, is_float
from hlo.gpu.simt.instructions.formats import halves, widen
from hlo.gpu.simt.instructions.integer import is_signed
from hlo.gpu.simt.instructions.operation import Scalar, Semantics, UnknownInstruction

_INTEGER = {
    "eq": "eq", "ne": "ne", "lt": "?lt", "le": "?le", "gt": "?gt", "ge": "?ge",
    "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge",
}  # fmt: skip
_FLOAT = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
    "num": "ord", "nan": "uno",
}  # fmt: skip
_COMBINATIONS = frozenset(("and", "or", "xor"))
# Comparisons of bits that numpy has.
_UFUNCS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}


def _compare(c: Code, how: str, type_: str, a: str, b: str) -> str:
    """Return the i1 of a comparison."""
    if not is_float(type_):
        condition = _INTEGER[how].replace("?", "s" if is_signed(type_) else "u")
        return c.let(f"icmp {condition} {LLVM_TYPES[type_]} {a}, {b}")
    t = "float" if type_ == "f32" else "double"
    if type_ != "f32":
        a, b = widen(c, type_, a), widen(c, type_, b)
    return c.let(f"fcmp {_FLOAT[how]} {t} {a}, {b}")


def _parts(modifiers: tuple[str, ...]) -> tuple[str, str]:
    """Return the comparison, and the combination with a predicate or an empty text."""
    how = next((m for m in modifiers if m in _FLOAT or m in _INTEGER), "")
    table = _FLOAT if is_float(modifiers[-1]) else _INTEGER
    if how not in table or "ftz" in modifiers:
        raise UnknownInstruction("no comparison that is known")
    return how, next((m for m in modifiers if m in _COMBINATIONS), "")


def _combined(c: Code, combination: str, value: str, other: Sequence[str]) -> str:
    return c.let(f"{combination} i1 {value}, {other[0]}") if combination else value


def set_predicate(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`setp`: whether it is so, and whether it is not; each combined with a predicate."""
    how, combination = _parts(modifiers)
    type_ = modifiers[-1]

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        if type_ in _PAIRS:
            pairs = zip(halves(c, v[0]), halves(c, v[1]), strict=True)
            found = [_compare(c, how, _PAIRS[type_], a, b) for a, b in pairs]
        else:
            yes = _compare(c, how, type_, v[0], v[1])
            found = [yes] if results == 1 else [yes, c.let(f"xor i1 {yes}, true")]
        return [_combined(c, combination, value, v[2:]) for value in found]

    others = ("pred",) if combination else ()
    is_plain = results == 1 and not combination and type_[0] in "ub"
    return Scalar(
        (type_, type_, *others), ("pred",) * results, emit,
        _UFUNCS.get(how) if is_plain and not is_float(type_) else None,
    )  # fmt: skip


def set_number(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`set`: a comparison as a number, all bits set or 1.0, and else 0."""
    how, combination = _parts(modifiers)
    target, type_ = modifiers[-2:]

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        value = _combined(c, combination, _compare(c, how, type_, v[0], v[1]), v[2:])
        t = LLVM_TYPES[target]
        if target == "f32":
            return [c.select(value, t, double(1.0), "0.0")]
        return [c.let(f"sext i1 {value} to {t}")]

    others = ("pred",) if combination else ()
    return Scalar((type_, type_, *others), (target,), emit)


def select(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`selp`: the first number if the predicate is true, else the second."""
    type_ = modifiers[-1]
    t = LLVM_TYPES[type_]
    return Scalar((type_, type_, "pred"), (type_,), lambda c, v: [c.select(v[2], t, v[0], v[1])])


def select_by_sign(modifiers: tuple[str, ...], sources: int, results: int) -> Scalar:
    """`slct`: the first number if the third is not negative, else the second."""
    type_, by = modifiers[-2:]
    t = LLVM_TYPES[type_]

    def emit(c: Code, v: Sequence[str]) -> list[str]:
        if by == "f32":
            chosen = c.let(f"fcmp oge float {v[2]}, 0.0")
        else:
            chosen = c.let(f"icmp sge i32 {v[2]}, 0")
        return [c.select(chosen, t, v[0], v[1])]

    return Scalar((type_, type_, by), (type_,), emit)


SEMANTICS: dict[str, Semantics] = {
    "setp": set_predicate,
    "set": set_number,
    "selp": select,
    "slct": select_by_sign,
}
