"""Meshes, and conversion of axis-based shardings to HLO's tiled ones.

Source: Shardy's dialect; XLA's `export_shardings.cc`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from hlo.errors import InferError
from hlo.frontends.stablehlo.cursor import STRING, Cursor
from hlo.values.sharding import Sharding, TiledSharding, TupleSharding, WholeSharding
from hlo.values.sharding.devices import DeviceGrid
from hlo.values.types import ArrayShape, Shape, TupleShape

_SUB_AXIS = re.compile(r":\s*\(\s*(\d{1,9})\s*\)\s*(\d{1,9})")
_PRIORITY = re.compile(r"p\d+")
_SIZE = re.compile(r"\d{1,9}")
_NUMBERS = re.compile(r"\[([\d\s,]*)\]")
_KINDS = ("replicated", "unreduced")


@dataclass(frozen=True)
class Mesh:
    """Axes with their sizes, over devices in order or in a listed order."""

    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Axis:
    """An axis, or its part of `size` that follows a major part of `pre_size` (0: all of it)."""

    name: str
    pre_size: int = 0
    size: int = 0


@dataclass(frozen=True)
class AxisSharding:
    """The axes that cut each dimension, and those whose devices have partial sums."""

    mesh: Mesh
    dims: tuple[tuple[Axis, ...], ...]
    unreduced: tuple[Axis, ...] = ()


# --- reading ------------------------------------------------------------------------------------


def read_mesh(text: str) -> Mesh:
    """Read `["x"=2, "y"=4], device_ids=[..]`. Raises TextError."""
    return _mesh(Cursor(text))


def _mesh(c: Cursor) -> Mesh:
    axes: list[tuple[str, int]] = []
    c.expect("[")
    while not c.accept("]"):
        if axes:
            c.expect(",")
        name = c.match(STRING, "the name of an axis")[1]
        c.expect("=")
        axes.append((name, int(c.match(_SIZE, "a size")[0])))
    devices: tuple[int, ...] = ()
    if c.accept(",") or c.accept("device_ids"):
        c.accept("device_ids")
        c.expect("=")
        words = c.match(_NUMBERS, "device ids")[1].split(",")
        if not all(w.strip().isdecimal() for w in words):
            c.fail("device ids are numbers", 0, code="bad-sharding")
        devices = tuple(int(w) for w in words)
    if not all(size for _, size in axes) or len({n for n, _ in axes}) != len(axes):
        c.fail("a mesh has axes of different names, of at least one device", 0, code="bad-sharding")
    count = math.prod(size for _, size in axes)
    if devices and (len(devices) != count or len(set(devices)) != count):
        c.fail(f"a mesh of {count} devices has {len(devices)} device ids", 0, code="bad-sharding")
    return Mesh(tuple(axes), devices)


def read_shardings(text: str, meshes: Mapping[str, Mesh]) -> list[AxisSharding]:
    """Read the shardings of a list, `<@mesh, [..]>, <..>`. Raises TextError."""
    c = Cursor(text.strip().removeprefix("[").removesuffix("]"))
    found: list[AxisSharding] = []
    while not c.at_end():
        if found:
            c.expect(",")
        c.expect("<")
        found.append(_sharding(c, meshes))
        c.expect(">")
    return found


def read_sharding(text: str, meshes: Mapping[str, Mesh]) -> AxisSharding:
    """Read `@mesh, [{"x"}, {?}], replicated={"y"}`. Raises TextError."""
    c = Cursor(text)
    found = _sharding(c, meshes)
    c.end()
    return found


def _sharding(c: Cursor, meshes: Mapping[str, Mesh]) -> AxisSharding:
    if c.accept("mesh"):
        c.expect("<")
        mesh = _mesh(c)
        c.expect(">")
    else:
        name = c.symbol()
        if name not in meshes:
            c.fail(f"there is no mesh @{name}", code="bad-sharding")
        mesh = meshes[name]
    c.expect(",")
    c.expect("[")
    dims: list[tuple[Axis, ...]] = []
    while not c.accept("]"):
        if dims:
            c.expect(",")
        dims.append(_axes(c, mesh))
        if c.at(_PRIORITY):
            c.match(_PRIORITY, "a priority")
    listed: dict[str, tuple[Axis, ...]] = {}
    while c.accept(","):
        kind = c.ident("replicated or unreduced")
        if kind not in _KINDS:
            c.fail(f"{kind} is not one of {', '.join(_KINDS)}", code="bad-sharding")
        c.expect("=")
        listed[kind] = _axes(c, mesh)
    return AxisSharding(mesh, tuple(dims), listed.get("unreduced", ()))


def _axes(c: Cursor, mesh: Mesh) -> tuple[Axis, ...]:
    c.expect("{")
    found: list[Axis] = []
    is_first = True
    while not c.accept("}"):
        if not is_first:
            c.expect(",")
        is_first = False
        if c.accept("?"):
            continue
        name = c.match(STRING, "the name of an axis")[1]
        if name not in dict(mesh.axes):
            c.fail(f"the mesh has no axis {name!r}", code="bad-sharding")
        part = c.match(_SUB_AXIS, "a part") if c.peek(":") else None
        found.append(Axis(name, int(part[1]), int(part[2])) if part else Axis(name))
    return tuple(found)


# --- as tiles -----------------------------------------------------------------------------------


def as_tiles(sharding: AxisSharding) -> Sharding:
    """Return the equivalent tiled sharding. Raises InferError."""
    mesh = sharding.mesh
    if not mesh.axes and mesh.devices:
        return WholeSharding("maximal", mesh.devices[0])
    used = [*(a for dim in sharding.dims for a in dim), *sharding.unreduced]
    parts = _split(mesh, used)
    place = {(name, at): i for i, (name, at, _) in enumerate(parts)}

    def pieces(axes: tuple[Axis, ...]) -> list[int]:
        """Return the positions of the parts that axes consist of."""
        found = []
        for axis in axes:
            begin, end = _range(axis, mesh)
            found += [place[name, at] for name, at, _ in parts
                      if name == axis.name and begin <= at < end]  # fmt: skip
        return found

    groups = [pieces(dim) for dim in sharding.dims]
    unreduced = pieces(sharding.unreduced)
    taken = [i for group in [*groups, unreduced] for i in group]
    if len(set(taken)) != len(taken):
        raise InferError("a sharding names an axis twice", code="bad-sharding")
    rest = [i for i in range(len(parts)) if i not in taken]

    def size(group: list[int]) -> int:
        return math.prod(parts[i][2] for i in group)

    if all(size(g) == 1 for g in groups) and (not unreduced or size(rest) == 1):
        return WholeSharding("unreduced" if unreduced else "replicated")
    ends = [
        (g, kind) for g, kind in ((unreduced, "unreduced"), (rest, "replicated")) if size(g) > 1
    ]
    dims = tuple(size(g) for g in [*groups, *(g for g, _ in ends)])
    order = [i for g in [*groups, *(g for g, _ in ends)] for i in g if parts[i][2] > 1]
    shape = [i for i in range(len(parts)) if parts[i][2] > 1]
    grid = DeviceGrid.iota(dims, [parts[i][2] for i in shape] or [1],
                           [shape.index(i) for i in order] or [0])  # fmt: skip
    if mesh.devices:
        ids = tuple(mesh.devices[i] for i in grid.array().reshape(-1).tolist())
        grid = DeviceGrid(dims, ids=ids)
    return TiledSharding(grid, tuple(kind for _, kind in ends))


def _range(axis: Axis, mesh: Mesh) -> tuple[int, int]:
    """Return the begin and end of a part in its axis, as products of major sizes."""
    whole = dict(mesh.axes)[axis.name]
    if not axis.size:
        return 1, max(whole, 2)
    if whole % (axis.pre_size * axis.size or whole + 1):
        raise InferError(f"axis {axis.name!r} has no sub-axis ({axis.pre_size}){axis.size}",
                         code="bad-sharding")  # fmt: skip
    return axis.pre_size, axis.pre_size * axis.size


def _split(mesh: Mesh, used: list[Axis]) -> list[tuple[str, int, int]]:
    """Return the axes of a mesh, split at the ends of parts: name, position and size."""
    parts = []
    for name, whole in mesh.axes:
        cuts = {1, whole}
        for axis in used:
            if axis.name == name and axis.size:
                cuts |= set(_range(axis, mesh))
        places = sorted(cuts)
        for at, after in pairwise(places):
            if after % at:
                raise InferError(f"parts of axis {name!r} overlap", code="bad-sharding")
            parts.append((name, at, after // at))
        if whole == 1:
            parts.append((name, 1, 1))
    return parts


def per_value(shardings: list[AxisSharding], shape: Shape) -> Sharding:
    """Return the sharding of a value or a tuple. Raises InferError."""
    leaves = [s for _, s in shape.leaves()]
    if not leaves and len(shardings) == 1:
        # An operation without results has a sharding of its own.
        return TupleSharding((as_tiles(shardings[0]),))
    if len(leaves) != len(shardings):
        raise InferError(f"{len(shardings)} shardings for {len(leaves)} values",
                         code="bad-sharding")  # fmt: skip
    for sharding, leaf in zip(shardings, leaves, strict=True):
        if isinstance(leaf, ArrayShape) and sharding.dims and len(sharding.dims) != leaf.rank:
            message = f"a sharding cuts {len(sharding.dims)} dimensions, the value is {leaf}"
            raise InferError(message, code="bad-sharding")
    tiles = tuple(map(as_tiles, shardings))
    return TupleSharding(tiles) if isinstance(shape, TupleShape) else tiles[0]
