"""The encoding of attributes in messages: one entry per attribute, for all opcodes.

An attribute of several operations has the same field for all of them, except those in `OF_OPCODE`.
Called computations are ids in messages, resolved by the module's reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hlo.errors import TextError
from hlo.frontends.proto.encodings import Encoding, Operands, at, ints, known, listed, pairs, word
from hlo.frontends.proto.schema import Message
from hlo.frontends.proto.shapes import read_literal, read_shape, write_literal, write_shape
from hlo.frontends.proto.shardings import read_groups, read_sharding, write_groups, write_sharding
from hlo.ops import OpSpec
from hlo.ops.attrs import (
    ConvDims,
    Domain,
    OutputAlias,
    PadDim,
    ResultAccuracy,
    SliceDim,
    WindowDim,
    shortest,
)
from hlo.ops.attrs.operand_configs import (
    BlockScalingConfig,
    SparsityConfig,
    TensorScaling,
    TensorSparsity,
)
from hlo.ops.elementwise.selection import settled_type
from hlo.values.scan import from_bytes, to_bytes
from hlo.values.types import ArrayShape, Shape, TupleShape

# --- compound values ----------------------------------------------------------------------------


def _read_window_dim(m: Message) -> WindowDim:
    return WindowDim(
        m.get("size", 0), m.get("stride", 0), m.get("padding_low", 0), m.get("padding_high", 0),
        m.get("base_dilation", 0), m.get("window_dilation", 0), m.get("window_reversal", False),
    )  # fmt: skip


def _write_window_dim(d: WindowDim) -> Message:
    return Message(
        size=d.size, stride=d.stride, padding_low=d.pad_low, padding_high=d.pad_high,
        base_dilation=d.lhs_dilate, window_dilation=d.rhs_dilate, window_reversal=d.reversal,
    )  # fmt: skip


WINDOW = listed("window.dimensions", _read_window_dim, _write_window_dim)

# Field names in the order of `ConvDims`.
_CONV_FIELDS = (
    "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
    "kernel_input_feature_dimension", "kernel_output_feature_dimension",
    "kernel_spatial_dimensions", "output_batch_dimension", "output_feature_dimension",
    "output_spatial_dimensions",
)  # fmt: skip


def _read_conv_dims(m: Message, operands: Operands) -> ConvDims:
    inside = m.sub("convolution_dimension_numbers")
    values: list[Any] = [
        tuple(inside.get(f, ())) if f.endswith("s") else inside.get(f, 0) for f in _CONV_FIELDS
    ]
    # Dimensions in no role are not in the message.
    unknown = []
    for i, shape in enumerate([*operands[:2], read_shape(m.sub("shape"))]):
        # A sparse operand comes with the indices of its values.
        array = shape.elements[0] if isinstance(shape, TupleShape) and shape.elements else shape
        dims = range(array.rank if isinstance(array, ArrayShape) else 0)
        batch, feature, spatial = values[3 * i : 3 * i + 3]
        used = {batch, feature, *spatial}
        if len(used) != 2 + len(spatial) or not used <= set(dims):
            raise TextError(f"dimension numbers of {array} are out of range or repeated",
                            inside.offset, code="bad-dimension")  # fmt: skip
        unknown.append(tuple(d for d in dims if d not in used))
    if len(unknown) != 3 or len({len(values[i]) for i in (2, 5, 8)}) != 1:
        raise TextError("operands and result of a convolution need equally many spatial "
                        "dimensions",
                        inside.offset, code="bad-value")  # fmt: skip
    return ConvDims(*values, *unknown)


def _write_conv_dims(d: ConvDims, m: Message) -> None:
    values = (d.input_batch, d.input_feature, d.input_spatial, d.kernel_input, d.kernel_output,
              d.kernel_spatial, d.output_batch, d.output_feature, d.output_spatial)  # fmt: skip
    m["convolution_dimension_numbers"] = Message(
        (f, list(v) if isinstance(v, tuple) else v)
        for f, v in zip(_CONV_FIELDS, values, strict=True)
    )


CONV_DIMS = Encoding(_read_conv_dims, _write_conv_dims)


# The encoding of each field of a config.
_SPARSITY = {
    "num_non_zero": "num_non_zero", "block_size": "block_size", "dimension": "dimension",
    "stride": "stride", "index": "idx",
}  # fmt: skip
_SCALING = {"scale": "scale_idx", "zero": "zero_idx", "strides": "strides", "steps": "steps"}


def _config(field: str, kind: type, side: type, names: Mapping[str, str]) -> Encoding:
    """Return the encoding of a config of two operands. names: of its fields in the message."""

    def read_side(m: Message) -> Any:
        found = {mine: m[theirs] for mine, theirs in names.items() if theirs in m}
        return side(**{k: v if isinstance(v, int) else tuple(v) for k, v in found.items()})

    def write_side(value: Any) -> Message:
        found = {theirs: getattr(value, mine) for mine, theirs in names.items()}
        return Message(
            (k, list(v) if isinstance(v, tuple) else v) for k, v in found.items() if v is not None
        )

    def read(m: Message, operands: Operands) -> Any:
        inside = m.sub(field)
        sides = [read_side(inside[name]) if name in inside else None for name in ("lhs", "rhs")]
        return kind(*sides) if any(sides) else None

    def write(value: Any) -> Message:
        sides = (("lhs", value.lhs), ("rhs", value.rhs))
        return Message((name, write_side(v)) for name, v in sides if v is not None)

    return Encoding(read, at(field, write=write).write)


def _read_shuffle(m: Message, operands: Operands) -> str | None:
    return "rotate" if "rotate" in m.sub("shuffle_mode") else None


def _write_shuffle(mode: str, m: Message) -> None:
    m.setdefault("shuffle_mode", Message()).setdefault(mode, Message())


def _read_accuracy(m: Message, operands: Operands) -> ResultAccuracy | None:
    inside = m.sub("result_accuracy")
    if "tolerance" in inside:
        t = inside["tolerance"]
        return ResultAccuracy(False, t.get("atol", 0.0), t.get("rtol", 0.0), t.get("ulps", 0))
    return ResultAccuracy(True) if inside.get("mode") == "HIGHEST" else None


def _write_accuracy(value: ResultAccuracy, m: Message) -> None:
    tolerance = Message(atol=value.atol, rtol=value.rtol, ulps=value.ulps)
    m["result_accuracy"] = (
        Message(mode="HIGHEST") if value.highest else Message(tolerance=tolerance)
    )  # fmt: skip


def usual_comparison(operands: Operands) -> str:
    """Return the default type of a comparison of these operands."""
    first = operands[0] if operands else None
    if not isinstance(first, ArrayShape):
        return "UNSIGNED"
    et = first.element_type
    return "SIGNED" if et.is_signed else "UNSIGNED" if et.is_integer or et.is_pred else "FLOAT"


def _read_comparison(m: Message, operands: Operands) -> str | None:
    kind: str = m.get("comparison_order", "") or m.get("comparison_type", "")
    return settled_type(kind, operands) if kind else None


def _write_comparison(kind: str, m: Message) -> None:
    if kind == "WEAKORDER":
        m["comparison_order"] = "WEAK"
    else:
        m["comparison_type"] = kind


def _read_layouts(m: Message, operands: Operands) -> tuple[Shape, ...] | None:
    if not m.get("constrain_layout"):
        return None
    return tuple(map(read_shape, m.get("operand_shapes_with_layout", ())))


def _write_layouts(shapes: Sequence[Shape], m: Message) -> None:
    m["constrain_layout"] = True
    m["operand_shapes_with_layout"] = list(map(write_shape, shapes))


def _read_slice_sizes(m: Message, operands: Operands) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of a collective-permute's slices, which the message has in one list."""
    sizes = m.get("dynamic_slice_sizes", [])
    first = operands[0] if operands else None
    shapes = first.elements if isinstance(first, TupleShape) else [first]
    found: list[tuple[int, ...]] = []
    start = 0
    while start < len(sizes):
        shape = shapes[min(len(found), len(shapes) - 1)] if shapes else None
        rank = max(1, shape.rank if isinstance(shape, ArrayShape) else 1)
        found.append(tuple(sizes[start : start + rank]))
        start += rank
    return tuple(found)


