"""How tiles of operands lie in shared memory, so that lanes of a warp read from different banks."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.codegen.llvm import Builder, Index, i64

# The most that is copied at a time, and what a lane gives of a row of an 8x8 matrix; what all banks
# have side by side.
CHUNK, _LINE = 16, 128


@dataclass(frozen=True)
class TileLayout:
    """A tile of `free` rows or columns by `depth` of k, of elements of `size` bytes.

    along_k: k is innermost. is_swizzled: the chunks of a line are in an order that differs from one
    line to the next; otherwise lines are padded, by so many bytes.
    """

    free: int
    depth: int
    size: int
    along_k: bool
    is_swizzled: bool
    padding: int = 32

    @property
    def inner(self) -> int:
        return self.depth if self.along_k else self.free

    @property
    def pitch(self) -> int:
        """Bytes from a line to the next."""
        # Eight lanes, or four, that read side by side begin in another bank on each line.
        return self.inner * self.size + (0 if self.is_swizzled else self.padding)

    @property
    def bytes(self) -> int:
        return (self.free if self.along_k else self.depth) * self.pitch

    @property
    def _turns(self) -> tuple[int, int]:
        """After how many lines the order of chunks changes, and how many orders there are."""
        return max(1, _LINE // self.pitch), min(8, self.pitch // CHUNK)

    def turned(self, b: Builder, line: Index, chunk: Index) -> Index:
        """Return where a chunk of a line is among those of the line."""
        if not self.is_swizzled:
            return chunk
        after, orders = self._turns
        return _xor(b, chunk, b.urem(b.udiv(line, after), orders))

    def at(self, b: Builder, free: Index, depth: Index) -> Index:
        """Return where an element is, in bytes."""
        line, along = (free, depth) if self.along_k else (depth, free)
        if not self.is_swizzled:
            return b.add(b.mul(line, self.pitch), b.mul(along, self.size))
        each = CHUNK // self.size
        chunk = self.turned(b, line, b.udiv(along, each))
        inside = b.mul(b.urem(along, each), self.size)
        return b.add(b.add(b.mul(line, self.pitch), b.mul(chunk, CHUNK)), inside)


def _xor(b: Builder, x: Index, y: Index) -> Index:
    if isinstance(x, int) and isinstance(y, int):
        return x ^ y
    return b.binary("xor", i64(x), i64(y)).name
