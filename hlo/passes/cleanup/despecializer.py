"""Undoing backend-specific transformations."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.cleanup.control_dep_remover import control_dep_remover
from hlo.passes.cleanup.defuser import defuser
from hlo.passes.cleanup.hlo_descheduler import hlo_descheduler
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def despecializer(module: Module, rewrites: Rewrites) -> None:
    """Remove schedule, control dependences and fusions, to make a module backend-independent."""
    hlo_descheduler(module, rewrites)
    control_dep_remover(module, rewrites)
    defuser(module, rewrites)
