"""Values with sizes, and shapes at their bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hlo.errors import InferError
from hlo.ir import Computation, Instruction
from hlo.ops.movement.dimension_sizes import SIZE_OPS
from hlo.values.types import S32, UNBOUNDED, ArrayShape, Shape, TupleShape, array

# Custom calls that make or read sizes.
SIZED_CALLS = ("PadToStatic", "SliceToDynamic")

# A size: known, or an s32 scalar.
Size = int | Instruction


@dataclass(frozen=True)
class Sized:
    """An array: its data at the bounds, and how much of each dimension is meant."""

    data: Instruction
    sizes: tuple[Size, ...]

    @property
    def shape(self) -> ArrayShape:
        return self.data.array_shape

    @property
    def varies(self) -> bool:
        return any(isinstance(n, Instruction) for n in self.sizes)

    def is_varying(self, dim: int) -> bool:
        return isinstance(self.sizes[dim], Instruction)


# A value: an array; a tuple of values; the instruction of anything else.
Value = Any
# Which dimensions of a value vary: a tuple of flags for an array, a list for a tuple.
Flags = Any


def static(shape: Shape) -> Shape:
    """Return a shape at its bounds."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(static(s) for s in shape.elements))
    if isinstance(shape, ArrayShape) and shape.dynamic:
        return replace(shape, dynamic=())
    return shape


def static_array(shape: Shape) -> ArrayShape:
    """Return an array's shape at its bounds."""
    found = static(shape)
    assert isinstance(found, ArrayShape)
    return found


def declared_flags(shape: Shape) -> Flags:
    """Return which dimensions a shape says vary."""
    if isinstance(shape, TupleShape):
        return [declared_flags(s) for s in shape.elements]
    if isinstance(shape, ArrayShape):
        return tuple(shape.is_dynamic_dim(i) for i in range(shape.rank))
    return ()


def flags_of(value: Value) -> Flags:
    """Return which dimensions of a value vary."""
    if isinstance(value, tuple):
        return [flags_of(v) for v in value]
    return tuple(map(value.is_varying, range(len(value.sizes)))) if isinstance(value, Sized) else ()


def either(a: Flags, b: Flags) -> Flags:
    """Return which dimensions vary in one of two values."""
    if isinstance(a, list):
        return [either(x, y) for x, y in zip(a, b, strict=True)]
    return tuple(x or y for x, y in zip(a, b, strict=True))


def packed_shape(shape: Shape, flags: Flags) -> Shape:
    """Return a shape with a tuple of array and sizes in the place of each array that varies."""
    if isinstance(shape, TupleShape):
        pairs = zip(shape.elements, flags, strict=True)
        return TupleShape(tuple(packed_shape(s, f) for s, f in pairs))
    if not any(flags):
        return static(shape)
    return TupleShape((static(shape), *[array(S32, ())] * sum(flags)))


def marked(shape: Shape, flags: Flags) -> Shape:
    """Return a shape that says which dimensions vary."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(marked(s, f) for s, f in zip(shape.elements, flags, strict=True)))
    if not isinstance(shape, ArrayShape):
        return shape
    return replace(shape, dynamic=tuple(flags) if any(flags) else ())


def need_bounds(inst: Instruction) -> None:
    """Raise InferError for a dimension without a bound."""
    for _, leaf in inst.shape.leaves():
        if isinstance(leaf, ArrayShape) and UNBOUNDED in leaf.dims:
            raise InferError(
                f"{inst.opcode}: {leaf.to_string(False)} has a dimension without a bound",
                code="unsupported",
            )


def may_be_dynamic(comp: Computation) -> bool:
    """True when arrays of dynamic size may come up where a computation runs."""
    seen, stack = {comp}, [comp]
    while stack:
        for inst in stack.pop():
            if inst.opcode in SIZE_OPS:
                return True
            if inst.opcode == "custom-call" and inst.custom_call_target in SIZED_CALLS:
                return True
            for _, leaf in inst.shape.leaves():
                if isinstance(leaf, ArrayShape) and (leaf.is_dynamic or UNBOUNDED in leaf.dims):
                    return True
            new = [c for c in inst.called_computations if c not in seen]
            seen.update(new)
            stack.extend(new)
    return False
