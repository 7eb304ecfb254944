"""Reductions over devices that are added to a wider value."""

from __future__ import annotations

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.patterns import single_binary_op
from hlo.ir import Instruction, Module
from hlo.ops import OPS, Trait
from hlo.ops.elementwise.casts import widens
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused
from hlo.passes.types._retype import Retyper


@module_pass
def reorder_convert_reduce_add(
    module: Module, rewrites: Rewrites, *, enable_reduce_scatter: bool = False
) -> None:
    """Upcast before an all-reduce whose result is converted to a wider float and added.

    The sum over devices is then next to the addition, as required by passes that accumulate first
    and reduce once. enable_reduce_scatter: the same for reduce-scatter.
    """
    opcodes = {"all-reduce", "reduce-scatter"} if enable_reduce_scatter else {"all-reduce"}
    retypers: dict[tuple[object, object], Retyper] = {}
    for comp in unfused(module):
        for convert in comp:
            if not _is_added(convert) or convert.operands[0].opcode not in opcodes:
                continue
            reduction = convert.operands[0]
            source, to = reduction.array_shape.element_type, convert.array_shape.element_type
            retyper = retypers.setdefault((source, to), Retyper(module, {source: to}))
            op = single_binary_op(reduction.to_apply)
            if op is None or has_control_edges(reduction) or not retyper.can(reduction):
                continue
            rule = f"reorder_convert_reduce_add.{reduction.opcode}"
            # Rounding commutes with these; others now round later, to more digits.
            exact = OPS[op].has(Trait.EXTREMUM)
            if rewrites.allow(rule, convert, approximate=not exact):
                new = retyper.change(reduction, lambda _: True)
                (narrowed,) = new.users
                replace_instruction(convert, new)
                comp.remove(convert)
                comp.remove(narrowed)


def _is_added(convert: Instruction) -> bool:
    """True for a conversion to a wider float, the only use of its operand, that is an addend."""
    if convert.opcode != "convert" or has_control_edges(convert):
        return False
    source, to = convert.operands[0].array_shape.element_type, convert.array_shape.element_type
    return (
        source.is_float
        and to.is_float
        and widens(source, to)
        and convert.operands[0].num_users == 1
        and not convert.operands[0].is_root
        and any(u.opcode == "add" for u in convert.users)
    )
