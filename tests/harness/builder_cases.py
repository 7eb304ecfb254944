"""A program for every method of the builder: `lambda b, p: ...` with `p(shape)` a new parameter.

Keys are the method's name, with a variant after a colon. `CASES` are compared with XLA:CPU, which
cannot run `NOT_RUN`; why is said there, and what they compute is compared elsewhere or by numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo.frontends.builder import (
    ConvDims,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    RaggedDotDimensionNumbers,
    ScatterDimensionNumbers,
    XlaBuilder,
    XlaOp,
)
from hlo.values.literal import Literal
from hlo.values.types import Layout

Case = Callable[[XlaBuilder, Callable[[str], XlaOp]], XlaOp]

CASES: dict[str, Case] = {}


def plus(a: XlaOp, b: XlaOp) -> XlaOp:
    return a + b


def largest(a: XlaOp, b: XlaOp) -> XlaOp:
    return a.builder.max_(a, b)


def at_least(a: XlaOp, b: XlaOp) -> XlaOp:
    return a >= b


def method(name: str) -> Callable[..., XlaOp]:
    """Return a method by its name as a function of builder and arguments."""
    return lambda b, *args, **kwargs: getattr(b, name)(*args, **kwargs)


def _unary(name: str, shape: str) -> Case:
    return lambda b, p: method(name)(b, p(shape))


def _binary(name: str, shape: str, other: str, dims: tuple[int, ...]) -> Case:
    return lambda b, p: method(name)(b, p(shape), p(other), dims)


# --- elementwise --------------------------------------------------------------------------------

_FLOAT = """ceil cbrt cos erf exp expm1 floor is_finite log log1p logistic round_ round_nearest_afz
round_nearest_even rsqrt sin sqrt sqrt_f32 square_f32 reciprocal_f32 tan tanh abs_ neg sign real
imag""".split()
for _name in _FLOAT:
    CASES[_name] = _unary(_name, "f32[2,3]")
for _name in ("clz", "not_", "population_count"):
    CASES[_name] = _unary(_name, "u16[5]")
CASES["logical_not"] = _unary("logical_not", "pred[4]")
CASES["abs_:s32"] = _unary("abs_", "s32[5]")
CASES["sign:c64"] = _unary("sign", "c64[3]")
CASES["imag:c64"] = _unary("imag", "c64[3]")
CASES["real:c64"] = _unary("real", "c64[3]")
CASES["exp:accuracy"] = lambda b, p: b.exp(p("f32[3]"), result_accuracy=None)

for _name in ("add", "atan2", "complex_", "div", "max_", "min_", "mul", "pow_", "rem", "sub"):
    CASES[_name] = _binary(_name, "f32[2,3]", "f32[3]", (1,))
for _name in ("and_", "or_", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical"):
    CASES[_name] = _binary(_name, "s32[2,1]", "s32[2,3]", ())
for _name in ("logical_and", "logical_or"):
    CASES[_name] = _binary(_name, "pred[4]", "pred[]", ())
for _name in ("eq", "ne", "ge", "gt", "le", "lt"):
    CASES[_name] = _binary(_name, "f32[4]", "f32[4,3]", (0,))
    CASES[_name + "_total_order"] = _binary(_name + "_total_order", "f32[4,1]", "f32[1,3]", ())
CASES["lt_total_order:s32"] = _binary("lt_total_order", "s32[4]", "s32[]", ())
CASES["compare"] = lambda b, p: b.compare(p("u8[4]"), 3, direction="GE")
CASES["div:s32"] = _binary("div", "s32[6]", "s32[6]", ())
CASES["rem:s32"] = _binary("rem", "s32[6]", "s32[6]", ())
CASES["clamp"] = lambda b, p: b.clamp(-0.5, p("f32[5]"), p("f32[]"))
CASES["clamp:arrays"] = lambda b, p: b.clamp(p("s8[4]"), p("s8[4]"), p("s8[4]"))
CASES["select"] = lambda b, p: b.select(p("pred[4]"), p("s32[4]"), 7)
CASES["select:tuple"] = lambda b, p: b.select(
    p("pred[]"), b.tuple_([p("f32[2]"), p("s8[]")]), b.tuple_([p("f32[2]"), p("s8[]")])
)
CASES["convert_element_type"] = lambda b, p: b.convert_element_type(p("s32[3]"), "bf16")
CASES["bitcast_convert_type"] = lambda b, p: b.bitcast_convert_type(p("f32[3]"), np.uint8)
CASES["reduce_precision"] = lambda b, p: b.reduce_precision(p("f32[3]"), 5, 10)

# --- data ---------------------------------------------------------------------------------------

CASES["parameter"] = lambda b, p: p("(f32[2], s32[])")[0]
CASES["constant"] = lambda b, p: b.constant([[1, 2], [3, 4]], "bf16")
CASES["constant_literal"] = lambda b, p: b.constant_literal(Literal.of(np.uint8([1, 2])))
CASES["constant_r0"] = lambda b, p: b.constant_r0(3)
CASES["constant_r1"] = lambda b, p: b.constant_r1([1.0, 2.5])
CASES["constant_r1:length"] = lambda b, p: b.constant_r1(4, 1.5)
CASES["constant_r2"] = lambda b, p: b.constant_r2([[True], [False]])
CASES["constant_r2_from_array2d"] = lambda b, p: b.constant_r2_from_array2d(np.eye(2))
CASES["constant_r3_from_array3d"] = lambda b, p: b.constant_r3_from_array3d(np.ones((1, 2, 3)))
CASES["constant_r4_from_array4d"] = lambda b, p: b.constant_r4_from_array4d(np.ones((1, 1, 1, 2)))
CASES["iota"] = lambda b, p: b.iota("s32[4,8]", 1)
CASES["rng_bit_generator"] = lambda b, p: b.rng_bit_generator(
    "rng_three_fry", p("u64[2]"), "u32[5]"
)
CASES["get_dimension_size"] = lambda b, p: b.get_dimension_size(p("f32[3,5]"), 1)

# --- movement -----------------------------------------------------------------------------------

CASES["broadcast"] = lambda b, p: b.broadcast(p("f32[3]"), (2, 4))
CASES["broadcast_in_dim"] = lambda b, p: b.broadcast_in_dim(p("f32[3,1]"), (2, 3, 4), (1, 2))
CASES["reshape"] = lambda b, p: b.reshape(p("f32[4,2,3]"), (8, 3))
CASES["reshape:by-name"] = lambda b, p: b.reshape(p("f32[4,2]"), new_sizes=(8,))
CASES["reshape:order"] = lambda b, p: b.reshape(p("f32[4,2,3]"), (1, 2, 0), (2, 6, 2))
CASES["reshape:shape"] = lambda b, p: b.reshape("f32[3,8]", p("f32[4,2,3]"))
CASES["collapse"] = lambda b, p: b.collapse(p("f32[4,2,3]"), (1, 2))
CASES["transpose"] = lambda b, p: b.transpose(p("f32[4,2,3]"), (2, 0, 1))
CASES["transpose:reversed"] = lambda b, p: b.transpose(p("f32[4,2,3]"))
CASES["trans"] = lambda b, p: b.trans(p("f32[4,2]"))
CASES["rev"] = lambda b, p: b.rev(p("f32[4,2,3]"), (0, 2))
CASES["copy"] = lambda b, p: b.copy(p("f32[4,2]"), Layout((0, 1)))
CASES["slice_"] = lambda b, p: b.slice_(p("f32[4,7]"), (1, 0), (4, 7), (1, 3))
CASES["check_shape"] = lambda b, p: b.check_shape(p("f32[4,7]"), "f32[4,7]")
CASES["index"] = lambda b, p: p("f32[4,7,2]")[-1, 1::2]
CASES["index:ellipsis"] = lambda b, p: p("f32[4,7,2]")[..., 1]
CASES["pad"] = lambda b, p: b.pad(p("f32[2,3]"), 0.5, [(1, -1), (2, 0, 1)])
CASES["concat_in_dim"] = lambda b, p: b.concat_in_dim([p("f32[2,3]"), p("f32[4,3]")], 0)
CASES["concatenate"] = lambda b, p: b.concatenate([p("s8[2]"), p("s8[0]")], 0)
CASES["dynamic_slice"] = lambda b, p: b.dynamic_slice(p("f32[4,5]"), [p("s32[]"), 1], (2, 3))
CASES["dynamic_slice:vector"] = lambda b, p: b.dynamic_slice(p("f32[4,5]"), p("s32[2]"), (2, 3))
CASES["dynamic_update_slice"] = lambda b, p: b.dynamic_update_slice(
    p("f32[4,5]"), p("f32[2,2]"), [p("s32[]"), p("s32[]")]
)
CASES["gather"] = lambda b, p: b.gather(
    p("f32[16,11]"), p("s32[5,2]"), GatherDimensionNumbers((1, 2), (), (0, 1), 1), (8, 6)
)
CASES["gather:batching"] = lambda b, p: b.gather(
    p("f32[2,6]"), p("s32[2,3]"), GatherDimensionNumbers((), (1,), (1,), 2, (0,), (0,)), (1, 1)
)
CASES["scatter"] = lambda b, p: b.scatter(
    p("f32[6,3]"), p("s32[4,1]"), p("f32[4,3]"), plus, ScatterDimensionNumbers((1,), (0,), (0,), 1)
)
CASES["scatter:two"] = lambda b, p: b.scatter(
    [p("f32[6]"), p("s32[6]")], p("s32[1,1]"), [p("f32[1]"), p("s32[1]")],
    lambda a, i, x, j: a.builder.tuple_([a + x, j]), ScatterDimensionNumbers((), (0,), (0,), 1),
)  # fmt: skip
CASES["sort"] = lambda b, p: b.sort(p("f32[3,5]"))
CASES["sort:two"] = lambda b, p: b.sort(
    [p("s32[7]"), p("f32[7]")], lambda a, c, *_: a > c, 0, is_stable=True
)
CASES["top_k"] = lambda b, p: b.top_k(p("f32[2,7]"), 3)
CASES["top_k:comparator"] = lambda b, p: b.top_k(p("f32[2,7]"), 3, comparator=lambda x, y: x < y)

# --- products -----------------------------------------------------------------------------------

CASES["dot"] = lambda b, p: b.dot(p("f32[2,3]"), p("f32[3,4]"))
CASES["dot:vectors"] = lambda b, p: p("s32[3]") @ p("s32[3]")
CASES["dot:scalars"] = lambda b, p: b.dot(p("f32[]"), p("f32[]"))
CASES["dot:arrays"] = lambda b, p: b.dot(p("s32[2,3,4]"), p("s32[5,4,2]"))
CASES["dot_general"] = lambda b, p: b.dot_general(
    p("bf16[5,2,3]"), p("bf16[5,4,3]"), DotDimensionNumbers((2,), (2,), (0,), (0,)),
    "highest", "f32",
)  # fmt: skip
CASES["conv"] = lambda b, p: b.conv(p("f32[1,2,5,5]"), p("f32[3,2,2,2]"), (2, 1), "SAME")
CASES["conv_with_general_padding"] = lambda b, p: b.conv_with_general_padding(
    p("f32[1,2,5]"), p("f32[3,2,2]"), (2,), [(1, -1)]
)
CASES["conv_with_general_padding:dilated"] = lambda b, p: b.conv_with_general_padding(
    p("f32[1,2,5]"), p("f32[3,2,2]"), (2,), [(1, 1)], lhs_dilation=(3,), rhs_dilation=(2,)
)
CASES["conv_with_general_dimensions"] = lambda b, p: b.conv_with_general_dimensions(
    p("f32[1,5,5,2]"), p("f32[2,2,2,3]"), (1, 1), "VALID", "b01f_01io->b01f"
)
CASES["conv_general"] = lambda b, p: b.conv_general(
    p("f32[1,5,5,2]"), p("f32[2,2,2,3]"), (1, 1), [(0, 1), (2, 0)],
    ConvDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2)),
)  # fmt: skip
CASES["conv_general_dilated"] = lambda b, p: b.conv_general_dilated(
    p("f32[1,5,4]"), p("f32[2,2,4]"), (1,), [(1, 1)], (2,), (2,), "b0f_0io->b0f",
    feature_group_count=2, window_reversal=[True],
)  # fmt: skip
CASES["fft"] = lambda b, p: b.fft(p("f32[2,8]"), "RFFT", (8,))
CASES["cholesky"] = lambda b, p: b.cholesky(
    (lambda x: x @ b.trans(x) + b.constant(np.eye(3, dtype=np.float32)))(p("f32[3,3]")), True
)
CASES["triangular_solve"] = lambda b, p: b.triangular_solve(
    p("f32[3,3]") * 0.1 + 1.0, p("f32[3,2]"), True, True, True, "TRANSPOSE"
)

# --- reductions ---------------------------------------------------------------------------------

CASES["reduce"] = lambda b, p: b.reduce(p("s32[4,2,3]"), 0, plus, (0, 2))
CASES["reduce_all"] = lambda b, p: b.reduce_all(p("s32[4,2,3]"), 0, plus)
CASES["map_"] = lambda b, p: b.map_([p("f32[2,3]"), p("f32[2,3]")], lambda x, y: x * y - x)
CASES["map_:static"] = lambda b, p: b.map_(
    p("f32[4]"), lambda x, s: x - s, static_operands=[p("f32[]")]
)
CASES["map_:static third"] = lambda b, p: b.map_([p("f32[4]")], lambda x, s: x - s, [p("f32[]")])
CASES["reduce_window"] = lambda b, p: b.reduce_window(
    p("f32[4,6]"), -np.inf, largest, (2, 3), (2, 3), "VALID"
)
CASES["reduce_window:same"] = lambda b, p: b.reduce_window(p("s32[7]"), 0, plus, (4,), (2,), "SAME")
CASES["reduce_window_with_general_padding"] = lambda b, p: b.reduce_window_with_general_padding(
    p("s32[3,2]"), 0, plus, (2, 1), (4, 1), [(2, 1), (0, 0)], (2, 1), (3, 1)
)
CASES["select_and_scatter"] = lambda b, p: b.select_and_scatter(
    p("f32[4,6]"), at_least, (2, 3), (2, 3), "VALID", p("f32[2,2]"), 0.0, plus
)
CASES["select_and_scatter_with_general_padding"] = lambda b, p: (
    b.select_and_scatter_with_general_padding(
        p("f32[5]"), at_least, (2,), (2,), [(0, 1)], p("f32[3]"), 0.0, plus
    )
)
CASES["batch_norm_training"] = lambda b, p: b.batch_norm_training(
    p("f32[3,4,2]"), p("f32[2]"), p("f32[2]"), 0.001, 2
)
CASES["batch_norm_inference"] = lambda b, p: b.batch_norm_inference(
    p("f32[3,2]"), p("f32[2]"), p("f32[2]"), p("f32[2]"), b.abs_(p("f32[2]")), 0.5, 1
)
CASES["batch_norm_grad"] = lambda b, p: b.batch_norm_grad(
    p("f32[3,2]"), p("f32[2]"), p("f32[2]"), b.abs_(p("f32[2]")), p("f32[3,2]"), 0.5, 1
)

# --- control ------------------------------------------------------------------------------------

CASES["tuple_"] = lambda b, p: b.tuple_([p("f32[2]"), p("s32[]")])
CASES["get_tuple_element"] = lambda b, p: b.get_tuple_element(b.tuple_([p("f32[2]")]), 0)
CASES["optimization_barrier"] = lambda b, p: b.optimization_barrier(p("f32[2]"))
CASES["call"] = lambda b, p: b.call(lambda x, y: x - y, [p("f32[2]"), p("f32[2]")])
CASES["composite_call"] = lambda b, p: b.composite_call(
    lambda x: x * x, [p("f32[2]")], "foo.bar", "{n = 1 : i32}", 1
)
CASES["conditional"] = lambda b, p: b.conditional(
    p("pred[]"), p("f32[2]"), lambda x: -x, p("f32[]"), lambda x: x.builder.broadcast(x, (2,))
)
CASES["conditional:index"] = lambda b, p: b.conditional(
    p("s32[]"), [lambda x: -x, lambda x: x + x, lambda x: x * x], [p("f32[2]")] * 3
)
CASES["while_"] = lambda b, p: b.while_(
    lambda s: s[0] < 5,
    lambda s: s.builder.tuple_([s[0] + 1, s[1] + s[1]]),
    b.tuple_([b.constant(0), p("f32[2]")]),
)
CASES["conditional:by-name"] = lambda b, p: b.conditional(
    branch_index=p("s32[]"), branch_computations=[lambda x: -x], branch_operands=[p("f32[2]")]
)
CASES["custom_call_op"] = lambda b, p: b.custom_call_op("Sharding", [p("f32[2]")], "f32[2]")
CASES["custom_call"] = lambda b, p: b.custom_call("Sharding", [p("f32[2]")], "f32[2]")

# --- one device by itself -----------------------------------------------------------------------

_ONE = [[0]]
CASES["all_gather"] = lambda b, p: b.all_gather(p("f32[2,3]"), 0, 1, _ONE)
CASES["all_gather:tuple"] = lambda b, p: b.all_gather(
    b.tuple_([p("f32[2]"), p("s32[2,3]")]), 0, 1, _ONE
)
CASES["all_reduce"] = lambda b, p: b.all_reduce(p("f32[2,3]"), plus, _ONE)
CASES["all_reduce:tuple"] = lambda b, p: b.all_reduce(b.tuple_([p("f32[2]")]), plus, _ONE)
CASES["cross_replica_sum"] = lambda b, p: b.cross_replica_sum(p("f32[2,3]"), _ONE)
CASES["cross_replica_sum:pred"] = lambda b, p: b.cross_replica_sum(p("pred[3]"))
CASES["reduce_scatter:tuple"] = lambda b, p: b.reduce_scatter(
    b.tuple_([p("f32[2]")]), plus, 0, 1, _ONE
)
CASES["reduce_scatter"] = lambda b, p: b.reduce_scatter(p("f32[2,3]"), plus, 0, 1, _ONE)
CASES["all_to_all"] = lambda b, p: b.all_to_all(p("f32[2,3]"), 1, 0, 1, _ONE)
CASES["collective_permute"] = lambda b, p: b.collective_permute(p("f32[2,3]"), [(0, 0)])
CASES["replica_id"] = lambda b, p: b.replica_id()
CASES["partition_id"] = lambda b, p: b.partition_id()
CASES["add_dependency"] = lambda b, p: b.add_dependency(p("f32[2]"), b.create_token())
CASES["after_all"] = lambda b, p: b.add_dependency(
    p("f32[2]"), b.after_all([b.create_token(), b.create_token()])
)
CASES["create_token"] = CASES["add_dependency"]
CASES["fusion"] = lambda b, p: b.fusion([p("f32[3]")], "kLoop", lambda x: x * x)
CASES["domain"] = lambda b, p: b.domain(p("f32[2]"), "{maximal device=0}", "{maximal device=0}")
CASES["all_gather_start"] = lambda b, p: b.all_gather_done(
    b.all_gather_start(p("f32[2,3]"), 0, 1, _ONE)
)
CASES["all_gather_done"] = CASES["all_gather_start"]
CASES["all_reduce_start"] = lambda b, p: b.all_reduce_done(
    b.all_reduce_start(p("f32[2,3]"), plus, _ONE)
)
CASES["all_reduce_done"] = CASES["all_reduce_start"]
CASES["collective_permute_start"] = lambda b, p: b.collective_permute_done(
    b.collective_permute_start(p("f32[2,3]"), [(0, 0)])
)
CASES["collective_permute_done"] = CASES["collective_permute_start"]
CASES["rng_get_and_update_state"] = lambda b, p: b.rng_get_and_update_state(3)

# --- not run by XLA:CPU -------------------------------------------------------------------------

NOT_RUN: dict[str, tuple[str, Case]] = {}
# What jaxlib 0.10 does not even read; 0.12 does.
NEWER = frozenset({"exp2", "log2", "rotate", "collective_reduce"})


def _not_run(reason: str, **cases: Case) -> None:
    NOT_RUN.update({name: (reason, case) for name, case in cases.items()})


_not_run(
    "XLA:CPU has no implementation",
    acos=_unary("acos", "f32[3]"),
    acosh=_unary("acosh", "f32[3]"),
    asin=_unary("asin", "f32[3]"),
    asinh=_unary("asinh", "f32[3]"),
    atanh=_unary("atanh", "f32[3]"),
    cosh=_unary("cosh", "f32[3]"),
    sinh=_unary("sinh", "f32[3]"),
    collective_broadcast=lambda b, p: b.collective_broadcast(p("f32[2]"), _ONE),
    copy_start=lambda b, p: b.copy_done(b.copy_start(p("f32[2,3]"))),
    copy_done=lambda b, p: b.copy_done(b.copy_start(p("f32[2,3]"))),
    ragged_dot=lambda b, p: b.ragged_dot(
        p("f32[5,3]"), p("f32[2,3,4]"), b.constant([2, 3]),
        RaggedDotDimensionNumbers(DotDimensionNumbers((1,), (1,)), (0,), (0,)),
    ),
    stochastic_convert=lambda b, p: b.stochastic_convert(p("f32[3]"), p("u32[3]"), "s8"),
)  # fmt: skip
_not_run(
    "jaxlib's way to the compiler does not know it",
    exp2=_unary("exp2", "f32[3]"),
    log2=_unary("log2", "f32[3]"),
    rotate=lambda b, p: b.rotate(p("f32[2,5]"), (1, 0), (2, -1)),
    collective_reduce=lambda b, p: b.collective_reduce(p("f32[2]"), plus, _ONE),
    mulhi=_binary("mulhi", "s32[3]", "s32[3]", ()),
    scaled_dot=lambda b, p: b.scaled_dot(
        p("f32[2,4]"), p("f32[2,2]"), p("f32[4,3]"), p("f32[2,3]"), DotDimensionNumbers((1,), (0,))
    ),
    async_start=lambda b, p: b.async_done(
        b.async_update(b.async_start([p("f32[2]")], lambda x: x + x))
    ),
    async_update=lambda b, p: b.async_done(
        b.async_update(b.async_start([p("f32[2]")], lambda x: x + x))
    ),
    async_done=lambda b, p: b.async_done(b.async_start([p("f32[2]")], lambda x: x + x)),
    scan=lambda b, p: b.scan(
        [p("f32[5,2]")], [p("f32[2]")], lambda x, c: x.builder.tuple_([x * c, x + c]), 0
    ),
    bitcast=lambda b, p: b.bitcast(p("f32[2,3]"), "f32[6]"),
    **{"constant:tuple": lambda b, p: b.constant((1.5, [True]))[1]},
)
_not_run(
    "a host has to be at the other end",
    infeed=lambda b, p: b.infeed("(f32[2], s32[])"),
    infeed_with_token=lambda b, p: b.infeed_with_token(b.create_token(), "f32[2]"),
    outfeed=lambda b, p: b.outfeed(p("f32[2]")),
    outfeed_with_token=lambda b, p: b.outfeed_with_token(p("f32[2]"), b.create_token()),
    trace=lambda b, p: b.trace("x", p("f32[2]")),
    send=lambda b, p: b.send(p("f32[2]"), 1),
    send_with_token=lambda b, p: b.send_with_token(p("f32[2]"), b.create_token(), 1),
    send_to_host=lambda b, p: b.send_to_host(p("f32[2]"), b.create_token(), "f32[2]", 1),
    create_send=lambda b, p: b.send_done(b.create_send(p("f32[2]"), b.create_token(), 1)),
    send_done=lambda b, p: b.send_done(b.create_send(p("f32[2]"), b.create_token(), 1)),
    recv=lambda b, p: b.recv("f32[2]", 1),
    recv_with_token=lambda b, p: b.recv_with_token(b.create_token(), "f32[2]", 1),
    recv_from_host=lambda b, p: b.recv_from_host(b.create_token(), "f32[2]", 1),
    create_recv=lambda b, p: b.recv_done(b.create_recv(b.create_token(), "f32[2]", 1)),
    recv_done=lambda b, p: b.recv_done(b.create_recv(b.create_token(), "f32[2]", 1)),
)
_not_run(
    "the numbers are free",
    rng_normal=lambda b, p: b.rng_normal(b.constant(1.0), b.constant(2.0), "f32[5]"),
    rng_uniform=lambda b, p: b.rng_uniform(b.constant(1), b.constant(9), "s32[5]"),
    rng_bernoulli=lambda b, p: b.rng_bernoulli(b.constant(0.5), "u32[5]"),
)
_not_run(
    "XLA crashes with one participant",
    ragged_all_to_all=lambda b, p: b.ragged_all_to_all(
        p("f32[4,2]"), b.constant([0]), b.constant([2]), p("f32[5,2]"), b.constant([3]),
        b.constant([2]), _ONE,
    ),
)  # fmt: skip
_not_run(
    "a result of dynamic size comes back at its bounds",
    set_dimension_size=lambda b, p: b.set_dimension_size(p("f32[5]"), 3, 0),
    dynamic_reshape=lambda b, p: b.dynamic_reshape(
        p("f32[6]"), [b.constant(2), b.constant(3)], (2, 3), (True, False)
    ),
)


_ALIASES = {
    "send_with_tokens": "send_with_token",
    "recv_with_tokens": "recv_with_token",
    "recv_to_host": "recv_from_host",
}
NOT_RUN.update({alias: NOT_RUN[name] for alias, name in _ALIASES.items()})


def all_cases() -> dict[str, Any]:
    """Return every case by name."""
    return {**CASES, **{name: case for name, (_, case) in NOT_RUN.items()}}
