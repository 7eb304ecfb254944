"""The functions that kernels apply to elements, where those have arrays as intermediate values."""

from __future__ import annotations

from hlo.codegen.entry.assignment import assign_buffers
from hlo.codegen.entry.calls import KernelCache
from hlo.codegen.entry.emitter import EntryEmitter
from hlo.codegen.entry.kernel_plans import plan_kernels
from hlo.codegen.llvm import ModuleBuilder
from hlo.codegen.loops.function import Function
from hlo.codegen.loops.kernel import computation_key
from hlo.codegen.plan.liveness import live_ranges
from hlo.codegen.plan.roles import FusionRules, assign_roles
from hlo.codegen.targets.base import LlvmTarget
from hlo.errors import HloError
from hlo.ir import Computation


class ElementFunctions:
    """The functions of a module that kernels apply to elements, each written when first needed."""

    def __init__(self, module: ModuleBuilder, target: LlvmTarget) -> None:
        self._module = module
        self._target = target
        self._known: dict[str, Function] = {}
        self.cache = KernelCache()
        module.write_function = self._function

    def _function(self, comp: Computation) -> Function:
        """Return the function of a flattened computation on scalars."""
        key = computation_key(comp)
        if key in self._known:
            return self._known[key]
        name = f"function_{len(self._known)}"
        roles = assign_roles(comp, FusionRules(chains=self._target.chain_limits))
        plans = plan_kernels(comp, roles, self._target)
        live = live_ranges(comp, roles)
        assignment = assign_buffers(comp, live, plans, {}, self._target.buffer_alignment)
        emitter = EntryEmitter(
            self._module, name, self._target, live, assignment, self.cache, linkage="internal"
        )
        emitter.emit()
        if emitter.imports.instructions or emitter.imports.uses_host:
            raise HloError.at(
                "unsupported", f"{comp.name}: what is applied to elements calls nothing outside"
            )
        constants = assignment.constants.add_to(self._module, name)
        found = Function(name, assignment.results, assignment.arena_bytes, constants)
        self._known[key] = found
        return found
