"""The numeric kernel of convolution: patches of the input times the filter, by matrix products.

Groups of either kind end as a dimension g of independent convolutions: input
`[n, g, space..., c]`, filter `[g, taps..., c, o]`, output `[n, g, positions..., o]`. Padding and
the holes of a dilated input are zeros that take part in the products, as "zero padding" says: zero
times infinity is NaN. Blocks of output positions are computed one after the other, so that memory
does not grow with their number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hlo.ops.attrs import ConvDims, Window, WindowDim
from hlo.ops.contract.contraction_eval import Products

# Elements of a block of patches, of the filter, and of a block that is summed tap by tap: small
# enough to stay in a cache of some level.
_PATCH_ELEMENTS, _FILTER_ELEMENTS, _TAP_ELEMENTS = 1 << 20, 1 << 22, 1 << 17
# Depthwise filters of up to this many taps and outputs for each channel are summed tap by tap.
_MOST_TAPS, _MOST_OUTPUTS = 64, 4

Box = tuple[slice, ...]


@dataclass(frozen=True)
class Convolution:
    """What is convolved, and in which arithmetic."""

    dims: ConvDims
    window: Window
    feature_groups: int
    batch_groups: int
    products: Products

    def __call__(self, lhs: np.ndarray, rhs: np.ndarray, out_dims: Sequence[int]) -> np.ndarray:
        """Return the convolution as an array of `out_dims`, the inferred sizes."""
        dtype = self.products.result.dtype if self.products.result else self.products.wide
        out = np.zeros(tuple(out_dims), dtype)
        if not out.size or not lhs.size or not rhs.size:
            return out
        x, w, y = self._input(lhs), self._filter(rhs), self._output(out)
        channels, outputs, taps = x.shape[-1], w.shape[-1], math.prod(w.shape[1:-2])
        with np.errstate(all="ignore"):
            few = outputs <= _MOST_OUTPUTS and taps <= _MOST_TAPS
            if channels == 1 and few and np.isfinite(self.products.widen(w)).all():
                self._by_taps(x, w, y)
            else:
                self._by_patches(x, w, y)
        return out

    # --- views ----------------------------------------------------------------------------------

    def _input(self, lhs: np.ndarray) -> np.ndarray:
        d = self.dims
        split, groups = (
            (d.input_batch, self.batch_groups)
            if self.batch_groups > 1
            else (d.input_feature, self.feature_groups)
        )
        a, place = _split(lhs, split, groups)
        return a.transpose(
            place(d.input_batch), split, *map(place, d.input_spatial), place(d.input_feature)
        )

    def _filter(self, rhs: np.ndarray) -> np.ndarray:
        """Return the filter with its taps in the order they meet the input."""
        d, split = self.dims, self.dims.kernel_output
        a, place = _split(rhs, split, self.feature_groups * self.batch_groups)
        a = a.transpose(split, *map(place, d.kernel_spatial), place(d.kernel_input), place(split))
        turn = tuple(slice(None, None, -1 if w.reversal else 1) for w in self.window)
        return a[(slice(None), *turn)]

    def _output(self, out: np.ndarray) -> np.ndarray:
        d, split = self.dims, self.dims.output_feature
        a, place = _split(out, split, self.feature_groups * self.batch_groups)
        return a.transpose(
            place(d.output_batch), split, *map(place, d.output_spatial), place(split)
        )

    # --- sums -----------------------------------------------------------------------------------

    def _by_patches(self, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
        """Fill y with the products of a matrix of patches and the matrix of the filter.

        A filter too large for one block is taken by some of its channels after the other.
        """
        order, channels = _Order.of(x, w, y), w.shape[-2]
        step = min(channels, max(1, _FILTER_ELEMENTS * channels // w.size))
        depth = math.prod(w.shape[1:-2]) * step
        unit = max(depth, step * math.prod(d.stride for d in self.window))
        total = np.zeros_like(y, self.products.wide) if step < channels else y
        for first in range(0, channels, step):
            c = slice(first, first + step)
            filters = self.products.widen(order.filter_matrix(w[..., c, :]))
            for box in _boxes(y.shape[:-1], unit, _PATCH_ELEMENTS):
                sizes = tuple(s.stop - s.start for s in box)
                patches = self._patches(self._region(x[..., c], box), sizes[2:], w.shape[1:-2])
                sums = order.multiply(patches, filters[box[1]], sizes, self.products)
                if total is y:
                    y[box] = self.products.finish(sums)
                else:
                    total[box] += sums
        if total is not y:
            y[...] = self.products.finish(total)

    def _patches(
        self, region: np.ndarray, positions: Sequence[int], taps: Sequence[int]
    ) -> np.ndarray:
        """Return the view `[n, g, positions..., taps..., c]` of a region."""
        n, g, *space, c = region.strides
        return np.lib.stride_tricks.as_strided(
            region,
            (*region.shape[:2], *positions, *taps, region.shape[-1]),
            (
                *(n, g),
                *(s * d.stride for s, d in zip(space, self.window, strict=True)),
                *(s * d.rhs_dilate for s, d in zip(space, self.window, strict=True)),
                c,
            ),
            writeable=False,
        )

    def _by_taps(self, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
        """Fill y, for inputs of one channel a group, by adding the input shifted by each tap.

        Products with zeros of the padding are left out: the filter has to be finite.
        """
        for box in _boxes(y.shape[:2], math.prod(y.shape[2:]), _TAP_ELEMENTS):
            part, factors = self.products.widen(x[box]), self.products.widen(w[box[1]])
            sums = np.zeros_like(part, shape=y[box].shape)
            for tap in np.ndindex(w.shape[1:-2]):
                met = [*map(_meeting, x.shape[2:-1], y.shape[2:-1], self.window, tap)]
                here, there = ([slice(None)] * 2 + [m[i] for m in met] for i in (0, 1))
                factor = factors[(slice(None), *tap, 0)]
                factor = factor.reshape(len(factor), *(1 for _ in tap), -1)
                sums[tuple(here)] += part[tuple(there)] * factor
            y[box] = self.products.finish(sums)

    def _region(self, x: np.ndarray, box: Box) -> np.ndarray:
        """Return the input that the positions of a box see, padded, dilated, in wide form."""
        lengths, places, sources = [], [], []
        for size, d, where in zip(x.shape[2:-1], self.window, box[2:], strict=True):
            length, place, source = _reach(size, d, where)
            lengths.append(length)
            places.append(place)
            sources.append(source)
        part = x[(*box[:2], *sources)]
        shape = (*part.shape[:2], *lengths, part.shape[-1])
        # In the order of the input in memory: the copy runs along it.
        region = np.zeros_like(part, self.products.wide, shape=shape)
        region[(slice(None), slice(None), *places)] = self.products.widen(part)
        return region


@dataclass(frozen=True)
class _Order:
    """How arrays become matrices, so that copies run along memory: they take as long as products.

    The axes of patches are `[n, g, positions..., taps..., c]`: `rows` of them become the rows of a
    matrix, `depth` those that are summed over. Each matrix may be stored transposed: that of the
    patches (`depth_first`), of the filter (`outputs_last` false), and of the sums (`rows_last`).
    """

    rank: int
    rows: tuple[int, ...]
    depth: tuple[int, ...]
    depth_first: bool
    outputs_last: bool
    rows_last: bool

    @staticmethod
    def of(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> _Order:
        rank = x.ndim - 3
        positions, taps = tuple(range(2, 2 + rank)), tuple(range(2 + rank, 2 + 2 * rank))
        channel = 2 + 2 * rank
        innermost = _innermost(x)
        in_space = 2 <= innermost < 2 + rank
        return _Order(
            rank,
            rows=(*positions, 0) if innermost == 0 else (0, *positions),
            depth=(*taps, channel) if innermost == x.ndim - 1 else (channel, *taps),
            depth_first=innermost == 0
            or (in_space and y.shape[innermost] > w.shape[innermost - 1]),
            outputs_last=_innermost(w) == w.ndim - 1,
            rows_last=_innermost(y) != y.ndim - 1,
        )

    def filter_matrix(self, w: np.ndarray) -> np.ndarray:
        """Return the filter `[g, taps..., c, o]` as `[g, depth, o]`."""
        depth = tuple(i - 1 - self.rank for i in self.depth)
        g, o, last = w.shape[0], w.shape[-1], w.ndim - 1
        if self.outputs_last:
            return w.transpose(0, *depth, last).reshape(g, -1, o)
        return w.transpose(0, last, *depth).reshape(g, o, -1).swapaxes(1, 2)

    def multiply(
        self, patches: np.ndarray, filters: np.ndarray, sizes: Sequence[int], products: Products
    ) -> np.ndarray:
        """Return the wide sums `[n, g, positions..., o]`, of which `sizes` are all but o."""
        g, rows = sizes[1], math.prod(sizes[i] for i in self.rows)
        if self.depth_first:
            matrix = patches.transpose(1, *self.depth, *self.rows).reshape(g, -1, rows)
        else:
            matrix = patches.transpose(1, *self.rows, *self.depth).reshape(g, rows, -1)
            matrix = matrix.swapaxes(1, 2)
        # Now patches are [g, depth, rows] and filters [g, depth, o].
        row_sizes = [sizes[i] for i in self.rows]
        if self.rows_last:
            sums = products.matmul(filters.swapaxes(1, 2), matrix)
            sums = np.moveaxis(sums.reshape(g, -1, *row_sizes), 1, -1)
        else:
            sums = products.matmul(matrix.swapaxes(1, 2), filters)
            sums = sums.reshape(g, *row_sizes, -1)
        at = {axis: i + 1 for i, axis in enumerate(self.rows)}
        return sums.transpose(at[0], 0, *(at[2 + i] for i in range(self.rank)), sums.ndim - 1)


def _innermost(a: np.ndarray) -> int:
    """Return the axis with the smallest stride."""
    axes = [i for i in range(a.ndim) if a.shape[i] > 1]
    return min(axes, key=lambda i: abs(a.strides[i]), default=a.ndim - 1)


def _reach(size: int, d: WindowDim, where: slice) -> tuple[int, slice, slice]:
    """Return the extent of a region, the positions of elements in it, and those elements."""
    length = (where.stop - where.start - 1) * d.stride + d.dilated_size()
    low = where.start * d.stride - d.pad_low
    # Element i is at i * lhs_dilate in the dilated input, which begins `low` before the region.
    first = max(0, -(-low // d.lhs_dilate))
    last = min(size - 1, (low + length - 1) // d.lhs_dilate)
    if last < first:
        return length, slice(0, 0), slice(0, 0)
    start = first * d.lhs_dilate - low
    stop = last * d.lhs_dilate - low + 1
    return length, slice(start, stop, d.lhs_dilate), slice(first, last + 1)


def _meeting(size: int, positions: int, d: WindowDim, tap: int) -> tuple[slice, slice]:
    """Return the positions at which a tap meets elements of the input, and these elements.

    Position p meets element i where `p * stride + tap * rhs_dilate - pad_low == i * lhs_dilate`.
    """
    common = math.gcd(d.stride, d.lhs_dilate)
    step, jump = d.lhs_dilate // common, d.stride // common
    offset = tap * d.rhs_dilate - d.pad_low
    nothing = slice(0, 0), slice(0, 0)
    if offset % common:
        return nothing
    # Positions that meet any i, in range or not, are `phase` modulo `step`.
    phase = -(offset // common) * pow(jump, -1, step) if step > 1 else 0
    low = max(0, -(offset // d.stride))
    high = min(positions - 1, ((size - 1) * d.lhs_dilate - offset) // d.stride)
    first = low + (phase - low) % step
    if first > high:
        return nothing
    count = (high - first) // step + 1
    element = (first * d.stride + offset) // d.lhs_dilate
    return (
        slice(first, first + (count - 1) * step + 1, step),
        slice(element, element + (count - 1) * jump + 1, jump),
    )


def _split(a: np.ndarray, dim: int, groups: int) -> tuple[np.ndarray, Callable[[int], int]]:
    """Return `a` with `dim` cut into groups and what is in each, and where its dimensions are now.

    The groups stand at `dim`.
    """
    shape = (*a.shape[:dim], groups, a.shape[dim] // groups, *a.shape[dim + 1 :])
    return a.reshape(shape), lambda d: d + (d >= dim)


def _boxes(sizes: Sequence[int], unit: int, limit: int) -> Iterator[Box]:
    """Yield boxes over `[n, g, positions...]` of at most about `limit // unit` elements.

    Positions are kept together first, then groups, then batch elements.
    """
    steps = [1] * len(sizes)
    room = max(1, limit // max(unit, 1))
    for i in (*range(len(sizes) - 1, 1, -1), 1, 0):
        steps[i] = max(1, min(sizes[i], room))
        room //= steps[i]
    yield from itertools.product(
        *(
            [slice(i, min(i + step, size)) for i in range(0, size, step)]
            for size, step in zip(sizes, steps, strict=True)
        )
    )
