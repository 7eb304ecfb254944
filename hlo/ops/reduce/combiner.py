"""Reduction functions: their signature, and the ones that numpy knows.

Shared by the operations that apply a binary function repeatedly: reduce, reduce-window,
select-and-scatter, and those that scatter or reduce over devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import ComputationView
from hlo.ops.elementwise.casts import widen
from hlo.ops.spec import EvalContext, OpView
from hlo.values.types import ArrayShape, ElementType, Shape, TupleShape, compatible

# --- signature ----------------------------------------------------------------------------------


def same_but_precision(a: ElementType, b: ElementType) -> bool:
    """True for equal types and for two floating-point types."""
    return a is b or (a.is_float and b.is_float)


def need_scalar(op: OpView, index: int) -> ArrayShape:
    """Return the shape of an operand that has to be an array of rank 0."""
    shape = op.operand_shape(index)
    if not isinstance(shape, ArrayShape) or shape.dims:
        raise InferError(
            f"{op.opcode}: operand {index} has shape {shape.to_string(False)}, a scalar is needed",
            operand=index,
        )
    return shape


def need_reducer(
    op: OpView, attr: str, inits: Sequence[ArrayShape], elements: Sequence[ElementType]
) -> tuple[ArrayShape, ...]:
    """Return the accumulator shapes of the reduction function that `attr` names.

    With n values to reduce it takes n accumulators and n elements, all scalars, and returns the n
    accumulators. Initial values and elements may differ from them in floating-point precision.
    Raises InferError, code `bad-computation`. Source: XLA's shape inference of reductions.
    """
    computation: ComputationView = op.attrs[attr]
    n, result = len(elements), computation.result_shape

    def fail(what: str) -> InferError:
        message = f"{op.opcode}: {attr} {computation.name} {what}"
        return InferError(message, attr=attr, code="bad-computation")

    parameters = computation.parameter_shapes
    if len(parameters) != 2 * n:
        raise fail(f"takes {len(parameters)} parameters, {2 * n} are passed")
    results = result.elements if isinstance(result, TupleShape) else (result,)
    if len(results) != n:
        raise fail(f"returns {result.to_string(False)}, {n} values are reduced")
    accumulators: list[ArrayShape] = []
    for i, shape in enumerate(results):
        if not isinstance(shape, ArrayShape) or shape.dims:
            raise fail(f"returns {result.to_string(False)}, scalars are needed")
        if not compatible(shape, parameters[i]):
            raise fail(
                f"returns {shape.to_string(False)} as value {i}, but takes "
                f"{parameters[i].to_string(False)} as parameter {i}"
            )
        element = parameters[n + i]
        if not _takes(element, elements[i]) or not _takes(element, shape.element_type):
            raise fail(
                f"has parameter {n + i} of shape {element.to_string(False)}, "
                f"{elements[i]}[] is passed and {shape.to_string(False)} is returned"
            )
        if not same_but_precision(shape.element_type, inits[i].element_type):
            raise fail(
                f"returns {shape.to_string(False)} as value {i}, "
                f"the initial value has shape {inits[i].to_string(False)}"
            )
        accumulators.append(shape)
    return tuple(accumulators)


def _takes(parameter: Shape, et: ElementType) -> bool:
    return (
        isinstance(parameter, ArrayShape)
        and not parameter.dims
        and same_but_precision(parameter.element_type, et)
    )


# --- the functions that numpy knows ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Extremum:
    """np.minimum or np.maximum of floats, but that -0 is less than 0: numpy takes either zero.

    negative: the sign that one zero needs to have for the result to have it.
    """

    ufunc: np.ufunc
    negative: bool

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = np.asarray(self.ufunc(a, b))
        return self._signed(result, lambda: self._wins(a) | self._wins(b))

    def reduce(
        self, values: np.ndarray, axis: tuple[int, ...], dtype: np.dtype, initial: Any
    ) -> np.ndarray:
        total = np.asarray(self.ufunc.reduce(values, axis=axis, dtype=dtype, initial=initial))
        first = bool(self._wins(initial))
        return self._signed(
            total, lambda: np.logical_or.reduce(self._wins(values), axis=axis, initial=first)
        )

    def at(self, total: np.ndarray, targets: np.ndarray, updates: np.ndarray) -> None:
        wins = self._wins(total)
        np.logical_or.at(wins, targets, self._wins(updates))
        self.ufunc.at(total, targets, updates)
        total[...] = self._signed(total, lambda: wins)

    def _wins(self, x: Any) -> np.ndarray:
        return np.asarray((x == 0) & (np.signbit(x) == self.negative))

    def _signed(self, total: np.ndarray, wins: Callable[[], np.ndarray]) -> np.ndarray:
        zero = total == 0
        if not zero.any():
            return total
        sign = np.where(wins() == self.negative, -1, 1).astype(total.dtype)
        return np.where(zero, np.copysign(total, sign), total)


@dataclass(frozen=True, slots=True)
class FastOp:
    """A reduction function as a numpy ufunc, or what works like one.

    Values are cast to `work`, combined in any order and by any tree, and rounded once at the end:
    `work` is wide enough for this to give what one-by-one application gives, but for float sums,
    whose order the specification leaves open. identity: a value that changes nothing.
    """

    ufunc: np.ufunc | _Extremum
    work: np.dtype
    identity: Any


def fast_op(ctx: EvalContext, computation: ComputationView) -> FastOp | None:
    """Return the ufunc of a body that is one of add, multiply, minimum, maximum, and, or, xor.

    Float sums add in f64 (c128), whatever their type. Float products are not here: they overflow
    and round at every step.
    """
    opcode = ctx.known_op(computation)
    shape = computation.result_shape
    if opcode is None or not isinstance(shape, ArrayShape):
        return None
    make = _FAST.get(opcode)
    return make(shape.element_type) if make else None


def _integer_work(et: ElementType) -> np.dtype:
    # Sums and products wrap alike in every wider integer; ml_dtypes has no fast loops of its own.
    return et.dtype if et.bits >= 8 else np.dtype(np.int32 if et.is_signed else np.uint32)


def _fast_add(et: ElementType) -> FastOp | None:
    if et.is_pred:
        return FastOp(np.logical_or, et.dtype, False)
    if et.is_integer:
        return FastOp(np.add, _integer_work(et), 0)
    # Adding +0 would turn -0 into +0; -0 is the neutral element.
    return FastOp(np.add, np.dtype(np.complex128 if et.is_complex else np.float64), -0.0)


def _fast_multiply(et: ElementType) -> FastOp | None:
    if et.is_pred:
        return FastOp(np.logical_and, et.dtype, True)
    return FastOp(np.multiply, _integer_work(et), 1) if et.is_integer else None


def _fast_extremum(ufunc: np.ufunc, on_pred: np.ufunc, sign: int) -> Callable[..., FastOp | None]:
    def make(et: ElementType) -> FastOp | None:
        if et.is_pred:
            return FastOp(on_pred, et.dtype, sign > 0)
        if et.is_float:
            # numpy propagates NaN for its own types; f32 represents all narrower ones.
            work = et.dtype if et.name in ("f32", "f64") else np.dtype(np.float32)
            return FastOp(_Extremum(ufunc, sign > 0), work, sign * np.inf)
        if not et.is_integer:
            return None
        work = _integer_work(et)
        info = np.iinfo(work)
        return FastOp(ufunc, work, info.max if sign > 0 else info.min)

    return make


def _fast_bitwise(ufunc: np.ufunc, on_pred: np.ufunc, ones: bool) -> Callable[..., FastOp | None]:
    def make(et: ElementType) -> FastOp | None:
        if et.is_pred:
            return FastOp(on_pred, et.dtype, ones)
        if not et.is_integer:
            return None
        work = _integer_work(et)
        return FastOp(ufunc, work, np.array(-1 if ones else 0).astype(work)[()])

    return make


_FAST: dict[str, Callable[[ElementType], FastOp | None]] = {
    "add": _fast_add,
    "multiply": _fast_multiply,
    "maximum": _fast_extremum(np.maximum, np.logical_or, -1),
    "minimum": _fast_extremum(np.minimum, np.logical_and, 1),
    "and": _fast_bitwise(np.bitwise_and, np.logical_and, True),
    "or": _fast_bitwise(np.bitwise_or, np.logical_or, False),
    "xor": _fast_bitwise(np.bitwise_xor, np.logical_xor, False),
}


def to_work(x: np.ndarray, op: FastOp) -> np.ndarray:
    """Return `x` in the type in which a fast reduction runs."""
    return np.asarray(widen(np.asarray(x)).astype(op.work, copy=False))
