"""Gather and scatter on numpy arrays, for `hlo.ops.movement.gather_scatter`.

Both look at indices the same way: `index_vector_dim` holds index vectors, the other dimensions (the
batch) name the vectors, and each vector gives the start of a window of the operand in some of its
dimensions. Window `n` below is the one of batch element `n` in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Duplicates are applied in rounds of distinct targets. Beyond this many rounds a running ufunc,
# which takes the updates one by one, is quicker.
_MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class IndexDims:
    """How indices select windows of an operand.

    index_vector_dim: the dimension of the indices that holds the index vector; one past the last
    dimension means that each index is a vector of one. index_map: the operand dimension of each
    vector element. collapsed: operand dimensions of window size one that the window leaves out.
    operand_batching, indices_batching: operand dimension `operand_batching[i]` starts at the
    position along dimension `indices_batching[i]` of the indices.
    """

    index_vector_dim: int
    index_map: tuple[int, ...]
    collapsed: tuple[int, ...]
    operand_batching: tuple[int, ...]
    indices_batching: tuple[int, ...]

    def window_dims(self, rank: int) -> list[int]:
        """Return the operand dimensions that appear in a window, ascending."""
        left_out = {*self.collapsed, *self.operand_batching}
        return [d for d in range(rank) if d not in left_out]

    @property
    def batching(self) -> dict[int, int]:
        """The batch dimension along which each batching dimension of the operand runs."""
        pairs = zip(self.operand_batching, self.indices_batching, strict=True)
        return {d: at - (at > self.index_vector_dim) for d, at in pairs}

    def starts(self, indices: np.ndarray) -> tuple[tuple[int, ...], dict[int, np.ndarray]]:
        """Return the batch dimensions, and the start of every window by operand dimension.

        A start is an integer array of one element a window, of the type of the indices.
        """
        vectors = (
            indices[..., None]
            if self.index_vector_dim == indices.ndim
            else np.moveaxis(indices, self.index_vector_dim, -1)
        )
        batch = vectors.shape[:-1]
        starts = {d: vectors[..., k].reshape(-1) for k, d in enumerate(self.index_map)}
        for d, axis in self.batching.items():
            starts[d] = np.broadcast_to(_along(axis, batch), batch).reshape(-1)
        return batch, starts


def _along(axis: int, dims: Sequence[int]) -> np.ndarray:
    """Return the positions along an axis, with a rank that broadcasts against `dims`."""
    return np.arange(dims[axis]).reshape([-1 if a == axis else 1 for a in range(len(dims))])


def clamp_index(index: np.ndarray, high: int) -> np.ndarray:
    """Return indices of any integer type as int64, moved into `[0, high]`."""
    if index.dtype == np.uint64:
        return np.minimum(index, np.uint64(high)).astype(np.int64)
    return np.clip(index.astype(np.int64), 0, high)


def _in_range(index: np.ndarray, high: int) -> np.ndarray:
    """Return which indices of any integer type lie in `[0, high]`; `high` may be -1."""
    if high < 0:
        return np.zeros(index.shape, bool)
    if index.dtype == np.uint64:
        return index <= np.uint64(high)
    wide = index.astype(np.int64)
    return (wide >= 0) & (wide <= high)


def gather(
    operand: np.ndarray,
    indices: np.ndarray,
    dims: IndexDims,
    slice_sizes: Sequence[int],
    offset_dims: Sequence[int],
) -> np.ndarray:
    """Return the windows of an operand at clamped starts.

    A window without elements gives zeros where collapsing it leaves result elements, as in XLA.
    """
    batch, starts = dims.starts(indices)
    window = [slice_sizes[d] for d in dims.window_dims(operand.ndim)]
    if 0 in slice_sizes:
        rows = np.zeros((*batch, *window), operand.dtype)
    else:
        rows = _windows(operand, starts, math.prod(batch), slice_sizes).reshape((*batch, *window))
    moved = np.moveaxis(rows, range(len(batch), rows.ndim), offset_dims)
    return np.array(moved, order="C", copy=None)


def _windows(
    operand: np.ndarray, starts: dict[int, np.ndarray], count: int, sizes: Sequence[int]
) -> np.ndarray:
    """Return `[count, window...]`, less the window dimensions that are indexed and of size one."""
    indexed = sorted(starts)
    inner = [d for d in range(operand.ndim) if d not in starts or sizes[d] != 1]
    # Every window is one element of a view that has the possible starts before the window. numpy
    # makes such views of types of its own only.
    view = np.lib.stride_tricks.as_strided(
        operand.view(f"V{operand.itemsize}"),
        [operand.shape[d] - sizes[d] + 1 for d in indexed] + [sizes[d] for d in inner],
        [operand.strides[d] for d in (*indexed, *inner)],
        writeable=False,
    ).view(operand.dtype)
    at = tuple(clamp_index(starts[d], operand.shape[d] - sizes[d]) for d in indexed)
    if not at:
        return np.broadcast_to(view, (count, *view.shape))
    # `take` is the quicker of the two, but would copy a view that is not contiguous.
    return view.take(at[0], axis=0) if len(at) == 1 and view.flags.c_contiguous else view[at]


@dataclass(frozen=True, slots=True)
class Combiner:
    """How scatter combines old elements and updates.

    apply: `(old arrays..., update arrays...) -> new arrays`, elementwise. overwrites: the new ones
    are the updates. ufunc: equal to `apply` on one operand, if there is one.
    """

    apply: Callable[[list[np.ndarray]], Sequence[np.ndarray]]
    overwrites: bool = False
    ufunc: np.ufunc | None = None


def scatter(
    operands: Sequence[np.ndarray],
    indices: np.ndarray,
    updates: Sequence[np.ndarray],
    dims: IndexDims,
    update_window_dims: Sequence[int],
    combiner: Combiner,
) -> list[np.ndarray]:
    """Return the operands with windows combined in, in the order of the batch.

    A window that is not wholly inside the operand is left out, as XLA compiles it.
    """
    results = [np.array(o, order="C") for o in operands]
    if not updates[0].size or not operands[0].size:
        return results
    shape, rank = operands[0].shape, operands[0].ndim
    batch, starts = dims.starts(indices)
    count = math.prod(batch)
    sizes = [1] * rank
    for d, at in zip(dims.window_dims(rank), update_window_dims, strict=True):
        sizes[d] = updates[0].shape[at]
    kept = np.ones(count, bool)
    for d, start in starts.items():
        kept &= _in_range(start, shape[d] - sizes[d])
    if not kept.any():
        return results

    # Units are what is written at once: the part of a window at one position of the indexed
    # dimensions. Two units have the same target or none in common.
    indexed = sorted(starts)
    free = [d for d in range(rank) if d not in starts]
    order = [0] + [1 + d for d in (*indexed, *free)]
    units = []
    for u in updates:
        rows = np.moveaxis(u, update_window_dims, range(len(batch), u.ndim)).reshape(count, *sizes)
        rows = rows if kept.all() else rows[kept]
        units.append(rows.transpose(order).reshape(-1, *(sizes[d] for d in free)))
    targets = _unit_targets([starts[d][kept] for d in indexed], [sizes[d] for d in indexed])
    views = []
    for r in results:
        view = r.transpose(*indexed, *free)
        # The ellipsis makes a view of an array without dimensions, too.
        window: tuple[Any, ...] = (..., *(slice(0, sizes[d]) for d in free))
        view = view[window]
        views.append(view if indexed else view[None])
    targets = targets or (np.zeros(len(units[0]), np.int64),)
    _combine(views, targets, units, combiner)
    return results


def _unit_targets(starts: list[np.ndarray], sizes: list[int]) -> tuple[np.ndarray, ...]:
    """Return the position of every unit in each indexed dimension, by window and position in it."""
    at = []
    for k, start in enumerate(starts):
        wide = start.astype(np.int64).reshape([-1] + [1] * len(sizes)) + _along(k, sizes)
        at.append(np.broadcast_to(wide, (len(start), *sizes)).reshape(-1))
    return tuple(at)


def _combine(
    views: list[np.ndarray],
    targets: tuple[np.ndarray, ...],
    units: list[np.ndarray],
    combiner: Combiner,
) -> None:
    """Combine `units[j][n]` into `views[j][targets[.][n]]` in place, in ascending `n`."""
    if combiner.overwrites:
        # Assignment by index arrays writes in order: of several units the last one stays.
        for view, unit in zip(views, units, strict=True):
            view[targets] = unit
        return
    rounds = _rounds(np.ravel_multi_index(targets, views[0].shape[: len(targets)]))
    if combiner.ufunc is not None and len(rounds) > _MAX_ROUNDS:
        _accumulate(combiner.ufunc, views[0], targets, units[0])
        return
    for at in rounds:
        place = tuple(t[at] for t in targets)
        new = combiner.apply([v[place] for v in views] + [u[at] for u in units])
        for view, value in zip(views, new, strict=True):
            view[place] = value


def _rounds(ids: np.ndarray) -> list[np.ndarray | slice]:
    """Split positions so that `ids` are distinct in each part: the n-th of an id is in part n."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if len(first) == len(ids):
        return [slice(None)]
    lengths = np.diff(first, append=len(ids))
    occurrence = np.arange(len(ids)) - np.repeat(first, lengths)
    by_round = order[np.argsort(occurrence, kind="stable")]
    return list(np.split(by_round, np.cumsum(np.bincount(occurrence))[:-1]))


def _accumulate(
    ufunc: np.ufunc, view: np.ndarray, targets: tuple[np.ndarray, ...], unit: np.ndarray
) -> None:
    """Apply a ufunc in place, one element of `unit` after the other.

    numpy is quick at this only in one dimension, so all elements are addressed in the flat result.
    """
    flat = view
    while isinstance(flat.base, np.ndarray):
        flat = flat.base
    steps = [s // view.itemsize for s in view.strides]
    offsets = np.zeros((), np.int64)
    for size, step in zip(view.shape[len(targets) :], steps[len(targets) :], strict=True):
        offsets = offsets[..., None] + np.arange(size) * step
    at = np.zeros(len(unit), np.int64)
    for target, step in zip(targets, steps, strict=False):
        at += target * step
    ufunc.at(flat.reshape(-1), (at[:, None] + offsets.reshape(-1)).reshape(-1), unit.reshape(-1))
