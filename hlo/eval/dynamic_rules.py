"""Which elements of operands with dynamic dimensions participate, by operation.

A rule gets the operands at their bounds. It may narrow or widen the part of each that
participates (by default the valid part), change attributes that contain sizes, and set the
dimensions of the result where shape inference cannot.

Source: XLA's `dynamic_dimension_inference.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import SliceDim
from hlo.ops.movement.reshape_groups import dimension_groups, varying_dimension
from hlo.ops.rules import array_result
from hlo.ops.spec import OpView
from hlo.values.arrays import DynamicArray, actual, at_bounds
from hlo.values.types import UNBOUNDED, ArrayShape, Shape


class Arg:
    """An operand: its value at its bounds, its sizes, and which of them are dynamic."""

    def __init__(self, value: np.ndarray | DynamicArray, shape: Shape) -> None:
        self.data = at_bounds(value)
        self.sizes = actual(value).shape
        assert isinstance(shape, ArrayShape)
        self.varies = [
            shape.is_dynamic_dim(d) or n != self.data.shape[d] for d, n in enumerate(self.sizes)
        ]
        # The part that participates; a rule may narrow it, or extend it into the padding.
        self.part = list(self.sizes)

    @property
    def array(self) -> np.ndarray:
        return self.data[tuple(slice(0, n) for n in self.part)]


@dataclass
class Case:
    """The outcome of a rule besides the parts: changed attributes and the result's dimensions."""

    attrs: dict[str, Any]
    dims: Sequence[int] | None = None


Rule = Callable[[OpView, list[Arg]], Case]

# --- parts --------------------------------------------------------------------------------------


def share(args: list[Arg], places: Sequence[tuple[int, int]], *, spreads: bool = False) -> int:
    """Narrow dimensions of several operands to a common size, and return it.

    places: pairs of operand and dimension. Dynamic sizes take precedence over fixed ones, and
    among them the smallest; if `spreads`, a dynamic dimension of size one broadcasts.
    """
    varying = [args[i].sizes[d] for i, d in places if args[i].varies[d]]
    sizes = varying or [args[i].sizes[d] for i, d in places]
    size = sizes[0]
    for other in sizes[1:]:
        one = spreads and min(size, other) == 1
        size = max(size, other) if one else min(size, other)
    for i, d in places:
        args[i].part[d] = min(size, args[i].sizes[d])
    return size


def _share_all(args: list[Arg], but: Sequence[int] = ()) -> None:
    for d in range(args[0].data.ndim):
        if d not in but:
            share(args, [(i, d) for i in range(len(args))])


def as_it_is(op: OpView, args: list[Arg]) -> Case:
    return Case({})


def elementwise(op: OpView, args: list[Arg]) -> Case:
    """Narrow operands to a common size; scalars (of select, clamp) stay scalars."""
    rank = array_result(op).rank
    full = [i for i, a in enumerate(args) if a.data.ndim == rank]
    dims = [share(args, [(i, d) for i in full], spreads=True) for d in range(rank)]
    for i in full:
        if args[i].part != dims:
            args[i].data = np.broadcast_to(args[i].array, dims)
            args[i].part = dims
    return Case({}, dims)


