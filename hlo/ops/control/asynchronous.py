"""Asynchronous operations: a start that launches work and a done that waits for it.

The interpreter does the work at the start and forwards the result; programs may rely only on what
the done guarantees. That each start has its done is checked over the whole module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.ops.attrs import COMPUTATION, INT32, OUTPUT_ALIASES, STRING, Attr, need
from hlo.ops.control.start_done import element_of_operand
from hlo.ops.factors import FactorRule, Rule, structural
from hlo.ops.host.outside import zeros
from hlo.ops.rules import need_aliases, need_compatible, need_signature, need_tuple
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.types import U32, ArrayShape, Shape, TupleShape, array

_THREAD = Attr(STRING, default="main")


# --- async-start, async-update, async-done --------------------------------------------------------

_ASYNC_EXAMPLE = """HloModule async_example
wrapped {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT r = f32[4] add(a, b)
}, execution_thread="t"
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = ((f32[4], f32[4]), f32[4], u32[]) async-start(x, y), async_execution_thread="t", calls=wrapped
  u = ((f32[4], f32[4]), f32[4], u32[]) async-update(s)
  ROOT d = f32[4] async-done(u)
}
"""


def _infer_async_start(op: OpView) -> Shape:
    callee = op.calls
    need_signature(op, "calls", callee, op.operand_shapes, None)
    operands = TupleShape(tuple(op.operand_shapes))
    declared = need_tuple(op, op.shape, 2, "the result")
    # What follows operands and result is the backend's own.
    return TupleShape((operands, callee.result_shape, *declared.elements[2:]))


def _verify_async_start(op: OpView) -> None:
    need_aliases(op, op.output_to_operand_aliasing, buffers=True)


def _async_start(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    result = ctx.call(op.calls, args)
    assert isinstance(op.shape, TupleShape)
    return tuple(args), result, *map(zeros, op.shape.elements[2:])


register(
    OpSpec(
        "async-start",
        (0, None),
        _infer_async_start,
        _async_start,
        Category.ASYNC,
        "003 AsyncStart",
        (_ASYNC_EXAMPLE,),
        attrs={
            "async_execution_thread": _THREAD,
            "output_to_operand_aliasing": Attr(OUTPUT_ALIASES, default=()),
            "calls": need(COMPUTATION),
        },
        verify=_verify_async_start,
        traits=Trait.SIDE_EFFECT | Trait.ASYNC_CHAIN,
        continued_by=("async-update", "async-done"),
        factors=structural("operands are the parameters of its computation"),
    )
)


def _infer_async_update(op: OpView) -> Shape:
    return need_tuple(op, op.operand_shapes[0], 2, "operand 0", operand=0)


def _verify_async_update(op: OpView) -> None:
    need_aliases(op, op.output_to_operand_aliasing, buffers=True)


def _pass_on(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return args[0]


# The start says what runs; older texts repeat it on the others.
_REPEATED = {"async_execution_thread": Attr(STRING), "calls": Attr(COMPUTATION)}

register(
    OpSpec(
        "async-update",
        (1, None),
        _infer_async_update,
        _pass_on,
        Category.ASYNC,
        "003 AsyncUpdate",
        (_ASYNC_EXAMPLE,),
        attrs={"output_to_operand_aliasing": Attr(OUTPUT_ALIASES, default=()), **_REPEATED},
        verify=_verify_async_update,
        traits=Trait.SIDE_EFFECT | Trait.ASYNC_CHAIN,
        continued_by=("async-update", "async-done"),
        factors=structural("it hands on what its start returned"),
    )
)

_infer_async_done, _async_done = element_of_operand(1, least=2)

register(
    OpSpec(
        "async-done",
        1,
        _infer_async_done,
        _async_done,
        Category.ASYNC,
        "003 AsyncDone",
        (_ASYNC_EXAMPLE,),
        attrs=_REPEATED,
        traits=Trait.SIDE_EFFECT | Trait.ASYNC_CHAIN,
        factors=structural("it hands on what its start returned"),
    )
)

# --- copy-start, copy-done ------------------------------------------------------------------------

_COPY_EXAMPLE = """HloModule copy_example
ENTRY e {
  x = f32[2,3] parameter(0)
  start = (f32[2,3]{1,0:S(1)}, f32[2,3], u32[]) copy-start(x)
  ROOT done = f32[2,3]{1,0:S(1)} copy-done(start)
}
"""


def _infer_copy_start(op: OpView) -> Shape:
    operand = op.operand_shapes[0]
    # The destination differs in its layout: often in its memory space alone.
    return TupleShape((operand, operand, array(U32, ())))


def _copy_start(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return args[0], args[0], zeros(array(U32, ()))


def _factors_of_copy_start(op: OpView) -> FactorRule:
    if not isinstance(op.operand_shapes[0], ArrayShape):
        return structural("each element of the tuple is copied")(op)
    rule = Rule(op)
    rule.pointwise(range(op.operand_shapes[0].rank), results=(0, 1))
    return rule.done()


register(
    OpSpec(
        "copy-start",
        1,
        _infer_copy_start,
        _copy_start,
        Category.ASYNC,
        "003 CopyStart",
        (_COPY_EXAMPLE,),
        attrs={"cross_program_prefetch_index": Attr(INT32)},
        traits=Trait.SIDE_EFFECT,
        continued_by=("copy-done",),
        starts="copy",
        factors=_factors_of_copy_start,
    )
)


def _infer_copy_done(op: OpView) -> Shape:
    start = need_tuple(op, op.operand_shapes[0], 2, "operand 0", operand=0)
    destination, source = start.elements[:2]
    need_compatible(op, destination, source, "destination and source", operand=0)
    return destination


def _copy_done(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return args[0][0]


register(
    OpSpec(
        "copy-done",
        1,
        _infer_copy_done,
        _copy_done,
        Category.ASYNC,
        "003 CopyDone",
        (_COPY_EXAMPLE,),
        traits=Trait.SIDE_EFFECT,
        factors=structural("it hands on what its start returned"),
    )
)
