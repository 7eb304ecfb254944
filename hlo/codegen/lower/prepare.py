"""Flatten a module for code generation: one caller for each computation.

Calls, fusions, asynchronous wrappers and expansions are inlined; bodies, conditions and branches
are copied for each caller; dead code is removed. The input module is not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hlo.codegen.lower import asynchronous, custom, data, exchange, movement, reduction  # noqa: F401
from hlo.codegen.lower.relayout import add_argument, add_relaid, need_addresses, plain, relaid
from hlo.errors import HloError, InferError
from hlo.expansions import expand
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.values.types import Shape

# Every call becomes a copy of its callee: the number of copies, and the depth of loops, are
# limited.
_MAX_INSTRUCTIONS = 1_000_000
_MAX_DEPTH = 100
# Those that are no expansions end what has been started elsewhere.
_DONES = ("all-reduce-done", "all-gather-done", "collective-permute-done")


def flatten(entry: Computation) -> Computation:
    """Return a copy of `entry` without a module, in which every callee has one caller.

    Raises HloError for operations that cannot be compiled, and when the copy would be too large.
    """
    _need_bounded(entry)
    need_addresses(entry.root)
    return _flatten(entry, set(), None, entry.root.shape)


def _need_bounded(entry: Computation) -> None:
    """Raise HloError if nested calls make too many copies, or bodies nest too deeply."""
    sizes: dict[Computation, int] = {}
    depths: dict[Computation, int] = {}
    stack = [(entry, iter(_callees(entry)))]
    while stack:
        comp, rest = stack[-1]
        callee = next((c for c in rest if c not in sizes), None)
        if callee is not None:
            stack.append((callee, iter(_callees(callee))))
            continue
        stack.pop()
        sizes[comp], depths[comp] = len(comp), 0
        for inst in comp:
            nested = not inst.spec.has(Trait.CALL)
            for c in inst.called_computations:
                sizes[comp] += sizes[c]
                depths[comp] = max(depths[comp], depths[c] + nested)
            if sizes[comp] > _MAX_INSTRUCTIONS:
                raise HloError.at(
                    "too-large",
                    f"{inst.name}: with a copy of what is called for each call, {comp.name} has "
                    f"more than {_MAX_INSTRUCTIONS} instructions",
                    inst.span,
                )
            if depths[comp] > _MAX_DEPTH:
                raise HloError.at(
                    "call-depth",
                    f"{inst.name}: the computations that {inst.opcode} calls nest more than "
                    f"{_MAX_DEPTH} deep",
                    inst.span,
                )


def _callees(comp: Computation) -> list[Computation]:
    return [c for inst in comp for c in inst.called_computations]


def _flatten(
    source: Computation,
    effects: set[Computation],
    arguments: Sequence[Shape] | None = None,
    result: Shape | None = None,
) -> Computation:
    """Return a copy of a computation; adds copies with side effects to `effects`.

    arguments: the shapes of its parameters' values; without them it is the entry, or a function of
    scalars. result: the required shape of its result.
    """
    copy = Computation(source.name)
    args = []
    for n, p in enumerate(source.parameters):
        if arguments is None:
            args.append(add_argument(copy, p))
        else:
            args.append(copy.add(p.clone(shape=arguments[n])))
    root = _copy_into(copy, source, args, effects)
    copy.set_root(root if result is None else relaid(copy, root, result))
    drop_dead(copy, effects)
    if any(_has_effect(i, effects) for i in copy):
        effects.add(copy)
    return copy


def _copy_into(
    target: Computation,
    source: Computation,
    args: Sequence[Instruction],
    effects: set[Computation],
) -> Instruction:
    """Append the instructions of `source` to `target`, with `args` for its parameters.

    Returns the copy of the root. Call chains use an explicit stack: a chain of ten thousand calls
    is legal.
    """
    frames = [(source, iter(source.in_order()), dict[Instruction, Instruction](), args)]
    pending: list[Instruction] = []
    while True:
        comp, rest, made, actual = frames[-1]
        for inst in rest:
            if inst.opcode == "parameter":
                made[inst] = actual[inst.parameter_number]
            elif (callee := _inlined(inst)) is not None:
                pending.append(inst)
                frames.append(
                    (callee, iter(callee.in_order()), {}, [made[o] for o in inst.operands])
                )
                break
            elif (element := _element_of(inst, made)) is not None:
                made[inst] = element
            else:
                made[inst] = _add(target, inst, [made[o] for o in inst.operands], effects)
        else:
            frames.pop()
            result = made[comp.root]
            if not frames:
                return result
            frames[-1][2][pending.pop()] = result


def _add(
    target: Computation,
    inst: Instruction,
    operands: list[Instruction],
    effects: set[Computation],
) -> Instruction:
    """Append a copy of an instruction, with copies of the computations that it calls."""
    if inst.opcode in _DONES:
        return asynchronous.add_done(target, inst, operands[0])
    shapes = [o.shape for o in operands]
    made: list[Computation] = []
    for n, callee in enumerate(inst.called_computations):
        if inst.opcode == "while":
            is_body = callee is inst.body
            made.append(_flatten(callee, effects, shapes, shapes[0] if is_body else None))
        elif inst.opcode == "conditional":
            made.append(_flatten(callee, effects, [shapes[1 + n]], plain(inst.shape)))
        else:
            made.append(_flatten(callee, effects))
    if inst.spec.starts:
        return asynchronous.add_start(target, inst, operands, made)
    return add_relaid(target, inst, operands, made)


def _inlined(inst: Instruction) -> Computation | None:
    """Return the computation that an instruction runs once, to be inlined, if it does."""
    if inst.spec.has(Trait.CALL):
        return inst.called_computations[0]
    try:
        return expand(inst)
    except InferError as e:
        raise HloError.at(e.code, f"{inst.name}: {e.message}", inst.span, e.hint) from None


def _element_of(inst: Instruction, made: dict[Instruction, Instruction]) -> Instruction | None:
    """Return the operand of a `tuple` that a get-tuple-element reads."""
    if inst.opcode != "get-tuple-element" or inst.control_predecessors:
        return None
    whole = made[inst.operands[0]]
    return whole.operands[inst.tuple_index] if whole.opcode == "tuple" else None


def drop_dead(comp: Computation, effects: Collection[Computation] = ()) -> None:
    """Remove instructions that neither the root nor a side effect needs.

    effects: the called computations that have side effects.
    """
    live: set[Instruction] = set()
    stack = [comp.root]
    stack += [i for i in comp if i.opcode == "parameter" or _has_effect(i, effects)]
    while stack:
        inst = stack.pop()
        if inst not in live:
            live.add(inst)
            stack.extend(inst.predecessors())
    for inst in reversed(comp.in_order()):
        if inst not in live:
            comp.remove(inst)


def _has_effect(inst: Instruction, effects: Collection[Computation]) -> bool:
    return inst.spec.has(Trait.SIDE_EFFECT) or any(c in effects for c in inst.called_computations)
