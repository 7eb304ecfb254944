"""Where the spaces of memory lie in the one space of generic addresses, and variables in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hlo.gpu.ptx.records import Variable

# Addresses of the device's memory begin here; those of a block's shared memory, and of a thread's
# local memory, are the same for all blocks and threads, as generic addresses.
GLOBAL_BASE = 1 << 36
SHARED_WINDOW = 1 << 40
LOCAL_WINDOW = 2 << 40
# The spaces have windows that are found by these bits of an address.
WINDOW_BITS = 40
# Bytes between variables: an index that is a little too large meets no other variable. A multiple
# of all banks, so that it changes no bank conflict.
_GAP = 128


@dataclass(frozen=True)
class Layout:
    """Offsets of variables in shared or local memory; `parts` are the bytes that exist.

    dynamic: where memory begins whose size the launch says.
    """

    offsets: dict[str, int]
    parts: tuple[tuple[int, int], ...]
    size: int
    dynamic: int

    def with_dynamic(self, size: int) -> Layout:
        """Return the layout of a launch that says how large dynamic memory is."""
        if not size:
            return self
        end = self.dynamic + size
        return Layout(self.offsets, (*self.parts, (self.dynamic, size)), end, self.dynamic)


def layout_of(variables: Iterable[Variable]) -> Layout:
    """Return where variables lie, with gaps between them."""
    offsets: dict[str, int] = {}
    parts: list[tuple[int, int]] = []
    size = 0
    rest: list[Variable] = []
    for variable in variables:
        if not variable.size:
            rest.append(variable)
            continue
        begin = _up(size, max(variable.align, _GAP))
        offsets[variable.name] = begin
        parts.append((begin, variable.size))
        size = begin + variable.size + _GAP
    dynamic = _up(size, max([_GAP, *(v.align for v in rest)]))
    offsets.update((variable.name, dynamic) for variable in rest)
    return Layout(offsets, tuple(parts), size, dynamic)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
