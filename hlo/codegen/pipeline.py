"""From HLO to what a machine runs, and to LLVM IR, stage by stage.

Each stage is a function from the records of those before it to its own; none runs inside another.
`hlo-opt --stage=NAME` prints what the stage of that name has made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hlo.analysis.cost import Cost, cost_of
from hlo.analysis.fusion.operations import is_multi_output
from hlo.analysis.fusion.roles import Role
from hlo.analysis.strict_math import has_strict_math
from hlo.codegen import report
from hlo.codegen.entry.assignment import BufferAssignment, assign_buffers
from hlo.codegen.entry.collectives.descriptor import Described
from hlo.codegen.entry.constants import Constants
from hlo.codegen.entry.emitter import EntryEmitter
from hlo.codegen.entry.functions import ElementFunctions
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.codegen.entry.kernel_plans import KernelPlan, plan_kernels
from hlo.codegen.llvm import ModuleBuilder
from hlo.codegen.lower.prepare import flatten
from hlo.codegen.lower.relayout import without_buffers
from hlo.codegen.lower.strict import round_once
from hlo.codegen.plan.contraction import mark_terms
from hlo.codegen.plan.kernel_order import order_kernels
from hlo.codegen.plan.liveness import Liveness, Path, live_ranges
from hlo.codegen.plan.parts import read_parts_in_place
from hlo.codegen.plan.roles import FusionRules, assign_roles, end_reductions, fuse_siblings
from hlo.codegen.plan.tree import computations_of
from hlo.codegen.targets.base import LlvmTarget, Target
from hlo.expansions.dynamic import may_be_dynamic, with_sizes
from hlo.ir import Computation, Instruction
from hlo.llvm import CompiledFunctions
from hlo.values.types import TOKEN, ArrayShape, Shape


@dataclass
class Program:
    """What code generation hands to the runtime.

    module: in LLVM IR. arena_bytes: size of the temporary memory. constants: arrays that the
    entry expects one after the other, each at its offset, in `constant_bytes` bytes. aliases: pairs
    of a result leaf and an argument leaf, by number: the argument is read, and overwritten, in the
    memory of the result. imports: the instructions whose functions the host's table has to hold.
    collectives: those of several devices.
    """

    module: ModuleBuilder
    entry: str
    arena_bytes: int
    constants: list[tuple[int, np.ndarray]]
    constant_bytes: int
    arguments: list[ArrayShape]
    results: list[ArrayShape]
    kernels: int = 0
    is_parallel: bool = False
    aliases: list[tuple[int, int]] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    imports: list[Instruction] = field(default_factory=list)
    collectives: list[Described] = field(default_factory=list)
    uses_host: bool = False
    # The shape of the result, with the dimensions that vary.
    result: Shape = TOKEN
    # The code of an error and what is wrong, by what the entry returns then.
    checks: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def llvm(self) -> str:
        """The module's text."""
        return self.module.to_text()


@dataclass(frozen=True)
class PlannedProgram:
    """All that is decided of a program before code is written for a machine.

    entry: the flattened computation tree, and of its instructions: roles, plans, the kernels of
    each, and live, their live ranges. assignment: buffers and commands. result: the shape of the
    result, with the dimensions that vary. device_counts: the numbers of replicas and partitions
    that it is for. is_strict: whether code is to round as `hlo.codegen.lower.strict` says.
    """

    entry: Computation
    roles: Mapping[Instruction, Role]
    plans: Mapping[Instruction, KernelPlan]
    live: Liveness
    assignment: BufferAssignment
    result: Shape
    device_counts: tuple[int, int]
    is_strict: bool = False

    @property
    def arguments(self) -> list[ArrayShape]:
        """The array leaves of the parameters, in order, each with its layout."""
        return [leaf for _, leaf in self.assignment.arguments]

    @property
    def results(self) -> list[ArrayShape]:
        """The array leaves of the result, as `arguments`."""
        return list(self.assignment.results)

    @property
    def unstored(self) -> set[Instruction]:
        """The instructions whose values are in no memory of their own."""
        found = {i for i, role in self.roles.items() if role in (Role.FUSED, Role.SCALAR)}
        for inst in filter(is_multi_output, self.roles):
            found.difference_update(inst.operands)
        return found.union(self.live.offset)

    @property
    def cost(self) -> Cost:
        """What a run does, counted."""
        return cost_of(self.entry, self.unstored.__contains__)


# Takes the name of a stage and a function that prints what it has made.
Observer = Callable[[str, Callable[[], str]], None]


