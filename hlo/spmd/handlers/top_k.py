"""topk: the first elements of all are among the first ones of each device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder, build_computation
from hlo.ops import OPS
from hlo.ops.attrs import SliceDim
from hlo.ops.elementwise.arithmetic_eval import total_order_key
from hlo.ops.factors import FactorKind
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import Partial, by_factors
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import PRED, S32, ArrayShape, ElementType, TupleShape, array


@handles("topk")
def _topk(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    return top_k(b, inst, operands, wanted, inst.largest)


def top_k(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted, largest: bool
) -> Value:
    """Partition an operation that returns the first elements of the last dimension by total order,
    and their positions. Of equal elements the first comes first.

    largest: the greatest first, else the least.
    """
    if inst.shape.is_dynamic:
        return by_factors(b, inst, operands, wanted)
    shape = inst.operands[0].array_shape
    last = shape.rank - 1
    values, _ = (s for _, s in inst.shape.leaves())
    assert isinstance(values, ArrayShape)
    k = values.dims[-1]

    def share(
        parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], reduced: Axes
    ) -> list[Instruction]:
        (x,) = parts
        assert isinstance(x, Sharded)
        # Padding comes last: it is the least that there is, and after all that is equal.
        fill = b.constant(shape.element_type, last_in_order(shape.element_type, largest))
        x = b.masked(x, fill, [last])
        dims = x.local.array_shape.dims
        kept = (*dims[:-1], min(k, dims[-1]))
        numbers = array(S32, kept)
        pair = TupleShape((array(shape.element_type, kept), numbers))
        attrs = {**inst.attrs, "k": kept[-1]} if inst.opcode == "topk" else inst.attrs
        found = b.append(inst.clone([x.local], shape=pair, attrs=attrs))
        found.annotations.pop("sharding", None)
        start = b.broadcast(b.offset(shape.dims[last], x.spec.dims[last]), numbers)
        return [b.element(found, 0), b.op("add", b.element(found, 1), start)]

    def merged(
        b: SpmdBuilder, found: Sequence[Sharded], axes: Axes, wanted: Wanted
    ) -> list[Sharded]:
        every = [b.all_gather(v.local, last, axes) for v in found]
        comparator = b.program.module.add(_comes_first(shape.element_type, largest))
        ordered = b.op("sort", *every, dimensions=(last,), is_stable=True, to_apply=comparator)
        results = []
        for n, value in enumerate(found):
            column = b.element(ordered, n)
            dims = column.array_shape.dims
            limits = (*dims[:-1], k)
            first = b.op("slice", column, slice=tuple(SliceDim(0, limit) for limit in limits))
            results.append(Sharded(first, value.spec, value.shape))
        return results

    rule = inst.spec.factors(inst)
    (factor,) = rule.operands[0][last]
    rule = rule.with_kinds({factor: FactorKind.REDUCTION})
    return by_factors(b, inst, operands, wanted, Partial(lambda n: 0, merged), rule, share)


def _comes_first(et: ElementType, largest: bool) -> Computation:
    """Return the function that tells whether one value comes before another, beside positions."""
    kind = "TOTALORDER" if et.is_float else None
    scalars = [array(et, ())] * 2 + [array(S32, ())] * 2

    def body(b: Builder, x: Instruction, y: Instruction, *positions: Instruction) -> Instruction:
        direction = "GT" if largest else "LT"
        return b.op("compare", x, y, shape=array(PRED, ()), direction=direction, type=kind)

    return build_computation("comes_first", scalars, body)


def last_in_order(et: ElementType, largest: bool) -> np.ndarray:
    """Return the value of a type that comes after all others by total order."""
    if et.is_float:
        sign = 1 << (et.bits - 1)
        ends = [0, sign - 1, sign, sign + 1, 2 * sign - 1, 2 * sign - 2, sign - 2]
        words = np.dtype(f"u{et.byte_width}")
        numbers = np.array(ends, np.uint64).astype(words).view(et.dtype)
        keys = total_order_key(numbers)
        return numbers[keys.argmin() if largest else keys.argmax()]  # type: ignore[no-any-return]
    identity = OPS["maximum" if largest else "minimum"].identity
    assert identity is not None
    return np.asarray(identity(et))
