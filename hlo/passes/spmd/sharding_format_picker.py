"""Rewriting of shardings in another of the three formats that text has for them.

Source: XLA's `sharding_format_picker.cc`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from hlo.errors import HloError, did_you_mean
from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.sharding import (
    DeviceMeshSharding,
    DimSharding,
    NamedSharding,
    Sharding,
    TiledSharding,
    TupleSharding,
    WholeSharding,
)
from hlo.values.sharding.devices import AxisRef, DeviceGrid, Mesh
from hlo.values.sharding.named import named_as_tiles
from hlo.values.types import ArrayShape, Shape

_FORMATS = ("v1", "v2", "named")


@module_pass
def sharding_format_picker(module: Module, rewrites: Rewrites, *, format: str = "v2") -> None:
    """Write shardings with listed devices (v1), with iotas (v2), or by axes of a mesh (named).

    What a format cannot say stays as it is.
    """
    if format not in _FORMATS:
        hint = did_you_mean(format, _FORMATS) or "one of " + ", ".join(_FORMATS)
        raise HloError.at(
            "bad-pass-option", f"sharding-format-picker has no format {format!r}", hint=hint
        )
    devices = math.prod(module.device_counts)
    for inst in module.instructions():
        old = inst.annotations.get("sharding")
        if old is None:
            continue
        new = _converted(old, inst.shape, format, devices)
        if new != old and rewrites.allow("sharding_format_picker", inst):
            inst.annotations["sharding"] = new


def _converted(sharding: Sharding, shape: Shape, form: str, devices: int) -> Sharding:
    if isinstance(sharding, TupleSharding):
        leaves = [leaf for _, leaf in shape.leaves()]
        if len(leaves) != len(sharding.elements):
            return sharding
        pairs = zip(sharding.elements, leaves, strict=True)
        return TupleSharding(tuple(_converted(e, leaf, form, devices) for e, leaf in pairs))
    if form == "named":
        return _named(sharding, devices)
    if isinstance(sharding, NamedSharding) and isinstance(shape, ArrayShape):
        if sharding.reduction or any(not d.closed for d in sharding.dims):
            return sharding
        tiles = named_as_tiles(sharding, shape.rank)
        assert isinstance(tiles, TiledSharding | WholeSharding)
        sharding = replace(tiles, metadata=sharding.metadata)
    elif isinstance(sharding, DeviceMeshSharding):
        sharding = WholeSharding("maximal", sharding.device, metadata=sharding.metadata)
    if not isinstance(sharding, TiledSharding):
        return sharding
    grid = sharding.grid
    listed = tuple(grid.array().reshape(-1).tolist())
    if form == "v1":
        return replace(sharding, grid=DeviceGrid(grid.dims, ids=listed))
    return replace(sharding, grid=_iota(grid.dims, listed) or grid)


def _iota(dims: tuple[int, ...], ids: tuple[int, ...]) -> DeviceGrid | None:
    """Return a grid of numbers as `0, 1, ...` reshaped and transposed, if they are that."""
    digits: list[tuple[int, int]] = []  # step between numbers and their count, minor to major
    done, total = 1, len(ids)
    while done < total:
        step, count = ids[done] - ids[0], 1
        while count * done < total and ids[count * done] == ids[0] + count * step:
            count += 1
        if total % (done * count):
            return None
        digits.append((step, count))
        done *= count
    digits.reverse()
    order = sorted(range(len(digits)), key=lambda i: -digits[i][0])
    place = {digit: at for at, digit in enumerate(order)}
    grid = DeviceGrid.iota(
        dims,
        [digits[i][1] for i in order] or [1],
        [place[i] for i in range(len(digits))] or [0],
    )
    return grid if tuple(grid.array().reshape(-1).tolist()) == ids else None


# --- named ----------------------------------------------------------------------------------------


def _named(sharding: Sharding, devices: int) -> Sharding:
    if isinstance(sharding, WholeSharding) and sharding.group is None:
        if sharding.kind == "replicated":
            return NamedSharding(_mesh(()), "replicated", metadata=sharding.metadata)
        if sharding.kind in ("manual", "unreduced"):
            return NamedSharding(_mesh((devices,)), sharding.kind, metadata=sharding.metadata)
        if sharding.device is not None:
            return DeviceMeshSharding(sharding.device, sharding.metadata)
    if isinstance(sharding, TiledSharding) and sharding.group is None:
        return _by_axes(sharding)
    return sharding


def _by_axes(sharding: TiledSharding) -> Sharding:
    """Return a tiled sharding by axes of a mesh, which is in order if the grid is an iota."""
    grid = sharding.grid
    listed = tuple(grid.array().reshape(-1).tolist())
    repeats = len(set(sharding.subgroups)) != len(sharding.subgroups)
    if repeats or sorted(listed) != list(range(len(listed))):
        return sharding
    axes: list[tuple[AxisRef, ...]]
    parts = _common_parts(_iota(grid.dims, listed) or grid)
    if parts is None:
        # The axes of the mesh are the dimensions of the grid.
        mesh = _mesh(grid.dims, listed)
        axes = [(AxisRef(d),) if size > 1 else () for d, size in enumerate(grid.dims)]
    else:
        order = sorted(parts, key=lambda part: part.place)
        mesh = _mesh(tuple(part.size for part in order))
        axes = [
            tuple(AxisRef(order.index(part)) for part in parts if part.dim == d)
            for d in range(len(grid.dims))
        ]
    rank = len(sharding.tiles)
    groups = dict(zip(sharding.subgroups, axes[rank:], strict=True))
    return NamedSharding(
        mesh, "dims", tuple(map(DimSharding, axes[:rank])), metadata=sharding.metadata,
        unreduced=groups.get("unreduced", ()), manual=groups.get("manual", ()),
    )  # fmt: skip


class _Part(NamedTuple):
    """What a dimension of a grid has in common with one of the iota that it is made of.

    dim: of the grid. place: the dimension of the iota, and how many parts of it come before.
    """

    dim: int
    place: tuple[int, int]
    size: int


def _common_parts(grid: DeviceGrid) -> list[_Part] | None:
    """Return the parts of a grid, major to minor; None if there are no common ones."""
    if grid.ids:
        return None
    parts: list[_Part] = []
    dims = [(d, size) for d, size in enumerate(grid.dims) if size > 1]
    sources = [(p, grid.reshape[p]) for p in grid.perm if grid.reshape[p] > 1]
    before: dict[int, int] = {}
    while dims:
        (d, wanted), (source, left) = dims[0], sources[0]
        size = min(wanted, left)
        if max(wanted, left) % size:
            return None
        parts.append(_Part(d, (source, before.get(source, 0)), size))
        before[source] = before.get(source, 0) + 1
        dims[:1] = [(d, wanted // size)] if wanted > size else []
        sources[:1] = [(source, left // size)] if left > size else []
    return parts


def _mesh(dims: tuple[int, ...], ids: tuple[int, ...] = ()) -> Mesh:
    grid = DeviceGrid(dims, ids=ids) if ids else DeviceGrid.iota(dims)
    return Mesh(tuple(f"axis_{n}" for n in range(len(dims))), grid)
