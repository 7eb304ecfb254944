"""Chains of products: what is made of a product's result, row by row, and what is made of that.

Attention is one: of a row of `Q K'`, and of nothing else, come the weights with which rows of V are
added up. A kernel that takes some rows of the first product at a time, makes of them the same rows
of the operand, and multiplies these, has in the cache all that lies between the products. A bias
and an activation, or a normalization, are the same without a last product: the rows are stored.
Here is decided which products, and what is computed with their results, such a kernel has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from hlo.analysis.fusion.accesses import transposed_reads
from hlo.analysis.fusion.operations import MAX_INSTRUCTIONS, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import (
    RENAMED,
    Rows,
    absorbed_by,
    can_absorb,
    readers_of,
    row_space,
    rows_of,
    walk_rows,
)
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import is_plain, loop_order
from hlo.values.types import ArrayShape

# The least length of a row. How many rows have to be products with the same matrices.
_SHORTEST, _ROWS = 8, 8
# A row's length where it is reduced and then stored: a block of some rows stays in the cache. How
# many rows there are then, at the least.
_LONGEST_STORED, _ROWS_STORED = 2048, 128
# What has fewer elements, each a sum of so many products, is better computed in shares of these.
_FEW, _DEEP = 1 << 14, 1024


@dataclass(frozen=True)
class Chain:
    """What a kernel makes of the results of products, row by row.

    root: the kernel. number: if that is a product, which of its operands is made so: rows run along
    what it contracts; otherwise None, and rows are the root's. first: the products that the rows
    are made of, in order.
    """

    root: Instruction
    number: int | None
    rows: Rows
    first: tuple[Instruction, ...]

    @property
    def operand(self) -> Instruction:
        """What is made row by row."""
        return self.rows.root

    @property
    def has_reductions(self) -> bool:
        return any(inst.opcode == "reduce" for inst in self.rows.uses)


@dataclass(frozen=True)
class ChainLimits:
    """Which chains are worth a kernel.

    longest: the length of a row of a last product's operand. reduced_bytes, plain_bytes: of the
    matrices that each block of rows is multiplied by: with reductions of rows, which read a result
    several times otherwise, and without. stores: whether rows may be the result, without a last
    product. takes: whether there is a kernel for a chain with a last product, by the roles that
    instructions have then.
    """

    longest: int = 32768
    reduced_bytes: int = 8 << 20
    plain_bytes: int = 1 << 20
    stores: bool = True
    takes: Callable[[Chain, Mapping[Instruction, Role]], bool] = lambda chain, roles: True


USUAL_CHAINS = ChainLimits()


def chain_of(root: Instruction, roles: Mapping[Instruction, Role]) -> Chain | None:
    """Return the chain that a kernel computes, None if no other product is fused into it."""
    first = _products_below(root, roles, Role.FUSED)
    if not first:
        return None
    numbers = range(2) if root.opcode == "dot" else (None,)
    for number in numbers:
        rows = _rows_along(root, first[0], roles) if number is None else _space(root, number)
        if rows is not None and walk_rows(rows, roles) and first[0] in rows.uses:
            return Chain(root, number, rows, tuple(first))
    raise AssertionError(root)


def _products_below(
    root: Instruction, roles: Mapping[Instruction, Role], role: Role
) -> list[Instruction]:
    """Return the products of a role that an instruction reads through what is fused into it."""
    found: dict[Instruction, None] = {}
    todo, seen = [root], {root}
    while todo:
        for inst in reversed(todo.pop().operands):
            if inst in seen:
                continue
            seen.add(inst)
            if inst.opcode == "dot" and roles[inst] is role:
                found[inst] = None
            elif roles[inst] is Role.FUSED:
                todo.append(inst)
            elif roles[inst] is Role.ALIAS and inst.opcode in RENAMED:
                todo.append(inst)
    return list(found)


def absorb_chains(
    comp: Computation,
    roles: MutableMapping[Instruction, Role],
    limits: ChainLimits = USUAL_CHAINS,
) -> None:
    """Fuse products, and what is computed with their results, into the kernels that use them."""
    if not any(i.opcode == "dot" for i in comp):
        return
    readers: dict[Instruction, set[Instruction]] = {}
    kernels = [i for i in comp.in_order() if roles[i] is Role.KERNEL and i.opcode != "constant"]
    for last in kernels:
        if last.opcode == "dot":
            for number in range(2):
                changes = _absorbed(last, number, comp, roles, readers, limits)
                if changes:
                    roles.update(changes)
                    readers.clear()
                    break
    for root in kernels if limits.stores else ():
        if roles[root] is Role.KERNEL and is_on_demand(root):
            changes = _finished(root, comp, roles, readers)
            if changes:
                roles.update(changes)
                readers.clear()


def _finished(
    root: Instruction,
    comp: Computation,
    roles: Mapping[Instruction, Role],
    readers: dict[Instruction, set[Instruction]],
) -> dict[Instruction, Role]:
    """Return the roles that change where an array is computed with the products that it reads."""
    found = [
        inst
        for inst in _products_below(root, roles, Role.KERNEL)
        if not _products_below(inst, roles, Role.FUSED)
    ]
    if not found or not is_plain(root.shape) or not _is_real(root.shape):
        return {}
    # Products alone are absorbed, and none that others read: mostly there is none.
    members = {root, *found}
    for inst in found:
        if inst not in readers:
            readers[inst] = readers_of(inst, comp, roles)
    if not any(readers[inst] <= members for inst in found):
        return {}
    # What is read across its order in memory needs loops of its own.
    if transposed_reads(root, roles, loop_order(root.array_shape)):
        return {}
    for inst in found:
        rows = _rows_along(root, inst, roles)
        if rows is None:
            continue
        changes = absorbed_by(
            rows,
            {root},
            comp,
            roles,
            readers,
            lambda rows, i: i in found and _is_first(rows, i, ()),
        )
        first = [i for i in changes if i.opcode == "dot"]
        if not first or not _divides(rows, first):
            continue
        matrices = [o for i in first for o in i.operands]
        if _below(matrices, {**roles, **changes}).isdisjoint(changes):
            return changes
    return {}


def _divides(rows: Rows, first: Sequence[Instruction]) -> bool:
    """True when there are blocks enough for threads, though sums are not cut into shares."""
    if any(i.opcode == "reduce" for i in rows.uses):
        return rows.length <= _LONGEST_STORED and rows.row_count >= _ROWS_STORED
    elements = rows.length * rows.row_count
    return elements >= _FEW or all(_depth(inst) < _DEEP for inst in first)


def _depth(inst: Instruction) -> int:
    """Return how many products each element of a product sums up."""
    lhs = inst.operands[0].array_shape
    return math.prod(lhs.dims[d] for d in inst.lhs_contracting_dims)


def _rows_along(
    root: Instruction, first: Instruction, roles: Mapping[Instruction, Role]
) -> Rows | None:
    """Return the rows of an array, along which a product has what is free of one operand."""
    rows = rows_of(root, roles)
    if rows is not None:
        return rows
    shape, batch = first.array_shape, len(first.lhs_batch_dims)
    split = first.operands[0].array_shape.rank - len(first.lhs_contracting_dims)
    order, own = loop_order(shape), loop_order(root.array_shape)
    for side in (range(split, shape.rank), range(batch, split)):
        along = [d for d in order if d in side]
        if along and order[-len(along) :] == along and len(own) == len(order):
            return row_space(root, own[-len(along) :])
    return None


def _absorbed(
    last: Instruction,
    number: int,
    comp: Computation,
    roles: Mapping[Instruction, Role],
    readers: dict[Instruction, set[Instruction]],
    limits: ChainLimits,
) -> dict[Instruction, Role]:
    """Return the roles that change where a product absorbs what one of its operands is made of."""
    root = last.operands[number]
    rows = _space(last, number) if is_on_demand(root) else None
    if rows is None or rows.length > limits.longest or not _may_absorb(rows, roles):
        return {}
    if readers_of(root, comp, roles) != {last}:
        return {}
    shared = last.attrs[("lhs", "rhs")[number] + "_batch_dims"]
    changes = absorbed_by(
        rows, {root, last}, comp, roles, readers,
        lambda rows, inst: (
            can_absorb(rows, inst)
            or (_is_first(rows, inst, shared) and not _products_below(inst, roles, Role.FUSED))
        ),
    )  # fmt: skip
    first = [i for i in changes if i.opcode == "dot"]
    if not first or not _fits(rows, first, last, number, limits):
        return {}
    changes[root] = Role.FUSED
    # What products multiply by comes from memory.
    matrices = [last.operands[1 - number], *(o for inst in first for o in inst.operands)]
    trial = {**roles, **changes}
    if not _below(matrices, trial).isdisjoint(changes):
        return {}
    chain = Chain(last, number, rows, tuple(first))
    return changes if limits.takes(chain, trial) else {}


def _space(last: Instruction, number: int) -> Rows | None:
    """Return the rows of a product's operand, along which it is contracted."""
    side = ("lhs", "rhs")[number]
    shape = last.operands[number].array_shape
    if not _is_real(last.shape) or not all(map(_is_real, last.operand_shapes)):
        return None
    if not is_plain(shape) or not last.array_shape.num_elements:
        return None
    rows = row_space(last.operands[number], last.attrs[f"{side}_contracting_dims"])
    return rows if rows is not None and rows.length >= _SHORTEST else None


