"""What an instruction does besides computing its value, through everything that it calls."""

from __future__ import annotations

from functools import cache

from hlo.ir import Computation, Instruction, Module
from hlo.ops import OPS, Trait

# What computing a value may involve, as bits: every instruction is asked for them.
_ACTS = 1  # it has to happen even when nothing uses the value
_VARIES = 2  # the value may be another one the next time
_DEVICE = 4  # the value depends on the device, or on other devices
_LOOPS = 8  # it may not end
# What differs from device to device, but not from one time to the next.
_OF_DEVICE = frozenset({"partition-id", "replica-id"})


@cache
def _own(opcode: str) -> int:
    """Return the bits of an operation itself."""
    spec, bits = OPS[opcode], 0
    if spec.has(Trait.SIDE_EFFECT):
        bits |= _ACTS | _VARIES
    if spec.has(Trait.NO_FOLD) and opcode not in _OF_DEVICE:
        bits |= _VARIES
    if spec.has(Trait.NO_FOLD | Trait.COLLECTIVE | Trait.SIDE_EFFECT):
        bits |= _DEVICE
    if opcode == "while":
        bits |= _LOOPS
    return bits


class Effects:
    """What the computations of a module do besides computing. Valid until calls change."""

    def __init__(self, module: Module) -> None:
        self._bits: dict[Computation, int] = {}
        for comp in module.callees_first():
            self.add(comp)

    def add(self, comp: Computation) -> None:
        """Take note of a new computation; those that it calls are known."""
        bits = 0
        for inst in comp:
            bits |= self._of(inst)
        self._bits[comp] = bits

    def _of(self, inst: Instruction) -> int:
        bits = _own(inst.spec.name)
        if bits & _ACTS and inst.attrs.get("custom_call_has_side_effect") is False:
            bits = _DEVICE  # a function, by its own word, but of what the host has for it
        if inst.spec.computation_attrs:
            for callee in inst.called_computations:
                bits |= self._bits.get(callee, 0)
        return bits

    def has_side_effect(self, inst: Instruction) -> bool:
        """True for what must run even when nothing uses its value.

        A loop counts only for what its body does: one that never ends is not kept for its own sake.
        """
        return bool(self._of(inst) & _ACTS)

    def is_function(self, inst: Instruction) -> bool:
        """True for what computes the same each time on the same operands, and does nothing else."""
        return not self._of(inst) & (_ACTS | _VARIES)

    def is_foldable(self, inst: Instruction) -> bool:
        """True for a function of the operands that is the same on every device."""
        return not self._of(inst) & (_ACTS | _VARIES | _DEVICE)

    def surely_ends(self, inst: Instruction) -> bool:
        """True for what runs no loop."""
        return not self._of(inst) & _LOOPS

    def is_removable(self, inst: Instruction) -> bool:
        """True when an instruction without users may be dropped.

        Parameters are part of a signature, and control edges order what happens outside.
        """
        return (
            inst.opcode != "parameter"
            and not inst.num_users
            and not inst.is_root
            and not inst.control_successors
            and not inst.control_predecessors
            and not self.has_side_effect(inst)
        )
