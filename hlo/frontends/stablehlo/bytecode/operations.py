"""StableHLO's operations from VHLO's: names, and attributes that VHLO has in parts.

VHLO spells every default out, has one attribute for each field of StableHLO's records of
dimensions, and integers where StableHLO has records of channels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from hlo.frontends.stablehlo.bytecode.container import Operation, Value
from hlo.frontends.stablehlo.bytecode.stream import fail
from hlo.frontends.stablehlo.bytecode.vhlo import NONE, Ints

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
    if _ABSENT.get(key, NONE) == value.value or (
        key in _ABSENT_IF_EMPTY and value.value in ([], {})
    ):
        return None
    if key in _UNITS and value.value is True:
        return key, ""
    if key == "channel_id":
        return "channel_handle", f"#stablehlo.channel_handle<handle = {value.value}, type = 0>"
    if key in ("callee", "decomposition"):
        return key, f"@{value.text}"
    if key == "called_computations" and isinstance(value.value, list):
        return key, f"[{', '.join(f'@{v.text}' for v in value.value)}]"
    if isinstance(value.value, Ints) and key != "value":
        return key, value.value.text
    return key, value.text


# Attributes that are there or not, and have no value.
_UNITS = ("use_global_device_ids", "has_dynamic_root")
_ABSENT = {
    "channel_id": 0, "compare_type": "NOTYPE", "use_global_device_ids": False,
    "has_dynamic_root": False, "sym_visibility": "", "backend_config": "",
    "version": 0,
}  # fmt: skip
_ABSENT_IF_EMPTY = (
    "called_computations", "output_operand_aliases", "result_tilings", "composite_attributes",
    "arg_attrs", "res_attrs", "layout", "source_target_pairs",
)  # fmt: skip

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

    The record is there if its first field is.
    """

    name: str
    fields: tuple[str, ...]
    write: Callable[[_Fields], str]


def _dimensions(name: str, kind: str, *fields: str) -> _Record:
    """Return a record whose fields are lists of integers, and index_vector_dim an integer."""

    def write(f: _Fields) -> str:
        pairs = (f"{x} = {f.integer(x) if x == 'index_vector_dim' else f.ints(x)}" for x in fields)
        return f"#stablehlo.{kind}<{', '.join(pairs)}>"

    return _Record(name, fields, write)


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
    labelled = []
    for side, first, second, letters in _SIDES:
        spatial = f.ints(f"{side}_spatial_dimensions")
        labels = {d: str(i) for i, d in enumerate(spatial)}
        labels[f.integer(f"{side}_{first}_dimension")] = letters[0]
        labels[f.integer(f"{side}_{second}_dimension")] = letters[1]
        labelled.append(f"[{', '.join(labels[d] for d in sorted(labels))}]")
    return f"#stablehlo.conv<{labelled[0]}x{labelled[1]}->{labelled[2]}>"


def _channel(f: _Fields) -> str:
    handle, kind = f.integer("channel_id"), f.integer("channel_type")
    return f"#stablehlo.channel_handle<handle = {handle}, type = {kind}>"


_RECORDS = (
    _dimensions(
        "dot_dimension_numbers", "dot", "lhs_batching_dimensions", "rhs_batching_dimensions",
        "lhs_contracting_dimensions", "rhs_contracting_dimensions",
    ),
    _Record("algorithm", _ALGORITHM, _algorithm),
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
    _Record("dimension_numbers", _CONVOLUTION, _convolution),
    _Record("channel_handle", ("channel_type", "channel_id"), _channel),
)  # fmt: skip
