"""The choice of kernels: those of an opcode, or a loop nest over elements."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.analysis.fusion.chains import chain_of
from hlo.analysis.fusion.operations import is_multi_output, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import RENAMED, rows_of
from hlo.codegen import kernels  # noqa: F401  (registers its planners)
from hlo.codegen.kernels.chain.chain import plan_chain
from hlo.codegen.kernels.reduce.row_loops import emit_rows
from hlo.codegen.loops.kernel import PLANNERS, attributes_key
from hlo.codegen.loops.on_demand import emit_multi_output, emit_on_demand
from hlo.codegen.targets.base import Plan, Target
from hlo.errors import HloError
from hlo.ir import Instruction

# Products: their plans depend on nothing but what the kernel computes.
_PRODUCTS = frozenset({"dot", "convolution"})
# Plans of products by what the kernels compute: layers of one size have equal ones. When there are
# too many, the oldest go.
_MOST_PLANS = 1 << 10
_plans: dict[tuple[Target, str], Plan] = {}


def plan_of(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Return the kernels of an instruction, by shapes and target. Raises HloError."""
    # Measurements are of each product by its name.
    if target.choices is not None or not _computes_product(inst, roles):
        return _plan_of(inst, roles, target)
    key = target, fused_key(inst, roles)
    found = _plans.get(key)
    if found is None:
        while len(_plans) >= _MOST_PLANS:
            del _plans[next(iter(_plans))]
        found = _plans[key] = _plan_of(inst, roles, target)
    return found


def _computes_product(inst: Instruction, roles: Mapping[Instruction, Role]) -> bool:
    """True for products and for kernels that some are fused into."""
    todo, seen = [inst], {inst}
    while todo:
        node = todo.pop()
        if node.opcode in _PRODUCTS:
            return True
        for operand in node.operands:
            if operand not in seen and roles[operand] is Role.FUSED:
                seen.add(operand)
                todo.append(operand)
    return False


def fused_key(inst: Instruction, roles: Mapping[Instruction, Role]) -> str:
    """Return a key that is equal for kernels that compute the same from equally shaped arrays."""
    number: dict[Instruction, str] = {}
    parts: list[str] = []

    def visit(node: Instruction, role: Role) -> str:
        """Write a node's line and return its number. Fusion depth is bounded."""
        found = number.get(node)
        if found is None:
            if role is Role.FUSED or (role is Role.ALIAS and node.opcode in RENAMED):
                operands = ",".join([visit(o, roles[o]) for o in node.operands])
                name = f"{role.name} {node.opcode}({operands})"
                parts.append(f"{name}{node.shape}{attributes_key(node)}")
            else:
                parts.append(str(node.shape))
            found = number[node] = str(len(parts))
        return found

    visit(inst, Role.FUSED)
    return ";".join(parts)


def _plan_of(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    if is_multi_output(inst):
        return Plan((emit_multi_output,))
    if is_on_demand(inst):
        chain = chain_of(inst, roles)
        if chain is not None:
            return plan_chain(chain, roles, target)
        by_rows = rows_of(inst, roles) is not None
        return Plan((emit_rows if by_rows else emit_on_demand,))
    planner = PLANNERS.get(inst.opcode)
    if planner is None:
        raise HloError.at(
            "unsupported", f"{inst.opcode} has no native code yet", inst.span,
            hint="the reference interpreter runs it",
        )  # fmt: skip
    return planner(inst, roles, target)
