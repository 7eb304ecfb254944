"""The largest or smallest of many floats, found among integers.

Where the machine has no instruction for it, `llvm.maximum` is many: it returns NaN for NaN, and
tells zeros apart. A variable that each turn of a loop makes larger waits for all of them. It holds
the key of its value instead, an integer in the same order: keys are made beside that chain, which
has one instruction for each turn then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hlo.codegen.llvm.loop_body import Sum, bits
from hlo.codegen.llvm.module import ModuleBuilder
from hlo.llvm import Binary, Cast, Compare, Operation, Select, vector_type

_OPERATIONS = {"maximum": "smax", "minimum": "smin"}

# Writes an operation, and returns its name.
Assign = Callable[[Operation], str]


@dataclass(frozen=True)
class Extremum(Sum):
    """A variable that holds the key of the largest or smallest value so far."""

    float_type: str = ""

    @staticmethod
    def of(total: Sum, module: ModuleBuilder) -> Sum:
        """Return the variable for the keys of a sum, or the sum where it has none."""
        if module.has_float_maximum or total.op not in _OPERATIONS:
            return total
        type_ = f"i{bits(total.type)}"
        return Extremum(total.address, type_, _OPERATIONS[total.op], "", total.term, total.type)

    @property
    def identity(self) -> str:
        """The key of an infinity."""
        exponent = {32: 0x7F800000, 64: 0x7FF0000000000000}[bits(self.type)]
        return str(exponent if self.op == "smin" else -exponent - 1)

    def key(self, assign: Assign, lanes: int, x: str) -> str:
        """Return the keys of a vector. That of NaN comes after all others."""
        floats, keys = vector_type(lanes, self.float_type), vector_type(lanes, self.type)
        last = self._magnitude if self.op == "smax" else -self._magnitude - 1
        raw = assign(Cast("bitcast", floats, keys, (x,)))
        is_nan = assign(Compare("fcmp", "uno", floats, (x, x)))
        ordered = self._flipped(assign, keys, raw, lambda n: f"splat ({self.type} {n})")
        choice = (is_nan, f"splat ({self.type} {last})", ordered)
        return assign(Select(vector_type(lanes, "i1"), keys, choice))

    def value(self, assign: Assign, key: str) -> str:
        """Return the float that has a key."""
        raw = self._flipped(assign, self.type, key, str)
        return assign(Cast("bitcast", self.type, self.float_type, (raw,)))

    @property
    def _magnitude(self) -> int:
        """All bits but the sign's."""
        return (1 << (bits(self.type) - 1)) - 1

    def _flipped(self, assign: Assign, type_: str, raw: str, constant: Callable[[int], str]) -> str:
        """Return integers whose magnitude is flipped where they are negative: twice is none."""
        signs = assign(Binary("ashr", "", type_, (raw, constant(bits(self.type) - 1))))
        flips = assign(Binary("and", "", type_, (signs, constant(self._magnitude))))
        return assign(Binary("xor", "", type_, (raw, flips)))
