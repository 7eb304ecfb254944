"""The constants of an entry, in one block of memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.codegen.llvm import ModuleBuilder
from hlo.ir import Instruction


class Constants:
    """Arrays, each at its offset in bytes, a multiple of the alignment.

    pieces: offsets and arrays in order. size: bytes of all together.
    """

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self.pieces: list[tuple[int, np.ndarray]] = []
        self.size = 0
        self._tables: dict[tuple[str, bytes], int] = {}
        # Entries keep their literals alive, since the keys are ids.
        self._literals: dict[tuple[int, tuple[int, ...]], tuple[int, np.ndarray, Any]] = {}

    def _place(self, data: np.ndarray) -> int:
        offset = -(-self.size // self._alignment) * self._alignment
        self.pieces.append((offset, data))
        self.size = offset + max(1, data.nbytes)
        return offset

    def table(self, data: np.ndarray) -> int:
        """Return the offset of a kernel's constants, shared by equal ones."""
        key = (data.dtype.str, data.tobytes())
        if key not in self._tables:
            self._tables[key] = self._place(np.ascontiguousarray(data))
        return self._tables[key]

    def literal(self, inst: Instruction) -> tuple[int, int]:
        """Return the offset and the bytes of a constant in its layout.

        Constants of code that is inlined several times are shared.
        """
        literal, layout = inst.literal, inst.array_shape.layout
        assert layout is not None
        order = layout.minor_to_major[::-1]
        known = self._literals.get((id(literal), order))
        if known is None:
            data = np.ascontiguousarray(literal.value.transpose(order))
            known = self._literals[id(literal), order] = (self._place(data), data, literal)
        offset, data, _ = known
        return offset, max(1, data.nbytes)

    def add_to(self, module: ModuleBuilder, name: str) -> str:
        """Add them to a module as the constants of a function; returns their address."""
        if not self.size:
            return "null"
        data = bytearray(self.size)
        for offset, array in self.pieces:
            octets = array.tobytes()
            data[offset : offset + len(octets)] = octets
        text = "".join(f"\\{octet:02x}" for octet in data)
        return module.define(
            f"{name}.constants",
            f'internal unnamed_addr constant [{self.size} x i8] c"{text}", align {self._alignment}',
        )
