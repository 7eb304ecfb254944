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
from hlo.ops.contraction_eval import BLOCK_ELEMENTS, Products

# Elements of a block of patches: 32 MiB of f64. A block that is summed tap by tap stays in cache.
_PATCH_ELEMENTS, _TAP_ELEMENTS = BLOCK_ELEMENTS // 4, 1 << 17
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
            if channels == 1 and outputs <= _MOST_OUTPUTS and taps <= _MOST_TAPS:
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
        """Return the filter in wide form, with its taps in the order they meet the input."""
        d, split = self.dims, self.dims.kernel_output
        a, place = _split(rhs, split, self.feature_groups * self.batch_groups)
        a = a.transpose(split, *map(place, d.kernel_spatial), place(d.kernel_input), place(split))
        turn = tuple(slice(None, None, -1 if w.reversal else 1) for w in self.window)
        return self.products.widen(np.ascontiguousarray(a[(slice(None), *turn)]))

    def _output(self, out: np.ndarray) -> np.ndarray:
        d, split = self.dims, self.dims.output_feature
        a, place = _split(out, split, self.feature_groups * self.batch_groups)
        return a.transpose(
            place(d.output_batch), split, *map(place, d.output_spatial), place(split)
        )

    # --- sums -----------------------------------------------------------------------------------

    def _by_patches(self, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
        """Fill y with the products of a matrix of patches and the matrix of the filter."""
        g, rank = w.shape[0], len(self.window)
        filters = w.reshape(g, -1, w.shape[-1])
        depth = filters.shape[1]
        unit = max(depth, x.shape[-1] * math.prod(d.stride for d in self.window))
        for box in _boxes(y.shape[:-1], unit, _PATCH_ELEMENTS):
            region = self._region(x, box)
            n, groups, channels = region.shape[0], region.shape[-2], region.shape[-1]
            positions = tuple(s.stop - s.start for s in box[2:])
            steps = region.strides[1:-2]
            patches = np.lib.stride_tricks.as_strided(
                region,
                (groups, n, *positions, *w.shape[1 : 1 + rank], channels),
                (
                    region.strides[-2],
                    region.strides[0],
                    *(s * d.stride for s, d in zip(steps, self.window, strict=True)),
                    *(s * d.rhs_dilate for s, d in zip(steps, self.window, strict=True)),
                    region.strides[-1],
                ),
                writeable=False,
            ).reshape(groups, n * math.prod(positions), depth)
            sums = self.products.matmul(patches, filters[box[1]])
            sums = self.products.finish(sums).reshape(groups, n, *positions, -1)
            y[box] = np.moveaxis(sums, 0, 1)

    def _by_taps(self, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
        """Fill y, for inputs of one channel a group, by adding the input shifted by each tap."""
        taps = w.shape[1:-2]
        unit = max(y.shape[-1], math.prod(d.stride for d in self.window))
        for box in _boxes(y.shape[:-1], unit, _TAP_ELEMENTS):
            region, factors = self._region(x, box), w[box[1]]
            total: np.ndarray | None = None
            for tap in np.ndindex(taps):
                shifted = region[(slice(None), *map(_shift, self.window, box[2:], tap))]
                part = shifted * factors[(slice(None), *tap, 0)]
                total = part if total is None else np.add(total, part, out=total)
            assert total is not None
            y[box] = np.moveaxis(self.products.finish(total), -2, 1)

    def _region(self, x: np.ndarray, box: Box) -> np.ndarray:
        """Return the input that the positions of a box see, padded, dilated, in wide form.

        Shape: `[n, space..., g, c]`.
        """
        lengths, places, sources = [], [], []
        for size, d, where in zip(x.shape[2:-1], self.window, box[2:], strict=True):
            length, place, source = _reach(size, d, where)
            lengths.append(length)
            places.append(place)
            sources.append(source)
        part = np.moveaxis(x[(box[0], box[1], *sources)], 1, -2)
        n, groups, channels = part.shape[0], part.shape[-2], part.shape[-1]
        region = np.zeros((n, *lengths, groups, channels), self.products.wide)
        region[(slice(None), *places)] = self.products.widen(part)
        return region


def region_length(d: WindowDim, positions: int) -> int:
    """Return how far a window reaches over neighbouring positions, in padded, dilated elements."""
    return (positions - 1) * d.stride + d.dilated_size()


def _reach(size: int, d: WindowDim, where: slice) -> tuple[int, slice, slice]:
    """Return the extent of a region, the places in it that hold elements, and those elements."""
    length = region_length(d, where.stop - where.start)
    low = where.start * d.stride - d.pad_low
    # Element i stands at i * lhs_dilate in the dilated input, which begins `low` before the region.
    first = max(0, -(-low // d.lhs_dilate))
    last = min(size - 1, (low + length - 1) // d.lhs_dilate)
    if last < first:
        return length, slice(0, 0), slice(0, 0)
    start = first * d.lhs_dilate - low
    stop = last * d.lhs_dilate - low + 1
    return length, slice(start, stop, d.lhs_dilate), slice(first, last + 1)


def _shift(d: WindowDim, where: slice, tap: int) -> slice:
    start = tap * d.rhs_dilate
    return slice(start, start + (where.stop - where.start - 1) * d.stride + 1, d.stride)


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
