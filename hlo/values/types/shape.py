"""Shapes: arrays, tuples, tokens, opaque values and buffers; and the layouts of arrays.

A layout may contain a physical shape, and a shape contains a layout, so both are here.

Source: "Shapes and Layout" (document 001).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from hlo.values.types.element import ELEMENT_TYPES, S32, ElementType
from hlo.values.types.layout import DimLevel, SplitConfig, Tile

# A dimension written `?`: dynamic with no upper bound.
UNBOUNDED = -1
# Element counts must fit XLA's int64; anything larger is rejected before it is multiplied out.
MAX_ELEMENTS = 2**63 - 1
# Some numpy functions support no more; windows need twice as many, which is the limit of the rest.
MAX_RANK = 32
# Tuples are traversed recursively all over the project, so their depth is limited on input.
MAX_NESTING = 64
# A few levels of tuples of the same tuple contain more values than fit in any memory.
MAX_PARTS = 1 << 20


class Shape:
    """What an instruction produces: array, tuple, token, opaque or buffer.

    >>> shape = hlo.parse_shape("(f32[2], (s32[], pred[<=8]))")
    >>> shape.is_tuple, shape.is_dynamic, [path for path, _ in shape.leaves()]
    (True, True, [(0,), (1, 0), (1, 1)])
    >>> str(shape.at((1, 0)))
    's32[]'
    """

    # Computed when first needed: shapes are looked up in tables wherever a module is looked at. It
    # is no field, so that it does not go with a pickled shape: other processes hash otherwise.
    __slots__ = ("_hash",)
    _hash: int

    def to_string(self, layout: bool = True) -> str:
        """Return the shape as HLO writes it, with or without layouts."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    # Set by `hlo.values.layout`, which knows how many bytes a layout takes.
    _repr_html_: ClassVar[Callable[[Shape], str]]

    @property
    def is_array(self) -> bool:
        """True for an array."""
        return isinstance(self, ArrayShape)

    @property
    def is_tuple(self) -> bool:
        """True for a tuple."""
        return isinstance(self, TupleShape)

    @property
    def is_token(self) -> bool:
        """True for a token."""
        return isinstance(self, TokenShape)

    @property
    def is_dynamic(self) -> bool:
        """True when a dimension is dynamic; for a tuple, of any of its arrays."""
        return False

    def leaves(self) -> Iterator[tuple[tuple[int, ...], Shape]]:
        """Yield `(index path, leaf shape)`, depth first; a non-tuple is its own leaf `()`."""
        stack: list[tuple[tuple[int, ...], Shape]] = [((), self)]
        while stack:
            path, shape = stack.pop()
            if isinstance(shape, TupleShape):
                stack.extend(((*path, i), s) for i, s in reversed(list(enumerate(shape.elements))))
            else:
                yield path, shape

    def at(self, path: Sequence[int]) -> Shape:
        """Return the sub-shape at an index path. Raises IndexError when there is none."""
        shape: Shape = self
        for i in path:
            if not isinstance(shape, TupleShape) or not 0 <= i < len(shape.elements):
                raise IndexError(f"shape {self} has no element {{{','.join(map(str, path))}}}")
            shape = shape.elements[i]
        return shape


@dataclass(frozen=True, slots=True, repr=False)
class ArrayShape(Shape):
    """An array of `element_type` with `dims`, each static or dynamic up to its size.

    `dynamic` is empty when every dimension is static, else one flag a dimension. A dynamic
    dimension of size `UNBOUNDED` has no bound. `layout` is None only for text parsed with
    unspecified layouts. Raises TypeError for an invalid type or dimensions; `hlo.parse_shape` takes
    text.

    >>> shape = hlo.parse_shape("bf16[2,<=3]")
    >>> shape.dims, shape.dynamic, shape.num_elements, shape.byte_size, str(shape.layout)
    ((2, 3), (False, True), 6, 12, '{1,0}')
    """

    element_type: ElementType
    dims: tuple[int, ...]
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.element_type, ElementType) or not isinstance(self.dims, tuple):
            given = f"{self.element_type!r}, {self.dims!r}"
            raise TypeError(f"ArrayShape: an ElementType and a tuple are needed, not {given}")

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            own = hash((self.element_type, self.dims, self.layout, self.dynamic))
            object.__setattr__(self, "_hash", own)
            return own

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def num_elements(self) -> int:
        """Number of elements, with dynamic dimensions at their bound (an exact Python int)."""
        return math.prod(self.dims)

    @property
    def is_dynamic(self) -> bool:
        return bool(self.dynamic)

    @property
    def is_scalar(self) -> bool:
        """True for an array without dimensions."""
        return not self.dims

    @property
    def byte_size(self) -> int:
        """Bytes of the unpacked row-major array that numpy holds."""
        return self.num_elements * self.element_type.byte_width

    def is_dynamic_dim(self, dim: int) -> bool:
        """Return True if a dimension is dynamic."""
        return bool(self.dynamic) and self.dynamic[dim]

    def with_layout(self, layout: Layout | None) -> ArrayShape:
        """Return the same shape with another layout."""
        if layout == self.layout:
            return self
        return ArrayShape(self.element_type, self.dims, layout, self.dynamic)

    def with_type(self, et: ElementType) -> ArrayShape:
        """Return the same shape with another element type."""
        if et is self.element_type:
            return self
        return ArrayShape(et, self.dims, self.layout, self.dynamic)

    def dims_string(self) -> str:
        """Return `[2,<=3,?]`."""
        if not self.dynamic:
            return f"[{','.join(map(str, self.dims))}]"
        parts = [
            "?" if d == UNBOUNDED else f"<={d}" if dyn else str(d)
            for d, dyn in zip(self.dims, self.dynamic, strict=True)
        ]
        return f"[{','.join(parts)}]"

    def to_string(self, layout: bool = True) -> str:
        text = self.element_type.name + self.dims_string()
        if layout and self.layout is not None and (self.dims or not self.layout.is_default):
            text += str(self.layout)
        return text

    def __str__(self) -> str:
        return self.to_string()


