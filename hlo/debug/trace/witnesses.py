"""Which values have to be looked at to know of every NaN and infinity of a run.

A sum of what has a NaN or an infinity has one itself, as has a product. So of a chain of such
operations the last value is a witness for the others, and they may stay inside of a kernel. The
value behind an operation that may hide one, such as a comparison, is no witness.
"""

from __future__ import annotations

from collections.abc import Iterable

from hlo.debug.trace.blame import may_make
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import is_empty
from hlo.values.types import ArrayShape, ElementType

# Operations whose result has a NaN or an infinity if any element of an operand has, by the operands
# of which that is true; None for all.
_SHOWING: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        """add subtract multiply negate abs sqrt cbrt log log-plus-one sine cosine tan floor ceil
        round-nearest-afz round-nearest-even reduce-precision convert copy reshape transpose
        broadcast reverse concatenate bitcast dot batch-norm-inference""".split()
    ),
    "divide": (0,), "remainder": (0,), "pad": (0,), "reduce": (0,), "convolution": (0,),
    "batch-norm-training": (0,),
}  # fmt: skip
# Types that have both, and numbers between them enough for what is converted.
_WIDE = frozenset(("f16", "bf16", "f32", "f64"))


class Witnesses:
    """For each instruction that may make a NaN or an infinity, the one whose value shows it."""

    def __init__(self, computations: Iterable[Computation]) -> None:
        self._witness: dict[Instruction, Instruction] = {}
        self._shown: dict[Instruction, list[Instruction]] = {}
        for comp in computations:
            self._add(comp)

    def is_one(self, inst: Instruction) -> bool:
        """True for an instruction whose value has to be looked at."""
        return inst in self._shown

    def shown_by(self, witness: Instruction) -> list[Instruction]:
        """Return the instructions that a witness stands for, itself among them."""
        return self._shown[witness]

    def of(self, inst: Instruction) -> Instruction:
        """Return the witness of an instruction that may make a NaN or an infinity."""
        return self._witness[inst]

    def _add(self, comp: Computation) -> None:
        # The witness of an instruction, also of one that only moves elements.
        reached: dict[Instruction, Instruction] = {}
        for inst in reversed(list(comp.in_order())):
            witness = next(
                (reached[u] for u in inst.users if u in reached and _shows(u, inst)), None
            )
            makes = may_make(inst)
            if witness is None and makes:
                witness = inst
            if witness is None:
                continue
            reached[inst] = witness
            if makes:
                self._witness[inst] = witness
                self._shown.setdefault(witness, []).append(inst)


def _shows(inst: Instruction, operand: Instruction) -> bool:
    """True if the result has a NaN or an infinity whenever an operand has."""
    if inst.opcode not in _SHOWING or not _is_wide(inst) or not _is_wide(operand):
        return False
    places = _SHOWING[inst.opcode]
    if places is not None and all(inst.operands[n] is not operand for n in places):
        return False
    match inst.opcode:
        case "pad":
            return all(d.low >= 0 and d.high >= 0 for d in inst.padding)
        case "reduce":
            return len(inst.operands) == 2 and _is_sum(inst.to_apply)
        case "convolution":
            # Every element is in some window.
            return all(
                d.stride == 1 and d.rhs_dilate == 1 and d.pad_low >= 0 and d.pad_high >= 0
                for d in inst.window
            )
        case "bitcast":
            return _type(inst) is _type(operand)
    return True


def _is_wide(inst: Instruction) -> bool:
    """True for arrays of fixed size, with elements, of floats that have a NaN and an infinity."""
    return all(
        isinstance(s, ArrayShape) and not s.is_dynamic and not is_empty(s)
        and s.element_type.name in _WIDE
        for _, s in inst.shape.leaves()
    )  # fmt: skip


def _type(inst: Instruction) -> ElementType:
    return inst.array_shape.element_type


def _is_sum(comp: Computation) -> bool:
    """True for a function that adds its two parameters."""
    root = comp.root
    return root.opcode == "add" and {*root.operands} == {*comp.parameters}
