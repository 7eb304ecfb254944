"""The supported operations: a table from names to the functions that append them.

The pretty form of an operation and the generic one have different names for some attributes; both
are read. Operations without a counterpart in HLO are in a table too, with the reason. Source: the
StableHLO specification.
"""

from __future__ import annotations

from dataclasses import replace

from hlo.errors import InferError
from hlo.frontends.stablehlo import (
    asynchronous,
    chlo,
    collective,
    dynamic,
    einsum,
    erf,
    external,
    gamma,
    movement,
    quantized,
    sdy,
    windows,
)
from hlo.frontends.stablehlo.asin_acos import asin_acos_kernel
from hlo.frontends.stablehlo.composites import composite, restored, stands_for
from hlo.frontends.stablehlo.context import Context, Handler
from hlo.frontends.stablehlo.control import call, conditional, while_
from hlo.frontends.stablehlo.cursor import Attributes
from hlo.frontends.stablehlo.elementwise import (
    compare,
    function,
    plain,
    reduce_precision,
    rng,
    rng_bit_generator,
)
from hlo.frontends.stablehlo.same_names import CHLO, STABLEHLO, spelled
from hlo.frontends.stablehlo.windows import window_of
from hlo.ir import Instruction
from hlo.ops import OPS
from hlo.values.types import TupleShape


def _sort(c: Context) -> Instruction:
    dim = c.integer("dimension", default=-1)
    return c.make(
        "sort", dimensions=(dim + c.operand(0).array_shape.rank if dim < 0 else dim,),
        is_stable=c.flag("is_stable"), to_apply=c.reducer(),
    )  # fmt: skip


def _get_tuple_element(c: Context) -> Instruction:
    return c.b.op("get-tuple-element", *c.operands, index=c.integer("index"))


def _optimization_barrier(c: Context) -> Instruction:
    if any(isinstance(o.shape, TupleShape) for o in c.operands):
        raise InferError("its operands are arrays and tokens", code="type-mismatch")
    if len(c.operands) == 1:
        return c.make("opt-barrier")
    return c.b.op("opt-barrier", c.b.tuple(*c.operands))


def _batch_norm(opcode: str) -> Handler:
    def append(c: Context) -> Instruction:
        epsilon = c.attr("epsilon")
        if not isinstance(epsilon, int | float):
            raise InferError(f"epsilon is a number, not {epsilon!r}", code="bad-value")
        return c.make(opcode, epsilon=float(epsilon), feature_index=c.integer("feature_index"))

    return append


# Custom calls that encode CHLO operations in portable artifacts.
_RECOMPOSED = frozenset({*CHLO, "tan", "topk"})


def _custom_call(c: Context) -> Instruction:
    target = str(c.attr("call_target_name"))
    prefix, _, name = target.partition(".")
    if prefix == "mhlo" and name in _RECOMPOSED:
        inside = c.op.attrs.get("mhlo.attributes")
        attrs = inside if isinstance(inside, dict) else {}
        if attrs.get("largest") is not False:
            known = Attributes()
            known.update(c.op.attrs | attrs)
            return HANDLERS[f"chlo.{name.replace('topk', 'top_k')}"](
                replace(c, op=replace(c.op, attrs=known))
            )
    if target == "ApproxTopK":
        return external.approx_top_k(c)
    if target == "control_dep":
        return external.control_dependence(c)
    return external.custom_call(c)


def _composite(c: Context) -> Instruction:
    name = stands_for(c.op)
    return composite(c) if name is None else HANDLERS[name](restored(c))


_CHLO_SAME = (*CHLO, "tan")
_CHLO_BROADCAST = (
    "add and atan2 complex divide maximum minimum multiply or power remainder shift_left "
    "shift_right_arithmetic shift_right_logical subtract xor"
).split()


def _same(opcode: str) -> Handler:
    return function(opcode) if "result_accuracy" in OPS[opcode].attrs else plain(opcode)


