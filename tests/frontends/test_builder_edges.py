"""Methods of the builder on empty, degenerate and crossed values: both backends beside XLA:CPU."""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.builder import DotDimensionNumbers, GatherDimensionNumbers
from hlo.testing.sampling import random_value
from tests.frontends.test_builder_ops import programs
from tests.harness.builder_cases import Case, at_least, largest, plus
from tests.harness.oracle import assert_same, leaves, xla_run

# As many programs make one module.
CHUNK = 24

_OUTER = DotDimensionNumbers()
_EACH = DotDimensionNumbers((), (), (0,), (0,))

EDGES: dict[str, Case] = {
    "add:empty": lambda b, p: b.add(p("f32[1,3]"), p("f32[0,3]")),
    "add:to empty": lambda b, p: b.add(p("f32[3]"), p("f32[0,3]"), (1,)),
    "add:composed": lambda b, p: b.add(p("f32[1,2]"), p("f32[4,3,1]"), (1, 2)),
    "lt:composed": lambda b, p: b.lt(p("f32[4]"), p("f32[1,2]"), (0,)),
    "sub:lower first": lambda b, p: b.sub(p("f32[3]"), p("f32[3,3]"), (0,)),
    "broadcast:to nothing": lambda b, p: b.broadcast(p("f32[2]"), (0,)),
    "broadcast:nothing": lambda b, p: b.broadcast(p("f32[0]"), (3,)),
    "collapse:empty": lambda b, p: b.collapse(p("f32[2,0,3]"), (1, 2)),
    "reshape:empty": lambda b, p: b.reshape(p("f32[2,0]"), (1, 0), (5, 0)),
    "concat_in_dim:empty": lambda b, p: b.concat_in_dim(
        [p("f32[0,2]"), p("f32[3,2]"), p("f32[0,2]")], 0
    ),
    "concat_in_dim:one": lambda b, p: b.concat_in_dim([p("f32[2,2]")], 1),
    "slice_:empty": lambda b, p: b.slice_(p("f32[4,2]"), (4, 0), (4, 2)),
    "slice_:large stride": lambda b, p: b.slice_(p("f32[4]"), (1,), (4,), (7,)),
    "pad:negative": lambda b, p: b.pad(p("f32[4,3]"), p("f32[]"), [(-2, 1, 0), (3, -4, 2)]),
    "pad:to nothing": lambda b, p: b.pad(p("f32[4]"), p("f32[]"), [(-2, -2)]),
    "pad:nothing": lambda b, p: b.pad(p("f32[0]"), p("f32[]"), [(2, 1, 5)]),
    "rev:empty": lambda b, p: b.rev(p("f32[0,2]"), (0, 1)),
    "trans:empty": lambda b, p: b.trans(p("f32[0,3]")),
    "transpose:scalar": lambda b, p: b.transpose(p("f32[]"), ()),
    "reduce:empty": lambda b, p: b.reduce(p("s32[0,3]"), 5, plus, (0,)),
    "reduce:to empty": lambda b, p: b.reduce(p("s32[0,3]"), 5, plus, (1,)),
    "reduce:large start": lambda b, p: b.reduce(p("f32[5]"), 100.0, largest, (0,)),
    "reduce_window:none fits": lambda b, p: b.reduce_window(p("f32[2]"), 1.0, plus, (3,)),
    "reduce_window:SAME, large stride": lambda b, p: b.reduce_window(
        p("s32[7]"), 1, plus, (2,), (5,), "SAME"
    ),
    "reduce_window:SAME, large": lambda b, p: b.reduce_window(
        p("s32[2]"), 1, plus, (5,), (1,), "SAME"
    ),
    "reduce_window:empty": lambda b, p: b.reduce_window(p("s32[0]"), 1, plus, (2,), (1,), "SAME"),
    "reduce_window:in padding": lambda b, p: b.reduce_window(
        p("s32[3]"), 1, plus, (2,), (2,), [(4, 4)]
    ),
    "reduce_window:negative padding": lambda b, p: b.reduce_window(
        p("s32[6]"), 1, plus, (2,), (1,), [(-2, -1)]
    ),
    "select_and_scatter:SAME": lambda b, p: b.select_and_scatter(
        p("f32[5]"), at_least, (3,), (2,), "SAME", p("f32[3]"), 1.0, plus
    ),
    "select_and_scatter:largest": lambda b, p: b.select_and_scatter(
        p("s32[6,4]"), at_least, (2, 2), (1, 1), "VALID", p("s32[5,3]"), 0, largest
    ),
    "sort:empty": lambda b, p: b.sort(p("f32[0]")),
    "sort:one": lambda b, p: b.sort(p("f32[3,1]")),
    "sort:dimension 0": lambda b, p: b.sort(p("s8[5,2]"), dimension=0),
    "map_:empty": lambda b, p: b.map_([p("f32[0]")], lambda x: -x),
    "map_:scalar": lambda b, p: b.map_([p("f32[]")], lambda x: -x, ()),
    "map_:types": lambda b, p: b.map_([p("f32[3]"), p("s32[3]")], lambda x, y: y),
    "map_:to pred": lambda b, p: b.map_([p("f32[3]"), p("f32[3]")], lambda x, y: x < y),
    "map_:constant": lambda b, p: b.map_([p("f32[3]")], lambda x: x.builder.constant(4)),
    "dot:over nothing": lambda b, p: b.dot(p("f32[2,0]"), p("f32[0,3]")),
    "dot:empty": lambda b, p: b.dot(p("f32[0,2]"), p("f32[2,3]")),
    "dot:s8": lambda b, p: b.dot(p("s8[2,3]"), p("s8[3]")),
    "dot:pred": lambda b, p: b.dot(p("pred[2,3]"), p("pred[3]")),
    "dot_general:outer": lambda b, p: b.dot_general(p("f32[2]"), p("f32[3]"), _OUTER),
    "dot_general:each": lambda b, p: b.dot_general(p("f32[2]"), p("f32[2]"), _EACH),
    "conv:no space": lambda b, p: b.conv(p("f32[2,3]"), p("f32[4,3]"), (), "VALID"),
    "conv:none fits": lambda b, p: b.conv(p("f32[1,1,2]"), p("f32[1,1,5]"), (1,), "VALID"),
    "conv:SAME, even": lambda b, p: b.conv(p("f32[1,1,5,6]"), p("f32[2,1,4,3]"), (2, 3), "SAME"),
    "conv:no batch": lambda b, p: b.conv(p("f32[0,1,6]"), p("f32[1,1,2]"), (1,), "SAME"),
    "conv:no features": lambda b, p: b.conv(p("f32[1,0,6]"), p("f32[1,0,2]"), (1,), "SAME"),
    "conv:3 dimensions": lambda b, p: b.conv(
        p("f32[1,1,3,4,2]"), p("f32[1,1,2,2,2]"), (1, 2, 1), "SAME"
    ),
    "conv_with_general_padding:negative": lambda b, p: b.conv_with_general_padding(
        p("f32[1,1,6]"), p("f32[1,1,2]"), (1,), [(-1, -2)]
    ),
    "dynamic_slice:whole": lambda b, p: b.dynamic_slice(p("f32[4]"), [p("s32[]")], (4,)),
    "dynamic_slice:u8": lambda b, p: b.dynamic_slice(p("f32[4]"), [p("u8[]")], (2,)),
    "dynamic_slice:s64": lambda b, p: b.dynamic_slice(p("f32[4,5]"), p("s64[2]"), (2, 3)),
    "gather:none": lambda b, p: b.gather(
        p("f32[4]"), p("s32[0,1]"), GatherDimensionNumbers((), (0,), (0,), 1), (1,)
    ),
    "gather:of nothing": lambda b, p: b.gather(
        p("f32[4]"), p("s32[3,1]"), GatherDimensionNumbers((1,), (), (0,), 1), (0,)
    ),
    "gather:vectors of none": lambda b, p: b.gather(
        p("f32[4,3]"), p("s32[2,0]"), GatherDimensionNumbers((1, 2), (), (), 1), (2, 2)
    ),
    "select:whole": lambda b, p: b.select(p("pred[]"), p("f32[2,3]"), p("f32[2,3]")),
    "select:of scalars": lambda b, p: b.select(p("pred[3]"), p("f32[]"), p("f32[]")),
    "clamp:array and scalar": lambda b, p: b.clamp(p("s32[3]"), p("s32[3]"), p("s32[]")),
    "clamp:crossed": lambda b, p: b.clamp(5, p("s32[4]"), 2),
    "clamp:empty": lambda b, p: b.clamp(p("f32[]"), p("f32[0]"), p("f32[]")),
    "while_:never": lambda b, p: b.while_(lambda s: s < s, lambda s: s + 1, p("s32[]")),
    "batch_norm_training:vector": lambda b, p: b.batch_norm_training(
        p("f32[4]"), p("f32[4]"), p("f32[4]"), 0.1, 0
    ),
    "batch_norm_training:feature first": lambda b, p: b.batch_norm_training(
        p("f32[3,4]"), p("f32[3]"), p("f32[3]"), 0.1, 0
    ),
    "batch_norm_inference:f64": lambda b, p: b.batch_norm_inference(
        p("f64[3,4]"), p("f64[4]"), p("f64[4]"), p("f64[4]"), b.abs_(p("f64[4]")), 0.1, 1
    ),
    "convert_element_type:to s8": lambda b, p: b.convert_element_type(p("f32[5]") * 100.0, "s8"),
    "convert_element_type:from s64": lambda b, p: b.convert_element_type(p("s64[5]"), "f32"),
    "convert_element_type:to pred": lambda b, p: b.convert_element_type(p("f32[5]"), "pred"),
    "reduce_precision:1 bit": lambda b, p: b.reduce_precision(p("f32[9]"), 1, 0),
    "tuple_:empty": lambda b, p: b.tuple_([b.tuple_([]), p("f32[1]")])[1],
    "constant_r1:empty": lambda b, p: b.constant_r1(0, 5.0) + p("f32[0]"),
}
_NAMES = list(EDGES)


@functools.cache
def results(chunk: int) -> dict[str, list[list[Any]]]:
    """Return what the interpreter, native code and XLA compute for each case of a chunk."""
    names = _NAMES[chunk * CHUNK : (chunk + 1) * CHUNK]
    module, parts = programs([EDGES[n] for n in names])
    rng = np.random.default_rng(zlib.crc32(names[0].encode()))
    args = [random_value(rng, s) for s in module.entry.parameter_shapes]
    native = hlo.compile(module, cache=False, passes="")
    found = [
        leaves(hlo.interpret(module, *args)),
        leaves(native(*args)),
        xla_run(str(module), args),
    ]
    return {n: [of[p] for of in found] for n, p in zip(names, parts, strict=True)}


@pytest.mark.parametrize("name", EDGES)
def test_at_its_edges_it_computes_what_xla_does(name: str) -> None:
    ours, native, theirs = results(_NAMES.index(name) // CHUNK)[name]
    assert len(ours) == len(theirs) > 0
    assert_same(tuple(ours), tuple(theirs), atol=1e-5, what=name)
    assert_same(tuple(native), tuple(theirs), atol=1e-5, what=name)
