"""Windows on numpy arrays, for `hlo.ops.reduce.window`.

Along one dimension, the element of the operand under offset `w` of window `o` stands at
`o * stride + w * rhs_dilate - pad_low` of the padded and dilated operand. For one `w`, the windows
that meet an element form an arithmetic progression, and so do the elements: a pair of slices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.ops.attrs import ComputationView, Window, WindowDim
from hlo.ops.elementwise.casts import narrow
from hlo.ops.reduce.combiner import FastOp, fast_op, to_work
from hlo.ops.reduce.reduction_eval import Parts, as_parts, cast, parameter_types, reduces_by_tree
from hlo.ops.spec import EvalContext
from hlo.values.types import ElementType, element_type_of

# --- which elements a window meets --------------------------------------------------------------

SlicePair = tuple[slice, slice]


def _slices(n: int, out: int, dim: WindowDim, w: int) -> SlicePair | None:
    """Return the windows whose offset `w` meets an element, and those elements; None if none.

    n: size of the operand. out: number of windows.
    """
    shift, hole, stride = w * dim.rhs_dilate - dim.pad_low, dim.lhs_dilate, dim.stride
    common = math.gcd(stride, hole)
    if n == 0 or shift % common:
        return None
    # Solve (o * stride + shift) % hole == 0 for the first o, then step to the range [0, n).
    step = hole // common
    first = (-shift // common) * pow(stride // common, -1, step) % step if step > 1 else 0
    lowest = -(shift // stride)  # the least o with o * stride + shift >= 0
    first += max(0, -(-(lowest - first) // step)) * step
    last = min(out - 1, ((n - 1) * hole - shift) // stride)
    if first > last:
        return None
    count = (last - first) // step + 1
    at, by = (first * stride + shift) // hole, step * stride // hole
    return (
        slice(first, first + (count - 1) * step + 1, step),
        slice(at, at + (count - 1) * by + 1, by),
    )


def _offsets(n: int, out: int, dim: WindowDim) -> list[tuple[int, SlicePair]]:
    """Return the offsets of a window that ever meet an element, in order, each with its slices.

    Takes time by the number of elements and windows, however large the window is.
    """
    if n == 0 or out == 0:
        return []
    ends = dim.pad_low - (out - 1) * dim.stride, dim.pad_low + (n - 1) * dim.lhs_dilate
    low = max(0, -(-ends[0] // dim.rhs_dilate))
    high = min(dim.size - 1, ends[1] // dim.rhs_dilate)
    candidates: Sequence[int] = range(low, high + 1)
    if len(candidates) > n * out:
        at = np.arange(n)[:, None] * dim.lhs_dilate - np.arange(out) * dim.stride + dim.pad_low
        hits = at[at % dim.rhs_dilate == 0] // dim.rhs_dilate
        candidates = np.unique(hits[(low <= hits) & (hits <= high)]).tolist()
    found = ((w, _slices(n, out, dim, w)) for w in candidates)
    return [(w, pair) for w, pair in found if pair is not None]


def _positions(
    dims: Sequence[int], out: Sequence[int], window: Window
) -> tuple[int, Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]]:
    """Return how many offsets of a window meet an element, and their slices in row-major order."""
    pairs = [
        [pair for _, pair in _offsets(n, o, d)] for n, o, d in zip(dims, out, window, strict=True)
    ]
    each = (
        (tuple(p[0] for p in point), tuple(p[1] for p in point))
        for point in itertools.product(*pairs)
    )
    return math.prod(len(p) for p in pairs), each


# --- reduce-window ------------------------------------------------------------------------------


def reduce_window(
    arrays: Sequence[np.ndarray],
    inits: Sequence[np.ndarray],
    window: Window,
    computation: ComputationView,
    ctx: EvalContext,
) -> Parts:
    """Return n arrays with one element a window, reduced from `inits`, each used once a window.

    Padding and holes take no part. Float sums add up in f64 (c128 for complex) and round once.
    Every other function works in its own types in row-major order: one by one, or as a tree when
    long.
    """
    types = parameter_types(computation)
    n = len(arrays)
    results = [element_type_of(np.asarray(i).dtype) for i in inits]
    dims = arrays[0].shape
    out = tuple(d.output_size(size) for size, d in zip(dims, window, strict=True))
    start = [cast(i, t) for i, t in zip(inits, types[:n], strict=True)]
    values: Parts = tuple(cast(a, t) for a, t in zip(arrays, types[n:], strict=True))
    fast = fast_op(ctx, computation) if n == 1 else None
    if fast is not None:
        done: Parts = (_reduce_windows_fast(values[0], start[0], window, out, fast, types[0]),)
    else:
        count, positions = _positions(dims, out, window)
        if reduces_by_tree(computation, count, ctx):
            done = _reduce_windows_by_tree(values, start, window, out, computation, ctx)
        else:
            done = tuple(np.full(out, s) for s in start)
            for windows, elements in positions:
                combined = ctx.apply(
                    computation, [*(d[windows] for d in done), *(v[elements] for v in values)]
                )
                for target, value in zip(done, as_parts(combined), strict=True):
                    target[windows] = value
    return tuple(cast(d, t) for d, t in zip(done, results, strict=True))


@dataclass(frozen=True, slots=True)
class _Monoid:
    """An associative function on tuples of arrays, and scalars that change nothing."""

    identity: tuple[Any, ...]
    combine: Callable[[Parts, Parts], Parts]


def _reduce_windows_fast(
    x: np.ndarray, init: np.ndarray, window: Window, out: Sequence[int], op: FastOp, et: ElementType
) -> np.ndarray:
    monoid = _Monoid((op.identity,), lambda a, b: (op.ufunc(a[0], b[0]),))
    with np.errstate(all="ignore"):
        (total,) = _slide_all((to_work(x, op),), window, out, monoid)
        return narrow(op.ufunc(to_work(init, op), total), et)


def _reduce_windows_by_tree(
    values: Parts,
    start: Sequence[np.ndarray],
    window: Window,
    out: Sequence[int],
    computation: ComputationView,
    ctx: EvalContext,
) -> Parts:
    """Reduce one dimension after the other, the innermost first, which keeps the order.

    There may be no identity: a last array tells which elements are there at all.
    """

    def combine(a: Parts, b: Parts) -> Parts:
        both = as_parts(ctx.apply(computation, [*a[:-1], *b[:-1]]))
        there = a[-1] & b[-1]
        return (
            *(
                np.where(there, c, np.where(b[-1], y, x))
                for c, x, y in zip(both, a[:-1], b[:-1], strict=True)
            ),
            a[-1] | b[-1],
        )

    parts = (*values, np.ones(values[0].shape, bool))
    nothing = (*(v.dtype.type(0) for v in values), False)
    *totals, there = _slide_all(parts, window, out, _Monoid(nothing, combine))
    with_init = as_parts(ctx.apply(computation, [*(np.full(out, s) for s in start), *totals]))
    return tuple(np.where(there, r, s) for r, s in zip(with_init, start, strict=True))


def _slide_all(parts: Parts, window: Window, out: Sequence[int], monoid: _Monoid) -> Parts:
    for axis in reversed(range(len(window))):
        if window[axis] != WindowDim():
            parts = _slide(parts, axis, window[axis], out[axis], monoid)
    return parts


def _slide(parts: Parts, axis: int, dim: WindowDim, out: int, monoid: _Monoid) -> Parts:
    """Reduce the windows along one dimension.

    Either offset by offset, or by doubling: from the totals of all runs of 2^k elements follow
    those of 2^(k+1), and a window is put together from the runs that its size has bits for. The
    second way makes running sums over n elements a matter of n log n steps.
    """
    n = parts[0].shape[axis]
    offsets = _offsets(n, out, dim)
    extent = (out - 1) * dim.stride + dim.dilated_size()
    if out == 0 or len(offsets) * out <= 2 * extent * dim.size.bit_length():
        total = _filled(parts, axis, out, monoid)
        for _, (windows, elements) in offsets:
            here = tuple(t[_at(axis, windows)] for t in total)
            there = tuple(p[_at(axis, elements)] for p in parts)
            for target, value in zip(total, monoid.combine(here, there), strict=True):
                target[_at(axis, windows)] = value
        return total
    # `runs[i]` is the total of the run that begins at i of the padded operand.
    runs = _filled(parts, axis, extent, monoid)
    whole = _slices(n, extent, WindowDim(1, 1, dim.pad_low, 0, dim.lhs_dilate), 0)
    if whole is not None:
        for target, p in zip(runs, parts, strict=True):
            target[_at(axis, whole[0])] = p[_at(axis, whole[1])]
    total, taken, run = _filled(parts, axis, out, monoid), 0, 1
    last = (out - 1) * dim.stride
    while True:
        if dim.size & run:
            begin = taken * dim.rhs_dilate
            piece = tuple(r[_at(axis, slice(begin, begin + last + 1, dim.stride))] for r in runs)
            total = monoid.combine(total, piece)
            taken += run
        if taken == dim.size:
            return total
        step = run * dim.rhs_dilate
        rest = runs[0].shape[axis] - step
        left = tuple(r[_at(axis, slice(0, rest))] for r in runs)
        right = tuple(r[_at(axis, slice(step, None))] for r in runs)
        runs, run = monoid.combine(left, right), 2 * run


def _filled(parts: Parts, axis: int, size: int, monoid: _Monoid) -> Parts:
    dims = parts[0].shape
    shape = (*dims[:axis], size, *dims[axis + 1 :])
    return tuple(np.full(shape, i, p.dtype) for i, p in zip(monoid.identity, parts, strict=True))


def _at(axis: int, where: slice) -> tuple[slice, ...]:
    return (*(slice(None) for _ in range(axis)), where)


# --- select-and-scatter -------------------------------------------------------------------------


def select_and_scatter(
    operand: np.ndarray,
    source: np.ndarray,
    init: np.ndarray,
    window: Window,
    select: ComputationView,
    scatter: ComputationView,
    ctx: EvalContext,
) -> np.ndarray:
    """Return `init` in the operand's shape, each source value added in where its window selects.

    A window keeps the first of its elements until `select(kept, next)` is false. A window without
    elements scatters nothing. Float sums add up in f64 and round once; every other function takes
    the source values of one place in row-major order.
    """
    chosen = _select(operand, source.shape, window, select, ctx).reshape(-1)
    there = chosen >= 0
    targets, updates = chosen[there], source.reshape(-1)[there]
    accumulator, element = parameter_types(scatter)
    start, updates = cast(init, accumulator), cast(updates, element)
    fast = fast_op(ctx, scatter)
    if fast is not None:
        total = np.full(operand.size, to_work(start, fast))
        with np.errstate(all="ignore"):
            fast.ufunc.at(total, targets, to_work(updates, fast))
        result = narrow(total, accumulator)
    else:
        result = np.full(operand.size, start)
        for turn in _turns(targets):
            at = targets[turn]
            result[at] = ctx.apply(scatter, [result[at], updates[turn]])
    return cast(result, element_type_of(operand.dtype)).reshape(operand.shape)


def _select(
    operand: np.ndarray,
    out: tuple[int, ...],
    window: Window,
    select: ComputationView,
    ctx: EvalContext,
) -> np.ndarray:
    """Return the flat index of the element that each window selects, -1 for no element."""
    first, second = parameter_types(select)
    index = np.arange(operand.size).reshape(operand.shape)
    kept = np.zeros(out, operand.dtype)
    chosen = np.full(out, -1)
    for windows, elements in _positions(operand.shape, out, window)[1]:
        here, there = kept[windows], operand[elements]
        stays = ctx.apply(select, [cast(here, first), cast(there, second)])
        moves = ~np.asarray(stays) | (chosen[windows] < 0)
        kept[windows] = np.where(moves, there, here)
        chosen[windows] = np.where(moves, index[elements], chosen[windows])
    return chosen


def _turns(targets: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the updates in turns without a target twice, the updates of each target in order."""
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    begins = np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)]
    places = np.arange(len(ordered))
    # How many updates of the same target come before.
    rank = places - np.maximum.accumulate(np.where(begins, places, 0))
    by_rank = np.argsort(rank, kind="stable")
    start = 0
    for end in np.cumsum(np.bincount(rank)):
        yield order[by_rank[start:end]]
        start = end
