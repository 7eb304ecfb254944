"""How HLO operations are written: a table by opcode, the counterpart of `ops.py`.

A rule has the StableHLO operation and its attributes; operands, results and regions are those of
the instruction. Operations that need more are in `write_special.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hlo.errors import InferError
from hlo.frontends.stablehlo.attributes import (
    Accuracy,
    Array,
    Boolean,
    Convolution,
    Enumeration,
    Float,
    Integer,
    Record,
    TypeAttribute,
    Unit,
    channel_handle,
    integers,
    listed,
    matrix,
)
from hlo.frontends.stablehlo.same_names import CHLO, STABLEHLO, spelled
from hlo.frontends.stablehlo.tree import Attributes
from hlo.ir import Instruction
from hlo.ops import OPS
from hlo.ops.attrs import CONV_DIMS, PACKED_NIBBLE
from hlo.ops.elementwise.selection import FLOAT_ORDERS

Spell = Callable[[Instruction], Attributes]


def _none(inst: Instruction) -> Attributes:
    return {}


@dataclass(frozen=True)
class Rule:
    """attrs: returns the inherent attributes as text. regions: the HLO attributes that are
    computations, in the order of the regions. unsaid: attributes without counterpart in StableHLO,
    which must have their defaults.
    """

    name: str
    attrs: Spell = _none
    regions: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()


def _dims(inst: Instruction) -> tuple[int, ...]:
    dims = inst.dimensions
    return dims


# --- shared attributes ---------------------------------------------------------------------------


def precisions(inst: Instruction) -> list[str]:
    """Return the precision of each operand of a product."""
    words = inst.operand_precision
    if PACKED_NIBBLE in words:
        raise InferError("StableHLO packs no numbers of 4 bits", code="no-counterpart")
    return [w.upper() for w in words]


def _precision(inst: Instruction) -> Attributes:
    return {"precision_config": listed(Enumeration("precision", w) for w in precisions(inst))}


def groups(inst: Instruction) -> Attributes:
    """Return the text of a collective's groups and channel."""
    said = inst.replica_groups
    rows = said.lists()
    width = max(map(len, rows), default=0)
    padded = [(*r, *[-1] * (width - len(r))) for r in rows]
    attrs: Attributes = {"replica_groups": matrix(padded, width)}
    attrs |= channel(inst)
    if inst.use_global_device_ids:
        attrs["use_global_device_ids"] = Unit()
    return attrs


def channel(inst: Instruction, kind: int = 0) -> Attributes:
    """Return the text of an operation's channel, if it has one."""
    number = inst.channel_id
    if number is None:
        return {}
    return {"channel_handle": channel_handle(number, kind)}


def _window(inst: Instruction) -> Attributes:
    window = inst.window
    return {
        "window_dimensions": integers(d.size for d in window),
        "window_strides": integers(d.stride for d in window),
        "padding": matrix([(d.pad_low, d.pad_high) for d in window], 2),
    }


def _reduce_window(inst: Instruction) -> Attributes:
    window = inst.window
    if any(d.reversal for d in window):
        raise InferError("StableHLO has no reversed reduction windows", code="no-counterpart")
    return _window(inst) | {
        "base_dilations": integers(d.lhs_dilate for d in window),
        "window_dilations": integers(d.rhs_dilate for d in window),
    }


def _select_and_scatter(inst: Instruction) -> Attributes:
    if any(d.lhs_dilate != 1 or d.rhs_dilate != 1 or d.reversal for d in inst.window):
        raise InferError("StableHLO has no dilation in its windows", code="no-counterpart")
    return _window(inst)


# --- products -----------------------------------------------------------------------------------


def contracted(inst: Instruction) -> dict[str, tuple[int, ...]]:
    """Return the dimensions of a product that are summed, and those that are batches."""
    return {
        f"{side}_{long}_dimensions": inst.attrs[f"{side}_{short}_dims"]
        for short, long in (("batch", "batching"), ("contracting", "contracting"))
        for side in ("lhs", "rhs")
    }


def _dot(inst: Instruction) -> Attributes:
    attrs: Attributes = {"dot_dimension_numbers": Record("dot", contracted(inst))}
    if inst.algorithm == "unset":
        return attrs | _precision(inst)
    # An algorithm determines the precision; StableHLO allows no precision besides it.
    return attrs | {"algorithm": _algorithm(inst.algorithm)}


def _algorithm(name: str) -> Record:
    """Return an algorithm as its properties: `dot_bf16_bf16_f32_x3`."""
    base = name.removesuffix("_fast_accum").replace("any_f8", "f8E5M2").removeprefix("dot_")
    lhs, rhs, total, *more = base.split("_")
    return Record("dot_algorithm", {
        "lhs_precision_type": TypeAttribute(lhs), "rhs_precision_type": TypeAttribute(rhs),
        "accumulation_type": TypeAttribute(total),
        "lhs_component_count": 1, "rhs_component_count": 1,
        "num_primitive_operations": int(more[0].removeprefix("x")) if more else 1,
        "allow_imprecise_accumulation": Boolean(name.endswith("_fast_accum")),
    })  # fmt: skip


