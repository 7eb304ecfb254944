"""The call graph: inlining, cloning of callees, and removal of those that are no longer called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from hlo.ir.builder import Builder
from hlo.ir.computation import Computation
from hlo.ir.instruction import Instruction
from hlo.ir.module import Module
from hlo.ops import Trait
from hlo.values.layout.bitcasts import is_order
from hlo.values.types import ArrayShape

_ON_VALUES = Trait.CALL | Trait.CONTROL_FLOW | Trait.ASYNC_CHAIN


def applied_computations(module: Module) -> list[Computation]:
    """Return the computations that are applied to elements, and those that they call."""
    found: set[Computation] = set()
    order = module.callees_first()
    for comp in order:
        for inst in comp.call_sites:
            if not inst.spec.has(_ON_VALUES):
                found.update(inst.called_computations)
    for comp in reversed(order):
        if comp in found:
            found.update(c for inst in comp.call_sites for c in inst.called_computations)
    return [c for c in order if c in found]


class Calls:
    """The number of calls of each computation of a module, updated as instructions change.

    A computation is removed when its last call is; one that never had a call stays.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.counts = Counter(c for i in module.call_sites() for c in i.called_computations)

    def added(self, instructions: Iterable[Instruction]) -> list[Computation]:
        """Count the calls of new instructions; computations without a module join this one.

        Returns those, callees before callers.
        """
        new = list(instructions)
        joined = self.module.adopt(new)
        for inst in chain(new, *(c.call_sites for c in joined)):
            for callee in inst.called_computations:
                self.counts[callee] += 1
        return joined

    def dropped(self, instructions: Iterable[Instruction]) -> None:
        """Discount the calls of instructions that are removed."""
        self.forget(c for i in instructions for c in i.called_computations)

    def forget(self, callees: Iterable[Computation]) -> None:
        """Discount one call of each, and remove computations without calls."""
        todo = list(callees)
        while todo:
            callee = todo.pop()
            self.counts[callee] -= 1
            if not self.counts[callee] and callee is not self.module.entry:
                self.module.remove(callee)
                todo.extend(c for i in callee.call_sites for c in i.called_computations)

    def remove(self, inst: Instruction) -> None:
        """Remove an instruction without users, and the computations that only it calls.

        Tuples that only it used are removed too, since passes look for values with one user.
        """
        assert inst.parent is not None
        if inst.spec.computation_attrs:
            self.dropped([inst])
        operands = [o for o in inst.operands if o.opcode == "tuple"]
        inst.parent.remove(inst)
        remove_unused_tuples(operands)


def remove_unused_tuples(values: Iterable[Instruction]) -> None:
    """Remove those of some values that are tuples without users, and tuples nested in them."""
    todo = list(values)
    while todo:
        inst = todo.pop()
        ordered = inst.control_predecessors or inst.control_successors
        if inst.opcode == "tuple" and inst.parent is not None and not ordered:
            if not inst.num_users and not inst.is_root:
                todo.extend(inst.operands)
                inst.parent.remove(inst)


def copy_cone(
    source: Computation,
    target: Computation,
    made: dict[Instruction, Instruction],
    roots: Iterable[Instruction],
) -> list[Instruction]:
    """Append copies of `roots` and what they depend on to another computation; returns the copies.

    made: maps instructions of the source to those in the target; the copies are added to it.
    """
    needed: set[Instruction] = set()
    stack = list(roots)
    while stack:
        inst = stack.pop()
        if inst not in needed and inst not in made:
            needed.add(inst)
            stack.extend(inst.predecessors())
    copies = []
    for inst in source.in_order():
        if inst in needed:
            made[inst] = target.add(inst.clone([made[o] for o in inst.operands]))
            copies.append(made[inst])
            _own([made[inst]])
            for before in inst.control_predecessors:
                if made[before].parent is target and made[before] is not made[inst]:
                    made[inst].add_control_predecessor(made[before])
    return copies


def clone_computation(comp: Computation) -> Computation:
    """Return a copy without a module, whose fusions have bodies of their own."""
    copy = comp.clone(comp.name)
    _own(copy.call_sites)
    return copy


def _own(copies: Iterable[Instruction]) -> None:
    """Copy the bodies of copied fusions, since each belongs to one fusion."""
    todo = [inst for inst in copies if inst.opcode == "fusion"]
    while todo:
        inst = todo.pop()
        body: Computation = inst.calls
        inst.attrs["calls"] = copy = body.clone(body.name)
        todo.extend(i for i in copy.call_sites if i.opcode == "fusion")


def _argument(b: Builder, value: Instruction, parameter: Instruction) -> Instruction:
    """Return the value of a parameter: the argument, copied if the layout differs and matters."""
    a, p = value.shape, parameter.shape
    if isinstance(a, ArrayShape) and isinstance(p, ArrayShape) and not parameter.is_root:
        users = parameter.users
        if is_order(a) and is_order(p) and a.dynamic == p.dynamic:
            if all(u.spec.has(Trait.ELEMENTWISE) for u in users):
                return value
    return b.relaid(value, p)


def inline(
    source: Computation, args: Sequence[Instruction], site: Instruction
) -> tuple[Instruction, list[Instruction]]:
    """Append copies of a computation's instructions in place of `site`.

    args: the values of its parameters, copied if their layouts differ and that matters. Control
    dependences of `site` apply to each copy, and its span says where the copies were inlined.
    Returns the value of the root, and all that was appended.
    """
    target = site.parent
    assert target is not None
    b = Builder(target, site)
    made: dict[Instruction, Instruction] = {
        p: _argument(b, args[p.parameter_number], p) for p in source.parameters
    }
    copies = copy_cone(source, target, made, source)
    for copy in copies:
        if copy.span is not None and site.span is not None:
            copy.span = copy.span.inlined_at(site.span)
        for before in site.control_predecessors:
            copy.add_control_predecessor(before)
        for after in site.control_successors:
            after.add_control_predecessor(copy)
    return made[source.root], [*b.built, *copies]
