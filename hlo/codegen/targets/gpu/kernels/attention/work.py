"""What an attention does, for the model of speed."""

from __future__ import annotations

from hlo.codegen.kernels.matmul.product import count
from hlo.codegen.targets.gpu.kernels.attention.tiling import KEYS, Attention
from hlo.codegen.targets.gpu.kernels.matmul.cost import operand_bytes
from hlo.codegen.targets.gpu.kernels.matmul.units import COLUMNS
from hlo.gpu.work import Unit, Work

# Operations of each weight: an exponential, and what is computed around it.
_OF_WEIGHT = 50


def work_of(a: Attention) -> Work:
    """Return what one launch does."""
    first, last = a.units
    scores = a.blocks * a.rows * a.tiles * KEYS
    depth, width = a.steps * first.depth, a.fragments * COLUMNS
    tensor = [
        (unit.core, 2 * (3 if unit.is_split else 1) * scores * size)
        for unit, size in ((first, depth), (last, width))
    ]
    stored = count(a.last.batch) * count(a.last.m) * count(a.last.n)
    stored *= a.last.store.chain[-1].byte_width
    memory = operand_bytes(a.first, "a") + operand_bytes(a.first, "b") + operand_bytes(a.last, "b")
    tile = KEYS * (depth * first.size + width * last.size)
    copied = a.blocks * (a.tiles * tile + a.rows * depth * first.size)
    # Each warp reads its rows of Q, and all of the tiles of K and V.
    read = a.blocks * a.warps * a.tiles * (tile + 16 * depth * first.size)
    operations = (*tensor, (Unit.F32, _OF_WEIGHT * scores))
    return Work(operations, memory + stored, copied + stored, copied + read)
