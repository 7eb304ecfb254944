"""Loops that run a known number of times, unrolled."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.analysis.trips import counted
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import Calls
from hlo.ops import Trait
from hlo.passes.control_flow._iterations import iteration, unroll_by
from hlo.passes.control_flow._loops import is_tuple_loop, until_unchanged
from hlo.passes.control_flow._trips import known_trips
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape


@module_pass
def while_loop_unroller(
    module: Module,
    rewrites: Rewrites,
    *,
    unroll_factor: int = -1,
    max_trip_count: int = 64,
    max_instructions: int = 800,
    max_expansion: int = 10000,
    elementwise_only: bool = False,
) -> None:
    """Unroll loops, fully or by a factor.

    unroll_factor: how many iterations become one, where that divides their number; -1 for all, and
    then no loop is left. max_trip_count, max_instructions: the iterations of a loop and the
    instructions of its body, max_expansion: of all copies of a body. elementwise_only: leave loops
    whose iterations could not become one loop over the elements of the arrays that they carry.
    """
    calls, effects = Calls(module), Effects()

    def visit(loop: Instruction) -> bool:
        count, body = known_trips(loop, effects), loop.body
        if count is None or not is_tuple_loop(loop):
            return False
        if any(map(effects.has_side_effect, loop.condition)):
            return False
        copies = count if unroll_factor < 0 else unroll_factor
        if count > max_trip_count or len(body) > max_instructions:
            return False
        if copies * len(body) > max_expansion:
            return False
        if elementwise_only and not _is_elementwise(body):
            return False
        if unroll_factor < 0:
            if rewrites.allow("while_loop_unroller.full", loop):
                _unroll(loop, count, calls, effects)
                return True
        elif copies > 1 and count and count % copies == 0 and counted(loop) is not None:
            # What is unrolled by some does not count in one step any more, and stays as it is.
            if rewrites.allow("while_loop_unroller.partial", loop):
                unroll_by(loop, copies, calls, effects)
                return True
        return False

    # With the numbers of the iterations around it, a loop may be one that starts from constants.
    until_unchanged(module, visit)


# Arrays that fit a register or two: what is done with them costs nothing.
_SMALL = 16


def _is_elementwise(body: Computation) -> bool:
    """True when a body computes each element of its arrays from those of the same index."""
    sizes = set()
    for inst in body:
        if inst.called_computations or inst.shape.is_tuple:
            if inst.opcode not in ("tuple", "parameter"):
                return False
        elif not isinstance(inst.shape, ArrayShape):
            return False
        elif inst.array_shape.num_elements > _SMALL:
            if not (inst.spec.has(Trait.ELEMENTWISE) or inst.opcode in _SAME_INDEX):
                return False
            if inst.opcode != "broadcast" or inst.operands[0].array_shape.num_elements > _SMALL:
                sizes.add(inst.array_shape.dims)
    return len(sizes) == 1


_SAME_INDEX = frozenset({"get-tuple-element", "broadcast", "copy"})


def _unroll(loop: Instruction, count: int, calls: Calls, effects: Effects) -> None:
    """Replace a loop by all of its iterations; what it counts is a constant in each."""
    comp, body, counter = loop.parent, loop.body, counted(loop)
    assert comp is not None
    b = Builder(comp, loop)
    values = [b.element(loop.operands[0], i) for i in range(len(body.root.operands))]
    for turn in range(count):
        if counter is not None:
            shape = values[counter.index].array_shape
            number = b.constant(shape.element_type, counter.start + turn * counter.step)
            values[counter.index] = b.relaid(number, shape)
        values = iteration(body, b, values, calls, effects)
    whole = b.relaid(b.tuple(*values), loop.shape)
    loop.replace_all_uses_with(whole)
    calls.remove(loop)
