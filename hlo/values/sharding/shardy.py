"""Shardings by named axes as Shardy writes them, and the tiled shardings that are equal to them.

They are texts of StableHLO's attributes, and of HLO's frontend attributes `xla.sdy.*`. Source:
Shardy's dialect; XLA's `export_shardings.cc`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hlo.errors import InferError, TextError
from hlo.values.scan import Scanner, unescape
from hlo.values.sharding.devices import DeviceGrid
from hlo.values.sharding.sharding import Sharding, TiledSharding, TupleSharding, WholeSharding
from hlo.values.types import ArrayShape, Shape, TupleShape

_SUB_AXIS = re.compile(r":\s*\(\s*(\d{1,9})\s*\)\s*(\d{1,9})")
_PRIORITY = re.compile(r"p(\d{1,9})")
_SIZE = re.compile(r"\d{1,9}")
_NUMBERS = re.compile(r"\[([\d\s,]*)\]")
_STRING = re.compile(r'"((?>(?:[^"\\\n]++|\\.)*))"')
_NAME = re.compile(r'([\w$.-]++)|"((?>(?:[^"\\]++|\\.)*))"')
_SYMBOL = re.compile(r'@(?:([\w$.-]++)|"((?>(?:[^"\\]++|\\.)*))")')
_TAGS = ("sdy.sharding_per_value", "sdy.sharding")
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
class Dim:
    """The axes that cut one dimension.

    Attributes:
        closed: whether propagation may not cut it further.
        priority: the round of propagation from which on it is cut so, 0 first.
    """

    axes: tuple[Axis, ...]
    closed: bool = True
    priority: int = 0


@dataclass(frozen=True)
class AxisSharding:
    """The axes that cut each dimension, those that must not, and those of partial sums."""

    mesh: Mesh
    dims: tuple[Dim, ...]
    replicated: tuple[Axis, ...] = ()
    unreduced: tuple[Axis, ...] = ()


# --- reading ------------------------------------------------------------------------------------


def read_mesh(text: str) -> Mesh:
    """Read `["x"=2, "y"=4], device_ids=[..]`. Raises TextError."""
    return _mesh(Scanner(text))


def read_meshes(text: str) -> dict[str, Mesh]:
    """Read the frontend attribute of a module, `{mesh = #sdy.mesh<["x"=2]>}`. Raises TextError."""
    s = Scanner(text)
    found: dict[str, Mesh] = {}
    for _ in s.items():
        m = s.match(_NAME, "the name of a mesh")
        s.expect("=")
        s.expect("#sdy.mesh")
        s.expect("<")
        found[m[1] or unescape(m[2])] = _mesh(s)
        s.expect(">")
    s.end()
    return found


def read_axes(text: str, mesh: Mesh) -> tuple[Axis, ...]:
    """Read `#sdy<manual_axes{"x", "y"}>`, or the axes in braces alone. Raises TextError."""
    s = Scanner(text)
    is_tagged = s.accept("#sdy<")
    s.accept("manual_axes")
    found = _axes(s, mesh).axes
    if is_tagged:
        s.expect(">")
    s.end()
    return found


def _mesh(s: Scanner) -> Mesh:
    axes: list[tuple[str, int]] = []
    for _ in s.items("[", "]"):
        name = s.match(_STRING, "the name of an axis")[1]
        s.expect("=")
        axes.append((name, int(s.match(_SIZE, "a size")[0])))
    devices: tuple[int, ...] = ()
    if s.accept(",") or s.peek("device_ids"):
        s.accept("device_ids")
        s.expect("=")
        words = s.match(_NUMBERS, "device ids")[1].split(",")
        if not all(w.strip().isdecimal() for w in words):
            s.fail("device ids are numbers", 0, code="bad-sharding")
        devices = tuple(int(w) for w in words)
    if not all(size for _, size in axes) or len({n for n, _ in axes}) != len(axes):
        s.fail("a mesh has axes of different names, of at least one device", 0, code="bad-sharding")
    count = math.prod(size for _, size in axes)
    if devices and (len(devices) != count or len(set(devices)) != count):
        s.fail(f"a mesh of {count} devices has {len(devices)} device ids", 0, code="bad-sharding")
    return Mesh(tuple(axes), devices)


def read_shardings(text: str, meshes: Mapping[str, Mesh]) -> list[AxisSharding]:
    """Read the shardings of a list, `<@mesh, [..]>, <..>`. Raises TextError."""
    s = Scanner(text.strip().removeprefix("[").removesuffix("]"))
    found: list[AxisSharding] = []
    while not s.at_end():
        if found:
            s.expect(",")
        s.expect("<")
        found.append(_sharding(s, meshes))
        s.expect(">")
    return found


def read_sharding(text: str, meshes: Mapping[str, Mesh]) -> AxisSharding:
    """Read `@mesh, [{"x"}, {?}], replicated={"y"}`. Raises TextError."""
    s = Scanner(text)
    found = _sharding(s, meshes)
    s.end()
    return found


def read_attribute(text: str, meshes: Mapping[str, Mesh]) -> list[AxisSharding]:
    """Read `#sdy.sharding<..>` or `#sdy.sharding_per_value<[..]>`. Raises TextError."""
    text = text.strip()
    for tag in _TAGS:
        if text.startswith(f"#{tag}<") and text.endswith(">"):
            inside = text[len(tag) + 2 : -1]
            return read_shardings(inside, meshes) if tag == _TAGS[0] else [
                read_sharding(inside, meshes)
            ]  # fmt: skip
    raise TextError(f"{text[:40]!r} is not a #sdy.sharding<..>", 0, code="bad-sharding")


def _sharding(s: Scanner, meshes: Mapping[str, Mesh]) -> AxisSharding:
    if s.accept("mesh"):
        s.expect("<")
        mesh = _mesh(s)
        s.expect(">")
    else:
        m = s.match(_SYMBOL, "the name of a mesh")
        name = m[1] or unescape(m[2] or "")
        if name not in meshes:
            s.fail(f"there is no mesh @{name}", code="bad-sharding")
        mesh = meshes[name]
    s.expect(",")
    dims: list[Dim] = []
    for _ in s.items("[", "]"):
        dims.append(_axes(s, mesh))
    listed: dict[str, tuple[Axis, ...]] = {}
    while s.accept(","):
        kind = s.ident("replicated or unreduced")
        if kind not in _KINDS:
            s.fail(f"{kind} is not one of {', '.join(_KINDS)}", code="bad-sharding")
        s.expect("=")
        listed[kind] = _axes(s, mesh).axes
    found = AxisSharding(mesh, tuple(dims), **listed)
    used = [a for d in dims for a in d.axes] + [a for axes in listed.values() for a in axes]
    try:
        _need_disjoint(mesh, used)
    except InferError as e:
        s.fail(e.message, 0, code=e.code)
    return found


def _axes(s: Scanner, mesh: Mesh) -> Dim:
    found: list[Axis] = []
    closed = True
    for _ in s.items():
        if s.accept("?"):
            closed = False
            continue
        name = s.match(_STRING, "the name of an axis")[1]
        if name not in dict(mesh.axes):
            s.fail(f"the mesh has no axis {name!r}", code="bad-sharding")
        part = s.match(_SUB_AXIS, "a part") if s.peek(":") else None
        found.append(Axis(name, int(part[1]), int(part[2])) if part else Axis(name))
    priority = _PRIORITY.match(s.text, s.pos)
    if priority is not None:
        s.match(_PRIORITY, "a priority")
    return Dim(tuple(found), closed, int(priority[1]) if priority else 0)


# --- as tiles -----------------------------------------------------------------------------------


def as_tiles(sharding: AxisSharding) -> Sharding:
    """Return the equivalent tiled sharding. Raises InferError."""
    mesh = sharding.mesh
    if not mesh.axes and mesh.devices:
        return WholeSharding("maximal", mesh.devices[0])
    return tiles_along(mesh, [d.axes for d in sharding.dims], sharding.unreduced)


def tiles_along(
    mesh: Mesh, dims: Sequence[tuple[Axis, ...]], unreduced: tuple[Axis, ...] = ()
) -> Sharding:
    """Return the tiled sharding of the axes of each dimension. Raises InferError."""
    used = [*(a for dim in dims for a in dim), *unreduced]
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

    groups = [pieces(dim) for dim in dims]
    partial = pieces(unreduced)
    taken = [i for group in [*groups, partial] for i in group]
    if len(set(taken)) != len(taken):
        raise InferError("a sharding names an axis twice", code="bad-sharding")
    rest = [i for i in range(len(parts)) if i not in taken]

    def size(group: list[int]) -> int:
        return math.prod(parts[i][2] for i in group)

    if all(size(g) == 1 for g in groups) and (not partial or size(rest) == 1):
        return WholeSharding("unreduced" if partial else "replicated")
    ends = [(g, kind) for g, kind in ((partial, "unreduced"), (rest, "replicated")) if size(g) > 1]
    counts = tuple(size(g) for g in [*groups, *(g for g, _ in ends)])
    order = [i for g in [*groups, *(g for g, _ in ends)] for i in g if parts[i][2] > 1]
    shape = [i for i in range(len(parts)) if parts[i][2] > 1]
    grid = DeviceGrid.iota(counts, [parts[i][2] for i in shape] or [1],
                           [shape.index(i) for i in order] or [0])  # fmt: skip
    if mesh.devices:
        ids = tuple(mesh.devices[i] for i in grid.array().reshape(-1).tolist())
        grid = DeviceGrid(counts, ids=ids)
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


def _split(mesh: Mesh, used: Iterable[Axis]) -> list[tuple[str, int, int]]:
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


def _need_disjoint(mesh: Mesh, used: Sequence[Axis]) -> None:
    """Raise InferError where an axis, or a part of one, is used twice."""
    ends: dict[str, list[tuple[int, int]]] = {}
    for axis in used:
        ends.setdefault(axis.name, []).append(_range(axis, mesh))
    for name, ranges in ends.items():
        if any(a[1] > b[0] for a, b in pairwise(sorted(ranges))):
            raise InferError(f"a sharding names axis {name!r} twice", code="bad-sharding")


def per_value(shardings: list[AxisSharding], shape: Shape) -> Sharding:
    """Return the sharding of a value or a tuple. Raises InferError."""
    leaves = [s for _, s in shape.leaves()]
    if not leaves and len(shardings) == 1:
        # An operation without results has a sharding of its own.
        return TupleSharding((as_tiles(shardings[0]),))
    need_fit(shardings, shape)
    tiles = tuple(map(as_tiles, shardings))
    return TupleSharding(tiles) if isinstance(shape, TupleShape) else tiles[0]


def need_fit(shardings: Sequence[AxisSharding], shape: Shape) -> None:
    """Raise InferError unless there is a sharding for each leaf, of its rank."""
    leaves = [s for _, s in shape.leaves()]
    if len(leaves) != len(shardings):
        raise InferError(f"{len(shardings)} shardings for {len(leaves)} values",
                         code="bad-sharding")  # fmt: skip
    for sharding, leaf in zip(shardings, leaves, strict=True):
        if isinstance(leaf, ArrayShape) and sharding.dims and len(sharding.dims) != leaf.rank:
            message = f"a sharding cuts {len(sharding.dims)} dimensions, the value is {leaf}"
            raise InferError(message, code="bad-sharding")
