"""Element types, layouts and shapes: immutable values, compared by content.

A `Shape` is one of `ArrayShape`, `TupleShape`, `TokenShape`, `OpaqueShape`, `BufferShape`. Nothing
here knows operations or text syntax beyond printing a shape the way HLO writes it.
Source: "Shapes and Layout" (document 001) and XLA's `xla_data.proto`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import ml_dtypes
import numpy as np

# A dimension written `?`: dynamic with no upper bound.
UNBOUNDED = -1
# Element counts must fit XLA's int64; anything larger is rejected before it is multiplied out.
MAX_ELEMENTS = 2**63 - 1
# The memory space `S(5)` of the host.
HOST_MEMORY_SPACE = 5


class Kind(Enum):
    """The class an element type belongs to; operations state which classes they accept."""

    PRED = "pred"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    FLOAT = "floating-point"
    COMPLEX = "complex"


@dataclass(frozen=True, slots=True, eq=False)
class ElementType:
    """The type of one array element. `bits` is its logical width; numpy stores whole bytes."""

    name: str
    kind: Kind
    bits: int
    dtype: np.dtype

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ElementType({self.name})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return element_type, (self.name,)

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def is_signed(self) -> bool:
        return self.kind is Kind.SIGNED

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_complex(self) -> bool:
        return self.kind is Kind.COMPLEX

    @property
    def is_pred(self) -> bool:
        return self.kind is Kind.PRED

    @property
    def byte_width(self) -> int:
        """Bytes of one element in an unpacked (default) array."""
        return self.dtype.itemsize


def _et(name: str, kind: Kind, bits: int, dtype: object) -> ElementType:
    return ElementType(name, kind, bits, np.dtype(dtype))  # type: ignore[call-overload]


_S, _U, _F, _C = Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.COMPLEX
ELEMENT_TYPES: dict[str, ElementType] = {
    t.name: t
    for t in (
        _et("pred", Kind.PRED, 8, np.bool_),
        _et("s1", _S, 1, ml_dtypes.int1),
        _et("s2", _S, 2, ml_dtypes.int2),
        _et("s4", _S, 4, ml_dtypes.int4),
        _et("s8", _S, 8, np.int8),
        _et("s16", _S, 16, np.int16),
        _et("s32", _S, 32, np.int32),
        _et("s64", _S, 64, np.int64),
        _et("u1", _U, 1, ml_dtypes.uint1),
        _et("u2", _U, 2, ml_dtypes.uint2),
        _et("u4", _U, 4, ml_dtypes.uint4),
        _et("u8", _U, 8, np.uint8),
        _et("u16", _U, 16, np.uint16),
        _et("u32", _U, 32, np.uint32),
        _et("u64", _U, 64, np.uint64),
        _et("f4e2m1fn", _F, 4, ml_dtypes.float4_e2m1fn),
        _et("f8e3m4", _F, 8, ml_dtypes.float8_e3m4),
        _et("f8e4m3", _F, 8, ml_dtypes.float8_e4m3),
        _et("f8e4m3b11fnuz", _F, 8, ml_dtypes.float8_e4m3b11fnuz),
        _et("f8e4m3fn", _F, 8, ml_dtypes.float8_e4m3fn),
        _et("f8e4m3fnuz", _F, 8, ml_dtypes.float8_e4m3fnuz),
        _et("f8e5m2", _F, 8, ml_dtypes.float8_e5m2),
        _et("f8e5m2fnuz", _F, 8, ml_dtypes.float8_e5m2fnuz),
        _et("f8e8m0fnu", _F, 8, ml_dtypes.float8_e8m0fnu),
        _et("bf16", _F, 16, ml_dtypes.bfloat16),
        _et("f16", _F, 16, np.float16),
        _et("f32", _F, 32, np.float32),
        _et("f64", _F, 64, np.float64),
        _et("c64", _C, 64, np.complex64),
        _et("c128", _C, 128, np.complex128),
    )
}
PRED, S32, S64, U32, U64, F32 = (
    ELEMENT_TYPES[n] for n in ("pred", "s32", "s64", "u32", "u64", "f32")
)
_BY_DTYPE = {t.dtype: t for t in ELEMENT_TYPES.values()}


def element_type(name: str) -> ElementType:
    """Return the element type called `name` (`f32`, `s4`, ...). Raises KeyError."""
    return ELEMENT_TYPES[name]


def element_type_of(dtype: np.dtype) -> ElementType:
    """Return the element type whose values numpy holds as `dtype`. Raises KeyError."""
    return _BY_DTYPE[dtype]


def integer_range(et: ElementType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    if et.is_signed:
        return -(1 << (et.bits - 1)), (1 << (et.bits - 1)) - 1
    return 0, (1 << et.bits) - 1


def complex_part(et: ElementType) -> ElementType:
    """Return the type of a complex type's parts: c64 -> f32, c128 -> f64, others themselves."""
    return ELEMENT_TYPES[{"c64": "f32", "c128": "f64"}.get(et.name, et.name)]


def complex_of(et: ElementType) -> ElementType:
    """Return the complex type over a real part: f32 -> c64, f64 -> c128. Raises KeyError."""
    return ELEMENT_TYPES[{"f32": "c64", "f64": "c128"}[et.name]]


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