def _write_slice_sizes(values: Sequence[Sequence[int]], m: Message) -> None:
    m["dynamic_slice_sizes"] = [size for sizes in values for size in sizes]


def _read_prefetch(m: Message, operands: Operands) -> int | None:
    # Older messages have a flag instead.
    return m.get("cross_program_prefetch_index", 0 if m.get("is_cross_program_prefetch") else None)


def _read_channel(m: Message, operands: Operands) -> int | None:
    return m.get("channel_id") or m.get("all_reduce_id") or None


def _read_optional(name: str, read: Callable[[Message], Any]) -> Callable[..., Any]:
    return lambda m, operands: read(m[name]) if name in m else None


def _write_domain(value: Domain, m: Message) -> None:
    # What the text calls exit is the entry of the message: the operand's side.
    m["domain_entry_sharding"] = write_sharding(value.exit)
    m["domain_exit_sharding"] = write_sharding(value.entry)


def _at_most_one(values: list[int]) -> int:
    if len(values) > 1:
        raise TextError(f"{len(values)} dimensions where one is needed", code="bad-value")
    return values[0] if values else -1


# --- the table ----------------------------------------------------------------------------------

_PLAIN = (
    "constrain_layout", "custom_call_has_side_effect", "custom_call_target", "delta",
    "exponent_bits", "feature_index", "indices_are_sorted", "is_composite", "is_host_transfer",
    "is_reverse", "is_stable", "k", "largest", "mantissa_bits", "num_carries", "unique_indices",
    "use_global_device_ids",
)  # fmt: skip
_GATHER = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
           "start_indices_batching_dims")  # fmt: skip
