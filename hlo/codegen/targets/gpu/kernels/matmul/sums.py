"""Sums of products of any element type, on values of one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import SumTypes
from hlo.codegen.llvm import Builder, Val
from hlo.codegen.loops.vectors import Types
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.values.types import ElementType, complex_of

# Multiplications and additions may become one instruction, which rounds once.
_FUSED = "contract"


@dataclass(frozen=True)
class Sum:
    """What sums are taken in, and how they are stored.

    total: the type of sums. store: the types that one passes through on its way to memory. is_real:
    of a complex sum the real part is stored.
    """

    total: ElementType
    store: Types
    is_real: bool = False

    @staticmethod
    def of(types: SumTypes, result: ElementType) -> Sum:
        """Return the sum of a contraction with a result of some type."""
        if not types.is_complex:
            return Sum(types.total, types.store)
        if result.is_complex:
            total = complex_of(types.total)
            return Sum(total, Types.of(total, result))
        return Sum(complex_of(types.total), types.store, is_real=True)

    @property
    def parts(self) -> int:
        """How many registers hold a sum: two for a complex one."""
        return 2 if self.total.is_complex else 1

    @property
    def bytes(self) -> int:
        return max(8, self.total.bits) // 8

    def zero(self) -> list[Val]:
        """Return the sum of nothing, as its parts."""
        return parts_of(scalar.constant(self.total, self.total.dtype.type(0)))

    def add(self, b: Builder, x: Value, y: Value) -> Value:
        """Return x + y; "any" for truth values."""
        if isinstance(x, Cplx) and isinstance(y, Cplx):
            return Cplx(self._add(b, x.re, y.re), self._add(b, x.im, y.im))
        assert isinstance(x, Val) and isinstance(y, Val)
        return self._add(b, x, y)

    def multiply_add(self, b: Builder, x: Value, y: Value, total: Value) -> Value:
        """Return x * y + total."""
        if isinstance(x, Cplx) and isinstance(y, Cplx) and isinstance(total, Cplx):
            re = self._fma(b, x.re, y.re, total.re)
            im = self._fma(b, x.re, y.im, total.im)
            minus = b.unary("fneg", x.im)
            return Cplx(self._fma(b, minus, y.im, re), self._fma(b, x.im, y.re, im))
        assert isinstance(x, Val) and isinstance(y, Val) and isinstance(total, Val)
        return self._fma(b, x, y, total)

    def stored(self, b: Builder, value: Value) -> Value:
        """Return a sum as an element of the result."""
        if self.is_real:
            assert isinstance(value, Cplx)
            value = value.re
        return self.store.through(b, value)

    def _add(self, b: Builder, x: Val, y: Val) -> Val:
        if self.total.is_pred:
            return b.binary("or", x, y)
        if x.type in ("float", "double"):
            return b.binary("fadd", x, y, _FUSED)
        return b.binary("add", x, y)

    def _fma(self, b: Builder, x: Val, y: Val, total: Val) -> Val:
        if self.total.is_pred:
            return b.binary("or", total, b.binary("and", x, y))
        if x.type in ("float", "double"):
            return b.binary("fadd", total, b.binary("fmul", x, y, _FUSED), _FUSED)
        return b.binary("add", total, b.binary("mul", x, y))


def parts_of(value: Value) -> list[Val]:
    """Return the registers of a value."""
    return [value.re, value.im] if isinstance(value, Cplx) else [value]


def value_of(parts: Sequence[Val]) -> Value:
    """Return the value that is in some registers."""
    return Cplx(*parts) if len(parts) == 2 else parts[0]
