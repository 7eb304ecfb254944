"""Values without operands: parameters, constants, random numbers; and sizes that are values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.eval import Host, interpret
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
    ElementType,
    Layout,
    TupleShape,
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

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.constant_literal(hlo.Literal.of([1.0, 2.0])).shape)
    f64[2]{0}
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

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.constant_r0(3).shape, b.constant_r0(3, "bf16").shape)
    s32[] bf16[]
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.constant_r1(3, 7)).array
    array([7, 7, 7], dtype=int32)
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

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.constant_r2([[1, 2], [3, 4]]).shape)
    s32[2,2]{1,0}
    """
    return _of_rank(builder, 2, values, element_type)


@operation
def constant_r2_from_array2d(builder: BuilderCore[XlaOp], values: Any) -> XlaOp:
    """Append a matrix from a numpy array.

    values: of that rank, else it is an error.

    Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.constant_r2_from_array2d(np.eye(2)).shape)
    f64[2,2]{1,0}
    """
    return _of_rank(builder, 2, values)


@operation
def constant_r3_from_array3d(builder: BuilderCore[XlaOp], values: Any) -> XlaOp:
    """Append an array of rank 3 from a numpy array.

    values: of that rank, else it is an error.

    Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.constant_r3_from_array3d(np.zeros((1, 2, 3))).shape)
    f64[1,2,3]{2,1,0}
    """
    return _of_rank(builder, 3, values)


@operation
def constant_r4_from_array4d(builder: BuilderCore[XlaOp], values: Any) -> XlaOp:
    """Append an array of rank 4 from a numpy array.

    values: of that rank, else it is an error.

    Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.constant_r4_from_array4d(np.zeros((1, 2, 3, 4))).shape)
    f64[1,2,3,4]{3,2,1,0}
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

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.iota("s32[2,3]", 1)).array
    array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    return emit(builder, "iota", shape=array_shape_of(shape, "iota"), iota_dimension=iota_dimension)


# --- constants of the program ---------------------------------------------------------------


@query
def is_constant(builder: BuilderCore[XlaOp], operand: XlaOp) -> bool:
    """Return whether `compute_constant` can tell a value.

    >>> b = hlo.XlaBuilder("m")
    >>> b.is_constant(b.constant(1) + 1), b.is_constant(b.parameter(0, "s32[]"))
    (True, False)
    """
    return _variable(extract(operand.instruction)) is None


@query
def compute_constant(
    builder: BuilderCore[XlaOp], operand: XlaOp, output_layout: Layout | None = None
) -> Literal:
    """Return the value of an operation that depends on no parameter, as a literal.

    Random numbers count as constant. output_layout: the layout for an array's literal. Raises
    HloError, code `not-constant`, naming what the value depends on: a parameter, the host,
    another device.

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.constant([1, 2]) * 3).array
    array([3, 6], dtype=int32)
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
