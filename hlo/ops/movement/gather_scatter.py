"""Indexing by values: gather and scatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hlo.errors import InferError
from hlo.ops import rules
from hlo.ops.attrs import BOOL, COMPUTATION, INT, INTS, Attr, need
from hlo.ops.movement import index_factors
from hlo.ops.movement.gather_scatter_eval import Combiner, IndexDims, gather, scatter
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import UNBOUNDED, ArrayShape, ElementType, Shape, array

# --- dimension numbers of gather and scatter ----------------------------------------------------


class IndexAttrs(NamedTuple):
    """The attributes that play the parts of `IndexDims`."""

    index_map: str
    collapsed: str
    operand_batching: str
    indices_batching: str


_GATHER = IndexAttrs(
    "start_index_map", "collapsed_slice_dims", "operand_batching_dims",
    "start_indices_batching_dims",
)  # fmt: skip
_SCATTER = IndexAttrs(
    "scatter_dims_to_operand_dims", "inserted_window_dims", "input_batching_dims",
    "scatter_indices_batching_dims",
)  # fmt: skip
INDEX_ATTRS = {"gather": _GATHER, "scatter": _SCATTER}


def index_dims(op: OpView) -> IndexDims:
    """Return how the indices of a gather or a scatter select windows."""
    names = INDEX_ATTRS[op.opcode]
    return IndexDims(op.index_vector_dim, *(op.attrs[n] for n in names))


def _is_integer(et: ElementType) -> bool:
    return et.is_integer


def _dynamic(shape: ArrayShape) -> tuple[bool, ...]:
    return shape.dynamic or (False,) * shape.rank


def _indices_shape(op: OpView, operand: int) -> ArrayShape:
    """Return the shape of the indices, with a last dimension of one where it is left out."""
    indices = rules.need_type(op, operand, _is_integer, "an integer type")
    at = op.index_vector_dim
    if not 0 <= at <= indices.rank:
        raise InferError(
            f"{op.opcode}: index_vector_dim is {at}, outside [0, {indices.rank}] "
            f"for indices of shape {indices.to_string(False)}",
            attr="index_vector_dim", code="bad-dimension",
        )  # fmt: skip
    if at < indices.rank:
        return indices
    return array(indices.element_type, (*indices.dims, 1), (*_dynamic(indices), False))


def _check_index_dims(
    op: OpView, names: IndexAttrs, dims: IndexDims, operand: ArrayShape, indices: ArrayShape
) -> None:
    """Check how indices select windows; `indices` has its last dimension of one put in."""
    vector = indices.dims[dims.index_vector_dim]
    if len(dims.index_map) != vector and vector != UNBOUNDED:
        raise InferError(
            f"{op.opcode}: {names.index_map} has {len(dims.index_map)} elements, "
            f"the index vectors (dimension {dims.index_vector_dim} of the indices) have {vector}",
            attr=names.index_map,
        )
    rules.need_dims(op, dims.index_map, operand.rank, names.index_map)
    rules.need_dims(op, dims.collapsed, operand.rank, names.collapsed, is_sorted=True)
    rules.need_dims(op, dims.operand_batching, operand.rank, names.operand_batching, is_sorted=True)
    rules.need_dims(op, dims.indices_batching, indices.rank, names.indices_batching)
    for other, values in ((names.index_map, dims.index_map), (names.collapsed, dims.collapsed)):
        both = sorted({*values} & {*dims.operand_batching})
        if both:
            raise InferError(
                f"{op.opcode}: dimension {both[0]} is in both {other} and {names.operand_batching}",
                attr=names.operand_batching, code="bad-dimension",
            )  # fmt: skip
    if dims.index_vector_dim in dims.indices_batching:
        raise InferError(
            f"{op.opcode}: {names.indices_batching} names dimension {dims.index_vector_dim}, "
            f"which is index_vector_dim",
            attr=names.indices_batching, code="bad-dimension",
        )  # fmt: skip
    if len(dims.operand_batching) != len(dims.indices_batching):
        raise InferError(
            f"{op.opcode}: {names.operand_batching} has {len(dims.operand_batching)} elements, "
            f"{names.indices_batching} has {len(dims.indices_batching)}",
            attr=names.indices_batching,
        )
    for d, at in zip(dims.operand_batching, dims.indices_batching, strict=True):
        if operand.dims[d] != indices.dims[at] and UNBOUNDED not in (
            operand.dims[d], indices.dims[at],
        ):  # fmt: skip
            raise InferError(
                f"{op.opcode}: batching dimension {d} of the operand has size {operand.dims[d]}, "
                f"dimension {at} of the indices has size {indices.dims[at]}",
                attr=names.operand_batching,
            )


def _need_window_rank(op: OpView, window_attr: str, names: IndexAttrs, rank: int) -> None:
    """Check that every operand dimension is in the window, collapsed or batching."""
    window, collapsed, batching = (
        len(op.attrs[n]) for n in (window_attr, names.collapsed, names.operand_batching)
    )
    if window + collapsed + batching != rank:
        raise InferError(
            f"{op.opcode}: {window_attr} ({window}), {names.collapsed} ({collapsed}) and "
            f"{names.operand_batching} ({batching}) do not add up to the operand's rank {rank}",
            attr=window_attr,
        )


# --- gather -------------------------------------------------------------------------------------


def _infer_gather(op: OpView) -> Shape:
    operand = rules.array_operand(op, 0)
    indices = _indices_shape(op, 1)
    dims, sizes = index_dims(op), op.slice_sizes
    offset_dims = op.offset_dims
    result_rank = len(offset_dims) + indices.rank - 1
    rules.need_dims(op, offset_dims, result_rank, "offset_dims", is_sorted=True)
    _check_index_dims(op, _GATHER, dims, operand, indices)
    if len(sizes) != operand.rank:
        raise InferError(
            f"gather: slice_sizes has {len(sizes)} elements, the operand has rank {operand.rank}",
            attr="slice_sizes",
        )
    _need_window_rank(op, "offset_dims", _GATHER, operand.rank)
    for d, (size, bound) in enumerate(zip(sizes, operand.dims, strict=True)):
        if size < 0 or (size > bound and bound != UNBOUNDED):
            raise InferError(
                f"gather: slice_sizes has {size} for dimension {d}, outside [0, {bound}]",
                attr="slice_sizes", code="bad-value",
            )  # fmt: skip
    for name in (_GATHER.collapsed, _GATHER.operand_batching):
        for d in op.attrs[name]:
            if sizes[d] > 1:
                raise InferError(
                    f"gather: slice_sizes has {sizes[d]} for dimension {d}, "
                    f"which is in {name} and can have at most 1",
                    attr="slice_sizes", code="bad-value",
                )  # fmt: skip
    # A window of a whole dynamic dimension is dynamic too.
    window = iter(
        (sizes[d], operand.is_dynamic_dim(d) and sizes[d] == operand.dims[d])
        for d in dims.window_dims(operand.rank)
    )
    batch = iter(_batch_dims(dims, indices))
    merged = [next(window if d in offset_dims else batch) for d in range(result_rank)]
    return array(operand.element_type, [s for s, _ in merged], [dyn for _, dyn in merged])


def _batch_dims(dims: IndexDims, indices: ArrayShape) -> list[tuple[int, bool]]:
    """Return `(size, is dynamic)` of the dimensions of the indices but for the index vector's."""
    both = list(zip(indices.dims, _dynamic(indices), strict=True))
    del both[dims.index_vector_dim]
    return both


