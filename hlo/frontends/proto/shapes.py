"""Reading and writing of shapes, layouts and literals as messages.

Shapes are validated by parsing their text, where the rules are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hlo.errors import TextError
from hlo.frontends.proto.schema import Message
from hlo.values.literal import Literal
from hlo.values.shape_text import parse_shape
from hlo.values.types import (
    ELEMENT_TYPES,
    MAX_NESTING,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    DimLevel,
    ElementType,
    Layout,
    Shape,
    SplitConfig,
    Tile,
    TokenShape,
    TupleShape,
    complex_part,
    without_layout,
)

# The size of an unbounded dimension in messages.
_UNBOUNDED = -(1 << 63)
# The size of a tile's dimension that is merged with the next one.
_COMBINE = -(1 << 63)
_LEVELS = {"DIM_DENSE": "D", "DIM_COMPRESSED": "C", "DIM_SINGLETON": "S",
           "DIM_LOOSE_COMPRESSED": "H"}  # fmt: skip
_LEVEL_WORDS = {letter: word for word, letter in _LEVELS.items()}


def _element_type(word: Any, m: Message) -> ElementType:
    found = ELEMENT_TYPES.get(str(word).lower())
    if found is None:
        raise TextError(f"unknown element type {word}", m.offset, code="unknown-type")
    return found


# --- shapes -------------------------------------------------------------------------------------


def read_shape(m: Message, depth: int = 0) -> Shape:
    """Return the shape in a ShapeProto. Raises TextError."""
    word = m.get("element_type", "PRIMITIVE_TYPE_INVALID")
    if word == "TUPLE":
        if depth >= MAX_NESTING:
            raise TextError(
                f"tuples are nested more than {MAX_NESTING} deep", m.offset, code="nesting-too-deep"
            )
        return TupleShape(tuple(read_shape(s, depth + 1) for s in m.get("tuple_shapes", ())))
    if word == "TOKEN":
        return TOKEN
    if word == "OPAQUE_TYPE":
        return OPAQUE
    if word == "BUFFER":
        inner = [read_shape(s, depth + 1) for s in m.get("tuple_shapes", ())]
        if len(inner) != 1 or not isinstance(inner[0], ArrayShape):
            raise TextError("a buffer holds one array", m.offset, code="bad-shape")
        return BufferShape(inner[0])
    sizes = m.get("dimensions", [])
    flags = m.get("is_dynamic_dimension", [])
    if flags and len(flags) != len(sizes):
        raise TextError(
            f"{len(flags)} flags is_dynamic_dimension for {len(sizes)} dimensions", m.offset,
            code="bad-shape",
        )  # fmt: skip
    for size, dynamic in zip(sizes, flags or [False] * len(sizes), strict=True):
        if size < 0 and not (dynamic and size == _UNBOUNDED):
            raise TextError(f"a dimension of {size} elements", m.offset, code="bad-shape")
    dims = tuple(UNBOUNDED if d == _UNBOUNDED else d for d in sizes)
    layout = Layout.default(len(dims)) if "layout" not in m else _read_layout(m["layout"])
    shape = ArrayShape(
        _element_type(word, m), dims, layout, tuple(flags) if any(flags) else ()
    )  # fmt: skip
    try:
        return parse_shape(str(shape))
    except TextError as e:
        raise TextError(f"shape {shape}: {e.message}", m.offset, code=e.code) from None


def _read_layout(m: Message) -> Layout:
    kinds = m.get("dim_level_types", [])
    unique = m.get("dim_unique", []) or [True] * len(kinds)
    ordered = m.get("dim_ordered", []) or [True] * len(kinds)
    if not len(kinds) == len(unique) == len(ordered):
        raise TextError("levels that differ in number", m.offset, code="bad-layout")
    tiles = tuple(
        Tile(tuple(Tile.COMBINE if d == _COMBINE else d for d in t.get("dimensions", ())))
        for t in m.get("tiles", ())
    )
    splits = tuple(
        SplitConfig(s.get("dimension", 0), tuple(s.get("split_indices", ())))
        for s in m.get("split_configs", ())
    )
    return Layout(
        tuple(m.get("minor_to_major", ())),
        tuple(
            DimLevel(_LEVELS.get(k, str(k)), u, o)
            for k, u, o in zip(kinds, unique, ordered, strict=True)
        ),
        tiles,
        m.get("tail_padding_alignment_in_elements", 0) or 1,
        _index_type(m, "index_primitive_type"),
        _index_type(m, "pointer_primitive_type"),
        m.get("element_size_in_bits", 0),
        m.get("memory_space", 0),
        splits,
        read_shape(m["physical_shape"]) if "physical_shape" in m else None,
        m.get("dynamic_shape_metadata_prefix_bytes", 0),
    )


def _index_type(m: Message, key: str) -> ElementType | None:
    word = m.get(key, "PRIMITIVE_TYPE_INVALID")
    return None if word == "PRIMITIVE_TYPE_INVALID" else _element_type(word, m)


def write_shape(shape: Shape) -> Message:
    """Return the ShapeProto of a shape."""
    if isinstance(shape, ArrayShape):
        m = Message(
            element_type=shape.element_type.name.upper(),
            dimensions=[_UNBOUNDED if d == UNBOUNDED else d for d in shape.dims],
            is_dynamic_dimension=list(shape.dynamic) or [False] * shape.rank,
        )
        if shape.layout is not None:
            m["layout"] = _write_layout(shape.layout)
        return m
    if isinstance(shape, TupleShape):
        return Message(element_type="TUPLE", tuple_shapes=[write_shape(s) for s in shape.elements])
    if isinstance(shape, BufferShape):
        return Message(element_type="BUFFER", tuple_shapes=[write_shape(shape.element)])
    return Message(element_type="TOKEN" if shape.is_token else "OPAQUE_TYPE")


def _write_layout(layout: Layout) -> Message:
    m = Message(
        minor_to_major=list(layout.minor_to_major),
        dim_level_types=[_LEVEL_WORDS[x.kind] for x in layout.levels],
        tiles=[
            Message(dimensions=[_COMBINE if s == Tile.COMBINE else s for s in tile.sizes])
            for tile in layout.tiles
        ],
        tail_padding_alignment_in_elements=layout.tail_padding,
        element_size_in_bits=layout.element_bits,
        memory_space=layout.memory_space,
        split_configs=[
            Message(dimension=s.dim, split_indices=list(s.indices)) for s in layout.splits
        ],
        dynamic_shape_metadata_prefix_bytes=layout.dynamic_prefix_bytes,
    )
    if not all(x.unique for x in layout.levels):
        m["dim_unique"] = [x.unique for x in layout.levels]
    if not all(x.ordered for x in layout.levels):
        m["dim_ordered"] = [x.ordered for x in layout.levels]
    if layout.index_type is not None:
        m["index_primitive_type"] = layout.index_type.name.upper()
    if layout.pointer_type is not None:
        m["pointer_primitive_type"] = layout.pointer_type.name.upper()
    if layout.physical_shape is not None:
        m["physical_shape"] = write_shape(layout.physical_shape)
    return m


def write_program_shape(
    parameters: Iterable[Shape], result: Shape, names: Iterable[str]
) -> Message:
    """Return the ProgramShapeProto of a computation's parameters and result."""
    return Message(
        parameters=[write_shape(s) for s in parameters],
        result=write_shape(result),
        parameter_names=list(names),
    )


