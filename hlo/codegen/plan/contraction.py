"""Which products are contracted into additions: `x * y + z` with one rounding.

A contracted product has other bits than a rounded one. Where both are compared, as in
`exp(y - max(y))` with a product `y` that two kernels compute, a difference that ought to be zero is
half a unit in the last place of the product: the exponential of a large one is infinite, and the
root of a negative one NaN. So elementwise operations are not contracted with each other, and each
value has the same bits wherever it is computed. The terms of a sum that a reduction adds up are
seen by nothing else; like those of a `dot`, they are contracted.
"""

from __future__ import annotations

from hlo.analysis.patterns import single_binary_op
from hlo.codegen.plan.tree import computations_of
from hlo.codegen.scalar.operations import CONTRACTS
from hlo.ir import Computation, Instruction


def mark_terms(entry: Computation) -> None:
    """Mark the products of a flattened tree that only the sum of a reduction sees."""
    for comp in computations_of(entry):
        for inst in comp:
            if inst.opcode == "reduce" and len(inst.operands) == 2 and _is_term(inst.operands[0]):
                if single_binary_op(inst.to_apply) == "add":
                    inst.operands[0].attrs[CONTRACTS] = True


def _is_term(inst: Instruction) -> bool:
    return inst.opcode == "multiply" and inst.num_users == 1 and not inst.is_root
