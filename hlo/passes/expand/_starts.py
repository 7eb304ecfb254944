"""Where the windows of gather and scatter begin, one scalar after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.movement.gather_scatter_eval import IndexDims
from hlo.values.types import S32, S64, ElementType


@dataclass(frozen=True)
class Starts:
    """The windows of all index vectors, in the order of the batch.

    dims: how indices select. rank: of the operand. batch: sizes of the dimensions that name index
    vectors. type: of the scalars, in which all positions fit.
    """

    dims: IndexDims
    rank: int
    batch: tuple[int, ...]
    type: ElementType

    @staticmethod
    def of(operand: Instruction, indices: Instruction, dims: IndexDims) -> Starts:
        shape = indices.array_shape
        batch = tuple(n for d, n in enumerate(shape.dims) if d != dims.index_vector_dim)
        sizes = (*operand.array_shape.dims, math.prod(batch))
        et = shape.element_type
        # Unsigned numbers of 32 bits, and sums of a start and a size, need more than s32.
        narrow = et.bits < 32 or et is S32
        fits = narrow and max(sizes) < 2**31
        return Starts(dims, operand.array_shape.rank, batch, S32 if fits else S64)

    @property
    def count(self) -> int:
        return math.prod(self.batch)

    def vectors(self, b: Builder, indices: Instruction) -> Instruction:
        """Append the index vectors as rows of a matrix."""
        shape = indices.array_shape
        if shape.element_type.name == "u64":
            # What is too large for s64 stays out of range.
            most = b.filled(shape.element_type, shape.dims, 2**63 - 1)
            indices = b.op("minimum", indices, most)
        indices, at = b.convert(indices, self.type), self.dims.index_vector_dim
        if at < shape.rank - 1:
            order = (*(d for d in range(shape.rank) if d != at), at)
            indices = b.op("transpose", indices, dimensions=order)
        return b.reshape(indices, (self.count, len(self.dims.index_map)))

    def at(self, b: Builder, vectors: Instruction, number: Instruction) -> list[Instruction]:
        """Append the start of the window `number` in each dimension of the operand."""
        number = b.convert(number, self.type)
        zero = b.constant(self.type, 0)
        starts = [zero] * self.rank
        for k, d in enumerate(self.dims.index_map):
            place = (number, b.constant(self.type, k))
            element = b.op("dynamic-slice", vectors, *place, dynamic_slice_sizes=(1, 1))
            starts[d] = b.reshape(element, ())
        for d, axis in self.dims.batching.items():
            inner = b.constant(self.type, max(1, math.prod(self.batch[axis + 1 :])))
            size = b.constant(self.type, max(1, self.batch[axis]))
            starts[d] = b.op("remainder", b.op("divide", number, inner), size)
        return starts
