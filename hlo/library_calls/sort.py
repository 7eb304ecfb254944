"""Sorts of CUB and the k largest elements. Source: XLA's sort_rewriter.cc, topk_specializer.cc."""

from __future__ import annotations

from hlo.ir import Computation
from hlo.ir.builder import build_computation
from hlo.library_calls.call import Call, is_scratch, library_call
from hlo.values.types import PRED, array


@library_call(
    "__cub$DeviceRadixSort", "__cub$DeviceRadixSortUnassignedScratchSize", section="sort_options"
)
def _radix_sort(c: Call) -> Computation:
    """Keys, and values along with them, sorted by the keys in the last dimension, stably.

    Floats are in their total order.
    """
    c.need_operands(1, 2)
    keys = c.plain(0)
    shape = keys.array_shape
    et, values = shape.element_type, [c.plain(n) for n in range(1, len(c.operands))]
    order = "TOTALORDER" if et.is_float else "SIGNED" if et.is_signed else "UNSIGNED"
    scalars = [array(v.array_shape.element_type, ()) for v in (keys, *values) for _ in range(2)]
    before = build_computation(
        "before", scalars,
        lambda b, x, y, *_: b.op(
            "compare", x, y, shape=array(PRED, ()), type=order,
            direction="GT" if c.config.flag("descending") else "LT",
        ),
        c.inst,
    )  # fmt: skip
    made = c.op(
        "sort", keys, *values, dimensions=(shape.rank - 1,), is_stable=True, to_apply=before
    )
    return c.done(*(c.element(made, n) for n in range(2)) if values else (made,))


@library_call("__gpu$TopK", section="topk_options")
def _top_k(c: Call) -> Computation:
    """The k largest elements of the last dimension, largest first, and where they are."""
    c.need_operands(1)
    if len(c.wanted) < 2 or is_scratch(c.wanted[1]) or not c.wanted[0].rank:
        raise c.wrong("returns values and indices", "shape-mismatch")
    made = c.op("topk", c.plain(0), k=c.wanted[0].dims[-1], largest=True)
    return c.done(*(c.element(made, n) for n in range(2)))
