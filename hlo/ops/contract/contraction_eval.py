"""Sums of products on numpy arrays: the arithmetic that dot and convolution share.

Floats are multiplied and added in f64 (for a result in f8e8m0fnu, which has no zero, in f32) and
rounded once, complex numbers in c128, integers exactly modulo the width of the sum, pred as "any of
all". The order of additions is BLAS's: the specification states none.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hlo.ops.elementwise import casts
from hlo.values.types import ElementType

_F32, _F64, _C128, _I64 = map(np.dtype, (np.float32, np.float64, np.complex128, np.int64))
# Elements of one operand's block in wide form: 128 MiB of f64.
BLOCK_ELEMENTS = 1 << 24
# Integers up to here are exact in f64, and so are sums of products that stay below it.
_EXACT = 1 << 53
# Wider integers are cut into limbs of 16 bits: 2**20 products of limbs still add up exactly.
_LIMB_BITS, _LIMB_TERMS = 16, 1 << 20


@dataclass(frozen=True)
class Products:
    """How products of two element types are summed (in numpy type `wide`) and stored.

    total: the element type that the sum has, before it is converted to `result`; integer sums wrap
    in it. result: None leaves the sums as they are, in `wide`.
    """

    wide: np.dtype
    total: ElementType
    result: ElementType | None

    @staticmethod
    def of(total: ElementType, result: ElementType) -> Products:
        """Return the arithmetic of operands whose common type is `total`, stored as `result`."""
        if total.is_complex or result.is_complex:
            return Products(_C128, total, result)
        if not casts.has_zero(result) and total.bits < 64:
            # What underflows is NaN, not the least number: with f32's exponents, as in `multiply`.
            return Products(_F32, total, result)
        if total.is_float or result.is_float:
            return Products(_F64, total, result)
        # Addition and multiplication wrap alike, so that only the last width counts.
        return Products(_I64, total if result.is_pred else result, result)

    def unrounded(self) -> Products:
        """Return the same arithmetic with its sums left in `wide`, for more to be added."""
        return replace(self, result=None)

    def widen(self, a: np.ndarray) -> np.ndarray:
        """Return operand values in `wide`: exact, or modulo 2**64 for u64."""
        if a.dtype == self.wide:
            return a
        return casts.widen(a).astype(self.wide, copy=False)

    def matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the sums over k of wide `a [..., m, k]` and `b [..., k, n]`, in `wide`."""
        if self.wide != _I64:
            return np.asarray(np.matmul(a, b))
        return _integer_matmul(a, b, 64 if self.total.is_pred else self.total.bits)

    def finish(self, sums: np.ndarray) -> np.ndarray:
        """Return wide sums in the result type, rounded or wrapped."""
        if self.result is None:
            return sums
        if self.wide == _I64 and self.result.is_pred and not self.total.is_pred:
            sums = casts.narrow(sums, self.total)
        if self.result.is_integer and self.wide != _I64:
            # A conversion from float truncates, so that the sum has to be rounded before.
            sums = casts.convert(sums, self.total)
        return casts.convert(sums, self.result)


def _integer_matmul(a: np.ndarray, b: np.ndarray, bits: int) -> np.ndarray:
    """Multiply int64 matrices exactly modulo 2**bits, by BLAS on f64."""
    k = a.shape[-1]
    if _greatest(a) * _greatest(b) * k <= _EXACT:
        return np.asarray(np.matmul(a.astype(_F64), b.astype(_F64)).astype(_I64))
    limbs = -(-bits // _LIMB_BITS)
    total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]),
                     np.uint64)  # fmt: skip
    for c in _spans(k, _LIMB_TERMS):
        a_limbs = [_limb(a[..., c], i) for i in range(limbs)]
        b_limbs = [_limb(b[..., c, :], i) for i in range(limbs)]
        for i, j in itertools.product(range(limbs), repeat=2):
            if i + j < limbs:
                part = np.matmul(a_limbs[i], b_limbs[j]).astype(np.uint64)
                total += part << np.uint64(_LIMB_BITS * (i + j))
    return total.view(_I64)


