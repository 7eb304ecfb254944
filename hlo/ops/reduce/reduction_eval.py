"""Reduce and scan on numpy arrays, for `hlo.ops.reduce.reduction`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.ops.attrs import ComputationView
from hlo.ops.elementwise.casts import convert, narrow
from hlo.ops.reduce.combiner import FastOp, fast_op, to_work
from hlo.ops.spec import EvalContext
from hlo.values.types import ArrayShape, ElementType

# Up to this many elements are reduced one by one, in row-major order. Longer reductions go by a
# tree of neighbours, in the same order: the specification lets backends reassociate, and ten
# million elements become a matter of seconds.
SEQUENTIAL_MAX = 4096
# A function that only picks one of its arguments loses nothing by a tree, so that it starts early.
SEQUENTIAL_PICK_MAX = 64

Parts = tuple[np.ndarray, ...]


def parameter_types(computation: ComputationView) -> list[ElementType]:
    """Return the types of the scalars that a function takes."""
    shapes = computation.parameter_shapes
    return [s.element_type for s in shapes if isinstance(s, ArrayShape)]


def cast(x: Any, et: ElementType) -> np.ndarray:
    """Return an array as `et`, which differs at most in floating-point precision."""
    x = np.asarray(x)
    return x if x.dtype == et.dtype else convert(x, et)


def as_parts(value: Any) -> Parts:
    """Return the result of a function of scalars as a tuple, also when it is one value."""
    return tuple(value) if isinstance(value, tuple) else (value,)


def reduces_by_tree(computation: ComputationView, length: int, ctx: EvalContext) -> bool:
    """True where a function may take elements in place of accumulators, and should."""
    if length <= SEQUENTIAL_PICK_MAX:
        return False
    types = parameter_types(computation)
    n = len(types) // 2
    # Where elements are narrower than accumulators, a partial result does not fit in an element.
    if types[:n] != types[n:]:
        return False
    return length > SEQUENTIAL_MAX or ctx.picks(computation)


def reduce(
    arrays: Sequence[np.ndarray],
    inits: Sequence[np.ndarray],
    axes: Sequence[int],
    computation: ComputationView,
    ctx: EvalContext,
) -> Parts:
    """Return n arrays without the dimensions `axes`, reduced from `inits`, used once an output.

    Float sums add up in f64 (c128 for complex) in numpy's order and round once. Every other
    function works in its own types in row-major order: one by one, or as a tree when long.
    """
    types = parameter_types(computation)
    n = len(arrays)
    fast = fast_op(ctx, computation) if n == 1 else None
    if fast is not None:
        x, init = cast(arrays[0], types[1]), cast(inits[0], types[0])
        return (_reduce_fast(x, init, tuple(axes), fast, types[0]),)
    kept = [d for d in range(arrays[0].ndim) if d not in axes]
    out = tuple(arrays[0].shape[d] for d in kept)
    length = math.prod(arrays[0].shape[d] for d in axes)
    # One row for each reduced position: every step below works on whole rows.
    rows: Parts = tuple(
        cast(a, t).transpose([*axes, *kept]).reshape(length, *out)
        for a, t in zip(arrays, types[n:], strict=True)
    )
    done: Parts = tuple(np.full(out, cast(i, t)) for i, t in zip(inits, types[:n], strict=True))
    if reduces_by_tree(computation, length, ctx):
        rows = _tree(rows, computation, ctx)
        length = 1
    for r in range(length):
        done = as_parts(ctx.apply(computation, [*done, *(row[r] for row in rows)]))
    return tuple(np.asarray(d, order="C") for d in done)


def _reduce_fast(
    x: np.ndarray, init: np.ndarray, axes: tuple[int, ...], fast: FastOp, et: ElementType
) -> np.ndarray:
    # numpy casts f32 to f64 piece by piece; the types that it does not know are cast before. Its
    # order of adding goes by strides, which must not matter.
    values = np.asarray(x if x.dtype == np.float32 else to_work(x, fast), order="C")
    with np.errstate(all="ignore"):
        total = fast.ufunc.reduce(
            values, axis=axes, dtype=fast.work, initial=to_work(init, fast)[()]
        )
    return narrow(total, et)


def _tree(rows: Parts, computation: ComputationView, ctx: EvalContext) -> Parts:
    """Combine neighbouring rows until one is left. An odd row out waits for the next round."""
    while (length := rows[0].shape[0]) > 1:
        even = length - length % 2
        left, right = [r[0:even:2] for r in rows], [r[1:even:2] for r in rows]
        pairs = as_parts(ctx.apply(computation, [*left, *right]))
        if even < length:
            pairs = tuple(np.concatenate([p, r[even:]]) for p, r in zip(pairs, rows, strict=True))
        rows = pairs
    return rows


def scan(
    inputs: Sequence[np.ndarray],
    carries: Sequence[np.ndarray],
    outputs: Sequence[ArrayShape],
    dim: int,
    step: Callable[[Sequence[Any]], Parts],
    *,
    reverse: bool,
) -> Parts:
    """Return the stacked outputs and the last carries of a step repeated along `dim`, in order.

    Without inputs the outputs' shapes tell the number of steps.
    """
    steps = inputs[0].shape[dim] if inputs else outputs[0].dims[dim]
    sizes = [(*s.dims[:dim], steps, *s.dims[dim + 1 :]) for s in outputs]
    stacked = [np.zeros(size, s.element_type.dtype) for size, s in zip(sizes, outputs, strict=True)]
    # Views with the scanned dimension first: reading and writing a step is plain indexing.
    sources = [np.moveaxis(x, dim, 0) for x in inputs]
    targets = [np.moveaxis(y, dim, 0) for y in stacked]
    state = tuple(carries)
    for at in reversed(range(steps)) if reverse else range(steps):
        results = step([*(np.asarray(x[at]) for x in sources), *state])
        for target, value in zip(targets, results, strict=False):
            target[at] = value
        state = results[len(targets) :]
    return (*stacked, *state)
