"""convolution on GPUs: products whose operands are gathered while tiles of them are copied.

As on processors, positions of the window are rows, output features columns; taps and input features
are summed over, and a dilated input makes several products, one for each alignment to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.conv.convolution import Convolution, phases_of
from hlo.codegen.kernels.matmul.gemm import Steps
from hlo.codegen.kernels.matmul.product import Source, is_exact, sums_of
from hlo.codegen.kernels.views import StridedView
from hlo.codegen.targets.base import Plan, Target
from hlo.codegen.targets.gpu.kernels.matmul.choice import add_product
from hlo.codegen.targets.gpu.kernels.matmul.results import fill_with_zeros
from hlo.codegen.targets.gpu.kernels.matmul.sites import Site
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.ir import Instruction


def plan_convolution(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Return the kernels of a convolution alone."""
    return plan_convolution_at(Site.plain(inst), roles, target)


def plan_convolution_at(site: Site, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Multiply patches of the input as they lie in memory."""
    inst = site.product
    lhs, rhs = (o.array_shape for o in inst.operands)
    result = inst.array_shape
    if result.num_elements == 0:
        return Plan(())
    if lhs.num_elements == 0 or rhs.num_elements == 0:
        return Plan((fill_with_zeros,))
    types = sums_of(lhs.element_type, rhs.element_type, result.element_type)
    steps = Steps()
    (x, of_x), (w, of_w) = (_strided(site, n, roles) for n in (0, 1))
    found = Convolution(
        x, w, (of_x, of_w), inst.dim_labels, inst.window, inst.feature_group_count,
        inst.batch_group_count, result.dims, site.strides,
    )  # fmt: skip
    phases = [phases_of(*sizes) for sizes in found.spatial]
    if any(p.taps == 0 for dim in phases for p in dim):
        steps.emitters.append(fill_with_zeros)
    sums = Sum.of(types, result.element_type)
    for chosen in itertools.product(*phases):
        if all(p.taps for p in chosen):
            product = replace(found.product(chosen), store=types.store, exact=is_exact(inst))
            add_product(steps, product, sums, site, roles, target)
    return steps.plan()


def _strided(
    site: Site, number: int, roles: Mapping[Instruction, Role]
) -> tuple[StridedView, Source]:
    """Return an operand in which every dimension has one stride."""
    view, source = site.operand(number, roles)
    if all(len(digits) == 1 for digits in view.dims):
        return view, source
    return site.computed_operand(number)


PLANNERS = {"convolution": plan_convolution}
