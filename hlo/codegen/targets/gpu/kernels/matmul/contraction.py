"""dot on GPUs, as a product of strided matrices."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.matmul.contraction import fill_with_zeros, product_of, source_of
from hlo.codegen.kernels.matmul.gemm import Steps
from hlo.codegen.kernels.matmul.product import Computed, Source, sums_of
from hlo.codegen.kernels.views import StridedView, view_of, whole_view
from hlo.codegen.targets.base import Plan, Target
from hlo.codegen.targets.gpu.kernels.matmul.choice import add_product
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.ir import Instruction


def plan_dot(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Multiply operands as they lie in memory, or as they are computed."""
    lhs, rhs = (o.array_shape for o in inst.operands)
    result = inst.array_shape
    if result.num_elements == 0:
        return Plan(())
    if lhs.num_elements == 0:
        return Plan((fill_with_zeros,))
    types = sums_of(lhs.element_type, rhs.element_type, result.element_type)
    found = [operand_of(inst, n, roles) for n in (0, 1)]
    product = product_of(inst, [v for v, _ in found], [s for _, s in found], types)
    if product is None:
        # Their memory counts a dimension in different ways.
        found = [computed_operand(inst, n) for n in (0, 1)]
        product = product_of(inst, [v for v, _ in found], [s for _, s in found], types)
        assert product is not None
    steps = Steps()
    add_product(steps, product, Sum.of(types, result.element_type), inst, roles, target)
    return steps.plan()


def operand_of(
    inst: Instruction, number: int, roles: Mapping[Instruction, Role]
) -> tuple[StridedView, Source]:
    """Return an operand as a view of memory, or of what computes it, and where that is."""
    view = view_of(inst.operands[number], roles)
    if view is None:
        return computed_operand(inst, number)
    return view, source_of(view, inst, roles)


def computed_operand(inst: Instruction, number: int) -> tuple[StridedView, Source]:
    """Return an operand whose elements are computed, or loaded, one by one."""
    shape = inst.operands[number].array_shape
    return whole_view(-1, shape), Source(Computed((number,)), shape.element_type)


PLANNERS = {"dot": plan_dot}
