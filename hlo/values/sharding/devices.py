"""Arrangements of devices: grids of device numbers, meshes with named axes, references to axes.

Shardings and replica groups are both written in these terms. Source: XLA's tile assignments
(`xla/hlo/ir/tile_assignment.h`) and meshes (`xla/hlo/ir/mesh_and_axis.h`), and the text that its
parser and printer exchange.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hlo.errors import InferError, TextError, did_you_mean
from hlo.values.scan import Scanner, escape

# An arrangement of any size takes a few characters of text; listing it has to be affordable.
MAX_LISTED_DEVICES = 1 << 24
MAX_DEVICES = 2**63 - 1
# XLA's "no device" where a number is required.
NO_DEVICE = -1


def _joined(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def _canonical_iota(reshape: Sequence[int], perm: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the shortest reshape and transposition with the same order of numbers."""
    kept = [p for p in perm if reshape[p] != 1] or [0]
    runs: list[list[int]] = []
    previous = -1
    sizes = [d for d, size in enumerate(reshape) if size != 1] or [0]
    rank_of = {d: i for i, d in enumerate(sizes)}
    for p in kept:
        # Merge dimensions that stay adjacent in the same order.
        if runs and rank_of[p] == previous + 1:
            runs[-1].append(p)
        else:
            runs.append([p])
        previous = rank_of[p]
    order = sorted(range(len(runs)), key=lambda i: runs[i][0])
    place = {run: at for at, run in enumerate(order)}
    dims = tuple(math.prod(reshape[d] for d in runs[i]) for i in order)
    return dims, tuple(place[i] for i in range(len(runs)))


@dataclass(frozen=True, slots=True)
class DeviceGrid:
    """Device numbers arranged in dimensions `dims`, in row-major order.

    Either `ids` lists them, or they are `0, 1, ...` reshaped to `reshape` and transposed by `perm`,
    in canonical form, so that equal arrangements compare equal.
    """

    dims: tuple[int, ...]
    reshape: tuple[int, ...] = ()
    perm: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()

    @staticmethod
    def iota(
        dims: Sequence[int], reshape: Sequence[int] | None = None, perm: Sequence[int] | None = None
    ) -> DeviceGrid:
        """Return the grid of `0, 1, ...`; by default in order."""
        if reshape is None:
            reshape = (math.prod(dims),)
        if perm is None:
            perm = tuple(range(len(reshape)))
        return DeviceGrid(tuple(dims), *_canonical_iota(reshape, perm))

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.dims)

    @property
    def in_order(self) -> bool:
        """True when the numbers are `0, 1, ...` in row-major order, by construction."""
        return len(self.reshape) == 1

    def array(self) -> np.ndarray:
        """Return the device numbers as an int64 array of shape `dims`.

        Raises InferError when there are too many to list.
        """
        if self.ids:
            return np.array(self.ids, np.int64).reshape(self.dims)
        if self.size > MAX_LISTED_DEVICES:
            raise InferError(
                f"an arrangement of {self.size} devices is too large", code="bad-value"
            )
        numbers = np.arange(self.size, dtype=np.int64).reshape(self.reshape)
        return numbers.transpose(self.perm).reshape(self.dims)

    def source_string(self) -> str:
        """Return the numbers without the dimensions: `0,2,1,3`, `[4]` or `[2,2]T(1,0)`."""
        if self.ids:
            return _joined(self.ids)
        transposed = f"T({_joined(self.perm)})" if len(self.perm) > 1 else ""
        return f"[{_joined(self.reshape)}]{transposed}"

    def __str__(self) -> str:
        arrow = "" if self.ids else "<="
        return f"[{_joined(self.dims)}]{arrow}{self.source_string()}"


def _need_countable(s: Scanner, count: int) -> None:
    """Raise if a product of sizes exceeds the range of a device number."""
    if count > MAX_DEVICES:
        s.fail(f"the sizes multiply to more than {MAX_DEVICES} devices", code="bad-value")