def arrays_of(shape: ArrayShape) -> list[tuple[str, ArrayShape]]:
    """Return name suffix and shape of the buffers that represent an array in compiled code.

    That is the array itself, or one at its bounds and the size of each dynamic dimension.
    """
    if not shape.dynamic:
        return [("", shape)]
    varying = [d for d in range(shape.rank) if shape.dynamic[d]]
    return [("", replace(shape, dynamic=())), *((f".size{d}", array(S32, ())) for d in varying)]


@dataclass(frozen=True, slots=True, repr=False)
class TupleShape(Shape):
    """A tuple of shapes, possibly empty, possibly nested.

    >>> [str(element) for element in hlo.parse_shape("(f32[2], s32[])").elements]
    ['f32[2]{0}', 's32[]']
    """

    elements: tuple[Shape, ...] = ()
    # Cached: loops have tuples of many elements, and read this often.
    _is_dynamic: bool = field(init=False, repr=False, compare=False)
    # Nesting depth, and the total number of shapes, this one included.
    nesting: int = field(init=False, repr=False, compare=False)
    num_parts: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_is_dynamic", any(s.is_dynamic for s in self.elements))
        tuples = [s for s in self.elements if isinstance(s, TupleShape)]
        nesting = 1 + max((s.nesting for s in tuples), default=0)
        object.__setattr__(self, "nesting", nesting)
        leaves = len(self.elements) - len(tuples)
        object.__setattr__(self, "num_parts", 1 + leaves + sum(s.num_parts for s in tuples))

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            own = hash(self.elements)
            object.__setattr__(self, "_hash", own)
            return own

    @property
    def is_dynamic(self) -> bool:
        return self._is_dynamic

    def to_string(self, layout: bool = True) -> str:
        # The index comments are XLA's: they appear in tuples of more than five elements.
        parts: list[str] = []
        for i, s in enumerate(self.elements):
            note = f"/*index={i}*/" if i and i % 5 == 0 else ""
            parts.append(note + s.to_string(layout))
        return f"({', '.join(parts)})"

    def __str__(self) -> str:
        return self.to_string()


@dataclass(frozen=True, slots=True, repr=False)
class TokenShape(Shape):
    """The shape of an ordering token."""

    def to_string(self, layout: bool = True) -> str:
        return "token[]"

    def __str__(self) -> str:
        return "token[]"


@dataclass(frozen=True, slots=True, repr=False)
class OpaqueShape(Shape):
    """A value that only custom calls can interpret."""

    def to_string(self, layout: bool = True) -> str:
        return "opaque[]"

    def __str__(self) -> str:
        return "opaque[]"


@dataclass(frozen=True, slots=True, repr=False)
class BufferShape(Shape):
    """A pinned buffer `b(shape)`: memory that instructions update in place."""

    element: ArrayShape

    def to_string(self, layout: bool = True) -> str:
        return f"b({self.element.to_string(layout)})"

    def __str__(self) -> str:
        return self.to_string()


TOKEN = TokenShape()
OPAQUE = OpaqueShape()


def size_problem(shape: Shape) -> tuple[str, str] | None:
    """Return error code and message for a shape of too many tuples, or None."""
    if not isinstance(shape, TupleShape):
        return None
    if shape.nesting > MAX_NESTING:
        return "nesting-too-deep", f"tuples are nested more than {MAX_NESTING} deep"
    if shape.num_parts > MAX_PARTS:
        return "bad-shape", f"the tuple is of {shape.num_parts} parts, {MAX_PARTS} are the most"
    return None


def array(
    et: ElementType | str, dims: Sequence[int], dynamic: Sequence[bool] | None = None
) -> ArrayShape:
    """Return an array shape in the default layout."""
    t = ELEMENT_TYPES[et] if isinstance(et, str) else et
    flags = tuple(dynamic) if dynamic is not None and any(dynamic) else ()
    return ArrayShape(t, tuple(dims), Layout.default(len(dims)), flags)


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array is arranged in memory. `minor_to_major[0]` is the dimension that varies fastest.

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