def _reduce(op: OpView, args: list[Arg]) -> Case:
    _share_all(args[: len(args) // 2])
    return Case({})


def _sort(op: OpView, args: list[Arg]) -> Case:
    _share_all(args)
    return Case({})


def _concatenate(op: OpView, args: list[Arg]) -> Case:
    _share_all(args, op.dimensions)
    return Case({})


def _dot(op: OpView, args: list[Arg]) -> Case:
    batch = zip(op.lhs_batch_dims, op.rhs_batch_dims, strict=True)
    contracting = zip(op.lhs_contracting_dims, op.rhs_contracting_dims, strict=True)
    for x, y in (*batch, *contracting):
        share(args, [(0, x), (1, y)])
    return Case({})


def _convolution(op: OpView, args: list[Arg]) -> Case:
    labels = op.dim_labels
    if op.feature_group_count == 1:
        share(args, [(0, labels.input_feature), (1, labels.kernel_input)])
    return Case({})


def _select_and_scatter(op: OpView, args: list[Arg]) -> Case:
    """Take as much of the source as there are windows in the operand."""
    operand, source = args[:2]
    for d, dim in enumerate(op.window):
        source.part[d] = min(dim.output_size(operand.sizes[d]), source.data.shape[d])
    return Case({})


# --- sizes in attributes ------------------------------------------------------------------------


def _slice(op: OpView, args: list[Arg]) -> Case:
    """Full slices follow the dynamic size; a partial slice has its static size and may contain
    padding."""
    dims = []
    for d, s in enumerate(op.slice):
        if s == SliceDim(0, args[0].data.shape[d]):
            dims.append(SliceDim(0, args[0].sizes[d]))
        else:
            args[0].part[d] = args[0].data.shape[d]
            dims.append(s)
    return Case({"slice": tuple(dims)})


def _whole_or_fixed(arg: Arg, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return window sizes for the part that is there: all of a dimension stays all of it."""
    for d, size in enumerate(sizes):
        if size != arg.data.shape[d]:
            arg.part[d] = arg.data.shape[d]
    return tuple(
        n if size == bound else size
        for size, bound, n in zip(sizes, arg.data.shape, arg.sizes, strict=True)
    )


def _dynamic_slice(op: OpView, args: list[Arg]) -> Case:
    sizes = _whole_or_fixed(args[0], op.dynamic_slice_sizes)
    return Case({"dynamic_slice_sizes": sizes})


def _gather(op: OpView, args: list[Arg]) -> Case:
    operand, indices = args
    sizes = _whole_or_fixed(operand, op.slice_sizes)
    at = op.index_vector_dim
    if at < indices.data.ndim:
        indices.part[at] = indices.data.shape[at]
    batching = zip(op.operand_batching_dims, op.start_indices_batching_dims, strict=True)
    for d, i in batching:
        operand.part[d] = indices.part[i]
    return Case({"slice_sizes": sizes})


def _broadcast(op: OpView, args: list[Arg]) -> Case:
    dims = list(array_result(op).dims)
    for d, n in zip(op.dimensions, args[0].sizes, strict=True):
        dims[d] = n
    if UNBOUNDED in dims:
        raise InferError(
            f"broadcast: the size of dimension {dims.index(UNBOUNDED)} of the result is not known",
            code="unsupported",
        )
    return Case({}, dims)


def _bitcast_convert(op: OpView, args: list[Arg]) -> Case:
    """Between types of different width, the last dimension counts the parts of an element."""
    sizes, result = list(args[0].sizes), array_result(op)
    if result.rank > len(sizes):
        return Case({}, [*sizes, result.dims[-1]])
    if result.rank < len(sizes) and sizes[-1] != args[0].data.shape[-1]:
        raise InferError(
            f"bitcast-convert: only {sizes[-1]} of {args[0].data.shape[-1]} parts of each element "
            f"are there",
            operand=0,
        )
    return Case({}, sizes[: result.rank])


def _bitcast(op: OpView, args: list[Arg]) -> Case:
    if args[0].data.shape != array_result(op).dims:
        raise InferError(
            "bitcast: an operand of dynamic dimensions can only keep its dimensions",
            operand=0, code="unsupported",
        )  # fmt: skip
    return Case({}, args[0].sizes)


def _reshape(op: OpView, args: list[Arg]) -> Case:
    return Case({}, _reshape_sizes(op, args[0]))


def _reshape_sizes(op: OpView, arg: Arg) -> list[int]:
    """Return the sizes of a reshape's result.

    Dimensions are grouped by equal products of bounds. In each group, the one dynamic result
    dimension gets the operand's dynamic size.
    """
    bounds, sizes, result = arg.data.shape, arg.sizes, array_result(op)
    out = list(result.dims)
    if out.count(UNBOUNDED) == 1:
        known = math.prod(n for n in out if n != UNBOUNDED)
        out[out.index(UNBOUNDED)] = math.prod(sizes) // known if known else 0
    elif math.prod(bounds):
        for ins, outs in dimension_groups(bounds, out):
            there, whole = math.prod(sizes[i] for i in ins), math.prod(bounds[i] for i in ins)
            if there != whole and outs:
                d = varying_dimension(op, outs)
                out[d] = out[d] * there // whole
    if math.prod(out) != math.prod(sizes) or UNBOUNDED in out:
        raise InferError(
            f"reshape: sizes {list(sizes)} of {op.operand_shapes[0].to_string(False)} do not "
            f"divide into {result.to_string(False)}",
            operand=0,
        )
    return out


RULES: dict[str, Rule] = {
    "map": elementwise,
    "reduce": _reduce,
    "reduce-window": _reduce,
    "sort": _sort,
    "concatenate": _concatenate,
    "dot": _dot,
    "convolution": _convolution,
    "select-and-scatter": _select_and_scatter,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "gather": _gather,
    "broadcast": _broadcast,
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast_convert,
    "reshape": _reshape,
}
