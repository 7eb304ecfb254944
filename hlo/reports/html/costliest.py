"""The lines of a program that take most of a run's time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from hlo.analysis.source_location import source_location
from hlo.ir import Instruction

# Lines that are shown, and instructions of one.
_MOST, _INSTRUCTIONS = 5, 3


@dataclass
class Line:
    """A line of the program, or an instruction for which none is known.

    text: `model.py:12 in attention`. seconds: of a run. instructions: the costliest first.
    """

    text: str
    seconds: float = 0.0
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def names(self) -> str:
        """The costliest instructions of the line."""
        names = [inst.name for inst in self.instructions[:_INSTRUCTIONS]]
        rest = len(self.instructions) - len(names)
        return ", ".join(names) + (f" and {rest} more" if rest else "")


def costliest_lines(seconds: Mapping[Instruction, float]) -> list[Line]:
    """Return the lines that take most time. seconds: of instructions, in a run."""
    lines: dict[str, Line] = {}
    for inst, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        if spent > 0:
            text = _line(inst)
            line = lines.setdefault(text, Line(text))
            line.seconds += spent
            line.instructions.append(inst)
    return sorted(lines.values(), key=lambda line: -line.seconds)[:_MOST]


def _line(inst: Instruction) -> str:
    source = source_location(inst)
    if not source.file:
        return inst.name
    text = f"{PurePath(source.file).name}:{source.line}"
    return f"{text} in {source.function}" if source.function else text