def _read_sizes(s: Scanner) -> tuple[int, ...]:
    """Read `[2,4]`: sizes of at least one."""
    s.expect("[")
    sizes: list[int] = []
    count = 1
    while not sizes or s.accept(","):
        sizes.append(s.integer(1))
        count *= sizes[-1]
        _need_countable(s, count)
    s.expect("]")
    return tuple(sizes)


def _read_iota(s: Scanner) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read `[4]` or `[2,2]T(1,0)`."""
    at = s.pos
    reshape = _read_sizes(s)
    perm = tuple(range(len(reshape)))
    if s.peek("T(") or len(reshape) > 1:
        s.expect("T")
        at = s.pos
        perm = s.integers("(", ")")
    if sorted(perm) != list(range(len(reshape))):
        raise TextError(
            f"({_joined(perm)}) is not a permutation of the {len(reshape)} dimensions", at,
            code="bad-value",
        )  # fmt: skip
    return reshape, perm


def read_grid(s: Scanner) -> DeviceGrid:
    """Read `[2,2]0,1,2,3` or `[2,2]<=[2,2]T(1,0)`. Raises TextError."""
    at = s.pos
    dims = _read_sizes(s)
    if s.accept("<="):
        reshape, perm = _read_iota(s)
        count = math.prod(reshape)
        grid = DeviceGrid.iota(dims, reshape, perm)
    else:
        ids = [s.integer(NO_DEVICE)]
        while s.accept(","):
            ids.append(s.integer(NO_DEVICE))
        count = len(ids)
        grid = DeviceGrid(dims, ids=tuple(ids))
    if count != math.prod(dims):
        raise TextError(
            f"[{_joined(dims)}] has {math.prod(dims)} places for {count} devices", at,
            code="bad-value",
        )  # fmt: skip
    return grid


@dataclass(frozen=True, slots=True)
class AxisRef:
    """A mesh axis by number, or its part of `size` that follows a major part of `pre_size`."""

    axis: int
    pre_size: int = 1
    size: int = 0  # 0: the whole axis


@dataclass(frozen=True, slots=True)
class Mesh:
    """A grid of devices with named dimensions."""

    names: tuple[str, ...]
    grid: DeviceGrid
    index: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {n: i for i, n in enumerate(self.names)})

    def axis_size(self, ref: AxisRef) -> int:
        """Return the number of devices along an axis or part of an axis."""
        return ref.size or self.grid.dims[ref.axis]

    def axis_string(self, ref: AxisRef) -> str:
        """Return `'x'`, or `'x':(2)4` for a part of an axis."""
        part = f":({ref.pre_size}){ref.size}" if ref.size else ""
        return f"'{escape(self.names[ref.axis])}'{part}"

    def __str__(self) -> str:
        axes = ",".join(
            f"'{escape(n)}'={size}" for n, size in zip(self.names, self.grid.dims, strict=True)
        )
        ids = "" if self.grid.in_order else f", device_ids=({self.grid.source_string()})"
        return f"mesh[{axes}]{ids}"


def _read_axis_name(s: Scanner) -> str:
    """Read a name in quotes, or bare as older versions print it."""
    return s.string() if s.peek("'") or s.peek('"') else s.ident("the name of a mesh axis")


def read_mesh(s: Scanner, *, may_be_empty: bool = False) -> Mesh:
    """Read `mesh['x'=2,'y'=4]`, with `, device_ids=(...)` where the order is not 0, 1, ...

    may_be_empty: accept `mesh[]`. Raises TextError.
    """
    s.expect("mesh")
    sizes: dict[str, int] = {}
    count = 1
    for _ in s.items("[", "]"):
        at = s.pos
        name = _read_axis_name(s)
        if name in sizes:
            raise TextError(f"mesh axis {name!r} is repeated", at, code="duplicate-name")
        s.expect("=")
        sizes[name] = s.integer(1)
        count *= sizes[name]
        _need_countable(s, count)
    if not sizes and not may_be_empty:
        s.fail("a mesh needs at least one axis", code="bad-value")
    dims = tuple(sizes.values())
    grid = DeviceGrid.iota(dims)
    here = s.pos
    if s.accept(",") and s.peek("device_ids"):
        grid = _read_device_ids(s, dims)
    else:
        s.pos = here
    return Mesh(tuple(sizes), grid)


def _read_device_ids(s: Scanner, sizes: Sequence[int]) -> DeviceGrid:
    s.expect("device_ids")
    s.expect("=")
    at = s.pos
    total = math.prod(sizes)
    if s.accept("("):
        if s.peek("["):
            reshape, perm = _read_iota(s)
            s.expect(")")
            if math.prod(reshape) != total:
                raise TextError(
                    f"device_ids has {math.prod(reshape)} devices, the mesh has {total}", at,
                    code="bad-value",
                )  # fmt: skip
            return DeviceGrid.iota(sizes, reshape, perm)
        s.pos = at
    ids = s.integers("(", ")")
    if len(ids) != total or sorted(ids) != list(range(total)):
        raise TextError(
            f"device_ids must contain each of 0..{total - 1} once", at, code="bad-value"
        )
    if list(ids) == list(range(total)):
        return DeviceGrid.iota(sizes)
    return DeviceGrid(tuple(sizes), ids=ids)


def read_axis_ref(s: Scanner, mesh: Mesh) -> AxisRef:
    """Read `'x'` or `'x':(2)4`; an axis may also be given by its number. Raises TextError."""
    at = s.pos
    name = str(s.integer(0)) if s.text[s.pos : s.pos + 1].isdigit() else _read_axis_name(s)
    axis = mesh.index.get(name)
    if axis is None and name.isascii() and name.isdigit() and len(name) < 10:
        axis = int(name) if int(name) < len(mesh.names) else None
    if axis is None:
        raise TextError(f"the mesh has no axis {name!r}", at, code="bad-value",
                        hint=did_you_mean(name, mesh.names))  # fmt: skip
    if not s.accept(":"):
        return AxisRef(axis)
    s.expect("(")
    pre_size = s.integer(1)
    s.expect(")")
    ref = AxisRef(axis, pre_size, s.integer(2))
    full = mesh.grid.dims[axis]
    if ref.size >= full or full % (pre_size * ref.size):
        raise TextError(
            f"axis {name!r} of size {full} has no sub-axis ({pre_size}){ref.size}",
            at,
            code="bad-value",
        )
    return ref


def read_axis_refs(s: Scanner, mesh: Mesh) -> tuple[AxisRef, ...]:
    """Read `{'x','y'}`. Raises TextError."""
    refs: list[AxisRef] = []
    for _ in s.items():
        refs.append(read_axis_ref(s, mesh))
        check_not_mergeable(s, mesh, refs)
    return tuple(refs)


def check_not_mergeable(s: Scanner, mesh: Mesh, refs: Sequence[AxisRef]) -> None:
    """Raise if the last two references are adjacent parts of an axis, to be written as one."""
    if len(refs) < 2:
        return
    a, b = refs[-2:]
    if a.axis == b.axis and a.size and b.size and a.pre_size * a.size == b.pre_size:
        s.fail(f"{mesh.axis_string(a)}, {mesh.axis_string(b)} have to be written as one part",
               code="bad-value")  # fmt: skip


def check_axis_refs(s: Scanner, mesh: Mesh, refs: Sequence[AxisRef]) -> None:
    """Raise unless the referenced axes and parts are disjoint and split each axis consistently."""
    by_axis: dict[int, list[AxisRef]] = {}
    for ref in refs:
        by_axis.setdefault(ref.axis, []).append(ref)
    for axis, parts in by_axis.items():
        if len(parts) == 1:
            continue
        parts.sort(key=lambda r: r.pre_size)
        end = 1
        for ref in parts:
            if not ref.size or ref.pre_size < end or ref.pre_size % end:
                s.fail(f"axis {mesh.names[axis]!r} is used twice", code="bad-value")
            end = ref.pre_size * ref.size
