"""Multi-output fusion: kernels over the same elements that read the same arrays, or each other.

An optimizer makes three arrays of four; as three kernels it would read ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hlo.analysis.fusion.accesses import transposed_reads
from hlo.analysis.fusion.endings import product_in
from hlo.analysis.fusion.limits import USUAL, FusionLimits
from hlo.analysis.fusion.operations import (
    CACHED_BYTES,
    MAX_INSTRUCTIONS,
    TRANSCENDENTAL,
    is_on_demand,
    is_pointwise,
)
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import readers_of, rows_of
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import is_plain, loop_order, minor_to_major, size_bytes
from hlo.values.types import ArrayShape

# What one loop writes and reads, at the most: registers are finite.
_MAX_RESULTS, _MAX_LEAVES = 8, 24
# Loops of no more instructions are joined though they share nothing, if they are short.
_FEW = 24
# Loops that are far apart in the order of the program keep what they read for long.
_NEAR = 8


@dataclass
class Group:
    """Kernels that become one.

    nodes: what they compute, fused instructions included. leaves: what they read from memory;
    shifted: the ones among them that they read at another index. readers: what else reads their
    results.
    """

    members: list[Instruction]
    nodes: set[Instruction]
    leaves: set[Instruction]
    shifted: set[Instruction]
    readers: set[Instruction]


def _functions(group: Group) -> int:
    """Return how many transcendental functions a loop computes."""
    return sum([node.spec.cost >= TRANSCENDENTAL for node in group.nodes])


def _walked(inst: Instruction) -> ArrayShape:
    """Return the shape of what the loops of a kernel go over."""
    return (inst.operands[0] if inst.opcode == "reduce" else inst).array_shape


def _loops_of(inst: Instruction) -> object:
    """Return what is equal for kernels of equal loops."""
    shape, result = _walked(inst), inst.array_shape
    reduced = inst.dimensions if inst.opcode == "reduce" else None
    return shape.dims, minor_to_major(shape), reduced, minor_to_major(result)


@dataclass
class _Siblings:
    comp: Computation
    roles: Mapping[Instruction, Role]
    position: Mapping[Instruction, int]
    stands_alone: Callable[[Instruction], bool]
    read_each_other: bool
    joins_reduction: Callable[[Instruction], bool]
    limits: FusionLimits
    groups: list[Group] = field(default_factory=list)
    # The groups that were opened last, by what they loop over.
    open: dict[object, list[Group]] = field(default_factory=dict)

    def find(self) -> list[Group]:
        """Return the groups of more than one kernel, in order."""
        for inst in self.position:
            if self.roles[inst] is Role.KERNEL and self._is_loop(inst):
                self._visit(inst)
        return [g for g in self.groups if len(g.members) > 1]

    def _is_loop(self, inst: Instruction) -> bool:
        """True for a kernel that computes its elements one by one, in one way."""
        shape = inst.shape
        if inst is self.comp.root or not isinstance(shape, ArrayShape):
            return False
        if not shape.num_elements or not shape.dims or not is_plain(shape):
            return False
        if inst.opcode == "reduce":
            is_alone = rows_of(inst, self.roles) is None and is_plain(_walked(inst))
            return is_alone and self.joins_reduction(inst)
        if not is_on_demand(inst):
            return False
        if rows_of(inst, self.roles) is not None or product_in(inst, self.roles) is not None:
            return False
        return not transposed_reads(inst, self.roles, loop_order(shape))

    def _visit(self, inst: Instruction) -> None:
        alone = self._alone(inst)
        if self._stands_alone(alone) or len(alone.nodes) > MAX_INSTRUCTIONS:
            return
        near = self.open.setdefault(_loops_of(inst), [])
        for group in reversed(near):
            if self._belongs(alone, group):
                group.members.append(inst)
                group.nodes |= alone.nodes
                group.leaves = (group.leaves | alone.leaves) - set(group.members)
                group.readers = (group.readers | alone.readers) - set(group.members)
                return
        self.groups.append(alone)
        near.append(alone)
        del near[:-_NEAR]

    def _stands_alone(self, alone: Group) -> bool:
        return not self.limits.joins_rare and any(map(self.stands_alone, alone.nodes))

    def _alone(self, inst: Instruction) -> Group:
        nodes, leaves, shifted = {inst}, set[Instruction](), set[Instruction]()
        seen = {(inst, True)}
        stack = [(inst, True)]
        while stack:
            node, straight = stack.pop()
            for operand in node.operands:
                way = operand, straight and is_pointwise(node, operand)
                if self.roles[operand] is not Role.FUSED:
                    leaves.add(operand)
                    if not way[1]:
                        shifted.add(operand)
                elif way not in seen:
                    seen.add(way)
                    nodes.add(operand)
                    stack.append(way)
        return Group([inst], nodes, leaves, shifted, readers_of(inst, self.comp, self.roles))

    def _belongs(self, alone: Group, group: Group) -> bool:
        (inst,) = alone.members
        if len(group.members) == _MAX_RESULTS or not self._shares(alone, group):
            return False
        if len(group.nodes | alone.nodes) > MAX_INSTRUCTIONS:
            return False
        if len(group.leaves | alone.leaves) > _MAX_LEAVES:
            return False
        if size_bytes(_walked(inst)) <= CACHED_BYTES and _functions(alone):
            if _functions(alone) + _functions(group) > self.limits.in_a_row:
                return False
        # All others that read what the loop makes come after the last of its kernels.
        here = self.position[inst]
        if any(self.position[r] <= here for r in group.readers - {inst}):
            return False
        known = {*group.members, inst}
        if not known.isdisjoint(alone.shifted | self._renamed(alone.leaves)):
            return False
        # What computes with a result on the way to this kernel does so for nothing else.
        return all(
            readers_of(node, self.comp, self.roles) <= known
            for node in alone.nodes - {inst}
            if not known.isdisjoint(node.operands)
        )

    def _renamed(self, leaves: Iterable[Instruction]) -> set[Instruction]:
        """Return what is read under other names: values in other dimensions, or out of tuples."""
        found: set[Instruction] = set()
        stack = [leaf for leaf in leaves if self.roles[leaf] is Role.ALIAS]
        while stack:
            for operand in stack.pop().operands:
                if operand not in found:
                    found.add(operand)
                    if self.roles[operand] is Role.ALIAS:
                        stack.append(operand)
        return found

    def _shares(self, alone: Group, group: Group) -> bool:
        """True when a loop for both reads less, or computes less, or is as quick as one."""
        (inst,) = alone.members
        size = size_bytes(_walked(inst))
        both = alone.leaves & (group.leaves | set(group.members))
        if not self.read_each_other and not both.isdisjoint(group.members):
            return False
        if any(leaf.shape.is_array and size_bytes(leaf.shape) * 2 > size for leaf in both):
            return True
        if size <= self.limits.joined_bytes and len(group.nodes | alone.nodes) <= _FEW:
            return True
        return sum(node.spec.cost for node in alone.nodes & group.nodes) > 1


def sibling_groups(
    comp: Computation,
    roles: Mapping[Instruction, Role],
    stands_alone: Callable[[Instruction], bool] = lambda _: False,
    *,
    read_each_other: bool = True,
    joins_reduction: Callable[[Instruction], bool] = lambda _: False,
    limits: FusionLimits = USUAL,
) -> list[Group]:
    """Return which kernels of a computation become one, in order: groups of two or more.

    stands_alone: operations whose kernels have one result. read_each_other: whether one may read
    another's result. joins_reduction: which reductions may be one kernel with others.
    limits: what kernels cost.
    """
    position = {inst: n for n, inst in enumerate(comp.in_order())}
    return _Siblings(
        comp, roles, position, stands_alone, read_each_other, joins_reduction, limits
    ).find()
