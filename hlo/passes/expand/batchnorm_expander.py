"""Batch normalization by reductions and elementwise operations."""

from __future__ import annotations

from hlo.expansions import expand
from hlo.ir import Module
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def batchnorm_expander(
    module: Module,
    rewrites: Rewrites,
    *,
    training: bool = True,
    inference: bool = True,
    grad: bool = True,
) -> None:
    """Expand batch normalizations and their gradients to means, variances and products.

    In f32 at least, each result rounded once: sums differ by their order.
    """
    chosen = {"training": training, "inference": inference, "grad": grad}
    opcodes = [f"batch-norm-{kind}" for kind, wanted in chosen.items() if wanted]
    rule = "batchnorm_expander.expand"
    expand_instructions(module, rewrites, rule, opcodes, expand, approximate=True)
