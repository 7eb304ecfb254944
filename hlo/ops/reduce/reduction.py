"""Operations that apply a computation along dimensions: reduce, map, scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import BOOL, COMPUTATION, INT, INTS, Attr, need
from hlo.ops.factors import pointwise, whole
from hlo.ops.reduce import factors, reduction_eval
from hlo.ops.reduce.combiner import need_reducer, need_scalar
from hlo.ops.rules import (
    array_operand,
    array_operands,
    merge_dims,
    need_dims,
    need_memory,
    need_one_dim,
)
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import UNBOUNDED, ArrayShape, Shape, TupleShape, array

# --- reduce -------------------------------------------------------------------------------------


def need_pairs(op: OpView) -> int:
    """Return n where 2n operands are n arrays and their n initial values."""
    count = len(op.operand_shapes)
    if count % 2:
        raise InferError(
            f"{op.opcode}: {count} operands are not as many arrays as initial values",
            code="operand-count",
        )
    return count // 2


def _infer_reduce(op: OpView) -> Shape:
    n = need_pairs(op)
    arrays = [array_operand(op, i) for i in range(n)]
    base = merge_dims(op, arrays)
    dims = op.dimensions
    need_dims(op, dims, base.rank, "dimensions")
    inits = [need_scalar(op, n + i) for i in range(n)]
    accumulators = need_reducer(op, "to_apply", inits, [a.element_type for a in arrays])
    kept = [d for d in range(base.rank) if d not in dims]
    shapes = tuple(
        array(a.element_type, [base.dims[d] for d in kept], [base.is_dynamic_dim(d) for d in kept])
        for a in accumulators
    )
    # A function that returns a tuple of one value makes a reduction that does so, too.
    return TupleShape(shapes) if op.to_apply.result_shape.is_tuple else shapes[0]


def _evaluate_reduce(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    n = len(args) // 2
    need_memory(op, op.shape)
    results = reduction_eval.reduce(args[:n], args[n:], sorted(op.dimensions), op.to_apply, ctx)
    return results if op.shape.is_tuple else results[0]


register(
    OpSpec(
        name="reduce",
        arity=(2, None),
        attrs={"dimensions": need(INTS), "to_apply": need(COMPUTATION)},
        infer=_infer_reduce,
        evaluate=_evaluate_reduce,
        category=Category.REDUCTION,
        source="003 Reduce",
        traits=Trait.INFERABLE | Trait.TUPLE_OF_ONE,
        examples=(
            "HloModule sum\n"
            "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
            "ENTRY main { x = f32[2,3] parameter(0) zero = f32[] constant(0)\n"
            "  ROOT r = f32[2] reduce(x, zero), dimensions={1}, to_apply=add }",
            "HloModule argmax\n"
            "pick {\n"
            "  a = f32[] parameter(0) i = s32[] parameter(1)\n"
            "  b = f32[] parameter(2) j = s32[] parameter(3)\n"
            "  ge = pred[] compare(a, b), direction=GE\n"
            "  value = f32[] select(ge, a, b)\n"
            "  index = s32[] select(ge, i, j)\n"
            "  ROOT t = (f32[], s32[]) tuple(value, index) }\n"
            "ENTRY main {\n"
            "  x = f32[4,5] parameter(0) i = s32[4,5] iota(), iota_dimension=0\n"
            "  least = f32[] constant(-inf) zero = s32[] constant(0)\n"
            "  ROOT r = (f32[5], s32[5]) reduce(x, i, least, zero), dimensions={0}, "
            "to_apply=pick }",
        ),
        factors=factors.reduce,
    )
)

# --- map ----------------------------------------------------------------------------------------


def _every_dimension(shapes: Sequence[Shape]) -> tuple[int, ...] | None:
    first = shapes[0]
    return tuple(range(first.rank)) if isinstance(first, ArrayShape) else None


def _infer_map(op: OpView) -> Shape:
    arrays = array_operands(op)
    base = merge_dims(op, arrays)
    function = op.to_apply
    parameters, result = function.parameter_shapes, function.result_shape
    want = [array(a.element_type, ()) for a in arrays]
    if len(parameters) != len(want) or any(
        not isinstance(p, ArrayShape) or p.dims or p.element_type is not w.element_type
        for p, w in zip(parameters, want, strict=False)
    ):
        raise InferError(
            f"map: to_apply {function.name} takes "
            f"({', '.join(p.to_string(False) for p in parameters)}), "
            f"({', '.join(map(str, want))}) are passed",
            attr="to_apply", code="bad-computation",
        )  # fmt: skip
    if not isinstance(result, ArrayShape) or result.dims:
        raise InferError(
            f"map: to_apply {function.name} returns {result.to_string(False)}, a scalar is needed",
            attr="to_apply", code="bad-computation",
        )  # fmt: skip
    return array(result.element_type, base.dims, base.dynamic)


def _settled_dimensions(dims: tuple[int, ...], shapes: Sequence[Shape]) -> tuple[int, ...] | None:
    """Return what written dimensions mean: none at all mean every one."""
    return dims or _every_dimension(shapes)


def _verify_map(op: OpView) -> None:
    dims: tuple[int, ...] | None = op.dimensions
    rank = array_operands(op)[0].rank
    if dims is not None and dims != tuple(range(rank)):
        raise InferError(
            f"map: dimensions={{{','.join(map(str, dims))}}}, all {rank} in order are needed",
            attr="dimensions", code="bad-dimension",
            xla="does not look at the dimensions of a map and takes every one",
        )  # fmt: skip


def _evaluate_map(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    need_memory(op, op.shape)
    return np.asarray(ctx.apply(op.to_apply, args))


register(
    OpSpec(
        name="map",
        arity=(1, None),
        attrs={
            "dimensions": Attr(INTS, implied=_every_dimension, settled=_settled_dimensions),
            "to_apply": need(COMPUTATION),
        },
        infer=_infer_map,
        verify=_verify_map,
        evaluate=_evaluate_map,
        category=Category.ELEMENTWISE,
        source="003 Map",
        traits=Trait.INFERABLE | Trait.KEEPS_LAYOUT | Trait.INDEXABLE | Trait.REREADS,
        cost=20.0,  # the computation may be anything
        examples=(
            "HloModule map\n"
            "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] subtract(a, b) }\n"
            "ENTRY main { x = f32[2,3] parameter(0) y = f32[2,3] parameter(1)\n"
            "  ROOT r = f32[2,3] map(x, y), dimensions={0,1}, to_apply=f }",
        ),
        factors=pointwise,
    )
)

# --- scan ---------------------------------------------------------------------------------------


def _scan_parts(op: OpView) -> tuple[int, int]:
    """Return the number of scanned operands and of carries."""
    carries, count = op.num_carries, len(op.operand_shapes)
    if not 0 <= carries <= count:
        raise InferError(
            f"scan: num_carries={carries}, there are {count} operands",
            attr="num_carries", code="bad-value",
        )  # fmt: skip
    return count - carries, carries


def _scan_length(op: OpView, dim: int, inputs: list[ArrayShape], outputs: int) -> int:
    """Return the number of steps: the size that the scanned operands, or else the results, have."""
    steps = UNBOUNDED
    for i, shape in enumerate(inputs):
        size = shape.dims[dim]
        if UNBOUNDED not in (size, steps) and size != steps:
            raise InferError(
                f"scan: operands 0 and {i} differ in dimension {dim}: "
                f"{inputs[0].to_string(False)}, {shape.to_string(False)}",
                operand=i,
            )
        steps = size if steps == UNBOUNDED else steps
    if inputs:
        return steps
    declared = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
    first = declared[0] if outputs and declared else None
    if isinstance(first, ArrayShape) and 0 <= dim < first.rank:
        return first.dims[dim]
    raise InferError("scan: no operand and no result tells the number of steps", code="bad-value")


def _infer_scan(op: OpView) -> Shape:
    n, carries = _scan_parts(op)
    arrays = array_operands(op)
    inputs, inits = arrays[:n], arrays[n:]
    dim = need_one_dim(op, *(s.rank for s in inputs))
    body = op.to_apply
    result = body.result_shape
    results = result.elements if isinstance(result, TupleShape) else (result,)
    outputs = len(results) - carries

    def fail(what: str) -> InferError:
        message = f"scan: to_apply {body.name} {what}"
        return InferError(message, attr="to_apply", code="bad-computation")

    if outputs < 0:
        raise fail(f"returns {len(results)} values, there are {carries} carries")
    steps = _scan_length(op, dim, inputs, outputs)
    slices = [_without(s, dim) for s in inputs]
    if len(body.parameter_shapes) != len(arrays):
        raise fail(f"takes {len(body.parameter_shapes)} parameters, {len(arrays)} are passed")
    for i, (have, want) in enumerate(zip(body.parameter_shapes, [*slices, *inits], strict=True)):
        if not _same_array(have, want):
            raise fail(
                f"has parameter {i} of shape {have.to_string(False)}, "
                f"{want.to_string(False)} is passed"
            )
    stacked: list[Shape] = []
    for i, shape in enumerate(results):
        if not isinstance(shape, ArrayShape):
            raise fail(f"returns {shape.to_string(False)} as value {i}, an array is needed")
        if i < outputs:
            if not 0 <= dim <= shape.rank:
                raise InferError(
                    f"scan: dimensions={{{dim}}}, result {i} has rank {shape.rank + 1}",
                    attr="dimensions", code="bad-dimension",
                )  # fmt: skip
            flags = list(shape.dynamic or (False,) * shape.rank)
            flags.insert(dim, bool(inputs) and inputs[0].is_dynamic_dim(dim))
            sizes = (*shape.dims[:dim], steps, *shape.dims[dim:])
            stacked.append(array(shape.element_type, sizes, flags))
        elif not _same_array(shape, inits[i - outputs]):
            raise fail(
                f"returns {shape.to_string(False)} as carry {i - outputs}, its initial value has "
                f"shape {inits[i - outputs].to_string(False)}"
            )
        else:
            stacked.append(inits[i - outputs])
    return TupleShape(tuple(stacked)) if result.is_tuple else stacked[0]


def _without(shape: ArrayShape, dim: int) -> ArrayShape:
    keep = [d for d in range(shape.rank) if d != dim]
    return array(
        shape.element_type, [shape.dims[d] for d in keep], [shape.is_dynamic_dim(d) for d in keep]
    )


def _same_array(a: Shape, b: ArrayShape) -> bool:
    return isinstance(a, ArrayShape) and a.element_type is b.element_type and a.dims == b.dims


def _evaluate_scan(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    n, _ = _scan_parts(op)
    need_memory(op, op.shape)
    shapes = [s for _, s in op.shape.leaves() if isinstance(s, ArrayShape)]
    results = reduction_eval.scan(
        args[:n],
        args[n:],
        shapes[: len(shapes) - (len(args) - n)],
        op.dimensions[0],
        lambda values: reduction_eval.as_parts(ctx.call(op.to_apply, values)),
        reverse=op.is_reverse,
    )
    return results if op.shape.is_tuple else results[0]


_SCAN = (
    "HloModule scan\n"
    "step { x = f32[2] parameter(0) c = f32[2] parameter(1)\n"
    "  sum = f32[2] add(x, c) product = f32[2] multiply(x, c)\n"
    "  ROOT t = (f32[2], f32[2]) tuple(product, sum) }\n"
    "ENTRY main { x = f32[2,5] parameter(0) c = f32[2] parameter(1)\n"
    "  ROOT r = (f32[2,5], f32[2]) scan(x, c), dimensions={1}, num_carries=1, "
)
register(
    OpSpec(
        name="scan",
        arity=(0, None),
        attrs={
            "dimensions": need(INTS),
            "num_carries": need(INT),
            "is_reverse": Attr(BOOL, default=False),
            "is_associative": Attr(BOOL, default=False, always=True),
            "to_apply": need(COMPUTATION),
        },
        infer=_infer_scan,
        evaluate=_evaluate_scan,
        category=Category.REDUCTION,
        # The specification does not have it. A step takes the slices at one position along the
        # dimension, then the carries; it returns a slice of every output, then the carries.
        source="XLA service/scan_expander.cc",
        traits=Trait.INFERABLE | Trait.TUPLE_OF_ONE,
        examples=(
            _SCAN + "is_associative=false, to_apply=step }",
            _SCAN + "is_reverse=true, is_associative=false, to_apply=step }",
        ),
        factors=whole("its computation takes whole slices"),
    )
)