def _greatest(a: np.ndarray) -> int:
    return max(-int(a.min()), int(a.max())) if a.size else 0


def _limb(a: np.ndarray, index: int) -> np.ndarray:
    mask = np.uint64((1 << _LIMB_BITS) - 1)
    return ((a.view(np.uint64) >> np.uint64(_LIMB_BITS * index)) & mask).astype(_F64)


@dataclass(frozen=True)
class DotDims:
    """The dimension numbers of a dot: what is batched, and what is summed over."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]

    def lhs_free(self, rank: int) -> tuple[int, ...]:
        """Return the dimensions of a lhs of `rank` that are neither batched nor summed over."""
        return tuple(d for d in range(rank) if d not in self.lhs_batch + self.lhs_contract)

    def rhs_free(self, rank: int) -> tuple[int, ...]:
        """Return the dimensions of a rhs of `rank` that are neither batched nor summed over."""
        return tuple(d for d in range(rank) if d not in self.rhs_batch + self.rhs_contract)


def contract(lhs: np.ndarray, rhs: np.ndarray, dims: DotDims, products: Products) -> np.ndarray:
    """Return the sums of products as `[batch..., lhs free..., rhs free...]`."""
    lhs_free, rhs_free = dims.lhs_free(lhs.ndim), dims.rhs_free(rhs.ndim)
    b, batch = _sizes(lhs, dims.lhs_batch)
    m, rows = _sizes(lhs, lhs_free)
    n, columns = _sizes(rhs, rhs_free)
    k, _ = _sizes(lhs, dims.lhs_contract)
    a = lhs.transpose(dims.lhs_batch + lhs_free + dims.lhs_contract).reshape(b, m, k)
    c = rhs.transpose(dims.rhs_batch + dims.rhs_contract + rhs_free).reshape(b, k, n)
    with np.errstate(all="ignore"):
        return matmul_in_blocks(a, c, products).reshape(batch + rows + columns)


def _sizes(a: np.ndarray, dims: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    sizes = tuple(a.shape[d] for d in dims)
    return math.prod(sizes), sizes


def matmul_in_blocks(a: np.ndarray, b: np.ndarray, products: Products) -> np.ndarray:
    """Return the finished product of `a [g, m, k]` and `b [g, k, n]`, of any type.

    Wide copies are made of blocks only, so that bf16 and s8 weights do not grow to four or eight
    times their size.
    """
    (g, m, k), n = a.shape, b.shape[2]
    dtype = products.result.dtype if products.result else products.wide
    out = np.empty((g, m, n), dtype)
    if not out.size:
        return out
    k_step = max(1, min(k, BLOCK_ELEMENTS))
    rows, columns = (max(1, min(size, BLOCK_ELEMENTS // k_step)) for size in (m, n))
    groups = max(1, BLOCK_ELEMENTS // (rows * k_step + k_step * columns + rows * columns))
    for s, i, j in itertools.product(_spans(g, groups), _spans(m, rows), _spans(n, columns)):
        parts = (
            products.matmul(products.widen(a[s, i, c]), products.widen(b[s, c, j]))
            for c in _spans(k, k_step)
        )
        out[s, i, j] = products.finish(functools.reduce(np.add, parts))
    return out


def _spans(size: int, step: int) -> Iterator[slice]:
    """Yield the slices of at most `step` that cover `size`; one empty slice for none."""
    for start in range(0, max(size, 1), step):
        yield slice(start, min(start + step, size))


def scale_blocks(a: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return `a` in f64, each block of it multiplied by its element of `scale`.

    scale: of `a`'s rank, with sizes that divide `a`'s.
    """
    wide, factor = casts.widen(a).astype(_F64), casts.widen(scale).astype(_F64)
    if not a.size:
        return wide
    split = [s for n, c in zip(a.shape, scale.shape, strict=True) for s in (c, n // c)]
    spread = [s for c in scale.shape for s in (c, 1)]
    with np.errstate(all="ignore"):
        return np.asarray(wide.reshape(split) * factor.reshape(spread)).reshape(a.shape)


def ragged_contract(
    lhs: np.ndarray,
    rhs: np.ndarray,
    group_sizes: np.ndarray,
    dims: DotDims,
    ragged: int,
    group: int | None,
    products: Products,
) -> np.ndarray:
    """Return a dot in which dimension `ragged` of lhs is cut into consecutive groups.

    With a `group` dimension of rhs, each group of rows meets its own matrix of rhs, and rows after
    the last group are zero: `[batch..., lhs free..., rhs free...]`. Without it each group is summed
    over apart: `[groups, batch..., lhs free..., rhs free...]`.
    group_sizes: `[..., groups]`, its leading dimensions those of lhs that `ragged_prefix` names, or
    none for sizes that hold throughout. A negative size is an empty group, and groups end where the
    dimension ends.
    """
    prefix = ragged_prefix(dims, lhs.ndim, ragged) if group_sizes.ndim > 1 else ()
    lhs_kept = dims.lhs_batch + dims.lhs_free(lhs.ndim)
    columns = tuple(rhs.shape[d] for d in dims.rhs_free(rhs.ndim) if d != group)
    shape = tuple(lhs.shape[d] for d in lhs_kept) + columns
    if group is None:
        matrices: Sequence[np.ndarray] = [rhs] * group_sizes.shape[-1]
        out = np.zeros((group_sizes.shape[-1], *shape), products.wide)
    else:
        matrices, dims = list(np.moveaxis(rhs, group, 0)), _without_rhs_dim(dims, group)
        out = np.zeros(shape, products.wide)
    paired = dict(
        zip(dims.rhs_batch + dims.rhs_contract, dims.lhs_batch + dims.lhs_contract, strict=True)
    )
    sums = products.unrounded()
    with np.errstate(all="ignore"):
        for at in np.ndindex(group_sizes.shape[:-1]):
            cut = {d: slice(i, i + 1) for d, i in zip(prefix, at, strict=True)}
            start = 0
            sizes = group_sizes[at].tolist()
            for g, (size, matrix) in enumerate(zip(sizes, matrices, strict=True)):
                cut[ragged] = slice(start, min(start + max(size, 0), lhs.shape[ragged]))
                start = cut[ragged].stop
                left = lhs[_index(cut, range(lhs.ndim))]
                right = matrix[_index(cut, (paired.get(d, -1) for d in range(matrix.ndim)))]
                target = out if group is not None else out[g]
                target[_index(cut, lhs_kept)] += contract(left, right, dims, sums)
        return products.finish(out)


def _index(cut: Mapping[int, slice], dims: Iterable[int]) -> tuple[slice, ...]:
    return tuple(cut.get(d, slice(None)) for d in dims)


def ragged_prefix(dims: DotDims, lhs_rank: int, ragged: int) -> tuple[int, ...]:
    """Return the dimensions of lhs along which the sizes of groups may vary.

    They are the batch dimensions, and those of `ragged`'s own kind that come before it.
    """
    if ragged in dims.lhs_batch:
        return dims.lhs_batch[: dims.lhs_batch.index(ragged)]
    kind = dims.lhs_contract if ragged in dims.lhs_contract else dims.lhs_free(lhs_rank)
    return dims.lhs_batch + kind[: kind.index(ragged)]


def _without_rhs_dim(dims: DotDims, gone: int) -> DotDims:
    def shift(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d - (d > gone) for d in numbers)

    return replace(dims, rhs_batch=shift(dims.rhs_batch), rhs_contract=shift(dims.rhs_contract))
