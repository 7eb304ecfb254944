"""Random numbers."""

from __future__ import annotations

from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder import comparison, elementwise
from hlo.frontends.builder.coercion import (
    ShapeLike,
    array_shape_of,
)
from hlo.frontends.builder.core import (
    BuilderCore,
    XlaOp,
    emit,
    operation,
    value_of,
)
from hlo.values.types import (
    F32,
    U32,
    TupleShape,
    array,
)


@operation
def rng_normal(builder: BuilderCore[XlaOp], mu: XlaOp, sigma: XlaOp, shape: ShapeLike) -> XlaOp:
    """Append normally distributed numbers of a mean and a standard deviation.

    mu, sigma: scalars of the result's type, or numbers.
    shape: of floats.

    Raises HloError for arrays and other types. Source: "RngNormal" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.rng_normal(b.constant(0.0), b.constant(1.0), "f32[1000]").shape)
    f32[1000]{0}
    """
    return _rng(builder, "rng_normal", mu, sigma, shape)


@operation
def rng_uniform(builder: BuilderCore[XlaOp], a: XlaOp, b: XlaOp, shape: ShapeLike) -> XlaOp:
    """Append uniformly distributed numbers from `a` on, below `b`.

    a, b: scalars of the result's type, or numbers.
    shape: of floats, integers or pred.

    Raises HloError for arrays and other types. Source: "RngUniform" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> drawn = b.rng_uniform(b.constant(2.0), b.constant(3.0), "f32[1000]")
    >>> values = b.compute_constant(drawn).array
    >>> bool((values >= 2).all() and (values < 3).all())
    True
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

    >>> b = hlo.XlaBuilder("m")
    >>> values = b.compute_constant(b.rng_bernoulli(b.constant(0.5), "u32[1000]")).array
    >>> sorted(set(values.tolist()))
    [0, 1]
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

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.rng_bit_generator("rng_three_fry", b.parameter(0, "u64[2]"), "u32[8]").shape)
    (u64[2]{0}, u32[8]{0})
    """
    result = TupleShape((initial_state.shape, array_shape_of(shape, "rng-bit-generator")))
    return emit(
        builder, "rng-bit-generator", initial_state, shape=result, algorithm=algorithm.lower()
    )
