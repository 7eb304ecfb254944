"""Arithmetic on SSA values in Python's own notation.

A `Num` is a value of an LLVM integer or floating-point type; its operators write instructions.
Products and sums of floats may be contracted (`a * b + c` in one rounding, where the target can),
unless one of them is `strict`. Python numbers become constants of the other operand's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Val, float_const, int_const


@dataclass(frozen=True)
class Layout:
    """The bits of `float` or `double`."""

    type: str
    bits: int
    mantissa: int
    bias: int

    @property
    def integer(self) -> str:
        return f"i{self.bits}"

    @property
    def magic(self) -> float:
        """1.5 * 2**mantissa: adding it rounds to an integer, found in the sum's low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def least_normal(self) -> float:
        return float(2.0 ** (1 - self.bias))


LAYOUTS = {"float": Layout("float", 32, 23, 127), "double": Layout("double", 64, 52, 1023)}
_BY_BITS = {x.bits: x for x in LAYOUTS.values()}
INF, NAN = float("inf"), float("nan")

_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul"}
_PREDICATES = {
    "lt": ("olt", "slt"), "le": ("ole", "sle"), "gt": ("ogt", "sgt"), "ge": ("oge", "sge"),
    "eq": ("oeq", "eq"), "ne": ("une", "ne"),
}  # fmt: skip


def lift(b: Builder, type_: str, value: float | int) -> Num:
    """Return a constant of an LLVM type."""
    if type_ in LAYOUTS:
        return Num(b, float_const(type_, float(value)))
    return Num(b, int_const(int(type_[1:]), int(value)))


