"""What a tiled product does, and how long that takes a large GPU: how tiles are chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hlo.codegen.kernels.matmul.product import Dims, Product, count
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.codegen.targets.gpu.kernels.matmul.tiles import Tiling, WarpTiling
from hlo.codegen.targets.gpu.kernels.matmul.units import Unit
from hlo.gpu.work import Unit as Core
from hlo.gpu.work import Work

# Multiprocessors of a large GPU, for which there should be work; bytes that all of them get from
# the second-level cache in a cycle, from memory, and each from shared memory.
PROCESSORS = 132
_CACHED, _GLOBAL, _SHARED = 5120, 1700, 128
# Operations of a multiprocessor in a cycle.
_RATES = {
    Core.F32: 256, Core.F64: 128, Core.INTEGER: 64, Core.TENSOR_F64: 160, Core.TENSOR_TF32: 1270,
    Core.TENSOR_F16: 2540, Core.TENSOR_F8: 5080, Core.TENSOR_S8: 5080,
}  # fmt: skip
# Cycles that another launch takes, and that a block takes to begin and to end.
_LAUNCH, _BLOCK = 2000, 1000


@dataclass(frozen=True)
class Done:
    """What a kernel does, and an estimate of the cycles that it takes, with what adds up parts."""

    work: Work
    cycles: float


def mma_work(p: Product, unit: Unit, tiles: WarpTiling) -> Done:
    """Return what a product on tensor cores does."""
    tiling = tiles.tiling
    # Each warp reads what it multiplies; a tile is written once.
    read = tiles.columns * tiling.m + tiles.rows * tiling.n
    return _done(p, tiling, unit.core, 3 if unit.is_split else 1, unit.size, read)


def fma_work(p: Product, sums: Sum, tiling: Tiling) -> Done:
    """Return what a product without tensor cores does."""
    core, times = _core(sums)
    # What one thread of a row reads, the others of it get with it.
    read = 8 * tiling.m + tiling.n
    return _done(p, tiling, core, times, sums.bytes, read)


def plain_work(p: Product, sums: Sum, parts: int = 1) -> Work:
    """Return what a product does whose operands are not shared by the threads of a block."""
    core, times = _core(sums)
    products = count(p.batch) * count(p.m) * count(p.n) * count(p.k)
    results = count(p.batch) * count(p.m) * count(p.n)
    stored = results * (parts * sums.bytes if parts > 1 else p.store.chain[-1].byte_width)
    memory = sum(operand_bytes(p, side) for side in "ab") + stored
    return Work(((core, 2 * times * products),), memory)


def parts_work(p: Product, sums: Sum, parts: int) -> Work:
    """Return what it takes to add up sums of parts."""
    results = count(p.batch) * count(p.m) * count(p.n)
    core, _ = _core(sums)
    stored = results * p.store.chain[-1].byte_width
    return Work(((core, results * parts),), results * parts * sums.bytes + stored)


def _core(sums: Sum) -> tuple[Core, int]:
    """Return what computes products without tensor cores, and how many each one is."""
    total = sums.total
    core = Core.F32 if total.is_float or total.is_complex else Core.INTEGER
    if total.name in ("f64", "c128"):
        core = Core.F64
    return core, 4 if total.is_complex else 1


def _done(p: Product, tiling: Tiling, core: Core, times: int, size: int, read: int) -> Done:
    """read: elements that the warps of a block read from shared memory for each of k."""
    blocks, depth = tiling.blocks(p), tiling.each(p) * tiling.k
    results = count(p.batch) * count(p.m) * count(p.n)
    stored = results * p.store.chain[-1].byte_width
    if tiling.parts > 1:
        stored = results * tiling.parts * max(4, size)
    sides = tiling.m + tiling.n
    operations = 2 * times * blocks * tiling.m * tiling.n * depth
    cached = blocks * sides * depth * size + stored
    shared = blocks * (sides + read) * depth * size
    memory = sum(operand_bytes(p, side) for side in "ab") + stored
    work = Work(((core, operations),), memory, cached, shared)
    busy = operations / _RATES[core], shared / _SHARED
    turns = math.ceil(blocks / PROCESSORS)
    cycles = max(turns / blocks * max(busy), cached / _CACHED, memory / _GLOBAL)
    cycles += turns * _BLOCK
    if tiling.parts > 1:
        cycles += _LAUNCH + stored / _CACHED
    return Done(work, cycles)


def operand_bytes(p: Product, side: str) -> int:
    """Return the bytes of an operand's memory that are read."""
    source, dims = p.source(side), (*p.batch, *p.free(side), *p.k)
    return count(_own(dims, side)) * source.et.byte_width


def _own(dims: Dims, side: str) -> Dims:
    return tuple(d for d in dims if d.stride(side))
