"""Appends instructions of the partitioned program: what each device computes and exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_reducer
from hlo.ops import Trait
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.sharding import Sharding
from hlo.values.sharding.devices import DeviceGrid
from hlo.values.sharding.replica_groups import GridGroups, ListedGroups, ReplicaGroups
from hlo.values.types import PRED, S32, ArrayShape, ElementType, Shape, TupleShape, array


@dataclass(frozen=True, slots=True)
class Note:
    """A copy of a whole array on each device that the partitioner could not avoid.

    Attributes:
        instruction: the instruction of the original program that needs it.
        shape: of the array that is replicated.
        source: how it was distributed.
        reason: why.
        bytes: of the array, on each device.
    """

    instruction: str
    shape: ArrayShape
    source: Sharding
    reason: str
    bytes: int

    def __str__(self) -> str:
        shape = self.shape.to_string(False)
        return (f"{self.instruction}: {shape} with sharding {self.source} is replicated, "
                f"{self.bytes} bytes on each device: {self.reason}")  # fmt: skip


@dataclass
class Reshard:
    """A change of an array's distribution.

    Attributes:
        instruction: of the original program, which the array is the result of.
        user: the one that it is changed for; an array may be changed for itself.
        computation: that the user is in.
        bytes: of the results of the collectives that it takes, on one device.
    """

    instruction: str
    user: str
    computation: str
    shape: ArrayShape
    source: PartitionSpec
    target: PartitionSpec
    bytes: int


Resharder = Callable[["SpmdBuilder", Sharded, PartitionSpec], Sharded]


@dataclass
class Program:
    """What the computations of one partitioned module share.

    Attributes:
        module: the module being written.
        mesh: its devices.
        resharder: writes the collectives of a change of distribution:
            `hlo.spmd.redistribution.reshard`.
        notes: the replications that could not be avoided.
        reshards: all changes of distribution.
        collectives: what devices exchange, with the instruction of the original program that it is
            for.
    """

    module: Module
    mesh: DeviceMesh
    resharder: Resharder
    notes: list[Note] = field(default_factory=list)
    reshards: list[Reshard] = field(default_factory=list)
    collectives: list[tuple[Instruction, Instruction]] = field(default_factory=list)
    _channel: int = 0
    _reducers: dict[tuple[str, ElementType], Computation] = field(default_factory=dict)

    def next_channel(self) -> int:
        """Return a channel that no other collective has."""
        self._channel += 1
        return self._channel

    def reserve_channels(self, used: int) -> None:
        """Leave out channels up to a number."""
        self._channel = max(self._channel, used)

    def reducer(self, opcode: str, et: ElementType) -> Computation:
        """Return a computation of a binary operation on scalars, the same for the same request."""
        key = opcode, et
        if key not in self._reducers:
            name = f"{opcode}.{et.name}"
            self._reducers[key] = self.module.add(build_reducer(opcode, et, name=name))
        return self._reducers[key]


class SpmdBuilder(Builder):
    """Appends to a computation of the partitioned program.

    original: the instruction of the original program that is being partitioned: what is appended
    has its metadata, and notes name it.
    values: of the instructions of the original computation that have been partitioned already.
    """

    def __init__(self, comp: Computation, program: Program) -> None:
        super().__init__(comp)
        self.program = program
        self.mesh = program.mesh
        self.values: dict[Instruction, Value] = {}
        self._original: Instruction | None = None
        self._tables: dict[bytes, Instruction] = {}
        self._partition_id: Instruction | None = None
        self._resharded: dict[tuple[Instruction, PartitionSpec], Sharded] = {}

    @property
    def original(self) -> Instruction:
        """The instruction that is being partitioned."""
        assert self._original is not None
        return self._original

    @original.setter
    def original(self, inst: Instruction) -> None:
        self._original = self.like = inst

    def append(self, inst: Instruction) -> Instruction:
        """Append an instruction that has been made already. Its sharding is that of the whole, and
        goes."""
        inst.annotations.pop("sharding", None)
        return self._add(inst)

    # --- tuples -----------------------------------------------------------------------------------

    def local_shape(self, shape: Shape, specs: Iterator[PartitionSpec]) -> Shape:
        """Return what a device has of a shape whose leaves are distributed by given specs."""
        if isinstance(shape, TupleShape):
            return TupleShape(tuple(self.local_shape(s, specs) for s in shape.elements))
        spec = next(specs)
        return self.mesh.local_shape(shape, spec) if isinstance(shape, ArrayShape) else shape

    def packed(self, value: Value) -> Instruction:
        """Return a value as one instruction: its tuples are made."""
        if isinstance(value, tuple):
            return self.tuple(*(self.packed(v) for v in value))
        return value.local

    def unpacked(self, whole: Instruction, shape: Shape, specs: Iterator[PartitionSpec]) -> Value:
        """Return the value of an instruction, with its tuples taken apart.

        shape: in the original program. specs: of its leaves.
        """
        if isinstance(shape, TupleShape):
            return tuple(
                self.unpacked(self.element(whole, n), element, specs)
                for n, element in enumerate(shape.elements)
            )
        spec = next(specs)
        return Sharded(whole, spec, shape) if isinstance(shape, ArrayShape) else Unsharded(whole)

    def _add(self, inst: Instruction) -> Instruction:
        if inst.spec.has(Trait.COLLECTIVE):
            self.program.collectives.append((self.original, inst))
        return super()._add(inst)

    # --- where a device is ------------------------------------------------------------------------

    def partition_id(self) -> Instruction:
        """Return the number of this device among the partitions: u32[]."""
        if self._partition_id is None:
            self._partition_id = self.op("partition-id")
        return self._partition_id

    def table(self, per_device: np.ndarray) -> Instruction:
        """Return this device's entry of an array of one number for each device: s32[].

        A constant where all entries are equal.
        """
        entries = np.asarray(per_device, np.int32)
        if np.all(entries == entries[0]):
            return self.constant(S32, entries[0])
        key = entries.tobytes()
        if key not in self._tables:
            listed = self.constant(S32, entries)
            entry = self.op("dynamic-slice", listed, self.partition_id(), dynamic_slice_sizes=(1,))
            self._tables[key] = self.reshape(entry, ())
        return self._tables[key]

    def coordinate(self, axes: Axes) -> Instruction:
        """Return the coordinate of this device along axes, the first one major: s32[]."""
        return self.table(self.mesh.coordinates(axes))

    def offset(self, size: int, axes: Axes) -> Instruction:
        """Return where this device's shard of a dimension begins: s32[]."""
        return self.table(self.mesh.coordinates(axes) * self.mesh.shard_size(size, axes))

    def index(self, value: Sharded, dim: int, dims: Sequence[int] | None = None) -> Instruction:
        """Return the index along a dimension of the whole array of each element of a shard.

        dims: those of the result, s32; by default the shard's.
        """
        shape = array(S32, value.local.array_shape.dims if dims is None else dims)
        along = self.op("iota", shape=shape, iota_dimension=dim)
        axes = value.spec.dims[dim]
        if not axes:
            return along
        start = self.broadcast(self.offset(value.shape.dims[dim], axes), shape)
        return self.op("add", along, start)

    # --- padding ----------------------------------------------------------------------------------

    def padded_dims(self, value: Sharded) -> list[int]:
        """Return the dimensions in which some shards have padding."""
        return [
            d for d, (size, axes) in enumerate(zip(value.shape.dims, value.spec.dims, strict=True))
            if size % self.mesh.count(axes)
        ]  # fmt: skip

    def masked(
        self, value: Sharded, fill: Instruction | float | bool, dims: Sequence[int] | None = None
    ) -> Sharded:
        """Return a value whose padding along dimensions, by default all, is `fill`.

        fill: a number, or a scalar of the value's type.
        """
        padded = [d for d in self.padded_dims(value) if dims is None or d in dims]
        if not padded:
            return value
        local = value.local
        shape = local.array_shape
        inside: Instruction | None = None
        for dim in padded:
            end = self.filled(S32, shape.dims, value.shape.dims[dim])
            part = self.op("compare", self.index(value, dim), end, direction="LT",
                           shape=array(PRED, shape.dims))  # fmt: skip
            inside = part if inside is None else self.op("and", inside, part)
        if not isinstance(fill, Instruction):
            fill = self.constant(shape.element_type, fill)
        assert inside is not None
        filled = self.broadcast(fill, shape)
        return replace(value, local=self.op("select", inside, local, filled, shape=shape))

    # --- exchange ---------------------------------------------------------------------------------

    def groups(self, axes: Axes) -> ReplicaGroups:
        """Return the groups of devices along axes, for all replicas, by global device numbers."""
        mesh = self.mesh
        if mesh.replicas == 1 and not mesh.order and mesh.sizes:
            rest = tuple(a for a in mesh.axes if a not in axes)
            dims = (mesh.count(rest), mesh.count(axes))
            return GridGroups(DeviceGrid.iota(dims, mesh.sizes, (*rest, *axes)))
        return ListedGroups(
            tuple(
                tuple(r * mesh.size + d for d in group)
                for r in range(mesh.replicas)
                for group in mesh.groups(axes)
            )
        )

    def _partition_groups(self, axes: Axes) -> ReplicaGroups:
        """Return the groups by partition, for collectives that do not take global numbers."""
        return ListedGroups(tuple(map(tuple, self.mesh.groups(axes))))

    def all_reduce(
        self, x: Instruction, axes: Axes, computation: Computation | str = "add"
    ) -> Instruction:
        """Reduce over the devices along axes. computation: or the opcode of one."""
        if self.mesh.count(axes) == 1:
            return x
        return self.op(
            "all-reduce", x, shape=x.shape, to_apply=self._reducer(computation, x),
            replica_groups=self.groups(axes), use_global_device_ids=True,
            channel_id=self.program.next_channel(),
        )  # fmt: skip

    def reduce_scatter(
        self, x: Instruction, dim: int, axes: Axes, computation: Computation | str = "add"
    ) -> Instruction:
        """Reduce over the devices along axes, of which each gets its part of a dimension.

        The size of the dimension is a multiple of their number.
        """
        count = self.mesh.count(axes)
        if count == 1:
            return x
        shape = x.array_shape
        return self.op(
            "reduce-scatter", x, shape=resized(shape, dim, shape.dims[dim] // count),
            to_apply=self._reducer(computation, x), replica_groups=self.groups(axes),
            use_global_device_ids=True, channel_id=self.program.next_channel(), dimensions=(dim,),
        )  # fmt: skip

    def all_gather(self, x: Instruction, dim: int, axes: Axes) -> Instruction:
        """Concatenate, along a dimension, what the devices along axes have."""
        count = self.mesh.count(axes)
        if count == 1:
            return x
        shape = x.array_shape
        return self.op(
            "all-gather", x, shape=resized(shape, dim, shape.dims[dim] * count),
            replica_groups=self.groups(axes), use_global_device_ids=True,
            channel_id=self.program.next_channel(), dimensions=(dim,),
        )  # fmt: skip

    def exchange(self, x: Instruction, dim: int, axes: Axes) -> Instruction:
        """Send part n of a dimension to the nth device along axes: an all-to-all.

        The dimension, whose size is a multiple of their number, has the parts received, in the
        order of the devices. `hlo.spmd.redistribution.blocks.all_to_all` joins another dimension.
        """
        if self.mesh.count(axes) == 1:
            return x
        return self.op(
            "all-to-all", x, shape=x.shape, replica_groups=self._partition_groups(axes),
            channel_id=self.program.next_channel(), dimensions=(dim,),
        )  # fmt: skip

    def permute(self, x: Instruction, pairs: Sequence[tuple[int, int]]) -> Instruction:
        """Send from devices to devices, pairs of partitions; zeros where nothing arrives."""
        return self.op(
            "collective-permute", x, shape=x.shape, source_target_pairs=tuple(pairs),
            channel_id=self.program.next_channel(),
        )  # fmt: skip

    def shift(self, x: Instruction, axes: Axes, by: int) -> Instruction:
        """Return what the device has whose coordinate along axes is greater by `by`; else zeros."""
        pairs = []
        for group in self.mesh.groups(axes):
            for place, device in enumerate(group):
                if 0 <= place + by < len(group):
                    pairs.append((group[place + by], device))
        return self.permute(x, pairs) if pairs else self.zeros(x.array_shape)

    def _reducer(self, computation: Computation | str, x: Instruction) -> Computation:
        if isinstance(computation, Computation):
            return computation
        return self.program.reducer(computation, x.array_shape.element_type)

    # --- distribution -----------------------------------------------------------------------------

    def reshard(self, value: Sharded, spec: PartitionSpec) -> Sharded:
        """Return a value distributed by another spec; the same for the same request."""
        if value.spec == spec:
            return value
        key = value.local, spec
        if key not in self._resharded:
            self._resharded[key] = self.program.resharder(self, value, spec)
        return self._resharded[key]

    def replicated(self, value: Sharded, reason: str = "") -> Sharded:
        """Return a value that each device has all of, along the axes that are not manual.

        reason: why the instruction cannot do with less, for the report; without one, it is small
        or asked for.
        """
        spec = PartitionSpec.replicated(value.shape.rank, value.spec.manual)
        if reason and value.spec != spec:
            self.note(value, reason)
        return self.reshard(value, spec)

    def note(self, value: Sharded, reason: str) -> None:
        """Note that each device is going to have all of a value."""
        self.program.notes.append(
            Note(
                self.original.name, value.shape, self.mesh.tiles(value.spec), reason,
                value.shape.byte_size,
            )
        )  # fmt: skip

    def sharded(
        self, local: Instruction, spec: PartitionSpec, shape: ArrayShape | None = None
    ) -> Sharded:
        """Return an instruction's result as a value; by default of the original's shape."""
        return Sharded(local, spec, shape or self.original.array_shape)


def resized(shape: ArrayShape, dim: int, size: int) -> ArrayShape:
    """Return a shape with another size of one dimension."""
    return replace(shape, dims=(*shape.dims[:dim], size, *shape.dims[dim + 1 :]))
