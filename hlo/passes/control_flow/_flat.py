"""Flattening of nested tuples in loop states."""

from __future__ import annotations

from collections.abc import Iterator

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls, copy_cone, remove_unused_tuples
from hlo.ops.host.transfer import is_open_transfer
from hlo.passes.control_flow._loops import annotations_for, exchange
from hlo.values.types import Shape, TupleShape


def has_nested_state(loop: Instruction) -> bool:
    """True for a loop with nested tuples in its state."""
    return (
        isinstance(loop.shape, TupleShape)
        and any(map(_is_taken_apart, loop.shape.elements))
        and not has_control_edges(loop)
        and not any(has_control_edges(c.parameters[0]) for c in loop.called_computations)
        # It names shapes in the form that they have.
        and "sharding" not in loop.annotations
    )


def _is_taken_apart(shape: Shape) -> bool:
    """True for a tuple of values; what send and recv begin is one value for what ends it."""
    return isinstance(shape, TupleShape) and not is_open_transfer(shape)


def with_flat_state(loop: Instruction, calls: Calls, effects: Effects) -> Instruction:
    """Replace a loop by one over the leaves of its state, with new computations."""
    comp = loop.parent
    assert comp is not None
    b = Builder(comp, loop)
    new = b.op(
        "while",
        b.tuple(*_leaves(b, loop.operands[0])),
        shape=_flat(loop.shape),
        condition=_on_leaves(loop.condition, flat_result=False),
        body=_on_leaves(loop.body, flat_result=True),
    )
    assert isinstance(loop.shape, TupleShape)
    counts = [len(_flat(TupleShape((s,))).elements) for s in loop.shape.elements]
    places = {i: sum(counts[:i]) for i, s in enumerate(loop.shape.elements) if s.is_array}
    new.annotations.update(annotations_for(loop, places))
    leaves = (b.op("get-tuple-element", new, index=n) for n in range(len(new.operands[0].operands)))
    loop.replace_all_uses_with(_nested(b, loop.shape, leaves))
    exchange(loop, new, calls, effects)
    return new


def _on_leaves(comp: Computation, *, flat_result: bool) -> Computation:
    copy, old = Computation(comp.name, execution_thread=comp.execution_thread), comp.parameters[0]
    b = Builder(copy, old)
    shape = _flat(old.shape)
    argument = b.parameter(0, shape, old.name)
    leaves = (b.op("get-tuple-element", argument, index=n) for n in range(len(shape.elements)))
    made = {old: _nested(b, old.shape, leaves)}
    copy_cone(comp, copy, made, comp)
    root = made[comp.root]
    copy.set_root(b.tuple(*_leaves(b, root)) if flat_result else root)
    if flat_result:
        remove_unused_tuples([root])
    return copy


def _flat(shape: Shape) -> TupleShape:
    """Return the shape of a tuple's leaves in one."""
    if not isinstance(shape, TupleShape) or not _is_taken_apart(shape):
        return TupleShape((shape,))
    return TupleShape(tuple(leaf for s in shape.elements for leaf in _flat(s).elements))


def _leaves(b: Builder, value: Instruction) -> list[Instruction]:
    """Append get-tuple-elements of a value's leaves; returns them in the order of its shape."""
    if not isinstance(value.shape, TupleShape) or not _is_taken_apart(value.shape):
        return [value]
    parts = (b.element(value, n) for n in range(len(value.shape.elements)))
    return [leaf for part in parts for leaf in _leaves(b, part)]


def _nested(b: Builder, shape: Shape, leaves: Iterator[Instruction]) -> Instruction:
    """Append what puts leaves together as a value of a shape."""
    if not isinstance(shape, TupleShape) or not _is_taken_apart(shape):
        return next(leaves)
    return b.tuple(*[_nested(b, s, leaves) for s in shape.elements])
