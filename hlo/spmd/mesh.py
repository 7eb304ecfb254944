"""Device meshes, and shardings as axes of one mesh.

The devices of a module are numbered by coordinates along axes of prime sizes, so that any of its
shardings is, for each dimension, a list of axes, major to minor: `[4,2]<=[2,4]T(1,0)` over axes
(2, 2, 2) is dimension 0 along axes 1 and 2, dimension 1 along axis 0. A dimension of size d along
axes of k devices in all has shards of ceil(d / k) elements: the device with coordinate c along them
has those from c * ceil(d / k) on, and what is behind the end of the dimension is padding of
unspecified value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from hlo.errors import InferError
from hlo.values.sharding import (
    DeviceMeshSharding,
    NamedSharding,
    Sharding,
    TiledSharding,
    WholeSharding,
)
from hlo.values.sharding.devices import DeviceGrid
from hlo.values.sharding.named import named_as_tiles
from hlo.values.types import ArrayShape

Axes = tuple[int, ...]
"""Numbers of mesh axes, major to minor."""


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The axes that each dimension of an array is cut along.

    Attributes:
        dims: one for each dimension.
        manual: the axes along which the program itself is written per device (manual subgroups):
            the array is what one device along them has. They cut no dimension here.
        unreduced: axes along which devices have partial results, whose sum is the value.
    """

    dims: tuple[Axes, ...]
    manual: Axes = ()
    unreduced: Axes = ()

    @staticmethod
    def replicated(rank: int, manual: Axes = ()) -> PartitionSpec:
        """Return the spec of an array that each device has all of."""
        return PartitionSpec(((),) * rank, manual)

    @property
    def axes(self) -> Axes:
        """The axes that cut a dimension, in order of the dimensions."""
        return tuple(a for axes in self.dims for a in axes)

    @property
    def is_replicated(self) -> bool:
        """True when each device has the whole array, of its manual part."""
        return not any(self.dims) and not self.unreduced

    def with_dim(self, dim: int, axes: Axes) -> PartitionSpec:
        """Return the spec with other axes of one dimension."""
        return replace(self, dims=(*self.dims[:dim], axes, *self.dims[dim + 1 :]))


