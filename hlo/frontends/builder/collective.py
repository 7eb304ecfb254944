"""Operations between the devices that run a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder import binary, movement, slicing, tuples
from hlo.frontends.builder.callee import Callee, callee_of
from hlo.frontends.builder.coercion import ShapeLike, shape_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation
from hlo.frontends.builder.groups import Groups, groups_of, pairs_of, resized, split_tuple
from hlo.values.types import PRED, ArrayShape, Layout, TupleShape, array


def _joined(
    builder: BuilderCore[XlaOp], result: XlaOp, parts: Sequence[XlaOp], is_tuple: bool
) -> XlaOp:
    """Return a result as a tuple if the operand was one; of one array there is none yet."""
    return tuples.tuple_(builder, [result]) if is_tuple and len(parts) == 1 else result


@operation
def all_gather(
    builder: BuilderCore[XlaOp], operand: XlaOp, all_gather_dimension: int, shard_count: int,
    replica_groups: Groups = (), channel_id: int | None = None,
    layout: Layout | None = None, use_global_device_ids: bool = False,
) -> XlaOp:  # fmt: skip
    """Append the arrays of all devices of a group, one after the other along a dimension.

    operand: an array, or a tuple of arrays.
    all_gather_dimension: which becomes `shard_count` times as large.
    shard_count: the devices of a group.
    layout: of the result, which has to be kept.

    Raises HloError for groups of another size. Source: "AllGather" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.all_gather(b.parameter(0, "f32[4,8]"), 0, shard_count=2).shape)
    f32[8,8]{1,0}
    """
    parts, is_tuple = split_tuple("all-gather", operand)
    shape = resized(
        "all-gather", parts, all_gather_dimension, shard_count, smaller=False, layout=layout
    )
    result = emit(
        builder, "all-gather", *parts, shape=shape, channel_id=channel_id,
        replica_groups=groups_of(replica_groups), constrain_layout=layout is not None,
        dimensions=(all_gather_dimension,), use_global_device_ids=use_global_device_ids,
    )  # fmt: skip
    return _joined(builder, result, parts, is_tuple)


@operation
def all_reduce(
    builder: BuilderCore[XlaOp], operand: XlaOp, computation: Callee, replica_groups: Groups = (),
    channel_id: int | None = None, shape_with_layout: ShapeLike | None = None,
    use_global_device_ids: bool = False,
) -> XlaOp:  # fmt: skip
    """Append the arrays of all devices of a group combined; of a tuple element by element.

    computation: from two scalars to one, in any order.
    shape_with_layout: the operand's shape, in a layout that has to be kept.

    Raises HloError for a computation of another type. Source: "AllReduce" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.all_reduce(b.parameter(0, "f32[2]"), lambda x, y: x + y)
    >>> hlo.interpret(b.build().module(), [1, 2])
    array([1., 2.], dtype=float32)
    """
    parts, is_tuple = split_tuple("all-reduce", operand)
    scalar = array(parts[0].element_type, ())
    shape = None
    if shape_with_layout is not None:
        shape = shape_of(shape_with_layout)
        if isinstance(shape, TupleShape) and len(parts) == 1:
            shape = shape.elements[0]
    result = emit(
        builder, "all-reduce", *parts, shape=shape, channel_id=channel_id,
        replica_groups=groups_of(replica_groups), constrain_layout=shape is not None,
        use_global_device_ids=use_global_device_ids,
        to_apply=callee_of(builder, computation, [scalar, scalar], "reducer"),
    )  # fmt: skip
    return _joined(builder, result, parts, is_tuple)


@operation
def cross_replica_sum(
    builder: BuilderCore[XlaOp], operand: XlaOp, replica_groups: Groups = ()
) -> XlaOp:
    """Append the sum over the devices of a group; of pred, whether any is true.

    The result has the operand's shape.

    Source: "CrossReplicaSum" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.cross_replica_sum(b.parameter(0, "f32[2]"), [[0]])
    >>> hlo.interpret(b.build().module(), [1, 2])
    array([1., 2.], dtype=float32)
    """

    def total(a: XlaOp, b: XlaOp) -> XlaOp:
        either = binary.or_ if a.element_type is PRED else binary.add
        return either(a.builder, a, b)

    return all_reduce(builder, operand, total, replica_groups)


@operation
def reduce_scatter(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, computation: Callee, scatter_dimension: int, shard_count: int,
    replica_groups: Groups = (), channel_id: int | None = None,
    layout: Layout | None = None, use_global_device_ids: bool = False,
) -> XlaOp:  # fmt: skip
    """Append the arrays of a group combined, of which each device keeps its part.

    computation, replica_groups: as for `all_reduce`.
    scatter_dimension: the one that is divided into `shard_count` parts, one a device.

    Raises HloError where it does not divide. Source: "ReduceScatter" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.parameter(0, "f32[4,8]")
    >>> print(b.reduce_scatter(x, lambda x, y: x + y, 0, shard_count=2).shape)
    f32[2,8]{1,0}
    """
    parts, is_tuple = split_tuple("reduce-scatter", operand)
    shape = resized(
        "reduce-scatter", parts, scatter_dimension, shard_count, smaller=True, layout=layout
    )
    scalar = array(parts[0].element_type, ())
    result = emit(
        builder, "reduce-scatter", *parts, shape=shape, channel_id=channel_id,
        replica_groups=groups_of(replica_groups), constrain_layout=layout is not None,
        dimensions=(scatter_dimension,), use_global_device_ids=use_global_device_ids,
        to_apply=callee_of(builder, computation, [scalar, scalar], "reducer"),
    )  # fmt: skip
    return _joined(builder, result, parts, is_tuple)


@operation
def all_to_all(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, split_dimension: int, concat_dimension: int, split_count: int,
    replica_groups: Groups = (), layout: Layout | None = None, channel_id: int | None = None,
) -> XlaOp:  # fmt: skip
    """Append the parts that all devices of a group have for this one.

    split_dimension: along which each device cuts its array into a part for each.
    concat_dimension: along which it puts the parts that it gets one after the other.
    split_count: the devices of a group.
    layout: how parts lie in memory when they are sent.

    Raises HloError for a dimension that does not divide, a tuple, and groups of another size.
    Source: "AllToAll" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.all_to_all(b.parameter(0, "f32[4,8]"), 0, 1, split_count=2).shape)
    f32[2,16]{1,0}
    """
    shape = operand.array_shape
    for what, dim in (("split", split_dimension), ("concat", concat_dimension)):
        if not 0 <= dim < shape.rank:
            raise InferError(
                f"all-to-all: {what}_dimension is {dim}, outside [0, {shape.rank})",
                code="bad-dimension",
            )
    groups = groups_of(replica_groups)
    if groups.group_size not in (None, split_count):
        raise InferError(
            f"all-to-all: split_count is {split_count}, a replica group has "
            f"{groups.group_size} members", code="bad-replica-groups",
        )  # fmt: skip
    part = resized(
        "all-to-all", [operand], split_dimension, split_count, smaller=True, layout=layout
    )
    assert isinstance(part, ArrayShape)
    common: dict[str, Any] = {"replica_groups": groups, "channel_id": channel_id}
    if layout is not None:
        return _all_to_all_in_parts(
            builder, operand, part, split_dimension, concat_dimension, split_count, common
        )
    moved = emit(builder, "all-to-all", operand, dimensions=(split_dimension,), **common)
    if split_dimension == concat_dimension:
        return moved
    # The parts stand along the split dimension: give them one of their own, put it in front of
    # the other dimension, and merge the two.
    dims = list(shape.dims)
    dims[split_dimension : split_dimension + 1] = [split_count, part.dims[split_dimension]]
    apart = movement.reshape(builder, moved, dims)
    order = [d + (d >= split_dimension) for d in range(shape.rank)]
    order.insert(concat_dimension, split_dimension)
    merged = list(part.dims)
    merged[concat_dimension] *= split_count
    return movement.reshape(builder, movement.transpose(builder, apart, order), merged)


def _all_to_all_in_parts(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, part: ArrayShape, split: int, concat: int, count: int,
    common: dict[str, Any],
) -> XlaOp:  # fmt: skip
    """Return an exchange of separate arrays, which can be in any layout."""
    size, dims = part.dims[split], operand.dims
    slices = []
    for i in range(count):
        start, limit = [0] * len(dims), list(dims)
        start[split], limit[split] = i * size, (i + 1) * size
        slices.append(
            movement.copy(builder, slicing.slice_(builder, operand, start, limit), part.layout)
        )
    shape = TupleShape((part,) * count)
    moved = emit(builder, "all-to-all", *slices, shape=shape, constrain_layout=True, **common)
    return slicing.concat_in_dim(builder, tuples.elements(moved), concat)


@operation
def ragged_all_to_all(
    builder: BuilderCore[XlaOp],
    input: XlaOp, input_offsets: XlaOp, send_sizes: XlaOp, output: XlaOp,
    output_offsets: XlaOp, recv_sizes: XlaOp, replica_groups: Groups = (),
    channel_id: int | None = None,
) -> XlaOp:  # fmt: skip
    """Append `output` with rows that the devices of a group send each other written into it.

    Device i gets `send_sizes[i]` rows of `input` from `input_offsets[i]` on, and writes them
    from `output_offsets[i]` on; this one gets `recv_sizes[i]` rows from it. Offsets and sizes
    are integers, [devices], or [devices, updates] for several pieces for each.

    Raises HloError where their shapes, or rows of input and output, differ. Source:
    "RaggedAllToAll" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> rows, counts = b.parameter(0, "f32[4,8]"), b.parameter(1, "s32[2]")
    >>> into = b.parameter(2, "f32[6,8]")
    >>> print(b.ragged_all_to_all(rows, counts, counts, into, counts, counts).shape)
    f32[6,8]{1,0}
    """
    return emit(
        builder, "ragged-all-to-all", input, output, input_offsets, send_sizes, output_offsets,
        recv_sizes, replica_groups=groups_of(replica_groups), channel_id=channel_id,
    )  # fmt: skip


@operation
def collective_broadcast(
    builder: BuilderCore[XlaOp],
    operand: XlaOp,
    replica_groups: Groups = (),
    channel_id: int | None = None,
) -> XlaOp:
    """Append the array of the first device of a group.

    Source: "CollectiveBroadcast" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.collective_broadcast(b.parameter(0, "f32[4]"), [[0, 1]]).shape)
    f32[4]{0}
    """
    return emit(
        builder, "collective-broadcast", operand, replica_groups=groups_of(replica_groups),
        channel_id=channel_id,
    )  # fmt: skip


@operation
def collective_reduce(
    builder: BuilderCore[XlaOp], operand: XlaOp, computation: Callee, replica_groups: Groups = (),
    channel_id: int | None = None, use_global_device_ids: bool = False,
) -> XlaOp:  # fmt: skip
    """Append the arrays of a group combined on its first device, and zeros on the others.

    computation: from two scalars to one, in any order.

    Raises HloError for a computation of another type.

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.collective_reduce(b.parameter(0, "f32[4]"), lambda x, y: x + y, [[0, 1]]).shape)
    f32[4]{0}
    """
    scalar = array(operand.element_type, ())
    return emit(
        builder, "collective-reduce", operand, replica_groups=groups_of(replica_groups),
        channel_id=channel_id, use_global_device_ids=use_global_device_ids,
        to_apply=callee_of(builder, computation, [scalar, scalar], "reducer"),
    )  # fmt: skip


@operation
def collective_permute(
    builder: BuilderCore[XlaOp], operand: XlaOp, source_target_pairs: Sequence[tuple[int, int]],
    channel_id: int | None = None, inplace: bool = False,
    slice_sizes: Sequence[Sequence[int]] = (),
) -> XlaOp:  # fmt: skip
    """Append the array of the device that sends to this one, zeros where none does.

    source_target_pairs: pairs of ids, in which no source and no target is twice.
    inplace: the operand is a tuple of input, output, and tuples of offsets into each, and
    slices of `slice_sizes` are sent.

    Raises HloError for other pairs. Source: "CollectivePermute" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.collective_permute(b.parameter(0, "f32[2]"), [(0, 0)])
    >>> hlo.interpret(b.build().module(), [1, 2])
    array([1., 2.], dtype=float32)
    """
    return emit(
        builder, "collective-permute", *(tuples.elements(operand) if inplace else [operand]),
        channel_id=channel_id,
        source_target_pairs=pairs_of("collective-permute", source_target_pairs),
        slice_sizes=tuple(map(tuple, slice_sizes)),
    )  # fmt: skip


@operation
def replica_id(builder: BuilderCore[XlaOp]) -> XlaOp:
    """Append the number of this replica, a u32 scalar.

    Source: "ReplicaId" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.replica_id()
    >>> hlo.interpret(b.build().module())
    array(0, dtype=uint32)
    """
    return emit(builder, "replica-id")


@operation
def partition_id(builder: BuilderCore[XlaOp], shape: ShapeLike = "u32[]") -> XlaOp:
    """Append the number of this partition.

    shape: it has to be u32[].

    Source: "PartitionID" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.partition_id()
    >>> hlo.interpret(b.build().module())
    array(0, dtype=uint32)
    """
    return emit(builder, "partition-id", shape=shape_of(shape))