def _is_real(shape: object) -> bool:
    if not isinstance(shape, ArrayShape):
        return False
    et = shape.element_type
    return et.is_float or (et.is_integer and et.bits >= 8)


def _may_absorb(rows: Rows, roles: Mapping[Instruction, Role]) -> bool:
    """True when rows depend, through what can be part of them, on a product of their size."""
    todo, seen = [rows.root], {rows.root}
    size = rows.space.num_elements
    while todo and len(seen) <= MAX_INSTRUCTIONS:
        for inst in todo.pop().operands:
            if inst in seen or not isinstance(inst.shape, ArrayShape) or not inst.shape.dims:
                continue
            if inst.opcode == "dot":
                if inst.array_shape.num_elements == size and roles[inst] is Role.KERNEL:
                    return True
            elif is_on_demand(inst) or inst.opcode == "reduce":
                seen.add(inst)
                todo.append(inst)
    return False


def _is_first(rows: Rows, inst: Instruction, shared: Collection[int]) -> bool:
    """True for a product whose rows, computed in blocks, are those of the space.

    Along a row runs all that is free of one of its operands. Of what is free of the other one some
    is none of the `shared` dimensions of the space: such rows are multiplied by the same matrices.
    """
    if inst.opcode != "dot" or not _is_real(inst.shape):
        return False
    order = rows.loops_of(inst)
    if order is None:
        return False
    lhs, rhs = inst.operand_shapes
    if not _is_real(lhs) or not _is_real(rhs) or not inst.operands[0].array_shape.num_elements:
        return False
    shape, batch = inst.array_shape, len(inst.lhs_batch_dims)
    split = inst.operands[0].array_shape.rank - len(inst.lhs_contracting_dims)
    along = set(order[rows.outer :])
    sides = [range(batch, split), range(split, shape.rank)]
    if not any(along == {d for d in side if shape.dims[d] != 1} for side in sides):
        return False
    pairs = zip(order[: rows.outer], rows.order[: rows.outer], strict=True)
    return math.prod(shape.dims[d] for d, e in pairs if d >= batch and e not in shared) >= _ROWS


def _fits(
    rows: Rows,
    first: list[Instruction],
    last: Instruction,
    number: int,
    limits: ChainLimits,
) -> bool:
    """True when the matrices that each block of rows is multiplied by stay in a cache."""
    other = last.operands[1 - number].array_shape
    batch = math.prod(other.dims[d] for d in last.attrs[("rhs", "lhs")[number] + "_batch_dims"])
    width = other.num_elements // batch
    for inst in first:
        width += rows.length * _depth(inst)
    is_reduced = any(inst.opcode == "reduce" for inst in rows.uses)
    most = limits.reduced_bytes if is_reduced else limits.plain_bytes
    return width * max(4, other.element_type.byte_width) <= most


def _below(matrices: list[Instruction], roles: Mapping[Instruction, Role]) -> set[Instruction]:
    """Return all that is read for some operands, through what is no kernel."""
    found = set(matrices)
    todo = list(found)
    while todo:
        inst = todo.pop()
        if roles[inst] in (Role.FUSED, Role.ALIAS):
            new = set(inst.operands) - found
            found |= new
            todo += new
    return found
