"""Shardings by axes of a named mesh as tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from hlo.values.sharding.devices import AxisRef, DeviceGrid
from hlo.values.sharding.sharding import NamedSharding, Sharding, TiledSharding, WholeSharding


def named_as_tiles(sharding: NamedSharding, rank: int) -> Sharding:
    """Return the tiled sharding that is equal to one by axes of a named mesh."""
    mesh = sharding.mesh
    if sharding.kind != "dims":
        return WholeSharding(sharding.kind)
    # Every axis is split where one of its parts begins or ends.
    used = [r for d in sharding.dims for r in d.axes]
    used += [*sharding.replicated, *sharding.unreduced, *sharding.manual]
    pieces: list[tuple[int, int, int]] = []  # axis, product of the major part, size
    for axis, full in enumerate(mesh.grid.dims):
        cuts = {1, full}
        for r in used:
            if r.axis == axis and r.size:
                cuts |= {r.pre_size, r.pre_size * r.size}
        ends = sorted(cuts)
        pieces += [(axis, a, b // a) for a, b in pairwise(ends)]

    def along(refs: Sequence[AxisRef]) -> list[int]:
        found = []
        for r in refs:
            end = r.pre_size * r.size if r.size else mesh.grid.dims[r.axis]
            begin = r.pre_size if r.size else 1
            found += [i for i, (axis, at, _) in enumerate(pieces)
                      if axis == r.axis and begin <= at < end]  # fmt: skip
        return found

    dims = [along(d.axes) for d in sharding.dims] or [[] for _ in range(rank)]
    tails = [("manual", along(sharding.manual)), ("unreduced", along(sharding.unreduced))]
    named = {i for group in [*dims, *(g for _, g in tails)] for i in group}
    tails.append(("replicated", [i for i in range(len(pieces)) if i not in named]))
    tails = [(kind, g) for kind, g in tails if g]
    sizes = [size for _, _, size in pieces]
    counts = [math.prod(sizes[i] for i in g) for g in [*dims, *(g for _, g in tails)]]
    if all(c == 1 for c in counts[: len(dims)]) and [k for k, _ in tails] in ([], ["replicated"]):
        return WholeSharding("replicated")
    array = mesh.grid.array().reshape(sizes)
    perm = [i for g in [*dims, *(g for _, g in tails)] for i in g]
    ids = array.transpose(perm).reshape(-1).tolist()
    return TiledSharding(DeviceGrid(tuple(counts), ids=tuple(ids)), tuple(k for k, _ in tails))
