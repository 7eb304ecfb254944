"""The order of elements along the last dimension of numpy arrays, for `hlo.ops.reduce.sorting`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo.ops.attrs import ComputationView
from hlo.ops.elementwise.arithmetic_eval import total_order_key
from hlo.ops.elementwise.casts import widen
from hlo.ops.spec import EvalContext, SortKey
from hlo.values.types import element_type_of


def sort_order(
    columns: Sequence[np.ndarray], comparator: ComputationView, ctx: EvalContext
) -> np.ndarray:
    """Return the indices that sort the last dimension stably; a comparator tells what comes first.

    A comparator that is an order of keys is replaced by those keys. A comparator that is no strict
    weak order (it says that x < y and y < x, or it meets NaN) gives some permutation.
    """
    keys = ctx.sort_keys(comparator, columns)
    if keys is None or any(_has_unordered(k) for k in keys):
        return _merge_sort(columns, comparator, ctx)
    order = np.broadcast_to(np.arange(columns[0].shape[-1]), columns[0].shape)
    for key in reversed(keys):
        values = np.take_along_axis(key.values, order, -1)
        by_key = key_order(values, descending=key.descending, total_order=key.total_order)
        order = np.take_along_axis(order, by_key, -1)
    return order


def _has_unordered(key: SortKey) -> bool:
    """True when a key that is compared by value has a NaN, which is neither less nor greater."""
    if key.total_order or not element_type_of(key.values.dtype).is_float:
        return False
    return bool(np.isnan(widen(key.values)).any())


def key_order(values: np.ndarray, *, descending: bool, total_order: bool) -> np.ndarray:
    """Return the indices that sort the last dimension stably.

    total_order: floats stand in the order -NaN, -inf, ..., -0, 0, ..., inf, NaN. Without it there
    is no NaN, and zeros are equal.
    """
    ranks = _ranks(values, total_order)
    # Not reversing the result: equal elements stay in their order.
    return np.argsort(~ranks if descending else ranks, axis=-1, kind="stable")


def _ranks(values: np.ndarray, total_order: bool) -> np.ndarray:
    """Return integers (or pred) in the order of the values."""
    et = element_type_of(values.dtype)
    if not et.is_float:
        return widen(values)
    # Wider floats hold the same values; adding zero makes -0 and 0 one.
    return total_order_key(values if total_order else widen(values) + widen(values).dtype.type(0))


def _merge_sort(
    columns: Sequence[np.ndarray], comparator: ComputationView, ctx: EvalContext
) -> np.ndarray:
    """Sort by merging runs of 1, 2, 4, ... elements, all runs of all rows at once.

    Every element of a left run finds its place by binary search in the right run beside it: that is
    log2(n)^2 / 2 evaluations of the comparator on whole arrays.
    """
    shape, n = columns[0].shape, columns[0].shape[-1]
    if columns[0].size == 0:
        return np.zeros(shape, np.int64)
    values = [c.reshape(-1, n) for c in columns]
    order = np.broadcast_to(np.arange(n), values[0].shape)
    run = 1
    while run < n:
        source = _merge_runs(values, run, comparator, ctx)
        order = np.take_along_axis(order, source, 1)
        values = [np.take_along_axis(v, source, 1) for v in values]
        run *= 2
    return order.reshape(shape)


def _merge_runs(
    values: Sequence[np.ndarray], run: int, comparator: ComputationView, ctx: EvalContext
) -> np.ndarray:
    """Return where the elements of merged pairs of runs come from, a row of indices each row."""
    rows, n = values[0].shape
    at = np.arange(n)
    pair = at // (2 * run)
    is_left = at // run % 2 == 0
    left, begin = at[is_left], (pair * 2 * run)[is_left]
    right = np.minimum(begin + run, n)  # where the run to the right begins
    ends = np.minimum(right + run, n) - right
    low = np.zeros((rows, len(left)), np.int64)
    high = np.broadcast_to(ends, low.shape).copy()
    mine = [v[:, left] for v in values]
    for _ in range(int(run).bit_length()):
        middle = (low + high) // 2
        searching = low < high
        place = np.where(searching, right + middle, 0)
        theirs = [np.take_along_axis(v, place, 1) for v in values]
        args = [x for pair_of in zip(theirs, mine, strict=True) for x in pair_of]
        # Equal elements of the left run come first: only what is less than them passes by.
        passes = np.asarray(ctx.apply(comparator, args)) & searching
        low = np.where(passes, middle + 1, low)
        high = np.where(searching & ~passes, middle, high)
    # A sound comparator never lets a later element come earlier; any other one must not either, or
    # two elements would claim one place.
    runs = pair[is_left] * (run + 1)
    passed = np.maximum.accumulate(low + runs, axis=1) - runs
    target = left + np.minimum(passed, ends)
    source = np.empty((rows, n), np.int64)
    taken = np.zeros((rows, n), bool)
    np.put_along_axis(taken, target, True, 1)
    np.put_along_axis(source, target, np.broadcast_to(left, target.shape), 1)
    source[~taken] = np.broadcast_to(at[~is_left], (rows, n - len(left))).reshape(-1)
    return source
