"""QR factorizations by Householder reflections."""

from __future__ import annotations

import math

from hlo.errors import InferError
from hlo.expansions import Draft
from hlo.expansions.loop import counted_loop
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.expand import _matrix as mx
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, TupleShape, array

_QR, _PRODUCT = "Qr", "ProductOfElementaryHouseholderReflectors"


@module_pass
def qr_expander(module: Module, rewrites: Rewrites) -> None:
    """Express the custom calls Qr and ProductOfElementaryHouseholderReflectors by loops.

    A reflection a step, stored as LAPACK's geqrf does; in f64 or c128, rounded once.
    """
    expand_instructions(
        module, rewrites, "qr_expander.expand", ["custom-call"], _expanded, approximate=True
    )


def _expanded(inst: Instruction) -> Computation | None:
    target = inst.custom_call_target
    if target not in (_QR, _PRODUCT):
        return None
    operands = [o.shape for o in inst.operands]
    if any(not isinstance(s, ArrayShape) or s.is_dynamic for s in operands):
        return None
    return _factors(inst) if target == _QR else _product(inst)


def _need(inst: Instruction, holds: bool, what: str) -> None:
    if not holds:
        raise InferError(f"{inst.custom_call_target}: {what}", code="shape-mismatch")


def _factors(inst: Instruction) -> Computation:
    """R in the upper triangle, the reflections below it, and their factors."""
    _need(inst, len(inst.operands) == 1, "it takes a matrix")
    a = inst.operands[0].array_shape
    _need(inst, a.rank >= 2, f"{a.to_string(False)} is not a matrix")
    m, n = a.dims[-2:]
    steps = min(m, n)
    et = a.element_type
    wanted = (array(et, a.dims), array(et, (*a.dims[:-2], steps)))
    got = inst.shape.elements if isinstance(inst.shape, TupleShape) else ()
    same = [isinstance(s, ArrayShape) and array(s.element_type, s.dims) for s in got]
    _need(inst, same == list(wanted), f"it returns {TupleShape(wanted).to_string(False)}")
    d = Draft(inst)
    if not a.num_elements:
        return d.done(d.zeros(inst.shape))
    matrix = mx.widened(d, d.parameters[0])
    batch = math.prod(a.dims[:-2])
    factors = d.zeros(array(mx.wide_type(et), (batch, 1, steps)))
    done = counted_loop(d, steps, [matrix, factors], [], _reflect)
    results = [d.convert(d.reshape(v, s.dims), et) for v, s in zip(done, wanted, strict=True)]
    return d.done(d.relaid(d.tuple(*results), inst.shape))


def _reflect(
    b: Builder, at: Instruction, values: list[Instruction], _: list[Instruction]
) -> list[Instruction]:
    """Append a reflection I - factor v v^H that makes zeros below the diagonal of a column."""
    a, factors = values
    column = mx.taken(b, a, at, 2)
    first = mx.taken(b, column, at, 1)
    below = mx.kept(b, mx.positions(b, column, 1, "GT", at), column)
    head, rest = mx.real(b, first), mx.total(b, mx.squares(b, below), (1,))
    zero = b.filled(head.array_shape.element_type, head.array_shape.dims, 0)
    # What is zero already stays; so does the sign of the diagonal.
    stays = b.compare(rest, zero, "EQ")
    if first.array_shape.element_type.is_complex:
        imag = b.op("imag", first)
        is_real = b.compare(imag, zero, "EQ")
        stays = b.op("and", stays, is_real)
    norm = b.op("sqrt", b.op("add", mx.squares(b, first), rest))
    negative = b.compare(head, zero, "LT")
    new = b.op("select", negative, norm, b.op("negate", norm))
    new = b.op("select", stays, head, new)
    wide = mx.as_type_of(b, new, first)
    one = b.filled(first.array_shape.element_type, first.array_shape.dims, 1)
    factor = b.op("divide", b.op("subtract", wide, first), b.op("select", stays, one, wide))
    divisor = b.op("select", stays, one, b.op("subtract", first, wide))
    v = b.op("divide", below, mx.spread(b, divisor, below))
    diagonal = mx.positions(b, column, 1, "EQ", at)
    ones = b.filled(v.array_shape.element_type, v.array_shape.dims, 1)
    reflected = _applied(
        b, mx.kept(b, mx.positions(b, a, 2, "GT", at), a),
        b.op("select", diagonal, ones, v), mx.conjugate(b, factor),
    )  # fmt: skip
    a = b.op("subtract", a, reflected)
    upper = mx.kept(b, mx.positions(b, column, 1, "LT", at), column)
    column = b.op("select", diagonal, mx.spread(b, wide, column), b.op("add", upper, v))
    return [mx.put(b, a, column, at, 2), mx.put(b, factors, factor, at, 2)]


def _applied(b: Builder, x: Instruction, v: Instruction, factor: Instruction) -> Instruction:
    """Append factor v v^H x."""
    change = mx.product(b, v, mx.product(b, mx.swapped(b, mx.conjugate(b, v)), x))
    return b.op("multiply", mx.spread(b, factor, change), change)


def _product(inst: Instruction) -> Computation:
    """The first columns of the product of the reflections that are below a diagonal."""
    _need(inst, len(inst.operands) == 2, "it takes a matrix and factors")
    a, factors = (o.array_shape for o in inst.operands)
    fits = (
        a.rank >= 2
        and factors.dims[:-1] == a.dims[:-2]
        and factors.rank == a.rank - 1
        and factors.dims[-1] <= a.dims[-1] <= a.dims[-2]
        and factors.element_type is a.element_type
    )
    what = f"{factors.to_string(False)} are not factors of {a.to_string(False)}"
    _need(inst, fits, what)
    shape = inst.array_shape
    _need(inst, array(shape.element_type, shape.dims) == array(a.element_type, a.dims),
          f"it returns {a.to_string(False)}")  # fmt: skip
    d = Draft(inst)
    if not a.num_elements:
        return d.done(d.zeros(shape))
    steps = factors.dims[-1]
    matrix = mx.widened(d, d.parameters[0])
    row = d.reshape(d.parameters[1], (*factors.dims[:-1], 1, steps))

    def step(
        b: Builder, at: Instruction, values: list[Instruction], fixed: list[Instruction]
    ) -> list[Instruction]:
        (q,), (matrix, row) = values, fixed
        at = b.op("subtract", b.constant(at.array_shape.element_type, steps - 1), at)
        column = mx.taken(b, matrix, at, 2)
        ones = b.filled(column.array_shape.element_type, column.array_shape.dims, 1)
        v = mx.kept(b, mx.positions(b, column, 1, "GT", at), column)
        v = b.op("select", mx.positions(b, column, 1, "EQ", at), ones, v)
        return [b.op("subtract", q, _applied(b, q, v, mx.taken(b, row, at, 2)))]

    (q,) = counted_loop(d, steps, [mx.identity(d, matrix)], [matrix, mx.widened(d, row)], step)
    return d.done(d.relaid(d.convert(d.reshape(q, shape.dims), shape.element_type), shape))