def _evaluate_gather(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    operand, indices = args
    return gather(operand, indices, index_dims(op), op.slice_sizes, op.offset_dims)


def _resized_gather(op: OpView, operands: Sequence[Shape], result: Shape) -> Mapping[str, Any]:
    """Return the sizes of windows in the part, which are those of the result."""
    assert isinstance(result, ArrayShape)
    sizes = list(op.slice_sizes)
    for d, at in zip(index_dims(op).window_dims(len(sizes)), op.offset_dims, strict=True):
        sizes[d] = result.dims[at]
    return {"slice_sizes": tuple(sizes)}


register(
    OpSpec(
        "gather", 2, _infer_gather, _evaluate_gather, Category.INDEXING, "Gather",
        examples=(
            "f32[2,3] gather(f32[5,3] a, s32[2,1] i), offset_dims={1}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
            "f32[3,2,2] gather(f32[4,5] a, s64[2,3] i), offset_dims={1,2}, "
            "collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,2}",
            "s32[2,4] gather(s32[2,9] a, u32[2,4] i), offset_dims={}, collapsed_slice_dims={1}, "
            "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
            "index_vector_dim=2, slice_sizes={1,1}",
        ),
        attrs={
            "offset_dims": need(INTS),
            "collapsed_slice_dims": need(INTS),
            "start_index_map": need(INTS),
            "operand_batching_dims": Attr(INTS, default=()),
            "start_indices_batching_dims": Attr(INTS, default=()),
            "index_vector_dim": need(INT),
            "slice_sizes": need(INTS),
            "indices_are_sorted": Attr(BOOL, default=False),
        },
        traits=Trait.INFERABLE | Trait.INDEXABLE,
        moved=slice(1),
        cost=6.0,
        resized=_resized_gather,
        factors=lambda op: index_factors.gather(op, index_dims(op)),
    )
)  # fmt: skip

# --- scatter ------------------------------------------------------------------------------------


def _infer_scatter(op: OpView) -> Shape:
    shapes = rules.array_operands(op)
    if len(shapes) % 2 == 0:
        raise InferError(
            f"scatter: N operands, the indices and N updates make an odd number, not {len(shapes)}",
            code="operand-count",
        )
    count = len(shapes) // 2
    indices, dims = _indices_shape(op, count), index_dims(op)
    update_window_dims = op.update_window_dims
    updates_rank = indices.rank - 1 + len(update_window_dims)
    for i in range(count):
        for at, first in ((i, 0), (count + 1 + i, count + 1)):
            rules.need_compatible(
                op, shapes[at], shapes[first].with_type(shapes[at].element_type),
                f"operands {at} and {first} need equal dimensions", operand=at,
            )  # fmt: skip
        rules.need_rank(op, count + 1 + i, updates_rank)
        rules.need_same_type(op, i, count + 1 + i)
    operand, updates = shapes[0], shapes[count + 1]
    rules.need_dims(op, update_window_dims, updates_rank, "update_window_dims", is_sorted=True)
    _check_index_dims(op, _SCATTER, dims, operand, indices)
    _need_window_rank(op, "update_window_dims", _SCATTER, operand.rank)
    window = dims.window_dims(operand.rank)
    for at, d in zip(update_window_dims, window, strict=True):
        if operand.dims[d] != UNBOUNDED and updates.dims[at] > operand.dims[d]:
            raise InferError(
                f"scatter: dimension {at} of the updates has size {updates.dims[at]}, more than "
                f"the {operand.dims[d]} of dimension {d} of the operand",
                operand=count + 1,
            )
    batch = iter(_batch_dims(dims, indices))
    for at in range(updates_rank):
        if at in update_window_dims:
            continue
        size, _ = next(batch)
        if updates.dims[at] != size and UNBOUNDED not in (updates.dims[at], size):
            raise InferError(
                f"scatter: dimension {at} of the updates has size {updates.dims[at]}, "
                f"the indices {indices.to_string(False)} need {size}",
                operand=count + 1,
            )
    scalars = [array(s.element_type, ()) for s in shapes[:count]]
    rules.need_signature(op, "to_apply", op.to_apply, scalars * 2, rules.tuple_or_single(scalars))
    return rules.tuple_or_single(shapes[:count])


# Bodies for which numpy has a running form that rounds and overflows as the operation does. Zeros
# of two signs and NaNs make minimum and maximum safe on integers only, infinities the product safe
# on all but complex numbers.
_UFUNCS = {
    "add": np.add, "multiply": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "minimum": np.minimum, "maximum": np.maximum,
}  # fmt: skip


def _combiner(op: OpView, types: Sequence[ElementType], ctx: EvalContext) -> Combiner:
    comp, count = op.to_apply, len(types)

    def apply(args: list[np.ndarray]) -> Sequence[np.ndarray]:
        result = ctx.apply(comp, args)
        return result if count > 1 else (result,)

    if ctx.projection(comp) == tuple(range(count, 2 * count)):
        return Combiner(apply, overwrites=True)
    known = ctx.known_op(comp) if count == 1 else None
    et = types[0]
    exact = et.is_integer or et.is_pred
    runs = exact or known == "add" or (known == "multiply" and not et.is_complex)
    return Combiner(apply, ufunc=_UFUNCS.get(known) if known and runs else None)


def _evaluate_scatter(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    count = len(args) // 2
    types = [s.element_type for s in rules.array_operands(op)[:count]]
    with np.errstate(all="ignore"):
        results = scatter(
            args[:count], args[count], args[count + 1 :], index_dims(op),
            op.update_window_dims, _combiner(op, types, ctx),
        )  # fmt: skip
    return tuple(results) if count > 1 else results[0]


register(
    OpSpec(
        "scatter", (3, None), _infer_scatter, _evaluate_scatter, Category.INDEXING, "Scatter",
        examples=(
            """HloModule rows
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  table = f32[5,3] parameter(0)
  rows = s32[2,1] parameter(1)
  updates = f32[2,3] parameter(2)
  ROOT s = f32[5,3] scatter(table, rows, updates), update_window_dims={1}, \
inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
}
""",
            """HloModule pairs
second {
  a = s32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = f32[] parameter(3)
  e = f32[] add(b, d)
  ROOT t = (s32[], f32[]) tuple(c, e)
}
ENTRY main {
  x = s32[2,6] parameter(0)
  y = f32[2,6] parameter(1)
  at = s32[2,3] parameter(2)
  u = s32[2,3] parameter(3)
  v = f32[2,3] parameter(4)
  ROOT s = (s32[2,6], f32[2,6]) scatter(x, y, at, u, v), update_window_dims={}, \
inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, \
scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=second
}
""",
        ),
        attrs={
            "update_window_dims": need(INTS),
            "inserted_window_dims": need(INTS),
            "scatter_dims_to_operand_dims": need(INTS),
            "input_batching_dims": Attr(INTS, default=()),
            "scatter_indices_batching_dims": Attr(INTS, default=()),
            "index_vector_dim": need(INT),
            "indices_are_sorted": Attr(BOOL, default=False),
            "unique_indices": Attr(BOOL, default=False),
            "to_apply": need(COMPUTATION),
        },
        traits=Trait.INFERABLE | Trait.REREADS | Trait.TUPLE_OF_ONE,
        factors=lambda op: index_factors.scatter(op, index_dims(op)),
    )
)  # fmt: skip