def emit_program(
    comp: Computation,
    symbol: str,
    target: LlvmTarget,
    aliases: Mapping[Path, tuple[int, Path]] | None = None,
    *,
    is_located: bool = False,
    is_watched: bool = False,
    observe: Observer | None = None,
) -> Program:
    """Return the LLVM module of a computation and what its entry expects.

    aliases, observe: as of `plan_program`. is_located, is_watched: as of `write_program`. Raises
    HloError for what native code cannot do.
    """
    planned = plan_program(comp, target, aliases, observe=observe)
    return write_program(planned, symbol, target, is_located=is_located, is_watched=is_watched)


def plan_program(
    comp: Computation,
    target: Target,
    aliases: Mapping[Path, tuple[int, Path]] | None = None,
    *,
    observe: Observer | None = None,
    constants: Constants | None = None,
) -> PlannedProgram:
    """Return what a machine is to do for a computation.

    aliases: the parameter, by number and index path, whose memory each of these outputs may have.
    observe: is told of each stage. constants: those of other programs, to which its own are added.
    Raises HloError for what the target has no kernels for.
    """
    # Static shapes: dynamic dimensions are at their bounds, their sizes scalars of their own.
    result, aliases, observe = comp.root.shape, aliases or {}, observe or _ignore
    device_counts = comp.module.device_counts if comp.module is not None else (1, 1)
    is_strict = comp.module is not None and has_strict_math(comp.module)
    if may_be_dynamic(comp):
        comp, result, aliases = with_sizes(comp, aliases)
    # One tree: calls and fusions inlined, operations expanded, one caller for each computation.
    entry = flatten(comp)
    # What is rounded.
    if is_strict:
        round_once(list(computations_of(entry)))
    else:
        mark_terms(entry)
    observe("flat", lambda: report.tree(entry))
    # Fusion: what is a kernel of its own, and what is computed inside of others.
    rules = FusionRules(
        target.chain_limits, target.has_endings, target.row_limits, target.fusion_limits,
        target.joins_reduction,
    )  # fmt: skip
    roles = fuse_siblings(entry, assign_roles(entry, rules), rules)
    end_reductions(entry, roles, rules)
    # Parts of arrays in memory are read by their addresses.
    read_parts_in_place(entry, roles)
    # The order of kernels; cheap values are computed again rather than kept.
    live = live_ranges(entry, roles)
    order = order_kernels(entry, live)
    if order.has_copies:
        # Those have readers of their own, and so have the values that they are copies of.
        roles = assign_roles(entry, rules)
        end_reductions(entry, roles, rules)
        read_parts_in_place(entry, roles)
    if order.is_new_order:
        live = live_ranges(entry, roles)
    observe("roles", lambda: report.roles(entry, roles))
    # How each kernel computes what it computes.
    plans = plan_kernels(entry, roles, target)
    observe("kernels", lambda: report.kernels(plans))
    # Where values lie, and what is copied.
    observe("schedule", lambda: report.schedule(entry, live))
    assignment = assign_buffers(
        entry, live, plans, aliases, target.buffer_alignment, constants=constants
    )
    observe("buffers", lambda: report.buffers(assignment))
    observe("commands", lambda: report.commands(assignment.entry))
    return PlannedProgram(
        entry, roles, plans, live, assignment, without_buffers(result), device_counts, is_strict
    )


def write_program(
    planned: PlannedProgram,
    symbol: str,
    target: LlvmTarget,
    *,
    is_located: bool = False,
    is_watched: bool = False,
    instrumentation: Instrumentation | None = None,
    known: CompiledFunctions | None = None,
) -> Program:
    """Return a program in LLVM IR, with an entry function of the given name.

    is_located: let the code say which HLO it is for. is_watched: have it look from time
    to time whether to go on, which takes the functions of `hlo.runtime.watch`. instrumentation:
    writes code around the commands of the entry. known: functions that are declared only.
    """
    live, assignment = planned.live, planned.assignment
    module = ModuleBuilder(
        target.triple, target.data_layout, pointer_bits=target.pointer_bits,
        has_half_conversion=target.has_half_conversion,
        has_float_maximum=target.has_float_maximum, folds_loops=target.folds_loops,
        is_located=is_located, is_watched=is_watched, is_strict=planned.is_strict, known=known,
    )  # fmt: skip
    functions = ElementFunctions(module, target)
    emitter = EntryEmitter(
        module, symbol, target, live, assignment, functions.cache,
        device_counts=planned.device_counts, instrumentation=instrumentation or Instrumentation(),
    )  # fmt: skip
    emitter.emit()
    constants, imports = assignment.constants, emitter.imports
    return Program(
        module, symbol, assignment.arena_bytes, constants.pieces, constants.size,
        planned.arguments, planned.results, functions.cache.count,
        emitter.kernels.launcher.is_parallel, list(assignment.aliases), planned.cost,
        imports.instructions, imports.collectives, imports.uses_host, planned.result,
        imports.checks,
    )  # fmt: skip


def _ignore(stage: str, text: Callable[[], str]) -> None:
    """Observe nothing."""
