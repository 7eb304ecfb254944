"""Reading and writing of shardings and arrangements of devices as messages.

The results of readers need not be valid: callers parse their text, where the rules are.
"""

from __future__ import annotations

from typing import Any

from hlo.errors import TextError
from hlo.frontends.proto.metadata import read_metadata, write_metadata
from hlo.frontends.proto.schema import Message
from hlo.frontends.text.annotations import OpMetadata
from hlo.values.sharding import (
    AXIS_FIELDS,
    WHOLE_KINDS,
    DeviceMeshSharding,
    DimSharding,
    NamedSharding,
    ShardGroup,
    Sharding,
    TiledSharding,
    TupleSharding,
    WholeSharding,
)
from hlo.values.sharding.devices import AxisRef, DeviceGrid, Mesh
from hlo.values.sharding.replica_groups import GridGroups, ListedGroups, MeshGroups, ReplicaGroups


def _grid(
    dims: tuple[int, ...], ids: list[int], reshape: list[int], perm: list[int], m: Message
) -> DeviceGrid:
    if not reshape:
        if not ids:
            raise TextError("the device grid is empty", m.offset, code="bad-sharding")
        return DeviceGrid(dims, ids=tuple(ids))
    if sorted(perm) != list(range(len(reshape))) or min(reshape) < 1:
        raise TextError("the device order is not a permutation", m.offset, code="bad-sharding")
    return DeviceGrid.iota(dims, reshape, perm)


# --- meshes -------------------------------------------------------------------------------------


def _read_mesh(m: Message) -> Mesh:
    axes = m.get("axes", [])
    names = tuple(a.get("name", "") for a in axes)
    dims = tuple(a.get("size", 0) for a in axes)
    if len(set(names)) < len(names) or any(d < 1 for d in dims):
        raise TextError("a mesh with equal names, or without devices", m.offset,
                        code="bad-sharding")  # fmt: skip
    iota, ids = m.get("iota_transform"), m.get("device_ids", [])
    if iota is None and not ids:
        return Mesh(names, DeviceGrid.iota(dims))
    transform = iota or Message()
    return Mesh(
        names,
        _grid(dims, ids, transform.get("reshape_dims", []), transform.get("transpose_perm", []), m),
    )


def _write_mesh(mesh: Mesh) -> Message:
    grid = mesh.grid
    m = Message(
        axes=[Message(name=n, size=s) for n, s in zip(mesh.names, grid.dims, strict=True)],
        device_ids=list(grid.ids),
    )
    if not grid.ids and not grid.in_order:
        m["iota_transform"] = Message(
            reshape_dims=list(grid.reshape), transpose_perm=list(grid.perm)
        )
    return m


def _read_axes(items: list[Message], mesh: Mesh) -> tuple[AxisRef, ...]:
    found = []
    for m in items:
        axis = m.get("mesh_axis_index", 0)
        if not 0 <= axis < len(mesh.names):
            raise TextError(f"the mesh has no axis {axis}", m.offset, code="bad-sharding")
        part = m.get("sub_axis_info")
        if part is None:
            found.append(AxisRef(axis))
        else:
            found.append(AxisRef(axis, part.get("pre_size", 0), part.get("size", 0) or -1))
    return tuple(found)


def _write_axes(refs: tuple[AxisRef, ...]) -> list[Message]:
    found = []
    for ref in refs:
        m = Message(mesh_axis_index=ref.axis)
        if ref.size:
            m["sub_axis_info"] = Message(pre_size=ref.pre_size, size=ref.size)
        found.append(m)
    return found


# --- shardings ----------------------------------------------------------------------------------


def read_sharding(m: Message) -> Sharding:
    """Return the sharding in an OpSharding. Raises TextError."""
    kind = m.get("type", "REPLICATED")
    if kind == "TUPLE":
        return TupleSharding(tuple(read_sharding(s) for s in m.get("tuple_shardings", ())))
    if "named_sharding" in m:
        return _read_named(m["named_sharding"])
    notes = _read_notes(m)
    group = None
    if m.get("is_shard_group"):
        like = m.get("shard_group_type") == "LIKE"
        group = ShardGroup("shard_like" if like else "shard_as", m.get("shard_group_id", 0))
    if kind == "MAXIMAL":
        devices = m.get("tile_assignment_devices", [])
        if len(devices) != 1:
            raise TextError("a maximal sharding is on one device", m.offset, code="bad-sharding")
        return WholeSharding("maximal", devices[0], group, notes)
    if kind != "OTHER":
        word = str(kind).lower()
        if word not in WHOLE_KINDS:
            raise TextError(f"unknown sharding {kind}", m.offset, code="bad-sharding")
        return WholeSharding(word, None, group, notes)
    grid = _grid(
        tuple(m.get("tile_assignment_dimensions", ())), m.get("tile_assignment_devices", []),
        m.get("iota_reshape_dims", []), m.get("iota_transpose_perm", []), m,
    )  # fmt: skip
    subgroups = tuple(str(k).lower() for k in m.get("last_tile_dims", ()))
    if m.get("replicate_on_last_tile_dim"):
        subgroups = ("replicated",)
    return TiledSharding(grid, subgroups, group, notes)


def _read_notes(m: Message) -> tuple[str, ...]:
    return tuple(str(read_metadata(x))[1:-1] for x in m.get("metadata", ()))


_REDUCTIONS = {"MAX": "max", "MIN": "min"}


