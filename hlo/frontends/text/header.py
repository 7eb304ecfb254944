"""The header of a module: its attributes and the tables of source locations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from hlo.errors import TextError
from hlo.frontends.text.annotations import BACKEND_CONFIG, BRACES, FRONTEND_ATTRIBUTES
from hlo.frontends.text.origins import read_recovery_text
from hlo.ir.aliases import BufferDonor, InputOutputAlias
from hlo.ops.attrs import BOOL, BOOLS, INT, Codec
from hlo.values.scan import Scanner, escape
from hlo.values.shape_text import read_shape
from hlo.values.types import Shape

# --- attributes ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProgramShape:
    """The shapes, with layouts, of the entry's parameters and result."""

    parameters: tuple[Shape, ...]
    result: Shape

    def __str__(self) -> str:
        # The index comments are XLA's, as in a tuple.
        parts = [
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + str(s)
            for i, s in enumerate(self.parameters)
        ]
        return f"({', '.join(parts)})->{self.result}"


def _read_program_shape(s: Scanner) -> ProgramShape:
    s.expect("{")
    parameters = tuple(read_shape(s) for _ in s.items("(", ")"))
    s.expect("->")
    result = read_shape(s)
    s.expect("}")
    return ProgramShape(parameters, result)


def _read_aliases(s: Scanner) -> tuple[InputOutputAlias, ...]:
    found: list[InputOutputAlias] = []
    for _ in s.items():
        output = s.integers()
        s.expect(":")
        s.expect("(")
        parameter = s.integer(0)
        s.expect(",")
        index = s.integers()
        must = False
        if s.accept(","):
            at = s.pos
            kind = s.ident("may-alias or must-alias")
            if kind not in ("may-alias", "must-alias"):
                raise TextError(f"{kind!r} is not may-alias or must-alias", at, code="bad-value")
            must = kind == "must-alias"
        s.expect(")")
        found.append(InputOutputAlias(output, parameter, index, must))
    return tuple(found)


def _read_donors(s: Scanner) -> tuple[BufferDonor, ...]:
    found: list[BufferDonor] = []
    for _ in s.items():
        s.expect("(")
        parameter = s.integer(0)
        s.expect(",")
        found.append(BufferDonor(parameter, s.integers()))
        s.expect(")")
    return tuple(found)


def _write_all(values: tuple[Any, ...]) -> str:
    return "{ " + ", ".join(map(str, values)) + " }"


def _read_bools(s: Scanner) -> tuple[bool, ...]:
    return BOOLS.read(s) if s.peek("{") else (s.boolean(),)


_PROPAGATION = Codec("true, false or {booleans}", _read_bools, BOOLS.write)

MODULE_ATTRS: dict[str, Codec] = {
    "is_scheduled": BOOL,
    "input_output_alias": Codec("{ {out}: (param, {in}) }", _read_aliases, _write_all),
    "buffer_donor": Codec("{ (param, {index}) }", _read_donors, _write_all),
    "alias_passthrough_params": BOOL,
    "entry_computation_layout": Codec(
        "{(shapes)->shape}", _read_program_shape, lambda v: "{" + str(v) + "}"
    ),
    "allow_spmd_sharding_propagation_to_parameters": _PROPAGATION,
    "allow_spmd_sharding_propagation_to_output": _PROPAGATION,
    "replica_count": INT,
    "num_partitions": INT,
    "frontend_attributes": FRONTEND_ATTRIBUTES,
    "backend_config": BACKEND_CONFIG,
    "origin_recovery_table": Codec("{ origin : origin, .. }", read_recovery_text, str),
    "debug_attributes": BRACES,
}

# --- tables -------------------------------------------------------------------------------------


class FileLocation(NamedTuple):
    """A range of a source file. Ids count from 1."""

    file_name_id: int
    function_name_id: int
    line: int
    end_line: int
    column: int
    end_column: int


class StackFrame(NamedTuple):
    """A location and the frame that called it (0: none)."""

    file_location_id: int
    parent_frame_id: int


TABLES: dict[str, type[FileLocation] | type[StackFrame] | None] = {
    "FileNames": None,
    "FunctionNames": None,
    "FileLocations": FileLocation,
    "StackFrames": StackFrame,
}


def read_table(text: str) -> tuple[str, list[Any]]:
    """Return the name and the entries of a table. Raises TextError."""
    s = Scanner(text)
    name = s.ident()
    record = TABLES[name]
    lines: list[Any] = []
    while not s.at_end():
        at = s.pos
        number = s.integer()
        if number != len(lines) + 1:
            raise TextError(
                f"line {number} of {name} where {len(lines) + 1} is expected", at,
                code="bad-table",
            )  # fmt: skip
        lines.append(s.string() if record is None else _read_fields(s, record))
    return name, lines


def _read_fields(s: Scanner, record: type[FileLocation] | type[StackFrame]) -> Any:
    at = s.pos
    s.expect("{")
    found: dict[str, int] = {}
    while not s.accept("}"):
        place = s.pos
        key = s.ident("a field")
        if key not in record._fields or key in found:
            what = "given twice" if key in found else "unknown"
            raise TextError(
                f"field {key!r} is {what}", place, code="bad-table",
                hint="the fields are " + ", ".join(record._fields),
            )  # fmt: skip
        s.expect("=")
        found[key] = s.integer(-(2**31), 2**31 - 1)
        s.accept(",")
    for key in record._fields:
        if key not in found:
            raise TextError(f"field {key!r} is missing", at, code="bad-table")
    return record(**found)


def write_table(name: str, lines: list[Any]) -> str:
    """Return a table as HLO text, with a line break at its end."""
    out = [name]
    for number, line in enumerate(lines, 1):
        if isinstance(line, str):
            out.append(f'{number} "{escape(line)}"')
        else:
            inside = " ".join(f"{k}={v}" for k, v in line._asdict().items())
            out.append(f"{number} {{{inside}}}")
    return "\n".join(out) + "\n"
