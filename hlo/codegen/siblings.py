"""Loops over the same elements that read the same arrays, or one of which reads the other, as one.

An optimizer makes three arrays of four; as three kernels it would read ten. The results of such a
loop are a tuple, marked as one that a kernel computes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hlo.codegen.address import is_plain, size_bytes
from hlo.codegen.fusion import Role, is_on_demand, own_cost
from hlo.codegen.kernel import loop_order
from hlo.codegen.merge import crossings
from hlo.codegen.on_demand import is_rare
from hlo.codegen.rejoining import JOINT, is_pointwise
from hlo.codegen.rows import readers_of, rows_of
from hlo.ir import Computation, Instruction
from hlo.types import ArrayShape, TupleShape

# What one loop computes and reads, at the most: code size and registers are finite.
_MOST_RESULTS, _MOST_NODES, _MOST_LEAVES = 8, 150, 24
# Loops that are far apart in the order of the program keep what they read for long.
_NEAR = 8


@dataclass
class _Group:
    """Kernels that become one.

    nodes: what they compute, fused instructions included. leaves: what they read from memory;
    turned: the ones among them that they read at another index. readers: what else reads their
    results.
    """

    members: list[Instruction]
    nodes: set[Instruction]
    leaves: set[Instruction]
    turned: set[Instruction]
    readers: set[Instruction]


@dataclass
class _Siblings:
    comp: Computation
    roles: Mapping[Instruction, Role]
    position: dict[Instruction, int]
    groups: list[_Group] = field(default_factory=list)
    # The groups that were opened last, by what they loop over.
    open: dict[object, list[_Group]] = field(default_factory=dict)

    def find(self) -> list[_Group]:
        """Return the groups of more than one kernel, in order."""
        for inst in self.position:
            if self.roles[inst] is Role.KERNEL and self._is_loop(inst):
                self._visit(inst)
        return [g for g in self.groups if len(g.members) > 1]

    def _is_loop(self, inst: Instruction) -> bool:
        """True for a kernel that computes its elements one by one, in one way."""
        shape = inst.shape
        if inst is self.comp.root or not is_on_demand(inst) or not isinstance(shape, ArrayShape):
            return False
        if not shape.num_elements or not shape.dims or not is_plain(shape):
            return False
        if rows_of(inst, self.roles) is not None:
            return False
        return not crossings(inst, self.roles, loop_order(shape))

    def _visit(self, inst: Instruction) -> None:
        alone = self._alone(inst)
        if any(is_rare(node) for node in alone.nodes) or len(alone.nodes) > _MOST_NODES:
            return
        shape = inst.array_shape
        assert shape.layout is not None
        near = self.open.setdefault((shape.dims, shape.layout.minor_to_major), [])
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

    def _alone(self, inst: Instruction) -> _Group:
        nodes, leaves, turned = {inst}, set[Instruction](), set[Instruction]()
        seen = {(inst, True)}
        stack = [(inst, True)]
        while stack:
            node, straight = stack.pop()
            for operand in node.operands:
                way = operand, straight and is_pointwise(node, operand)
                if self.roles[operand] is not Role.FUSED:
                    leaves.add(operand)
                    if not way[1]:
                        turned.add(operand)
                elif way not in seen:
                    seen.add(way)
                    nodes.add(operand)
                    stack.append(way)
        return _Group([inst], nodes, leaves, turned, readers_of(inst, self.comp, self.roles))

    def _belongs(self, alone: _Group, group: _Group) -> bool:
        (inst,) = alone.members
        if len(group.members) == _MOST_RESULTS or not self._shares(alone, group):
            return False
        if len(group.nodes | alone.nodes) > _MOST_NODES:
            return False
        if len(group.leaves | alone.leaves) > _MOST_LEAVES:
            return False
        # All others that read what the loop makes come after the last of its kernels.
        here = self.position[inst]
        if any(self.position[r] <= here for r in group.readers - {inst}):
            return False
        known = {*group.members, inst}
        if not known.isdisjoint(alone.turned | self._renamed(alone.leaves)):
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

    def _shares(self, alone: _Group, group: _Group) -> bool:
        """True when a loop for both reads less, or computes less."""
        (inst,) = alone.members
        size = size_bytes(inst.array_shape)
        both = alone.leaves & (group.leaves | set(group.members))
        if any(leaf.shape.is_array and size_bytes(leaf.shape) * 2 > size for leaf in both):
            return True
        return sum(own_cost(node) for node in alone.nodes & group.nodes) > 1


def join_siblings(comp: Computation, roles: Mapping[Instruction, Role]) -> bool:
    """Make one kernel of each group of siblings in a computation; True if there are any."""
    position = {inst: n for n, inst in enumerate(comp.in_order())}
    groups = _Siblings(comp, roles, position).find()
    for group in groups:
        _join(comp, group, position)
    if groups:
        comp.reorder(_sorted(position))
    return bool(groups)


def _join(comp: Computation, group: _Group, position: dict[Instruction, int]) -> None:
    members = group.members
    shape = TupleShape(tuple(m.shape for m in members))
    last = members[-1]
    joint = comp.add(
        Instruction(last.name, "tuple", shape, members, annotations={JOINT: True}, span=last.span)
    )
    position[joint] = position[last]
    for number, member in enumerate(members):
        outside = [u for u in member.users if u is not joint and u not in group.nodes]
        if not outside:
            continue
        result = Instruction(
            member.name, "get-tuple-element", member.shape, [joint], {"index": number}
        )
        position[comp.add(result)] = position[last]
        for user in outside:
            for n, operand in enumerate(user.operands):
                if operand is member:
                    user.replace_operand(n, result)


def _sorted(position: Mapping[Instruction, int]) -> list[Instruction]:
    """Return instructions in an order that can be run, near to their positions."""
    waits = {inst: len(set(inst.predecessors())) for inst in position}
    numbered = {inst: n for n, inst in enumerate(position)}
    ready = [(position[i], numbered[i], i) for i, count in waits.items() if not count]
    heapq.heapify(ready)
    order: list[Instruction] = []
    while ready:
        inst = heapq.heappop(ready)[2]
        order.append(inst)
        for after in dict.fromkeys((*inst.users, *inst.control_successors)):
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, (position[after], numbered[after], after))
    assert len(order) == len(position)
    return order
