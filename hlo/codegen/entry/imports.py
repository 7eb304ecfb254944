"""The external functions of a program, which its caller provides in a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from hlo.codegen.entry.collectives.descriptor import Described
from hlo.ir import Instruction
from hlo.ops.collective.device_groups import names_devices

# The status of the entry's first check; one less for each further one.
_CHECKS = -16
# The status of the entry for its first collective; one more for each further one.
COLLECTIVE_FAILED = 1 << 30


@dataclass
class Imports:
    """The external functions of a program, in the order of the table.

    instructions: one for each entry of the table, representing all of the same structure.
    collectives: those of several devices, which call the table of collectives.
    """

    instructions: list[Instruction] = field(default_factory=list)
    collectives: list[Described] = field(default_factory=list)
    uses_host: bool = False
    # Error code and message, keyed by the entry's status.
    checks: dict[int, tuple[str, str]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def check(self, code: str, message: str) -> int:
        """Return the status of the entry for an error with a code and message."""
        number = _CHECKS - len(self.checks)
        self.checks[number] = code, message
        return number

    def number(self, inst: Instruction) -> int:
        """Return the number of the function that an instruction calls."""
        notes = inst.annotations
        key = f"{_structure(inst)} {notes.get('backend_config', '')}"
        if names_devices(inst):
            # Instructions that wait for others are identified by name.
            key += f" {notes.get('frontend_attributes', '')} {inst.name}"
        if key not in self._numbers:
            self._numbers[key] = len(self.instructions)
            self.instructions.append(inst)
        return self._numbers[key]


def _structure(inst: Instruction) -> str:
    """Return a key that is equal for instructions with the same external function.

    Computations are compared by identity.
    """
    shapes = ",".join(map(str, inst.operand_shapes))
    attrs = ",".join(f"{k}={v!r}" for k, v in inst.attrs.items())
    return f"{inst.opcode}({shapes}){inst.shape}{attrs}"
