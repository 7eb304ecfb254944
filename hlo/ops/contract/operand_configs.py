"""The rules of operands that say something of others: scales of blocks, places of what is stored.

Source: XLA's `shape_inference.cc`; no backend of the XLA in jaxlib computes with them on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import PACKED_NIBBLE
from hlo.ops.attrs.operand_configs import (
    TensorScaling,
    TensorSparsity,
)
from hlo.ops.rules import array_operand
from hlo.ops.spec import OpView
from hlo.values.types import UNBOUNDED, ArrayShape, TupleShape, array

_SIDES = ("lhs", "rhs")


def _sparsity(op: OpView, index: int) -> TensorSparsity | None:
    config = op.sparsity_config
    return getattr(config, _SIDES[index]) if config else None


def scaling(op: OpView, index: int) -> TensorScaling | None:
    """Return how operand 0 or 1 of a contraction is scaled."""
    config = op.block_scaling_config
    return getattr(config, _SIDES[index]) if config else None


def dense_operand(op: OpView, index: int) -> ArrayShape:
    """Return the shape that operand 0 or 1 has with its left-out elements filled in.

    A sparse operand may come as a tuple of its values and their places.
    """
    name, sparsity = _SIDES[index], _sparsity(op, index)
    shape = op.operand_shape(index)
    if sparsity is None or not isinstance(shape, TupleShape):
        values = array_operand(op, index)
    elif len(shape.elements) == 2 and isinstance(shape.elements[0], ArrayShape):
        values = shape.elements[0]
    else:
        raise InferError(
            f"{op.opcode}: sparse {name} has shape {shape.to_string(False)}, "
            "a tuple of values and places is needed",
            operand=index, code="type-mismatch",
        )  # fmt: skip
    if sparsity is None:
        return values
    stored, block = sparsity.num_non_zero, sparsity.block_size
    if stored < 1 or block < stored or (op.opcode == "convolution" and stored != 1):
        needed = "one element" if op.opcode == "convolution" else "some"
        raise InferError(
            f"{op.opcode}: {name} sparsity is {stored}x{block}, {needed} of each block is needed",
            attr="sparsity_config", code="bad-value",
        )  # fmt: skip
    if sparsity.dimension >= values.rank:
        raise InferError(
            f"{op.opcode}: {name} is sparse in dimension {sparsity.dimension}, "
            f"outside [0, {values.rank})",
            attr="sparsity_config", code="bad-dimension",
        )  # fmt: skip
    dims = list(values.dims)
    size = dims[sparsity.dimension]
    if size != UNBOUNDED:
        if size % stored:
            raise InferError(
                f"{op.opcode}: dimension {sparsity.dimension} of {name} stores {size} elements, "
                f"which are not {stored} of each block",
                attr="sparsity_config", code="bad-dimension",
            )  # fmt: skip
        dims[sparsity.dimension] = size // stored * block
    return array(values.element_type, dims, values.dynamic)


def need_configured_operands(op: OpView) -> None:
    """Check that the configs name each operand behind the first two, and no other one."""
    named: list[tuple[str, int]] = []
    for index in (0, 1):
        sparsity, scales = _sparsity(op, index), scaling(op, index)
        if sparsity is not None and sparsity.index is not None:
            named.append(("sparsity_config", sparsity.index))
        if scales is not None:
            named.append(("block_scaling_config", scales.scale))
            if scales.zero is not None:
                named.append(("block_scaling_config", scales.zero))
            _need_scales(op, index, scales)
    for attr, operand in named:
        _need_further(op, attr, operand)
    count = len(op.operand_shapes) - 2
    found = len({operand for _, operand in named})
    if found != count:
        raise InferError(
            f"{op.opcode}: there are {count} operands besides the factors, sparsity_config and "
            f"block_scaling_config name {found}",
            operand=2, code="operand-count",
        )  # fmt: skip


def _need_further(op: OpView, attr: str, operand: int) -> ArrayShape:
    if not 2 <= operand < len(op.operand_shapes):
        raise InferError(
            f"{op.opcode}: {attr} names operand {operand}, which is not in "
            f"[2, {len(op.operand_shapes)})",
            attr=attr, code="index-out-of-range",
        )  # fmt: skip
    return array_operand(op, operand)


def _need_scales(op: OpView, index: int, scales: TensorScaling) -> None:
    shape = array_operand(op, index)
    for operand in (scales.scale, scales.zero):
        if operand is None:
            continue
        found = _need_further(op, "block_scaling_config", operand)
        blocks = blocks_of(scales, shape, found) if found.rank == shape.rank else None
        if blocks is None or any(
            UNBOUNDED not in (size, have) and size and (size - 1) // stride * step >= have
            for size, have, (stride, step) in zip(shape.dims, found.dims, blocks, strict=True)
        ):
            raise InferError(
                f"{op.opcode}: operand {operand}, {found.to_string(False)}, does not have an "
                f"element for each block of {_SIDES[index]} {shape.to_string(False)}",
                operand=operand,
            )


def blocks_of(
    scales: TensorScaling, shape: ArrayShape, of: ArrayShape
) -> list[tuple[int, int]] | None:
    """Return, by dimension, the size of a block and how far on its scale is; None for no such."""
    steps = scales.steps or (1,) * shape.rank
    strides = scales.strides
    if not strides:
        parts = list(zip(shape.dims, of.dims, strict=True))
        if any(not have or size % have for size, have in parts):
            return None
        strides = tuple(size // have for size, have in parts)
    if len(strides) != shape.rank or len(steps) != shape.rank:
        return None
    # An empty dimension has no block; any size of one is right.
    return [(max(1, stride), step) for stride, step in zip(strides, steps, strict=True)]


def scaled(op: OpView, args: Sequence[Any], index: int) -> np.ndarray:
    """Return the value of operand 0 or 1 in f64: its elements without their zero, times scale."""
    value = np.asarray(args[index]).astype(np.float64)
    scales = scaling(op, index)
    assert scales is not None
    shape = array_operand(op, index)
    for operand in (scales.zero, scales.scale):
        if operand is None:
            continue
        blocks = blocks_of(scales, shape, array_operand(op, operand))
        assert blocks is not None
        at = [
            np.arange(n) // stride * step
            for n, (stride, step) in zip(shape.dims, blocks, strict=True)
        ]
        factor = np.asarray(args[operand]).astype(np.float64)[np.ix_(*at)]
        value = value - factor if operand == scales.zero else value * factor
    return value


def is_packed(op: OpView) -> bool:
    """True for a product of bytes that hold two numbers of 4 bits each, both factors alike.

    Source: `operand_upcaster.cc` of the XLA that had it.
    """
    return (
        op.operand_precision == (PACKED_NIBBLE, PACKED_NIBBLE)
        and len(op.operand_shapes) == 2
        and all(array_operand(op, i).element_type.name in ("s8", "u8") for i in (0, 1))
    )


def factors(op: OpView, args: Sequence[Any]) -> list[list[np.ndarray]]:
    """Return the values of operands 0 and 1, in f64 where they are scaled.

    More than one pair of such where the products of pairs are added.
    """
    if is_packed(op):
        low = [np.right_shift(np.left_shift(x, 4), 4) for x in args]
        return [low, [np.right_shift(x, 4) for x in args]]
    return [[args[i] if scaling(op, i) is None else scaled(op, args, i) for i in (0, 1)]]


def add_products(products: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of the products of pairs, of which integers wrap around."""
    total = products[0]
    with np.errstate(over="ignore"):
        for product in products[1:]:
            total = np.asarray(total + product, total.dtype)
    return total


def need_dense(op: OpView) -> None:
    """Raise InferError for sparse operands, whose stored form is a device's own."""
    if op.sparsity_config is not None:
        raise InferError(
            f"{op.opcode}: sparsity_config cannot be evaluated, "
            "how places are stored depends on the device",
            attr="sparsity_config", code="unsupported",
            hint="XLA ignores it on a CPU, where both operands are whole: --verify=lenient does so",
        )  # fmt: skip
