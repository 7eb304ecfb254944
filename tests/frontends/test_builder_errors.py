"""Every rule that the documents state, broken: an error that names it and the caller's line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hlo
from hlo.frontends.builder import (
    ConvDims,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    XlaBuilder,
    XlaOp,
)
from hlo.values.types import Layout
from tests.harness.builder_cases import at_least, plus

Broken = Callable[[XlaBuilder, Callable[[str], XlaOp]], Any]

_GATHER = GatherDimensionNumbers((0,), (1,), (0, 1), 1)
_SCATTER = ScatterDimensionNumbers((1,), (0,), (0,), 1)


def _gather(slice_sizes: tuple[int, ...], **other: Any) -> Broken:
    numbers = GatherDimensionNumbers(**{**vars(_GATHER), **other})
    return lambda b, p: b.gather(p("f32[4,5]"), p("s32[3,2]"), numbers, slice_sizes)


def _scatter(updates: str, **other: Any) -> Broken:
    numbers = ScatterDimensionNumbers(**{**vars(_SCATTER), **other})
    return lambda b, p: b.scatter(p("f32[4,5]"), p("s32[3,1]"), p(updates), plus, numbers)


def _conv(lhs: str, rhs: str, **other: Any) -> Broken:
    return lambda b, p: b.conv(p(lhs), p(rhs), (1,), "VALID", **other)


RULES: dict[str, tuple[Broken, str, str]] = {
    # name: (program, code, words of the message)
    "parameter without a shape": (
        lambda b, p: b.parameter(0, None),  # type: ignore[arg-type]
        "type-mismatch", "parameter: shape is None"),
    "permutation of no pairs": (
        lambda b, p: b.collective_permute(p("f32[]"), [(0, 1, 2)]),  # type: ignore[list-item]
        "bad-replica-groups", "(0, 1, 2) is not a pair"),
    "padding of no pairs": (
        lambda b, p: b.conv(p("f32[1,2,3]"), p("f32[1,2,3]"), (1,), [(1,)]),
        "bad-value", "(low, high)"),
    "function without a result": (
        lambda b, p: b.while_(lambda s: None, lambda s: s, p("s32[]")),  # type: ignore[arg-type]
        "type-mismatch", "returns nothing"),
    "map of nothing": (lambda b, p: b.map_([], plus), "operand-count", "map: at least one"),
    "sort of nothing": (lambda b, p: b.sort([]), "operand-count", "sort: at least one"),
    "windows of nothing": (
        lambda b, p: b.reduce_window([], [], plus, (1,)), "operand-count", "at least one"),
    "constant of lists of several lengths": (
        lambda b, p: b.constant([[1, 2], [3]]), "shape-mismatch", "differ in length"),
    "constant of negative length": (
        lambda b, p: b.constant_r1(-1, 5), "bad-value", "-1 is not a dimension size"),
    "type of no element": (
        lambda b, p: b.convert_element_type(p("f32[]"), "(f32[])"), "unknown-type", "'(f32[])'"),
    "all-reduce of nothing": (
        lambda b, p: b.all_reduce(b.tuple_([]), plus), "shape-mismatch", "empty tuple"),
    "all-to-all of unequal parts": (
        lambda b, p: b.all_to_all(p("f32[4,6]"), 1, 0, 4), "bad-dimension",
        "does not divide into 4 equal parts"),
    "all-to-all of a tuple": (
        lambda b, p: b.all_to_all(p("(f32[4])"), 0, 0, 1), "type-mismatch", "an array is needed"),
    "all-to-all outside the dimensions": (
        lambda b, p: b.all_to_all(p("f32[4]"), 0, 1, 1), "bad-dimension", "concat_dimension is 1"),
    "batch-norm of no feature": (
        lambda b, p: b.batch_norm_training(p("f32[2,3]"), p("f32[3]"), p("f32[3]"), 0.1, 2),
        "bad-dimension", "feature_index"),
    "batch-norm scale of another size": (
        lambda b, p: b.batch_norm_training(p("f32[2,3]"), p("f32[2]"), p("f32[3]"), 0.1, 1),
        "shape-mismatch", "batch-norm-training"),
    "bitcast of no whole element": (
        lambda b, p: b.bitcast_convert_type(p("f16[10,3]"), "f32"), "shape-mismatch",
        "bitcast-convert"),
    "bitcast of a tuple": (
        lambda b, p: b.bitcast_convert_type(p("(f32[])"), "s32"), "type-mismatch", "array"),
    "broadcast to another size": (
        lambda b, p: b.broadcast_in_dim(p("f32[3]"), (2, 4), (1,)), "shape-mismatch",
        "neither 1 nor 4"),
    "broadcast outside the dimensions": (
        lambda b, p: b.broadcast_in_dim(p("f32[3]"), (2, 3), (2,)), "bad-dimension",
        "outside [0, 2)"),
    "broadcast of too few places": (
        lambda b, p: b.broadcast_in_dim(p("f32[3,4]"), (3, 4), (0,)), "bad-dimension",
        "names 1 dimensions"),
    "call with too few operands": (
        lambda b, p: b.call(b_computation(b, "f32[]"), []),
        "bad-computation", "takes 1 parameters, 0 are passed"),
    "call of a builder": (
        lambda b, p: b.call(b.create_sub_builder("unbuilt"), []),  # type: ignore[arg-type]
        "bad-computation", "call: computation is <XlaBuilder unbuilt: 0 operations>"),
    "call with an operand of another type": (
        lambda b, p: b.call(b_computation(b, "f32[]"), [p("s32[]")]), "bad-computation",
        "parameter 0 has shape f32[], s32[] is passed"),
    "call of no computation": (
        lambda b, p: b.call(None, [p("f32[]")]),  # type: ignore[arg-type]
        "bad-computation", "call: computation is None, an XlaComputation or a function"),
    "cholesky of no square": (
        lambda b, p: b.cholesky(p("f32[2,3]"), True), "shape-mismatch", "square matrices"),
    "clamp between other shapes": (
        lambda b, p: b.clamp(p("f32[2]"), p("f32[3]"), 1.0), "shape-mismatch", "clamp"),
    "clamp of a scalar between arrays": (
        lambda b, p: b.clamp(p("f32[3]"), p("f32[]"), p("f32[3]")), "shape-mismatch", "clamp"),
    "clamp between other types": (
        lambda b, p: b.clamp(p("s32[]"), p("f32[3]"), 1.0), "type-mismatch", "clamp"),
    "collapse out of order": (
        lambda b, p: b.collapse(p("f32[4,2,3]"), (1, 0)), "bad-dimension", "not consecutive"),
    "collapse of a tuple": (
        lambda b, p: b.collapse(p("(f32[4,2])"), (0,)), "type-mismatch",
        "collapse: parameter has shape (f32[4,2]), an array is needed"),
    "collapse with a gap": (
        lambda b, p: b.collapse(p("f32[4,2,3]"), (0, 2)), "bad-dimension", "not consecutive"),
    "collapse of no dimension": (
        lambda b, p: b.collapse(p("f32[4,2,3]"), (2, 3)), "bad-dimension", "names dimension 3"),
    "collective-permute from one source twice": (
        lambda b, p: b.collective_permute(p("f32[2]"), [(0, 1), (0, 2)]), "bad-value",
        "device 0 is the source of several"),
    "collective-permute to one target twice": (
        lambda b, p: b.collective_permute(p("f32[2]"), [(0, 1), (2, 1)]), "bad-value",
        "device 1 is the target of several"),
    "compare complex by order": (
        lambda b, p: p("c64[2]") < p("c64[2]"), "bad-value", "have no order"),
    "complex of integers": (
        lambda b, p: b.complex_(p("s32[2]"), p("s32[2]")), "type-mismatch", "complex"),
    "concatenate nothing": (
        lambda b, p: b.concat_in_dim([], 0), "operand-count", "at least 1"),
    "concatenate scalars": (
        lambda b, p: b.concat_in_dim([p("f32[]"), p("f32[]")], 0), "bad-dimension", "concatenate"),
    "concatenate along no dimension": (
        lambda b, p: b.concat_in_dim([p("f32[2]"), p("f32[2]")], 1), "bad-dimension",
        "outside [0, 1)"),
    "concatenate different ranks": (
        lambda b, p: b.concat_in_dim([p("f32[2]"), p("f32[2,2]")], 0), "shape-mismatch",
        "concatenate"),
    "concatenate different types": (
        lambda b, p: b.concat_in_dim([p("f32[2]"), p("s32[2]")], 0), "type-mismatch",
        "concatenate"),
    "concatenate different sizes": (
        lambda b, p: b.concat_in_dim([p("f32[2,3]"), p("f32[2,4]")], 0), "shape-mismatch",
        "concatenate"),
    "conditional on a number": (
        lambda b, p: b.conditional(p("f32[]"), p("f32[]"), _same, p("f32[]"), _same),
        "type-mismatch", "pred[] is needed"),
    "conditional on an array": (
        lambda b, p: b.conditional(p("pred[2]"), p("f32[]"), _same, p("f32[]"), _same),
        "type-mismatch", "pred[] or s32[] is needed"),
    "conditional on a computation of two": (
        lambda b, p: b.conditional(
            p("pred[]"), p("f32[]"), b_computation(b, "f32[]", "f32[]"), p("f32[]"), _same),
        "bad-computation", "takes 2 parameters, 1 are passed"),
    "conditional of two types": (
        lambda b, p: b.conditional(p("pred[]"), p("f32[]"), _same, p("s32[]"), _same),
        "bad-computation", "is needed"),
    "conditional on the wrong operand": (
        lambda b, p: b.conditional(
            p("pred[]"), p("f32[2]"), b_computation(b, "f32[3]"), p("f32[3]"), _same),
        "bad-computation", "is passed"),
    "conditional of too few operands": (
        lambda b, p: b.conditional(p("s32[]"), [_same, _same], [p("f32[]")]), "operand-count",
        "2 branches and 1 operands"),
    "conditional of no branch": (
        lambda b, p: b.conditional(p("s32[]"), [], []), "bad-value", "at least one branch"),
    "constant out of range": (
        lambda b, p: b.constant(300, "u8"), "type-mismatch", "outside u8"),
    "constant of no number": (
        lambda b, p: b.constant("one"), "bad-value", "is not a number"),
    "constant of another rank": (
        lambda b, p: b.constant_r1([[1]]), "shape-mismatch", "rank 1 is needed"),
    "convert a tuple": (
        lambda b, p: b.convert_element_type(p("(f32[])"), "s32"), "type-mismatch", "array"),
    "convert to nothing known": (
        lambda b, p: b.convert_element_type(p("f32[]"), "f31"), "unknown-type", "not an "
                                                                                "element type"),
    "convolution of another depth": (
        _conv("f32[1,2,5]", "f32[3,4,2]"), "shape-mismatch", "convolution"),
    "convolution in features that do not divide": (
        _conv("f32[1,4,5]", "f32[3,2,2]", feature_group_count=2), "shape-mismatch",
        "feature_group_count"),
    "convolution in batches that do not divide": (
        _conv("f32[3,4,5]", "f32[4,4,2]", batch_group_count=2), "shape-mismatch",
        "batch_group_count"),
    "convolution in a dimension twice": (
        lambda b, p: b.conv_general(
            p("f32[1,1,2]"), p("f32[1,1,1]"), (1,), [(0, 0)],
            ConvDims(0, 0, (2,), 1, 0, (2,), 0, 1, (2,))),
        "bad-dimension", "input dimension numbers [0, 0, 2]"),
    "convolution by too few strides": (
        lambda b, p: b.conv(p("f32[1,1,5,5]"), p("f32[1,1,2,2]"), (1,), "VALID"),
        "bad-dimension", "window_strides has 1 elements, 2 are needed"),
    "convolution by no stride": (
        lambda b, p: b.conv(p("f32[1,1,5]"), p("f32[1,1,2]"), (0,), "VALID"), "bad-value",
        "stride=0"),
    "convolution in too few pads": (
        lambda b, p: b.conv_with_general_padding(
            p("f32[1,1,5,5]"), p("f32[1,1,2,2]"), (1, 1), [(0, 0)]),
        "bad-dimension", "padding has 1 pairs, 2 are needed"),
    "convolution of another rank": (
        _conv("f32[1,2,5]", "f32[3,2]"), "shape-mismatch", "rank 3 is needed"),
    "convolution in unknown padding": (
        lambda b, p: b.conv(p("f32[1,2,5]"), p("f32[3,2,2]"), (1,), "FULL"), "bad-value",
        "neither VALID nor SAME"),
    "convolution in unknown precision": (
        _conv("f32[1,2,5]", "f32[3,2,2]", precision_config="exact"), "bad-value", "precision"),
    "custom-call aliasing what there is not": (
        lambda b, p: b.custom_call("f", [p("f32[2]")], "f32[2]", schedule="SOON"), "bad-value",
        "schedule"),
    "dot of other sizes": (
        lambda b, p: b.dot(p("f32[2,3]"), p("f32[4,2]")), "shape-mismatch", "differ in size"),
    "dot in batches of other sizes": (
        lambda b, p: b.dot_general(
            p("f32[2,3]"), p("f32[4,3]"), DotDimensionNumbers((1,), (1,), (0,), (0,))),
        "shape-mismatch", "batch dimensions differ"),
    "dynamic-reshape to another size": (
        lambda b, p: b.dynamic_reshape(p("f32[6]"), [2, 2], (2, 2), (True, False)),
        "shape-mismatch", "elements"),
    "dynamic-slice larger than its operand": (
        lambda b, p: b.dynamic_slice(p("f32[4]"), [0], (5,)), "bad-value", "outside [0, 4]"),
    "dynamic-slice of negative size": (
        lambda b, p: b.dynamic_slice(p("f32[4]"), [0], (-1,)), "bad-value", "outside [0, 4]"),
    "dynamic-slice at a position of rank 2": (
        lambda b, p: b.dynamic_slice(p("f32[4]"), p("s32[1,1]"), (1,)), "shape-mismatch",
        "dynamic-slice"),
    "dynamic-slice at a fraction": (
        lambda b, p: b.dynamic_slice(p("f32[4]"), p("f32[1]"), (1,)), "type-mismatch",
        "dynamic-slice"),
    "dynamic-slice at too few positions": (
        lambda b, p: b.dynamic_slice(p("f32[4,5]"), [0], (1, 1)), "operand-count",
        "1 start indices"),
    "dynamic-update-slice of another rank": (
        lambda b, p: b.dynamic_update_slice(p("f32[4]"), p("f32[2,2]"), [0]), "shape-mismatch",
        "dynamic-update-slice"),
    "dynamic-update-slice of another type": (
        lambda b, p: b.dynamic_update_slice(p("f32[4]"), p("s32[2]"), [0]), "type-mismatch",
        "dynamic-update-slice"),
    "dynamic-update-slice larger than its operand": (
        lambda b, p: b.dynamic_update_slice(p("f32[4]"), p("f32[5]"), [0]), "shape-mismatch",
        "more than the operand's"),
    "fft of a real number": (
        lambda b, p: b.fft(p("f32[4]"), "FFT", (4,)), "type-mismatch", "complex"),
    "fft over four dimensions": (
        lambda b, p: b.fft(p("c64[2,2,2,2]"), "FFT", (2, 2, 2, 2)), "bad-value", "1 to 3"),
    "fft of an unknown kind": (
        lambda b, p: b.fft(p("c64[2]"), "DFT", (2,)), "bad-value", "fft_type is 'DFT'"),
    "gather of too few slice sizes": (_gather((1,)), "shape-mismatch", "slice_sizes"),
    "gather of a collapsed dimension of 2": (_gather((1, 2)), "bad-value", "gather"),
    "gather by a map that is not one to one": (
        _gather((1, 1), start_index_map=(0, 0)), "bad-dimension", "names a dimension twice"),
    "gather by indices beyond their rank": (
        _gather((1, 1), index_vector_dim=3), "bad-dimension", "index_vector_dim is 3"),
    "gather of windows larger than the operand": (
        _gather((5, 1)), "bad-value", "slice_sizes has 5"),
    "gather of ranks that do not add up": (
        _gather((1, 1), collapsed_slice_dims=()), "shape-mismatch", "gather"),
    "gather by indices of another length": (
        _gather((1, 1), start_index_map=(0,)), "shape-mismatch", "start_index_map"),
    "get-dimension-size of no dimension": (
        lambda b, p: b.get_dimension_size(p("f32[2]"), 1), "bad-dimension", "outside [0, 1)"),
    "get-dimension-size of a tuple": (
        lambda b, p: b.get_dimension_size(p("(f32[2])"), 0), "type-mismatch", "array"),
    "get-tuple-element of no element": (
        lambda b, p: b.get_tuple_element(p("(f32[2])"), 1), "index-out-of-range", "get-tuple"),
    "iota along no dimension": (
        lambda b, p: b.iota("s32[4,8]", 2), "bad-dimension", "iota"),
    "logical-and of a number": (
        lambda b, p: b.logical_and(p("f32[]"), p("f32[]")), "type-mismatch", "and"),
    "map by a function of too few": (
        lambda b, p: b.map_([p("f32[2]"), p("f32[2]")], b_computation(b, "f32[]")),
        "bad-computation", "map"),
    "map over other dimensions": (
        lambda b, p: b.map_(p("f32[2,3]"), _same, (1, 0)), "bad-dimension", "all 2 in order"),
    "map to a tuple": (
        lambda b, p: b.map_(p("f32[2]"), lambda x: x.builder.tuple_([x])), "bad-computation",
        "a scalar is needed"),
    "map of other dimensions": (
        lambda b, p: b.map_([p("f32[2]"), p("f32[3]")], plus), "shape-mismatch", "map"),
    "map with an array for every call": (
        lambda b, p: b.map_(p("f32[2]"), plus, static_operands=[p("f32[3]")]), "unsupported",
        "XLA's Map takes no static operands at all"),
    "pad of too few dimensions": (
        lambda b, p: b.pad(p("f32[2,3]"), 0.0, [(1, 1)]), "bad-dimension", "pad"),
    "pad by negative holes": (
        lambda b, p: b.pad(p("f32[2]"), 0.0, [(0, 0, -1)]), "bad-value", "interior"),
    "pad with an array": (
        lambda b, p: b.pad(p("f32[2]"), p("f32[1]"), [(0, 0)]), "shape-mismatch", "pad"),
    "pad by four numbers": (
        lambda b, p: b.pad(p("f32[2]"), 0.0, [(1, 2, 3, 4)]),  # type: ignore[list-item]
        "bad-value", "pad: padding_config needs low, high and optionally interior"),
    "pad away more than there is": (
        lambda b, p: b.pad(p("f32[2]"), 0.0, [(-2, -2)]), "bad-value", "negative"),
    "pad with another type": (
        lambda b, p: b.pad(p("f32[2]"), p("s32[]"), [(0, 0)]), "type-mismatch", "pad"),
    "parameter of a taken number": (
        lambda b, p: (b.parameter(5, "f32[]"), b.parameter(5, "f32[]")), "bad-parameter-number",
        "number 5 is there already"),
    "partition-id of another type": (
        lambda b, p: b.partition_id("s32[]"), "shape-mismatch", "u32[]"),
    "ragged-all-to-all of other offsets": (
        lambda b, p: b.ragged_all_to_all(
            p("f32[4]"), p("s32[2]"), p("s32[2]"), p("f32[4]"), p("s32[3]"), p("s32[2]")),
        "shape-mismatch", "operands 4 and 2"),
    "reduce of no dimension": (
        lambda b, p: b.reduce(p("f32[2,3]"), 0.0, plus, (2,)), "bad-dimension", "outside [0, 2)"),
    "reduce of a dimension twice": (
        lambda b, p: b.reduce(p("f32[2,3]"), 0.0, plus, (1, 1)), "bad-dimension", "twice"),
    "reduce from an array": (
        lambda b, p: b.reduce(p("f32[2,3]"), p("f32[2]"), plus, (1,)), "shape-mismatch",
        "reduce: operand 1 has shape f32[2], a scalar is needed"),
    "reduce from another type": (
        lambda b, p: b.reduce(p("f32[2,3]"), p("s32[]"), plus, (1,)), "type-mismatch",
        "reduce: initial value 0 has element type s32, operand 0 has f32"),
    "reduce to another type": (
        lambda b, p: b.reduce(p("f32[2,3]"), 0.0, at_least, (1,)), "bad-computation", "reduce"),
    "reduce by a function of one": (
        lambda b, p: b.reduce(p("f32[2]"), 0.0, b_computation(b, "f32[]"), (0,)),
        "bad-computation", "takes 1 parameters, 2 are passed"),
    "reduce of arrays of other dimensions": (
        lambda b, p: b.reduce([p("f32[2]"), p("f32[3]")], [0.0, 0.0], _pair, (0,)),
        "shape-mismatch", "reduce"),
    "reduce from too few initial values": (
        lambda b, p: b.reduce([p("f32[2]"), p("f32[2]")], [0.0], _pair, (0,)), "operand-count",
        "1 initial values for 2"),
    "reduce-precision to no exponent": (
        lambda b, p: b.reduce_precision(p("f32[2]"), 0, 5), "bad-value", "exponent_bits"),
    "reduce-precision of an integer": (
        lambda b, p: b.reduce_precision(p("s32[2]"), 5, 10), "type-mismatch", "floating-point"),
    "reduce-precision to a negative mantissa": (
        lambda b, p: b.reduce_precision(p("f32[2]"), 5, -1), "bad-value", "mantissa_bits"),
    "reduce-scatter of unequal parts": (
        lambda b, p: b.reduce_scatter(p("f32[5]"), plus, 0, 2), "bad-dimension", "equal parts"),
    "reduce-window in unknown padding": (
        lambda b, p: b.reduce_window(p("f32[5]"), 0.0, plus, (2,), (1,), "FULL"), "bad-value",
        "neither VALID nor SAME"),
    "reduce-window of another rank": (
        lambda b, p: b.reduce_window(p("f32[5]"), 0.0, plus, (2, 2)), "bad-dimension",
        "window_dimensions has 2 elements"),
    "reduce-window of no size": (
        lambda b, p: b.reduce_window(p("f32[5]"), 0.0, plus, (0,)), "bad-value", "size=0"),
    "reduce-window of no stride": (
        lambda b, p: b.reduce_window(p("f32[5]"), 0.0, plus, (2,), (0,), "SAME"), "bad-value",
        "stride=0"),
    "reshape to another size": (
        lambda b, p: b.reshape(p("f32[4,2,3]"), (5, 5)), "shape-mismatch", "24 elements"),
    "reshape in no order": (
        lambda b, p: b.reshape(p("f32[4,2,3]"), (0, 1, 1), (24,)), "bad-dimension",
        "reshape: dimensions {0,1,1} is not a permutation"),
    "reshape to nothing said": (
        lambda b, p: b.reshape(p("f32[1]")), "bad-value", "reshape: it needs the new sizes"),
    "reverse of no dimension": (
        lambda b, p: b.rev(p("f32[2]"), (1,)), "bad-dimension", "outside [0, 1)"),
    "reverse of a dimension twice": (
        lambda b, p: b.rev(p("f32[2]"), (0, 0)), "bad-dimension", "twice"),
    "rng-bernoulli of several means": (
        lambda b, p: b.rng_bernoulli(p("f32[2]"), "u32[2]"), "shape-mismatch",
        "rng_bernoulli: mean has shape f32[2], a scalar is needed"),
    "rng-bernoulli of a double": (
        lambda b, p: b.rng_bernoulli(p("f64[]"), "u32[2]"), "type-mismatch", "f32 is needed"),
    "rng-normal around arrays": (
        lambda b, p: b.rng_normal(p("f32[2]"), p("f32[]"), "f32[2]"), "shape-mismatch", "rank 0"),
    "rng-normal of integers": (
        lambda b, p: b.rng_normal(p("s32[]"), p("s32[]"), "s32[4]"), "type-mismatch", "rng"),
    "rng-uniform between arrays": (
        lambda b, p: b.rng_uniform(p("f32[2]"), p("f32[2]"), "f32[4]"), "shape-mismatch", "rank 0"),
    "rng-uniform of another type": (
        lambda b, p: b.rng_uniform(p("f32[]"), p("f32[]"), "s32[4]"), "shape-mismatch", "rng"),
    "rng-bernoulli of floats": (
        lambda b, p: b.rng_bernoulli(p("f32[]"), "f32[4]"), "type-mismatch", "u32 is needed"),
    "rng-bit-generator from another state": (
        lambda b, p: b.rng_bit_generator("rng_three_fry", p("u64[3]"), "u32[4]"),
        "shape-mismatch", "the state of rng_three_fry has 2"),
    "rng-bit-generator by no algorithm": (
        lambda b, p: b.rng_bit_generator("rng_dice", p("u64[2]"), "u32[4]"), "bad-value",
        "algorithm is 'rng_dice'"),
    "scatter into too large windows": (_scatter("f32[3,6]"), "shape-mismatch", "scatter"),
    "scatter of other sizes": (_scatter("f32[4,5]"), "shape-mismatch", "scatter"),
    "scatter of another rank": (_scatter("f32[3]"), "shape-mismatch", "scatter"),
    "scatter in window dimensions out of order": (
        _scatter("f32[3,4,5]", update_window_dims=(2, 1), inserted_window_dims=()),
        "bad-dimension", "update_window_dims is not ascending"),
    "scatter of a window dimension twice": (
        _scatter("f32[3,5]", inserted_window_dims=(0, 0)), "bad-dimension", "inserted_window_dims"),
    "scatter in ranks that do not add up": (
        _scatter("f32[3,5]", inserted_window_dims=()), "shape-mismatch", "scatter"),
    "scatter to no operand dimension": (
        _scatter("f32[3,5]", scatter_dims_to_operand_dims=(2,)), "bad-dimension",
        "scatter_dims_to_operand_dims"),
    "select by a number": (
        lambda b, p: b.select(p("s32[]"), p("f32[2]"), p("f32[2]")), "type-mismatch", "pred"),
    "select between other shapes": (
        lambda b, p: b.select(p("pred[2]"), p("f32[2]"), p("f32[3]")), "shape-mismatch", "select"),
    "select between tuples by an array": (
        lambda b, p: b.select(p("pred[2]"), p("(f32[2])"), p("(f32[2])")), "shape-mismatch",
        "a scalar of type pred is needed to choose between tuples"),
    "select between empty tuples by a number": (
        lambda b, p: b.select(p("s32[]"), p("()"), p("()")), "shape-mismatch", "of type pred"),
    "select between other tuples": (
        lambda b, p: b.select(p("pred[]"), p("(f32[2])"), p("(f32[3])")), "shape-mismatch",
        "select: on_true has shape (f32[2]), on_false (f32[3])"),
    "select between an array and a tuple": (
        lambda b, p: b.select(p("pred[]"), p("f32[2]"), p("(f32[2])")), "shape-mismatch",
        "select: on_true has shape f32[2], on_false (f32[2])"),
    "select between other types": (
        lambda b, p: b.select(p("pred[2]"), p("f32[2]"), p("s32[2]")), "type-mismatch", "select"),
    "select-and-scatter from another size": (
        lambda b, p: b.select_and_scatter(
            p("f32[4]"), at_least, (2,), (2,), "VALID", p("f32[3]"), 0.0, plus),
        "shape-mismatch", "the windows of operand 0"),
    "select-and-scatter of another type": (
        lambda b, p: b.select_and_scatter(
            p("f32[4]"), at_least, (2,), (2,), "VALID", p("s32[2]"), 0.0, plus),
        "type-mismatch", "select-and-scatter: source has element type s32"),
    "select-and-scatter from an array": (
        lambda b, p: b.select_and_scatter(
            p("f32[4]"), at_least, (2,), (2,), "VALID", p("f32[2]"), p("f32[2]"), plus),
        "shape-mismatch", "select-and-scatter: operand 2 has shape f32[2], a scalar is needed"),
    "select-and-scatter by no choice": (
        lambda b, p: b.select_and_scatter(
            p("f32[4]"), plus, (2,), (2,), "VALID", p("f32[2]"), 0.0, plus),
        "bad-computation", "pred[] is needed"),
    "send-done of something else": (
        lambda b, p: b.send_done(p("(f32[], u32[], token[])")), "bad-value",
        "the send itself is needed"),
    "set-dimension-size to a float": (
        lambda b, p: b.set_dimension_size(p("f32[2]"), p("f32[]"), 0), "type-mismatch", "s32"),
    "set-dimension-size of no dimension": (
        lambda b, p: b.set_dimension_size(p("f32[2]"), 1, 1), "bad-dimension", "outside [0, 1)"),
    "slice beyond the end": (
        lambda b, p: b.slice_(p("f32[4]"), (1,), (5,)), "index-out-of-range", "slice"),
    "slice to before its start": (
        lambda b, p: b.slice_(p("f32[4]"), (3,), (2,)), "index-out-of-range", "slice"),
    "slice from a negative index": (
        lambda b, p: b.slice_(p("f32[4]"), (-1,), (2,)), "index-out-of-range", "slice"),
    "slice of other numbers of indices": (
        lambda b, p: b.slice_(p("f32[4,5]"), (1, 1), (2,)), "bad-value",
        "slice: 2 start indices, 1 limit indices"),
    "slice of too few indices": (
        lambda b, p: b.slice_(p("f32[4,5]"), (1,), (2,)), "bad-dimension", "slice"),
    "sort of a scalar": (
        lambda b, p: b.sort(p("f32[]")), "bad-dimension", "sort: a scalar has no dimension"),
    "sort by no comparison": (
        lambda b, p: b.sort(p("f32[4]"), plus), "bad-computation", "pred[] is needed"),
    "sort of other dimensions": (
        lambda b, p: b.sort([p("f32[4]"), p("f32[5]")]), "shape-mismatch", "sort"),
    "sort along no dimension": (
        lambda b, p: b.sort(p("f32[4]"), dimension=1), "bad-dimension", "outside [0, 1)"),
    "square-f32 of doubles": (
        lambda b, p: b.square_f32(p("f64[4]")), "type-mismatch", "f32 is needed"),
    "top-k of more than there are": (
        lambda b, p: b.top_k(p("f32[4]"), 5), "bad-value", "topk"),
    "transpose by no permutation": (
        lambda b, p: b.transpose(p("f32[4,5]"), (0, 0)), "bad-dimension", "twice"),
    "trans of no matrix": (
        lambda b, p: b.trans(p("f32[4]")), "shape-mismatch", "rank 2 is needed"),
    "triangular-solve of other sizes": (
        lambda b, p: b.triangular_solve(p("f32[3,3]"), p("f32[2,3]"), True, True, False),
        "shape-mismatch", "triangular-solve"),
    "triangular-solve of other batches": (
        lambda b, p: b.triangular_solve(p("f32[2,3,3]"), p("f32[4,3,1]"), True, True, False),
        "shape-mismatch", "batch"),
    "while on a number": (
        lambda b, p: b.while_(_same, _same, p("f32[]")), "bad-computation", "pred[] is needed"),
    "while on an array": (
        lambda b, p: b.while_(lambda s: s < 1.0, _same, p("f32[2]")), "bad-computation",
        "pred[] is needed"),
    "while to another type": (
        lambda b, p: b.while_(
            lambda s: s < 1.0, lambda s: s.builder.constant(1), p("f32[]")),
        "bad-computation", "while"),
    "the truth of a value": (
        lambda b, p: bool(p("pred[]")), "bad-value", "has no value until the program runs"),
    "a value of another builder": (
        lambda b, p: XlaBuilder("other").neg(p("f32[]")), "bad-value", "of builder"),
    "a shape that is none": (
        lambda b, p: b.iota("s32[4", 0), "syntax", "expected"),
    "another shape than expected": (
        lambda b, p: b.check_shape(p("f32[4]"), "f32[5]"), "shape-mismatch", "is expected"),
    "an index outside": (lambda b, p: p("f32[4]")[4], "index-out-of-range", "outside dimension 0"),
    "too many indices": (lambda b, p: p("f32[4]")[0, 0], "bad-dimension", "2 indices"),
    "dimension numbers in conflict": (
        lambda b, p: b.create_conv_dimension_numbers(0, 1, 2, 2, 0, 1, 2, 3), "bad-dimension",
        "not 0 to 3, each once"),
    "the value of a parameter": (
        lambda b, p: b.compute_constant(p("f32[]") + 1.0), "not-constant", "depends on parameter"),
    "the value of what the host says": (
        lambda b, p: b.compute_constant(b.infeed("f32[]") + 1.0), "not-constant",
        "depends on infeed"),
    "the value of what the device is": (
        lambda b, p: b.compute_constant(b.neg(b.convert_element_type(b.replica_id(), "s32"))),
        "not-constant", "depends on replica-id"),
    "the value in a layout of another rank": (
        lambda b, p: b.compute_constant(b.constant([1, 2]), Layout((1, 0))), "bad-layout",
        "not a permutation"),
    "a gap in the parameters": (
        lambda b, p: b.build(b.parameter(3, "f32[]")), "bad-parameter-number", "is missing"),
    "nothing to build": (lambda b, p: b.build(), "empty-computation", "no operations"),
}  # fmt: skip


def _same(x: XlaOp) -> XlaOp:
    return x


def _pair(a: XlaOp, b: XlaOp, *_: XlaOp) -> XlaOp:
    return a.builder.tuple_([a, b])


def b_computation(b: XlaBuilder, *shapes: str) -> Any:
    """Return a computation from parameters to the first of them."""
    inner = b.create_sub_builder("same")
    first, *_ = [inner.parameter(i, shape) for i, shape in enumerate(shapes)]
    return inner.build(first)


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_is_named(name: str) -> None:
    program, code, words = RULES[name]
    b = XlaBuilder("broken")
    numbers = iter(range(10))
    with pytest.raises(hlo.HloError) as e:
        program(b, lambda shape: b.parameter(next(numbers), shape))
    assert e.value.code == code, str(e.value)
    assert words in str(e.value), str(e.value)


def test_an_error_shows_the_line_that_made_it() -> None:
    b = XlaBuilder("place")
    x = b.parameter(0, "f32[2,3]")
    with pytest.raises(hlo.HloError) as e:
        b.transpose(x, (0, 2))
    line = "        b.transpose(x, (0, 2))\n"
    assert line.strip() in str(e.value)
    assert str(e.value).startswith(__file__)


def test_the_line_of_a_program_that_was_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook that loads a module anew: its lines have moved."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_program.py"
    for blank in (0, 50, 3):
        file.write_text("\n" * blank + f"def program(b):\n    b.neg(b.tuple_([]))  # {blank}\n")
        importlib.invalidate_caches()
        sys.modules.pop("edited_program", None)
        program = importlib.import_module("edited_program").program
        with pytest.raises(hlo.HloError) as e:
            program(XlaBuilder("edited"))
        assert str(e.value).startswith(f"{file}:{blank + 2}:5: error: negate")
        assert f"b.neg(b.tuple_([]))  # {blank}\n" in str(e.value)


def test_a_broken_rule_leaves_no_trace() -> None:
    b = XlaBuilder("trace")
    x = b.parameter(0, "f32[2]")
    b.neg(x)
    want = str(b.build())
    for broken in (
        lambda: b.reshape(x, (3,)),
        lambda: b.select(x, x, 1.0),  # 1.0 is a constant and is broadcast before the error
    ):
        with pytest.raises(hlo.HloError):
            broken()
        assert str(b.build()) == want


def test_an_error_in_a_function_says_what_it_gets() -> None:
    b = XlaBuilder("function")

    with pytest.raises(hlo.HloError) as e:
        b.while_(lambda i: i < 5, at_least, b.constant(1))
    assert "while: body is a function of (a: " in str(e.value)
    with pytest.raises(hlo.HloError) as e:
        b.map_([b.parameter(0, "f32[2]"), b.constant([1, 2])], plus)
    message, _, note = str(e.value).partition("note: ")
    assert "builder_cases.py" in message and "return a + b" in message
    assert note.startswith("in mapped plus, which gets (f32[], s32[])")
    assert "b.map_([b.parameter(0" in note