HANDLERS: dict[str, Handler] = {
    **{f"stablehlo.{spelled(name)}": _same(name)
       for name in (*STABLEHLO, "dynamic-update-slice")},
    **{f"chlo.{spelled(name)}": _same(name) for name in _CHLO_SAME},
    **{f"chlo.broadcast_{name}": chlo.broadcasting(name.replace("_", "-"))
       for name in _CHLO_BROADCAST},
    "call": call,
    "chlo._asin_acos_kernel": asin_acos_kernel,
    "chlo.atan": chlo.atan,
    "chlo.bessel_i1e": erf.bessel_i1e,
    "chlo.broadcast_compare": chlo.broadcast_compare,
    "chlo.broadcast_next_after": chlo.broadcasting_formula(chlo.next_after),
    "chlo.broadcast_polygamma": chlo.broadcasting_formula(gamma.polygamma),
    "chlo.broadcast_select": chlo.broadcast_select,
    "chlo.broadcast_zeta": chlo.broadcasting_formula(gamma.zeta),
    "chlo.conj": chlo.conj,
    "chlo.constant": movement.constant,
    "chlo.constant_like": chlo.constant_like,
    "chlo.digamma": gamma.digamma,
    "chlo.erf_inv": erf.erf_inv,
    "chlo.erfc": erf.erfc,
    "chlo.is_inf": chlo.is_inf,
    "chlo.is_neg_inf": chlo.is_inf,
    "chlo.is_pos_inf": chlo.is_inf,
    "chlo.lgamma": gamma.lgamma,
    "chlo.next_after": chlo.next_after,
    "chlo.polygamma": gamma.polygamma,
    "chlo.ragged_dot": windows.ragged_dot,
    "chlo.scan": chlo.scan,
    "chlo.square": chlo.square,
    "chlo.top_k": chlo.top_k,
    "chlo.zeta": gamma.zeta,
    "func.call": call,
    "sdy.constant": movement.constant,
    "sdy.manual_computation": sdy.manual_computation,
    "sdy.named_computation": sdy.named_computation,
    "sdy.propagation_barrier": sdy.propagation_barrier,
    "sdy.reshard": sdy.sharding_constraint,
    "sdy.sharding_constraint": sdy.sharding_constraint,
    "sdy.sharding_group": sdy.sharding_group,
    "stablehlo.all_gather": collective.all_gather,
    "stablehlo.all_reduce": collective.all_reduce,
    "stablehlo.all_to_all": collective.all_to_all,
    "stablehlo.async_done": asynchronous.async_done,
    "stablehlo.async_start": asynchronous.async_start,
    "stablehlo.batch_norm_grad": _batch_norm("batch-norm-grad"),
    "stablehlo.batch_norm_inference": _batch_norm("batch-norm-inference"),
    "stablehlo.batch_norm_training": _batch_norm("batch-norm-training"),
    "stablehlo.broadcast": movement.broadcast,
    "stablehlo.broadcast_in_dim": movement.broadcast_in_dim,
    "stablehlo.case": conditional,
    "stablehlo.cholesky": lambda c: c.make("cholesky", lower=c.flag("lower")),
    "stablehlo.collective_broadcast": collective.collective_broadcast,
    "stablehlo.collective_reduce": collective.collective_reduce,
    "stablehlo.collective_permute": collective.collective_permute,
    "stablehlo.compare": compare,
    "stablehlo.composite": _composite,
    "stablehlo.concatenate": lambda c: c.make(
        "concatenate", dimensions=(c.integer("dimension"),)
    ),
    "stablehlo.constant": movement.constant,
    "stablehlo.convolution": windows.convolution,
    "stablehlo.after_all": external.after_all,
    "stablehlo.create_token": plain("after-all"),
    "stablehlo.cross-replica-sum": collective.cross_replica_sum,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.dot": windows.dot,
    "stablehlo.dot_general": windows.dot_general,
    "stablehlo.dynamic_broadcast_in_dim": dynamic.dynamic_broadcast_in_dim,
    "stablehlo.dynamic_conv": windows.dynamic_conv,
    "stablehlo.dynamic_gather": dynamic.dynamic_gather,
    "stablehlo.dynamic_iota": dynamic.dynamic_iota,
    "stablehlo.dynamic_pad": dynamic.dynamic_pad,
    "stablehlo.dynamic_reshape": dynamic.dynamic_reshape,
    "stablehlo.dynamic_slice": lambda c: c.make(
        "dynamic-slice", dynamic_slice_sizes=c.ints("slice_sizes")
    ),
    "stablehlo.einsum": einsum.einsum,
    "stablehlo.fft": lambda c: c.make(
        "fft", fft_type=c.word("fft_type"), fft_length=c.ints("fft_length")
    ),
    "stablehlo.gather": movement.gather,
    "stablehlo.get_dimension_size": dynamic.get_dimension_size,
    "stablehlo.get_tuple_element": _get_tuple_element,
    "stablehlo.if": conditional,
    "stablehlo.infeed": external.infeed,
    "stablehlo.iota": lambda c: c.make("iota", iota_dimension=c.integer("iota_dimension")),
    "stablehlo.map": lambda c: c.make(
        "map", dimensions=c.ints("dimensions"), to_apply=c.reducer()
    ),
    "stablehlo.optimization_barrier": _optimization_barrier,
    "stablehlo.outfeed": external.outfeed,
    "stablehlo.pad": movement.pad,
    "stablehlo.real_dynamic_slice": dynamic.real_dynamic_slice,
    "stablehlo.recv": external.recv,
    "stablehlo.reduce": lambda c: c.make(
        "reduce", dimensions=c.ints("dimensions"), to_apply=c.combiner()
    ),
    "stablehlo.reduce_precision": reduce_precision,
    "stablehlo.reduce_scatter": collective.reduce_scatter,
    "stablehlo.reduce_window": lambda c: c.make(
        "reduce-window", window=window_of(c), to_apply=c.combiner()
    ),
    "stablehlo.reshape": movement.reshape,
    "stablehlo.reverse": lambda c: c.make("reverse", dimensions=c.ints("dimensions")),
    "stablehlo.rng": rng,
    "stablehlo.rng_bit_generator": rng_bit_generator,
    "stablehlo.scatter": movement.scatter,
    "stablehlo.select_and_scatter": lambda c: c.make(
        "select-and-scatter", window=window_of(c), select=c.reducer(), scatter=c.combiner(1)
    ),
    "stablehlo.send": external.send,
    "stablehlo.set_dimension_size": dynamic.set_dimension_size,
    "stablehlo.slice": movement.slice_,
    "stablehlo.sort": _sort,
    "stablehlo.torch_index_select": movement.torch_index_select,
    "stablehlo.transpose": lambda c: c.make(
        "transpose", dimensions=c.ints("permutation")
    ),
    "stablehlo.triangular_solve": lambda c: c.make(
        "triangular-solve", left_side=c.flag("left_side"),
        lower=c.flag("lower"), unit_diagonal=c.flag("unit_diagonal"),
        transpose_a=c.word("transpose_a"),
    ),
    "stablehlo.tuple": lambda c: c.b.tuple(*c.operands),
    "stablehlo.unary_einsum": einsum.unary_einsum,
    "stablehlo.uniform_dequantize": quantized.unchanged,
    "stablehlo.uniform_quantize": quantized.unchanged,
    "stablehlo.while": while_,
}  # fmt: skip

