"""Typed accessors of attributes: every attribute has one, and its values have the type it says."""

from __future__ import annotations

import re
import types
import typing
from pathlib import Path
from typing import Any

import pytest

import hlo
from hlo.frontends.text import parse
from hlo.ir import Computation
from hlo.ops import OPS
from hlo.ops.attrs import AttributeAccessors, ComputationView, accessors

ROOT = Path(hlo.__file__).parent
HINTS = typing.get_type_hints(AttributeAccessors, vars(accessors))
# Their property has another name than their key.
RENAMED = {
    "number": ["parameter_number"],
    "index": ["tuple_index"],
    "type": ["comparison_type"],
    "kind": ["fusion_kind"],
    "schedule": ["custom_call_schedule"],
    "called_computations": ["custom_call_computations"],
    "slice_sizes": ["slice_sizes", "slice_sizes_list"],
    "dimensions": ["dimensions", "split_dimensions"],
}
KEYS = sorted({key for spec in OPS.values() for key in spec.attrs})


def _names(key: str) -> list[str]:
    return RENAMED.get(key, [key])


def _is_of(value: Any, hint: Any) -> bool:
    """Return whether a value is of an annotated type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Final:
        return _is_of(value, args[0])
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(value, arg) for arg in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(_is_of(v, args[0]) for v in value)
        return len(value) == len(args) and all(map(_is_of, value, args))
    if hint is ComputationView:
        return isinstance(value, Computation)
    if hint in (int, float):
        return type(value) in ((int,) if hint is int else (int, float))
    return isinstance(value, hint)


@pytest.mark.parametrize("key", KEYS)
def test_every_attribute_has_a_typed_accessor(key: str) -> None:
    for name in _names(key):
        assert isinstance(vars(AttributeAccessors)[name], property)
        assert HINTS[name] is not Any


def test_every_accessor_reads_an_attribute() -> None:
    named = {name for key in KEYS for name in _names(key)}
    found = {n for n, v in vars(AttributeAccessors).items() if isinstance(v, property)}
    assert found == named


@pytest.mark.parametrize("name", OPS)
def test_attributes_of_the_examples_have_the_types_of_their_accessors(name: str) -> None:
    for text in OPS[name].examples:
        for inst in parse(text).instructions():
            for key in inst.spec.attrs:
                values = [getattr(inst, n) for n in _names(key) if hasattr(inst, n)]
                assert inst.attrs[key] is None or inst.attrs[key] in values
                hints = [HINTS[n] for n in _names(key)]
                assert inst.attrs[key] is None or any(_is_of(inst.attrs[key], h) for h in hints)


def test_reading_an_attribute_that_is_not_there_names_the_instruction() -> None:
    text = "HloModule m ENTRY e { x = f32[2] parameter(0) ROOT n = f32[2] negate(x) }"
    root = parse(text).entry.root
    with pytest.raises(AttributeError, match="n: negate has no attribute 'dimensions'"):
        _ = root.dimensions
    assert root.channel_id is None
    with pytest.raises(AttributeError):
        root.window = ()  # type: ignore[misc]


def test_attributes_of_instructions_are_read_by_their_accessors() -> None:
    read = re.compile(r"\b(?!module|c\.op)[a-z_]+\.attrs\[[\"'](\w+)[\"']\](?! = )")
    found = [
        f"{path}: {m[0]}"
        for path in ROOT.rglob("*.py")
        if path.parent.name not in ("attrs", "stablehlo")
        for m in read.finditer(path.read_text())
        if m[1] in KEYS
    ]
    assert not found
