"""What the passes of this family do."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.rewrites import Rewrites


def rename_all(module: Module, rewrites: Rewrites, rule: str, old: str, new: str) -> None:
    """Give every instruction of one name another one."""
    for comp in module.computations:
        inst = comp.get(old)
        if inst is not None and rewrites.allow(rule, inst):
            comp.rename(inst, new)
