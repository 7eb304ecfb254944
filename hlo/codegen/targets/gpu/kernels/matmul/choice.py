"""Which kernels compute a product on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.matmul.gemm import Steps
from hlo.codegen.kernels.matmul.product import Dims, Product, count
from hlo.codegen.targets.base import Target
from hlo.codegen.targets.gpu.base import Gpu
from hlo.codegen.targets.gpu.kernels.matmul.alignment import alignment_of
from hlo.codegen.targets.gpu.kernels.matmul.cost import PROCESSORS, fma_work, mma_work
from hlo.codegen.targets.gpu.kernels.matmul.direct import Direct
from hlo.codegen.targets.gpu.kernels.matmul.fma import THREADS, FmaProduct
from hlo.codegen.targets.gpu.kernels.matmul.layouts import CHUNK
from hlo.codegen.targets.gpu.kernels.matmul.mma import MmaProduct
from hlo.codegen.targets.gpu.kernels.matmul.narrow import narrow
from hlo.codegen.targets.gpu.kernels.matmul.results import AddParts, Ending
from hlo.codegen.targets.gpu.kernels.matmul.sites import Site
from hlo.codegen.targets.gpu.kernels.matmul.staging import copied_width
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.codegen.targets.gpu.kernels.matmul.tiles import Tiling, WarpTiling
from hlo.codegen.targets.gpu.kernels.matmul.units import Unit, unit_of
from hlo.gpu.work import Unit as Core
from hlo.ir import Instruction

# Products of fewer rows or columns, or a shorter k, are no work for tiles; and for tiles of tensor
# cores.
_NARROW, _SHALLOW = 8, 8
# The shortest k of products with few rows or columns that threads share.
_DEEP = 64
_LEAST_MMA = 16
# Products of f32 that are split have tensor cores from so many multiplications on.
_LEAST_SPLIT = 1 << 20
# The fewest tiles along k that a part of it has, and how many blocks for each processor parts may
# make.
_LEAST_STEPS, _TURNS = 8, 3
# Registers of 32 bits for the sums of a thread, at the most.
_SUM_REGISTERS, _ENDED_SUMS = 64, 16


def add_product(
    steps: Steps, p: Product, sums: Sum, site: Site, roles: Mapping[Instruction, Role],
    target: Target,
) -> None:  # fmt: skip
    """Append the steps of a product whose sizes are all positive."""
    whole = Ending(sums, path=site.path)
    p = replace(p, k=_sorted(p.k)).simplified()
    least = min(count(p.m), count(p.n))
    if not isinstance(target, Gpu) or count(p.k) < (_SHALLOW if least >= _NARROW else _DEEP):
        steps.emitters.append(Direct(p, whole))
        return
    if least < _NARROW:
        _add_narrow(steps, p, whole, target)
        return
    unit = unit_of(p, sums, site.product, target)
    if unit is not None and _is_worthwhile(p, unit):
        aligned = alignment_of(p.a, site.root, roles), alignment_of(p.b, site.root, roles)
        tilings = _tilings(p, unit, _sums_of_warp(p, unit, aligned))
        chosen = min(tilings, key=lambda t: mma_work(p, unit, t).cycles)
        ending = _ending(steps, p, whole, chosen.tiling)
        steps.emitters.append(MmaProduct(p, unit, chosen, ending, aligned))
        tiling = chosen.tiling
    else:
        tiling = min(_plain_tilings(p, sums, whole), key=lambda t: fma_work(p, sums, t).cycles)
        ending = _ending(steps, p, whole, tiling)
        steps.emitters.append(FmaProduct(p, tiling, ending))
    if tiling.parts > 1:
        steps.emitters.append(AddParts(p, ending, tiling.parts))


def _add_narrow(steps: Steps, p: Product, whole: Ending, target: Gpu) -> None:
    """Append the steps of a product of few rows or columns."""
    p = p.flipped() if count(p.m) < count(p.n) else p
    kernel = narrow(p, whole, target.lanes)
    if kernel.parts > 1:
        size = kernel.parts * count(p.batch) * count(p.m) * count(p.n) * whole.sum.bytes
        kernel = replace(kernel, ending=replace(whole, partial=steps.memory(size)))
    steps.emitters.append(kernel)
    if kernel.parts > 1:
        steps.emitters.append(AddParts(p, kernel.ending, kernel.parts))


def _ending(steps: Steps, p: Product, whole: Ending, tiling: Tiling) -> Ending:
    """Return where the sums of tiles go, which are of parts of k or not."""
    if tiling.parts == 1:
        return whole
    size = tiling.parts * count(p.batch) * count(p.m) * count(p.n)
    return replace(whole, partial=steps.memory(size * whole.sum.bytes))


def _sorted(dims: Dims) -> Dims:
    """Return dimensions of k, the closest in the memory of the second operand last."""
    return tuple(sorted(dims, key=lambda d: (-abs(d.b), -abs(d.a))))


def _is_worthwhile(p: Product, unit: Unit) -> bool:
    m, n, k = count(p.m), count(p.n), count(p.k)
    if min(m, n, k) < _LEAST_MMA:
        return False
    return not unit.is_split or m * n * k * count(p.batch) >= _LEAST_SPLIT


# --- tiles --------------------------------------------------------------------------------------


def _sums_of_warp(p: Product, unit: Unit, aligned: tuple[int, int]) -> int:
    """Return how many sums a warp may have, so that there are registers for what it copies."""
    ets = unit.lhs, unit.rhs
    is_simple = len(p.k) == 1 and all(
        copied_width(p, side, et, at) == CHUNK and not p.source(side).bounds
        for side, et, at in zip("ab", ets, aligned, strict=True)
    )
    # ptxas takes more registers for `mma` of f8.
    return (4096 if is_simple and unit.core is not Core.TENSOR_F8 else 2048) // (
        2 if unit.is_split else 1
    )


def _tilings(p: Product, unit: Unit, most: int) -> list[WarpTiling]:
    """Return the ways to cut a product for tensor cores. most: sums of a warp."""
    depth = 16 if unit.size == 8 else 64 // unit.size
    shapes = [(64, 64, 2, 2), (32, 32, 2, 2)]
    if unit.size < 8:
        shapes += [(128, 256, 2, 4), (256, 128, 4, 2), (128, 128, 2, 4)]
        shapes += [(128, 64, 2, 2), (64, 128, 2, 2), (128, 64, 4, 2), (64, 128, 2, 4)]
        shapes += [(128, 32, 4, 1), (32, 128, 1, 4)]
    return [
        WarpTiling(tiling, rows, columns, 3 if unit.size == 8 else 4)
        for m, n, rows, columns in shapes
        if m * n <= most * rows * columns
        for tiling in _parted(p, Tiling(m, n, depth))
    ]


def _plain_tilings(p: Product, sums: Sum, ending: Ending) -> list[Tiling]:
    """Return the ways to cut a product for multiply-adds."""
    depth = 16 if sums.bytes <= 8 else 8
    words = max(1, sums.bytes // 4)
    # What is computed of each sum is code of its own for each that a thread has.
    most = _ENDED_SUMS if ending.path else _SUM_REGISTERS
    sides = [s for s in (128, 64, 32, 16) if s * s // 256 * words <= most]
    m, n = count(p.m), count(p.n)
    # Each thread copies some elements of both tiles.
    sides = [s for s in sides if s * depth >= THREADS]
    shapes = [(s, t) for s in sides for t in sides if s == t or min(m, n) < 64]
    return [found for s, t in shapes for found in _parted(p, Tiling(s, t, depth))]


def _parted(p: Product, tiling: Tiling) -> list[Tiling]:
    """Return a tiling without parts of k, and with as many as give all processors work, once or
    several times."""
    blocks, steps = tiling.blocks(p), tiling.steps(p)
    most = steps // _LEAST_STEPS
    found = {1}
    for turns in range(1, _TURNS + 1):
        wanted = min(turns * PROCESSORS // blocks, most)
        if wanted > 1:
            each = -(-steps // wanted)
            found.add(-(-steps // each))
    return [replace(tiling, parts=parts) for parts in sorted(found)]
