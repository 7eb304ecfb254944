"""StableHLO's operations from VHLO's, and the other way: names, and attributes that differ.

VHLO spells every default out, has one attribute for each field of StableHLO's records of
dimensions, and integers where StableHLO has records of channels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from hlo.errors import InferError
from hlo.frontends.stablehlo import tree
from hlo.frontends.stablehlo.attributes import (
    Accuracy,
    Array,
    Attribute,
    Boolean,
    Convolution,
    Dictionary,
    Enumeration,
    Integer,
    List,
    Record,
    String,
    TypeAttribute,
    Unit,
    Verbatim,
    channel_handle,
    integers,
)
from hlo.frontends.stablehlo.bytecode.container import Operation, Value
from hlo.frontends.stablehlo.bytecode.properties import PROPERTIES, definition, introduced
from hlo.frontends.stablehlo.bytecode.stream import fail
from hlo.frontends.stablehlo.bytecode.versions import TooOldError, Version
from hlo.frontends.stablehlo.bytecode.vhlo import ApiVersion, Ints
from hlo.frontends.stablehlo.bytecode.vhlo_types import NONE
from hlo.frontends.stablehlo.same_names import CHLO, spelled

_VERSION = re.compile(r"vhlo\.([\w-]+?)_v\d+")
_FUNCTIONS = {"func": "func.func", "call": "func.call"}


def name_of(op: Operation, parent: str) -> str:
    """Return the name of an operation in StableHLO. parent: that of the operation around it."""
    m = _VERSION.fullmatch(op.name)
    if m is None:
        if op.name.startswith("vhlo."):
            fail(f"{op.name} is not an operation of VHLO", op.offset, "unknown-opcode")
        return op.name
    if m[1] == "return":
        return "func.return" if parent == "func.func" else "stablehlo.return"
    return _FUNCTIONS.get(m[1], f"stablehlo.{m[1]}")


def attributes_of(op: Operation) -> dict[str, str]:
    """Return the attributes of an operation as those of StableHLO, as text by name.

    The text of one without a value is empty.
    """
    attrs = {k: v for k, v in op.attrs.items() if v.value is not NONE}
    if not op.name.startswith("vhlo."):
        return {k: v.text for k, v in attrs.items()}
    if not any(_is_listed(attrs.get(key)) for key in _LAYOUTS):
        for key in _LAYOUTS:
            attrs.pop(key, None)
    made = {}
    for record in _RECORDS:
        if record.fields[0] in attrs:
            fields = {name: attrs.pop(name, None) for name in record.fields}
            made[record.name] = record.write(_Fields(op, fields))
    for key, value in attrs.items():
        found = _converted(key, value)
        if found is not None:
            made[found[0]] = found[1]
    return made


_LAYOUTS = ("operand_layouts", "result_layouts")


def _is_listed(value: Value | None) -> bool:
    return value is not None and bool(value.value)


def _converted(key: str, value: Value) -> tuple[str, str] | None:
    """Return the name and the text of an attribute, None where it is absent in StableHLO.

    The text of one without a value is empty.
    """
    default = _DEFAULTS.get(key)
    if default is not None and _says_default(value, default):
        return None
    if key in _UNITS and value.value is True:
        return key, ""
    if key == "channel_id":
        return "channel_handle", str(channel_handle(value.value, 0))
    if key in ("callee", "decomposition"):
        return key, f"@{value.text}"
    if key == "called_computations" and isinstance(value.value, list):
        return key, f"[{', '.join(f'@{v.text}' for v in value.value)}]"
    if isinstance(value.value, Ints) and key != "value":
        return key, value.value.text
    return key, value.text


# Attributes that are there or not, and have no value.
_UNITS = ("use_global_device_ids", "has_dynamic_root")
_EMPTY = List(())
# What VHLO has for attributes that StableHLO leaves out.
_DEFAULTS: Mapping[str, Attribute] = {
    "arg_attrs": _EMPTY,
    "backend_config": String(""),
    "called_computations": _EMPTY,
    "channel_id": Integer(0),
    "compare_type": Enumeration("comparison_type", "NOTYPE"),
    "composite_attributes": Dictionary({}),
    "has_dynamic_root": Boolean(False),
    "layout": _EMPTY,
    "output_operand_aliases": _EMPTY,
    "res_attrs": _EMPTY,
    "result_tilings": _EMPTY,
    "source_target_pairs": integers(()),
    "sym_visibility": String(""),
    "use_global_device_ids": Boolean(False),
    "version": Integer(0, "i32"),
}


def _says_default(value: Value, default: Attribute) -> bool:
    if isinstance(default, List | Dictionary | Array):
        return value.value in ([], {})
    said = default.word if isinstance(default, Enumeration) else default.value  # type: ignore[attr-defined]
    return bool(said == value.value)


# --- records of dimensions ----------------------------------------------------------------------


class _Fields:
    """The fields of a record, which VHLO has as attributes of their own."""

    def __init__(self, op: Operation, values: dict[str, Value | None]) -> None:
        self._op = op
        self._values = values

    def ints(self, name: str) -> list[int]:
        """Return a list of integers, empty where it is absent: older versions lack some."""
        value = self._values[name]
        if value is None:
            return []
        if not isinstance(value.value, Ints):
            fail(f"{self._op.name}: {name} is not a list of integers", self._op.offset)
        return list(value.value)

    def integer(self, name: str) -> int:
        value = self._values[name]
        if value is None or type(value.value) is not int:
            fail(f"{self._op.name}: {name} is not an integer", self._op.offset)
        return value.value

    def text(self, name: str) -> str:
        value = self._values[name]
        if value is None:
            fail(f"{self._op.name}: {name} is missing", self._op.offset, "missing-attribute")
        return value.text


class _Record(NamedTuple):
    """An attribute of StableHLO, the fields that VHLO has instead, and the text made of them.

    The record is there if its first field is. name: of the attribute; kind: of the record.
    """

    name: str
    kind: str
    fields: tuple[str, ...]
    write: Callable[[_Fields], str]


def _dimensions(name: str, kind: str, *fields: str) -> _Record:
    """Return a record whose fields are lists of integers, and index_vector_dim an integer."""

    def write(f: _Fields) -> str:
        pairs = (f"{x} = {f.integer(x) if x == 'index_vector_dim' else f.ints(x)}" for x in fields)
        return f"#stablehlo.{kind}<{', '.join(pairs)}>"

    return _Record(name, kind, fields, write)


_ALGORITHM = (
    "lhs_precision_type", "rhs_precision_type", "accumulation_type", "lhs_component_count",
    "rhs_component_count", "num_primitive_operations", "allow_imprecise_accumulation",
)  # fmt: skip


def _algorithm(f: _Fields) -> str:
    pairs = (f"{x} = {f.text(x).partition(' : ')[0]}" for x in _ALGORITHM)
    return f"#stablehlo.dot_algorithm<{', '.join(pairs)}>"


_SIDES = (
    ("input", "batch", "feature", "bf"),
    ("kernel", "input_feature", "output_feature", "io"),
    ("output", "batch", "feature", "bf"),
)
_CONVOLUTION = tuple(
    f"{side}_{kind}"
    for side, first, second, _ in _SIDES
    for kind in (f"{first}_dimension", f"{second}_dimension", "spatial_dimensions")
)


def _convolution(f: _Fields) -> str:
    labelled: list[list[str]] = []
    for side, first, second, letters in _SIDES:
        spatial = f.ints(f"{side}_spatial_dimensions")
        labels = {d: str(i) for i, d in enumerate(spatial)}
        labels[f.integer(f"{side}_{first}_dimension")] = letters[0]
        labels[f.integer(f"{side}_{second}_dimension")] = letters[1]
        labelled.append([labels[d] for d in sorted(labels)])
    return str(Convolution((labelled[0], labelled[1], labelled[2])))


def _convolution_fields(a: Convolution) -> dict[str, Attribute]:
    made: dict[str, Attribute] = {}
    for (side, first, second, letters), labels in zip(_SIDES, a.labels, strict=True):
        numbers = {label: d for d, label in enumerate(labels)}
        made[f"{side}_{first}_dimension"] = Integer(numbers.pop(letters[0]))
        made[f"{side}_{second}_dimension"] = Integer(numbers.pop(letters[1]))
        spatial = (numbers[label] for label in sorted(numbers, key=int))
        made[f"{side}_spatial_dimensions"] = integers(spatial)
    return made


def _channel(f: _Fields) -> str:
    return str(channel_handle(f.integer("channel_id"), f.integer("channel_type")))


_RECORDS = (
    _dimensions(
        "dot_dimension_numbers", "dot", "lhs_batching_dimensions", "rhs_batching_dimensions",
        "lhs_contracting_dimensions", "rhs_contracting_dimensions",
    ),
    _Record("algorithm", "dot_algorithm", _ALGORITHM, _algorithm),
    _dimensions(
        "dimension_numbers", "gather", "offset_dims", "collapsed_slice_dims",
        "operand_batching_dims", "start_indices_batching_dims", "start_index_map",
        "index_vector_dim",
    ),
    _dimensions(
        "scatter_dimension_numbers", "scatter", "update_window_dims", "inserted_window_dims",
        "input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims",
        "index_vector_dim",
    ),
    _Record("dimension_numbers", "conv", _CONVOLUTION, _convolution),
    _Record("channel_handle", "channel_handle", ("channel_type", "channel_id"), _channel),
)  # fmt: skip

# --- from StableHLO -----------------------------------------------------------------------------

# The fields of records by their kind.
_FIELDS_OF = {record.kind: record.fields for record in _RECORDS}
_PRECISION = Enumeration("precision", "DEFAULT")
# What VHLO has for attributes that our writer leaves out, and StableHLO's reader as well.
_LEFT_OUT: Mapping[str, Attribute] = {
    **_DEFAULTS,
    **dict.fromkeys(_ALGORITHM, TypeAttribute("none")),
    "operand_layouts": _EMPTY,
    "precision_config": List((_PRECISION, _PRECISION)),
    "result_accuracy": Accuracy(0, 0, 0, "DEFAULT"),
    "result_layouts": _EMPTY,
}
# The configuration of a custom call is a string before.
_DICTIONARIES: Version = (1, 3, 0)
# Definitions of collectives that take a single operand.
_ONE_OPERAND = ("all_gather_v1", "all_reduce_v1", "all_to_all_v1")


class Definition(NamedTuple):
    """An operation of VHLO: its name with the number of its definition, and its attributes.

    properties: those of the definition, in order. notes: others.
    """

    name: str
    properties: dict[str, Attribute]
    notes: Mapping[str, Attribute]


def vhlo_of(op: tree.Operation, target: Version) -> Definition:
    """Return an operation as VHLO has it in a version of StableHLO.

    Raises TooOldError where that version cannot express it.
    """
    dialect, _, kind = op.name.partition(".")
    if dialect == "chlo" and kind in _CALLED:
        return vhlo_of(_custom_call(op, _CALLED[kind]), target)
    if dialect not in ("stablehlo", "func"):
        raise InferError(f"a portable artifact has no {op.name}", code="no-counterpart")
    name = definition(kind, target)
    if name in _ONE_OPERAND and len(op.operands) != 1:
        since = introduced(kind, "replica_groups")
        assert since is not None
        raise TooOldError(since, target, "that of several arrays")
    known = PROPERTIES.get(f"vhlo.{name}", ())
    fields: dict[str, Attribute] = {}
    for key, value in op.attrs.items():
        fields |= _fields(key, value)
    if "channel_type" not in known:
        fields.pop("channel_type", None)
    if isinstance(op.attrs.get("backend_config"), Verbatim) and target < _DICTIONARIES:
        raise TooOldError(_DICTIONARIES, target, "a dictionary as backend_config")
    for key in fields.keys() - set(known):
        if fields[key] not in (_LEFT_OUT.get(key), integers(())):
            since = introduced(kind, key)
            if since is None:
                raise InferError(f"a portable artifact has no {key} of it",
                                 code="no-counterpart")  # fmt: skip
            raise TooOldError(since, target, f"its {key}")
    return Definition(f"vhlo.{name}", {
        key: fields[key] if key in fields else _LEFT_OUT[key] for key in known
    }, op.notes)  # fmt: skip


# The operations of CHLO, which VHLO lacks, that are custom calls; and their names there.
_CALLED = {**{spelled(name): spelled(name) for name in CHLO}, "top_k": "topk"}


def _custom_call(op: tree.Operation, name: str) -> tree.Operation:
    """Return the custom call that stands for an operation; readers restore it, XLA too."""
    attrs = {
        "call_target_name": String(f"mhlo.{name}"),
        "has_side_effect": Boolean(False),
        "api_version": Integer(1, "i32"),
    }
    encoded = {"mhlo.attributes": Dictionary(op.attrs), "mhlo.version": Integer(1)}
    return replace(op, name="stablehlo.custom_call", attrs=attrs, notes={**op.notes, **encoded})


def _fields(key: str, value: Attribute) -> dict[str, Attribute]:
    """Return the attributes that VHLO has instead of one of StableHLO."""
    if isinstance(value, Convolution):
        return _convolution_fields(value)
    if isinstance(value, Record) and value.kind == "channel_handle":
        handle, kind = value.fields.values()
        return {"channel_id": Integer(handle), "channel_type": Integer(kind)}
    if isinstance(value, Record) and value.kind in _FIELDS_OF:
        made = {}
        for name in _FIELDS_OF[value.kind]:
            field = value.fields.get(name, ())
            made[name] = (
                field if isinstance(field, Attribute)
                else integers(field) if isinstance(field, tuple) else Integer(field)
            )  # fmt: skip
        return made
    if isinstance(value, Unit):
        return {key: Boolean(True)}
    if key == "api_version":
        assert isinstance(value, Integer)
        return {key: ApiVersion(value.value)}
    return {key: value}