# MHLO is the predecessor of StableHLO: its operations have the same names and attributes.
_MHLO_OF_CHLO = (*_CHLO_SAME, "ragged_dot", "scan")
HANDLERS |= {
    **{n.replace("stablehlo.", "mhlo."): h for n, h in HANDLERS.items() if n[:9] == "stablehlo"},
    **{f"mhlo.{name}": HANDLERS[f"chlo.{name}"] for name in _MHLO_OF_CHLO},
    **{f"mhlo.{name}": plain(name.replace("_", "-"))
       for name in ("add_dependency", "bitcast", "copy", "exp2", "log2", "stochastic_convert")},
    "mhlo.topk": chlo.top_k,
}  # fmt: skip

_PARTITIONED = "it appears only during partitioning; XLA does not convert it"
_INSIDE = "it is internal to passes of Shardy"
NOT_TAKEN: dict[str, str] = {
    "func.call_indirect": "HLO has no function values",
    "func.constant": "HLO has no function values",
    **{f"sdy.{name}": _PARTITIONED for name in (
        "all_gather", "all_reduce", "all_slice", "all_to_all", "collective_permute",
        "reduce_scatter", "replicated_to_unreduced", "sharded_to_unreduced",
    )},
    "sdy.data_flow_edge": _INSIDE,
    "sdy.func_data_flow_edge": _INSIDE,
}  # fmt: skip
# Operations that are not converted by themselves: functions, meshes, and terminators.
STRUCTURE = frozenset("func.func func.return sdy.mesh sdy.return stablehlo.return return".split())
