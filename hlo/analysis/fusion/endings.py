"""Endings of products: what is computed of each element of a product's result, and nothing else.

A kernel that has a sum in a register adds the bias and applies the activation there, and stores
what comes of it. Every element of the last array has to depend on one of the product's, its own.
Reductions have endings in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from hlo.analysis.fusion.accesses import LoopDims, transposed_reads
from hlo.analysis.fusion.operations import is_multi_output, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import (
    PRODUCTS,
    Rows,
    absorbed_by,
    readers_of,
    row_space,
    rows_of,
    walk_rows,
)
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import is_plain, loop_order
from hlo.values.types import ArrayShape


def absorb_endings(comp: Computation, roles: MutableMapping[Instruction, Role]) -> None:
    """Fuse products into the kernels that compute something of each element of their results."""
    readers: dict[Instruction, set[Instruction]] = {}
    for inst in comp.in_order():
        if inst.opcode in PRODUCTS and roles[inst] is Role.KERNEL and _is_whole(inst):
            changes = _ended(inst, comp, roles, readers)
            if changes:
                roles.update(changes)
                readers.clear()


def absorb_reductions(comp: Computation, roles: MutableMapping[Instruction, Role]) -> None:
    """Fuse reductions into the kernels that compute something of each element of their results."""
    readers: dict[Instruction, set[Instruction]] = {}
    for inst in comp.in_order():
        if inst.opcode == "reduce" and roles[inst] is Role.KERNEL and _has_elements(inst):
            if not inst.array_shape.dims:
                roles.update(_ended_scalar(inst, comp, roles))
                continue
            changes = _ended(inst, comp, roles, readers)
            if changes:
                roles.update(changes)
                readers.clear()


def _ended_scalar(
    reduce: Instruction, comp: Computation, roles: Mapping[Instruction, Role]
) -> dict[Instruction, Role]:
    """Return the roles that change where a reduction to one number ends with what is made of it.

    That is all up to the first number that several others are made of.
    """
    last, path = reduce, []
    while last is not comp.root and len(last.users) == 1:
        (user,) = last.users
        if roles[user] is not Role.SCALAR or not is_on_demand(user):
            break
        path.append(last)
        last = user
    return {**dict.fromkeys(path, Role.FUSED), last: Role.KERNEL} if path else {}


def reduction_in(root: Instruction, roles: Mapping[Instruction, Role]) -> Instruction | None:
    """Return the reduction that is fused into a kernel, if there is one."""
    return _fused_in(root, roles, frozenset({"reduce"}))


def product_in(root: Instruction, roles: Mapping[Instruction, Role]) -> Instruction | None:
    """Return the product that is fused into a kernel, if there is one."""
    return _fused_in(root, roles, PRODUCTS)


def _fused_in(
    root: Instruction, roles: Mapping[Instruction, Role], opcodes: frozenset[str]
) -> Instruction | None:
    todo, seen = [root], {root}
    while todo:
        for inst in todo.pop().operands:
            if inst in seen or roles[inst] is not Role.FUSED:
                continue
            if inst.opcode in opcodes:
                return inst
            seen.add(inst)
            todo.append(inst)
    return None


def space_of(root: Instruction, roles: Mapping[Instruction, Role]) -> Rows | None:
    """Return the loops over an array, and how they run over what it is computed of."""
    order = loop_order(root.array_shape)
    if not root.array_shape.dims:
        return Rows(root, root.array_shape, (), 0, uses=_Numbers())
    rows = row_space(root, order[-1:])
    return rows if rows is not None and walk_rows(rows, roles) else None


class _Numbers(dict[Instruction, set[LoopDims]]):
    """How a number is reached: there are no loops."""

    def __missing__(self, inst: Instruction) -> set[LoopDims]:
        return {()}


def _ended(
    product: Instruction, comp: Computation, roles: Mapping[Instruction, Role],
    readers: dict[Instruction, set[Instruction]],
) -> dict[Instruction, Role]:  # fmt: skip
    """Return the roles that change where the only reader of a product, or a reduction, computes
    it."""
    found = readers[product] = readers_of(product, comp, roles)
    if len(found) != 1:
        return {}
    (root,) = found
    if roles[root] is not Role.KERNEL or not is_on_demand(root) or is_multi_output(root):
        return {}
    if not is_plain(root.shape) or rows_of(root, roles) is not None:
        return {}
    order = loop_order(root.array_shape)
    if _fused_in(root, roles, PRODUCTS | {"reduce"}) is not None or transposed_reads(
        root, roles, order
    ):
        return {}
    if _fused_in(product, roles, PRODUCTS) is not None:
        return {}  # a chain
    rows = row_space(root, order[-1:])
    if rows is None:
        return {}
    return absorbed_by(
        rows, {root}, comp, roles, readers,
        lambda rows, inst: inst is product and rows.loops_of(inst) is not None,
    )  # fmt: skip


def _has_elements(reduce: Instruction) -> bool:
    """True for a reduction with one array as its result, of something."""
    shape = reduce.shape
    return isinstance(shape, ArrayShape) and is_plain(shape) and shape.num_elements > 0


def _is_whole(product: Instruction) -> bool:
    """True for a product that is one sum for each element, of something."""
    shape = product.array_shape
    if not is_plain(shape) or shape.is_dynamic or len(product.operands) != 2:
        return False
    if not all(s.num_elements for s in (shape, *(o.array_shape for o in product.operands))):
        return False
    # A dilated input makes several products.
    return product.opcode == "dot" or all(d.lhs_dilate == 1 for d in product.window)
