"""dot on GPUs, as a product of strided matrices."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.matmul.contraction import product_of
from hlo.codegen.kernels.matmul.gemm import Steps
from hlo.codegen.kernels.matmul.product import sums_of
from hlo.codegen.targets.base import Plan, Target
from hlo.codegen.targets.gpu.kernels.matmul.choice import add_product
from hlo.codegen.targets.gpu.kernels.matmul.results import fill_with_zeros
from hlo.codegen.targets.gpu.kernels.matmul.sites import Site
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.ir import Instruction


def plan_dot(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Return the kernels of a product alone."""
    return plan_dot_at(Site.plain(inst), roles, target)


def plan_dot_at(site: Site, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Multiply operands as they lie in memory, or as they are computed."""
    inst = site.product
    lhs, rhs = (o.array_shape for o in inst.operands)
    result = inst.array_shape
    if result.num_elements == 0:
        return Plan(())
    if lhs.num_elements == 0:
        return Plan((fill_with_zeros,))
    types = sums_of(lhs.element_type, rhs.element_type, result.element_type)
    found = [site.operand(n, roles) for n in (0, 1)]
    views, sources = [v for v, _ in found], [s for _, s in found]
    product = product_of(inst, views, sources, types, site.result)
    if product is None:
        # Their memory counts a dimension in different ways.
        found = [site.computed_operand(n) for n in (0, 1)]
        views, sources = [v for v, _ in found], [s for _, s in found]
        product = product_of(inst, views, sources, types, site.result)
        assert product is not None
    steps = Steps()
    add_product(steps, product, Sum.of(types, result.element_type), site, roles, target)
    return steps.plan()


PLANNERS = {"dot": plan_dot}
