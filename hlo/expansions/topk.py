"""The k first elements of lines, by sorting them whole."""

from __future__ import annotations

from hlo.expansions.draft import Draft
from hlo.ir import Computation, Instruction
from hlo.ops.attrs import SliceDim
from hlo.values.types import PRED, S32, array


def sorted_topk(inst: Instruction) -> Computation:
    """Return a `topk` as a sort of elements and positions, of which the first are taken."""
    shape, k = inst.operands[0].array_shape, inst.k
    et = shape.element_type
    before = Draft(inst, [array(et, ())] * 2 + [array(S32, ())] * 2)
    first = before.op(
        "compare", *before.parameters[:2], shape=array(PRED, ()),
        direction="GT" if inst.largest else "LT",
        type="TOTALORDER" if et.is_float else "SIGNED" if et.is_signed else "UNSIGNED",
    )  # fmt: skip
    d = Draft(inst)
    (x,) = d.parameters
    at = d.op("iota", shape=array(S32, shape.dims), iota_dimension=shape.rank - 1)
    both = d.op(
        "sort", x, at, dimensions=(shape.rank - 1,), is_stable=True, to_apply=before.done(first)
    )
    limits = (*shape.dims[:-1], k)
    parts = []
    for number, (_, result) in enumerate(inst.shape.leaves()):
        taken = tuple(SliceDim(0, limit, 1) for limit in limits)
        part = d.op("slice", d.element(both, number), slice=taken)
        parts.append(d.relaid(part, result))
    return d.done(d.tuple(*parts))
