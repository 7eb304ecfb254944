"""Side effects of instructions, including those of the computations that they call."""

from __future__ import annotations

from functools import cache

from hlo.ir import Computation, Instruction
from hlo.ir.computation import callees_first
from hlo.library_calls import is_library_target
from hlo.ops import OPS, Trait
from hlo.ops.host.custom_targets import is_declared

# Effects, as bits since they are queried for every instruction.
_ACTS = 1  # it has to happen even when nothing uses the value
_VARIES = 2  # the value may be another one the next time
_DEVICE = 4  # the value depends on the device, or on other devices
_RISKS = 8  # it may not end, or may fail
_ACTS_OR_VARIES = _ACTS | _VARIES


@cache
def _own(opcode: str) -> int:
    """Return the effects of an operation without its callees."""
    spec, bits = OPS[opcode], 0
    if spec.has(Trait.SIDE_EFFECT):
        bits |= _ACTS | _VARIES
    if spec.has(Trait.NO_FOLD) and not spec.has(Trait.DEVICE_ID):
        bits |= _VARIES  # a device's number differs from others', but not from time to time
    if spec.has(Trait.NO_FOLD | Trait.COLLECTIVE | Trait.SIDE_EFFECT):
        bits |= _DEVICE
    if opcode == "while":
        bits |= _RISKS
    return bits


@cache
def _is_known(target: str) -> bool:
    """Return whether it is known what calls of a target do: no more than operations do."""
    return is_declared(target) or is_library_target(target)


class Effects:
    """The side effects of instructions, with what they call. Valid until calls change.

    Computations are looked at when the first instruction that calls them is asked about.
    """

    def __init__(self) -> None:
        # Those that are being looked at have none yet: an invalid module may have call cycles.
        self._bits: dict[Computation, int] = {}

    def _of_computation(self, comp: Computation) -> int:
        if comp not in self._bits:
            new = callees_first([comp], self._bits)
            self._bits.update(dict.fromkeys(new, 0))
            for callee in new:
                bits = 0
                for inst in callee:
                    bits |= self._of(inst)
                self._bits[callee] = bits
        return self._bits[comp]

    def _of(self, inst: Instruction) -> int:
        bits = _own(inst.opcode)
        if bits & _ACTS and inst.custom_call_has_side_effect is False:
            # A function, by its own word, but of what the host has for it.
            bits = _DEVICE
            if not _is_known(str(inst.attrs.get("custom_call_target"))):
                bits |= _RISKS
        if inst.spec.computation_attrs:
            for callee in inst.called_computations:
                bits |= self._of_computation(callee)
        return bits

    def has_side_effect(self, inst: Instruction) -> bool:
        """True for what must run even when nothing uses its value.

        A loop is kept for the effects of its body only: possible nontermination is not an effect.
        """
        return bool(self._of(inst) & _ACTS)

    def is_function(self, inst: Instruction) -> bool:
        """True for a pure, deterministic function of the operands."""
        if not inst.spec.computation_attrs and not _own(inst.opcode) & _ACTS_OR_VARIES:
            return True  # as most are
        return not self._of(inst) & _ACTS_OR_VARIES

    def is_foldable(self, inst: Instruction) -> bool:
        """True for a pure function of the operands that does not depend on the device."""
        return not self._of(inst) & (_ACTS | _VARIES | _DEVICE)

    def is_speculatable(self, inst: Instruction) -> bool:
        """True for what may run where the program would not run it, or would not again.

        It is no loop, which may be endless, and calls no function that may fail.
        """
        return not self._of(inst) & _RISKS

    def is_removable(self, inst: Instruction) -> bool:
        """True when an instruction without users may be dropped.

        Parameters are part of a signature, and control dependences order side effects.
        """
        return (
            not inst.num_users
            and inst.opcode != "parameter"
            and not inst.is_root
            and not inst.control_successors
            and not inst.control_predecessors
            and not self.has_side_effect(inst)
        )
