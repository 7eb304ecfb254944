"""Comparisons of two arrays, element by element, which broadcast together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.frontends.builder.broadcasting import broadcast_together
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation


@operation
def compare(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = (), *,
    direction: str, total_order: bool = False,
) -> XlaOp:  # fmt: skip
    """Compare two arrays, which broadcast together. direction: EQ, NE, GE, GT, LE or LT.

    lhs, rhs, broadcast_dimensions: as for `add`.
    total_order: floats as ordered by their bits, where NaN is above all, rather than as IEEE
    754 has it.
    The result is a pred array.

    Raises HloError for others, and for complex numbers by order. Source: "Element-wise
    comparison operations" (004, 000, 002), "Compare" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.compare(b.constant([1, 2]), 2, direction="LT")).array
    array([ True, False])
    """
    lhs, rhs = broadcast_together(builder, "compare", lhs, rhs, broadcast_dimensions)
    ordered = lhs.element_type.is_float or lhs.element_type.is_complex
    # The order of integers is total already.
    kind = "TOTALORDER" if total_order and ordered else None
    return emit(builder, "compare", lhs, rhs, direction=direction, type=kind)


@operation
def eq(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are equal: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats as IEEE 754 has it, where NaN
    is not equal to anything. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.eq(b.constant([1, 2, 3]), 2)).array
    array([False,  True, False])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="EQ")


@operation
def ne(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are not equal: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats as IEEE 754 has it, where NaN
    is not equal to anything. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.ne(b.constant([1, 2, 3]), 2)).array
    array([ True, False,  True])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="NE")


@operation
def ge(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are greater or equal on the left side: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats as IEEE 754 has it, where NaN
    is not equal to anything. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.ge(b.constant([1, 2, 3]), 2)).array
    array([False,  True,  True])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="GE")


@operation
def gt(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are greater on the left side: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats as IEEE 754 has it, where NaN
    is not equal to anything. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.gt(b.constant([1, 2, 3]), 2)).array
    array([False, False,  True])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="GT")


@operation
def le(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are less or equal on the left side: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats as IEEE 754 has it, where NaN
    is not equal to anything. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.le(b.constant([1, 2, 3]), 2)).array
    array([ True,  True, False])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="LE")


@operation
def lt(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are less on the left side: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats as IEEE 754 has it, where NaN
    is not equal to anything. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.lt(b.constant([1, 2, 3]), 2)).array
    array([ True, False, False])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="LT")


@operation
def eq_total_order(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are equal: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats by total order, where NaN is
    above all and -0 below 0. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.eq_total_order(b.constant([-0.0, 1.0, np.nan]), 0.0)).array
    array([False, False, False])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="EQ", total_order=True)


@operation
def ne_total_order(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are not equal: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats by total order, where NaN is
    above all and -0 below 0. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.ne_total_order(b.constant([-0.0, 1.0, np.nan]), 0.0)).array
    array([ True,  True,  True])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="NE", total_order=True)


@operation
def ge_total_order(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are greater or equal on the left side: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats by total order, where NaN is
    above all and -0 below 0. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.ge_total_order(b.constant([-0.0, 1.0, np.nan]), 0.0)).array
    array([False,  True,  True])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="GE", total_order=True)


@operation
def gt_total_order(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are greater on the left side: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats by total order, where NaN is
    above all and -0 below 0. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.gt_total_order(b.constant([-0.0, 1.0, np.nan]), 0.0)).array
    array([False,  True,  True])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="GT", total_order=True)


@operation
def le_total_order(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are less or equal on the left side: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats by total order, where NaN is
    above all and -0 below 0. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.le_total_order(b.constant([-0.0, 1.0, np.nan]), 0.0)).array
    array([ True, False, False])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="LE", total_order=True)


@operation
def lt_total_order(
    builder: BuilderCore[XlaOp], lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] = ()
) -> XlaOp:
    """Append whether elements are less on the left side: a pred array.

    lhs, rhs, broadcast_dimensions and errors as for `compare`; floats by total order, where NaN is
    above all and -0 below 0. Source: "Element-wise comparison operations" (004, 000, 002), under
    its own name (003), and "Broadcasting semantics" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> b.compute_constant(b.lt_total_order(b.constant([-0.0, 1.0, np.nan]), 0.0)).array
    array([ True, False, False])
    """
    return compare(builder, lhs, rhs, broadcast_dimensions, direction="LT", total_order=True)