# --- literals -----------------------------------------------------------------------------------

# Types whose elements are numbers in the message; the others are bytes, with one byte for a
# sub-byte element.
_NUMBERS = ("pred", "s32", "s64", "u32", "u64", "f32", "f64", "c64", "c128")


def _order(shape: ArrayShape) -> tuple[int, ...]:
    """Return the dimensions from major to minor: the order of elements in a message."""
    layout = shape.layout or Layout.default(shape.rank)
    return layout.minor_to_major[::-1]


def read_literal(m: Message, shape: Shape | None = None) -> Literal:
    """Return the value of a LiteralProto, in its own shape or one that differs in layout.

    Raises TextError.
    """
    own = read_shape(m.sub("shape"))
    literal = _read_elements(m, own)
    if shape is None or shape == own:
        return literal
    if without_layout(shape) != without_layout(own):
        raise TextError(f"a literal {own.to_string(False)} for {shape.to_string(False)}", m.offset,
                        code="literal-shape")  # fmt: skip
    return literal.with_shape(shape)


def _read_elements(m: Message, shape: Shape) -> Literal:
    if isinstance(shape, TupleShape):
        parts = m.get("tuple_literals", [])
        if len(parts) != len(shape.elements):
            raise TextError(
                f"{len(parts)} literals for {shape.to_string(False)}", m.offset,
                code="literal-shape",
            )  # fmt: skip
        return Literal(
            shape, [_read_elements(p, s) for p, s in zip(parts, shape.elements, strict=True)]
        )
    if isinstance(shape, TokenShape):
        return Literal(shape)
    if not isinstance(shape, ArrayShape) or UNBOUNDED in shape.dims:
        raise TextError(f"there is no literal of shape {shape}", m.offset, code="type-mismatch")
    if m.get("sparse_indices") or m.get("dynamic_sizes"):
        raise TextError("a sparse or dynamic literal, which HLO text does not have either",
                        m.offset, code="type-mismatch")  # fmt: skip
    et = shape.element_type
    data: Any = m.get(et.name + "s", b"")
    if et.name in _NUMBERS:
        flat = np.asarray(data, complex_part(et).dtype).view(et.dtype) if len(data) else None
    else:
        flat = _from_bytes(data, et, m)
    count = 0 if flat is None else len(flat)
    if count != shape.num_elements:
        raise TextError(
            f"{count} elements for {shape.to_string(False)}", m.offset, code="literal-shape"
        )
    if flat is None:
        return Literal(shape, np.empty(shape.dims, et.dtype))
    order = _order(shape)
    physical = flat.reshape([shape.dims[d] for d in order])
    return Literal(shape, np.ascontiguousarray(physical.transpose(np.argsort(order)))
                   if shape.rank else physical)  # fmt: skip


