"""Shardings: which devices hold which part of a value.

Text: `{replicated}`, `{maximal device=0}`, `{devices=[2,2]<=[4]}`, `{mesh['x'=2], [{'x'},{}]}`,
and tuples `{{...},{...}}` with one sharding for each leaf. Source: XLA's
`xla/hlo/ir/hlo_sharding.h` and `named_sharding.h`, and the text that its parser and printer
exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from hlo.devices import (
    AxisRef,
    DeviceGrid,
    Mesh,
    check_axis_refs,
    check_not_mergeable,
    read_axis_ref,
    read_axis_refs,
    read_grid,
    read_mesh,
)
from hlo.errors import InferError, TextError
from hlo.scan import Scanner
from hlo.types import ArrayShape, Shape

# Each says how all devices relate to the whole value.
WHOLE_KINDS = ("replicated", "manual", "unreduced", "unknown")
SUBGROUP_KINDS = ("replicated", "manual", "unreduced", "maximal")

Metadata = tuple[str, ...]
"""The metadata of a sharding: the text between the braces of each entry, kept as written."""


def _fail(message: str, code: str = "bad-sharding") -> InferError:
    return InferError(message, attr="sharding", code=code)


def _metadata_string(metadata: Metadata, *, listed: bool) -> str:
    entries = ["{" + m + "}" for m in metadata]
    body = entries[0] if len(entries) == 1 and not listed else "{" + ", ".join(entries) + "}"
    return f"metadata={body}"


class Sharding:
    """How a value is spread over devices."""

    __slots__ = ()

    def check(self, shape: Shape, num_devices: int | None = None) -> None:
        """Raise InferError unless this is a sharding of `shape` over `num_devices` (None: any).

        A sharding that is not a tuple holds for each leaf of a tuple shape.
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
    """A sharding that cuts the value into tiles, one for each place of a grid of devices.

    The first dimensions of the grid are those of the value. Each of the rest says how the devices
    along it relate: `subgroups` has one kind for each.
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
        if self.grid.size != num_devices or (ids and max(ids) >= num_devices):
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

    reduction: what makes one value of unreduced parts, max or min; empty for their sum.
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
            for key in _AXIS_FIELDS:
                refs = getattr(self, key)
                if refs:
                    reduction = self.reduction if key == "unreduced" else ""
                    axes = ", ".join(map(self.mesh.axis_string, refs))
                    parts.append(f"{key}={reduction}{{{axes}}}")
        else:
            parts.append(self.kind)
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


@dataclass(frozen=True, slots=True)
class TupleSharding(Sharding):
    """One sharding for each leaf of a tuple shape, in order."""

    elements: tuple[Sharding, ...]

    def check(self, shape: Shape, num_devices: int | None = None) -> None:
        if not shape.is_tuple:
            raise _fail(f"a tuple sharding is on a value of shape {shape}")
        leaves = [leaf for _, leaf in shape.leaves()]
        # An empty tuple may have a single sharding, which stands for the tuple itself.
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


# --- reading ------------------------------------------------------------------------------------

_AXIS_FIELDS = ("replicated", "unreduced", "manual")
_T = TypeVar("_T")
_REDUCTIONS = ("max", "min")
_WORDS = (*WHOLE_KINDS, "maximal", "last_tile_dim_replicate", "shard_as", "shard_like")
_FIELDS = ("device", "devices", "last_tile_dims", "metadata")


def _read_metadata(s: Scanner) -> Metadata:
    """Read `{...}` or `{{...},{...}}` and return what stands between the innermost braces."""
    s.expect("{")
    return _read_group(s, _read_entry) if s.peek("{") else (_read_entry(s),)


def _read_group(s: Scanner, read_rest: Callable[[Scanner], _T]) -> tuple[_T, ...]:
    """Read the rest of `{{...},{...}}`. read_rest: reads one element from behind its brace."""
    elements: list[_T] = []
    while not s.accept("}"):
        if elements:
            s.expect(",")
        s.expect("{")
        elements.append(read_rest(s))
    return tuple(elements)


def _read_entry(s: Scanner) -> str:
    """Read the rest of one entry, `key=value key=value}`, and return its text without the brace."""
    fields: list[str] = []
    while not s.accept("}"):
        start = s.pos
        s.ident("a metadata field")
        s.expect("=")
        if s.peek('"') or s.peek("'"):
            s.string()
        elif s.peek("{"):
            s.integers()
        elif s.text[s.pos : s.pos + 1].isalpha():
            s.ident()
        else:
            s.integer()
        fields.append(s.text[start : s.pos].strip())
        s.accept(",")
    return " ".join(fields)


def _read_dim(s: Scanner, mesh: Mesh) -> DimSharding:
    s.expect("{")
    axes: list[AxisRef] = []
    while not s.accept("}"):
        if axes:
            s.expect(",")
        if s.accept("?"):
            s.expect("}")
            return DimSharding(tuple(axes), closed=False)
        axes.append(read_axis_ref(s, mesh))
        check_not_mergeable(s, mesh, axes)
    return DimSharding(tuple(axes))


def _read_reduction(s: Scanner) -> str:
    """Read what reduces unreduced parts, if the text says. Newer XLA than jaxlib's writes it."""
    if s.peek("{"):
        return ""
    at = s.pos
    word = s.ident("max, min or axes in braces")
    if word not in _REDUCTIONS:
        raise TextError(f"unknown reduction {word!r}", at, code="bad-value",
                        hint="one of " + ", ".join(_REDUCTIONS))  # fmt: skip
    return word


