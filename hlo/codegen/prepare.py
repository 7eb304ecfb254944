"""Bring a module into the form that code generation walks: one caller for each computation.

Calls, fusions, asynchronous wrappers and expansions are inlined; bodies, conditions and branches
are copied for each instruction that names them; what no result needs is dropped. The input module
stays as it is.
"""

from __future__ import annotations

from hlo.codegen.lower import expand
from hlo.ir import Computation, Instruction
from hlo.ops import Trait

# Operations whose called computation runs once, in place, on the operands.
_INLINED = frozenset({"call", "fusion"})


def flatten(entry: Computation) -> Computation:
    """Return a copy of `entry` outside any module in which every callee has one caller."""
    copy = Computation(entry.name)
    root = _copy_into(copy, entry, None)
    copy.set_root(root)
    drop_dead(copy)
    return copy


def _copy_into(
    target: Computation, source: Computation, args: list[Instruction] | None
) -> Instruction:
    """Append the instructions of `source` to `target`, its parameters standing for `args`.

    Returns the copy of the root. Call chains are followed on a stack of their own: a chain of ten
    thousand calls is legal.
    """
    frames = [(source, iter(source.in_order()), dict[Instruction, Instruction](), args)]
    pending: list[Instruction] = []
    while True:
        comp, rest, made, actual = frames[-1]
        for inst in rest:
            if inst.opcode == "parameter" and actual is not None:
                made[inst] = actual[inst.attrs["number"]]
            elif (callee := _inlined(inst)) is not None:
                pending.append(inst)
                frames.append(
                    (callee, iter(callee.in_order()), {}, [made[o] for o in inst.operands])
                )
                break
            elif (element := _element_of(inst, made)) is not None:
                made[inst] = element
            else:
                new = inst.clone([made[o] for o in inst.operands])
                for key in inst.spec.computation_attrs:
                    value = inst.attrs[key]
                    if isinstance(value, tuple):
                        new.attrs[key] = tuple(flatten(c) for c in value)
                    elif value is not None:
                        new.attrs[key] = flatten(value)
                made[inst] = target.add(new)
        else:
            frames.pop()
            result = made[comp.root]
            if not frames:
                return result
            frames[-1][2][pending.pop()] = result


def _inlined(inst: Instruction) -> Computation | None:
    """Return the computation that an instruction stands for, if it is one."""
    return inst.called_computations[0] if inst.opcode in _INLINED else expand(inst)


def _element_of(inst: Instruction, made: dict[Instruction, Instruction]) -> Instruction | None:
    """Return what a get-tuple-element takes out of a tuple that was put together in sight."""
    if inst.opcode != "get-tuple-element" or inst.control_predecessors:
        return None
    whole = made[inst.operands[0]]
    return whole.operands[inst.attrs["index"]] if whole.opcode == "tuple" else None


def drop_dead(comp: Computation) -> None:
    """Remove instructions that neither the root nor a side effect needs."""
    live: set[Instruction] = set()
    stack = [comp.root]
    stack += [i for i in comp if i.spec.has(Trait.SIDE_EFFECT) or i.opcode == "parameter"]
    stack += [i for i in comp if any(_has_effect(c) for c in i.called_computations)]
    while stack:
        inst = stack.pop()
        if inst not in live:
            live.add(inst)
            stack.extend(inst.predecessors())
    for inst in reversed(comp.in_order()):
        if inst not in live:
            comp.remove(inst)


def _has_effect(comp: Computation) -> bool:
    return any(
        i.spec.has(Trait.SIDE_EFFECT) or any(_has_effect(c) for c in i.called_computations)
        for i in comp
    )
