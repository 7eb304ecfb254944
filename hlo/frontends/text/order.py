"""XLA's printing orders: they depend on the graph, not on the order in the source.

Source: `HloModule::MakeComputationPostOrder` and `HloComputation::MakeInstructionPostOrder`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo.ir import Computation, Instruction, Module


def post_order(module: Module) -> list[Computation]:
    """Return the computations in post-order, starting at those without callers."""
    called = {callee for inst in module.instructions() for callee in inst.called_computations}
    done: set[Computation] = set()
    order: list[Computation] = []
    starts = [c for c in module.computations if c not in called]
    # Call cycles, which only an invalid module has, are broken where the traversal meets them.
    for start in [*starts, *module.computations]:
        if start in done:
            continue
        done.add(start)
        stack = [(start, _calls(start))]
        while stack:
            comp, rest = stack[-1]
            callees = next(rest, None)
            if callees is None:
                order.append(comp)
                stack.pop()
                continue
            # XLA marks all callees of an instruction as visited before it descends into the first:
            # a loop's condition that its body calls too comes after the body.
            for callee in reversed(callees):
                if callee not in done:
                    done.add(callee)
                    stack.append((callee, _calls(callee)))
    return order


def _calls(comp: Computation) -> Iterator[list[Computation]]:
    """Yield the callees of each instruction, in XLA's order."""
    for inst in comp:
        if inst.spec.computation_attrs:
            # XLA stores the body of a loop before its condition, but prints it after.
            is_loop = "body" in inst.spec.computation_attrs
            callees = inst.called_computations
            yield list(reversed(callees) if is_loop else callees)


def instruction_post_order(comp: Computation) -> list[Instruction]:
    """Return the instructions in post-order, starting at those without users."""
    visiting: set[Instruction] = set()
    done: set[Instruction] = set()
    order: list[Instruction] = []
    starts = [inst for inst in comp if not inst.num_users]
    for start in [*starts, *comp]:
        stack = [start]
        while stack:
            inst = stack[-1]
            if inst in visiting:
                stack.pop()
                if inst not in done:
                    done.add(inst)
                    order.append(inst)
                continue
            visiting.add(inst)
            stack.extend(o for o in reversed(inst.operands) if o not in done)
            stack.extend(o for o in inst.control_predecessors if o not in done)
    return order
