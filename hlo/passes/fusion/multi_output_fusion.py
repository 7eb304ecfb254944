"""Kernels that read the same, as one kernel of several results."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.fusion._kernels import fuse_siblings
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def multi_output_fusion(module: Module, rewrites: Rewrites) -> None:
    """Fuse loops over the same array, and a loop with one over its result.

    The rules are those of code generation: loops over the same elements, near to each other, none
    of which needs the other's result through something else. Fusions of several results stay.
    """
    fuse_siblings(module, rewrites, "multi_output_fusion")
