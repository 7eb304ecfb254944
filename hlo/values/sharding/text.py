"""Shardings as text: the reader, for which `str` is the inverse.

Source: the rules of XLA's `hlo_parser.cc`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from hlo.errors import TextError
from hlo.values.scan import Scanner
from hlo.values.sharding import (
    AXIS_FIELDS,
    SUBGROUP_KINDS,
    WHOLE_KINDS,
    DeviceMeshSharding,
    DimSharding,
    Metadata,
    NamedSharding,
    ShardGroup,
    Sharding,
    TiledSharding,
    TupleSharding,
    WholeSharding,
)
from hlo.values.sharding.devices import (
    NO_DEVICE,
    AxisRef,
    DeviceGrid,
    Mesh,
    check_axis_refs,
    check_not_mergeable,
    read_axis_ref,
    read_axis_refs,
    read_grid,
    read_mesh,
)

_T = TypeVar("_T")
# The default is a sum.
_REDUCTIONS = {"sum": "", "max": "max", "min": "min"}
_WORDS = (*WHOLE_KINDS, "maximal", "last_tile_dim_replicate", "shard_as", "shard_like")
_FIELDS = ("device", "devices", "last_tile_dims", "metadata")


def _read_metadata(s: Scanner) -> Metadata:
    """Read `{...}` or `{{...},{...}}` and return the contents of the innermost braces."""
    s.expect("{")
    return _read_group(s, _read_entry) if s.peek("{") else (_read_entry(s),)


def _read_group(s: Scanner, read_rest: Callable[[Scanner], _T]) -> tuple[_T, ...]:
    """Read the rest of `{{...},{...}}`. read_rest: reads one element after its opening brace."""
    elements: list[_T] = []
    while not s.accept("}"):
        if elements:
            s.expect(",")
        s.expect("{")
        elements.append(read_rest(s))
    return tuple(elements)


def _read_entry(s: Scanner) -> str:
    """Read the rest of one entry, `key=value key=value}`, and return its text without the brace."""
    fields: list[str] = []
    while not s.accept("}"):
        start = s.pos
        s.ident("a metadata field")
        s.expect("=")
        if s.peek('"') or s.peek("'"):
            s.string()
        elif s.peek("{"):
            s.integers()
        elif s.text[s.pos : s.pos + 1].isalpha():
            s.ident()
        else:
            s.integer()
        fields.append(s.text[start : s.pos].strip())
        s.accept(",")
    return " ".join(fields)


def _read_dim(s: Scanner, mesh: Mesh) -> DimSharding:
    axes: list[AxisRef] = []
    for _ in s.items():
        if s.accept("?"):
            s.expect("}")
            return DimSharding(tuple(axes), closed=False)
        axes.append(read_axis_ref(s, mesh))
        check_not_mergeable(s, mesh, axes)
    return DimSharding(tuple(axes))


def _read_reduction(s: Scanner) -> str:
    """Read the reduction of unreduced values, if any; XLA newer than jaxlib's prints it."""
    if s.peek("{"):
        return ""
    at = s.pos
    word = s.ident("max, min or axes in braces")
    if word not in _REDUCTIONS:
        raise TextError(f"unknown reduction {word!r}", at, code="bad-value",
                        hint="one of " + ", ".join(_REDUCTIONS))  # fmt: skip
    return _REDUCTIONS[word]


