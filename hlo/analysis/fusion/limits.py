"""What kernels cost on a machine: it decides what is computed again, and what is stored."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.values.types import ArrayShape


@dataclass(frozen=True)
class FusionLimits:
    """When values are computed in the kernels that use them.

    in_a_row: so many transcendental functions that one element needs in a row, each a hundred
    instructions of code, take far longer than to write what they make and read it again, if it
    stays in the cache. What is longer is cut: the parts are often equal. delay: paths between a
    value and where its uses come together stay apart if they cost more. again: the cost of what
    several kernels compute, each for itself, counted for each of its uses. launch: what a kernel
    costs besides the memory that it reads and writes, in operations; byte: what a byte of that
    costs. joined_bytes: kernels over arrays of so many bytes are joined though they share nothing.
    joins_rare: whether operations with rare expensive cases are computed with others. rows: a
    product of so many rows, or columns, computes parts of the array that they are multiplied by.
    """

    in_a_row: int = 5
    delay: float = 20.0
    again: float = 0.0
    launch: float = 0.0
    byte: float = 0.0
    joined_bytes: int = 0
    joins_rare: bool = False
    rows: int = 0

    def is_better_again(self, cost: float, shape: ArrayShape, used: int) -> bool:
        """Return whether to compute a value where it is used, rather than to store it.

        cost: of an element. used: how many elements the kernels that use it need.
        """
        more = max(0, used - shape.num_elements)
        return cost * more <= self.launch + self.byte * shape.byte_size


USUAL = FusionLimits()
