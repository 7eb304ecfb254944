"""Reading shapes and layouts: the inverse of `str(shape)`.

Source: "Shapes and Layout" (document 001) and the shape grammar of XLA's text parser.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NoReturn

from hlo.errors import TextError, did_you_mean
from hlo.values.scan import Scanner
from hlo.values.types import (
    ELEMENT_TYPES,
    MAX_ELEMENTS,
    MAX_NESTING,
    MAX_RANK,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    ArrayShape,
    BufferShape,
    DimLevel,
    ElementType,
    Kind,
    Layout,
    Shape,
    SplitConfig,
    Tile,
    TupleShape,
)

_PLAIN = re.compile(
    r"([a-z][a-z0-9]*)\[((?:\d{1,18}(?>(?:,\d{1,18})*))?)\]"
    r"(?:\{(\d{1,3}(?>(?:,\d{1,3})*))\}|(?!\s*+[{/]))"
)
_LAYOUT_START = re.compile(r"\{(?=\s*[\d:}])")


@lru_cache(maxsize=1 << 14)
def parse_shape(text: str, fill_layout: bool = True) -> Shape:
    """Parse a shape; white space around it is allowed. Raises TextError.

    A missing layout becomes the default one, or None if `fill_layout` is false.
    """
    scanner = Scanner(text)
    shape = read_shape(scanner, fill_layout)
    scanner.end()
    return shape


def read_shape(s: Scanner, fill_layout: bool = True, *, before_literal: bool = False) -> Shape:
    """Read an array, tuple, token, opaque or buffer shape. Raises TextError.

    before_literal: a brace after a blank starts the literal, not a layout.
    """
    open_tuples: list[list[Shape]] = []
    while True:
        if s.accept("("):
            if len(open_tuples) >= MAX_NESTING:
                s.fail(f"tuples are nested more than {MAX_NESTING} deep", code="nesting-too-deep")
            open_tuples.append([])
            if not s.accept(")"):
                continue
            shape: Shape = TupleShape(tuple(open_tuples.pop()))
        else:
            shape = _read_leaf(s, fill_layout, before_literal)
        # Close every tuple that ends here.
        while open_tuples:
            open_tuples[-1].append(shape)
            if s.accept(","):
                break
            if not s.accept(")"):
                _fail_between(s, "','", ")", "tuple shape")
            shape = TupleShape(tuple(open_tuples.pop()))
        else:
            return shape


def _read_leaf(s: Scanner, fill_layout: bool, before_literal: bool = False) -> Shape:
    m = _PLAIN.match(s.text, s.pos)
    if m is not None and m[1] in ELEMENT_TYPES:
        # The usual case in one step: static dimensions and a bare permutation.
        dims = tuple(map(int, m[2].split(","))) if m[2] else ()
        order = tuple(map(int, m[3].split(","))) if m[3] else None
        if (order is None or _is_permutation(order, len(dims))) and _fits(
            dims, ELEMENT_TYPES[m[1]]
        ):
            s.pos = m.end()
            s.skip()
            if order is not None:
                return ArrayShape(ELEMENT_TYPES[m[1]], dims, Layout(order))
            default = Layout.default(len(dims)) if fill_layout else None
            return ArrayShape(ELEMENT_TYPES[m[1]], dims, default)
    at = s.pos
    word = s.ident("a shape such as f32[2,3]")
    if word == "b" and s.accept("("):
        inner = _read_leaf(s, fill_layout)
        s.expect(")")
        if not isinstance(inner, ArrayShape):
            raise TextError(f"a buffer holds an array, not {inner}", at, code="bad-value")
        return BufferShape(inner)
    if word in ("token", "opaque"):
        s.expect("[")
        s.expect("]")
        if _LAYOUT_START.match(s.text, s.pos):
            # Old texts print an empty layout for these.
            s.accept("{")
            s.expect("}")
        return TOKEN if word == "token" else OPAQUE
    if word not in ELEMENT_TYPES:
        raise TextError(
            f"unknown element type {word!r}", at, code="unknown-type",
            hint=did_you_mean(word, [*ELEMENT_TYPES, "token", "opaque"]),
        )  # fmt: skip
    dims, dynamic = _read_dims(s, ELEMENT_TYPES[word])
    layout: Layout | None = Layout.default(len(dims)) if fill_layout else None
    is_apart = before_literal and s.text[s.pos - 1] != "]"
    if not is_apart and _LAYOUT_START.match(s.text, s.pos):
        layout = read_layout(s, len(dims))
    return ArrayShape(ELEMENT_TYPES[word], dims, layout, dynamic)


def _fail_between(s: Scanner, separators: str, closing: str, of: str) -> NoReturn:
    """Raise the TextError of a list that neither goes on nor ends."""
    if s.at_end():
        s.fail(f"the {closing!r} of the {of} is missing")
    s.fail(f"expected {separators} or {closing!r} in the {of}, found {s.found()}")


def _fits(dims: tuple[int, ...], et: ElementType) -> bool:
    """True when counts of elements and bytes, ignoring dimensions of size 0, fit an int64."""
    if len(dims) > MAX_RANK:
        return False
    product = et.byte_width
    for d in dims:
        product *= max(d, 1)
        if product > MAX_ELEMENTS:
            return False
    return True


def _is_permutation(order: tuple[int, ...], rank: int) -> bool:
    return len(order) == rank and sorted(order) == list(range(rank))


def _read_dims(s: Scanner, et: ElementType) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    at = s.pos
    s.expect("[")
    dims: list[int] = []
    dynamic: list[bool] = []
    while not s.accept("]"):
        # The first documents write `f32[4x2]` for `f32[4,2]`.
        if s.at_end() or (dims and not s.accept("x") and not s.accept(",")):
            _fail_between(s, "','", "]", "dimensions")
        if s.accept("?"):
            dims.append(UNBOUNDED)
            dynamic.append(True)
            continue
        dynamic.append(s.accept("<="))
        dims.append(s.integer(0))
    if len(dims) > MAX_RANK:
        what = f"the array has {len(dims)} dimensions, {MAX_RANK} are the most there may be"
        raise TextError(what, at, code="bad-shape")
    if not _fits(tuple(dims), et):
        raise TextError("the array has more than 2^63 - 1 bytes", at, code="bad-shape")
    return tuple(dims), tuple(dynamic) if any(dynamic) else ()


def read_layout(s: Scanner, rank: int) -> Layout:
    """Read `{1,0:T(8,128)S(5)}`, the layout of an array of `rank` dimensions. Raises TextError."""
    at = s.pos
    s.expect("{")
    order: list[int] = []
    while not s.peek("}") and not s.peek(":"):
        if order and not s.accept(","):
            _fail_between(s, "',', ':'", "}", "layout")
        order.append(s.integer(0, max(rank, len(order) + 1) + 64))
    if len(order) != rank:
        raise TextError(
            f"the layout names {len(order)} dimensions, the shape has {rank}", at, code="bad-layout"
        )
    if not _is_permutation(tuple(order), rank):
        raise TextError(
            f"minor-to-major {{{','.join(map(str, order))}}} is not a permutation of "
            f"0..{rank - 1}", at, code="bad-layout",
        )  # fmt: skip
    if s.accept("}"):
        return Layout(tuple(order))
    s.expect(":")
    levels: list[DimLevel] = []
    at = s.pos
    if s.accept("D("):
        levels = [_read_level(s)]
        while s.accept(","):
            levels.append(_read_level(s))
        s.expect(")")
        if len(levels) != rank:
            message = f"{len(levels)} level types for {rank} dimensions"
            raise TextError(message, at, code="bad-layout")
    tiles: list[Tile] = []
    if s.peek("T("):
        s.accept("T")
        while s.peek("("):
            tiles.append(_read_tile(s))
    tail_padding = _read_number(s, "L(", 1, 1)
    index_type = _read_type(s, "#(")
    pointer_type = _read_type(s, "*(")
    element_bits = _read_number(s, "E(", 0, 0)
    memory_space = _read_number(s, "S(", 0, 0)
    splits: list[SplitConfig] = []
    if s.peek("SC("):
        s.accept("SC")
        while s.peek("("):
            splits.append(_read_split(s, rank))
    physical: Shape | None = None
    if s.accept("P("):
        physical = read_shape(s)
        s.expect(")")
    prefix = _read_number(s, "M(", 0, 0)
    if not s.accept("}"):
        s.fail(
            f"expected '}}' after the layout, found {s.found()}",
            hint="the order of layout fields is D T L # * E S SC P M",
        )
    return Layout(
        tuple(order), tuple(levels), tuple(tiles), tail_padding, index_type, pointer_type,
        element_bits, memory_space, tuple(splits), physical, prefix,
    )  # fmt: skip


def _read_level(s: Scanner) -> DimLevel:
    for kind in "DCSH":
        if s.accept(kind):
            unique = not s.accept("+")
            return DimLevel(kind, unique, not s.accept("~"))
    s.fail(f"expected a dimension level type D, C, S or H, found {s.found()}")


def _read_tile(s: Scanner) -> Tile:
    s.expect("(")
    sizes: list[int] = []
    while not s.accept(")"):
        if sizes:
            s.expect(",")
        sizes.append(Tile.COMBINE if s.accept("*") else s.integer(1))
    return Tile(tuple(sizes))


def _read_split(s: Scanner, rank: int) -> SplitConfig:
    s.expect("(")
    dim = s.integer(0, max(rank - 1, 0))
    s.expect(":")
    indices = [s.integer(0)]
    while s.accept(","):
        indices.append(s.integer(0))
    s.expect(")")
    return SplitConfig(dim, tuple(indices))


def _read_number(s: Scanner, opener: str, default: int, lo: int) -> int:
    if not s.accept(opener):
        return default
    value = s.integer(lo)
    s.expect(")")
    return value


def _read_type(s: Scanner, opener: str) -> ElementType | None:
    if not s.accept(opener):
        return None
    at = s.pos
    name = s.ident("an unsigned integer type")
    s.expect(")")
    found = ELEMENT_TYPES.get(name)
    if found is None or found.kind is not Kind.UNSIGNED:
        raise TextError(f"{name!r} is not an unsigned integer type", at, code="bad-layout")
    return found