def _read_named(s: Scanner) -> Sharding:
    """Read a named sharding after its opening brace."""
    if s.accept("maximal_mesh"):
        s.expect("[")
        s.expect("device_id")
        s.expect("=")
        maximal = DeviceMeshSharding(s.integer(0))
        s.expect("]")
        if s.accept(","):
            s.expect("metadata")
            s.expect("=")
            maximal = replace(maximal, metadata=_read_metadata(s))
        s.expect("}")
        return maximal
    mesh = read_mesh(s, may_be_empty=True)
    s.accept(",")
    fields: dict[str, tuple[AxisRef, ...]] = {}
    metadata: Metadata = ()
    kind, reduction = "dims", ""
    dims: list[DimSharding] = []
    if s.accept("["):
        while not s.accept("]"):
            if dims:
                s.expect(",")
            dims.append(_read_dim(s, mesh))
    else:
        at = s.pos
        kind = s.ident("the sharding of each dimension, or " + " or ".join(_AXIS_FIELDS))
        if kind not in _AXIS_FIELDS:
            raise TextError(f"unknown sharding {kind!r}", at, code="bad-value")
    while not s.accept("}"):
        s.expect(",")
        at = s.pos
        key = s.ident("a field of the sharding")
        s.expect("=")
        if key == "metadata" and not metadata:
            metadata = _read_metadata(s)
        elif key in _AXIS_FIELDS and key not in fields and kind == "dims":
            if key == "unreduced":
                reduction = _read_reduction(s)
            fields[key] = read_axis_refs(s, mesh)
        else:
            raise TextError(f"unexpected sharding field {key!r}", at, code="unknown-attribute")
    used = [ref for d in dims for ref in d.axes] + [r for refs in fields.values() for r in refs]
    check_axis_refs(s, mesh, used)
    return NamedSharding(mesh, kind, tuple(dims), **fields, metadata=metadata, reduction=reduction)


def _read_subgroups(s: Scanner) -> tuple[str, ...]:
    s.expect("{")
    kinds: list[str] = []
    while not s.accept("}"):
        if kinds:
            s.expect(",")
        at = s.pos
        kinds.append(s.ident("a kind of subgroup"))
        if kinds[-1] not in SUBGROUP_KINDS:
            raise TextError(f"unknown subgroup kind {kinds[-1]!r}", at, code="bad-value",
                            hint="one of " + ", ".join(SUBGROUP_KINDS))  # fmt: skip
    return tuple(kinds)


def _read_single(s: Scanner) -> Sharding:
    """Read one sharding after its opening brace."""
    if s.peek("mesh") or s.peek("maximal_mesh"):
        return _read_named(s)
    start = s.pos
    kind: str | None = None
    device: int | None = None
    grid: DeviceGrid | None = None
    subgroups: tuple[str, ...] | None = None
    group: ShardGroup | None = None
    metadata: Metadata = ()
    seen: set[str] = set()
    while not s.accept("}"):
        s.accept(",")
        at = s.pos
        word = s.ident("a sharding")
        # `last_tile_dim_replicate` is short for `last_tile_dims={replicated}`.
        role = {"last_tile_dim_replicate": "last_tile_dims", "shard_like": "shard_as"}.get(
            word, word
        )
        if word in (*WHOLE_KINDS, "maximal"):
            role = "kind"
        if role in seen:
            raise TextError(f"unexpected {word!r}: the sharding is said already", at,
                            code="duplicate-attribute")  # fmt: skip
        seen.add(role)
        if word in _FIELDS:
            s.expect("=")
        if role == "kind":
            kind = word
        elif word == "device":
            device = s.integer(0)
        elif word == "devices":
            grid = read_grid(s)
        elif word == "last_tile_dim_replicate":
            subgroups = ("replicated",)
        elif word == "last_tile_dims":
            subgroups = _read_subgroups(s)
        elif word in ("shard_as", "shard_like"):
            group = ShardGroup(word, s.integer(0))
        elif word == "metadata":
            metadata = _read_metadata(s)
        else:
            hint = "one of " + ", ".join((*_WORDS, *(f + "=" for f in _FIELDS)))
            raise TextError(f"unknown sharding {word!r}", at, code="bad-value", hint=hint)
    if grid is not None and kind is None and device is None:
        kinds = subgroups or ()
        if len(kinds) > len(grid.dims):
            raise TextError(f"{len(kinds)} subgroup kinds for {len(grid.dims)} dimensions",
                            start, code="bad-value")  # fmt: skip
        return TiledSharding(grid, kinds, group, metadata)
    if kind is None or grid is not None or subgroups is not None:
        raise TextError("a sharding is one of " + ", ".join(WHOLE_KINDS) + ", maximal or devices=",
                        start, code="bad-value")  # fmt: skip
    if (kind == "maximal") != (device is not None):
        raise TextError("maximal has device=, and nothing else has", start, code="bad-value")
    return WholeSharding(kind, device, group, metadata)


def read(s: Scanner) -> Sharding:
    """Read a sharding in any of its forms. Raises TextError."""
    s.expect("{")
    if not s.peek("{") and not s.peek("}"):
        return _read_single(s)
    return TupleSharding(_read_group(s, _read_single))


def write(sharding: Sharding) -> str:
    """Return the text of a sharding."""
    return str(sharding)
