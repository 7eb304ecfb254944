"""Values without operands: parameters, constants, random numbers; and sizes that are values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.eval import Host, interpret
from hlo.frontends.builder import comparison, elementwise
from hlo.frontends.builder.broadcasting import spread
from hlo.frontends.builder.calls import query
from hlo.frontends.builder.coercion import (
    ShapeLike,
    TypeLike,
    array_shape_of,
    shape_of,
    sizes_of,
    type_of,
)
from hlo.frontends.builder.core import (
    BuilderCore,
    XlaOp,
    constant_of,
    emit,
    operation,
    parameters_of,
    value_of,
)
from hlo.io.arguments import as_constant, dims_of
from hlo.ir import Instruction, Module
from hlo.ir.extract import extract
from hlo.ir.names import legal_name
from hlo.ops.spec import Trait
from hlo.support.interop import array_of
from hlo.support.signature import shown
from hlo.values.arrays import DynamicArray
from hlo.values.layout import validate_layout
from hlo.values.literal import Literal
from hlo.values.types import (
    ELEMENT_TYPES,
    F32,
    PRED,
    S32,
    U32,
    ElementType,
    Layout,
    TupleShape,
    array,
)

# What Python's numbers are by default: the types that the first document gives C++'s.
_DEFAULTS = {"b": PRED, "i": S32, "f": F32, "c": ELEMENT_TYPES["c64"]}


@query
def literal_of(value: Any, element_type: ElementType | None = None) -> Literal:
    """Return a value as a literal: a literal, an array, numbers in lists, or a tuple of such.

    Python's numbers become pred, s32, f32 or c64 unless a type is given; arrays keep theirs.
    Raises HloError for numbers that a type does not hold.
    """
    if isinstance(value, Literal):
        return value
    if isinstance(value, tuple) and element_type is None:
        parts = [literal_of(v) for v in value]
        return Literal(TupleShape(tuple(p.shape for p in parts)), parts)
    given = array_of(value, "the constant")
    if element_type is None and given is not None:
        type_of(given.dtype)  # raises for what is no number
        return Literal.of(given)
    value = value if given is None else given
    dims_of(value, "the constant")
    et = element_type or _DEFAULTS.get(np.asarray(value).dtype.kind)
    if et is None:
        raise InferError(f"constant: {shown(value)} is not a number", code="bad-value")
    return Literal.of(as_constant(value, et, "the constant"))


@operation
def parameter(
    builder: BuilderCore[XlaOp], parameter_number: int, shape: ShapeLike, name: str = "",
    replicated_at_leaf_buffers: Sequence[bool] = (),
) -> XlaOp:  # fmt: skip
    """Append a parameter.

    parameter_number: counts from 0; parameters come in any order, each number once.
    shape: also as text, `f32[2,3]{0,1}`.
    replicated_at_leaf_buffers: for each array of it, whether all replicas get the same.

    Raises HloError for a number that is taken. Source: "C++ interface" (004), "Parameter"
    (003).

    >>> hlo.XlaBuilder("m").parameter(0, "f32[2,3]{0,1}", "weights").instruction
    <Instruction weights = f32[2,3]{0,1} parameter()>
    """
    numbered = parameters_of(builder)
    at = bisect_left(numbered, parameter_number, key=lambda p: p.parameter_number)
    taken = at < len(numbered) and numbered[at].parameter_number == parameter_number
    if taken or parameter_number < 0:
        why = "is there already" if taken else "is negative"
        raise InferError(f"parameter: number {parameter_number} {why}", code="bad-parameter-number")
    name = legal_name(name) if name else ""
    op = emit(builder, "parameter", name=name, shape=shape_of(shape), number=parameter_number)
    if replicated_at_leaf_buffers:
        flags = tuple(replicated_at_leaf_buffers)
        op.instruction.annotations["parameter_replication"] = flags
    return op


# --- constants ------------------------------------------------------------------------------


@operation
def constant(
    builder: BuilderCore[XlaOp], value: Any, element_type: TypeLike | None = None
) -> XlaOp:
    """Append a constant.

    value: a literal, a numpy array, a number, nested lists of numbers, or a tuple of such.
    element_type: of Python's numbers, which become pred, s32, f32 or c64 unless it is given.

    Raises HloError for numbers that the type does not hold. Source: "Constant" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> [str(b.constant(v).shape) for v in (True, 2.5, [[1, 2]])]
    ['pred[]', 'f32[]', 's32[1,2]{1,0}']
    >>> print(b.constant(1, "bf16").shape)
    bf16[]
    """
    et = None if element_type is None else type_of(element_type)
    return constant_of(builder, literal_of(value, et))


@operation
def constant_literal(builder: BuilderCore[XlaOp], literal: Literal) -> XlaOp:
    """Append a constant of a literal.

    Source: "C++ interface" (004), "ConstantLiteral" (003).
    """
    return constant_of(builder, literal)


@operation
def constant_r0(
    builder: BuilderCore[XlaOp], value: Any, element_type: TypeLike | None = None
) -> XlaOp:
    """Append a scalar constant.

    value: Python's bool, int, float and complex are pred, s32, f32 and c64 unless an
    element_type is given; numpy's numbers keep theirs.

    Raises HloError for numbers that the type does not hold. Source: "C++ interface" (004).
    """
    return _of_rank(builder, 0, value, element_type)


@operation
def constant_r1(
    builder: BuilderCore[XlaOp],
    values: Any,
    value: Any = None,
    element_type: TypeLike | None = None,
) -> XlaOp:
    """Append a vector: `constant_r1([1, 2])`, or a length and the value of every element.

    Types and errors as for `constant_r0`.

    Source: "C++ interface" (004).
    """
    if value is not None:
        element = constant_r0(builder, value, element_type)
        return spread(builder, "constant_r1", element, sizes_of("constant_r1", [values]), ())
    return _of_rank(builder, 1, values, element_type)


@operation
def constant_r2(
    builder: BuilderCore[XlaOp], values: Any, element_type: TypeLike | None = None
) -> XlaOp:
    """Append a matrix.

    Types and errors as for `constant_r0`.

    Source: "C++ interface" (004).
    """
    return _of_rank(builder, 2, values, element_type)


@operation
def constant_r2_from_array2d(builder: BuilderCore[XlaOp], values: Any) -> XlaOp:
    """Append a matrix from a numpy array.

    values: of that rank, else it is an error.

    Source: "C++ interface" (004).
    """
    return _of_rank(builder, 2, values)


@operation
def constant_r3_from_array3d(builder: BuilderCore[XlaOp], values: Any) -> XlaOp:
    """Append an array of rank 3 from a numpy array.

    values: of that rank, else it is an error.

    Source: "C++ interface" (004).
    """
    return _of_rank(builder, 3, values)


@operation
def constant_r4_from_array4d(builder: BuilderCore[XlaOp], values: Any) -> XlaOp:
    """Append an array of rank 4 from a numpy array.

    values: of that rank, else it is an error.

    Source: "C++ interface" (004).
    """
    return _of_rank(builder, 4, values)


def _of_rank(
    builder: BuilderCore[XlaOp], rank: int, value: Any, element_type: TypeLike | None = None
) -> XlaOp:
    op = constant(builder, value, element_type)
    if op.rank != rank:
        raise InferError(
            f"constant: the value has shape {op.array_shape.to_string(False)}, "
            f"rank {rank} is needed"
        )
    return op


@operation
def iota(builder: BuilderCore[XlaOp], shape: ShapeLike, iota_dimension: int) -> XlaOp:
    """Append an array that counts from 0 along a dimension.

    shape: of numbers of any type but pred; floats are the integers, rounded.
    iota_dimension: the dimension that counts; all others repeat it.

    Raises HloError for a dimension that is not there. Source: "Iota" (002, 003).
    """
    return emit(builder, "iota", shape=array_shape_of(shape, "iota"), iota_dimension=iota_dimension)


# --- random numbers -------------------------------------------------------------------------


@operation
def rng_normal(builder: BuilderCore[XlaOp], mu: XlaOp, sigma: XlaOp, shape: ShapeLike) -> XlaOp:
    """Append normally distributed numbers of a mean and a standard deviation.

    mu, sigma: scalars of the result's type, or numbers.
    shape: of floats.

    Raises HloError for arrays and other types. Source: "RngNormal" (004, 000, 002, 003).
    """
    return _rng(builder, "rng_normal", mu, sigma, shape)


@operation
def rng_uniform(builder: BuilderCore[XlaOp], a: XlaOp, b: XlaOp, shape: ShapeLike) -> XlaOp:
    """Append uniformly distributed numbers from `a` on, below `b`.

    a, b: scalars of the result's type, or numbers.
    shape: of floats, integers or pred.

    Raises HloError for arrays and other types. Source: "RngUniform" (004, 000, 002, 003).
    """
    return _rng(builder, "rng_uniform", a, b, shape)


def _rng(builder: BuilderCore[XlaOp], distribution: str, a: Any, b: Any, shape: ShapeLike) -> XlaOp:
    result = array_shape_of(shape, "rng")
    a, b = value_of(builder, a, result.element_type), value_of(builder, b, result.element_type)
    return emit(builder, "rng", a, b, shape=result, distribution=distribution)


@operation
def rng_bernoulli(builder: BuilderCore[XlaOp], mean: XlaOp, shape: ShapeLike) -> XlaOp:
    """Append u32 numbers, each 1 with probability `mean`, an f32 scalar or a number, else 0.

    shape: of u32.

    Raises HloError for an array, and other types. Source: "RngBernoulli" (004).
    """
    result = array_shape_of(shape, "rng_bernoulli")
    mean = value_of(builder, mean, F32)
    if mean.rank:
        raise InferError(
            f"rng_bernoulli: mean has shape {mean.shape.to_string(False)}, a scalar is needed"
        )
    for what, et, need in (
        ("mean", mean.element_type, F32),
        ("the result", result.element_type, U32),
    ):
        if et is not need:
            raise InferError(
                f"rng_bernoulli: {what} has element type {et}, {need} is needed",
                code="type-mismatch",
            )
    drawn = rng_uniform(
        builder, value_of(builder, 0.0, F32), value_of(builder, 1.0, F32), array(F32, result.dims)
    )
    return elementwise.convert_element_type(builder, comparison.lt(builder, drawn, mean), U32)


@operation
def rng_bit_generator(
    builder: BuilderCore[XlaOp], algorithm: str, initial_state: XlaOp, shape: ShapeLike
) -> XlaOp:
    """Append random bits and the state after them: a tuple of both.

    algorithm: rng_three_fry, which has a state of u64[2], rng_philox, of u64[3] or u64[2], or
    rng_default, which is rng_philox.
    initial_state: the bits depend on it alone, and the new one has its shape.
    shape: of the bits.

    Raises HloError for another state. Source: "RngBitGenerator" (002, 003).
    """
    result = TupleShape((initial_state.shape, array_shape_of(shape, "rng-bit-generator")))
    return emit(
        builder, "rng-bit-generator", initial_state, shape=result, algorithm=algorithm.lower()
    )


# --- dynamic sizes --------------------------------------------------------------------------


@operation
def get_dimension_size(builder: BuilderCore[XlaOp], operand: XlaOp, dimension: int) -> XlaOp:
    """Append the size of a dimension, an s32 scalar; of a dynamic one that which it has.

    Raises HloError for a dimension that is not there. Source: "GetDimensionSize" (002, 003).
    """
    return emit(builder, "get-dimension-size", operand, dimensions=(dimension,))


@operation
def set_dimension_size(
    builder: BuilderCore[XlaOp], operand: XlaOp, val: Any, dimension: int
) -> XlaOp:
    """Append an array of which only the first `val` elements along a dimension are meant.

    val: an s32 scalar, or a number. The result has the operand's shape, where that dimension
    varies up to its size: `f32[<=10]`. Reductions leave out what lies beyond.

    Raises HloError for a dimension that is not there. Source: "SetDimensionSize" (002, 003).
    """
    return emit(
        builder, "set-dimension-size", operand, value_of(builder, val, S32), dimensions=(dimension,)
    )


@operation
def dynamic_reshape(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, dim_sizes: Sequence[Any], new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> XlaOp:  # fmt: skip
    """Append an array in dimensions whose sizes are values.

    dim_sizes: an s32 scalar, or a number, for each dimension of the result.
    new_size_bounds: what it is at most.
    dims_are_dynamic: whether it varies; else it is the bound.

    Raises HloError for bounds of another product than the operand's sizes. Source:
    "DynamicReshape" (003).
    """
    bounds = sizes_of("dynamic-reshape", new_size_bounds)
    result = array(operand.element_type, bounds, dims_are_dynamic)
    sizes = [value_of(builder, n, S32) for n in dim_sizes]
    return emit(builder, "dynamic-reshape", operand, *sizes, shape=result)


# --- constants of the program ---------------------------------------------------------------


@query
def is_constant(builder: BuilderCore[XlaOp], operand: XlaOp) -> bool:
    """Return whether `compute_constant` can tell a value."""
    return _variable(extract(operand.instruction)) is None


@query
def compute_constant(
    builder: BuilderCore[XlaOp], operand: XlaOp, output_layout: Layout | None = None
) -> Literal:
    """Return the value of an operation that depends on no parameter, as a literal.

    Random numbers count as constant. output_layout: the layout for an array's literal. Raises
    HloError, code `not-constant`, naming what the value depends on: a parameter, the host,
    another device.
    """
    laid_out = None
    if output_layout is not None:
        laid_out = operand.array_shape.with_layout(output_layout)
        validate_layout(laid_out)
    module = extract(operand.instruction)
    variable = _variable(module)
    if variable is not None:
        raise InferError(
            f"compute_constant: {operand.instruction.name} depends on {variable.opcode} "
            f"{variable.name}", code="not-constant",
        )  # fmt: skip
    found = literal_of_result(interpret(module, [], Host()))
    return found if laid_out is None else found.with_shape(laid_out)


def _variable(module: Module) -> Instruction | None:
    """Return an instruction whose value only a run can tell, if there is one."""
    if module.entry.parameters:
        return module.entry.parameters[0]
    return next(
        (i for i in module.instructions() if Trait.NO_FOLD in i.spec.traits and i.opcode != "rng"),
        None,
    )


def literal_of_result(value: Any) -> Literal:
    """Return what a run gave as a literal."""
    if isinstance(value, tuple):
        parts = [literal_of_result(v) for v in value]
        return Literal(TupleShape(tuple(p.shape for p in parts)), parts)
    return Literal.of(value.actual if isinstance(value, DynamicArray) else value)