@dataclass(frozen=True)
class DeviceMesh:
    """The devices of a module by their coordinates.

    Attributes:
        sizes: of the axes, major to minor; primes.
        order: the device at each position in row-major order of the coordinates; empty for
            0, 1, ...
        replicas: how many times the module runs on such a mesh.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...] = ()
    replicas: int = 1

    @cached_property
    def size(self) -> int:
        """Number of devices, which are the partitions of the module."""
        return math.prod(self.sizes)

    @cached_property
    def devices(self) -> np.ndarray:
        """Device numbers by coordinates: int64[sizes]."""
        flat = np.array(self.order, np.int64) if self.order else np.arange(self.size)
        return flat.reshape(self.sizes)

    @property
    def axes(self) -> Axes:
        """All axes."""
        return tuple(range(len(self.sizes)))

    def count(self, axes: Iterable[int]) -> int:
        """Return the number of devices along axes."""
        return math.prod(self.sizes[a] for a in axes)

    def shard_size(self, size: int, axes: Iterable[int]) -> int:
        """Return the size of a shard of a dimension, the padding of the last ones included."""
        return -(-size // self.count(axes))

    def local_dims(self, dims: Sequence[int], spec: PartitionSpec) -> tuple[int, ...]:
        """Return the dimensions of a shard."""
        return tuple(self.shard_size(d, axes) for d, axes in zip(dims, spec.dims, strict=True))

    def local_shape(self, shape: ArrayShape, spec: PartitionSpec) -> ArrayShape:
        """Return the shape of a shard, in the same layout."""
        return replace(shape, dims=self.local_dims(shape.dims, spec))

    def is_even(self, dims: Sequence[int], spec: PartitionSpec) -> bool:
        """True when no shard has padding."""
        return all(d % self.count(axes) == 0 for d, axes in zip(dims, spec.dims, strict=True))

    def coordinates(self, axes: Axes) -> np.ndarray:
        """Return each device's coordinate along axes, by device number: int64[size]."""
        index = np.zeros(self.sizes, np.int64)
        for axis in axes:
            along = np.arange(self.sizes[axis]).reshape([-1 if a == axis else 1 for a in self.axes])
            index = index * self.sizes[axis] + along
        by_device = np.empty(self.size, np.int64)
        by_device[self.devices.reshape(-1)] = index.reshape(-1)
        return by_device

    def groups(self, axes: Axes) -> list[list[int]]:
        """Return the groups of devices that differ along axes only, each in their order."""
        rest = [a for a in self.axes if a not in axes]
        return self.devices.transpose([*rest, *axes]).reshape(-1, self.count(axes)).tolist()

    # --- shardings ------------------------------------------------------------------------------

    def tiles(self, spec: PartitionSpec) -> Sharding:
        """Return the sharding, as HLO has it, of an array of a spec."""
        if not any(spec.dims) and not spec.manual and not spec.unreduced:
            return WholeSharding("replicated")
        every = self.axes
        if not any(spec.dims) and spec.manual and self.count(spec.manual) == self.size:
            return WholeSharding("manual")
        if not any(spec.dims) and spec.unreduced and self.count(spec.unreduced) == self.size:
            return WholeSharding("unreduced")
        named = (*spec.axes, *spec.unreduced, *spec.manual)
        rest = tuple(a for a in every if a not in named)
        # The order of kinds is that in which XLA writes them.
        tails = [(kind, axes) for kind, axes in (
            ("manual", spec.manual), ("unreduced", spec.unreduced), ("replicated", rest)
        ) if self.count(axes) > 1]  # fmt: skip
        dims = [self.count(axes) for axes in spec.dims] + [self.count(a) for _, a in tails]
        perm = [*spec.axes, *(a for _, axes in tails for a in axes)]
        perm += [a for a in every if a not in perm]  # of size 1
        if self.order:
            ids = self.devices.transpose(perm).reshape(-1).tolist()
            grid = DeviceGrid(tuple(dims), ids=tuple(ids))
        else:
            grid = DeviceGrid.iota(dims, self.sizes or (1,), perm or (0,))
        return TiledSharding(grid, tuple(kind for kind, _ in tails))

    def spec(self, sharding: Sharding | None, rank: int) -> PartitionSpec:
        """Return the spec of a sharding of one array.

        A sharding in another order of devices than the mesh's becomes one of as many tiles in each
        dimension: `placement` has the order that is lost. `maximal` becomes replicated.

        Raises InferError for more devices than the mesh has.
        """
        spec = self._exact_spec(sharding, rank)
        if spec is not None:
            return spec
        dims, kinds, grid = parts_of(sharding, rank, self.size)
        return self._any_spec(dims, kinds, grid.size)

    def placement(self, sharding: Sharding | None, rank: int) -> tuple[int, ...] | None:
        """Return which device's shard of `spec(sharding)` each device has under the sharding.

        None where that is its own, for all.
        """
        if self._exact_spec(sharding, rank) is not None:
            return None
        dims, kinds, grid = parts_of(sharding, rank, self.size)
        spec = self._any_spec(dims, kinds, grid.size)
        same = self._array_of(spec, kinds).reshape(-1)
        source = np.empty(self.size, np.int64)
        source[grid.reshape(-1)] = same
        return tuple(source.tolist())

    def _array_of(self, spec: PartitionSpec, kinds: Sequence[str]) -> np.ndarray:
        tails = {"manual": spec.manual, "unreduced": spec.unreduced}
        named = (*spec.axes, *spec.manual, *spec.unreduced)
        rest = tuple(a for a in self.axes if a not in named)
        perm = [*spec.axes, *(a for kind in kinds for a in tails.get(kind, rest))]
        perm += [a for a in self.axes if a not in perm]
        return self.devices.transpose(perm)

    def _any_spec(self, dims: Sequence[int], kinds: Sequence[str], size: int) -> PartitionSpec:
        """Return a spec with given numbers of tiles, along axes taken in order.

        Raises InferError when the axes do not multiply to them.
        """
        free = list(self.axes)
        found: list[Axes] = []
        for count in dims:
            taken: list[int] = []
            for axis in list(free):
                if count % self.sizes[axis] == 0:
                    taken.append(axis)
                    free.remove(axis)
                    count //= self.sizes[axis]
            if count != 1:
                raise InferError(
                    f"a sharding over {size} devices does not fit the mesh of {self.size}",
                    attr="sharding", code="bad-sharding",
                )  # fmt: skip
            found.append(tuple(taken))
        rank = len(dims) - len(kinds)
        tails = dict(zip(kinds, found[rank:], strict=True))
        return PartitionSpec(
            tuple(found[:rank]), tails.get("manual", ()), tails.get("unreduced", ())
        )

    @cached_property
    def _specs(self) -> dict[tuple[Sharding | None, int], PartitionSpec | None]:
        return {}

    def _exact_spec(self, sharding: Sharding | None, rank: int) -> PartitionSpec | None:
        """Return the spec of a sharding in the mesh's order of devices; None for another order."""
        key = sharding, rank
        if key not in self._specs:
            self._specs[key] = self._find_spec(sharding, rank)
        return self._specs[key]

    def _find_spec(self, sharding: Sharding | None, rank: int) -> PartitionSpec | None:
        if sharding is None or isinstance(sharding, DeviceMeshSharding):
            return PartitionSpec.replicated(rank)
        if isinstance(sharding, WholeSharding):
            if sharding.kind == "manual":
                return PartitionSpec.replicated(rank, self.axes)
            if sharding.kind == "unreduced":
                return PartitionSpec(((),) * rank, (), self.axes)
            return PartitionSpec.replicated(rank)
        _, kinds, grid = parts_of(sharding, rank, self.size)
        if not self.order:
            position = grid
        else:
            where = np.empty(self.size, np.int64)
            where[self.devices.reshape(-1)] = np.arange(self.size)
            position = where[grid]
        digits = _digits(position)
        if digits is None:
            return None
        stride = self.size
        start: dict[int, int] = {}  # stride of the axis's major end -> axis
        for axis, size in enumerate(self.sizes):
            start[stride] = axis
            stride //= size
        found: list[Axes] = []
        for entries in digits:
            axes: list[int] = []
            for size, at in entries:
                top = size * at
                axis = start.get(top, -1) if size > 1 else -1
                while size > 1:
                    if axis < 0 or axis >= len(self.sizes) or size % self.sizes[axis]:
                        return None
                    axes.append(axis)
                    size //= self.sizes[axis]
                    axis += 1
            found.append(tuple(axes))
        tails: dict[str, Axes] = {}
        for kind, axes_ in zip(kinds, found[rank:], strict=True):
            tails[kind] = (*tails.get(kind, ()), *axes_)
        return PartitionSpec(
            tuple(found[:rank]), tails.get("manual", ()), tails.get("unreduced", ())
        )


