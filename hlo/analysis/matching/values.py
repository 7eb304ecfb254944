"""Values of attributes and annotations such that equal ones are equal, however they are written.

A device list may be listed or an iota, a `backend_config` may have its keys in any order, and a
sharding may have metadata.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from hlo.errors import TextError
from hlo.ir import Computation
from hlo.ir.aliases import BufferDonor, InputOutputAlias
from hlo.ops.host.ffi_attributes import FfiAttribute, read_config
from hlo.values.literal import Literal
from hlo.values.sharding import (
    NamedSharding,
    Sharding,
    TiledSharding,
    TupleSharding,
    WholeSharding,
)
from hlo.values.sharding.devices import DeviceGrid
from hlo.values.sharding.replica_groups import ReplicaGroups

# Device lists of at most so many devices are compared number by number.
_MOST_DEVICES = 1 << 16


def comparable(value: Any, computation: Hashable = "computation") -> Hashable:
    """Return an attribute's value such that equal values are equal, whatever they are called.

    computation: what stands for a computation. Literals are compared by their bits; of elided ones
    (`{...}`) only the shape is known.
    """
    if isinstance(value, Mapping):
        return frozenset((k, comparable(v, computation)) for k, v in value.items())
    if isinstance(value, tuple | list):
        if value and all(isinstance(v, InputOutputAlias | BufferDonor) for v in value):
            return frozenset(value)
        return tuple(comparable(v, computation) for v in value)
    if isinstance(value, Computation):
        return computation
    if isinstance(value, Literal) and value.elided:
        return "elided", value.shape
    if isinstance(value, ReplicaGroups):
        return _groups(value)
    if isinstance(value, Sharding):
        return _sharding(value)
    hash(value)
    return value


def comparable_annotation(key: str, value: Any) -> Hashable:
    """Return the value of an annotation likewise; None for one that says nothing."""
    if key == "backend_config":
        return comparable_config(value or "")
    if key == "parameter_replication" and not any(value or ()):
        return None
    return comparable(value)


def comparable_config(text: str) -> Hashable:
    """Return a `backend_config`, such that the order of keys in JSON and MLIR does not count."""
    if not text.startswith("{"):
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        pass
    try:
        return _attributes(read_config(text))
    except TextError:
        return text


def _attributes(value: Any) -> Hashable:
    """Return attributes of a typed custom call. Floats are text: no NaN equals itself."""
    if isinstance(value, dict):
        return frozenset((k, _attributes(v)) for k, v in value.items())
    if isinstance(value, list):
        return tuple(_attributes(v) for v in value)
    if isinstance(value, FfiAttribute):
        return value.type, _attributes(value.value)
    return type(value).__name__, repr(value)


def _groups(groups: ReplicaGroups) -> Hashable:
    if groups.count * (groups.group_size or 1) > _MOST_DEVICES:
        return groups
    return groups.lists()


def _sharding(sharding: Sharding) -> Hashable:
    """Return a sharding without metadata, its devices one by one."""
    if isinstance(sharding, TupleSharding):
        return tuple(_sharding(s) for s in sharding.elements)
    if isinstance(sharding, WholeSharding | NamedSharding):
        return replace(sharding, metadata=())
    if not isinstance(sharding, TiledSharding):
        return sharding
    if set(sharding.tiles) == {1} and set(sharding.subgroups) == {"replicated"}:
        return WholeSharding("replicated", group=sharding.group)
    return sharding.subgroups, sharding.group, _devices(sharding.grid)


def _devices(grid: DeviceGrid) -> Hashable:
    if grid.size > _MOST_DEVICES:
        return grid
    return grid.dims, grid.array().tobytes()
