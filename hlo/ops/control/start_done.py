"""Rules that pairs of start and done share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.ops.rules import need_tuple
from hlo.ops.spec import EvalContext, Evaluate, Infer, OpView
from hlo.values.types import Shape


def element_of_operand(index: int, least: int) -> tuple[Infer, Evaluate]:
    """Return the rules of an operation that takes one element out of what its start returned."""

    def infer(op: OpView) -> Shape:
        return need_tuple(op, op.operand_shapes[0], least, "operand 0", operand=0).elements[index]

    def evaluate(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
        return args[0][index]

    return infer, evaluate
