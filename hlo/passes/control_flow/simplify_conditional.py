"""Conditionals that decide nothing, and what branches take and return in vain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hlo.analysis.congruence import Congruence, has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, copy_cone, inline
from hlo.passes.control_flow._branches import (
    branches_of,
    is_quick,
    select_branch,
    with_branches,
)
from hlo.passes.control_flow._growth import grows_too_large
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import replace_instruction, unfused
from hlo.values.types import ArrayShape, TupleShape

# Branches of so many operations on scalars cost less than the decision.
_FEW = 8
_STRUCTURE = frozenset({"parameter", "tuple", "get-tuple-element", "constant"})


@module_pass
def simplify_conditional(module: Module, rewrites: Rewrites) -> None:
    """Simplify conditionals: known branches, selects where cheaper, unused operands and results.

    Branches are alike when they compute the same of the same argument. Elements of a result that
    nothing uses, or that are equal in each branch, are not returned; elements of an argument that a
    branch does not use are not passed. No branch is inlined if a computation would grow to a
    million instructions.
    """
    changed = any(i.opcode == "conditional" for i in module.instructions())
    while changed:
        changed = _Simplifier(module, rewrites).run()


class _Simplifier:
    def __init__(self, module: Module, rewrites: Rewrites) -> None:
        self._module = module
        self._inlines = not grows_too_large(module)
        self._calls = Calls(module)
        self._effects = Effects()
        self._congruence = Congruence()
        self._rewrites = rewrites
        self._todo: list[Computation] = []  # computations to visit
        self._work: list[Instruction] = []  # instructions of the one that is visited

    def run(self) -> bool:
        """Visit all conditionals, callers first, also in what comes up; True if any changed.

        What is copied out of a branch has not grown by copies of its own.
        """
        changed = False
        self._todo = unfused(self._module)
        while self._todo:
            comp = self._todo.pop()
            self._work = list(comp) if comp.module is self._module else []
            while self._work:
                inst = self._work.pop()
                if inst.opcode == "conditional" and inst.parent is comp:
                    changed |= self._visit(inst)
        return changed

    def _visit(self, inst: Instruction) -> bool:
        known = _known_branch(inst)
        if known is None and self._are_alike(inst):
            known = 0
        # What a branch does to the outside comes when its turn is, which copies would not know.
        if self._inlines and known is not None and not self._effects.has_side_effect(inst):
            if not self._rewrites.allow("simplify_conditional.known", inst):
                return False
            root, built = inline(branches_of(inst)[known], [inst.operands[1 + known]], inst)
            self._note(self._calls.added(built))
            replace_instruction(inst, root, built)
            self._calls.remove(inst)
            self._work += built
            return True
        if has_control_edges(inst):
            return False
        if all(_is_small(c, self._effects) for c in branches_of(inst)):
            if not self._rewrites.allow("simplify_conditional.select", inst):
                return False
            self._note(select_branch(inst, self._calls))
            return True
        return self._pass_less(inst)

    def _note(self, joined: Iterable[Computation]) -> None:
        self._todo.extend(joined)

    def _are_alike(self, inst: Instruction) -> bool:
        numbers = {self._congruence.number(c) for c in branches_of(inst)}
        return len(numbers) == 1 and len(set(inst.operands[1:])) == 1

    def _pass_less(self, inst: Instruction) -> bool:
        """Return and pass only those elements that are used."""
        takes = [_used_elements(c) for c in branches_of(inst)]
        returns = _returned(inst)
        if returns is None and all(t is None for t in takes):
            return False
        if not self._rewrites.allow("simplify_conditional.elements", inst):
            return False
        assert inst.parent is not None
        b, branches, arguments = Builder(inst.parent, inst), [], []
        for branch, argument, used in zip(branches_of(inst), inst.operands[1:], takes, strict=True):
            branches.append(_with_less(branch, used, returns, self._effects))
            if used is None:
                arguments.append(argument)
            else:
                arguments.append(b.tuple(*(b.element(argument, i) for i in used)))
        new = with_branches(inst, branches, arguments, b)
        if returns is None:
            inst.replace_all_uses_with(b.relaid(new, inst.shape))
        else:
            kept = {element: b.element(new, n) for n, element in enumerate(_kept(returns))}
            for user in inst.users:
                value = kept[returns[user.tuple_index]]
                user.replace_all_uses_with(b.relaid(value, user.shape))
                inst.parent.remove(user)
        self._note(self._calls.added([new]))
        self._calls.remove(inst)
        return True


def _known_branch(inst: Instruction) -> int | None:
    """Return the number of the branch that runs, None if that is not known."""
    test, count = inst.operands[0], len(branches_of(inst))
    if count == 1:
        return 0
    if test.opcode != "constant":
        return None
    value = int(test.literal.value)
    if inst.branch_computations is None:
        return 0 if value else 1
    return value if 0 <= value < count else count - 1


def _is_small(branch: Computation, effects: Effects) -> bool:
    work = [i for i in branch if i.opcode not in _STRUCTURE]
    results = [s for _, s in branch.root.shape.leaves()]
    scalars = [*results, *(i.shape for i in work)]
    return (
        len(work) <= _FEW
        and all(isinstance(s, ArrayShape) and s.is_scalar for s in scalars)
        and not any(i.called_computations for i in work)
        and is_quick(branch, effects)
    )


# --- arguments and results ------------------------------------------------------------------------


def _kept(returns: Mapping[int, int]) -> list[int]:
    return list(dict.fromkeys(returns.values()))


def _used_elements(branch: Computation) -> list[int] | None:
    """Return the elements of its argument that a branch uses, None if it takes it as it is."""
    argument = branch.parameters[0]
    if not isinstance(argument.shape, TupleShape) or argument.is_root:
        return None
    if any(u.opcode != "get-tuple-element" or has_control_edges(u) for u in argument.users):
        return None
    used = sorted({u.tuple_index for u in argument.users if u.num_users or u.is_root})
    return used if len(used) < len(argument.shape.elements) else None


def _returned(inst: Instruction) -> dict[int, int] | None:
    """Return for each element of the result that is used the one that it is returned as.

    None if all are used and differ, or if the result is used as a whole.
    """
    if not isinstance(inst.shape, TupleShape) or inst.is_root:
        return None
    if any(u.opcode != "get-tuple-element" or has_control_edges(u) for u in inst.users):
        return None
    roots = [c.root for c in branches_of(inst)]
    alike = all(r.opcode == "tuple" for r in roots)
    first: dict[tuple[Any, ...], int] = {}
    found: dict[int, int] = {}
    for i in sorted({u.tuple_index for u in inst.users}):
        key = tuple(r.operands[i] for r in roots) if alike else (i,)
        found[i] = first.setdefault(key, i)
    return found if len(set(found.values())) < len(inst.shape.elements) else None


def _with_less(
    branch: Computation,
    used: Sequence[int] | None,
    returns: Mapping[int, int] | None,
    effects: Effects,
) -> Computation:
    """Return a copy of a branch that takes and returns only some elements; None is all."""
    copy = Computation(branch.name, execution_thread=branch.execution_thread)
    argument, b = branch.parameters[0], Builder(copy, branch.parameters[0])
    made: dict[Instruction, Instruction] = {}
    if used is None:
        made[argument] = b.parameter(0, argument.shape, argument.name)
    else:
        assert isinstance(argument.shape, TupleShape)
        shape = TupleShape(tuple(argument.shape.elements[i] for i in used))
        new = b.parameter(0, shape, argument.name)
        for user in argument.users:
            if user.tuple_index in used:
                made[user] = b.element(new, used.index(user.tuple_index))
    root = branch.root
    acting = [i for i in branch if effects.has_side_effect(i)]
    if returns is None:
        copy_cone(branch, copy, made, [root, *acting])
        copy.set_root(made[root])
        return copy
    kept = _kept(returns)
    whole = root.opcode != "tuple" or has_control_edges(root)
    roots = [root] if whole else [root.operands[i] for i in kept]
    copy_cone(branch, copy, made, [*roots, *acting])
    b = Builder(copy, root)
    values = [b.element(made[root], i) if whole else made[root.operands[i]] for i in kept]
    copy.set_root(b.tuple(*values))
    return copy
