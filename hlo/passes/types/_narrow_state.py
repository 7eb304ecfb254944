"""Loop state in f32 whose values are all bf16 values, or only used as such."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, copy_cone
from hlo.passes.control_flow._loops import (
    annotations_for,
    element_has_one_layout,
    is_element,
    is_tuple_loop,
    loops_of,
)
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._retype import Types, converted, retyped
from hlo.values.types import ArrayShape, TupleShape

# Whether an instruction converts to, or from, the narrow type.
Test = Callable[[Instruction], bool]


def narrow_states(
    module: Module, rewrites: Rewrites, rule: str, types: Types, narrows: Test, widens: Test
) -> None:
    """Carry elements of loops' states in narrower types, where that changes no value.

    Either all that makes an element is in the narrow type before, or all that uses it after.
    types: the narrow type of each. narrows, widens: what converts to it and from it.
    """
    calls, effects = Calls(module), Effects()
    for loop in loops_of(module):
        if loop.parent is None or loop.parent.module is not module or not is_tuple_loop(loop):
            continue
        init, shape = loop.operands[0], loop.shape
        if init.opcode != "tuple" or loop.is_root or "sharding" in loop.annotations:
            continue
        if any(u.opcode != "get-tuple-element" for u in loop.users):
            continue
        assert isinstance(shape, TupleShape)
        found = [
            n for n, s in enumerate(shape.elements)
            if isinstance(s, ArrayShape) and s.element_type in types
            and element_has_one_layout(loop, n)
            and (_is_made_narrow(loop, n, widens) or _is_used_narrow(loop, n, narrows))
        ]  # fmt: skip
        if found and rewrites.allow(rule, loop):
            _replace(loop, found, types, calls, effects)


def _is_made_narrow(loop: Instruction, index: int, widens: Test) -> bool:
    start, after = loop.operands[0].operands[index], loop.body.root.operands[index]
    return widens(start) and (widens(after) or is_element(after, index))


def _is_used_narrow(loop: Instruction, index: int, narrows: Test) -> bool:
    values = [*loop.users, *(u for c in loop.called_computations for u in c.parameters[0].users)]
    root, found = loop.body.root, False
    for value in values:
        if value.tuple_index != index:
            continue
        if value.is_root:
            return False
        for user in value.users:
            handed_on = user is root and root.operands.count(value) == 1 and is_element(
                root.operands[index], index
            )  # fmt: skip
            if not handed_on and not narrows(user):
                return False
            found = True
    return found


def _replace(
    loop: Instruction, found: Collection[int], types: Types, calls: Calls, effects: Effects
) -> None:
    comp, init, shape = loop.parent, loop.operands[0], loop.shape
    assert comp is not None and isinstance(shape, TupleShape)
    b = Builder(comp, loop)
    elements = tuple(retyped(s, types) if n in found else s for n, s in enumerate(shape.elements))
    parts = [converted(b, o, s) if n in found else o
             for n, (o, s) in enumerate(zip(init.operands, elements, strict=True))]  # fmt: skip
    new = b.op(
        "while", b.tuple(*parts), shape=TupleShape(elements),
        condition=_on(loop.condition, found, types, is_body=False),
        body=_on(loop.body, found, types, is_body=True),
    )  # fmt: skip
    new.annotations.update(annotations_for(loop, {n: n for n in range(len(elements))}))
    for user in loop.users:
        value = b.op("get-tuple-element", new, index=user.tuple_index)
        user.replace_all_uses_with(converted(b, value, user.shape))
        comp.remove(user)
    calls.remove(loop)
    calls.added([new])


def _on(comp: Computation, found: Collection[int], types: Types, *, is_body: bool) -> Computation:
    """Return a copy of a body or condition on the state in its new types."""
    copy, old = Computation(comp.name, execution_thread=comp.execution_thread), comp.parameters[0]
    assert isinstance(old.shape, TupleShape)
    b = Builder(copy, old)
    elements = old.shape.elements
    shapes = [retyped(s, types) if n in found else s for n, s in enumerate(elements)]
    state = b.parameter(0, TupleShape(tuple(shapes)), old.name)
    made = {old: state}
    for user in old.users:
        value = b.op("get-tuple-element", state, index=user.tuple_index)
        made[user] = converted(b, value, user.shape)
    copy_cone(comp, copy, made, [i for i in comp if i is not comp.root or not is_body])
    root = made.get(comp.root)
    if is_body:
        parts = [made[o] for o in comp.root.operands]
        root = b.tuple(
            *(converted(b, p, shapes[n]) if n in found else p for n, p in enumerate(parts))
        )
    assert root is not None
    copy.set_root(root)
    return copy
