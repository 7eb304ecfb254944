"""Which dimensions a reshape takes together, and which of them varies in size.

Source: XLA's `dynamic_dimension_inference.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hlo.errors import InferError
from hlo.ops.spec import OpView
from hlo.values.types import UNBOUNDED, ArrayShape, array


def dimension_groups(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Cut two lists of sizes of one product, none of them 0, into groups of equal products."""
    i = j = 0
    while i < len(a) or j < len(b):
        i0, j0, left, right = i, j, 1, 1
        if i < len(a):
            left, i = a[i], i + 1
        if j < len(b):
            right, j = b[j], j + 1
        while left != right:
            if left < right:
                left, i = left * a[i], i + 1
            else:
                right, j = right * b[j], j + 1
        yield range(i0, i), range(j0, j)


def varying_dimension(op: OpView, outs: range) -> int:
    """Return the result dimension, out of a group, that takes up what varies in the operand.

    The order of preference is XLA's. Raises InferError where it leaves a choice.
    """
    assert isinstance(op.shape, ArrayShape)
    return _varying(op.shape, outs, op.inferred_dimension)


def reshaped(operand: ArrayShape, sizes: Sequence[int]) -> ArrayShape:
    """Return an array in other dimensions, of which those vary that what varies in it goes into.

    Raises InferError where there is a choice.
    """
    result = array(operand.element_type, sizes)
    if not operand.is_dynamic or math.prod(operand.dims) != math.prod(sizes) or 0 in sizes:
        return result
    flags = [False] * len(sizes)
    for ins, outs in dimension_groups(operand.dims, sizes):
        if any(map(operand.is_dynamic_dim, ins)) and outs:
            flags[_varying(result, outs, None)] = True
    return array(operand.element_type, sizes, flags)


def need_varying(operand: ArrayShape, result: ArrayShape) -> None:
    """Raise InferError if the shape of a reshape is fixed where its operand varies in size."""
    unlike = math.prod(operand.dims) != math.prod(result.dims)
    if not operand.is_dynamic or unlike or {0, UNBOUNDED} & {*operand.dims, *result.dims}:
        return
    for ins, outs in dimension_groups(operand.dims, result.dims):
        varies, may = (
            any(map(shape.is_dynamic_dim, dims)) for shape, dims in ((operand, ins), (result, outs))
        )
        if varies and outs and not may:
            raise InferError(
                f"reshape: {operand.to_string(False)} varies in size where "
                f"{result.to_string(False)} does not",
                code="type-mismatch", hint="sizes instead of a shape find what varies",
            )  # fmt: skip


def _varying(result: ArrayShape, outs: range, inferred: int | None) -> int:
    choices = (
        [d for d in outs if d == inferred],
        [d for d in outs if result.is_dynamic_dim(d)][-1:],
        [d for d in outs if result.dims[d] != 1],
        list(outs),
    )
    for found in choices:
        if len(found) == 1:
            return found[0]
    raise InferError(
        f"reshape: it is ambiguous which of the dimensions {list(outs)} of "
        f"{result.to_string(False)} varies",
        operand=0, code="unsupported",
    )  # fmt: skip
