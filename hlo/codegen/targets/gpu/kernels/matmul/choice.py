"""Which kernels compute a product on a GPU."""

from __future__ import annotations

from dataclasses import replace

from hlo.codegen.kernels.matmul.gemm import Steps
from hlo.codegen.kernels.matmul.product import Dims, Product, count
from hlo.codegen.targets.base import Target
from hlo.codegen.targets.gpu.base import Gpu
from hlo.codegen.targets.gpu.kernels.matmul.direct import Direct
from hlo.codegen.targets.gpu.kernels.matmul.fma import FmaProduct
from hlo.codegen.targets.gpu.kernels.matmul.results import AddParts, Ending
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.codegen.targets.gpu.kernels.matmul.tiles import Tiling
from hlo.ir import Instruction

# So many blocks keep a large GPU busy: one for each of its multiprocessors, and some more.
_BLOCKS = 160
# What has fewer rows or columns, or a shorter k, is no work for tiles.
_NARROW, _SHALLOW = 8, 8
# The fewest tiles along k that a part of it has.
_LEAST_STEPS = 8
# Registers of 32 bits for the sums of a thread, at the most.
_SUM_REGISTERS = 64


def add_product(steps: Steps, p: Product, sums: Sum, inst: Instruction, target: Target) -> None:
    """Append the steps of a product whose sizes are all positive."""
    p = replace(p, k=_sorted(p.k)).simplified()
    if (
        not isinstance(target, Gpu)
        or min(count(p.m), count(p.n)) < _NARROW
        or (count(p.k) < _SHALLOW)
    ):
        steps.emitters.append(Direct(p, Ending(sums)))
        return
    tiling = _tiling(p, sums)
    partial = -1
    if tiling.parts > 1:
        size = tiling.parts * count(p.batch) * count(p.m) * count(p.n)
        partial = steps.memory(size * sums.bytes)
    ending = Ending(sums, partial)
    steps.emitters.append(FmaProduct(p, tiling, ending))
    if tiling.parts > 1:
        steps.emitters.append(AddParts(p, ending, tiling.parts))


def _sorted(dims: Dims) -> Dims:
    """Return dimensions of k, the closest in the memory of the second operand last."""
    return tuple(sorted(dims, key=lambda d: (-abs(d.b), -abs(d.a))))


def _tiling(p: Product, sums: Sum) -> Tiling:
    """Return the largest tiles of which there are enough, or small ones with k in parts."""
    depth = 16 if sums.bytes <= 8 else 8
    words = max(1, sums.bytes // 4)
    sides = [s for s in (128, 64, 32, 16) if s * s // 256 * words <= _SUM_REGISTERS]
    m, n = count(p.m), count(p.n)
    shapes = [Tiling(s, t, depth) for s in sides for t in sides if s == t or min(m, n) < 64]
    fitting = [t for t in shapes if t.m < 2 * max(m, 16) and t.n < 2 * max(n, 16)]
    wide = [t for t in fitting if t.blocks(p) >= _BLOCKS]
    chosen = wide[0] if wide else fitting[min(1, len(fitting) - 1)]
    return replace(chosen, parts=_parts(p, chosen))


def _parts(p: Product, tiling: Tiling) -> int:
    """Return into how many parts to cut k, so that there are blocks enough."""
    wanted = min(-(-_BLOCKS // tiling.blocks(p)), tiling.steps(p) // _LEAST_STEPS)
    each = -(-tiling.steps(p) // max(1, wanted))
    return -(-tiling.steps(p) // each)
