"""The linear index of a layout as a formula, in Python's notation."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.values.layout import position_of
from hlo.values.types import ArrayShape

# How tightly operators bind.
_SUM, _PRODUCT, _NAME = range(3)


@dataclass(frozen=True)
class _Expr:
    """A number below `limit` that is not known, as text; ints stand for those that are.

    divided: this is a quotient or a remainder of that expression by that number.
    """

    text: str
    limit: int
    binds: int = _NAME
    divided: tuple[str, _Expr, int] | None = None

    def _in(self, binds: int) -> str:
        return self.text if self.binds >= binds else f"({self.text})"

    def __mul__(self, n: int) -> _Expr:
        if n == 1:
            return self
        return _Expr(f"{self._in(_PRODUCT)} * {n}", (self.limit - 1) * n + 1, _PRODUCT)

    def __add__(self, other: _Expr | int) -> _Expr:
        if isinstance(other, int):
            assert other == 0, "an index has no offset"
            return self
        return _Expr(f"{self.text} + {other._in(_PRODUCT)}", self.limit + other.limit - 1, _SUM)

    __radd__ = __add__

    def __floordiv__(self, n: int) -> _Expr | int:
        if self.limit <= n:
            return 0
        if n == 1:
            return self
        if self.divided is not None and self.divided[0] == "//":
            return self.divided[1] // (self.divided[2] * n)
        text = f"{self._in(_PRODUCT)} // {n}"
        return _Expr(text, (self.limit - 1) // n + 1, _PRODUCT, ("//", self, n))

    def __mod__(self, n: int) -> _Expr | int:
        if n == 1:
            return 0
        if self.limit <= n:
            return self
        if self.divided is not None and self.divided[0] == "%" and self.divided[2] % n == 0:
            return self.divided[1] % n
        return _Expr(f"{self._in(_PRODUCT)} % {n}", n, _PRODUCT, ("%", self, n))


def place_formula(shape: ArrayShape) -> str:
    """Return the place of the element at `i0, i1, ..`, in elements from the start of the buffer.

    Raises InferError for a layout that does not say where elements are.
    """
    index = [_Expr(f"i{d}", n) if n > 1 else 0 for d, n in enumerate(shape.dims)]
    place = position_of(shape, index)
    return place.text if isinstance(place, _Expr) else str(place)
