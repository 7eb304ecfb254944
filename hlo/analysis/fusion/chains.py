"""Chains of products: one operand of a product is made, row by row, of the results of others.

Attention is one: of a row of `Q K'`, and of nothing else, come the weights with which rows of V are
added up. A kernel that takes some rows of the first product at a time, makes of them the same rows
of the operand, and multiplies these, has in the cache all that lies between the products. Here is
decided which products, and what is computed with their results, are fused into the last one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from hlo.analysis.fusion.operations import MAX_INSTRUCTIONS, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.analysis.fusion.rows import Rows, absorbed_by, can_absorb, readers_of, row_space, walk_rows
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import is_plain, loop_order
from hlo.values.types import ArrayShape

# A row's length. How many rows have to be products with the same matrices.
_SHORTEST, _LONGEST, _ROWS = 8, 32768, 8
# Bytes of the matrices that each block of rows is multiplied by: with reductions of rows, which
# read a result several times otherwise, and without.
_REDUCED_BYTES, _PLAIN_BYTES = 8 << 20, 1 << 20


@dataclass(frozen=True)
class Chain:
    """A product whose operand is made of others' results.

    number: of that operand. rows: how it is computed, row by row: rows run along the dimensions
    that `last` contracts. first: the products that its rows are made of, in order.
    """

    last: Instruction
    number: int
    rows: Rows
    first: tuple[Instruction, ...]

    @property
    def operand(self) -> Instruction:
        return self.last.operands[self.number]


def chain_of(last: Instruction, roles: Mapping[Instruction, Role]) -> Chain | None:
    """Return the chain that a product's kernel computes, None if its operands are in memory."""
    for number, operand in enumerate(last.operands):
        if roles[operand] is not Role.FUSED:
            continue
        rows = _space(last, number)
        if rows is None or not walk_rows(rows, roles):
            continue
        parent = last.parent
        assert parent is not None
        found = [i for i in rows.uses if i.opcode == "dot" and roles[i] is Role.FUSED]
        if found:
            position = {inst: n for n, inst in enumerate(parent.in_order())}
            return Chain(last, number, rows, tuple(sorted(found, key=position.__getitem__)))
    return None


def absorb_chains(comp: Computation, roles: MutableMapping[Instruction, Role]) -> None:
    """Fuse products, and what is computed with their results, into the products that use them."""
    if sum(i.opcode == "dot" for i in comp) < 2:
        return
    readers: dict[Instruction, set[Instruction]] = {}
    for last in reversed(comp.in_order()):
        if last.opcode != "dot" or roles[last] is not Role.KERNEL:
            continue
        for number in range(2):
            changes = _absorbed(last, number, comp, roles, readers)
            if changes:
                roles.update(changes)
                readers.clear()
                break


def _absorbed(
    last: Instruction,
    number: int,
    comp: Computation,
    roles: Mapping[Instruction, Role],
    readers: dict[Instruction, set[Instruction]],
) -> dict[Instruction, Role]:
    """Return the roles that change where a product absorbs what one of its operands is made of."""
    root = last.operands[number]
    rows = _space(last, number)
    if rows is None or not is_on_demand(root) or not _may_absorb(rows, roles):
        return {}
    if readers_of(root, comp, roles) != {last}:
        return {}
    changes = absorbed_by(
        rows, {root, last}, comp, roles, readers,
        lambda rows, inst: _is_first(rows, inst, last, number) or can_absorb(rows, inst),
    )  # fmt: skip
    first = [i for i in changes if i.opcode == "dot"]
    if not first or not _fits(rows, first, last, number):
        return {}
    changes[root] = Role.FUSED
    # What products multiply by comes from memory.
    matrices = [last.operands[1 - number], *(o for inst in first for o in inst.operands)]
    trial = {**roles, **changes}
    return changes if _below(matrices, trial).isdisjoint(changes) else {}


def _space(last: Instruction, number: int) -> Rows | None:
    """Return the rows of a product's operand, along which it is contracted."""
    side = ("lhs", "rhs")[number]
    shape = last.operands[number].array_shape
    if not _is_real(last.shape) or not all(map(_is_real, last.operand_shapes)):
        return None
    if not is_plain(shape) or not last.array_shape.num_elements:
        return None
    rows = row_space(last.operands[number], last.attrs[f"{side}_contracting_dims"])
    return rows if rows is not None and _SHORTEST <= rows.length <= _LONGEST else None


def _is_real(shape: object) -> bool:
    return isinstance(shape, ArrayShape) and shape.element_type.is_float


def _may_absorb(rows: Rows, roles: Mapping[Instruction, Role]) -> bool:
    """True when rows depend, through what can be part of them, on a product of their size."""
    todo, seen = [rows.root], {rows.root}
    while todo and len(seen) <= MAX_INSTRUCTIONS:
        for inst in todo.pop().operands:
            if inst in seen or not isinstance(inst.shape, ArrayShape) or not inst.shape.dims:
                continue
            if inst.opcode == "dot":
                if rows.is_like(inst.shape) and roles[inst] is Role.KERNEL:
                    return True
            elif is_on_demand(inst) or inst.opcode == "reduce":
                seen.add(inst)
                todo.append(inst)
    return False


def _is_first(rows: Rows, inst: Instruction, last: Instruction, number: int) -> bool:
    """True for a product whose rows, computed in blocks, are those of the space.

    Along a row runs all that is free of one of its operands; some of what is free of the other one
    is free of `last`, too: such rows are products with the same matrices.
    """
    if inst.opcode != "dot" or not _is_real(inst.shape) or not rows.is_row_array(inst):
        return False
    lhs, rhs = inst.operand_shapes
    if not _is_real(lhs) or not _is_real(rhs) or not inst.operands[0].array_shape.num_elements:
        return False
    shape, batch = inst.array_shape, len(inst.lhs_batch_dims)
    split = inst.operands[0].array_shape.rank - len(inst.lhs_contracting_dims)
    order = loop_order(shape)
    along = set(order[rows.outer :])
    sides = [range(batch, split), range(split, shape.rank)]
    if not any(along == {d for d in side if shape.dims[d] != 1} for side in sides):
        return False
    shared = last.attrs[("lhs", "rhs")[number] + "_batch_dims"]
    pairs = zip(order[: rows.outer], rows.order[: rows.outer], strict=True)
    return math.prod(shape.dims[d] for d, e in pairs if d >= batch and e not in shared) >= _ROWS


def _fits(
    rows: Rows,
    first: list[Instruction],
    last: Instruction,
    number: int,
) -> bool:
    """True when the matrices that each block of rows is multiplied by stay in a cache."""
    other = last.operands[1 - number].array_shape
    batch = math.prod(other.dims[d] for d in last.attrs[("rhs", "lhs")[number] + "_batch_dims"])
    width = other.num_elements // batch
    for inst in first:
        lhs = inst.operands[0].array_shape
        width += rows.length * math.prod(lhs.dims[d] for d in inst.lhs_contracting_dims)
    is_reduced = any(inst.opcode == "reduce" for inst in rows.uses)
    most = _REDUCED_BYTES if is_reduced else _PLAIN_BYTES
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
