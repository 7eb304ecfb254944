"""Index vectors of gathers and scatters, as the shard of a device sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo.ir import Instruction
from hlo.ops.movement.gather_scatter import index_dims
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.value import Sharded
from hlo.values.types import PRED, S32, array


@dataclass
class IndexVectors:
    """The starts of windows, in the dimensions of an operand that `index_map` names.

    Attributes:
        at: s32, in the shape of a device's indices.
        dim: that of the vectors; the rank where each index is a vector of one.
        index_map: the dimension of the operand of each element.
    """

    b: SpmdBuilder
    at: Instruction
    dim: int
    index_map: Sequence[int]

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of a device's indices."""
        return self.at.array_shape.dims

    def each(self, of: Callable[[int], int | Instruction]) -> Instruction:
        """Return a number for each dimension of the operand, at all places of the vectors: s32.

        of: the number of a dimension, or a scalar, s32.
        """
        b = self.b
        shape = array(S32, self.dims)
        numbers = [of(d) for d in self.index_map]
        parts = [n if isinstance(n, Instruction) else b.constant(S32, n) for n in numbers]
        if self.dim == len(self.dims) or len(parts) == 1:
            return b.broadcast(parts[0], shape)
        if all(isinstance(n, int) for n in numbers):
            vector = b.constant(S32, numbers)
        else:
            vector = b.op("concatenate", *(b.reshape(p, (1,)) for p in parts), dimensions=(0,))
        return b.op("broadcast", vector, shape=shape, dimensions=(self.dim,))

    def within(self, low: Instruction, high: Instruction) -> Instruction:
        """Return which elements are in [low, high): pred, in the shape of the indices."""
        b = self.b
        above = b.compare(self.at, low, "GE")
        return b.op("and", above, b.compare(self.at, high, "LT"), shape=above.shape)

    def all_of(self, flags: Instruction) -> Instruction:
        """Return for which vectors all elements are true: pred, without the vectors' dimension."""
        b = self.b
        if self.dim == len(self.dims):
            return flags
        rest = [n for d, n in enumerate(self.dims) if d != self.dim]
        if self.dims[self.dim] == 1:
            return b.reshape(flags, rest)
        return b.op(
            "reduce", flags, b.constant(PRED, True), shape=array(PRED, rest),
            dimensions=(self.dim,), to_apply=b.program.reducer("and", PRED),
        )  # fmt: skip


def index_vectors(
    b: SpmdBuilder, inst: Instruction, indices: Sharded, least: int,
    most: Callable[[int], int],
) -> IndexVectors:  # fmt: skip
    """Return the index vectors of a gather or scatter, moved into `[least, most(d)]`.

    They are clamped in the type that they have, so that none wraps around on the way to s32.
    least: 0 or -1; an unsigned index is never below 0. most: of a dimension of the operand.
    """
    dims = index_dims(inst)
    local = indices.local
    et = local.array_shape.element_type
    vectors = IndexVectors(b, local, dims.index_vector_dim, dims.index_map)
    if not dims.index_map:
        vectors.at = b.convert(local, S32)
        return vectors
    top = 2 ** (et.bits - et.is_signed) - 1
    low = b.constant(et, max(least, -int(et.is_signed)))
    limits = vectors.each(lambda d: min(most(d), top))
    clamped = b.op(
        "clamp", b.broadcast(low, local.array_shape), local, b.convert(limits, et),
        shape=local.shape,
    )  # fmt: skip
    vectors.at = b.convert(clamped, S32)
    return vectors
