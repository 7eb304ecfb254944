"""The fields of a layout as values and as text; `hlo.values.layout` implements their meaning.

Source: "Shapes and Layout" (document 001).
"""

from __future__ import annotations

from dataclasses import dataclass

# The memory space `S(5)` of the host.
HOST_MEMORY_SPACE = 5


@dataclass(frozen=True, slots=True)
class Tile:
    """One tiling level. A size of `COMBINE` (`*`) merges a dimension with the next minor one."""

    sizes: tuple[int, ...]

    COMBINE = -1

    def __str__(self) -> str:
        return f"({','.join('*' if s == Tile.COMBINE else str(s) for s in self.sizes)})"


@dataclass(frozen=True, slots=True)
class DimLevel:
    """How one dimension is stored: `D`ense, `C`ompressed, `S`ingleton or loose-compressed `H`."""

    kind: str
    unique: bool = True
    ordered: bool = True

    def __str__(self) -> str:
        return self.kind + ("" if self.unique else "+") + ("" if self.ordered else "~")


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """A split of dimension `dim` at the given indices, over several memories."""

    dim: int
    indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dim}:{','.join(map(str, self.indices))})"
