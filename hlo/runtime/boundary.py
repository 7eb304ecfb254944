"""Where numpy's arrays meet native code: each array leaf has a port.

An array that already lies in memory as its shape's layout says is passed by address. Any other is
copied into that form; a result is given out as a view of its memory where there is one.
"""

from __future__ import annotations

import math

import numpy as np

from hlo.layout import element_bits, physical_bytes, physical_elements
from hlo.layout.packing import pack, unpack
from hlo.runtime.blocks import Supply
from hlo.types import ArrayShape


class Port:
    """A leaf in the default layout: row-major, whole bytes."""

    # Whether memory is the array itself.
    is_plain = True
    # What a copy of an argument takes, where there is always one.
    packed_bytes = 0

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        self.dims = shape.dims
        self.dtype = shape.element_type.dtype
        self.size_bytes = physical_bytes(shape)
        self._supply = Supply(self.size_bytes)

    def physical(self, array: np.ndarray) -> np.ndarray:
        """Return memory that holds an array of the port's dimensions and dtype."""
        return np.require(array, requirements=("C", "A"))

    def allocate(self) -> np.ndarray:
        """Return memory for a value."""
        if self.size_bytes < 512:
            # Alignment gains nothing here, and costs a microsecond.
            return np.empty(self.dims, self.dtype)
        return np.ndarray(self.dims, self.dtype, self._supply.take())

    def logical(self, memory: np.ndarray) -> np.ndarray:
        """Return the array that memory holds."""
        return memory


class TransposedPort(Port):
    """A leaf whose dimensions lie in another order."""

    is_plain = False

    def __init__(self, shape: ArrayShape) -> None:
        super().__init__(shape)
        assert shape.layout is not None
        self._order = shape.layout.minor_to_major[::-1]
        self._back = tuple(int(d) for d in np.argsort(self._order))
        self._in_memory = tuple(shape.dims[d] for d in self._order)

    def physical(self, array: np.ndarray) -> np.ndarray:
        return super().physical(array.transpose(self._order))

    def allocate(self) -> np.ndarray:
        return super().allocate().reshape(self._in_memory)

    def logical(self, memory: np.ndarray) -> np.ndarray:
        return memory.transpose(self._back)


class PackedPort(Port):
    """A leaf in tiles, with several elements in a byte, or with padding."""

    is_plain = False

    def __init__(self, shape: ArrayShape) -> None:
        super().__init__(shape)
        # Elements pass through a byte each, or their own size, on the way to their places.
        width = shape.element_type.byte_width
        self.packed_bytes = self.size_bytes + physical_elements(shape) * width

    def physical(self, array: np.ndarray) -> np.ndarray:
        return pack(array, self.shape)

    def allocate(self) -> np.ndarray:
        return self._supply.take()

    def logical(self, memory: np.ndarray) -> np.ndarray:
        # Memory has at least one byte, the form of an empty array none.
        return unpack(memory.view(np.ndarray)[: self.size_bytes], self.shape)


def port(shape: ArrayShape) -> Port:
    """Return the port of a leaf."""
    layout = shape.layout
    plain = (
        layout is None
        or (
            not layout.tiles
            and element_bits(shape) == 8 * shape.element_type.byte_width
            and physical_bytes(shape) == math.prod(shape.dims) * shape.element_type.byte_width
        )
    )  # fmt: skip
    if not plain:
        return PackedPort(shape)
    in_order = layout is None or layout.minor_to_major == tuple(reversed(range(shape.rank)))
    return Port(shape) if in_order else TransposedPort(shape)
