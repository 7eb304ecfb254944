"""Loops whose arrays would be copied from one place to another in each iteration."""

from __future__ import annotations

import math

from hlo.analysis.effects import Effects
from hlo.analysis.trips import Counter, counted
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls
from hlo.ops import Trait
from hlo.passes.control_flow._iterations import iteration, unroll_by
from hlo.passes.control_flow._loops import is_tuple_loop, until_unchanged
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape

# Iterations that become one, at the most.
_MOST = 4
# What reads elements at other indices than it is computed for, in the same kernel as what uses it.
_SHIFTS = frozenset({"slice", "pad", "reverse"})


@module_pass
def while_loop_double_buffering(
    module: Module,
    rewrites: Rewrites,
    *,
    min_bytes: int = 1 << 14,
    max_instructions: int = 200,
) -> None:
    """Do some iterations as one, so that arrays are where the next one looks for them.

    An element of the state that becomes another one, as in `(x, before) -> (f(x), x)`, would be
    copied there in each iteration, and so would one whose new value reads neighbours of the old,
    which cannot be overwritten. After two iterations, or as many as there are places to go through,
    each array is in its own place. Iterations that are left over are done first.

    min_bytes: of the array. max_instructions: of the body.
    """
    calls, effects = Calls(module), Effects()

    def visit(loop: Instruction) -> bool:
        if not is_tuple_loop(loop) or len(loop.body) > max_instructions:
            return False
        if any(inst.called_computations and _is_control(inst) for inst in loop.body):
            return False
        counter = counted(loop)
        # Steps of other sizes may be of iterations that are several already.
        if counter is None or abs(counter.step) != 1:
            return False
        factor = _places(loop, min_bytes)
        if factor < 2 or counter.count < 2 * factor:
            return False
        if any(effects.has_side_effect(inst) for c in (loop.condition, loop.body) for inst in c):
            return False
        if not rewrites.allow("while_loop_double_buffering", loop):
            return False
        _peel(loop, counter, counter.count % factor, calls, effects)
        unroll_by(loop, factor, calls, effects)
        return True

    until_unchanged(module, visit)


def _is_control(inst: Instruction) -> bool:
    return inst.spec.has(Trait.CONTROL_FLOW)


def _places(loop: Instruction, min_bytes: int) -> int:
    """Return after how many iterations each array is where it was, 1 if it is anyway."""
    results = loop.body.root.operands
    # By the element in whose place something new is computed: the elements that it goes through.
    lengths: dict[int, int] = {}
    for index, result in enumerate(results):
        if not isinstance(result.shape, ArrayShape) or result.shape.byte_size < min_bytes:
            continue
        at, length = index, 1
        while (source := _element(results[at])) not in (None, at) and length <= _MOST:
            if source == index:
                break  # elements that only change places
            at, length = source, length + 1
        if length == 1 and _reads_neighbours(result, index):
            length = 2
        lengths[at] = max(length, lengths.get(at, 1))
    factor = math.lcm(*lengths.values())
    return factor if factor <= _MOST else 1


def _element(inst: Instruction) -> int | None:
    """Return the number of the element of the state that a value is, if it is one."""
    if inst.opcode == "get-tuple-element" and inst.operands[0].opcode == "parameter":
        return inst.tuple_index
    return None


def _reads_neighbours(result: Instruction, index: int) -> bool:
    """Return whether what is computed in place of an element reads others than it replaces."""
    seen, todo = set[tuple[Instruction, bool]](), [(result, False)]
    while todo:
        inst, shifted = todo.pop()
        if (inst, shifted) in seen:
            continue
        seen.add((inst, shifted))
        if _element(inst) == index:
            if shifted:
                return True
        elif inst.opcode in _SHIFTS:
            todo += [(o, True) for o in inst.operands]
        elif inst.spec.has(Trait.ELEMENTWISE):
            todo += [(o, shifted) for o in inst.operands]
    return False


def _peel(loop: Instruction, counter: Counter, count: int, calls: Calls, effects: Effects) -> None:
    """Do the first iterations of a loop before it."""
    if not count:
        return
    comp, (start,) = loop.parent, loop.operands
    assert comp is not None
    b = Builder(comp, loop)
    values = [b.element(start, i) for i in range(len(loop.body.root.operands))]
    for _ in range(count):
        values = iteration(loop.body, b, values, calls, effects)
    shape = values[counter.index].array_shape
    number = b.constant(shape.element_type, counter.start + count * counter.step)
    values[counter.index] = b.relaid(number, shape)
    loop.replace_operand(0, b.relaid(b.tuple(*values), start.shape))
