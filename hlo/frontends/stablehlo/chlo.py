"""CHLO's operations: those of HLO, those defined by formulas, and those with implicit broadcasting.

Source: StableHLO's `ChloOps.td`, and XLA's expansions.
"""

from __future__ import annotations

import math

from hlo.errors import InferError
from hlo.frontends.stablehlo.context import Context, Handler
from hlo.frontends.stablehlo.elementwise import compare
from hlo.frontends.stablehlo.formulas import Number
from hlo.frontends.stablehlo.types import element_type
from hlo.ir import Instruction
from hlo.ops import OPS
from hlo.values.types import ELEMENT_TYPES, ArrayShape, array, integer_range


def square(c: Context) -> Instruction:
    """Append a product of a value with itself."""
    x = c.operand(0)
    return c.b.op("multiply", x, x)


def top_k(c: Context) -> Instruction:
    """Append the largest elements of rows and their indices."""
    largest = c.flag("largest") if "largest" in c.op.attrs else True
    return c.make("topk", k=c.integer("k"), largest=largest)


def conj(c: Context) -> Instruction:
    """Append a complex conjugate; real numbers are unchanged."""
    x = c.operand(0)
    if not x.array_shape.element_type.is_complex:
        return x
    return c.b.op("complex", c.b.op("real", x), c.b.op("negate", c.b.op("imag", x)))


def atan(c: Context) -> Instruction:
    """Append an inverse tangent; of a complex number it is -i atanh(i x)."""
    x = c.operand(0)
    if not x.array_shape.element_type.is_complex:
        return c.b.op("atan2", x, Number(c.b, x).number(1.0).inst)
    turned = c.b.op("complex", c.b.op("negate", c.b.op("imag", x)), c.b.op("real", x))
    y = c.b.op("atanh", turned)
    return c.b.op("complex", c.b.op("imag", y), c.b.op("negate", c.b.op("real", y)))


def is_inf(c: Context) -> Instruction:
    """Append whether numbers are infinite, with either sign or a given one."""
    x = Number(c.b, c.operand(0))
    if not x.element_type.is_float:
        raise InferError(f"there are no infinities in {x.element_type}", code="type-mismatch")
    sign = c.op.name.removeprefix("chlo.is_")
    if sign == "inf":
        return abs(x).is_("EQ", math.inf).inst
    return x.is_("EQ", math.inf if sign == "pos_inf" else -math.inf).inst


def next_after(c: Context) -> Instruction:
    """Append the next representable number after the first operand towards the second."""
    x, y = Number(c.b, c.operand(0)), Number(c.b, c.operand(1))
    et = x.element_type
    if not et.is_float or et is not y.element_type:
        raise InferError("operands of one floating-point type are needed", code="type-mismatch")
    whole = ELEMENT_TYPES[f"s{8 * et.byte_width}"]
    shape = x.inst.array_shape

    def bits(value: Number) -> Number:
        inst = c.b.op("bitcast-convert", value.inst, shape=shape.with_type(whole))
        return Number(c.b, inst)

    sign_bit = -(1 << (8 * et.byte_width - 1))
    a, b = bits(x), bits(y)
    sign_a, sign_b = (v.of("and", sign_bit) for v in (a, b))
    size_a, size_b = (v.of("and", -sign_bit - 1) for v in (a, b))
    # From zero, the smallest number of the other's sign.
    from_zero = size_b.is_("EQ", 0).where(b, sign_b.of("or", 1))
    towards = size_a.is_("GT", size_b) | sign_a.is_("NE", sign_b)
    step = towards.where(a.number(-1), a.number(1))
    moved = size_a.is_("EQ", 0).where(from_zero, a + step)
    unordered = x.is_("NE", x) | y.is_("NE", y)
    found = unordered.where(bits(x.number(math.nan)), x.is_("EQ", y).where(b, moved))
    return c.b.op("bitcast-convert", found.inst, shape=shape)


