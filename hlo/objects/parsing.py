"""LLVM IR that is added to a module."""

from __future__ import annotations

import llvmlite.binding as llvm


def parsed_for(module: llvm.ModuleRef, text: str) -> llvm.ModuleRef:
    """Parse definitions as code for the machine of a module, to be linked into it."""
    head = f'target datalayout = "{module.data_layout}"\ntarget triple = "{module.triple}"\n'
    return llvm.parse_assembly(head + text)
