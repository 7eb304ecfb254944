"""Conversion between arrays in logical order and physical buffers."""

from __future__ import annotations

import math

import numpy as np

from hlo.errors import InferError
from hlo.support.memory import check_memory
from hlo.values.layout import (
    Tiling,
    checked_layout,
    element_bits,
    physical_bytes,
    physical_dims,
    physical_elements,
    tilings,
)
from hlo.values.types import ArrayShape, ElementType


def pack(array: np.ndarray, shape: ArrayShape, padding: np.ndarray | None = None) -> np.ndarray:
    """Return the physical buffer of an array given in logical order.

    array: the shape's dimensions and dtype. padding: value of padding, a scalar of that dtype, or
    None for zero bits, which a metadata prefix always has. Returns bytes (uint8, 1-d) of
    `physical_bytes(shape)`. Raises InferError for a layout with a physical shape of its own.
    """
    layout = checked_layout(shape)
    if array.shape != shape.dims or array.dtype != shape.element_type.dtype:
        raise InferError(
            f"an array {array.dtype}{list(array.shape)} is not a {shape.to_string(False)}",
            code="type-mismatch",
        )
    if padding is not None and (padding.shape != () or padding.dtype != array.dtype):
        raise InferError(
            f"padding of {padding.dtype}{list(padding.shape)} is not one {array.dtype}",
            code="type-mismatch",
        )
    size = physical_bytes(shape)
    if not physical_elements(shape):
        return np.zeros(size, np.uint8)  # tiles may be larger than any array
    # The elements of a packed buffer are expanded to a byte each on the way.
    check_memory(size + physical_elements(shape) * array.dtype.itemsize, f"packing {shape}")
    filler = np.zeros((), array.dtype) if padding is None else padding
    if array.dtype.itemsize == 1:
        # Padding has zero bits, which is not the number zero in all types.
        array = np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)
        filler = np.zeros((), np.uint8) if padding is None else padding.view(np.uint8)
    array = array.transpose(layout.minor_to_major[::-1])
    for step in tilings(shape, layout):
        array = _tile(array, step, filler)
    elements = np.full(physical_elements(shape), filler, array.dtype)
    elements[: array.size] = array.reshape(-1)
    buffer = np.zeros(size, np.uint8)
    buffer[layout.dynamic_prefix_bytes :] = _to_bits(
        elements, shape.element_type, element_bits(shape)
    )
    return buffer


def unpack(buffer: np.ndarray, shape: ArrayShape) -> np.ndarray:
    """Return the array, in logical order, whose physical buffer this is: the inverse of `pack`."""
    layout = checked_layout(shape)
    size = physical_bytes(shape)
    if buffer.dtype != np.uint8 or buffer.ndim != 1 or len(buffer) != size:
        raise InferError(
            f"{shape} takes a buffer of {size} bytes, not {buffer.dtype}{list(buffer.shape)}",
            code="shape-mismatch",
        )
    if not physical_elements(shape):
        return np.zeros(shape.dims, shape.element_type.dtype)
    bits = buffer[layout.dynamic_prefix_bytes :]
    elements = _from_bits(bits, shape.element_type, element_bits(shape))
    dims = physical_dims(shape)
    array = elements[: math.prod(dims)].reshape(dims)
    for step in reversed(tilings(shape, layout)):
        array = _untile(array, step)
    logical = array.transpose(np.argsort(layout.minor_to_major[::-1]) if shape.rank else None)
    return np.ascontiguousarray(logical).reshape(shape.dims)


def _tile(array: np.ndarray, step: Tiling, filler: np.ndarray) -> np.ndarray:
    merged = array.reshape(step.merged)
    counts, sizes, kept = step.counts, step.sizes, step.kept
    pad = [(0, 0)] * kept + [
        (0, c * t - d) for c, t, d in zip(counts, sizes, step.merged[kept:], strict=True)
    ]
    merged = np.pad(merged, pad, constant_values=filler) if pad else merged
    pairs = [n for pair in zip(counts, sizes, strict=True) for n in pair]
    return merged.reshape([*step.merged[:kept], *pairs]).transpose(_tile_order(kept, len(sizes)))


def _untile(array: np.ndarray, step: Tiling) -> np.ndarray:
    counts, sizes, kept = step.counts, step.sizes, step.kept
    order = np.argsort(_tile_order(kept, len(sizes))) if array.ndim else None
    whole = [c * t for c, t in zip(counts, sizes, strict=True)]
    merged = array.transpose(order).reshape([*step.merged[:kept], *whole])
    used = merged[tuple(slice(0, n) for n in step.merged)]
    return used.reshape(step.dims[step.lead :])


def _tile_order(kept: int, tiled: int) -> list[int]:
    """Return the permutation that puts the indices inside a tile after those of tiles."""
    return [*range(kept), *range(kept, kept + 2 * tiled, 2), *range(kept + 1, kept + 2 * tiled, 2)]


def _to_bits(elements: np.ndarray, et: ElementType, bits: int) -> np.ndarray:
    """Return elements as bytes, each in `bits` bits, the first in the low-order bits of a byte."""
    octets = _extend(elements.view(np.uint8), et)
    if bits == 8 * et.byte_width:
        return octets
    if bits >= 8:
        wide = np.zeros((len(elements), bits // 8), np.uint8)
        wide[:, : et.byte_width] = octets.reshape(-1, et.byte_width)
        if et.is_signed:
            wide[:, et.byte_width :] = -(wide[:, et.byte_width - 1 : et.byte_width] >> 7)
        return wide.reshape(-1)
    per_byte = 8 // bits
    small = np.zeros((-(-len(octets) // per_byte), per_byte), np.uint8)
    small.reshape(-1)[: len(octets)] = octets & ((1 << bits) - 1)
    return np.bitwise_or.reduce(small << (np.arange(per_byte, dtype=np.uint8) * bits), axis=1)


def _from_bits(octets: np.ndarray, et: ElementType, bits: int) -> np.ndarray:
    if bits >= 8:
        octets = octets.reshape(-1, bits // 8)[:, : et.byte_width].reshape(-1)
    else:
        shifts = np.arange(8 // bits, dtype=np.uint8) * bits
        octets = ((octets[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)
    return octets != 0 if et.is_pred else _extend(octets, et).view(et.dtype)


def _extend(octets: np.ndarray, et: ElementType) -> np.ndarray:
    """Return the bytes of elements with the unused bits of a narrow type zero- or sign-extended."""
    if et.bits >= 8:
        return octets
    low = octets & np.uint8((1 << et.bits) - 1)
    sign = np.uint8(1 << (et.bits - 1) if et.is_signed else 0)
    return (low ^ sign) - sign
