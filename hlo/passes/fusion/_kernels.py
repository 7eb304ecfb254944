"""The kernels of a computation, by the rules of `hlo.analysis.fusion`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.analysis.effects import Effects
from hlo.analysis.fusion.operations import is_on_demand
from hlo.analysis.fusion.roles import Role, initial_roles, is_same_memory
from hlo.analysis.fusion.siblings import sibling_groups
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import Calls
from hlo.ops import Category
from hlo.passes.fusion._build import FusionBuilder, fusible_computations
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, Shape, TupleShape

# Loops that are more than their result element by element.
_LOOPS = frozenset({"concatenate", "dynamic-update-slice", "reduce", "reduce-window"})
# What runs other computations than functions of elements, or elsewhere.
_APART = frozenset({Category.ASYNC, Category.COLLECTIVE, Category.CUSTOM, Category.HOST})
_CALLS = frozenset({"call", "fusion"})


def is_opaque(inst: Instruction, effects: Effects) -> bool:
    """True for what passes leave as it is, beside what is no kernel for code generation either.

    Code generation has inlined calls and fusions by then, expanded arrays of dynamic size and
    followed the order that control edges ask for; memory other than the default is there for
    somebody else to use, and so is the buffer of a copy that changes nothing.
    """
    if inst.opcode in _CALLS or inst.spec.category in _APART:
        return True
    if inst.control_predecessors or inst.control_successors or not effects.is_function(inst):
        return True
    if inst.opcode == "copy" and inst.shape == inst.operands[0].shape:
        return True
    if not _is_in_default_memory(inst.shape):
        return True
    for operand in inst.operands:  # a plain loop: each instruction is asked this several times
        if not _is_in_default_memory(operand.shape):
            return True
    return False


def _is_in_default_memory(shape: Shape) -> bool:
    """True for arrays of static shape in the default memory."""
    if type(shape) is ArrayShape:
        layout = shape.layout
        return not shape.dynamic and (layout is None or not layout.memory_space)
    if isinstance(shape, TupleShape):
        return all(map(_is_in_default_memory, shape.elements))
    return False


def is_loop(inst: Instruction, effects: Effects) -> bool:
    """True for what can be in a loop fusion, as its root or inside."""
    return (is_on_demand(inst) or inst.opcode in _LOOPS) and not is_opaque(inst, effects)


def is_scalar_constant(inst: Instruction) -> bool:
    """True for a constant of one element."""
    return inst.opcode == "constant" and isinstance(inst.shape, ArrayShape) and inst.shape.is_scalar


def with_constants(members: Iterable[Instruction]) -> list[Instruction]:
    """Return members of a fusion with the scalar constants that they read, which go in too."""
    given = list(members)
    constants = (o for m in given for o in m.operands if is_scalar_constant(o))
    return list(dict.fromkeys((*constants, *given)))


def members_of(kernel: Instruction, roles: Mapping[Instruction, Role]) -> list[Instruction]:
    """Return a kernel and what is fused into it."""
    found = {kernel: None}
    stack = [kernel]
    while stack:
        for operand in stack.pop().operands:
            if operand not in found and roles[operand] is Role.FUSED:
                found[operand] = None
                stack.append(operand)
    return list(found)


class Inlined:
    """A copy of a computation in which loop fusions are inlined, and the roles that they stand for.

    computation: the copy. roles: those of its instructions: the root of a fusion is a kernel, the
    rest of it is fused; what several fusions have a copy of is one again. owners: the instruction
    that a kernel of the copy stands for. Fusions of several results, and those that nothing here
    would make, are left opaque.
    """

    def __init__(self, comp: Computation, effects: Effects, congruence: Congruence) -> None:
        self.computation = Computation(comp.name)
        self.owners: dict[Instruction, Instruction] = {}
        self._values = congruence.values()
        self._shared: list[Instruction] = []
        made: dict[Instruction, Instruction] = {}
        roots, opaque = set[Instruction](), set[Instruction]()
        for inst in comp.in_order():
            args = [made[o] for o in inst.operands]
            if is_loop_fusion(inst, effects):
                made[inst] = self._inline(inst, args)
                roots.add(made[inst])
            elif inst.opcode == "constant":
                made[inst] = self._share(inst, [])
            else:
                made[inst] = self.computation.add(inst.clone(args))
                if is_opaque(inst, effects):
                    opaque.add(made[inst])
            self.owners.setdefault(made[inst], inst)
        self.computation.set_root(made[comp.root])
        self.roles = initial_roles(self.computation, opaque.__contains__)
        for inst in self.computation.in_order():
            is_head = inst in self.owners and inst.opcode != "constant"
            if self.roles[inst] is Role.FUSED and is_head:
                is_view = is_same_memory(inst) and self.roles[inst.operands[0]] is not Role.FUSED
                is_kernel = inst in roots or not is_view
                self.roles[inst] = Role.KERNEL if is_kernel else Role.ALIAS

    def kernels(
        self, roles: Mapping[Instruction, Role]
    ) -> Iterator[tuple[Instruction, list[Instruction]]]:
        """Yield the owner of each kernel with those of what it has absorbed, consumers first."""
        for inst in reversed(self.computation.in_order()):
            if roles[inst] is Role.KERNEL and inst.opcode != "constant":
                members = members_of(inst, roles)
                yield self.owners[inst], [self.owners[m] for m in members if m in self.owners]

    def _inline(self, fusion: Instruction, args: list[Instruction]) -> Instruction:
        """Add what a fusion computes; returns its root."""
        body = fusion.calls
        made = {p: args[n] for n, p in enumerate(body.parameters)}
        for inst in body.in_order():
            if inst not in made and inst is not body.root:
                made[inst] = self._share(inst, [made[o] for o in inst.operands])
        return self.computation.add(body.root.clone([made[o] for o in body.root.operands]))

    def _share(self, inst: Instruction, args: list[Instruction]) -> Instruction:
        """Return a copy of an instruction, the same for equal ones."""
        number = self._values.number(inst, tuple(args), len(self._shared))
        if number == len(self._shared):
            self._shared.append(self.computation.add(inst.clone(args)))
        return self._shared[number]


def inlined(comp: Computation, rewrites: Rewrites) -> Inlined:
    """Return a computation without its loop fusions, as a pass found it. Not to be changed."""
    analyses = rewrites.analyses
    return analyses.of(
        (Inlined, comp), lambda: Inlined(comp, analyses.effects, analyses.congruence)
    )


def is_loop_fusion(inst: Instruction, effects: Effects) -> bool:
    """True for a fusion of one result: a kernel, with what is computed at any index inside it."""
    if inst.opcode != "fusion" or inst.fusion_kind not in ("kLoop", "kInput"):
        return False
    if inst.output_to_operand_aliasing or has_control_edges(inst):
        return False
    body = inst.calls
    root = body.root
    if root.opcode in ("parameter", "constant") or not effects.is_function(inst):
        return False
    for i in body.in_order():
        if i.opcode in ("parameter", "constant"):
            continue
        if (i is not root and not is_on_demand(i)) or is_opaque(i, effects) or i.shape.is_tuple:
            return False
    return True


def fuse_siblings(
    module: Module, rewrites: Rewrites, rule: str, *, read_each_other: bool = True
) -> None:
    """Make one fusion of each group of kernels that can be one of several results.

    read_each_other: whether one of them may read another's result.
    """
    calls, effects = Calls(module), Effects()
    for comp in fusible_computations(module):
        flat = inlined(comp, rewrites)
        groups = sibling_groups(flat.computation, flat.roles, read_each_other=read_each_other)
        builder = FusionBuilder(comp, calls, effects)
        for group in groups:
            members = [flat.owners[m] for m in group.members]
            if rewrites.allow(rule, members[0]):
                outside = [m for m in members if m.is_root or not {*m.users} <= {*members}]
                builder.fuse(with_constants(members), outside)
        builder.finish()
