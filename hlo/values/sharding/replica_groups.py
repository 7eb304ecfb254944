"""Replica groups: which devices take part in a collective together, in the three forms of the text.

Version 1 lists them (`{{0,1},{2,3}}`), version 2 is a grid with one group a row
(`[2,2]<=[2,2]T(1,0)`), version 3 names axes of a mesh (`mesh['a'=2,'b'=2] {'a'}`).
Source: XLA's `xla/hlo/ir/replica_group.h` and `collective_device_list`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from hlo.errors import TextError
from hlo.values.scan import Scanner
from hlo.values.sharding.devices import (
    AxisRef,
    DeviceGrid,
    Mesh,
    check_axis_refs,
    read_axis_refs,
    read_grid,
    read_mesh,
)


class ReplicaGroups:
    """Groups of device numbers; no groups mean one group of all devices."""

    __slots__ = ()

    @property
    def count(self) -> int:
        """Number of groups."""
        raise NotImplementedError

    def lists(self) -> tuple[tuple[int, ...], ...]:
        """Return the groups as lists of device numbers.

        Raises InferError when there are too many to list.
        """
        raise NotImplementedError

    @property
    def group_size(self) -> int | None:
        """Number of devices of each group; None if there are no groups or sizes differ."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ListedGroups(ReplicaGroups):
    """Version 1: the groups one by one."""

    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def count(self) -> int:
        return len(self.groups)

    def lists(self) -> tuple[tuple[int, ...], ...]:
        return self.groups

    @property
    def group_size(self) -> int | None:
        sizes = {len(g) for g in self.groups}
        return sizes.pop() if len(sizes) == 1 else None

    def __str__(self) -> str:
        return "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in self.groups) + "}"


@dataclass(frozen=True, slots=True)
class GridGroups(ReplicaGroups):
    """Version 2: each row of a two-dimensional grid is a group."""

    grid: DeviceGrid

    @property
    def count(self) -> int:
        return self.grid.dims[0]

    def lists(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(tuple, self.grid.array().tolist()))

    @property
    def group_size(self) -> int | None:
        return self.grid.dims[1]

    def __str__(self) -> str:
        return str(self.grid)


@dataclass(frozen=True, slots=True)
class MeshGroups(ReplicaGroups):
    """Version 3: devices that differ only along the given axes are a group, in that axis order."""

    mesh: Mesh
    axes: tuple[AxisRef, ...]

    @property
    def count(self) -> int:
        return self.mesh.grid.size // self.group_size

    @property
    def group_size(self) -> int:
        return math.prod(self.mesh.axis_size(ref) for ref in self.axes)

    def lists(self) -> tuple[tuple[int, ...], ...]:
        # Every axis is split where one of its parts begins or ends; the named parts become minor.
        sizes: list[int] = []
        place: dict[tuple[int, int], int] = {}
        for axis, full in enumerate(self.mesh.grid.dims):
            parts = [r for r in self.axes if r.axis == axis and r.size]
            ends = [e for r in parts for e in (r.pre_size, r.pre_size * r.size)]
            cuts = sorted({1, full, *ends}) if full > 1 else [1, 1]
            for low, high in pairwise(cuts):
                place[axis, low] = len(sizes)
                sizes.append(high // low)
        last = [place[r.axis, r.pre_size] for r in self.axes]
        order = [d for d in range(len(sizes)) if d not in last] + last
        devices = self.mesh.grid.array().reshape(sizes).transpose(order)
        return tuple(map(tuple, devices.reshape(-1, self.group_size).tolist()))

    def __str__(self) -> str:
        return f"{self.mesh} {{{','.join(map(self.mesh.axis_string, self.axes))}}}"


ALL = ListedGroups()
"""`{}`: one group of every device."""


def read(s: Scanner) -> ReplicaGroups:
    """Read replica groups in any of the three forms. Raises TextError."""
    if s.peek("mesh"):
        mesh = read_mesh(s)
        s.accept(",")
        at = s.pos
        axes = read_axis_refs(s, mesh)
        if not axes:
            raise TextError("replica groups of a mesh name at least one axis", at, code="bad-value")
        check_axis_refs(s, mesh, axes)
        return MeshGroups(mesh, axes)
    if s.peek("["):
        at = s.pos
        grid = read_grid(s)
        if len(grid.dims) != 2 or grid.ids:
            raise TextError(
                f"replica groups are lists or a grid [groups,size]<=[devices], not {grid}", at,
                code="bad-value",
            )  # fmt: skip
        return GridGroups(grid)
    return ListedGroups(tuple(s.integers() for _ in s.items()))


def write(groups: ReplicaGroups) -> str:
    """Return the text of replica groups."""
    return str(groups)
