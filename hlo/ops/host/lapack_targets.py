"""LAPACK's routines as custom-call targets: what JAX's `lapack_<type><routine>_ffi` expect.

A routine is declared by a signature: arrays before and behind an arrow, each a letter for its type
and its inner dimensions, in front of which all have the same batch dimensions. Types are `t`, the
routine's own, `r`, its real part, `c`, its complex counterpart, and `i`, s32. A name among
dimensions is bound where it comes first; `k` is the less of m and n, `l` one less than n but not
negative, and `_` any size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.errors import InferError
from hlo.ops.host.ffi_attributes import ffi_values
from hlo.ops.spec import OpView
from hlo.values.types import (
    S32,
    UNBOUNDED,
    ArrayShape,
    ElementType,
    Shape,
    TupleShape,
    complex_of,
    complex_part,
    element_type,
)

_NAME = re.compile(r"lapack_([sdcz])([a-z0-9]+)_ffi")
_TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
# LAPACK counts in 32 bits.
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine as a custom call asks for it.

    letter: its type's. signature: of this call. batch: the dimensions in front of each array's own.
    sizes: what the signature's names stand for.
    """

    name: str
    letter: str
    signature: str
    batch: tuple[int, ...]
    sizes: dict[str, int]


def is_lapack(name: str) -> bool:
    """True for the target of a routine that is declared here."""
    m = _NAME.fullmatch(name)
    return m is not None and m[2] in _ROUTINES and m[1] in _ROUTINES[m[2]][0]


def lapack_targets() -> list[str]:
    """Return the names of all targets."""
    return [f"lapack_{t}{name}_ffi" for name, (letters, _) in _ROUTINES.items() for t in letters]


def routine(op: OpView) -> Routine:
    """Return what a call of a target declared here asks for.

    Raises InferError, code `bad-value`, where shapes or attributes do not fit.
    """
    m = _NAME.fullmatch(op.custom_call_target)
    assert m is not None
    letter, name = m[1], m[2]
    declared = _ROUTINES[name][1]
    signature = declared if isinstance(declared, str) else declared(op, letter)
    results = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
    found = Routine(name, letter, signature, *_Binder(op, letter).bind(signature, results))
    _need_sizes(op, found)
    return found


def letter_of(op: OpView, key: str, allowed: str) -> str:
    """Return the letter whose code is an attribute of a call. Raises InferError."""
    value = ffi_values(op).get(key)
    letter = chr(value) if type(value) is int and 0 < value < 128 else ""
    if letter not in tuple(allowed):
        raise _fail(op, f"{key} is {value!r}, the code of one of {', '.join(allowed)} is needed")
    return letter


def _fail(op: OpView, message: str) -> InferError:
    return InferError(f"custom-call: {op.custom_call_target}: {message}", code="bad-value")


class _Binder:
    """Matches shapes against a signature."""

    def __init__(self, op: OpView, letter: str) -> None:
        self._op = op
        own = element_type(_TYPES[letter])
        real = complex_part(own)
        self._types = {"t": own, "r": real, "c": complex_of(real), "i": S32}
        self._batch: tuple[int, ...] | None = None
        self._sizes: dict[str, int] = {}

    def bind(
        self, signature: str, results: Sequence[Shape]
    ) -> tuple[tuple[int, ...], dict[str, int]]:
        """Return the batch dimensions and the sizes that a signature's names stand for."""
        takes, returns = (part.split() for part in signature.split("->"))
        for what, terms, shapes in (
            ("operand", takes, self._op.operand_shapes), ("result", returns, results),
        ):  # fmt: skip
            if len(terms) != len(shapes):
                raise _fail(self._op, f"{len(terms)} {what}s are needed, not {len(shapes)}")
            for n, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
                wanted = self._types[term[0]]
                names = [name for name in term[2:-1].split(",") if name]
                if not isinstance(shape, ArrayShape) or not self._fits(shape, wanted, names):
                    raise _fail(
                        self._op, f"{what} {n} is {shape.to_string(False)}, which does not fit "
                        f"{wanted}[..{term[1:].replace('[]', ']').replace('[', ',')} of {signature}"
                    )  # fmt: skip
        return self._batch or (), self._sizes

    def _fits(self, shape: ArrayShape, wanted: ElementType, names: list[str]) -> bool:
        inner = shape.rank - len(names)
        varies = any(map(shape.is_dynamic_dim, range(shape.rank))) and UNBOUNDED not in shape.dims
        if shape.element_type is not wanted or inner < 0 or varies:
            return False
        batch = shape.dims[:inner]
        if self._batch is None:
            self._batch = batch
        same = len(batch) == len(self._batch) and all(map(_may_be_equal, batch, self._batch))
        return same and all(map(self._is_size, names, shape.dims[inner:]))

    def _is_size(self, name: str, size: int) -> bool:
        if name == "_":
            return size <= _LARGEST
        known = self._sizes
        if name == "k":
            known["k"] = min(known["m"], known["n"])
        elif name == "l":
            known["l"] = max(0, known["n"] - 1) if known["n"] != UNBOUNDED else UNBOUNDED
        elif known.get(name, UNBOUNDED) == UNBOUNDED:
            known[name] = size
        return size <= _LARGEST and _may_be_equal(size, known[name])


