"""Arrays cut into the shards of devices, and assembled from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hlo.values.sharding.named import named_as_tiles
from hlo.values.sharding.sharding import NamedSharding, Sharding, TiledSharding, WholeSharding

Slices = tuple[slice, ...]


def tile_slices(sharding: Sharding, dims: tuple[int, ...], device: int) -> Slices:
    """Return which part of an array a device has: a slice of each dimension, cut off at its end.

    The size of a shard is ceil(d / k) for k tiles: shards at the end may be smaller, or empty.
    """
    if isinstance(sharding, NamedSharding):
        sharding = named_as_tiles(sharding, len(dims))
    if not isinstance(sharding, TiledSharding):
        return tuple(slice(0, d) for d in dims)
    found = np.nonzero(sharding.grid.array() == device)
    if any(len(places) != 1 for places in found):
        raise ValueError(f"device {device} is not in {sharding}")
    slices = []
    for size, count, place in zip(dims, sharding.tiles, found, strict=False):
        shard = -(-size // count)
        begin = min(int(place[0]) * shard, size)
        slices.append(slice(begin, min(begin + shard, size)))
    return tuple(slices)


def shard_dims(sharding: Sharding, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions of a shard of an array, padding included."""
    if isinstance(sharding, NamedSharding):
        sharding = named_as_tiles(sharding, len(dims))
    if not isinstance(sharding, TiledSharding):
        return dims
    return tuple(-(-size // count) for size, count in zip(dims, sharding.tiles, strict=True))


def sum_position(sharding: Sharding, rank: int, device: int) -> int:
    """Return which part of a sum a device has, among those along the unreduced axes; 0 without."""
    if isinstance(sharding, NamedSharding):
        sharding = named_as_tiles(sharding, rank)
    if isinstance(sharding, WholeSharding):
        return device if sharding.kind == "unreduced" else 0
    if not isinstance(sharding, TiledSharding) or "unreduced" not in sharding.subgroups:
        return 0
    place = np.argwhere(sharding.grid.array() == device)[0][len(sharding.tiles) :]
    sizes = sharding.grid.dims[len(sharding.tiles) :]
    number = 0
    for kind, at, size in zip(sharding.subgroups, place, sizes, strict=True):
        number = number * size + int(at) if kind == "unreduced" else number
    return number


def shard_of(array: np.ndarray, sharding: Sharding, device: int) -> np.ndarray:
    """Return the shard of a device; padding is zeros. A view where nothing is padded.

    Of a sum, one device has the value, and the others have zeros.
    """
    if sum_position(sharding, array.ndim, device):
        return np.zeros(shard_dims(sharding, array.shape), array.dtype)
    part = array[tile_slices(sharding, array.shape, device)]
    dims = shard_dims(sharding, array.shape)
    if part.shape == dims:
        return part
    padded = np.zeros(dims, array.dtype)
    padded[tuple(slice(0, n) for n in part.shape)] = part
    return padded


def assembled(
    shards: Mapping[int, np.ndarray], sharding: Sharding, dims: tuple[int, ...]
) -> np.ndarray:
    """Return the array of which devices have shards, by device number.

    Replicas are equal; shards along unreduced axes are parts of a sum.
    """
    first = next(iter(shards.values()))
    whole = np.zeros(dims, first.dtype)
    seen: dict[tuple[int, ...], set[int]] = {}
    for device, shard in shards.items():
        slices = tile_slices(sharding, dims, device)
        part = shard[tuple(slice(0, s.stop - s.start) for s in slices)]
        known = seen.setdefault(tuple(s.start for s in slices), set())
        position = sum_position(sharding, len(dims), device)
        if position not in known:
            whole[slices] = whole[slices] + part if known else part
            known.add(position)
    return whole
