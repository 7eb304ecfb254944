"""What an entry function asks its caller for: a table of functions outside the program."""

from __future__ import annotations

from dataclasses import dataclass, field

from hlo.ir import Instruction
from hlo.ops import Trait
from hlo.ops.collective.device_groups import names_devices

# What an entry returns where the first of its checks fails; less by one for each further one.
_CHECKS = -16


@dataclass
class Imports:
    """What a program asks its caller for, in the order of the table.

    instructions: one for each entry of the table, which stands for all of the same structure.
    """

    instructions: list[Instruction] = field(default_factory=list)
    uses_host: bool = False
    # The code of an error and what is wrong, by what the entry returns then.
    checks: dict[int, tuple[str, str]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def check(self, code: str, message: str) -> int:
        """Return what the entry returns where an error of that code ends the program."""
        number = _CHECKS - len(self.checks)
        self.checks[number] = code, message
        return number

    def number(self, inst: Instruction) -> int:
        """Return the number of the function that an instruction calls."""
        notes = inst.annotations
        key = f"{_structure(inst)} {notes.get('backend_config', '')}"
        if inst.spec.has(Trait.COLLECTIVE) or names_devices(inst):
            # Who waits for others is known by name.
            key += f" {notes.get('frontend_attributes', '')} {inst.name}"
        if key not in self._numbers:
            self._numbers[key] = len(self.instructions)
            self.instructions.append(inst)
        return self._numbers[key]


def _structure(inst: Instruction) -> str:
    """Return a text that is equal for instructions that ask the host for the same.

    Computations are told apart by which they are.
    """
    shapes = ",".join(map(str, inst.operand_shapes))
    attrs = ",".join(f"{k}={v!r}" for k, v in inst.attrs.items())
    return f"{inst.opcode}({shapes}){inst.shape}{attrs}"
