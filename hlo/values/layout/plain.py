"""Plain layouts: an array is its elements in some order of dimensions.

Elements take whole bytes, as in numpy, without gaps. All values inside compiled code are stored so;
arguments and results may also have tiles, padding or bit packing.
"""

from __future__ import annotations

from hlo.values.layout.addressing import physical_bytes
from hlo.values.types import ArrayShape, ElementType, Shape


def is_plain(shape: Shape) -> bool:
    """True for an array without tiles, padding or bit packing, and for any other shape."""
    if not isinstance(shape, ArrayShape) or shape.layout is None:
        return True
    x = shape.layout
    return (
        not x.tiles
        and x.tail_padding == 1
        and _is_whole(shape.element_type, x.element_bits)
        and not x.dynamic_prefix_bytes
        and x.physical_shape is None
    )


def _is_whole(et: ElementType, bits: int) -> bool:
    """True when an element of so many bits (0: the default) fills whole bytes.

    The unused bits of a narrow type in a byte need not be an extension.
    """
    is_narrow = et.is_pred or et.bits < 8
    return bits == 0 or (bits == 8 * et.byte_width and not is_narrow)


def is_empty(shape: ArrayShape) -> bool:
    """True for an array that takes no memory; one without elements may have a prefix."""
    return not (shape.num_elements if is_plain(shape) else physical_bytes(shape))


def size_bytes(shape: Shape) -> int:
    """Return the bytes of an array in memory, at least one so that addresses differ."""
    assert isinstance(shape, ArrayShape)
    return max(1, shape.byte_size if is_plain(shape) else physical_bytes(shape))


def minor_to_major(shape: ArrayShape) -> tuple[int, ...]:
    """Return the dimensions of an array, the fastest-varying first; row-major by default."""
    if shape.layout is not None:
        return shape.layout.minor_to_major
    return tuple(range(shape.rank))[::-1]


def loop_order(shape: ArrayShape) -> list[int]:
    """Return the dimensions of more than one element, the slowest-varying first."""
    return [d for d in reversed(minor_to_major(shape)) if shape.dims[d] != 1]


def strides_of(shape: ArrayShape) -> list[int]:
    """Return the distance in elements between neighbours of each dimension, tiles aside."""
    stride, strides = 1, [0] * shape.rank
    for d in minor_to_major(shape):
        strides[d] = stride
        stride *= shape.dims[d]
    return strides
