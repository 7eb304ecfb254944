"""Where an instruction comes from: its line of HLO, the framework's operation, the program's line.

The last two are what its metadata says. A stack frame in the metadata is looked up in the module's
tables; the line is that of the innermost frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlo.ir import Instruction, Module


@dataclass(frozen=True)
class SourceLocation:
    """Where an instruction comes from.

    hlo_file, hlo_line: its place in HLO text, the line counted from 1; None for what no text has.
    op_name, op_type: the framework's operation. file, line: of the program's source, "" and 0 if
    the metadata does not name it.
    """

    hlo_file: str | None = None
    hlo_line: int | None = None
    op_name: str = ""
    op_type: str = ""
    file: str = ""
    line: int = 0

    @property
    def source(self) -> str:
        """The line of the program as `model.py:12`, or nothing."""
        if not self.file:
            return ""
        return f"{self.file}:{self.line}" if self.line > 0 else self.file

    @property
    def hlo(self) -> str:
        """The line of HLO text as `m.hlo:34`, or nothing."""
        return "" if self.hlo_file is None else f"{self.hlo_file}:{self.hlo_line}"

    def __str__(self) -> str:
        """Return all that is known, as `model.py:12 (jit(f)/dot_general), m.hlo:34`."""
        operation, source = self.op_name or self.op_type, self.source
        if operation and source:
            operation = f"({operation})"
        framework = " ".join(filter(None, (source, operation)))
        return ", ".join(filter(None, (framework, self.hlo)))


def source_location(inst: Instruction) -> SourceLocation:
    """Return where an instruction comes from; one without text and metadata has an empty place."""
    file, line = None, None
    if inst.span is not None:
        file = inst.span.source.name
        line, _ = inst.span.source.line_column(inst.span.start)
    metadata = inst.annotations.get("metadata")
    if metadata is None:
        return SourceLocation(file, line)
    fields = metadata.fields
    source, number = fields.get("source_file", ""), fields.get("source_line", 0)
    if not source and inst.parent is not None and inst.parent.module is not None:
        source, number = _innermost(inst.parent.module, fields.get("stack_frame_id", 0))
    return SourceLocation(file, line, metadata.op_name, metadata.op_type, source, max(number, 0))


def _innermost(module: Module, frame_id: int) -> tuple[str, int]:
    """Return the file and the line of a stack frame, "" and 0 for one that the tables lack."""
    frame = _entry(module, "StackFrames", frame_id)
    location = None if frame is None else _entry(module, "FileLocations", frame.file_location_id)
    if location is None:
        return "", 0
    file = _entry(module, "FileNames", location.file_name_id)
    return ("", 0) if file is None else (str(file), location.line)


def _entry(module: Module, table: str, number: int) -> Any:
    """Return an entry of a table by its number, which counts from 1, or None."""
    lines = module.tables.get(table, ())
    return lines[number - 1] if 0 < number <= len(lines) else None
