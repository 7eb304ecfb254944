"""Where computations are run, and what computes a value across the boundaries of fusions."""

from __future__ import annotations

from hlo.analysis.matching import Matching
from hlo.ir import Computation, Instruction

_INLINES = frozenset({"fusion", "call"})


class Sites:
    """The instructions that run the computations of two matched modules."""

    def __init__(self, matching: Matching) -> None:
        self._of = {**matching.left.callers(), **matching.right.callers()}

    def of(self, comp: Computation | None) -> list[Instruction]:
        """Return the instructions that run a computation."""
        return self._of.get(comp, []) if comp is not None else []

    def only(self, comp: Computation | None) -> Instruction | None:
        """Return the instruction that runs a computation, if there is just one."""
        found = self.of(comp)
        return found[0] if len(found) == 1 else None

    def value(self, inst: Instruction) -> Instruction:
        """Return what computes a value, outside or inside of fusions and calls."""
        seen: list[Instruction] = []
        path: list[int] = []
        while inst not in seen:
            seen.append(inst)
            if inst.opcode == "parameter":
                site = self.only(inst.parent)
                if site is None or site.opcode not in _INLINES:
                    break
                inst = site.operands[inst.parameter_number]
            elif inst.opcode == "get-tuple-element":
                path.append(inst.tuple_index)
                inst = inst.operands[0]
            elif inst.opcode == "tuple" and path:
                inst = inst.operands[path.pop()]
            elif inst.opcode in _INLINES and self.only(inst.called_computations[0]) is inst:
                inst = inst.called_computations[0].root
            else:
                break
        # Elements of what is no tuple by itself have no name but that of their own instruction.
        return seen[0] if path else inst
