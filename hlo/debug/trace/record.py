"""A trace: values of instructions in the order of their execution; its file and its table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from hlo.analysis.source_location import SourceLocation
from hlo.debug.trace.statistics import HEADINGS, Statistics
from hlo.errors import HloError
from hlo.io.files import read_npz, write_npz
from hlo.support.notebook import ROWS, block, paragraph, table
from hlo.values.types import ELEMENT_TYPES, element_type_of

# The columns of a table of values, the first and the last of which are text.
COLUMNS = ("value", "shape", *HEADINGS, "source")
# The member of an npz that has all but the arrays, as JSON in UTF-8, and the version of its form.
_INDEX = "trace"
_VERSION = 1


@dataclass(frozen=True)
class Frame:
    """A caller on the way to an instruction: a loop, a branch, a call or a fusion.

    iteration: of a loop, counted from 0; None of the others.
    """

    instruction: str
    iteration: int | None = None

    def __str__(self) -> str:
        return self.instruction + ("" if self.iteration is None else f"[{self.iteration}]")


@dataclass(frozen=True)
class TracedValue:
    """An array that an instruction computed: what it was, and where.

    leaf: the index path in a result that is a tuple. frames: the callers, the outermost first.
    executions: how many times it ran, from `frames` to `last_frames`, where the statistics are of
    several; shape and leaf are those of the first. array: the value, of its actual size, where
    arrays were asked for.
    """

    computation: str
    instruction: str
    opcode: str
    shape: str
    leaf: tuple[int, ...] = ()
    frames: tuple[Frame, ...] = ()
    statistics: Statistics = field(default_factory=lambda: Statistics(0))
    array: np.ndarray | None = field(default=None, compare=False)
    location: SourceLocation = field(default_factory=SourceLocation)
    device: int = 0
    executions: int = 1
    last_frames: tuple[Frame, ...] = ()

    @property
    def iteration(self) -> int | None:
        """The iteration of the innermost loop, None outside of loops."""
        return next((f.iteration for f in reversed(self.frames) if f.iteration is not None), None)

    @property
    def path(self) -> str:
        """The callers and the instruction, as `while[3]/fusion/dot.1`, the leaf behind a dot."""
        name = ".".join([self.instruction, *map(str, self.leaf)])
        frames = [
            f"{first.instruction}[{first.iteration}..{last.iteration}]"
            if first != last
            else str(first)
            for first, last in zip(self.frames, self.last_frames or self.frames, strict=True)
        ]
        return "/".join([*frames, name])

    def __repr__(self) -> str:
        low, high, _, nans, infs, *_ = self.statistics.cells()
        wrong = f", {nans} NaN, {infs} inf" if not self.statistics.is_finite else ""
        return f"<TracedValue {self.path}: {self.shape} from {low} to {high}{wrong}>"

    def row(self) -> list[str]:
        """Return the cells of its line in a table with `COLUMNS`."""
        place = self.location
        source = place.source or place.op_name or place.hlo
        return [self.path, self.shape, *self.statistics.cells(), source]

    def to_json(self) -> dict[str, Any]:
        """Return everything but the array."""
        return {
            "device": self.device,
            "computation": self.computation,
            "instruction": self.instruction,
            "opcode": self.opcode,
            "shape": self.shape,
            "leaf": list(self.leaf),
            "frames": [asdict(f) for f in self.frames],
            "executions": self.executions,
            "last_frames": [asdict(f) for f in self.last_frames],
            "statistics": self.statistics.to_json(),
            "location": asdict(self.location),
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any], array: np.ndarray | None = None) -> Self:
        """Return the value that `to_json` described."""
        return cls(
            entry["computation"], entry["instruction"], entry["opcode"], entry["shape"],
            tuple(entry["leaf"]), tuple(Frame(**f) for f in entry["frames"]),
            Statistics(**entry["statistics"]), array, SourceLocation(**entry["location"]),
            entry["device"], entry["executions"], tuple(Frame(**f) for f in entry["last_frames"]),
        )  # fmt: skip


@dataclass
class Trace:
    """The values of a run, in the order of execution; `hlo.trace` returns it.

    notes: what was left out, and why.
    """

    module_name: str
    values: list[TracedValue] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        wrong = sum(not v.statistics.is_finite for v in self.values)
        return (
            f"<Trace of {self.module_name}: {len(self.values)} values, "
            f"{wrong or 'none'} with NaN or infinities>"
        )

    def _repr_html_(self) -> str:
        rows = (v.row() for v in self.values[:ROWS])
        left = (0, 1, len(COLUMNS) - 1)
        shown = table(COLUMNS, rows, left=left, count=len(self.values))
        return block(paragraph(repr(self).strip("<>")), shown, *map(paragraph, self.notes))

    def of(self, instruction: str) -> list[TracedValue]:
        """Return the values of an instruction by its name, in order."""
        return [v for v in self.values if v.instruction == instruction.removeprefix("%")]

    def to_json(self) -> dict[str, Any]:
        """Return the trace without arrays, as docs/schemas/trace.schema.json describes it."""
        return {
            "version": _VERSION,
            "module": self.module_name,
            "notes": self.notes,
            "values": [v.to_json() for v in self.values],
        }

    def save(self, path: str | Path) -> None:
        """Write the trace to an npz: an array for each value that has one, and `trace`, the rest.

        Raises HloError where writing fails.
        """
        index = self.to_json()
        arrays: dict[str, np.ndarray] = {}
        for number, (value, entry) in enumerate(zip(self.values, index["values"], strict=True)):
            if value.array is not None:
                entry["array"] = str(number)
                entry["dtype"] = element_type_of(value.array.dtype).name
                arrays[str(number)] = value.array
        arrays[_INDEX] = np.frombuffer(json.dumps(index).encode(), np.uint8)
        write_npz(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a trace that `save` wrote. Raises HloError for a file that is none."""
        arrays = read_npz(path)
        if _INDEX not in arrays:
            raise HloError.at(
                "bad-file", f"{path} is not a trace: it has no array {_INDEX!r}",
                hint="hlo-run --trace=OUT.npz writes one",
            )  # fmt: skip
        try:
            index = json.loads(bytes(arrays[_INDEX]))
            if index["version"] != _VERSION:
                raise ValueError(f"version {index['version']}")
            values = []
            for entry in index["values"]:
                array = None
                if "array" in entry:
                    dtype = ELEMENT_TYPES[entry["dtype"]].dtype
                    array = arrays[entry["array"]]
                    array = array if array.dtype == dtype else _as(array, dtype)
                values.append(TracedValue.from_json(entry, array))
            return cls(index["module"], values, list(index["notes"]))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
            raise HloError.at("bad-file", f"{path} is not a trace: {e}") from None


def _as(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return an array whose type numpy's files have no name for, as what it was."""
    return array.view(dtype) if array.dtype.kind == "V" else array.astype(dtype)