_SCATTER = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
            "input_batching_dims", "scatter_indices_batching_dims")  # fmt: skip
_DOT = {
    f"{side}_{short}_dims": f"dot_dimension_numbers.{side}_{short}_dimensions"
    for side in ("lhs", "rhs")
    for short in ("batch", "contracting")
}
_DEFAULT_PRECISION = ("default", "default")
_PRECISION = at(
    "precision_config.operand_precision",
    lambda ws: tuple(str(w).lower() for w in ws), lambda ws: [w.upper() for w in ws],
)  # fmt: skip


def _read_any_precision(m: Message, operands: Operands) -> tuple[str, ...]:
    """Return the precisions of a custom call, which may have any number of them."""
    found: tuple[str, ...] = _PRECISION.read(m, operands)
    return () if set(found) <= {"default"} else found


ATTRIBUTES: dict[str, Encoding] = {
    **{name: at(name) for name in _PLAIN},
    # The message has it in f32: take the number with the fewest digits.
    "epsilon": at("epsilon", shortest),
    **{name: ints(f"gather_dimension_numbers.{name}") for name in _GATHER},
    **{name: ints(f"scatter_dimension_numbers.{name}") for name in _SCATTER},
    **{name: ints(path) for name, path in _DOT.items()},
    "algorithm": word("precision_config.algorithm", "ALG_", lower=True),
    "api_version": at("custom_call_api_version"),
    "async_execution_thread": known(at("async_execution_thread"), ""),
    "block_scaling_config": _config(
        "block_scaling_config", BlockScalingConfig, TensorScaling, _SCALING
    ),
    "batch_group_count": known(at("batch_group_count"), 0, 1),
    "channel_id": Encoding(_read_channel, at("channel_id").write),
    "convolution_kind": word("conv_kind", "CONVOLUTION_KIND_", lower=True),
    "cross_program_prefetch_index": Encoding(
        _read_prefetch, at("cross_program_prefetch_index").write
    ),
    "dim_labels": CONV_DIMS,
    "dimensions": ints("dimensions"),
    "direction": at("comparison_direction"),
    "distribution": word("distribution", lower=True),
    "domain": Encoding(
        lambda m, operands: Domain(
            "sharding", read_sharding(m.sub("domain_exit_sharding")),
            read_sharding(m.sub("domain_entry_sharding")),
        ),
        _write_domain,
    ),
    "dynamic_slice_sizes": ints("dynamic_slice_sizes"),
    "feature_group_count": known(at("feature_group_count"), 0, 1),
    "fft_length": ints("fft_length"),
    "fft_type": word("fft_type"),
    "has_dynamic_root": at("has_dynamic_root"),
    "index": at("tuple_index"),
    "index_vector_dim": at("gather_dimension_numbers.index_vector_dim"),
    "inferred_dimension": at("dimensions", _at_most_one, lambda d: [d] if d >= 0 else []),
    "infeed_config": at("infeed_config", from_bytes, to_bytes),
    "iota_dimension": at("dimensions", _at_most_one, lambda d: [d]),
    "is_associative": at(
        "is_associative", lambda w: w == "TRI_STATE_TRUE",
        lambda v: "TRI_STATE_TRUE" if v else "TRI_STATE_FALSE",
    ),
    "kind": at("fusion_kind"),
    "left_side": at("triangular_solve_options.left_side"),
    "lhs_ragged_dims": ints("ragged_dot_dimension_numbers.lhs_ragged_dimensions"),
    "literal": Encoding(
        _read_optional("literal", read_literal), at("literal", write=write_literal).write
    ),
    "lower": at("triangular_solve_options.lower"),
    # Redundant: follows from channel_id and use_global_device_ids.
    "mode": Encoding(lambda m, operands: None, lambda value, m: None),
    "number": at("parameter_number"),
    "operand_layout_constraints": Encoding(_read_layouts, _write_layouts),
    "operand_precision": known(_PRECISION, (), _DEFAULT_PRECISION),
    "outfeed_config": at("outfeed_config", from_bytes, to_bytes),
    "outfeed_shape": Encoding(
        _read_optional("outfeed_shape", read_shape), at("outfeed_shape", write=write_shape).write
    ),
    "output_to_operand_aliasing": listed(
        "output_operand_aliasing",
        lambda m: OutputAlias(
            tuple(m.get("output_shape_index", ())), m.get("operand_index", 0),
            tuple(m.get("operand_shape_index", ())),
        ),
        lambda a: Message(
            output_shape_index=list(a.output), operand_index=a.operand,
            operand_shape_index=list(a.operand_index),
        ),
    ),
    "padding": listed(
        "padding_config.dimensions",
        *pairs(PadDim, low="edge_padding_low", high="edge_padding_high",
                interior="interior_padding"),
    ),
    "padding_type": word("padding_type"),
    "replica_groups": Encoding(lambda m, operands: read_groups(m), write_groups),
    "result_accuracy": Encoding(_read_accuracy, _write_accuracy),
    "rhs_group_dims": ints("ragged_dot_dimension_numbers.rhs_group_dimensions"),
    "schedule": word("custom_call_schedule"),
    "slice": listed(
        "slice_dimensions", *pairs(SliceDim, start="start", limit="limit", stride="stride")
    ),
    "slice_sizes": ints("gather_slice_sizes"),
    "source_target_pairs": listed(
        "source_target_pairs",
        lambda m: (m.get("source", 0), m.get("target", 0)),
        lambda pair: Message(source=pair[0], target=pair[1]),
    ),
    "shifts": ints("shuffle_mode.rotate.shifts"),
    "sparsity_config": _config("sparsity_config", SparsityConfig, TensorSparsity, _SPARSITY),
    "transpose_a": word("triangular_solve_options.transpose_a"),
    "type": Encoding(_read_comparison, _write_comparison),
    "unit_diagonal": at("triangular_solve_options.unit_diagonal"),
    "window": WINDOW,
}  # fmt: skip

