"""What the lanes of a warp hold of a tile: the operands of `mma`, read from shared memory."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.targets.gpu.base import TOGETHER
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.matmul.layouts import CHUNK, TileLayout
from hlo.codegen.targets.gpu.kernels.matmul.units import Unit

# Rows and columns of the matrices that `ldmatrix` loads.
_MATRIX = 8


class Fragments(ABC):
    """The fragments of one operand for the tiles of a warp, along m or n."""

    def __init__(
        self, block: Block, side: str, unit: Unit, layout: TileLayout, first: Index, number: int
    ) -> None:
        """first: where the warp's part of the tile begins. number: of fragments."""
        self.b, self.side, self.unit = block.b, side, unit
        self.layout, self.first, self.number = layout, first, number
        self.lane = block.index(block.lane())

    @abstractmethod
    def read(self, base: str, step: Index) -> list[list[Val]]:
        """Return the registers of each fragment, for a step along k, of the tile at an address."""


def fragments_of(
    block: Block, side: str, unit: Unit, layout: TileLayout, first: Index, number: int
) -> Fragments:
    """Return what reads the fragments of a tile of some layout."""
    kind = _Matrices if layout.is_swizzled else _Elements
    return kind(block, side, unit, layout, first, number)


class _Matrices(Fragments):
    """Reads four matrices of 8 by 16 bytes at a time, turned where k is not innermost."""

    def read(self, base: str, step: Index) -> list[list[Val]]:
        b = self.b
        found: list[list[Val]] = []
        # Four matrices are one fragment of A, or two of B.
        together = 1 if self.side == "a" else 2
        for number in range(0, self.number, together):
            address = b.element_address(base, "i8", self._place(step, number * 16 // together))
            words = load_matrices(b, address, is_turned=not self.layout.along_k)
            for n in range(together):
                each = len(words) // together
                found.append(self.unit.typed(b, words[n * each : (n + 1) * each]))
        return found

    def _place(self, step: Index, first: int) -> Index:
        """Return where the lane's line of a matrix is, in bytes."""
        b, layout, lane = self.b, self.layout, self.lane
        line, low, high = b.urem(lane, 8), b.urem(b.udiv(lane, 8), 2), b.udiv(lane, 16)
        # Matrices of A follow each other along m, then along k; those of B along k, then along n.
        free, depth = (low, high) if self.side == "a" else (high, low)
        if layout.along_k:
            line = b.add(b.mul(free, _MATRIX), line)
            chunk = layout.turned(b, line, b.add(depth, b.mul(step, 2)))
            rows = b.add(self.first, line)
            at = b.add(b.mul(rows, layout.pitch), b.mul(chunk, CHUNK))
            return b.add(at, first * layout.pitch)
        line = b.add(b.mul(depth, _MATRIX), line)
        chunk = b.add(b.add(b.udiv(self.first, _MATRIX), free), first // _MATRIX)
        chunk = layout.turned(b, line, chunk)
        at = b.add(b.mul(line, layout.pitch), b.mul(chunk, CHUNK))
        return b.add(at, b.mul(step, self.unit.depth * layout.pitch))


class _Elements(Fragments):
    """Reads registers of one element each."""

    def read(self, base: str, step: Index) -> list[list[Val]]:
        b, unit, layout = self.b, self.unit, self.layout
        free = b.add(self.first, b.udiv(self.lane, 4))
        depth = b.urem(self.lane, 4)
        rows = unit.rows // _MATRIX if self.side == "a" else 1
        found = []
        for number in range(self.number):
            registers = []
            for k in range(0, unit.depth, 4):
                for n in range(rows):
                    place = b.add(free, (number * rows + n) * _MATRIX)
                    own = b.add(depth, b.add(b.mul(step, unit.depth), k))
                    at = layout.at(b, place, own)
                    registers.append(b.load(unit.register, b.element_address(base, "i8", at)))
            found.append(unit.typed(b, registers))
        return found


def load_matrices(b: Builder, address: str, *, is_turned: bool) -> list[Val]:
    """Load four 8x8 matrices of 16-bit elements; each lane has the address of one of 32 lines."""
    space = "ptr addrspace(3)"
    shared = b.cast("addrspacecast", Val("ptr", address), space)
    turned = ".trans" if is_turned else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{turned}.b16.p3"
    struct = "{ i32, i32, i32, i32 }"
    b.module.declare(name, struct, [space], TOGETHER)
    found = b.call(name, [shared], struct)
    return [b.extract_value(found, "i32", n) for n in range(4)]
