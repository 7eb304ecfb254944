"""Scalars of a program for a GPU: they lie in memory of the device, or are computed where used.

A scalar that depends on nothing but other scalars is computed again by each kernel that reads it:
that costs a few instructions, a launch microseconds. What reads arrays, or is long, is computed by
a kernel of one thread, once, at the time of its command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hlo.codegen.llvm import Builder
from hlo.codegen.loops.address import Indices, load
from hlo.codegen.loops.element import ElementEmitter
from hlo.codegen.plan.liveness import Liveness
from hlo.codegen.scalar.operations import Value
from hlo.gpu.plan import Place
from hlo.ir import Instruction
from hlo.values.types import ArrayShape

# A scalar that takes more instructions is kept.
MOST_OPERATIONS = 24


@dataclass(frozen=True)
class Stored:
    """A scalar in memory of the device."""

    place: Place
    shape: ArrayShape


@dataclass(frozen=True)
class Formula:
    """A scalar that is computed where it is used, from others. operations: how many it takes."""

    inst: Instruction
    operands: Mapping[Instruction, Scalar]
    operations: int


Scalar = Stored | Formula


def places_of(scalars: Iterable[Scalar]) -> list[Place]:
    """Return what is read in order to compute scalars, each place once."""
    found: dict[Place, None] = {}

    def visit(value: Scalar) -> None:
        if isinstance(value, Stored):
            found[value.place] = None
        else:
            for operand in value.operands.values():
                visit(operand)

    for value in scalars:
        visit(value)
    return list(found)


class ScalarWriter:
    """Computes scalars in a function under construction. pointers: the address of each place."""

    def __init__(self, b: Builder, live: Liveness, pointers: Callable[[Place], str]) -> None:
        self._b, self._live, self._pointers = b, live, pointers
        self._known: dict[Scalar | int, Value] = {}

    def value(self, of: Scalar) -> Value:
        """Return the value of a scalar."""
        key = of if isinstance(of, Stored) else id(of)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._value(of)
        return found

    def _value(self, of: Scalar) -> Value:
        if isinstance(of, Stored):
            return load(self._b, of.shape, self._pointers(of.place), ())
        operands = of.operands

        def read(leaf: Instruction, indices: Indices) -> Value:
            return self.value(operands[leaf])

        return ElementEmitter(self._b, self._live.roles, read).compute(of.inst, ())

    def know(self, of: Stored, value: Value) -> None:
        """Note the value of a scalar that is stored later."""
        self._known[of] = value


def formula(
    inst: Instruction,
    reads: Iterable[Instruction],
    scalar_of: Callable[[Instruction], Scalar | None],
) -> Formula | None:
    """Return a scalar as one that is computed where it is used, None if it should be kept.

    reads: what it is computed from. scalar_of: returns each of them, None for arrays.
    """
    operands: dict[Instruction, Scalar] = {}
    operations = 1
    for leaf in reads:
        found = scalar_of(leaf)
        if found is None:
            return None
        operands[leaf] = found
        operations += found.operations if isinstance(found, Formula) else 0
    return Formula(inst, operands, operations) if operations <= MOST_OPERATIONS else None
