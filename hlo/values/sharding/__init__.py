"""Shardings and replica groups, and the arrangements of devices that both are written in."""

from hlo.values.sharding.sharding import (
    AXIS_FIELDS,
    SUBGROUP_KINDS,
    WHOLE_KINDS,
    DeviceMeshSharding,
    DimSharding,
    Metadata,
    NamedSharding,
    ShardGroup,
    Sharding,
    TiledSharding,
    TupleSharding,
    WholeSharding,
    for_leaves,
)

__all__ = [
    "AXIS_FIELDS",
    "SUBGROUP_KINDS",
    "WHOLE_KINDS",
    "DeviceMeshSharding",
    "DimSharding",
    "Metadata",
    "NamedSharding",
    "ShardGroup",
    "Sharding",
    "TiledSharding",
    "TupleSharding",
    "WholeSharding",
    "for_leaves",
]


def __dir__() -> list[str]:
    return sorted(__all__)
