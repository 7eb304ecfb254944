"""Puts the expansions of instructions in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hlo.errors import HloError, InferError
from hlo.expansions import Expansion
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import is_configured, replace_instruction, unfused
from hlo.values.sharding import TupleSharding
from hlo.values.types import ArrayShape


def expand_instructions(
    module: Module, rewrites: Rewrites, rule: str, opcodes: Iterable[str], expansion: Expansion,
    *, approximate: bool | Callable[[Instruction], bool] = False,
) -> None:  # fmt: skip
    """Put expansions in the places of all instructions of some opcodes that have one.

    approximate: whether results may differ by rounding, for all or for each instruction.
    Computations that an expansion calls are added to the module. Raises HloError at an instruction
    whose expansion fails.
    """
    wanted = frozenset(opcodes)
    for comp in unfused(module):
        for inst in comp:
            if inst.opcode not in wanted or inst.control_predecessors or inst.control_successors:
                continue
            if is_configured(inst):
                continue
            try:
                expanded = expansion(inst)
            except InferError as e:
                raise HloError.at(e.code, f"{inst.name}: {e.message}", inst.span, e.hint) from None
            may_round = approximate(inst) if callable(approximate) else approximate
            if expanded is not None and rewrites.allow(rule, inst, approximate=may_round):
                root = inline(comp, inst, expanded)
                if root not in inst.operands:
                    _hand_on_sharding(inst, root)
                replace_instruction(inst, root)
                comp.remove(inst)


def _hand_on_sharding(inst: Instruction, root: Instruction) -> None:
    """Give the sharding of an instruction to what stands for it, and to the elements of a tuple."""
    sharding = inst.annotations.get("sharding")
    if sharding is None:
        return
    root.annotations.setdefault("sharding", sharding)
    if root.opcode == "tuple" and isinstance(sharding, TupleSharding):
        for element, own in zip(root.operands, sharding.elements, strict=False):
            if element.shape.is_array and element.opcode != "parameter":
                element.annotations.setdefault("sharding", own)


def inline(
    comp: Computation,
    inst: Instruction,
    expanded: Computation,
    operands: Sequence[Instruction] | None = None,
) -> Instruction:
    """Append a copy of a computation, its parameters standing for the operands; returns its root.

    operands: by default those of `inst`. The computations that it calls, which are in no module
    yet, come into that of `comp`.
    """
    assert comp.module is not None
    b, operands = Builder(comp, inst), inst.operands if operands is None else operands
    made: dict[Instruction, Instruction] = {}
    for old in expanded.in_order():
        if old.opcode == "parameter":
            made[old] = operands[old.parameter_number]
            continue
        comp.module.adopt([old])
        made[old] = b.copy(old, [made[o] for o in old.operands])
    return made[expanded.root]


def rounds(inst: Instruction) -> bool:
    """True for results of floats or complex numbers, whose sums depend on the order."""
    return any(
        isinstance(leaf, ArrayShape)
        and (leaf.element_type.is_float or leaf.element_type.is_complex)
        for _, leaf in inst.shape.leaves()
    )
