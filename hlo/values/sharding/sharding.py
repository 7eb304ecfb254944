"""Shardings: which devices hold which part of a value.

Text: `{replicated}`, `{maximal device=0}`, `{devices=[2,2]<=[4]}`, `{mesh['x'=2], [{'x'},{}]}`,
and tuples `{{...},{...}}` with one sharding for each leaf. Source: XLA's
`xla/hlo/ir/hlo_sharding.h` and `named_sharding.h`, and the text that its parser and printer
exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlo.errors import InferError
from hlo.values.sharding.devices import AxisRef, DeviceGrid, Mesh
from hlo.values.types import ArrayShape, Shape

# Kinds of shardings that do not cut the value.
WHOLE_KINDS = ("replicated", "manual", "unreduced", "unknown")
SUBGROUP_KINDS = ("replicated", "manual", "unreduced", "maximal")
# How a mesh sharding may use the axes that cut no dimension.
AXIS_FIELDS = ("replicated", "unreduced", "manual")

Metadata = tuple[str, ...]
"""The metadata of a sharding: the text between the braces of each entry, kept as written."""


def _fail(message: str, code: str = "bad-sharding") -> InferError:
    return InferError(message, attr="sharding", code=code)


def _metadata_string(metadata: Metadata, *, listed: bool) -> str:
    entries = ["{" + m + "}" for m in metadata]
    body = entries[0] if len(entries) == 1 and not listed else "{" + ", ".join(entries) + "}"
    return f"metadata={body}"


class Sharding:
    """How a value is distributed over devices."""

    __slots__ = ()

    def check(self, shape: Shape, num_devices: int | None = None) -> None:
        """Raise InferError unless this is a sharding of `shape` over `num_devices` (None: any).

        A sharding that is not a tuple applies to each leaf of a tuple shape.
        """
        for _, leaf in shape.leaves():
            if not leaf.is_token:
                self.check_leaf(leaf, num_devices)

    def check_leaf(self, shape: Shape, num_devices: int | None) -> None:
        """Raise InferError unless this shards one shape that is not a tuple."""


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """Values of one group are sharded the same way (`shard_as`) or alike (`shard_like`)."""

    kind: str
    id: int

    def __str__(self) -> str:
        return f" {self.kind} {self.id}"


@dataclass(frozen=True, slots=True)
class WholeSharding(Sharding):
    """A sharding that does not cut the value: one of `WHOLE_KINDS`, or `maximal` on one device."""

    kind: str
    device: int | None = None
    group: ShardGroup | None = None
    metadata: Metadata = ()

    def check_leaf(self, shape: Shape, num_devices: int | None) -> None:
        if self.device is not None and num_devices is not None and self.device >= num_devices:
            raise _fail(f"device {self.device} is not one of the {num_devices} devices")

    def __str__(self) -> str:
        device = "" if self.device is None else f" device={self.device}"
        notes = " " + _metadata_string(self.metadata, listed=False) if self.metadata else ""
        return f"{{{self.kind}{device}{self.group or ''}{notes}}}"


@dataclass(frozen=True, slots=True)
class TiledSharding(Sharding):
    """A sharding that cuts the value into tiles, one for each position in a grid of devices.

    The first dimensions of the grid are those of the value. The rest are subgroups: `subgroups` has
    the kind of each.
    """

    grid: DeviceGrid
    subgroups: tuple[str, ...] = ()
    group: ShardGroup | None = None
    metadata: Metadata = ()

    @property
    def tiles(self) -> tuple[int, ...]:
        """Number of parts that each dimension of the value is cut into."""
        return self.grid.dims[: len(self.grid.dims) - len(self.subgroups)]

    def check_leaf(self, shape: Shape, num_devices: int | None) -> None:
        if not isinstance(shape, ArrayShape) or shape.rank != len(self.tiles):
            raise _fail(f"sharding {self} cuts {len(self.tiles)} dimensions, the value is {shape}")
        ids = self.grid.ids
        if len(set(ids)) != len(ids):
            raise _fail(f"sharding {self} names a device twice")
        if num_devices is None:
            return
        if ids and not 0 <= min(ids) <= max(ids) < num_devices:
            raise _fail(
                f"sharding {self} names a device that is not there: there are {num_devices}"
            )
        if self.grid.size != num_devices:
            raise _fail(
                f"sharding {self} is over {self.grid.size} devices, there are {num_devices}"
            )

    def __str__(self) -> str:
        kinds = ""
        if self.subgroups == ("replicated",):
            kinds = " last_tile_dim_replicate"
        elif self.subgroups:
            kinds = f" last_tile_dims={{{', '.join(self.subgroups)}}}"
        notes = " " + _metadata_string(self.metadata, listed=False) if self.metadata else ""
        return f"{{devices={self.grid}{kinds}{self.group or ''}{notes}}}"


@dataclass(frozen=True, slots=True)
class DimSharding:
    """The mesh axes that cut one dimension; an open one may be cut further by propagation."""

    axes: tuple[AxisRef, ...] = ()
    closed: bool = True

    def to_string(self, mesh: Mesh) -> str:
        parts = [*map(mesh.axis_string, self.axes), *(() if self.closed else ("?",))]
        return "{" + ", ".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class NamedSharding(Sharding):
    """A sharding by axes of a mesh. `kind` is one of replicated, unreduced, manual, or `dims`.

    reduction: how unreduced values are combined, max or min; empty for their sum.
    """

    mesh: Mesh
    kind: str = "dims"
    dims: tuple[DimSharding, ...] = ()
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()
    manual: tuple[AxisRef, ...] = ()
    metadata: Metadata = ()
    reduction: str = ""

    def check_leaf(self, shape: Shape, num_devices: int | None) -> None:
        size = self.mesh.grid.size
        if num_devices is not None and size > num_devices:
            raise _fail(f"mesh {self.mesh} has {size} devices, there are {num_devices}")
        if self.kind == "dims" and self.dims:
            if not isinstance(shape, ArrayShape) or shape.rank != len(self.dims):
                raise _fail(
                    f"sharding {self} cuts {len(self.dims)} dimensions, the value is {shape}"
                )

    def __str__(self) -> str:
        parts = [str(self.mesh)]
        if self.kind == "dims":
            parts.append("[" + ", ".join(d.to_string(self.mesh) for d in self.dims) + "]")
            for key in AXIS_FIELDS:
                refs = getattr(self, key)
                if refs:
                    reduction = self.reduction if key == "unreduced" else ""
                    axes = ", ".join(map(self.mesh.axis_string, refs))
                    parts.append(f"{key}={reduction}{{{axes}}}")
        else:
            parts.append(f"{self.kind}={self.reduction}" if self.reduction else self.kind)
        if self.metadata:
            parts.append(_metadata_string(self.metadata, listed=True))
        return "{" + ", ".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class DeviceMeshSharding(Sharding):
    """The whole value on one device, in the form of named shardings."""

    device: int
    metadata: Metadata = ()

    def check_leaf(self, shape: Shape, num_devices: int | None) -> None:
        if num_devices is not None and self.device >= num_devices:
            raise _fail(f"device {self.device} is not one of the {num_devices} devices")

    def __str__(self) -> str:
        notes = ", " + _metadata_string(self.metadata, listed=True) if self.metadata else ""
        return f"{{maximal_mesh[device_id={self.device}]{notes}}}"


def for_leaves(sharding: Sharding, shape: Shape) -> Sharding:
    """Return the canonical form of a sharding: for a tuple, one for each leaf, as in XLA."""
    if not shape.is_tuple or isinstance(sharding, TupleSharding):
        return sharding
    return TupleSharding((sharding,) * max(1, sum(1 for _ in shape.leaves())))


@dataclass(frozen=True, slots=True)
class TupleSharding(Sharding):
    """One sharding for each leaf of a tuple shape, in order."""

    elements: tuple[Sharding, ...]

    def check(self, shape: Shape, num_devices: int | None = None) -> None:
        if not shape.is_tuple:
            raise _fail(f"a tuple sharding is on a value of shape {shape}")
        leaves = [leaf for _, leaf in shape.leaves()]
        # An empty tuple may have a single sharding, of the tuple itself.
        if len(leaves) != len(self.elements) and not (not leaves and len(self.elements) == 1):
            raise _fail(
                f"the sharding has {len(self.elements)} elements, "
                f"the value has {len(leaves)} leaves"
            )
        for element, leaf in zip(self.elements, leaves, strict=False):
            element.check(leaf, num_devices)

    def __str__(self) -> str:
        parts = [
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + str(e)
            for i, e in enumerate(self.elements)
        ]
        return "{" + ", ".join(parts) + "}"