def _read_named(s: Scanner) -> Sharding:
    """Read a named sharding after its opening brace."""
    if s.accept("maximal_mesh") or s.accept("single_device"):
        s.expect("[")
        s.expect("device_id")
        s.expect("=")
        maximal = DeviceMeshSharding(s.integer(NO_DEVICE))
        s.expect("]")
        if s.accept(","):
            s.expect("metadata")
            s.expect("=")
            maximal = replace(maximal, metadata=_read_metadata(s))
        s.expect("}")
        return maximal
    mesh = read_mesh(s, may_be_empty=True)
    s.accept(",")
    fields: dict[str, tuple[AxisRef, ...]] = {}
    metadata: Metadata = ()
    kind, reduction = "dims", ""
    dims: list[DimSharding] = []
    if s.peek("["):
        dims = [_read_dim(s, mesh) for _ in s.items("[", "]")]
    else:
        at = s.pos
        kind = s.ident("the sharding of each dimension, or " + " or ".join(AXIS_FIELDS))
        if kind not in AXIS_FIELDS:
            raise TextError(f"unknown sharding {kind!r}", at, code="bad-value")
        if kind == "unreduced" and s.accept("="):
            reduction = _read_reduction(s)
    while not s.accept("}"):
        s.expect(",")
        at = s.pos
        key = s.ident("a field of the sharding")
        s.expect("=")
        if key == "metadata" and not metadata:
            metadata = _read_metadata(s)
        elif key in AXIS_FIELDS and key not in fields and kind == "dims":
            if key == "unreduced":
                reduction = _read_reduction(s)
            fields[key] = read_axis_refs(s, mesh)
        else:
            raise TextError(f"unexpected sharding field {key!r}", at, code="unknown-attribute")
    used = [ref for d in dims for ref in d.axes] + [r for refs in fields.values() for r in refs]
    check_axis_refs(s, mesh, used)
    return NamedSharding(mesh, kind, tuple(dims), **fields, metadata=metadata, reduction=reduction)


def _read_subgroups(s: Scanner) -> tuple[str, ...]:
    kinds: list[str] = []
    for _ in s.items():
        at = s.pos
        kinds.append(s.ident("a kind of subgroup"))
        if kinds[-1] not in SUBGROUP_KINDS:
            raise TextError(f"unknown subgroup kind {kinds[-1]!r}", at, code="bad-value",
                            hint="one of " + ", ".join(SUBGROUP_KINDS))  # fmt: skip
    return tuple(kinds)


def _read_single(s: Scanner) -> Sharding:
    """Read one sharding after its opening brace."""
    if any(map(s.peek, ("mesh", "maximal_mesh", "single_device"))):
        return _read_named(s)
    start = s.pos
    kind: str | None = None
    device: int | None = None
    grid: DeviceGrid | None = None
    subgroups: tuple[str, ...] | None = None
    group: ShardGroup | None = None
    metadata: Metadata = ()
    seen: set[str] = set()
    while not s.accept("}"):
        s.accept(",")
        at = s.pos
        word = s.ident("a sharding")
        # `last_tile_dim_replicate` is short for `last_tile_dims={replicated}`.
        role = {"last_tile_dim_replicate": "last_tile_dims", "shard_like": "shard_as"}.get(
            word, word
        )
        if word in (*WHOLE_KINDS, "maximal"):
            role = "kind"
        if role in seen:
            raise TextError(f"unexpected {word!r}: the sharding is already given", at,
                            code="duplicate-attribute")  # fmt: skip
        seen.add(role)
        if word in _FIELDS:
            s.expect("=")
        if role == "kind":
            kind = word
        elif word == "device":
            device = s.integer(NO_DEVICE)
        elif word == "devices":
            grid = read_grid(s)
        elif word == "last_tile_dim_replicate":
            subgroups = ("replicated",)
        elif word == "last_tile_dims":
            subgroups = _read_subgroups(s)
        elif word in ("shard_as", "shard_like"):
            group = ShardGroup(word, s.integer(0))
        elif word == "metadata":
            metadata = _read_metadata(s)
        else:
            hint = "one of " + ", ".join((*_WORDS, *(f + "=" for f in _FIELDS)))
            raise TextError(f"unknown sharding {word!r}", at, code="bad-value", hint=hint)
    if grid is not None and kind is None and device is None:
        kinds = subgroups or ()
        if len(kinds) > len(grid.dims):
            raise TextError(f"{len(kinds)} subgroup kinds for {len(grid.dims)} dimensions",
                            start, code="bad-value")  # fmt: skip
        return TiledSharding(grid, kinds, group, metadata)
    if kind is None or grid is not None or subgroups is not None:
        raise TextError("a sharding is one of " + ", ".join(WHOLE_KINDS) + ", maximal or devices=",
                        start, code="bad-value")  # fmt: skip
    if (kind == "maximal") != (device is not None):
        raise TextError("maximal has device=, and nothing else has", start, code="bad-value")
    return WholeSharding(kind, device, group, metadata)


def read_sharding(s: Scanner) -> Sharding:
    """Read a sharding in any of its forms. Raises TextError."""
    s.expect("{")
    if not s.peek("{") and not s.peek("}"):
        return _read_single(s)
    return TupleSharding(_read_group(s, _read_single))
