"""The products of a chain, with the rows of its space as their m."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo.analysis.fusion.chains import Chain
from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.chain.dimensions import Rows, common_rows
from hlo.codegen.kernels.matmul.contraction import product_of
from hlo.codegen.kernels.matmul.product import (
    Dim,
    Dims,
    Product,
    Source,
    SumTypes,
    merged,
    sums_of,
)
from hlo.codegen.kernels.views import StridedView, whole_view
from hlo.ir import Instruction
from hlo.values.types import ElementType

# What a kernel computes on its way, or sees under another name.
_INSIDE = (Role.FUSED, Role.ALIAS)


def sums_of_dot(inst: Instruction) -> SumTypes:
    """Return the arithmetic of a product."""
    lhs, rhs = (o.array_shape.element_type for o in inst.operands)
    return sums_of(lhs, rhs, inst.array_shape.element_type)


def result_in_space(chain: Chain, inst: Instruction) -> StridedView:
    """Return the result of a first product as it lies in the space of rows."""
    rows, shape = chain.rows, inst.array_shape
    loops = rows.loops_of(inst)
    assert loops is not None
    strides, step = [0] * shape.rank, 1
    for d in reversed(loops):
        strides[d] = step
        step *= shape.dims[d]
    dims = tuple(((n, s),) for n, s in zip(shape.dims, strides, strict=True))
    return StridedView(inst, shape.element_type, 0, dims)


def first_product(
    chain: Chain, inst: Instruction, views: Sequence[StridedView], sources: Sequence[Source]
) -> Product | None:
    """Return a first product with what runs along rows as n, in its order there.

    None if its operands count dimensions in different ways.
    """
    p = product_of(inst, views, sources, sums_of_dot(inst), result_in_space(chain, inst))
    if p is None:
        return None
    if any(d.size != 1 and d.c < chain.rows.length for d in p.m):
        p = p.flipped()
    return replace(p, n=_sorted(p.n, "c", "bc"), k=_sorted(p.k, "b", "ab"))


def last_product(
    chain: Chain, number: int, view: StridedView, source: Source, et: ElementType
) -> Product | None:
    """Return the last product, with the rows as A: those of type `et` of an array by itself.

    number: of the operand that the rows are. view, source: of the other one. None if these count
    dimensions in different ways.
    """
    inst = chain.root
    sources, views = [source, source], [view, view]
    sources[number] = Source(-1, et)
    views[number] = whole_view(-1, chain.operand.array_shape)
    p = product_of(inst, views, sources, sums_of_dot(inst))
    if p is None:
        return None
    p = p.flipped() if number == 1 else p
    return replace(p, n=_sorted(p.n, "c", "bc"), k=_sorted(p.k, "a", "ab"))


def rows_of_products(chain: Chain, products: Sequence[Product]) -> Rows | None:
    """Return the loops over the rows of all products, None if they cut these differently."""
    sides = "c" * len(chain.first) + ("a" if chain.number is not None else "")
    return common_rows(products, sides, chain.rows.length)


def with_rows(products: Sequence[Product], rows: Rows) -> list[Product]:
    """Return products with these loops over rows."""
    return [replace(p, batch=rows.batch[n], m=rows.rows[n]) for n, p in enumerate(products)]


def path_to(
    root: Instruction, inst: Instruction, roles: Mapping[Instruction, Role]
) -> tuple[int, ...]:
    """Return the numbers of operands that lead from a kernel to a value fused into it."""
    # How each value is reached first: from which instruction, as which operand.
    found: dict[Instruction, tuple[Instruction, int]] = {root: (root, -1)}
    todo = [root]
    for node in todo:
        if node is inst:
            break
        for number, operand in enumerate(node.operands):
            if operand not in found and roles[operand] in _INSIDE:
                found[operand] = node, number
                todo.append(operand)
    path: list[int] = []
    while inst is not root:
        inst, number = found[inst]
        path.append(number)
    return tuple(reversed(path))


def _sorted(dims: Dims, side: str, sides: str) -> Dims:
    """Return dimensions as they lie in an array, merged where arrays allow it; at least one."""
    return merged(sorted(dims, key=lambda d: -abs(d.stride(side))), sides) or (Dim(1),)