def parts_of(
    sharding: Sharding | None, rank: int, size: int
) -> tuple[tuple[int, ...], tuple[str, ...], np.ndarray]:
    """Return the tile counts of a sharding, the kinds of its last ones, and its devices by tile.

    Raises InferError where it is not over `size` devices.
    """
    if isinstance(sharding, NamedSharding):
        sharding = named_as_tiles(sharding, rank)
    if not isinstance(sharding, TiledSharding):
        raise InferError(f"{sharding} does not cut an array", attr="sharding", code="bad-sharding")
    if sharding.grid.size != size or len(sharding.tiles) != rank:
        raise InferError(
            f"sharding {sharding} is over {sharding.grid.size} devices, there are {size}",
            attr="sharding", code="bad-sharding",
        )  # fmt: skip
    return sharding.grid.dims, sharding.subgroups, sharding.grid.array()


# --- the mesh of a module -------------------------------------------------------------------------


def _digits(grid: np.ndarray) -> list[list[tuple[int, int]]] | None:
    """Return, for each dimension, sizes and strides of the mixed-radix digits of device numbers.

    Digits are major to minor. None for an arrangement that is no transposition of digits.
    """
    if grid.size == 0 or grid.reshape(-1)[0] != 0:
        return None
    found = []
    total = np.zeros(grid.shape, np.int64)
    for dim in range(grid.ndim):
        line = grid[tuple(slice(None) if d == dim else 0 for d in range(grid.ndim))]
        total = total + line.reshape([-1 if d == dim else 1 for d in range(grid.ndim)])
        digits: list[tuple[int, int]] = []
        rest = line
        while len(rest) > 1:
            stride = int(rest[1])
            if stride <= 0:
                return None
            run = 1
            while run < len(rest) and rest[run] == run * stride:
                run += 1
            while len(rest) % run:
                run -= 1
            digits.append((run, stride))
            if run == 1:
                return None
            head = rest[::run]
            if not np.array_equal(rest, np.add.outer(head, np.arange(run) * stride).reshape(-1)):
                return None
            rest = head
        found.append(digits[::-1])
    return found if np.array_equal(total, grid) else None


def _primes(count: int) -> Iterator[int]:
    divisor = 2
    while divisor * divisor <= count:
        while count % divisor == 0:
            yield divisor
            count //= divisor
        divisor += 1
    if count > 1:
        yield count


def _chain(cuts: set[int], size: int) -> bool:
    ordered = sorted(cuts | {1, size})
    return all(b % a == 0 for a, b in pairwise(ordered))


def mesh_for(shardings: Iterable[Sharding], partitions: int, replicas: int = 1) -> DeviceMesh:
    """Return the mesh in whose axes the shardings of a module can be told.

    Shardings that contradict those before them are left out: `DeviceMesh.placement` tells them. The
    order of devices is 0, 1, ... unless most shardings have another one.
    """
    grids: Counter[TiledSharding] = Counter()
    for sharding in shardings:
        tiled = named_as_tiles(sharding, 0) if isinstance(sharding, NamedSharding) else sharding
        if isinstance(tiled, TiledSharding) and tiled.grid.size == partitions:
            grids[replace(tiled, group=None, metadata=())] += 1
    order: tuple[int, ...] = ()
    odd = Counter[tuple[int, ...]]()
    for tiled, times in grids.items():
        if _digits(tiled.grid.array()) is None:
            odd[tuple(tiled.grid.array().reshape(-1).tolist())] += times
    if odd and 2 * sum(odd.values()) > sum(grids.values()):
        order = odd.most_common(1)[0][0]
    where = np.empty(partitions, np.int64)
    where[list(order) or np.arange(partitions)] = np.arange(partitions)
    cuts = {1, partitions}
    for tiled in grids:
        digits = _digits(where[tiled.grid.array()])
        if digits is None:
            continue
        more = {
            c for d in digits for size, stride in d if size > 1 for c in (stride, size * stride)
        }
        if _chain(cuts | more, partitions):
            cuts |= more
    ends = sorted(cuts)
    sizes: list[int] = []
    for low, high in pairwise(ends):
        sizes += _primes(high // low)
    return DeviceMesh(tuple(reversed(sizes)), order, replicas)
