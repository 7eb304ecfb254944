"""A module as XLA prints it after parsing its text.

Names become unique in the module, stack frames are numbered in the order of their use, and the
header has all layouts. Source: `HloParserImpl`, and what jaxlib prints.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hlo.frontends.text.annotations import OpMetadata
from hlo.frontends.text.header import FileLocation, ProgramShape, StackFrame
from hlo.ir import Instruction, Module
from hlo.ir.names import unique_names
from hlo.values.types import ArrayShape, Shape, TupleShape

# With one of these in the header, XLA ignores minor-to-major orders everywhere else.
_RESETTING = (
    "replica_count", "num_partitions", "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output",
)  # fmt: skip
_FRAME = "stack_frame_id"


class AsXla:
    """The differences to the module itself: names, the header's layouts, metadata and tables."""

    def __init__(self, module: Module) -> None:
        self.names: dict[Instruction, str] = unique_names(module.computations)
        self.program_shape = _program_shape(module)
        self._frames = _Frames(module)
        for inst in module.instructions():
            metadata = inst.annotations.get("metadata")
            if metadata is not None and _FRAME in metadata.fields:
                self._frames.number(metadata.fields[_FRAME])
        self.tables = self._frames.tables

    def metadata(self, metadata: OpMetadata) -> OpMetadata | None:
        """Return metadata with the frame's new number, None if nothing is left."""
        fields = dict(metadata.fields)
        frame = fields.pop(_FRAME, None)
        number = None if frame is None else self._frames.number(frame)
        if number == frame:
            return metadata
        if number is not None:
            fields[_FRAME] = number
        known = {k: fields[k] for k in OpMetadata.FIELDS if k in fields}
        return OpMetadata(known) if known else None

    def shape(self, inst: Instruction) -> Shape:
        """Return a shape as printed: those of constants without element sizes."""
        return _shape(inst)


def _shape(inst: Instruction) -> Shape:
    return _without_bits(inst.shape) if inst.opcode == "constant" else inst.shape


def _without_bits(shape: Shape) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(_without_bits, shape.elements)))
    if isinstance(shape, ArrayShape) and shape.layout is not None:
        return replace(shape, layout=replace(shape.layout, element_bits=0))
    return shape


def _program_shape(module: Module) -> ProgramShape:
    entry = module.entry
    shapes, result = entry.parameter_shapes, _shape(entry.root)
    if any(module.attrs.get(key) for key in _RESETTING):
        shapes, result = [_row_major(s) for s in shapes], _row_major(result)
    return ProgramShape(tuple(shapes), result)


def _row_major(shape: Shape) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(_row_major, shape.elements)))
    if isinstance(shape, ArrayShape) and shape.layout is not None:
        order = tuple(reversed(range(shape.rank)))
        return replace(shape, layout=replace(shape.layout, minor_to_major=order))
    return shape


class _Frames:
    """The stack-frame index, with the used entries in the order of their first use."""

    def __init__(self, module: Module) -> None:
        self._old = module.tables
        self._new: dict[str, dict[Any, int]] = {name: {} for name in module.tables}

    @property
    def tables(self) -> dict[str, list[Any]]:
        return {name: list(lines) for name, lines in self._new.items()}

    def number(self, frame: int) -> int | None:
        """Return the new number of a frame, adding it to the index; None for one without entry."""
        chain: list[StackFrame] = []
        # Frames come after their parents; the text numbers parents one higher.
        while (found := self._line("StackFrames", frame)) is not None:
            chain.append(found)
            if found.parent_frame_id - 1 >= frame:
                return None
            frame = found.parent_frame_id - 1
        number = 0
        for own in reversed(chain):
            location = self._location(own.file_location_id)
            if location is None:
                return None
            number = self._add("StackFrames", StackFrame(location, number + 1))
        return number or None

    def _location(self, old: int) -> int | None:
        location = self._line("FileLocations", old)
        if location is None:
            return None
        file = self._line("FileNames", location.file_name_id)
        function = self._line("FunctionNames", location.function_name_id)
        if file is None or function is None:
            return None
        names = self._add("FileNames", file), self._add("FunctionNames", function)
        return self._add("FileLocations", FileLocation(*names, *location[2:]))

    def _line(self, table: str, number: int) -> Any:
        lines = self._old.get(table, ())
        return lines[number - 1] if 0 < number <= len(lines) else None

    def _add(self, table: str, line: Any) -> int:
        lines = self._new[table]
        return lines.setdefault(line, len(lines) + 1)
