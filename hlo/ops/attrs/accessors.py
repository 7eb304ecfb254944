"""Attributes as typed properties: `inst.dimensions` reads `inst.attrs["dimensions"]`.

An operation is given its attributes by the op table (`OpSpec.attrs`: key and codec). What type
their values have is said here, once for all operations, in one line each. Reading one that the
operation does not have is an AttributeError that names the instruction, as it is with any Python
object.

The property has the key's name, but for those that would not say on an instruction what they are,
and for keys that mean different things: there it is the name that XLA's `HloInstruction` has for
it. `parameter_number` is the payload of `parameter`; `tuple_index`, `comparison_type`,
`fusion_kind` and `custom_call_schedule` have the keys `index`, `type`, `kind` and `schedule`;
`custom_call_computations` is `called_computations`, as that name stands for the computations of any
instruction; `slice_sizes_list` is `slice_sizes` where it is a list of lists (collective-permute);
`split_dimensions` is `dimensions` where it may be absent (all-to-all).

Writing stays explicit: `inst.attrs["dimensions"] = ...`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from hlo.ops.attrs.accuracy import ResultAccuracy
from hlo.ops.attrs.dims import ConvDims, PadDim, SliceDim, Window
from hlo.ops.attrs.operand_configs import BlockScalingConfig, SparsityConfig
from hlo.ops.attrs.program import Domain, OutputAlias
from hlo.values.literal import Literal
from hlo.values.sharding.replica_groups import ReplicaGroups
from hlo.values.types import Shape


class ComputationView(Protocol):
    """What a rule may ask of a computation that an attribute names."""

    @property
    def name(self) -> str: ...
    @property
    def parameter_shapes(self) -> Sequence[Shape]: ...
    @property
    def result_shape(self) -> Shape: ...


def _attr(key: str) -> Any:
    """Return the property that reads a value which is there."""

    def read(op: Any) -> Any:
        value = op.attrs.get(key)
        if value is None:
            raise AttributeError(f"{op.name}: {op.opcode} has no attribute {key!r}")
        return value

    read.__name__ = key
    return property(read)


def _optional(key: str, default: Any = None) -> Any:
    """Return the property that reads `default` from operations without the attribute."""

    def read(op: Any) -> Any:
        return op.attrs.get(key, default)

    read.__name__ = key
    return property(read)


class AttributeAccessors:
    """The typed properties of an operation's attributes.

    Raises:
        AttributeError: for reading an attribute that the operation does not have; those of type
            `| None`, and flags that most operations lack, read as None or False instead.
    """

    __slots__ = ()

    attrs: Mapping[str, Any]

    # --- values --------------------------------------------------------------------------------
    literal: Final[Literal] = _attr("literal")
    parameter_number: Final[int] = _attr("number")
    iota_dimension: Final[int] = _attr("iota_dimension")

    # --- computations; `ir.Instruction` has them as `ir.Computation` ---------------------------
    to_apply: ComputationView = _attr("to_apply")
    calls: ComputationView = _attr("calls")
    condition: ComputationView = _attr("condition")
    body: ComputationView = _attr("body")
    true_computation: ComputationView = _attr("true_computation")
    false_computation: ComputationView = _attr("false_computation")
    branch_computations: tuple[ComputationView, ...] | None = _optional("branch_computations")
    custom_call_computations: tuple[ComputationView, ...] = _attr("called_computations")
    select: ComputationView = _attr("select")
    scatter: ComputationView = _attr("scatter")
    is_composite: Final[bool] = _attr("is_composite")
    fusion_kind: Final[str] = _attr("kind")
    async_execution_thread: Final[str | None] = _optional("async_execution_thread")

    # --- element by element --------------------------------------------------------------------
    direction: Final[str] = _attr("direction")
    comparison_type: Final[str | None] = _optional("type")
    exponent_bits: Final[int] = _attr("exponent_bits")
    mantissa_bits: Final[int] = _attr("mantissa_bits")
    result_accuracy: Final[ResultAccuracy | None] = _optional("result_accuracy")

    # --- movement, tuples and indexing ---------------------------------------------------------
    dimensions: Final[tuple[int, ...]] = _attr("dimensions")
    tuple_index: Final[int] = _attr("index")
    slice: Final[tuple[SliceDim, ...]] = _attr("slice")
    padding: Final[tuple[PadDim, ...]] = _attr("padding")
    inferred_dimension: Final[int] = _attr("inferred_dimension")
    shifts: Final[tuple[int, ...] | None] = _optional("shifts")
    dynamic_slice_sizes: Final[tuple[int, ...]] = _attr("dynamic_slice_sizes")
    slice_sizes: Final[tuple[int, ...]] = _attr("slice_sizes")
    offset_dims: Final[tuple[int, ...]] = _attr("offset_dims")
    collapsed_slice_dims: Final[tuple[int, ...]] = _attr("collapsed_slice_dims")
    start_index_map: Final[tuple[int, ...]] = _attr("start_index_map")
    operand_batching_dims: Final[tuple[int, ...]] = _attr("operand_batching_dims")
    start_indices_batching_dims: Final[tuple[int, ...]] = _attr("start_indices_batching_dims")
    index_vector_dim: Final[int] = _attr("index_vector_dim")
    indices_are_sorted: Final[bool] = _attr("indices_are_sorted")
    unique_indices: Final[bool] = _attr("unique_indices")
    update_window_dims: Final[tuple[int, ...]] = _attr("update_window_dims")
    inserted_window_dims: Final[tuple[int, ...]] = _attr("inserted_window_dims")
    scatter_dims_to_operand_dims: Final[tuple[int, ...]] = _attr("scatter_dims_to_operand_dims")
    input_batching_dims: Final[tuple[int, ...]] = _attr("input_batching_dims")
    scatter_indices_batching_dims: Final[tuple[int, ...]] = _attr("scatter_indices_batching_dims")

    # --- contractions, convolutions and windows ------------------------------------------------
    lhs_contracting_dims: Final[tuple[int, ...]] = _attr("lhs_contracting_dims")
    rhs_contracting_dims: Final[tuple[int, ...]] = _attr("rhs_contracting_dims")
    lhs_batch_dims: Final[tuple[int, ...]] = _attr("lhs_batch_dims")
    rhs_batch_dims: Final[tuple[int, ...]] = _attr("rhs_batch_dims")
    lhs_ragged_dims: Final[tuple[int, ...]] = _attr("lhs_ragged_dims")
    rhs_group_dims: Final[tuple[int, ...]] = _attr("rhs_group_dims")
    operand_precision: Final[tuple[str, ...]] = _attr("operand_precision")
    algorithm: Final[str] = _attr("algorithm")
    sparsity_config: Final[SparsityConfig | None] = _optional("sparsity_config")
    block_scaling_config: Final[BlockScalingConfig | None] = _optional("block_scaling_config")
    window: Final[Window] = _attr("window")
    dim_labels: Final[ConvDims] = _attr("dim_labels")
    feature_group_count: Final[int] = _attr("feature_group_count")
    batch_group_count: Final[int] = _attr("batch_group_count")
    convolution_kind: Final[str] = _attr("convolution_kind")

    # --- reductions, scans and orders ----------------------------------------------------------
    num_carries: Final[int] = _attr("num_carries")
    is_reverse: Final[bool] = _attr("is_reverse")
    is_associative: Final[bool] = _attr("is_associative")
    is_stable: Final[bool] = _attr("is_stable")
    k: Final[int] = _attr("k")
    largest: Final[bool] = _attr("largest")

    # --- linear algebra, transforms, normalization, random numbers -----------------------------
    lower: Final[bool] = _attr("lower")
    left_side: Final[bool] = _optional("left_side", False)
    unit_diagonal: Final[bool] = _attr("unit_diagonal")
    transpose_a: Final[str] = _attr("transpose_a")
    fft_type: Final[str] = _attr("fft_type")
    fft_length: Final[tuple[int, ...]] = _attr("fft_length")
    epsilon: Final[float] = _attr("epsilon")
    feature_index: Final[int] = _attr("feature_index")
    distribution: Final[str] = _attr("distribution")
    delta: Final[int] = _attr("delta")

    # --- collectives ---------------------------------------------------------------------------
    channel_id: Final[int | None] = _optional("channel_id")
    replica_groups: Final[ReplicaGroups] = _attr("replica_groups")
    use_global_device_ids: Final[bool | None] = _optional("use_global_device_ids")
    constrain_layout: Final[bool] = _optional("constrain_layout", False)
    has_dynamic_root: Final[bool] = _optional("has_dynamic_root", False)
    mode: Final[str | None] = _optional("mode")
    source_target_pairs: Final[tuple[tuple[int, int], ...]] = _attr("source_target_pairs")
    slice_sizes_list: Final[tuple[tuple[int, ...], ...]] = _optional("slice_sizes", ())
    split_dimensions: Final[tuple[int, ...] | None] = _optional("dimensions")

    # --- the host, custom calls and buffers ----------------------------------------------------
    is_host_transfer: Final[bool] = _optional("is_host_transfer", False)
    infeed_config: Final[str] = _attr("infeed_config")
    outfeed_config: Final[str] = _attr("outfeed_config")
    outfeed_shape: Final[Shape] = _attr("outfeed_shape")
    cross_program_prefetch_index: Final[int | None] = _optional("cross_program_prefetch_index")
    custom_call_target: Final[str] = _attr("custom_call_target")
    custom_call_has_side_effect: Final[bool | None] = _optional("custom_call_has_side_effect")
    custom_call_schedule: Final[str] = _attr("schedule")
    api_version: Final[str] = _attr("api_version")
    padding_type: Final[str] = _attr("padding_type")
    operand_layout_constraints: Final[tuple[Shape, ...] | None] = _optional(
        "operand_layout_constraints"
    )
    output_to_operand_aliasing: Final[tuple[OutputAlias, ...]] = _optional(
        "output_to_operand_aliasing", ()
    )
    domain: Final[Domain] = _attr("domain")
