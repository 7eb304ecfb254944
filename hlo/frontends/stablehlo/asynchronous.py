"""Asynchronous operations: a start, and a done that waits for the result."""

from __future__ import annotations

from hlo.errors import InferError
from hlo.frontends.stablehlo.context import Context
from hlo.ir import Instruction
from hlo.ops import OPS, Trait
from hlo.values.types import TupleShape

# Operations with start and done opcodes of their own.
_OWN = frozenset(s.starts for s in OPS.values() if s.starts and s.has(Trait.COLLECTIVE))


def async_start(c: Context) -> Instruction:
    """Append the asynchronous start of a region."""
    block = c.region(0)
    shapes = [o.shape for o in c.operands]
    comp = c.converter.region(block, "async_computation", shapes, c.op, c.values)
    inner = comp.root
    if inner.opcode in _OWN and inner.operands == comp.parameters:
        c.converter.discard(comp)
        if inner.opcode == "all-reduce":
            shape = inner.shape
        else:
            before = shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))
            shape = TupleShape((before, inner.shape))
        return c.b.op(f"{inner.opcode}-start", *c.operands, shape=shape, **inner.attrs)
    shape = TupleShape((TupleShape(tuple(shapes)), inner.shape))
    return c.b.op("async-start", *c.operands, shape=shape, calls=comp)


def async_done(c: Context) -> Instruction:
    """Append the done of an asynchronous start."""
    if len(c.operands) != 1 or not c.operands[0].opcode.endswith("-start"):
        raise InferError("its operand is what an operation that started gave", code="type-mismatch")
    (start,) = c.operands
    return c.b.op(start.opcode.replace("-start", "-done"), start, shape=c.shape)