OF_OPCODE: dict[tuple[str, str], Encoding] = {
    ("all-to-all", "dimensions"): known(ints("dimensions"), ()),
    ("async-start", "async_execution_thread"): known(
        at("async_execution_thread", write=lambda v: "" if v == "main" else v), "", "main"
    ),
    ("cholesky", "lower"): at("cholesky_options.lower"),
    ("collective-permute", "slice_sizes"): Encoding(_read_slice_sizes, _write_slice_sizes),
    ("collective-permute-start", "slice_sizes"): Encoding(_read_slice_sizes, _write_slice_sizes),
    ("shuffle", "mode"): Encoding(_read_shuffle, _write_shuffle),
    ("custom-call", "dim_labels"): Encoding(
        lambda m, operands: _read_conv_dims(m, operands)
        if m.get("convolution_dimension_numbers") else None,
        _write_conv_dims,
    ),
    ("custom-call", "operand_precision"): Encoding(_read_any_precision, _PRECISION.write),
    ("custom-call", "window"): known(WINDOW, ()),
    ("ragged-all-to-all", "dimensions"): known(ints("dimensions"), ()),
    **{
        ("ragged-dot", name): ints(f"ragged_dot_dimension_numbers.{path}")
        for name, path in _DOT.items()
    },
    ("rng-bit-generator", "algorithm"): word("rng_algorithm", lower=True),
    ("scatter", "index_vector_dim"): at("scatter_dimension_numbers.index_vector_dim"),
}  # fmt: skip


def encoding_of(opcode: str, key: str) -> Encoding:
    """Return the encoding of an attribute of an operation."""
    return OF_OPCODE.get((opcode, key)) or ATTRIBUTES[key]


def encodings(spec: OpSpec) -> list[tuple[str, Encoding]]:
    """Return the attributes of an operation except computations, with their encodings."""
    return [(k, encoding_of(spec.name, k)) for k in spec.attrs if k not in spec.computation_attrs]


# --- called computations ------------------------------------------------------------------------

# The order in which messages list called computations, if it is not that of the op table.
_CALL_ORDER = {"while": ("body", "condition")}


def called(spec: OpSpec) -> Sequence[str]:
    """Return the attributes that are computations, in the order of a message's list."""
    return _CALL_ORDER.get(spec.name, spec.computation_attrs)