def _read_named(m: Message) -> Sharding:
    inside = m.sub("mesh")
    notes = _read_notes(m)
    if not inside.get("axes") and len(inside.get("device_ids", ())) == 1:
        return DeviceMeshSharding(inside["device_ids"][0], notes)
    mesh = _read_mesh(inside)
    dims = tuple(
        DimSharding(_read_axes(d.get("axes", []), mesh), d.get("is_closed", False))
        for d in m.get("dim_shardings", ())
    )
    fields = {key: _read_axes(m.get(f"{key}_axes", []), mesh) for key in AXIS_FIELDS}
    whole = tuple(AxisRef(i) for i in range(len(mesh.names)))
    if not dims:
        # If all axes are in one list, that word is written instead.
        for key in AXIS_FIELDS:
            rest = [refs for other, refs in fields.items() if other != key and refs]
            if not rest and fields[key] == (() if key == "replicated" else whole):
                return NamedSharding(mesh, key, metadata=notes)
    return NamedSharding(
        mesh, "dims", dims, fields["replicated"], fields["unreduced"], fields["manual"], notes,
        _REDUCTIONS.get(m.get("reduction_op", "SUM"), ""),
    )  # fmt: skip


def write_sharding(sharding: Sharding) -> Message:
    """Return the OpSharding of a sharding. Raises InferError if messages cannot express it."""
    match sharding:
        case TupleSharding(elements):
            return Message(type="TUPLE", tuple_shardings=[write_sharding(e) for e in elements])
        case DeviceMeshSharding(device, notes):
            named = Message(mesh=Message(device_ids=[device]), metadata=_write_notes(notes))
            return Message(named_sharding=named)
        case NamedSharding():
            return Message(named_sharding=_write_named(sharding))
        case WholeSharding():
            m = Message(type=sharding.kind.upper())
            if sharding.device is not None:
                m["tile_assignment_devices"] = [sharding.device]
        case TiledSharding(grid, subgroups):
            m = Message(type="OTHER", tile_assignment_dimensions=list(grid.dims))
            if grid.ids:
                m["tile_assignment_devices"] = list(grid.ids)
            else:
                m["iota_reshape_dims"] = list(grid.reshape)
                m["iota_transpose_perm"] = list(grid.perm)
            if subgroups == ("replicated",):
                m["replicate_on_last_tile_dim"] = True
            else:
                m["last_tile_dims"] = [k.upper() for k in subgroups]
        case _:
            raise AssertionError(sharding)
    if sharding.group is not None:
        like = sharding.group.kind == "shard_like"
        m.update(is_shard_group=True, shard_group_id=sharding.group.id,
                 shard_group_type="LIKE" if like else "AS")  # fmt: skip
    m["metadata"] = _write_notes(sharding.metadata)
    return m


def _write_notes(notes: tuple[str, ...]) -> list[Message]:
    return [write_metadata(OpMetadata(text="{" + n + "}")) for n in notes]


def _write_named(sharding: NamedSharding) -> Message:
    m = Message(
        mesh=_write_mesh(sharding.mesh),
        dim_shardings=[
            Message(axes=_write_axes(d.axes), is_closed=d.closed) for d in sharding.dims
        ],
        metadata=_write_notes(sharding.metadata),
    )
    if sharding.reduction:
        m["reduction_op"] = sharding.reduction.upper()
    for key in AXIS_FIELDS:
        refs = getattr(sharding, key)
        if sharding.kind == key != "replicated":
            refs = tuple(AxisRef(i) for i in range(len(sharding.mesh.names)))
        m[f"{key}_axes"] = _write_axes(refs)
    return m


# --- replica groups -----------------------------------------------------------------------------


def read_groups(m: Message) -> ReplicaGroups:
    """Return the replica groups of an instruction, in any of the forms. Raises TextError."""
    if "mesh_axes_replica_group_list" in m:
        inside = m["mesh_axes_replica_group_list"]
        mesh = _read_mesh(inside.sub("mesh"))
        return MeshGroups(mesh, _read_axes(inside.get("axes", []), mesh))
    elif "iota_collective_device_list" in m:
        inside = m["iota_collective_device_list"]
        dims = (inside.get("num_replica_groups", 0), inside.get("num_devices_per_group", 0))
        return GridGroups(
            _grid(dims, [], inside.get("iota_reshape_dims", []) or [0],
                  inside.get("iota_transpose_perm", []), inside)
        )  # fmt: skip
    # Older instructions have the groups themselves instead of a list of devices.
    listed = m["collective_device_list"] if "collective_device_list" in m else m
    groups = listed.get("replica_groups", ())
    return ListedGroups(tuple(tuple(g.get("replica_ids", ())) for g in groups))


def write_groups(groups: ReplicaGroups, m: Message) -> None:
    """Write replica groups into an instruction."""
    if isinstance(groups, MeshGroups):
        m["mesh_axes_replica_group_list"] = Message(
            mesh=_write_mesh(groups.mesh), axes=_write_axes(groups.axes)
        )
    elif isinstance(groups, GridGroups):
        count, size = groups.grid.dims
        m["iota_collective_device_list"] = Message(
            num_replica_groups=count, num_devices_per_group=size,
            iota_reshape_dims=list(groups.grid.reshape), iota_transpose_perm=list(groups.grid.perm),
        )  # fmt: skip
    else:
        listed: list[Any] = [Message(replica_ids=list(g)) for g in groups.lists()]
        m["collective_device_list"] = Message(replica_groups=listed)