def _ragged_dot(inst: Instruction) -> Attributes:
    fields = contracted(inst) | {
        "lhs_ragged_dimensions": inst.lhs_ragged_dims,
        "rhs_group_dimensions": inst.rhs_group_dims,
    }
    words = (Enumeration("precision", w, "chlo") for w in precisions(inst))
    return {
        "ragged_dot_dimension_numbers": Record("ragged_dot", fields, "chlo"),
        "precision_config": listed(words),
    }


def _convolution(inst: Instruction) -> Attributes:
    window = inst.window
    labels = CONV_DIMS.write(inst.dim_labels)
    lhs, _, rest = labels.partition("_")
    rhs, _, out = rest.partition("->")
    return {
        "window_strides": integers(d.stride for d in window),
        "padding": matrix([(d.pad_low, d.pad_high) for d in window], 2),
        "lhs_dilation": integers(d.lhs_dilate for d in window),
        "rhs_dilation": integers(d.rhs_dilate for d in window),
        "window_reversal": Array(tuple(bool(d.reversal) for d in window), "i1"),
        "dimension_numbers": Convolution((lhs, rhs, out)),
        "feature_group_count": Integer(inst.feature_group_count),
        "batch_group_count": Integer(inst.batch_group_count),
        **_precision(inst),
    }


# --- others -------------------------------------------------------------------------------------


def _accuracy(inst: Instruction) -> Attributes:
    said = inst.result_accuracy
    if said is None:
        return {}
    spec = inst.spec.attrs["result_accuracy"]
    text = spec.codec.write(said)
    numbers = dict(part.split("=") for part in text.strip("{}").removeprefix("tolerance={")
                   .split(",") if part.count("=") == 1)  # fmt: skip
    mode = numbers.pop("mode", "").upper() or "TOLERANCE"
    if mode == "DEFAULT":
        return {}
    atol, rtol, ulps = (float(numbers.get(key, 0)) for key in ("atol", "rtol", "ulps"))
    return {"result_accuracy": Accuracy(atol, rtol, int(ulps), mode)}


def _slice(inst: Instruction) -> Attributes:
    dims = inst.slice
    return {
        "start_indices": integers(d.start for d in dims),
        "limit_indices": integers(d.limit for d in dims),
        "strides": integers(d.stride for d in dims),
    }


def _pad(inst: Instruction) -> Attributes:
    dims = inst.padding
    return {
        "edge_padding_low": integers(d.low for d in dims),
        "edge_padding_high": integers(d.high for d in dims),
        "interior_padding": integers(d.interior for d in dims),
    }


def _numbers(inst: Instruction, name: str, keys: tuple[str, ...]) -> Record:
    return Record(name, {key: inst.attrs[key] for key in (*keys, "index_vector_dim")})


def _gather(inst: Instruction) -> Attributes:
    keys = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims",
            "start_indices_batching_dims", "start_index_map")  # fmt: skip
    return {
        "dimension_numbers": _numbers(inst, "gather", keys),
        "slice_sizes": integers(inst.slice_sizes),
        "indices_are_sorted": Boolean(inst.indices_are_sorted),
    }


def _scatter(inst: Instruction) -> Attributes:
    keys = ("update_window_dims", "inserted_window_dims", "input_batching_dims",
            "scatter_indices_batching_dims", "scatter_dims_to_operand_dims")  # fmt: skip
    return {
        "scatter_dimension_numbers": _numbers(inst, "scatter", keys),
        "indices_are_sorted": Boolean(inst.indices_are_sorted),
        "unique_indices": Boolean(inst.unique_indices),
    }


def _compare(inst: Instruction) -> Attributes:
    direction = Enumeration("comparison_direction", inst.direction)
    attrs: Attributes = {"comparison_direction": direction}
    if inst.comparison_type in FLOAT_ORDERS:
        attrs["compare_type"] = Enumeration("comparison_type", inst.comparison_type)
    return attrs


def _triangular(inst: Instruction) -> Attributes:
    return {key: Boolean(inst.attrs[key]) for key in ("left_side", "lower", "unit_diagonal")} | {
        "transpose_a": Enumeration("transpose", inst.transpose_a)
    }


def _batch_norm(inst: Instruction) -> Attributes:
    return {
        "epsilon": Float(np.float32(inst.epsilon), "f32"),
        "feature_index": Integer(inst.feature_index),
    }


def _all_to_all(inst: Instruction) -> Attributes:
    size = inst.replica_groups.group_size
    if len(inst.operands) != 1 or not inst.attrs.get("dimensions") or not size:
        raise InferError("StableHLO splits one array over explicit groups",
                         code="no-counterpart")  # fmt: skip
    (dim,) = _dims(inst)
    return {
        "split_dimension": Integer(dim), "concat_dimension": Integer(dim),
        "split_count": Integer(size), **groups(inst),
    }  # fmt: skip