def constant_like(c: Context) -> Instruction:
    """Append a constant in the shape of the operand."""
    shape = c.shape
    value = c.attr("value")
    if not isinstance(shape, ArrayShape) or type(value) not in (int, float):
        raise InferError("value is a number", code="bad-value")
    et = shape.element_type
    if element_type(c.op.attrs.kinds.get("value", "")) is not et:
        raise InferError(f"value is a number of another type than {et}", code="type-mismatch")
    if c.operand(0).array_shape.dims != shape.dims:
        raise InferError(f"the operand is {c.operand(0).shape.to_string(False)}, the result "
                         f"{shape.to_string(False)}", code="shape-mismatch")  # fmt: skip
    low, high = integer_range(et) if et.is_integer else (0, 1)
    if not (et.is_float or et.is_complex or (type(value) is int and low <= value <= high)):
        raise InferError(f"value is a number of {et}, not {value}", code="bad-value")
    return c.b.broadcast(c.b.constant(shape.element_type, value), shape)


def scan(c: Context) -> Instruction:
    """Append a scan along a dimension."""
    counts = c.ints("operandSegmentSizes")
    if len(counts) != 2:
        raise InferError("operands are of two kinds, inputs and starts", code="operand-count")
    size = c.op.attrs.get("scan_dim_size")
    dim = c.integer("dimension")
    dims = c.operand(0).array_shape.dims
    if size is not None and (dim >= len(dims) or dims[dim] != size):
        whole = c.operand(0).shape.to_string(False)
        raise InferError(f"scan_dim_size {size} is not the size of dimension {dim} of {whole}",
                         code="shape-mismatch")  # fmt: skip
    block = c.region(0)
    body = c.converter.region(block, "region", [s for _, s in block.arguments], c.op, c.values)
    return c.make(
        "scan", dimensions=(c.integer("dimension"),), num_carries=counts[1],
        is_reverse=c.flag("is_reverse"), is_associative=c.flag("is_associative"), to_apply=body,
    )  # fmt: skip


# --- implicit broadcasting ----------------------------------------------------------------------


def spread(c: Context, count: int) -> list[Instruction]:
    """Return the operands broadcast to a common shape, by numpy's rules."""
    operands = [c.operand(i) for i in range(count)]
    shapes = [o.array_shape for o in operands]
    if all(s.dims == shapes[0].dims for s in shapes):
        return operands
    if any(s.is_dynamic for s in shapes):
        raise InferError("operands of dynamic size do not broadcast", code="unbounded-dimension")
    rank = max(s.rank for s in shapes)
    padded = [(1,) * (rank - s.rank) + s.dims for s in shapes]
    dims = tuple(max(column, key=lambda n: n != 1) for column in zip(*padded, strict=True))
    explicit = c.op.attrs.get("broadcast_dimensions")
    found = []
    for operand, shape, sizes in zip(operands, shapes, padded, strict=True):
        first = rank - shape.rank
        if (
            explicit is not None
            and first
            and c.ints("broadcast_dimensions") != tuple(range(first, rank))
        ):
            raise InferError("broadcast_dimensions put new dimensions elsewhere than in front",
                             code="bad-dimension")  # fmt: skip
        if any(n not in (1, d) for n, d in zip(sizes, dims, strict=True)):
            raise InferError(f"{shape.to_string(False)} does not broadcast to {list(dims)}",
                             code="shape-mismatch")  # fmt: skip
        kept = [i for i in range(shape.rank) if shape.dims[i] == dims[first + i]]
        small = c.b.reshape(operand, [shape.dims[i] for i in kept])
        found.append(c.b.op("broadcast", small, shape=array(shape.element_type, dims),
                            dimensions=tuple(first + i for i in kept)))  # fmt: skip
    return found


def broadcasting(opcode: str) -> Handler:
    """Return a function that appends an operation with implicit broadcasting."""

    def append(c: Context) -> Instruction:
        arity = OPS[opcode].arity
        assert isinstance(arity, int)
        return c.b.op(opcode, *spread(c, arity))

    return append


def broadcasting_formula(formula: Handler) -> Handler:
    """Return a function that appends a formula with implicit broadcasting."""
    return lambda c: formula(c.on(spread(c, 2)))


def broadcast_select(c: Context) -> Instruction:
    """Append a select; the predicate may be a scalar."""
    on, yes, no = (c.operand(i) for i in range(3))
    if not on.array_shape.rank:
        yes, no = spread(c.on([yes, no]), 2)
        return c.b.op("select", c.b.broadcast(on, yes.array_shape), yes, no)
    return c.b.op("select", *spread(c, 3))


def broadcast_compare(c: Context) -> Instruction:
    """Append a comparison."""
    return compare(c.on(spread(c, 2)))
