"""Functions that are applied to elements and have arrays as intermediate values.

Those on scalars alone are emitted inline (see `inline`). These become functions of the module, like
the entry, with their temporary memory on the caller's stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo.codegen.llvm import Builder, ptr
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.errors import HloError
from hlo.ir import Computation
from hlo.values.types import ArrayShape

# Maximum stack memory of one call.
_MAX_BYTES = 1 << 17


@dataclass(frozen=True)
class Function:
    """A function `i32 name(args, results, arena, constants, threads, host)`: see `entry`."""

    name: str
    results: Sequence[ArrayShape]
    arena_bytes: int
    constants: str


def call_function(b: Builder, comp: Computation, args: Sequence[Value]) -> list[Value]:
    """Call a computation on scalars as a function; returns the result leaves."""
    assert b.module.write_function is not None
    found: Function = b.module.write_function(comp)
    if found.arena_bytes > _MAX_BYTES:
        raise HloError.at(
            "unsupported",
            f"{comp.name}: a function that is applied to elements takes {found.arena_bytes} bytes, "
            f"at most {_MAX_BYTES} are there",
        )
    shapes = [s for p in comp.parameters for _, s in p.shape.leaves() if isinstance(s, ArrayShape)]
    places = [_place(b, s) for s in shapes]
    for place, shape, value in zip(places, shapes, args, strict=True):
        scalar.store(b, shape.element_type, value, place, 0)
    outs = [_place(b, s) for s in found.results]
    arena = b.alloca("i8", max(1, found.arena_bytes), align=64).name
    addresses = (_table(b, places), _table(b, outs), arena, found.constants, "null", "null")
    b.call(found.name, [ptr(address) for address in addresses], "i32")
    return [
        scalar.load(b, s.element_type, place, 0)
        for place, s in zip(outs, found.results, strict=True)
    ]


def _place(b: Builder, shape: ArrayShape) -> str:
    return b.alloca("i8", shape.element_type.byte_width, align=16).name


def _table(b: Builder, addresses: Sequence[str]) -> str:
    table = b.alloca("ptr", max(1, len(addresses))).name
    for n, address in enumerate(addresses):
        b.store(ptr(address), b.element_address(table, "ptr", n))
    return table
