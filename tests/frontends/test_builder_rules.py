"""Rules of the newer documents (002 and 003), broken: errors at once, and where they wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hlo
from hlo.frontends.builder import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    RaggedDotDimensionNumbers,
    ResultAccuracy,
    ScatterDimensionNumbers,
    XlaBuilder,
    XlaOp,
)
from tests.frontends.test_builder_errors import RULES as OTHERS
from tests.frontends.test_builder_errors import Broken, b_computation
from tests.harness.builder_cases import at_least, plus

_EACH = DotDimensionNumbers((1,), (0,))


def _gather(*numbers: Any, indices: str = "s32[5,2]", sizes: tuple[int, ...] = (8, 6)) -> Broken:
    return lambda b, p: b.gather(
        p("f32[16,11]"), p(indices), GatherDimensionNumbers(*numbers), sizes
    )


def _scatter(*numbers: Any, indices: str = "s32[4,2]", updates: str = "f32[4]") -> Broken:
    return lambda b, p: b.scatter(
        p("f32[6,5]"), p(indices), p(updates), plus, ScatterDimensionNumbers(*numbers)
    )


def _ragged(sizes: str, *numbers: Any) -> Broken:
    return lambda b, p: b.ragged_dot(
        p("f32[5,3]"), p("f32[2,3,4]"), p(sizes),
        RaggedDotDimensionNumbers(DotDimensionNumbers((1,), (1,)), *numbers),
    )  # fmt: skip


def _exchange(offsets: str, output: str = "f32[5,2]") -> Broken:
    return lambda b, p: b.ragged_all_to_all(
        p("f32[4,2]"), p(offsets), p(offsets), p(output), p(offsets), p(offsets), [[0]]
    )


def _conv(lhs: str, rhs: str, **other: Any) -> Broken:
    return lambda b, p: b.conv(p(lhs), p(rhs), (1,), "VALID", **other)


def _pair(a: XlaOp, i: XlaOp, *_: XlaOp) -> XlaOp:
    return a.builder.tuple_([a, i])


RULES: dict[str, tuple[Broken, str, str]] = {
    # name: (program, code, words of the message)
    # --- between devices
    "all-gather in other parts than groups": (
        lambda b, p: b.all_gather(p("f32[2]"), 0, 3, [[0, 1]]), "bad-replica-groups",
        "all-gather: a dimension is in 3 parts, a group has 2 members"),
    "all-gather in groups of two sizes": (
        lambda b, p: b.all_gather(p("f32[2]"), 0, 2, [[0, 1], [2]]), "bad-replica-groups",
        "all-gather: the replica groups of all-gather differ in size"),
    "all-gather from one device twice": (
        lambda b, p: b.all_gather(p("f32[2]"), 0, 2, [[0, 0]]), "bad-replica-groups",
        "all-gather: 0 is in the replica groups twice"),
    "all-gather from a negative device": (
        lambda b, p: b.all_gather(p("f32[2]"), 0, 2, [[0, -1]]), "bad-replica-groups",
        "all-gather: -1 in the replica groups is not an id"),
    "all-gather in an empty group": (
        lambda b, p: b.all_gather(p("f32[2]"), 0, 2, [[]]), "bad-replica-groups", "is empty"),
    "all-gather by global ids of no channel": (
        lambda b, p: b.all_gather(p("f32[2]"), 0, 2, [[0, 1]], use_global_device_ids=True),
        "bad-replica-groups", "all-gather: use_global_device_ids needs a channel_id"),
    "all-gather of a scalar": (
        lambda b, p: b.all_gather(p("f32[]"), 0, 1), "bad-dimension", "all-gather: dimension 0"),
    "all-gather in no parts": (
        lambda b, p: b.all_gather(p("f32[2]"), 0, 0), "bad-value", "shard_count is 0"),
    "all-reduce to another type": (
        lambda b, p: b.all_reduce(p("f32[2]"), lambda a, c: a < c), "bad-computation",
        "all-reduce: to_apply"),
    "all-reduce in another shape": (
        lambda b, p: b.all_reduce(p("f32[2,3]"), plus, shape_with_layout="f32[3,2]"),
        "shape-mismatch", "all-reduce: the result is f32[3,2]"),
    "reduce-scatter in other parts than groups": (
        lambda b, p: b.reduce_scatter(p("f32[6]"), plus, 0, 3, [[0, 1]]), "bad-replica-groups",
        "reduce-scatter: a dimension is in 3 parts, a group has 2 members"),
    "reduce-scatter in groups of two sizes": (
        lambda b, p: b.reduce_scatter(p("f32[4]"), plus, 0, 2, [[0, 1], [2]]),
        "bad-replica-groups", "differ in size"),
    "reduce-scatter along no dimension": (
        lambda b, p: b.reduce_scatter(p("f32[4]"), plus, 1, 2), "bad-dimension",
        "reduce-scatter: dimension 1 is outside [0, 1)"),
    "all-to-all in other parts than groups": (
        lambda b, p: b.all_to_all(p("f32[4,16]"), 1, 0, 4, [[0, 1]]), "bad-replica-groups",
        "all-to-all: split_count is 4, a replica group has 2 members"),
    "collective-permute to a negative device": (
        lambda b, p: b.collective_permute(p("f32[2]"), [(0, -1)]), "bad-value",
        "collective-permute: device -1 is negative"),
    "collective-permute-start from one source twice": (
        lambda b, p: b.collective_permute_start(p("f32[2]"), [(0, 1), (0, 2)]), "bad-value",
        "collective-permute-start: device 0 is the source of several pairs"),
    "collective-permute in place of an array": (
        lambda b, p: b.collective_permute(p("f32[2]"), [(0, 1)], inplace=True), "type-mismatch",
        "collective_permute: parameter has shape f32[2], a tuple is needed"),
    "ragged-all-to-all by offsets of rank 3": (
        _exchange("s32[1,1,1]"), "shape-mismatch", "ragged-all-to-all: operand 2"),
    "ragged-all-to-all by floats": (
        _exchange("f32[1]"), "type-mismatch", "an integer type is needed"),
    "ragged-all-to-all into another type": (
        _exchange("s32[1]", "f16[5,2]"), "shape-mismatch", "differ beyond the first dimension"),
    "ragged-all-to-all into other rows": (
        _exchange("s32[1]", "f32[5,3]"), "shape-mismatch", "differ beyond the first dimension"),
    # --- element by element
    "a tuple added": (
        lambda b, p: b.add(p("(f32[3])"), p("(f32[3])")), "type-mismatch",
        "add: parameter has shape (f32[3]), an array is needed"),
    "two types added": (
        lambda b, p: b.add(p("f32[2]"), p("s32[2]")), "type-mismatch",
        "add: operands 0 and 1 differ in element type: f32, s32"),
    "two ranks by total order": (
        lambda b, p: b.eq_total_order(p("f32[2,3]"), p("f32[3]")), "shape-mismatch",
        "compare: f32[3] and f32[2,3] differ in rank"),
    "complex numbers by total order": (
        lambda b, p: b.lt_total_order(p("c64[2]"), p("c64[2]")), "bad-value", "have no order"),
    "is-finite of integers": (
        lambda b, p: b.is_finite(p("s32[2]")), "type-mismatch",
        "is-finite: operand 0 has element type s32, floating-point is needed"),
    "popcnt of floats": (
        lambda b, p: b.population_count(p("f32[2]")), "type-mismatch", "integer is needed"),
    "complement of floats": (
        lambda b, p: b.not_(p("f32[2]")), "type-mismatch", "not: operand 0"),
    "shift of floats": (
        lambda b, p: p("f32[2]") >> 1, "type-mismatch", "shift-right-arithmetic: operand 0"),
    "accuracy in words": (
        lambda b, p: b.exp(p("f32[2]"), result_accuracy="fine"), "bad-value",
        "exponential: result_accuracy is 'fine'"),
    "accuracy below none": (
        lambda b, p: b.tan(p("f32[2]"), ResultAccuracy(False, rtol=-1.0)), "bad-value",
        "tan: result_accuracy has rtol -1.0, at least 0 is needed"),
    "reduce-precision of integers": (
        lambda b, p: b.reduce_precision(p("s32[2]"), 5, 10), "type-mismatch", "floating-point"),
    "bitcast of a scalar to a wider type": (
        lambda b, p: b.bitcast_convert_type(p("f16[]"), "f32"), "shape-mismatch",
        "bitcast-convert: f16[] to f32"),
    "convert of a tuple": (
        lambda b, p: b.convert_element_type(p("(f32[])"), "s32"), "type-mismatch", "convert"),
    "select between two types": (
        lambda b, p: b.select(p("pred[2]"), p("f32[2]"), p("s32[2]")), "type-mismatch",
        "select: operands 1 and 2"),
    "select by another rank": (
        lambda b, p: b.select(p("pred[2]"), p("f32[2,2]"), p("f32[2,2]")), "shape-mismatch",
        "select: operands 1 and 0"),
    "select between a tuple and an array": (
        lambda b, p: b.select(p("pred[]"), p("(f32[2])"), p("f32[2]")), "shape-mismatch",
        "select: on_true has shape (f32[2]), on_false f32[2]"),
    # --- calls
    "call with another type": (
        lambda b, p: b.call(b_computation(b, "f32[2]"), [p("f32[3]")]), "bad-computation",
        "call: to_apply same: parameter 0 has shape f32[2], f32[3] is passed"),
    "call of a function of another number": (
        lambda b, p: b.call(lambda x: x, [p("f32[3]"), p("f32[3]")]), "bad-computation",
        "call: callee is a function of (x), 2 values are passed: (f32[3], f32[3])"),
    "composite of no name": (
        lambda b, p: b.composite_call(lambda x: x, [p("f32[]")], ""), "missing-attribute",
        "call: a composite needs composite.name"),
    "composite of no attributes": (
        lambda b, p: b.composite_call(lambda x: x, [p("f32[]")], "foo.bar", ""), "bad-value",
        "call: composite.attributes is empty"),
    "composite of a negative version": (
        lambda b, p: b.composite_call(lambda x: x, [p("f32[]")], "foo.bar", version=-1),
        "bad-value", "call: composite.version is '-1'"),
    "conditional without a branch": (
        lambda b, p: b.conditional(p("s32[]"), [], []), "bad-value", "at least one branch"),
    "conditional by an s64": (
        lambda b, p: b.conditional(p("s64[]"), [lambda x: x], [p("f32[]")]), "type-mismatch",
        "conditional: operand 0 has shape s64[]"),
    "conditional by several predicates": (
        lambda b, p: b.conditional(
            p("pred[1]"), p("f32[]"), lambda x: x, p("f32[]"), lambda x: x),
        "type-mismatch", "conditional: operand 0 has shape pred[1]"),
    "conditional on two arguments": (
        lambda b, p: b.conditional(p("s32[]"), [b_pair(b)], [p("f32[]")]), "bad-computation",
        "conditional: branch_computations pair takes 2 parameters, 1 are passed"),
    "custom-call in place of nothing": (
        lambda b, p: b.custom_call("f", [p("f32[2]")], "f32[2]", output_operand_aliasing=[0]),  # type: ignore[list-item]
        "type-mismatch", "custom_call: output_operand_aliasing is [0]"),
    "custom-call in no version": (
        lambda b, p: b.custom_call("f", [p("f32[2]")], "f32[2]", api_version="NEW"), "bad-value",
        "custom-call: api_version is 'NEW'"),
    "map to no scalar": (
        lambda b, p: b.map_(p("f32[2]"), lambda x: x.builder.broadcast(x, (2,))),
        "bad-computation", "map: to_apply lambda returns f32[2], a scalar is needed"),
    "map over some dimensions": (
        lambda b, p: b.map_(p("f32[2,3]"), lambda x: x, (0,)), "bad-dimension",
        "map: dimensions={0}, all 2 in order are needed"),
    "while by several conditions": (
        lambda b, p: b.while_(lambda s: s < 3, lambda s: s, p("s32[2]")), "bad-computation",
        "while: condition lambda returns pred[2], pred[] is needed"),
    "while on two values": (
        lambda b, p: b.while_(b_pair(b), lambda s: s, p("f32[]")), "bad-computation",
        "while: condition pair takes 2 parameters, 1 are passed"),
    # --- products
    "convolution in groups of no size": (
        _conv("f32[1,6,5]", "f32[4,2,2]", feature_group_count=0), "bad-value",
        "convolution: feature_group_count is 0"),
    "convolution of output features in groups": (
        _conv("f32[1,6,5]", "f32[4,2,2]", feature_group_count=3), "shape-mismatch",
        "output features, 4, is not a multiple of feature_group_count, 3"),
    "convolution of input features in groups": (
        _conv("f32[1,6,5]", "f32[4,6,2]", feature_group_count=2), "shape-mismatch",
        "6 features in 2 groups"),
    "convolution of batches in groups": (
        _conv("f32[5,6,5]", "f32[4,6,2]", batch_group_count=2), "shape-mismatch",
        "is not a multiple of batch_group_count, 2"),
    "convolution of output features in groups of batches": (
        _conv("f32[4,6,5]", "f32[3,6,2]", batch_group_count=2), "shape-mismatch",
        "output features, 3, is not a multiple of batch_group_count, 2"),
    "convolution in groups of both": (
        _conv("f32[4,6,5]", "f32[4,3,2]", feature_group_count=2, batch_group_count=2),
        "bad-value", "are both greater than 1"),
    "convolution with holes of no size": (
        lambda b, p: b.conv_general_dilated(
            p("f32[4,6,5]"), p("f32[4,6,2]"), (1,), "VALID", (0,), (1,), "bf0_oi0->bf0"),
        "bad-value", "lhs_dilate=0"),
    "convolution of a vector": (
        lambda b, p: b.conv(p("f32[4]"), p("f32[4]"), (), "VALID"), "shape-mismatch",
        "convolution: operand 0 has shape f32[4]"),
    "convolution of three precisions": (
        _conv("f32[1,2,5]", "f32[3,2,2]", precision_config=["high"] * 3), "bad-value",
        "3 precisions for 2 operands"),
    "convolution turned in too many dimensions": (
        lambda b, p: b.conv_general_dilated(
            p("f32[4,6,5]"), p("f32[4,6,2]"), (1,), "VALID", (1,), (1,), "bf0_oi0->bf0",
            window_reversal=[True, False]),
        "bad-dimension", "convolution: window_reversal has 2 elements, 1 are needed"),
    "dot-general of unpaired dimensions": (
        lambda b, p: b.dot_general(p("f32[2,3]"), p("f32[3,2]"), DotDimensionNumbers((1,), ())),
        "bad-dimension", "dot: lhs has 1 contracting dimensions, rhs 0"),
    "dot-general of one dimension twice": (
        lambda b, p: b.dot_general(
            p("f32[2,3]"), p("f32[2,3]"), DotDimensionNumbers((1,), (1,), (1,), (1,))),
        "bad-dimension", "a second time"),
    "dot-general outside the dimensions": (
        lambda b, p: b.dot_general(p("f32[2,3]"), p("f32[3,2]"), DotDimensionNumbers((2,), (0,))),
        "bad-dimension", "dot: lhs_contracting_dims names dimension 2, outside [0, 2)"),
    "scaled-dot by scales of no blocks": (
        lambda b, p: b.scaled_dot(
            p("f32[2,4]"), p("f32[2,3]"), p("f32[4,3]"), p("f32[2,3]"), _EACH),
        "shape-mismatch", "scaled-dot: lhs scale f32[2,3] does not divide lhs f32[2,4]"),
    "ragged-dot of no group dimension": (
        _ragged("s32[2]", (0,), ()), "bad-dimension", "rhs_group_dims has to name 1 dimensions"),
    "ragged-dot of other groups": (
        _ragged("s32[3]", (0,), (0,)), "shape-mismatch", "there are 3 group sizes"),
    "ragged-dot of groups of broken size": (
        _ragged("f32[2]", (0,), (0,)), "type-mismatch", "an integer type is needed"),
    # --- transforms and solvers
    "fft of more dimensions than there are": (
        lambda b, p: b.fft(p("c64[4]"), "FFT", (4, 4)), "shape-mismatch",
        "fft: fft_length has 2 dimensions"),
    "fft of no dimension": (
        lambda b, p: b.fft(p("c64[4]"), "FFT", ()), "bad-value", "1 to 3 are supported"),
    "fft of another length": (
        lambda b, p: b.fft(p("c64[4]"), "IFFT", (3,)), "shape-mismatch",
        "IFFT with fft_length {3} needs 3"),
    "rfft of complex numbers": (
        lambda b, p: b.fft(p("c64[4]"), "RFFT", (4,)), "type-mismatch", "f32 or f64 is needed"),
    "irfft to a length of other bins": (
        lambda b, p: b.fft(p("c64[9]"), "IRFFT", (18,)), "shape-mismatch",
        "IRFFT with fft_length {18} needs 10"),
    "cholesky of integers": (
        lambda b, p: b.cholesky(p("s32[3,3]"), True), "type-mismatch", "cholesky"),
    "cholesky of a vector": (
        lambda b, p: b.cholesky(p("f32[3]"), True), "shape-mismatch", "square matrices"),
    "triangular-solve of two types": (
        lambda b, p: b.triangular_solve(p("f32[3,3]"), p("f64[3,1]"), True, True, False),
        "type-mismatch", "triangular-solve: operands 0 and 1"),
    "triangular-solve of two ranks": (
        lambda b, p: b.triangular_solve(p("f32[3,3]"), p("f32[3]"), True, True, False),
        "shape-mismatch", "triangular-solve: operands differ in rank"),
    "triangular-solve by no operator": (
        lambda b, p: b.triangular_solve(p("f32[3,3]"), p("f32[3,1]"), True, True, False, "FLIP"),
        "bad-value", "transpose_a is 'FLIP'"),
    # --- by index
    "gather by a dimension beyond the last": (
        _gather((2,), (0,), (0,), 3), "bad-dimension", "gather: index_vector_dim is 3"),
    "gather of too large slices": (
        _gather((1, 2), (), (0, 1), 1, sizes=(17, 6)), "bad-value",
        "gather: slice_sizes has 17 for dimension 0, outside [0, 16]"),
    "gather to unordered dimensions": (
        _gather((2, 1), (), (0, 1), 1), "bad-dimension", "gather: offset_dims is not ascending"),
    "gather to one dimension twice": (
        _gather((1, 1), (), (0, 1), 1), "bad-dimension", "offset_dims names a dimension twice"),
    "gather outside its dimensions": (
        _gather((1, 3), (), (0, 1), 1), "bad-dimension", "outside [0, 3)"),
    "gather of unordered collapsed dimensions": (
        _gather((), (1, 0), (0, 1), 1, sizes=(1, 1)), "bad-dimension",
        "collapsed_slice_dims is not ascending"),
    "gather by one index for two": (
        _gather((1, 2), (), (0, 0), 1), "bad-dimension", "start_index_map names a dimension twice"),
    "gather by an index of no dimension": (
        _gather((1, 2), (), (0, 2), 1), "bad-dimension", "gather: start_index_map"),
    "gather by floats": (
        _gather((1, 2), (), (0, 1), 1, indices="f32[5,2]"), "type-mismatch",
        "gather: operand 1 has element type f32"),
    "scatter of other arrays than updates": (
        lambda b, p: b.scatter(
            [p("f32[6]"), p("s32[6]")], p("s32[1,1]"), [p("f32[1]")], plus,
            ScatterDimensionNumbers((), (0,), (0,), 1)),
        "operand-count", "scatter: 2 operands and 1 updates"),
    "scatter into arrays of other dimensions": (
        lambda b, p: b.scatter(
            [p("f32[6]"), p("s32[7]")], p("s32[1,1]"), [p("f32[1]"), p("s32[1]")], _pair,
            ScatterDimensionNumbers((), (0,), (0,), 1)),
        "shape-mismatch", "scatter: operands 1 and 0 need equal dimensions"),
    "scatter of updates of other dimensions": (
        lambda b, p: b.scatter(
            [p("f32[6]"), p("s32[6]")], p("s32[1,1]"), [p("f32[1]"), p("s32[2]")], _pair,
            ScatterDimensionNumbers((), (0,), (0,), 1)),
        "shape-mismatch", "scatter: operands 4 and 3 need equal dimensions"),
    "scatter into unordered inserted dimensions": (
        _scatter((), (1, 0), (0, 1), 1), "bad-dimension", "inserted_window_dims is not ascending"),
    "scatter into no inserted dimension": (
        _scatter((), (0, 2), (0, 1), 1), "bad-dimension", "inserted_window_dims names dimension 2"),
    "scatter from no window dimension": (
        _scatter((2,), (0,), (0, 1), 1, updates="f32[4,5]"), "bad-dimension",
        "update_window_dims names dimension 2, outside [0, 2)"),
    "scatter to one dimension twice": (
        _scatter((), (0, 1), (0, 0), 1), "bad-dimension",
        "scatter_dims_to_operand_dims names a dimension twice"),
    "scatter to fewer dimensions than indices": (
        _scatter((), (0, 1), (0,), 1), "shape-mismatch",
        "scatter: scatter_dims_to_operand_dims has 1 elements"),
    "scatter by a dimension beyond the last": (
        _scatter((), (0, 1), (0, 1), 3), "bad-dimension", "scatter: index_vector_dim is 3"),
    "scatter by floats": (
        _scatter((), (0, 1), (0, 1), 1, indices="f32[4,2]"), "type-mismatch",
        "an integer type is needed"),
    "dynamic-slice by floats": (
        lambda b, p: b.dynamic_slice(p("f32[4]"), [p("f32[]")], (1,)), "type-mismatch",
        "dynamic-slice: operand 1"),
    "dynamic-slice by indices of two types": (
        lambda b, p: b.dynamic_slice(p("f32[4,4]"), [p("s32[]"), p("s64[]")], (1, 1)),
        "type-mismatch", "operands 1 and 2 differ in element type"),
    "dynamic-update-slice of another rank": (
        lambda b, p: b.dynamic_update_slice(p("f32[4,4]"), p("f32[2]"), [0, 0]),
        "shape-mismatch", "rank 2 is needed"),
    "dynamic-update-slice of another type": (
        lambda b, p: b.dynamic_update_slice(p("f32[4]"), p("s32[2]"), [0]), "type-mismatch",
        "dynamic-update-slice: operands 0 and 1"),
    "slice by no stride": (
        lambda b, p: b.slice_(p("f32[4]"), (0,), (4,), (0,)), "bad-value", "stride 0"),
    "pad with a vector": (
        lambda b, p: b.pad(p("f32[2]"), p("f32[1]"), [(0, 0)]), "shape-mismatch", "rank 0"),
    "pad to less than nothing": (
        lambda b, p: b.pad(p("f32[2]"), 0.0, [(-3, 0)]), "bad-value",
        "pad: dimension 0 of size 2 becomes -1 long"),
    "reverse of a dimension twice": (
        lambda b, p: b.rev(p("f32[2,3]"), (0, 0)), "bad-dimension", "reverse: dimensions names"),
    "concatenate of two types": (
        lambda b, p: b.concat_in_dim([p("f32[2]"), p("s32[2]")], 0), "type-mismatch",
        "concatenate: operands 0 and 1"),
    "concatenate of two ranks": (
        lambda b, p: b.concat_in_dim([p("f32[2]"), p("f32[2,1]")], 0), "shape-mismatch",
        "concatenate: operands 0 and 1"),
    "broadcast of two dimensions to one": (
        lambda b, p: b.broadcast_in_dim(p("f32[2,2]"), (2, 3), (0, 0)), "bad-dimension",
        "broadcast_in_dim: broadcast_dimensions names dimension 0 twice"),
    "bitcast of complex numbers to real ones": (
        lambda b, p: b.bitcast_convert_type(p("c64[2]"), "f32"), "type-mismatch",
        "bitcast-convert: c64 to f32"),
    "fft of halves": (
        lambda b, p: b.fft(p("f16[4]"), "RFFT", (4,)), "type-mismatch", "f32 or f64 is needed"),
    "reshape to another type": (
        lambda b, p: b.reshape("s32[2,3]", p("f32[6]")), "type-mismatch", "reshape"),
    "sort by a comparison of fewer": (
        lambda b, p: b.sort([p("f32[3]"), p("f32[3]")], b_pair(b)), "bad-computation",
        "sort: to_apply pair takes 2 parameters, 4 are passed"),
    "top-k of a scalar": (
        lambda b, p: b.top_k(p("f32[]"), 1), "shape-mismatch", "topk: operand 0 has shape f32[]"),
    "top-k of a negative number": (
        lambda b, p: b.top_k(p("f32[3]"), -1), "bad-value", "topk: k=-1"),
    "top-k by a comparator of more than there are": (
        lambda b, p: b.top_k(p("f32[3]"), 4, comparator=at_least), "bad-value", "topk: k is 4"),
    "top-k by a comparator of a scalar": (
        lambda b, p: b.top_k(p("f32[]"), 1, comparator=at_least), "bad-value", "topk: k is 1"),
    # --- reductions
    "reduce of a dimension twice": (
        lambda b, p: b.reduce(p("f32[2,3]"), 0.0, plus, (0, 0)), "bad-dimension",
        "reduce: dimensions names a dimension twice"),
    "reduce from a vector": (
        lambda b, p: b.reduce(p("f32[2,3]"), p("f32[2]"), plus, (0,)), "shape-mismatch",
        "reduce: operand 1 has shape f32[2], a scalar is needed"),
    "reduce from another type": (
        lambda b, p: b.reduce(p("f32[2,3]"), p("s32[]"), plus, (0,)), "type-mismatch",
        "reduce: initial value 0 has element type s32, operand 0 has f32"),
    "reduce of two to one": (
        lambda b, p: b.reduce([p("f32[2]"), p("s32[2]")], [0.0, 0], lambda a, *_: a, (0,)),
        "bad-computation", "reduce: to_apply lambda returns f32[], 2 values are reduced"),
    "reduce-window of arrays of other dimensions": (
        lambda b, p: b.reduce_window([p("f32[4]"), p("s32[5]")], [0.0, 0], _pair, (2,)),
        "shape-mismatch", "reduce-window: operands 0 and 1 differ in dimensions"),
    "reduce-window in windows of nothing": (
        lambda b, p: b.reduce_window(p("f32[4]"), 0.0, plus, (0,)), "bad-value", "size=0"),
    "reduce-window with holes of no size": (
        lambda b, p: b.reduce_window(p("f32[4]"), 0.0, plus, (2,), (1,), "SAME", (0,)),
        "bad-value", "lhs_dilate=0"),
    "select-and-scatter of another type": (
        lambda b, p: b.select_and_scatter(
            p("f32[4]"), at_least, (2,), (2,), "VALID", p("s32[2]"), 0.0, plus),
        "type-mismatch", "select-and-scatter: source has element type s32, operand has f32"),
    "batch-norm of integers": (
        lambda b, p: b.batch_norm_training(p("s32[2,3]"), p("s32[3]"), p("s32[3]"), 0.1, 1),
        "type-mismatch", "batch-norm-training: operand 0"),
    "batch-norm along a negative dimension": (
        lambda b, p: b.batch_norm_training(p("f32[2,3]"), p("f32[3]"), p("f32[3]"), 0.1, -1),
        "bad-dimension", "feature_index=-1"),
    "batch-norm by other means": (
        lambda b, p: b.batch_norm_inference(
            p("f32[2,3]"), p("f32[3]"), p("f32[3]"), p("f32[2]"), p("f32[3]"), 0.1, 1),
        "shape-mismatch", "batch-norm-inference: mean and features"),
    "batch-norm of other gradients": (
        lambda b, p: b.batch_norm_grad(
            p("f32[2,3]"), p("f32[3]"), p("f32[3]"), p("f32[3]"), p("f32[3,2]"), 0.1, 1),
        "shape-mismatch", "batch-norm-grad: grad_output and operand"),
    # --- data
    "iota of truth": (
        lambda b, p: b.iota("pred[3]", 0), "type-mismatch", "iota: the result pred[3]"),
    "iota of a scalar": (lambda b, p: b.iota("s32[]", 0), "bad-dimension", "iota_dimension 0"),
    "rng-uniform of complex numbers": (
        lambda b, p: b.rng_uniform(p("c64[]"), p("c64[]"), "c64[3]"), "type-mismatch", "rng"),
    "rng-bit-generator from a narrow state": (
        lambda b, p: b.rng_bit_generator("rng_three_fry", p("u32[4]"), "u32[3]"), "type-mismatch",
        "rng-bit-generator: operand 0 has element type u32"),
    "get-tuple-element from the end": (
        lambda b, p: b.get_tuple_element(p("(f32[2])"), -1), "index-out-of-range", "index -1"),
    "get-tuple-element of an array": (
        lambda b, p: b.get_tuple_element(p("f32[2]"), 0), "type-mismatch", "a tuple is needed"),
    "set-dimension-size to several": (
        lambda b, p: b.set_dimension_size(p("f32[3]"), p("s32[1]"), 0), "shape-mismatch",
        "set-dimension-size: operand 1 has shape s32[1]"),
    "dynamic-reshape by too few sizes": (
        lambda b, p: b.dynamic_reshape(p("f32[6]"), [2], (2, 3), (True, False)), "operand-count",
        "dynamic-reshape: 1 sizes for a result of rank 2"),
    "infeed after no token": (
        lambda b, p: b.infeed_with_token(p("f32[]"), "f32[2]"), "type-mismatch",
        "infeed: operand 0 has shape f32[], token[] is needed"),
    "outfeed in another shape": (
        lambda b, p: b.outfeed(p("f32[2,3]"), "f32[3,2]"), "shape-mismatch", "outfeed"),
}  # fmt: skip


def b_pair(b: XlaBuilder) -> Any:
    """Return a comparison of two scalars, built."""
    inner = b.create_sub_builder("pair")
    return inner.build(inner.parameter(0, "f32[]") < inner.parameter(1, "f32[]"))


def _parameters(b: XlaBuilder) -> Callable[[str], XlaOp]:
    numbers = iter(range(10))
    return lambda shape: b.parameter(next(numbers), shape)


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_is_named(name: str) -> None:
    program, code, words = RULES[name]
    b = XlaBuilder("broken")
    with pytest.raises(hlo.HloError) as e:
        program(b, _parameters(b))
    assert e.value.code == code, str(e.value)
    assert words in str(e.value), str(e.value)
    assert str(e.value).startswith(__file__)


# What is asked of a builder, rather than appended, is answered at once.
_QUERIES = {
    "the truth of a value", "a value of another builder", "dimension numbers in conflict",
    "the value of a parameter", "the value of what the host says",
    "the value of what the device is", "the value in a layout of another rank",
    "a gap in the parameters", "nothing to build",
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in {**OTHERS, **RULES} if n not in _QUERIES])
def test_a_broken_rule_can_wait_for_build(name: str) -> None:
    program, code, words = {**OTHERS, **RULES}[name]
    b = XlaBuilder("deferred")
    b.set_die_immediately_on_error(False)
    program(b, _parameters(b))
    with pytest.raises(hlo.HloError) as e:
        b.build()
    assert [d.code for d in e.value.diagnostics] == [code]
    assert words in str(e.value)
