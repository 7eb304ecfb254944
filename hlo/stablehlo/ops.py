"""Operations of StableHLO as instructions: a table of names, and a function where more is to say.

The pretty form of an operation and the generic one have different names for some attributes; both
are read. Source: the StableHLO specification.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.ops.attrs import OutputAlias
from hlo.ops.custom import API_VERSIONS
from hlo.replica_groups import ListedGroups
from hlo.scan import Scanner
from hlo.sharding_text import read_sharding
from hlo.stablehlo.context import Context, integers
from hlo.stablehlo.control import call, conditional, while_
from hlo.stablehlo.cursor import Tagged
from hlo.stablehlo.erf_inv import erf_inv
from hlo.stablehlo.movement import broadcast_in_dim, constant, gather, pad, scatter, slice_
from hlo.stablehlo.types import dense_array
from hlo.stablehlo.windows import convolution, dot, dot_general, window_of
from hlo.types import ArrayShape, Layout, Shape, TupleShape

Handler = Callable[[Context], Instruction]


def _plain(opcode: str) -> Handler:
    return lambda c: c.make(opcode)


# --- reductions, sorting ------------------------------------------------------------------------


def _reduce(c: Context) -> Instruction:
    return c.make("reduce", dimensions=c.ints("dimensions"), to_apply=c.reducer())


def _sort(c: Context) -> Instruction:
    dim = c.integer("dimension", default=-1)
    return c.make(
        "sort", dimensions=(dim + c.operand(0).array_shape.rank if dim < 0 else dim,),
        is_stable=c.flag("is_stable"), to_apply=c.reducer(),
    )  # fmt: skip


def _top_k(c: Context) -> Instruction:
    return c.make("topk", k=c.integer("k"), largest=True)


# --- others -------------------------------------------------------------------------------------


def _compare(c: Context) -> Instruction:
    kind = c.word(1, "compare_type", default="NOTYPE")
    return c.make("compare", direction=c.word(0, "comparison_direction"),
                  type="TOTALORDER" if kind == "TOTALORDER" else None)  # fmt: skip


def _reduce_precision(c: Context) -> Instruction:
    form = str(c.op.attrs.get("format", ""))
    if form:
        exponent, _, mantissa = form.removeprefix("e").partition("m")
        if not (exponent.isdecimal() and mantissa.isdecimal()):
            raise InferError(f"{form!r} is no format such as e5m2", code="bad-value")
        bits = int(exponent), int(mantissa)
    else:
        bits = c.integer("exponent_bits"), c.integer("mantissa_bits")
    return c.make("reduce-precision", exponent_bits=bits[0], mantissa_bits=bits[1])


def _rng_bit_generator(c: Context) -> Instruction:
    word = c.word(0, "algorithm", "rng_algorithm")
    return c.make("rng-bit-generator", algorithm=f"rng_{word.lower()}")


def _layouts(c: Context, key: str, shapes: list[Shape]) -> list[Shape]:
    """Return shapes in the layouts that an attribute gives them."""
    if key not in c.op.attrs:
        return shapes
    found = []
    for shape, order in zip(shapes, c.listed(key), strict=False):
        if isinstance(shape, ArrayShape) and order.type is not None:
            numbers = dense_array(order.text, order.type, order.start).reshape(-1).tolist()
            if sorted(numbers) != list(range(shape.rank)):
                raise InferError(f"{key} has {numbers} for {shape}", code="bad-layout")
            shape = shape.with_layout(Layout(tuple(numbers)))
        found.append(shape)
    return found


def _custom_call(c: Context) -> Instruction:
    attrs = c.op.attrs
    results = _layouts(c, "result_layouts", list(c.op.result_types))
    version = c.op.attrs.get("api_version", 1)
    aliases = []
    for alias in c.listed("output_operand_aliases"):
        found = alias.pairs()
        (operand,) = integers([found.get("operand_index", 0)], "operand_index")
        output, inside = (integers(found.get(k, ()), k)
                          for k in ("output_tuple_indices", "operand_tuple_indices"))  # fmt: skip
        aliases.append(OutputAlias(output, operand, inside))
    inst = c.b.op(
        "custom-call", *c.operands,
        shape=results[0] if len(results) == 1 else TupleShape(tuple(results)),
        custom_call_target=str(c.attr("@", "call_target_name")),
        custom_call_has_side_effect=c.flag("has_side_effect"),
        api_version=API_VERSIONS[version - 1] if version in (1, 2, 3, 4) else API_VERSIONS[0],
        output_to_operand_aliasing=tuple(aliases),
        operand_layout_constraints=tuple(
            _layouts(c, "operand_layouts", [o.shape for o in c.operands])
        ) if "operand_layouts" in attrs else None,
    )  # fmt: skip
    config = attrs.get("mhlo.backend_config") or attrs.get("backend_config")
    if config:
        inst.annotations["backend_config"] = str(config)
    notes = attrs.get("mhlo.frontend_attributes")
    if isinstance(notes, dict):
        inst.annotations["frontend_attributes"] = MappingProxyType(
            {k: str(v) for k, v in sorted(notes.items())}
        )
    if "mhlo.sharding" in attrs:
        inst.annotations["sharding"] = read_sharding(Scanner(str(attrs["mhlo.sharding"])))
    return inst


def _get_tuple_element(c: Context) -> Instruction:
    text = str(c.op.attrs.get("[", c.op.attrs.get("index", "")))
    if not text.strip().isdecimal():
        raise InferError("its index is missing", code="missing-attribute")
    return c.b.op("get-tuple-element", *c.operands, index=int(text))


def _square(c: Context) -> Instruction:
    x = c.operand(0)
    return c.b.op("multiply", x, x)


def _all_reduce(c: Context) -> Instruction:
    return c.make("all-reduce", to_apply=c.reducer(), **_collective(c))


def _collective(c: Context) -> dict[str, Any]:
    groups = c.attr("replica_groups")
    if not isinstance(groups, Tagged) or not isinstance(groups.type, ArrayShape):
        raise InferError("replica_groups is not dense<..>", code="bad-value")
    lists = dense_array(groups.text, groups.type, groups.start)
    if lists.ndim != 2 or lists.dtype != np.int64:
        raise InferError("replica_groups has two dimensions, of i64", code="bad-value")
    found: dict[str, Any] = {"replica_groups": ListedGroups(tuple(map(tuple, lists.tolist())))}
    handle = c.op.attrs.get("channel_handle")
    if isinstance(handle, Tagged):
        (channel,) = integers([handle.pairs().get("handle", 0)], "handle")
        found["channel_id"] = channel or None
    if "use_global_device_ids" in c.op.attrs:
        found["use_global_device_ids"] = True
    return found


_SAME = (
    "abs add and atan2 cbrt ceil clamp complex convert cosine count_leading_zeros divide "
    "exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum "
    "minimum multiply negate not or popcnt power real remainder round_nearest_afz "
    "round_nearest_even rsqrt select "
    "shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor "
    "bitcast_convert reshape replica_id partition_id after_all tuple dynamic_update_slice"
).split()
_CHLO = "erf acos acosh asin asinh atanh cosh sinh tan".split()

HANDLERS: dict[str, Handler] = {
    **{f"stablehlo.{name}": _plain(name.replace("_", "-")) for name in _SAME},
    **{f"chlo.{name}": _plain(name) for name in _CHLO},
    "chlo.erf_inv": erf_inv,
    "call": call,
    "chlo.square": _square,
    "chlo.top_k": _top_k,
    "func.call": call,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.case": conditional,
    "stablehlo.cholesky": lambda c: c.make("cholesky", lower=c.flag("lower")),
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": lambda c: c.make(
        "concatenate", dimensions=(c.integer("dim", "dimension"),)
    ),
    "stablehlo.constant": constant,
    "stablehlo.convolution": convolution,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.dot": dot,
    "stablehlo.dot_general": dot_general,
    "stablehlo.dynamic_slice": lambda c: c.make(
        "dynamic-slice", dynamic_slice_sizes=c.ints("sizes", "slice_sizes")
    ),
    "stablehlo.fft": lambda c: c.make(
        "fft", fft_type=c.word(9, "type", "fft_type"), fft_length=c.ints("length", "fft_length")
    ),
    "stablehlo.gather": gather,
    "stablehlo.get_tuple_element": _get_tuple_element,
    "stablehlo.if": conditional,
    "stablehlo.iota": lambda c: c.make("iota", iota_dimension=c.integer("dim", "iota_dimension")),
    "stablehlo.optimization_barrier": lambda c: (
        c.b.op("opt-barrier", c.b.tuple(*c.operands)) if len(c.operands) != 1
        else c.make("opt-barrier")
    ),
    "stablehlo.pad": pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.reduce_window": lambda c: c.make(
        "reduce-window", window=window_of(c), to_apply=c.reducer()
    ),
    "stablehlo.reverse": lambda c: c.make("reverse", dimensions=c.ints("dims", "dimensions")),
    "stablehlo.rng_bit_generator": _rng_bit_generator,
    "stablehlo.scatter": scatter,
    "stablehlo.select_and_scatter": lambda c: c.make(
        "select-and-scatter", window=window_of(c), select=c.reducer(), scatter=c.reducer(1)
    ),
    "stablehlo.slice": slice_,
    "stablehlo.sort": _sort,
    "stablehlo.transpose": lambda c: c.make(
        "transpose", dimensions=c.ints("dims", "permutation")
    ),
    "stablehlo.triangular_solve": lambda c: c.make(
        "triangular-solve", left_side=c.flag("left_side"),
        lower=c.flag("lower"), unit_diagonal=c.flag("unit_diagonal"),
        transpose_a=c.word(9, "transpose_a"),
    ),
    "stablehlo.while": while_,
}  # fmt: skip
