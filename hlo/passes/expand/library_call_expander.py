"""Calls of vendors' libraries as the operations that they stand for."""

from __future__ import annotations

from hlo.ir import Module
from hlo.library_calls import expand_call
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def library_call_expander(module: Module, rewrites: Rewrites) -> None:
    """Express calls of cuBLAS, cuDNN, cuSOLVER, CUB and oneDNN by plain operations.

    What is not known of a call leaves it as it is; a run says why.
    """
    rule = "library_call_expander.expand"
    expand_instructions(module, rewrites, rule, ["custom-call"], expand_call)