def _may_be_equal(a: int, b: int) -> bool:
    return a == b or UNBOUNDED in (a, b)


def _need_sizes(op: OpView, call: Routine) -> None:
    """Check what the signature cannot say of sizes and attributes."""
    n = call.sizes
    if UNBOUNDED in n.values():
        return
    if call.name in ("orgqr", "ungqr") and not n["q"] <= n["n"] <= n["m"]:
        raise _fail(op, f"{n['q']} reflectors of {n['m']} elements do not make {n['n']} columns")
    if call.name in ("ormqr", "unmqr"):
        left = _flag(op, "left")
        _flag(op, "transpose")
        rows = n["m"] if left else n["n"]
        if n["q"] > min(rows, n["s"]) or n["p"] != rows:
            raise _fail(
                op, f"{n['q']} reflectors in {[n['p'], n['s']]} do not fit {[n['m'], n['n']]}"
            )
    if call.name == "gehrd":
        low, high = (ffi_values(op).get(key) for key in ("low", "high"))
        if type(low) is not int or type(high) is not int or not 1 <= low <= high <= max(1, n["n"]):
            raise _fail(
                op, f"low is {low!r} and high is {high!r}, 1 <= low <= high <= {n['n']} is needed"
            )


def _flag(op: OpView, key: str) -> bool:
    value = ffi_values(op).get(key)
    if not isinstance(value, bool):
        raise _fail(op, f"{key} is {value!r}, a truth value is needed")
    return value


# --- signatures that attributes or types decide --------------------------------------------------


def _svd(op: OpView, letter: str) -> str:
    left, right = {"A": ("m,m", "n,n"), "S": ("m,k", "k,n"), "N": ("_,_", "_,_")}[
        letter_of(op, "mode", "ASN")
    ]
    return f"t[m,n] -> t[m,n] r[k] t[{left}] t[{right}] i[]"


def _syevd(op: OpView, letter: str) -> str:
    letter_of(op, "mode", "VN")
    letter_of(op, "uplo", "LU")
    return "t[n,n] -> t[n,n] r[n] i[]"


def _sytrd(op: OpView, letter: str) -> str:
    letter_of(op, "uplo", "LU")
    return "t[n,n] -> t[n,n] r[n] r[l] t[l] i[]"


def _geev(op: OpView, letter: str) -> str:
    letter_of(op, "compute_left", "VN")
    letter_of(op, "compute_right", "VN")
    return f"t[n,n] -> {_eigenvalues(letter)} c[n,n] c[n,n] i[]"


def _gees(op: OpView, letter: str) -> str:
    letter_of(op, "mode", "VN")
    letter_of(op, "sort", "N")
    return f"t[n,n] -> t[n,n] t[n,n] {_eigenvalues(letter)} i[] i[]"


def _eigenvalues(letter: str) -> str:
    return "t[n]" if letter in "cz" else "t[n] t[n]"


def _potrf(op: OpView, letter: str) -> str:
    letter_of(op, "uplo", "LU")
    return "t[n,n] -> t[n,n] i[]"


def _trsm(op: OpView, letter: str) -> str:
    for key, allowed in (("uplo", "LU"), ("diag", "UN"), ("trans_x", "NTC")):
        letter_of(op, key, allowed)
    return "t[m,m] t[m,n] -> t[m,n]" if letter_of(op, "side", "LR") == "L" else (
        "t[n,n] t[m,n] -> t[m,n]"
    )  # fmt: skip


_QR = "t[p,s] t[q] t[m,n] -> t[m,n]"
_ROUTINES: dict[str, tuple[str, str | Callable[[OpView, str], str]]] = {
    "getrf": ("sdcz", "t[m,n] -> t[m,n] i[k] i[]"),
    "geqrf": ("sdcz", "t[m,n] -> t[m,n] t[k]"),
    "geqp3": ("sdcz", "t[m,n] i[n] -> t[m,n] i[n] t[k]"),
    "orgqr": ("sd", "t[m,n] t[q] -> t[m,n]"),
    "ungqr": ("cz", "t[m,n] t[q] -> t[m,n]"),
    "ormqr": ("sd", _QR),
    "unmqr": ("cz", _QR),
    "gesdd": ("sdcz", _svd),
    "gesvd": ("sdcz", _svd),
    "syevd": ("sd", _syevd),
    "heevd": ("cz", _syevd),
    "geev": ("sdcz", _geev),
    "gees": ("sdcz", _gees),
    "sytrd": ("sd", _sytrd),
    "hetrd": ("cz", _sytrd),
    "gehrd": ("sdcz", "t[n,n] -> t[n,n] t[l] i[]"),
    "gtsv": ("sdcz", "t[n] t[n] t[n] t[n,c] -> t[n] t[n] t[n] t[n,c] i[]"),
    "potrf": ("sdcz", _potrf),
    "trsm": ("sdcz", _trsm),
}