def _from_bytes(data: bytes, et: ElementType, m: Message) -> np.ndarray:
    if len(data) % et.byte_width:
        raise TextError(f"{len(data)} bytes of {et}", m.offset, code="literal-shape")
    raw = np.frombuffer(data, np.uint8)
    if et.bits < 8:
        # Sub-byte integers are zero-extended in the message, and sign-extended in memory.
        low = raw & np.uint8((1 << et.bits) - 1)
        sign = np.uint8(1 << (et.bits - 1) if et.is_signed else 0)
        raw = (low ^ sign) - sign
    return raw.view(et.dtype)


def write_literal(literal: Literal) -> Message:
    """Return the LiteralProto of a value."""
    shape = literal.shape
    m = Message(shape=write_shape(shape))
    if isinstance(shape, TupleShape):
        m["tuple_literals"] = parts = [write_literal(e) for e in literal.elements]
        m["shape"]["tuple_shapes"] = [part["shape"] for part in parts]
    elif isinstance(shape, ArrayShape):
        # XLA reads no literal with an element size in its layout.
        m["shape"].sub("layout").pop("element_size_in_bits", None)
        et = shape.element_type
        flat = np.ascontiguousarray(literal.array.transpose(_order(shape))).reshape(-1)
        if et.name in _NUMBERS:
            m[et.name + "s"] = flat.view(complex_part(et).dtype)
        else:
            raw = flat.view(np.uint8)
            m[et.name + "s"] = (
                raw & np.uint8((1 << et.bits) - 1) if et.bits < 8 else raw
            ).tobytes()  # fmt: skip
    return m
