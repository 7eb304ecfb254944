"""Instructions that tell whether two arrays are apart, as `hlo.testing.compare` does, but stricter.

The comparison is part of a program, so that what it compares need not be stored.
"""

from __future__ import annotations

import numpy as np

from hlo.debug.divergence.tolerance import Tolerance
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.testing.compare import is_inexact, tolerance
from hlo.values.types import F32, PRED, ElementType, array, element_type

# What is within this share of the tolerance is the same; the rest is compared again, exactly.
_SHARE = 0.5


class Apart:
    """Appends comparisons to a computation."""

    def __init__(self, comp: Computation, within: Tolerance) -> None:
        self._write = Builder(comp)
        self._within = within
        self._functions: dict[tuple[str, ElementType], Computation] = {}

    def told(self, got: Instruction, want: Instruction, *, exact: bool) -> Instruction:
        """Append whether any elements of two arrays of one shape and type are apart: a pred[].

        exact: floats, too, have to be equal, which takes less code.
        """
        write = self._write
        dtype = want.array_shape.element_type.dtype
        same = write.op("compare", got, want, direction="EQ")
        if is_inexact(dtype):
            near = self._both_nan(got, want) if exact else self._near(got, want, dtype)
            same = write.op("or", same, near)
        return self._over(write.op("not", same), "or", PRED)

    def _near(self, got: Instruction, want: Instruction, dtype: np.dtype) -> Instruction:
        """Append which elements are near enough, or NaN on both sides."""
        write = self._write
        a, b = self._wide(got), self._wide(want)
        kind = element_type("f64") if dtype.itemsize > (8 if dtype.kind == "c" else 4) else F32
        off, size = write.op("abs", write.op("subtract", a, b)), write.op("abs", b)
        finite = write.op("is-finite", size)
        relative = self._within.relative or 0.0 if self._within.is_given else tolerance(dtype)
        allowed = write.op("multiply", size, self._filled(kind, _SHARE * relative, size))
        if self._within.is_given:
            absolute = self._filled(kind, _SHARE * (self._within.absolute or 0.0), size)
        else:
            zero = self._filled(kind, 0.0, size)
            total = self._over(write.op("select", finite, size, zero), "add", kind)
            share = write.constant(kind, _SHARE * relative / max(1, want.array_shape.num_elements))
            mean = write.op("multiply", total, share)
            absolute = self._spread(mean, size)
        within = write.op("compare", off, write.op("add", allowed, absolute), direction="LE")
        return write.op("or", write.op("and", within, finite), self._both_nan(a, b))

    def _both_nan(self, a: Instruction, b: Instruction) -> Instruction:
        write = self._write
        x, y = (write.op("compare", v, v, direction="NE") for v in (a, b))
        return write.op("and", x, y)

    def _wide(self, value: Instruction) -> Instruction:
        """Append an array as f32, or as it is where that is not wide enough."""
        shape = value.array_shape
        dtype = shape.element_type.dtype
        if dtype.kind == "c" or dtype.itemsize >= 4:
            return value
        return self._write.op("convert", value, shape=array(F32, shape.dims))

    def _filled(self, kind: ElementType, value: float, like: Instruction) -> Instruction:
        return self._spread(self._write.constant(kind, value), like)

    def _spread(self, scalar: Instruction, like: Instruction) -> Instruction:
        shape = array(scalar.array_shape.element_type, like.array_shape.dims)
        return self._write.op("broadcast", scalar, shape=shape, dimensions=())

    def _over(self, value: Instruction, opcode: str, kind: ElementType) -> Instruction:
        """Append the sum, or disjunction, of all elements."""
        first = self._write.constant(kind, 0)
        return self._write.op(
            "reduce", value, first, dimensions=tuple(range(value.array_shape.rank)),
            to_apply=self._function(opcode, kind), shape=array(kind, ()),
        )  # fmt: skip

    def _function(self, opcode: str, kind: ElementType) -> Computation:
        found = self._functions.get((opcode, kind))
        if found is None:
            found = self._functions[opcode, kind] = Computation(f"{opcode}_{kind.name}")
            write = Builder(found)
            a, b = (write.parameter(n, array(kind, ()), f"p{n}") for n in range(2))
            found.set_root(write.op(opcode, a, b))
        return found
