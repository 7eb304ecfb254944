"""Structure: parents, operands, users, names, parameters, roots, order, and who calls whom.

These are the invariants that the methods of `hlo.ir` keep and the parser establishes; they are
checked again because a module may have been built or edited by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from hlo.errors import InferError
from hlo.ir import Computation, Instruction, Module
from hlo.verifier.report import Report

Node = TypeVar("Node")

# Errors after which the graph cannot be walked or an operation lacks operands.
_FATAL = frozenset({"bad-parent", "foreign-computation", "foreign-operand", "no-entry", "no-root"})


def check_structure(module: Module, report: Report) -> bool:
    """Check the graph; returns False when it is too broken to check operations."""
    if not module.computations:
        report.add("no-entry", f"module {module.name} has no computation")
        return False
    if not module.has_entry:
        report.add("no-entry", f"module {module.name} has no entry computation")
    for comp in module.computations:
        _check_computation(module, comp, report)
    check_recursion(module, module.instructions(), report)
    return not any(d.code in _FATAL for d in report.diagnostics)


def _check_computation(module: Module, comp: Computation, report: Report) -> None:
    if comp.module is not module:
        report.add("bad-parent", f"computation {comp.name} belongs to another module", comp=comp)
    if module.get(comp.name) is not comp:
        report.add(
            "duplicate-name", f"module {module.name} knows {comp.name} by another name", comp=comp
        )
    uses: dict[Instruction, dict[Instruction, None]] = {inst: {} for inst in comp}
    for inst in uses:
        if inst.parent is not comp:
            report.add("bad-parent", f"it is listed in {comp.name}, its parent is another", inst)
        check_operand_count(inst, report)
        if comp.get(inst.name) is not inst:
            report.add("duplicate-name", f"{comp.name} knows it by another name", inst)
        _check_edges(comp, inst, uses, report)
    for inst, users in uses.items():
        # Comparing counts first avoids building sets for valid modules.
        if inst.num_users != len(users) or any(u not in users for u in inst.users):
            report.add(
                "bad-users",
                f"its users are {_names(users)}, it has {_names(inst.users)} on record", inst,
            )  # fmt: skip
    _check_parameters(comp, report)
    if not comp.has_root:
        report.add("no-root", f"computation {comp.name} has no root", comp=comp)
    elif comp.root not in uses:
        report.add(
            "no-root", f"the root {comp.root.name} of {comp.name} is not in it", comp=comp,
        )  # fmt: skip
    check_acyclic(comp, report)


def check_operand_count(inst: Instruction, report: Report) -> None:
    """Check the operand count: all later code relies on it."""
    try:
        inst.spec.check_arity(len(inst.operands))
    except InferError as e:
        report.add_infer_error(inst, e)


def _check_edges(
    comp: Computation,
    inst: Instruction,
    uses: dict[Instruction, dict[Instruction, None]],
    report: Report,
) -> None:
    for i, operand in enumerate(inst.operands):
        users = uses.get(operand)
        if users is None:
            where = f"in {operand.parent.name}" if operand.parent else "in no computation"
            report.add(
                "foreign-operand",
                f"operand {i}, {operand.name}, is {where}, not in {comp.name}",
                inst, operand=i,
            )  # fmt: skip
        else:
            users[inst] = None
    for other in inst.control_predecessors:
        if other not in uses:
            report.add(
                "foreign-operand", f"control predecessor {other.name} is not in {comp.name}",
                inst, attr="control-predecessors",
            )  # fmt: skip
        elif inst not in other.control_successors:
            report.add(
                "bad-users", f"control predecessor {other.name} does not know it as a successor",
                inst, attr="control-predecessors",
            )  # fmt: skip
    for other in inst.control_successors:
        if inst not in other.control_predecessors:
            report.add(
                "bad-users", f"control successor {other.name} does not know it as a predecessor",
                inst,
            )  # fmt: skip


def _check_parameters(comp: Computation, report: Report) -> None:
    found = [inst for inst in comp if inst.opcode == "parameter"]
    if sorted(map(id, found)) != sorted(map(id, comp.parameters)):
        report.add(
            "bad-parameter-number", f"the parameters of {comp.name} are not those in it", comp=comp
        )
    seen: dict[int, Instruction] = {}
    for inst in found:
        number = inst.parameter_number
        if number in seen:
            report.add(
                "bad-parameter-number", f"parameter {number} of {comp.name} is defined twice", inst,
                notes=[("the first is here", seen[number])],
            )  # fmt: skip
        elif not 0 <= number < len(found):
            report.add(
                "bad-parameter-number",
                f"number {number} is not in [0, {len(found)}): {comp.name} has {len(found)} "
                "parameters, numbered without gaps",
                inst,
            )  # fmt: skip
        seen.setdefault(number, inst)


def check_acyclic(comp: Computation, report: Report) -> None:
    """Report one instruction of each cycle of operands and control predecessors."""
    ordered: set[Instruction] = set()
    for inst in comp:
        if any(before not in ordered for before in inst.predecessors()):
            break
        ordered.add(inst)
    else:
        return  # the order itself proves that there is no cycle
    for cycle in _cycles(comp, Instruction.predecessors):
        path = " -> ".join(i.name for i in (*cycle, cycle[0]))
        report.add("cycle", f"it depends on itself: {path}", cycle[0])


def check_recursion(module: Module, instructions: Iterable[Instruction], report: Report) -> None:
    """Check that called computations are the module's, and that none calls itself."""
    callees: dict[Computation, dict[Computation, Instruction]] = {}
    for inst in instructions:
        if not inst.spec.computation_attrs or inst.parent is None:
            continue
        calls = callees.setdefault(inst.parent, {})
        for callee in inst.called_computations:
            if callee.module is not module:
                report.add(
                    "foreign-computation",
                    f"it calls {callee.name}, which is not in module {module.name}", inst,
                )  # fmt: skip
            calls.setdefault(callee, inst)
    for cycle in _cycles(module.computations, lambda c: callees.get(c, {})):
        path = " -> ".join(c.name for c in (*cycle, cycle[0]))
        last = callees[cycle[-1]][cycle[0]]
        report.add("recursive-call", f"computation {cycle[0].name} calls itself: {path}", last)


def _cycles(nodes: Iterable[Node], edges: Callable[[Node], Iterable[Node]]) -> Iterator[list[Node]]:
    """Yield the cycles that a depth-first walk meets, as paths along the edges."""
    done: set[Node] = set()
    for start in nodes:
        if start in done:
            continue
        path: dict[Node, None] = {start: None}
        stack = [(start, iter(edges(start)))]
        while stack:
            node, rest = stack[-1]
            for after in rest:
                if after in path:
                    members = list(path)
                    yield members[members.index(after) :]
                elif after not in done:
                    path[after] = None
                    stack.append((after, iter(edges(after))))
                    break
            else:
                done.add(node)
                del path[node]
                stack.pop()


def _names(instructions: Iterable[Instruction]) -> str:
    return "{" + ", ".join(i.name for i in instructions) + "}"