class Num:
    """A value under construction; see the module's docstring."""

    __slots__ = ("b", "is_strict", "val")

    def __init__(self, b: Builder, val: Val, is_strict: bool = False) -> None:
        self.b = b
        self.val = val
        self.is_strict = is_strict

    @property
    def type(self) -> str:
        return self.val.type

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.type]

    @property
    def is_float(self) -> bool:
        return self.type in LAYOUTS

    @property
    def width(self) -> int:
        """Bits of the type."""
        return self.layout.bits if self.is_float else int(self.type[1:])

    @property
    def strict(self) -> Num:
        """The same value, whose sums and products are rounded one by one."""
        return Num(self.b, self.val, True)

    @property
    def loose(self) -> Num:
        """The same value, whose sums and products may be contracted."""
        return Num(self.b, self.val)

    def lift(self, value: Operand) -> Num:
        """Return a number as a value of this type."""
        return value if isinstance(value, Num) else lift(self.b, self.type, value)

    def _binary(self, opcode: str, other: Operand) -> Num:
        y, flags = self.lift(other), ""
        is_strict = self.is_strict or y.is_strict
        if opcode in _FLOAT_OPS and self.is_float:
            opcode, flags = _FLOAT_OPS[opcode], "" if is_strict else "contract"
        return Num(self.b, self.b.binary(opcode, self.val, y.val, flags), is_strict)

    def __add__(self, other: Operand) -> Num:
        return self._binary("add", other)

    def __sub__(self, other: Operand) -> Num:
        return self._binary("sub", other)

    def __mul__(self, other: Operand) -> Num:
        return self._binary("mul", other)

    def __radd__(self, other: Operand) -> Num:
        return self.lift(other) + self

    def __rsub__(self, other: Operand) -> Num:
        return self.lift(other) - self

    def __rmul__(self, other: Operand) -> Num:
        return self * other

    def __truediv__(self, other: Operand) -> Num:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: Operand) -> Num:
        return self.lift(other) / self

    def __neg__(self) -> Num:
        if self.is_float:
            return Num(self.b, self.b.unary("fneg", self.val), self.is_strict)
        return self.lift(0) - self

    # --- integers -------------------------------------------------------------------------------

    def _integer(self, name: str, other: Operand) -> Num:
        value = self.b.binary(name, self.val, self.lift(other).val)
        return Num(self.b, value, self.is_strict)

    def __and__(self, other: Operand) -> Num:
        return self._integer("and", other)

    def __or__(self, other: Operand) -> Num:
        return self._integer("or", other)

    def __xor__(self, other: Operand) -> Num:
        return self._integer("xor", other)

    def __lshift__(self, other: Operand) -> Num:
        return self._integer("shl", other)

    def __invert__(self) -> Num:
        return self ^ (1 if self.type == "i1" else -1)

    def lshr(self, count: Operand) -> Num:
        """Shift zeros in from the left."""
        return self._integer("lshr", count)

    def ashr(self, count: Operand) -> Num:
        """Shift copies of the sign in from the left."""
        return self._integer("ashr", count)

    def urem(self, other: Operand) -> Num:
        """Return the remainder of unsigned division; the divisor must not be 0."""
        return self._integer("urem", other)

    def udiv(self, other: Operand) -> Num:
        """Return the unsigned quotient; the divisor must not be 0."""
        return self._integer("udiv", other)

    # --- comparison and choice ------------------------------------------------------------------

    def _compare(self, name: str, other: Operand) -> Num:
        y = self.lift(other)
        predicate = _PREDICATES[name][0 if self.is_float else 1]
        compare = self.b.fcmp if self.is_float else self.b.icmp
        return Num(self.b, compare(predicate, self.val, y.val))

    def __lt__(self, other: Operand) -> Num:
        return self._compare("lt", other)

    def __le__(self, other: Operand) -> Num:
        return self._compare("le", other)

    def __gt__(self, other: Operand) -> Num:
        return self._compare("gt", other)

    def __ge__(self, other: Operand) -> Num:
        return self._compare("ge", other)

    def __eq__(self, other: Operand) -> Num:  # type: ignore[override]
        return self._compare("eq", other)

    def __ne__(self, other: Operand) -> Num:  # type: ignore[override]
        return self._compare("ne", other)

    __hash__ = None  # type: ignore[assignment]

    def is_nan(self) -> Num:
        return Num(self.b, self.b.fcmp("uno", self.val, self.val))

    def where(self, yes: Operand, no: Operand) -> Num:
        """Return `yes` where this condition holds, else `no`; one of the two is a `Num`."""
        if not isinstance(yes, Num):
            assert isinstance(no, Num)
            yes = no.lift(yes)
        no = yes.lift(no)
        return Num(self.b, self.b.select(self.val, yes.val, no.val), yes.is_strict or no.is_strict)

    def at_least(self, bound: Operand) -> Num:
        """Return the greater; NaN stays NaN."""
        return (self < bound).where(self.lift(bound), self)

    def at_most(self, bound: Operand) -> Num:
        """Return the lesser; NaN stays NaN."""
        return (self > bound).where(self.lift(bound), self)

    # --- conversions and functions that every target has ----------------------------------------

    def bits(self) -> Num:
        """Return a float's bits as an integer."""
        t = self.layout.integer
        return Num(self.b, self.b.cast("bitcast", self.val, t))

    def as_float(self) -> Num:
        """Return the float whose bits this integer is."""
        t = _BY_BITS[self.width].type
        return Num(self.b, self.b.cast("bitcast", self.val, t))

    def to(self, type_: str) -> Num:
        """Return a float as another float type."""
        if self.type == type_:
            return self
        how = "fpext" if type_ == "double" else "fptrunc"
        return Num(self.b, self.b.cast(how, self.val, type_))

    def to_int(self, bits: int, signed: bool = False) -> Num:
        """Return an integer in another width."""
        t = f"i{bits}"
        if self.type == t:
            return self
        how = "trunc" if bits < self.width else "sext" if signed else "zext"
        return Num(self.b, self.b.cast(how, self.val, t))

    def to_float(self, type_: str, signed: bool = True) -> Num:
        """Return an integer's value as a float."""
        how = "sitofp" if signed else "uitofp"
        return Num(self.b, self.b.cast(how, self.val, type_))

    def call(self, intrinsic: str, *others: Operand) -> Num:
        """Call an LLVM intrinsic that is overloaded on this type."""
        args = [self.val, *(self.lift(o).val for o in others)]
        return Num(self.b, self.b.intrinsic(intrinsic, self.type, args), self.is_strict)

    def abs(self) -> Num:
        return self.call("fabs")

    def sqrt(self) -> Num:
        return self.call("sqrt")

    def copysign(self, sign: Operand) -> Num:
        """Return the magnitude of this with the sign of another."""
        return self.call("copysign", sign)

    def polynomial(self, coefficients: Sequence[float]) -> Num:
        """Return the polynomial in this value; the highest power's coefficient comes first."""
        value = self.lift(coefficients[0])
        for c in coefficients[1:]:
            value = value * self + c
        return value


Operand = Num | float | int


def power_of_two(exponent: Num) -> Num:
    """Return the float 2**n of an integer n in the range of normal exponents; 0 one below it."""
    layout = _BY_BITS[exponent.width]
    return ((exponent + layout.bias) << layout.mantissa).as_float()


def round_even(x: Num) -> Num:
    """Round to the nearest integer, ties to even, keeping the sign of zero."""
    limit = 2.0**x.layout.mantissa
    size = x.abs().strict
    whole = (size + limit) - limit
    # Beyond the limit every float is an integer (or infinite, or NaN).
    return (size < limit).where(whole, size).copysign(x).loose


def split(x: Num, low_bits: int) -> tuple[Num, Num]:
    """Return x as a head with `low_bits` fewer mantissa bits and the rest, exactly."""
    head = (x.bits() & -(1 << low_bits)).as_float()
    return head.strict, x.strict - head
