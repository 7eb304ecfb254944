"""Fusion of loops of equal shape that read the same operand."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.fusion._kernels import fuse_siblings
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def cpu_multi_output_fusion(module: Module, rewrites: Rewrites) -> None:
    """Fuse loops of equal shape that share an operand.

    Unlike multi-output-fusion, it does not fuse a loop with one over its result.
    """
    fuse_siblings(module, rewrites, "cpu_multi_output_fusion", read_each_other=False)