class Shape:
    """What an instruction produces: array, tuple, token, opaque or buffer."""

    __slots__ = ()

    def to_string(self, layout: bool = True) -> str:
        """Return the shape as HLO writes it, with or without layouts."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.to_string()

    @property
    def is_array(self) -> bool:
        return isinstance(self, ArrayShape)

    @property
    def is_tuple(self) -> bool:
        return isinstance(self, TupleShape)

    @property
    def is_token(self) -> bool:
        return isinstance(self, TokenShape)

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


@dataclass(frozen=True, slots=True)
class ArrayShape(Shape):
    """An array of `element_type` with `dims`, each static or dynamic up to its size.

    `dynamic` is empty when every dimension is static, else one flag a dimension. A dynamic
    dimension of size `UNBOUNDED` has no bound. `layout` is None only where a text has been parsed
    with layouts left open.
    """

    element_type: ElementType
    dims: tuple[int, ...]
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = ()

    @property
    def rank(self) -> int:
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
        return not self.dims

    @property
    def byte_size(self) -> int:
        """Bytes of the unpacked row-major array that numpy holds."""
        return self.num_elements * self.element_type.byte_width

    def is_dynamic_dim(self, dim: int) -> bool:
        return bool(self.dynamic) and self.dynamic[dim]

    def with_layout(self, layout: Layout | None) -> ArrayShape:
        if layout == self.layout:
            return self
        return ArrayShape(self.element_type, self.dims, layout, self.dynamic)

    def with_type(self, et: ElementType) -> ArrayShape:
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
    """Return name suffix and shape of the arrays that hold an array for compiled code.

    That is the array itself, or one at its bounds and, for each dimension that varies, its size.
    """
    if not shape.dynamic:
        return [("", shape)]
    varying = [d for d in range(shape.rank) if shape.dynamic[d]]
    return [("", replace(shape, dynamic=())), *((f".size{d}", array(S32, ())) for d in varying)]


@dataclass(frozen=True, slots=True)
class TupleShape(Shape):
    """A tuple of shapes, possibly empty, possibly nested."""

    elements: tuple[Shape, ...] = ()

    def to_string(self, layout: bool = True) -> str:
        # The index comments are XLA's: they appear in tuples of more than five elements.
        parts: list[str] = []
        for i, s in enumerate(self.elements):
            note = f"/*index={i}*/" if i and i % 5 == 0 else ""
            parts.append(note + s.to_string(layout))
        return f"({', '.join(parts)})"

    def __str__(self) -> str:
        return self.to_string()


@dataclass(frozen=True, slots=True)
class TokenShape(Shape):
    """The shape of an ordering token."""

    def to_string(self, layout: bool = True) -> str:
        return "token[]"

    def __str__(self) -> str:
        return "token[]"


@dataclass(frozen=True, slots=True)
class OpaqueShape(Shape):
    """A value that only custom calls understand."""

    def to_string(self, layout: bool = True) -> str:
        return "opaque[]"

    def __str__(self) -> str:
        return "opaque[]"


@dataclass(frozen=True, slots=True)
class BufferShape(Shape):
    """A pinned buffer `b(shape)`: memory that instructions update in place."""

    element: ArrayShape

    def to_string(self, layout: bool = True) -> str:
        return f"b({self.element.to_string(layout)})"

    def __str__(self) -> str:
        return self.to_string()


TOKEN = TokenShape()
OPAQUE = OpaqueShape()


def array(
    et: ElementType | str, dims: Sequence[int], dynamic: Sequence[bool] | None = None
) -> ArrayShape:
    """Return an array shape in the default layout."""
    t = ELEMENT_TYPES[et] if isinstance(et, str) else et
    flags = tuple(dynamic) if dynamic is not None and any(dynamic) else ()
    return ArrayShape(t, tuple(dims), _default_layout(len(dims)), flags)


def compatible(a: Shape, b: Shape, *, ignore_element_type: bool = False) -> bool:
    """True when two shapes are equal but for layout and for which dimensions are dynamic.

    A dynamic dimension matches a static one of the same bound (XLA's `Shape::Equal` with
    `IgnoreDynamicDimension`); an unbounded one matches anything.
    """
    if a is b:
        return True
    if isinstance(a, ArrayShape) and isinstance(b, ArrayShape):
        if a.element_type is not b.element_type and not ignore_element_type:
            return False
        if a.dims == b.dims:
            return True
        return len(a.dims) == len(b.dims) and all(
            x == y or UNBOUNDED in (x, y) for x, y in zip(a.dims, b.dims, strict=True)
        )
    if isinstance(a, TupleShape) and isinstance(b, TupleShape):
        return len(a.elements) == len(b.elements) and all(
            compatible(x, y, ignore_element_type=ignore_element_type)
            for x, y in zip(a.elements, b.elements, strict=True)
        )
    if isinstance(a, BufferShape) and isinstance(b, BufferShape):
        return compatible(a.element, b.element, ignore_element_type=ignore_element_type)
    return a == b


def with_layouts_of(shape: Shape, other: Shape) -> Shape:
    """Return a shape with the layouts of a compatible one."""
    if isinstance(shape, ArrayShape) and isinstance(other, ArrayShape):
        return shape.with_layout(other.layout)
    if isinstance(shape, TupleShape) and isinstance(other, TupleShape):
        pairs = zip(shape.elements, other.elements, strict=True)
        return TupleShape(tuple(with_layouts_of(s, o) for s, o in pairs))
    return shape


def without_layout(shape: Shape) -> Shape:
    """Return the shape with every layout set to the default of its rank."""
    if isinstance(shape, ArrayShape):
        return shape.with_layout(_default_layout(shape.rank))
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(without_layout(s) for s in shape.elements))
    if isinstance(shape, BufferShape):
        element = without_layout(shape.element)
        assert isinstance(element, ArrayShape)
        return BufferShape(element)
    return shape
