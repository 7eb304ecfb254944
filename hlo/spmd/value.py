"""Values of a program that is partitioned: what each device has of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hlo.ir import Instruction
from hlo.spmd.mesh import PartitionSpec
from hlo.values.types import ArrayShape


@dataclass(frozen=True, slots=True, eq=False)
class Sharded:
    """An array of the program, as the devices have it.

    Attributes:
        local: the instruction of the partitioned program, whose result is a device's shard.
        spec: how shards make up the array.
        shape: of the array, of one device along the manual axes.
    """

    local: Instruction
    spec: PartitionSpec
    shape: ArrayShape


@dataclass(frozen=True, slots=True, eq=False)
class Unsharded:
    """A value that is no array: a token, or what asynchronous operations hand on."""

    local: Instruction


Value = Sharded | Unsharded | tuple["Value", ...]
"""A value; tuples are taken apart."""


def leaves(value: Value) -> Iterator[Sharded | Unsharded]:
    """Yield the values that are no tuples, in order."""
    if isinstance(value, tuple):
        for element in value:
            yield from leaves(element)
    else:
        yield value


def map_leaves(value: Value, f: Callable[[Sharded | Unsharded], Value]) -> Value:
    """Return a value with each leaf, in order, replaced by what a function returns for it."""
    return tuple(map_leaves(v, f) for v in value) if isinstance(value, tuple) else f(value)
