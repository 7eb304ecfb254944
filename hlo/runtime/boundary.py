"""Conversion between numpy arrays and the memory of native code: each array leaf has a port.

An array whose memory already has the layout of its shape is passed by address. Others are copied
to it; a result is returned as a view of its memory if numpy can express one.
"""

from __future__ import annotations

import math

import numpy as np

from hlo.runtime.blocks import Supply
from hlo.values.layout import element_bits, physical_bytes, physical_elements
from hlo.values.layout.packing import pack, unpack
from hlo.values.types import ArrayShape


class Port:
    """A leaf in the default layout: row-major, whole bytes."""

    # Whether an array can be passed without a copy.
    is_plain = True
    # The bytes of the copy of an argument, if it is always copied.
    packed_bytes = 0

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        self.dims = shape.dims
        self.dtype = shape.element_type.dtype
        self.size_bytes = physical_bytes(shape)
        self._supply = Supply(self.size_bytes)

    @property
    def order(self) -> tuple[int, ...] | None:
        """The dimensions in the order of memory, from major to minor; None where that does not tell
        where the elements are."""
        return tuple(range(len(self.dims)))

    def physical(self, array: np.ndarray) -> np.ndarray:
        """Return memory with the content of an array of the port's dimensions and dtype."""
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
    """A leaf whose dimensions are not in row-major order."""

    is_plain = False

    def __init__(self, shape: ArrayShape) -> None:
        super().__init__(shape)
        assert shape.layout is not None
        self._order = shape.layout.minor_to_major[::-1]
        self._back = tuple(int(d) for d in np.argsort(self._order))
        self._in_memory = tuple(shape.dims[d] for d in self._order)

    @property
    def order(self) -> tuple[int, ...] | None:
        return self._order

    def physical(self, array: np.ndarray) -> np.ndarray:
        return super().physical(array.transpose(self._order))

    def allocate(self) -> np.ndarray:
        return super().allocate().reshape(self._in_memory)

    def logical(self, memory: np.ndarray) -> np.ndarray:
        return memory.transpose(self._back)


class PackedPort(Port):
    """A leaf with tiles, bit packing or padding."""

    is_plain = False

    def __init__(self, shape: ArrayShape) -> None:
        super().__init__(shape)
        # Packing goes through an array with a byte per element, or the element's own size.
        width = shape.element_type.byte_width
        self.packed_bytes = self.size_bytes + physical_elements(shape) * width

    @property
    def order(self) -> tuple[int, ...] | None:
        return None

    def physical(self, array: np.ndarray) -> np.ndarray:
        return pack(array, self.shape)

    def allocate(self) -> np.ndarray:
        return self._supply.take()

    def logical(self, memory: np.ndarray) -> np.ndarray:
        # Memory has at least one byte, the buffer of an empty array none.
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
