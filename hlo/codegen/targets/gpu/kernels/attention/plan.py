"""Which chains of products are attention, and how large its tiles are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hlo.analysis.fusion.chains import Chain
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.weights import weights_of
from hlo.codegen.kernels.chain.dimensions import Rows
from hlo.codegen.kernels.chain.products import (
    first_product,
    last_product,
    path_to,
    result_in_space,
    rows_of_products,
    sums_of_dot,
    with_rows,
)
from hlo.codegen.kernels.matmul.product import Product, Source, count
from hlo.codegen.kernels.views import StridedView
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu
from hlo.codegen.targets.gpu.kernels.attention.kernel import AttentionKernel
from hlo.codegen.targets.gpu.kernels.attention.tiling import ROWS, Attention
from hlo.codegen.targets.gpu.kernels.matmul.choice import alignment_of
from hlo.codegen.targets.gpu.kernels.matmul.cost import PROCESSORS
from hlo.codegen.targets.gpu.kernels.matmul.layouts import CHUNK
from hlo.codegen.targets.gpu.kernels.matmul.sites import Site
from hlo.codegen.targets.gpu.kernels.matmul.sums import Sum
from hlo.codegen.targets.gpu.kernels.matmul.units import Unit, unit_of
from hlo.ir import Instruction

# Sums and operands of a lane are in registers: so wide may V be, by whether `mma` has operands of
# 16 bits; and so long what the first product sums over.
_WIDEST_HALF, _WIDEST, _DEEPEST = 256, 128, 256
# Warps of a block, the most first, and so many blocks there are then.
_WARPS = (8, 4, 2, 1)
_BLOCKS = {8: 6 * PROCESSORS, 4: PROCESSORS, 2: PROCESSORS, 1: 0}
# The bytes of a line of V from which on it is wide.
_WIDE_BYTES = 256


def attention_of(
    chain: Chain, roles: Mapping[Instruction, Role], gpu: Gpu
) -> tuple[Attention, Sum] | None:
    """Return how a chain is computed as attention, None if it cannot be."""
    if len(chain.first) != 1 or chain.number is None:
        return None
    weights = weights_of(chain, roles)
    if weights is None:
        return None
    found = _products(chain, roles, computed=False) or _products(chain, roles, computed=True)
    if found is None:
        return None
    (inst,) = chain.first
    sums = [Sum.of(sums_of_dot(i), i.array_shape.element_type) for i in (inst, chain.root)]
    first = unit_of(found.first, sums[0], inst, gpu)
    last = unit_of(found.last, sums[1], chain.root, gpu)
    if first is None or last is None or not (_is_usable(first) and _is_usable(last)):
        return None
    if last.lhs.name == "f16" and not weights.fits_half:
        return None
    loops = found.rows
    a = Attention(
        found.first, found.last, (first, last), loops.batch_steps, loops.row_steps, 1,
        found.aligned,
    )  # fmt: skip
    if not _fits(a):
        return None
    a = replace(a, warps=_warps(a, gpu))
    return (a, sums[1]) if a.shared_bytes <= gpu.most_shared_bytes else None


def plan_attention(chain: Chain, roles: Mapping[Instruction, Role], gpu: Gpu) -> Plan:
    """Return the kernel of a chain that is attention."""
    found = attention_of(chain, roles, gpu)
    assert found is not None
    return Plan((AttentionKernel(*found),))


@dataclass(frozen=True)
class _Products:
    """Both products with the loops over rows, and what the addresses of operands are multiples
    of."""

    first: Product
    last: Product
    rows: Rows
    aligned: tuple[int, int, int]


def _products(
    chain: Chain, roles: Mapping[Instruction, Role], *, computed: bool
) -> _Products | None:
    """Return the products of a chain, None if their operands count rows in different ways.

    computed: elements of operands are computed, or loaded, one by one; otherwise operands are views
    of memory where they can be.
    """
    (inst,) = chain.first
    root, number = chain.root, chain.number
    assert number is not None
    strides = tuple(dim[0][1] for dim in result_in_space(chain, inst).dims)
    site, end = Site(root, inst, path_to(root, inst, roles), strides), Site.plain(root)

    def operand(site: Site, n: int) -> tuple[StridedView, Source]:
        return site.computed_operand(n) if computed else site.operand(n, roles)

    views, sources = zip(*(operand(site, n) for n in (0, 1)), strict=True)
    first = first_product(chain, inst, views, sources)
    et = chain.operand.array_shape.element_type
    last = last_product(chain, number, *operand(end, 1 - number), et)
    if first is None or last is None:
        return None
    rows = rows_of_products(chain, [first, last])
    if rows is None:
        return None
    first, last = with_rows([first, last], rows)
    q, k, v = (alignment_of(s, root, roles) for s in (first.a, first.b, last.b))
    return _Products(first, last, rows, (q, k, v))


def _is_usable(unit: Unit) -> bool:
    return unit.total.name == "f32" and unit.rows == ROWS and unit.size in (2, 4)


def _fits(a: Attention) -> bool:
    """True when there are registers for a warp's sums, and rows enough for tiles."""
    widest = _WIDEST_HALF if a.units[1].size == 2 else _WIDEST
    return (
        count(a.last.n) <= widest and count(a.first.k) <= _DEEPEST and count(a.last.m) >= ROWS // 2
    )


def _warps(a: Attention, gpu: Gpu) -> int:
    """Return how many warps a block has: many, if that leaves blocks for all processors."""
    rows = -(-count(a.last.m) // ROWS)
    # All threads copy some of each tile.
    most = min(tile.free * tile.depth * tile.size for tile in (a.k, a.v)) // (CHUNK * gpu.lanes)
    # One warp alone has no registers for what it copies of wide tiles.
    is_wide = count(a.last.n) * a.units[1].size > _WIDE_BYTES
    fitting = [n for n in _WARPS if is_wide < n <= min(2 * rows - 1, most)]
    for n in fitting:
        if replace(a, warps=n).blocks >= _BLOCKS[n]:
            return n
    return min(fitting, default=2)
