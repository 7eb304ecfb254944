"""Sums over devices that are added up in loops, after these."""

from __future__ import annotations

from dataclasses import dataclass

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.patterns import single_binary_op
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_reducer
from hlo.ir.calls import Calls
from hlo.ops.elementwise.casts import widens
from hlo.passes.collectives._collective import is_movable, rounds
from hlo.passes.control_flow._loops import is_element, is_tuple_loop, loops_of
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import has_opcode
from hlo.values.types import ArrayShape, TupleShape

# What moves all elements of an array.
_MOVES = frozenset({"reshape", "transpose"})


@module_pass
def while_loop_all_reduce_code_motion(
    module: Module, rewrites: Rewrites, *, enable_reduce_scatter: bool = False
) -> None:
    """Hoist all-reduces that accumulate in a loop: accumulate locally, reduce once after it.

    That is where a sum over devices, moved or converted to a wider type, is added to an element of
    the loop's state in which nothing else has a part. enable_reduce_scatter: also reduce-scatters;
    the loop's state then has whole arrays, as many times larger as there are devices in a group.
    """
    if not has_opcode(module, ("all-reduce", "reduce-scatter")):
        return
    calls = Calls(module)
    for loop in loops_of(module):
        if is_tuple_loop(loop) and _is_called_once(loop, calls):
            for found in _accumulations(loop, enable_reduce_scatter):
                name = "while_loop_all_reduce_code_motion"
                if rewrites.allow(name, found.total, approximate=rounds([found.total])):
                    loop = _moved(loop, found, calls)


@dataclass(frozen=True)
class _Accumulation:
    """Element `index` of the state of a loop, to which `total` adds a reduction, through `chain`.

    chain: the steps from the addend of `total` back to what follows the reduction.
    """

    index: int
    total: Instruction
    chain: tuple[Instruction, ...]
    reduction: Instruction


def _is_called_once(loop: Instruction, calls: Calls) -> bool:
    return all(calls.counts[c] == 1 for c in loop.called_computations)


def _accumulations(loop: Instruction, scatters: bool) -> list[_Accumulation]:
    body, condition = loop.body, loop.condition
    tested = {u.tuple_index for u in condition.parameters[0].users}
    found = []
    for index, total in enumerate(body.root.operands):
        if index in tested or total.opcode != "add" or total.num_users != 1:
            continue
        if body.root.operands.count(total) != 1 or has_control_edges(total):
            continue
        for old, addend in (total.operands, total.operands[::-1]):
            if _is_only_added(body, old, index):
                chain, reduction = _reduced(addend)
                if reduction is None and scatters and "sharding" not in loop.annotations:
                    chain, reduction = [], _scattered(addend)
                if reduction is not None:
                    found.append(_Accumulation(index, total, tuple(chain), reduction))
                break
    return found


def _is_only_added(body: Computation, value: Instruction, index: int) -> bool:
    """True for an element of the state that a single instruction uses, and once."""
    if not is_element(value, index) or value.num_users != 1:
        return False
    reads = [u for u in body.parameters[0].users if u.tuple_index == index]
    (user,) = value.users
    return reads == [value] and user.operands.count(value) == 1


def _reduced(value: Instruction) -> tuple[list[Instruction], Instruction | None]:
    chain: list[Instruction] = []
    while value.num_users == 1 and not value.is_root and not has_control_edges(value):
        if value.opcode == "all-reduce":
            is_sum = single_binary_op(value.to_apply) == "add"
            return chain, value if is_sum and is_movable(value) else None
        if value.opcode not in _MOVES and not _is_wider(value):
            break
        chain.append(value)
        value = value.operands[0]
    return chain, None


def _scattered(value: Instruction) -> Instruction | None:
    if value.opcode != "reduce-scatter" or value.num_users > 1 or has_control_edges(value):
        return None
    is_sum = single_binary_op(value.to_apply) == "add"
    return value if is_sum and is_movable(value) else None


def _is_wider(value: Instruction) -> bool:
    if value.opcode != "convert":
        return False
    source, to = value.operands[0].array_shape.element_type, value.array_shape.element_type
    return source.is_float and to.is_float and widens(source, to)


def _moved(loop: Instruction, found: _Accumulation, calls: Calls) -> Instruction:
    """Replace a loop by one that starts from zeros, followed by a reduction and an addition."""
    comp, index = loop.parent, found.index
    assert comp is not None
    body = loop.body
    addend = found.reduction.operands[0]
    part = found.total.array_shape
    scatters = found.reduction.opcode == "reduce-scatter"
    if scatters:
        _enlarge(loop, found, addend.array_shape)
    found.reduction.replace_all_uses_with(addend)
    calls.dropped([found.reduction])
    b = Builder(comp, loop)
    init = loop.operands[0]
    shape = found.total.array_shape
    state = [b.element(init, n) for n in range(len(body.root.operands))]
    # -0 + x = x for all x, which 0 + -0 is not.
    zeros = b.relaid(
        b.filled(shape.element_type, shape.dims, _zero(found)),
        shape if scatters else state[index].shape,
    )
    begin = b.tuple(*(zeros if n == index else s for n, s in enumerate(state)))
    new = loop.clone([begin])
    if scatters:
        new.shape = body.root.shape
    comp.add(new)
    calls.added([new])
    sums = b.op("get-tuple-element", new, index=index)
    attrs = dict(found.reduction.attrs)
    if shape.element_type is not found.reduction.array_shape.element_type:
        name = f"{found.reduction.to_apply.name}.{shape.element_type}"
        attrs["to_apply"] = build_reducer("add", shape.element_type, loop, name)
    over_devices = b.op(found.reduction.opcode, sums, shape=part, **attrs)
    total = b.op("add", state[index], over_devices, shape=part)
    calls.added([over_devices])
    for user in loop.users:
        if user.opcode == "get-tuple-element" and user.tuple_index == index:
            user.replace_all_uses_with(total)
        elif user.opcode == "get-tuple-element":
            user.replace_operand(0, new)
    if loop.is_root or any(u.opcode != "get-tuple-element" for u in loop.users):
        parts = [total if n == index else b.element(new, n) for n in range(len(state))]
        loop.replace_all_uses_with(b.tuple(*parts))
    for dead in [*loop.users, loop]:
        if not dead.num_users:
            comp.remove(dead) if dead is not loop else calls.remove(dead)
    body.remove(found.reduction)
    return new


def _enlarge(loop: Instruction, found: _Accumulation, whole: ArrayShape) -> None:
    """Let the element of the loop's state that is accumulated be a whole array."""
    body = loop.body
    assert isinstance(loop.shape, TupleShape)
    elements = list(loop.shape.elements)
    elements[found.index] = whole
    state = TupleShape(tuple(elements))
    for comp in loop.called_computations:
        (argument,) = comp.parameters
        argument.shape = state
        for user in argument.users:
            if user.tuple_index == found.index:
                user.shape = whole
    found.total.shape = whole
    body.root.shape = state


def _zero(found: _Accumulation) -> float:
    et = found.total.array_shape.element_type
    return -0.0 if et.is_float else 0