def _permute(inst: Instruction) -> Attributes:
    if len(inst.operands) != 1:
        raise InferError("StableHLO sends a single whole array", code="no-counterpart")
    return {"source_target_pairs": matrix(inst.source_target_pairs, 2)} | channel(inst)


def _topk(inst: Instruction) -> Attributes:
    if not inst.largest:
        raise InferError("CHLO finds the largest elements only", code="no-counterpart")
    return {"k": Integer(inst.k)}


# Starts are written as the synchronous operation.
MODE = ("mode",)

RULES: Mapping[str, Rule] = {
    **{
        name: Rule(
            f"stablehlo.{spelled(name)}",
            _accuracy if "result_accuracy" in OPS[name].attrs else _none,
        )
        for name in STABLEHLO
    },
    **{name: Rule(f"chlo.{spelled(name)}") for name in CHLO},
    "all-gather": Rule(
        "stablehlo.all_gather", lambda i: {"all_gather_dim": Integer(_dims(i)[0])} | groups(i)
    ),
    "all-reduce": Rule("stablehlo.all_reduce", groups, ("to_apply",), MODE),
    "all-to-all": Rule("stablehlo.all_to_all", _all_to_all),
    "batch-norm-grad": Rule("stablehlo.batch_norm_grad", _batch_norm),
    "batch-norm-inference": Rule("stablehlo.batch_norm_inference", _batch_norm),
    "batch-norm-training": Rule("stablehlo.batch_norm_training", _batch_norm),
    "broadcast": Rule(
        "stablehlo.broadcast_in_dim", lambda i: {"broadcast_dimensions": integers(_dims(i))}
    ),
    "cholesky": Rule("stablehlo.cholesky", lambda i: {"lower": Boolean(i.lower)}),
    "collective-permute": Rule("stablehlo.collective_permute", _permute),
    "compare": Rule("stablehlo.compare", _compare),
    "concatenate": Rule("stablehlo.concatenate", lambda i: {"dimension": Integer(_dims(i)[0])}),
    "convolution": Rule(
        "stablehlo.convolution", _convolution, unsaid=("algorithm", "sparsity_config")
    ),
    "dot": Rule("stablehlo.dot_general", _dot, unsaid=("sparsity_config", "block_scaling_config")),
    "fft": Rule("stablehlo.fft", lambda i: {
        "fft_type": Enumeration("fft_type", i.fft_type),
        "fft_length": integers(i.fft_length),
    }),
    "gather": Rule("stablehlo.gather", _gather),
    "get-dimension-size": Rule(
        "stablehlo.get_dimension_size", lambda i: {"dimension": Integer(_dims(i)[0])}
    ),
    "iota": Rule(
        "stablehlo.iota", lambda i: {"iota_dimension": Integer(i.iota_dimension)}
    ),
    "map": Rule("stablehlo.map", lambda i: {"dimensions": integers(_map_dims(i))}, ("to_apply",)),
    "pad": Rule("stablehlo.pad", _pad),
    "ragged-dot": Rule("chlo.ragged_dot", _ragged_dot),
    "reduce": Rule("stablehlo.reduce", lambda i: {"dimensions": integers(_dims(i))}, ("to_apply",)),
    "reduce-precision": Rule("stablehlo.reduce_precision", lambda i: {
        key: Integer(i.attrs[key], "i32") for key in ("exponent_bits", "mantissa_bits")
    }),
    "reduce-window": Rule("stablehlo.reduce_window", _reduce_window, ("to_apply",)),
    "reverse": Rule("stablehlo.reverse", lambda i: {"dimensions": integers(_dims(i))}),
    "rng-bit-generator": Rule("stablehlo.rng_bit_generator", lambda i: {
        "rng_algorithm": Enumeration("rng_algorithm", i.algorithm.removeprefix("rng_").upper())
    }),
    "scatter": Rule("stablehlo.scatter", _scatter, ("to_apply",)),
    "select-and-scatter": Rule(
        "stablehlo.select_and_scatter", _select_and_scatter, ("select", "scatter")
    ),
    "set-dimension-size": Rule(
        "stablehlo.set_dimension_size", lambda i: {"dimension": Integer(_dims(i)[0])}
    ),
    "slice": Rule("stablehlo.slice", _slice),
    "sort": Rule("stablehlo.sort", lambda i: {
        "dimension": Integer(_dims(i)[0]), "is_stable": Boolean(i.is_stable),
    }, ("to_apply",)),
    "topk": Rule("chlo.top_k", _topk),
    "transpose": Rule("stablehlo.transpose", lambda i: {"permutation": integers(_dims(i))}),
    "triangular-solve": Rule("stablehlo.triangular_solve", _triangular),
}  # fmt: skip


def _map_dims(inst: Instruction) -> range:
    return range(inst.operands[0].array_shape.rank)
