"""Where an instruction comes from: its line of HLO, the framework's operation, the program's line.

The last two are what its metadata says. A stack frame in the metadata is looked up in the module's
tables; the line and the function are those of the innermost frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hlo.ir import Instruction

# The entries of each table of a module's stack frames, by name.
Tables = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class StackFrame:
    """A line of the program that was running when an instruction was made, and its function."""

    file: str
    line: int
    function: str = ""

    @property
    def function_name(self) -> str:
        """The function, for what is inside of one as a comprehension that one; "" for none."""
        name = self.function.split(".<locals>.<", 1)[0].replace(".<locals>", "")
        return "" if name.startswith("<") else name


@dataclass(frozen=True)
class SourceLocation:
    """Where an instruction comes from.

    hlo_file, hlo_line: the file and line of HLO text, counted from 1; None for what no text has.
    op_name, op_type: the framework's operation. file, line: of the program's source, "" and 0 if
    the metadata does not name it. function: that the line is in, "" where no stack frame says it;
    `call_stack` has the callers.
    """

    hlo_file: str | None = None
    hlo_line: int | None = None
    op_name: str = ""
    op_type: str = ""
    file: str = ""
    line: int = 0
    function: str = ""

    @property
    def source(self) -> str:
        """The line of the program as `model.py:12`, or nothing."""
        if not self.file:
            return ""
        return f"{self.file}:{self.line}" if self.line > 0 else self.file

    @property
    def said(self) -> str:
        """The line of the program with its function, as `model.py:12 in f`, or nothing."""
        return f"{self.source} in {self.function}" if self.function else self.source

    @property
    def hlo(self) -> str:
        """The line of HLO text as `m.hlo:34`, or nothing."""
        return "" if self.hlo_file is None else f"{self.hlo_file}:{self.hlo_line}"

    def __str__(self) -> str:
        """Return all that is known, as `model.py:12 in f (jit(f)/dot_general), m.hlo:34`."""
        operation, source = self.op_name or self.op_type, self.said
        if operation and source:
            operation = f"({operation})"
        framework = " ".join(filter(None, (source, operation)))
        return ", ".join(filter(None, (framework, self.hlo)))


def source_location(inst: Instruction, tables: Tables | None = None) -> SourceLocation:
    """Return where an instruction comes from; one without text and metadata has an empty place.

    tables: of stack frames, by name, for instructions that code generation made copies of; by
    default those of the instruction's module.
    """
    file, line = None, None
    if inst.span is not None:
        file = inst.span.source.name
        line, _ = inst.span.source.line_column(inst.span.start)
    metadata = inst.annotations.get("metadata")
    if metadata is None:
        return SourceLocation(file, line)
    fields = metadata.fields
    source, number = fields.get("source_file", ""), fields.get("source_line", 0)
    frames = call_stack(inst, tables)
    if not source and frames:
        source, number = frames[-1].file, frames[-1].line
    # A pass may have set another line than that of the frame.
    is_innermost = bool(frames) and (source, number) == (frames[-1].file, frames[-1].line)
    function = frames[-1].function_name if is_innermost else ""
    name, kind = metadata.op_name, metadata.op_type
    return SourceLocation(file, line, name, kind, source, max(number, 0), function)


def call_stack(inst: Instruction, tables: Tables | None = None) -> tuple[StackFrame, ...]:
    """Return the frames of the program that made an instruction, the outermost first.

    tables: as of `source_location`.
    """
    metadata = inst.annotations.get("metadata")
    if tables is None and inst.parent is not None and inst.parent.module is not None:
        tables = inst.parent.module.tables
    if metadata is None or not tables:
        return ()
    number = metadata.fields.get("stack_frame_id", 0)
    found: list[StackFrame] = []
    while (frame := _frame(tables, number)) is not None:
        found.append(frame)
        # A parent is one more than its number, 1 for none; callers are in front of their callees.
        parent = _entry(tables, "StackFrames", number).parent_frame_id - 1
        number = parent if parent < number else 0
    return tuple(reversed(found))


def _frame(tables: Tables, number: int) -> StackFrame | None:
    """Return a stack frame by its number, None for one that the tables lack."""
    frame = _entry(tables, "StackFrames", number)
    location = None if frame is None else _entry(tables, "FileLocations", frame.file_location_id)
    if location is None:
        return None
    file = _entry(tables, "FileNames", location.file_name_id)
    if file is None:
        return None
    function = _entry(tables, "FunctionNames", location.function_name_id)
    return StackFrame(str(file), location.line, str(function or ""))


def _entry(tables: Tables, table: str, number: int) -> Any:
    """Return an entry of a table by its number, which counts from 1, or None."""
    lines = tables.get(table, ())
    return lines[number - 1] if 0 < number <= len(lines) else None
