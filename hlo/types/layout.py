"""Layouts as values and as text; `hlo.layout` says what they mean.

Source: "Shapes and Layout" (document 001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo.types.element import ElementType

if TYPE_CHECKING:
    from hlo.types.shape import Shape

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
    """A split of dimension `dim` at the given indices, for memories in several parts."""

    dim: int
    indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dim}:{','.join(map(str, self.indices))})"


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies in memory. `minor_to_major[0]` is the dimension that varies fastest.

    Units: `element_bits` in bits (0: the type's default), `tail_padding` in elements,
    `dynamic_prefix_bytes` in bytes.

    >>> layout = hlo.parse_shape("f32[3,5]{0,1:T(2,2)}").layout
    >>> layout.minor_to_major, layout.is_default, layout.tiles
    ((0, 1), False, (Tile(sizes=(2, 2)),))
    """

    minor_to_major: tuple[int, ...]
    levels: tuple[DimLevel, ...] = ()
    tiles: tuple[Tile, ...] = ()
    tail_padding: int = 1
    index_type: ElementType | None = None
    pointer_type: ElementType | None = None
    element_bits: int = 0
    memory_space: int = 0
    splits: tuple[SplitConfig, ...] = ()
    physical_shape: Shape | None = None
    dynamic_prefix_bytes: int = 0

    @staticmethod
    def default(rank: int) -> Layout:
        """Return the row-major layout `{rank-1,...,1,0}`."""
        return _default_layout(rank)

    @property
    def is_default(self) -> bool:
        """True when this is row-major with no annotation at all."""
        return self == _default_layout(len(self.minor_to_major))

    def __repr__(self) -> str:
        return f"<Layout {self}>"

    def __str__(self) -> str:
        text = ",".join(map(str, self.minor_to_major))
        notes = ""
        if self.levels and any(x != DimLevel("D") for x in self.levels):
            notes += f"D({','.join(map(str, self.levels))})"
        if self.tiles:
            notes += "T" + "".join(map(str, self.tiles))
        if self.tail_padding != 1:
            notes += f"L({self.tail_padding})"
        if self.index_type is not None:
            notes += f"#({self.index_type})"
        if self.pointer_type is not None:
            notes += f"*({self.pointer_type})"
        if self.element_bits:
            notes += f"E({self.element_bits})"
        if self.memory_space:
            notes += f"S({self.memory_space})"
        if self.splits:
            notes += "SC" + "".join(map(str, self.splits))
        if self.physical_shape is not None:
            notes += f"P({self.physical_shape})"
        if self.dynamic_prefix_bytes:
            notes += f"M({self.dynamic_prefix_bytes})"
        return "{" + text + (":" + notes if notes else "") + "}"


_DEFAULT_LAYOUTS: dict[int, Layout] = {}


def _default_layout(rank: int) -> Layout:
    found = _DEFAULT_LAYOUTS.get(rank)
    if found is None:
        found = _DEFAULT_LAYOUTS[rank] = Layout(tuple(range(rank - 1, -1, -1)))
    return found
