"""Operations that gather, reduce or scatter over many devices, and the ids of this one.

Shapes are checked here against the instruction's attributes; the verifier checks device counts
against the module. Source: XLA's `shape_inference.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import BOOL, COMPUTATION, INTS, Attr, need
from hlo.ops.collective import evaluate as kernels
from hlo.ops.collective import factors
from hlo.ops.collective.rules import (
    CONSTRAINED,
    GLOBAL_IDS,
    MODE,
    TRAITS,
    infer_rooted,
    need_groups,
    part_of_result,
    resized,
)
from hlo.ops.control.start_done import element_of_operand
from hlo.ops.factors import pointwise, whole
from hlo.ops.reduce.combiner import need_reducer
from hlo.ops.rules import array_operands, need_one_dim, need_tuple, tuple_or_single
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import U32, UNBOUNDED, ArrayShape, Shape, TupleShape, array

# --- all-gather -----------------------------------------------------------------------------------


def _infer_gathered(op: OpView, result: Shape) -> Shape:
    """Return the operand shapes with one dimension multiplied as in the declared result."""
    operands = array_operands(op)
    dim = need_one_dim(op, *(s.rank for s in operands))
    first = part_of_result(op, result, 0, len(operands), operands[0].rank)
    small, large = operands[0].dims[dim], first.dims[dim]
    if UNBOUNDED in (small, large):
        return tuple_or_single([resized(s, dim, UNBOUNDED) for s in operands])
    shards = -(-large // small) if large and small else 1
    return tuple_or_single([resized(s, dim, s.dims[dim] * shards) for s in operands])


def _infer_all_gather(op: OpView) -> Shape:
    return _infer_gathered(op, op.shape)


def _infer_all_gather_start(op: OpView) -> Shape:
    declared = need_tuple(op, op.shape, 2, "the result").elements
    gathered = _infer_gathered(op, declared[1])
    return TupleShape((tuple_or_single(op.operand_shapes), gathered, *declared[2:]))


# XLA prints the dimension between two of the attributes of groups.
_ALL_GATHER = {**CONSTRAINED, "dimensions": need(INTS), **GLOBAL_IDS}

register(
    OpSpec(
        "all-gather",
        (1, None),
        _infer_all_gather,
        kernels.all_gather,
        Category.COLLECTIVE,
        "003 AllGather",
        (
            "f32[2,3] all-gather(f32[2,3] x), replica_groups={{0}}, dimensions={0}",
            "(f32[2,3], s32[2,1]) all-gather(f32[2,3] x, s32[2,1] y), replica_groups=[1,1]<=[1], "
            "dimensions={1}",
        ),
        attrs=_ALL_GATHER,
        verify=need_groups,
        traits=TRAITS | Trait.TUPLE_OF_ONE,
        factors=factors.along_dimension,
    )
)

_ALL_GATHER_EXAMPLE = """HloModule all_gather_example
ENTRY e {
  x = f32[2,3] parameter(0)
  start = (f32[2,3], f32[2,3]) all-gather-start(x), replica_groups={{0}}, dimensions={0}
  ROOT done = f32[2,3] all-gather-done(start)
}
"""

register(
    OpSpec(
        "all-gather-start",
        (1, None),
        _infer_all_gather_start,
        kernels.all_gather_start,
        Category.COLLECTIVE,
        "003 AllGather",
        (_ALL_GATHER_EXAMPLE,),
        attrs=_ALL_GATHER,
        verify=need_groups,
        traits=TRAITS | Trait.SIDE_EFFECT | Trait.TUPLE_OF_ONE,
        continued_by=("all-gather-done",),
        starts="all-gather",
        factors=factors.along_dimension,
    )
)

_infer_second, _second = element_of_operand(1, least=2)

register(
    OpSpec(
        "all-gather-done",
        1,
        _infer_second,
        _second,
        Category.COLLECTIVE,
        "003 AllGather",
        (_ALL_GATHER_EXAMPLE,),
        traits=TRAITS | Trait.SIDE_EFFECT | Trait.TUPLE_OF_ONE,
        factors=factors.done,
    )
)

# --- all-reduce, reduce-scatter -------------------------------------------------------------------


def _need_reducers(op: OpView, operands: Sequence[ArrayShape]) -> None:
    """Check that `to_apply` reduces the elements of each operand."""
    for operand in operands:
        et = operand.element_type
        need_reducer(op, "to_apply", [array(et, ())], [et])


def _infer_all_reduce(op: OpView) -> Shape:
    operands = array_operands(op)
    _need_reducers(op, operands)
    return tuple_or_single(operands)


_ALL_REDUCE = {**CONSTRAINED, **GLOBAL_IDS, **MODE, "to_apply": need(COMPUTATION)}
_ADD = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""
_ALL_REDUCE_EXAMPLE = f"""HloModule all_reduce_example
{_ADD}ENTRY e {{
  x = f32[2,3] parameter(0)
  start = f32[2,3] all-reduce-start(x), replica_groups={{{{0}}}}, to_apply=add
  ROOT done = f32[2,3] all-reduce-done(start)
}}
"""

register(
    OpSpec(
        "all-reduce",
        (1, None),
        _infer_all_reduce,
        kernels.all_reduce,
        Category.COLLECTIVE,
        "003 AllReduce",
        (
            f"""HloModule all_reduce_example
{_ADD}ENTRY e {{
  x = f32[2,3] parameter(0)
  y = f32[4] parameter(1)
  ROOT r = (f32[2,3], f32[4]) all-reduce(x, y), replica_groups={{}}, to_apply=add
}}
""",
        ),
        attrs=_ALL_REDUCE,
        verify=need_groups,
        traits=TRAITS | Trait.KEEPS_LAYOUT | Trait.TUPLE_OF_ONE,
        factors=factors.each,
    )
)
register(
    OpSpec(
        "all-reduce-start",
        (1, None),
        _infer_all_reduce,
        kernels.all_reduce,
        Category.COLLECTIVE,
        "003 AllReduce",
        (_ALL_REDUCE_EXAMPLE,),
        attrs=_ALL_REDUCE,
        verify=need_groups,
        traits=TRAITS | Trait.SIDE_EFFECT | Trait.TUPLE_OF_ONE,
        continued_by=("all-reduce-done",),
        starts="all-reduce",
        factors=factors.each,
    )
)


def _infer_all_reduce_done(op: OpView) -> Shape:
    return op.operand_shapes[0]


def _all_reduce_done(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return args[0]


register(
    OpSpec(
        "all-reduce-done",
        1,
        _infer_all_reduce_done,
        _all_reduce_done,
        Category.COLLECTIVE,
        "003 AllReduce",
        (_ALL_REDUCE_EXAMPLE,),
        traits=TRAITS | Trait.SIDE_EFFECT | Trait.TUPLE_OF_ONE,
        factors=pointwise,
    )
)


def _infer_reduce_scatter(op: OpView) -> Shape:
    operands = array_operands(op)
    dim = need_one_dim(op, *(s.rank for s in operands))
    _need_reducers(op, operands)
    first = part_of_result(op, op.shape, 0, len(operands), operands[0].rank)
    large, small = operands[0].dims[dim], first.dims[dim]
    if UNBOUNDED in (small, large):
        return tuple_or_single([resized(s, dim, UNBOUNDED) for s in operands])
    shards = -(-large // small) if large and small else 1
    for i, operand in enumerate(operands):
        if operand.dims[dim] % shards:
            raise InferError(
                f"reduce-scatter: dimension {dim} of {operand.to_string(False)} does not divide "
                f"into {shards} equal parts", operand=i, code="bad-dimension",
            )  # fmt: skip
    return tuple_or_single([resized(s, dim, s.dims[dim] // shards) for s in operands])


register(
    OpSpec(
        "reduce-scatter",
        (1, None),
        _infer_reduce_scatter,
        kernels.reduce_scatter,
        Category.COLLECTIVE,
        "003 ReduceScatter",
        (
            f"""HloModule reduce_scatter_example
{_ADD}ENTRY e {{
  x = f32[2,3] parameter(0)
  ROOT r = f32[2,3] reduce-scatter(x), replica_groups={{{{0}}}}, dimensions={{0}}, to_apply=add
}}
""",
        ),
        attrs={
            **CONSTRAINED,
            **GLOBAL_IDS,
            **MODE,
            "dimensions": need(INTS),
            "to_apply": need(COMPUTATION),
        },
        verify=need_groups,
        traits=TRAITS,
        factors=factors.along_dimension,
    )
)


def _infer_collective_reduce(op: OpView) -> Shape:
    shape = infer_rooted(op)
    count = len(op.operand_shapes) - op.has_dynamic_root
    _need_reducers(op, array_operands(op)[:count])
    return shape


register(
    OpSpec(
        "collective-reduce",
        (1, None),
        _infer_collective_reduce,
        kernels.collective_reduce,
        Category.COLLECTIVE,
        "StableHLO collective_reduce; xla/backends/gpu/runtime/collective_reduce_thunk.cc",
        (
            f"""HloModule collective_reduce_example
{_ADD}ENTRY e {{
  x = f32[2,3] parameter(0)
  ROOT r = f32[2,3] collective-reduce(x), replica_groups={{{{0}}}}, to_apply=add
}}
""",
        ),
        attrs={
            **CONSTRAINED,
            **GLOBAL_IDS,
            "has_dynamic_root": Attr(BOOL, default=False, always=True),
            "to_apply": need(COMPUTATION),
        },
        verify=need_groups,
        traits=TRAITS,
        factors=factors.each,
    )
)

# --- device ids -----------------------------------------------------------------------------------


def _infer_id(op: OpView) -> Shape:
    return array(U32, ())


def _replica_id(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return np.asarray(ctx.host.replica_id, U32.dtype)


def _partition_id(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return np.asarray(ctx.host.partition_id, U32.dtype)


for _name, _evaluate, _source in (
    ("replica-id", _replica_id, "003 ReplicaId"),
    ("partition-id", _partition_id, "003 PartitionId"),
):
    register(
        OpSpec(
            _name,
            0,
            _infer_id,
            _evaluate,
            Category.COLLECTIVE,
            _source,
            (f"u32[] {_name}()",),
            factors=whole("each device has its own"),
            traits=Trait.NO_FOLD | Trait.INFERABLE | Trait.DEVICE_ID,
        )
    )
