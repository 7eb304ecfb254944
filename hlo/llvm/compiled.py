"""Functions of which there is object code already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Origin:
    """What a function was made from, and nothing else.

    key: equal for functions that do the same. note: what calling it takes besides its declaration,
    as numbers.
    """

    key: str
    note: tuple[float, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """A function that other modules have had: what it takes to call it, and to link it.

    name: its symbol. declaration: what declares it in LLVM IR. has_loops: whether it repeats
    anything. note: as of its `Origin`. parts: the keys of the object files with it and with all
    that it calls.
    """

    name: str
    declaration: str
    has_loops: bool
    note: tuple[float, ...]
    parts: tuple[str, ...]


class CompiledFunctions(Protocol):
    """Functions of which there is object code, by what they were made from."""

    def find(self, key: str) -> Compiled | None:
        """Return the function with an origin of this key, if there is one."""
