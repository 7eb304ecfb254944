"""Row by row: reductions over contiguous rows, computed where their results are used.

A softmax or a normalization reads its rows several times: for a maximum, a sum, and what comes of
them. A kernel that takes one row after the other does all of that while the row is in cache, and
nothing but the result goes to memory. Here is decided which kernels are absorbed by the one that
uses them; they become fused. Values of a row are computed once, before its elements; arrays that
are costly and used more than once are kept for the length of a row.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import cast

from hlo.analysis.fusion.accesses import LoopDims, arrays_in, operand_loop_dims
from hlo.analysis.fusion.operations import CHEAP, MAX_INSTRUCTIONS, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import is_plain, loop_order
from hlo.values.types import ArrayShape

# Bytes of a row's arrays that are kept on the stack.
_KEPT_BYTES = 65536
RENAMED = frozenset({"reshape", "transpose", "copy"})
PRODUCTS = frozenset({"dot", "convolution"})


@dataclass(frozen=True)
class RowLimits:
    """Which rows are worth a kernel: by their length, and by how many there are to share out.

    takes: whether a reduction may be one of theirs.
    """

    shortest: int = 32
    longest: int = 16384
    count: int = 64
    takes: Callable[[Instruction], bool] = lambda _: True

    def allow(self, rows: Rows) -> bool:
        return self.shortest <= rows.length <= self.longest and rows.row_count >= self.count


USUAL_ROWS = RowLimits()


@dataclass
class Rows:
    """The loops of a kernel that goes row by row, and what it computes on the way.

    order: the dimensions of the row space, in memory order and without those of size one; the first
    `outer` of them number rows. uses: how each instruction is reached, as the dimension of it that
    each loop runs over; count: by how many others; walked: those whose operands have been.
    """

    root: Instruction
    space: ArrayShape
    order: tuple[int, ...]
    outer: int
    uses: dict[Instruction, set[LoopDims]] = field(default_factory=dict)
    count: dict[Instruction, int] = field(default_factory=dict)
    walked: set[Instruction] = field(default_factory=set)

    @property
    def reduced(self) -> set[int]:
        """The dimensions along a row."""
        return set(self.order[self.outer :])

    @property
    def length(self) -> int:
        return math.prod(self.space.dims[d] for d in self.reduced)

    @property
    def row_count(self) -> int:
        return math.prod(self.space.dims[d] for d in self.order[: self.outer])

    def is_row_value(self, inst: Instruction) -> bool:
        """True when an instruction has one value for each row, always found in the same way."""
        loop_dims = self.uses[inst]
        return len(loop_dims) == 1 and all(p is None for p in next(iter(loop_dims))[self.outer :])

    def is_row_array(self, inst: Instruction) -> bool:
        """True when an instruction has an element for each of a row, always its own."""
        if not isinstance(inst.shape, ArrayShape) or not self.is_like(inst.shape):
            return False
        return self.uses[inst] == {tuple(loop_order(inst.shape))}

    def loops_of(self, inst: Instruction) -> tuple[int, ...] | None:
        """Return the dimension of an array that each loop of the space runs over.

        None unless each element of the space depends on one of its own, the same in all uses.
        """
        if not isinstance(inst.shape, ArrayShape) or not is_plain(inst.shape):
            return None
        if len(self.uses[inst]) != 1:
            return None
        (loop_dims,) = self.uses[inst]
        dims = tuple(d for d in loop_dims if d is not None)
        if sorted(dims) != sorted(loop_order(inst.shape)) or len(dims) != len(self.order):
            return None
        return dims if [inst.shape.dims[d] for d in dims] == _sizes(self.space) else None

    def is_like(self, shape: ArrayShape) -> bool:
        """True for an array in which the elements of the space lie in the same order."""
        return is_plain(shape) and _sizes(shape) == _sizes(self.space)

    def reduces(self, inst: Instruction) -> bool:
        """True when an instruction reduces the rows of this space, one value each."""
        if inst.opcode != "reduce" or not isinstance(inst.shape, ArrayShape):
            return False
        source = inst.operands[0].array_shape
        loops = loop_order(source)
        if not self.is_like(source) or _reduced(inst) != loops[self.outer :]:
            return False
        kept = [d for d in range(source.rank) if d not in inst.dimensions]
        (loop_dims,) = self.uses.get(inst, {()})
        return not loop_dims or all(
            p is not None and p >= 0 and kept[p] == d
            for p, d in zip(loop_dims[: self.outer], loops, strict=False)
        )


def _sizes(shape: ArrayShape) -> list[int]:
    """Return the sizes of an array's dimensions, in memory order and without those of one."""
    return [shape.dims[d] for d in loop_order(shape)]


def _reduced(reduce: Instruction) -> list[int]:
    """Return which dimensions of more than one element are reduced, in memory order."""
    return [d for d in loop_order(reduce.operands[0].array_shape) if d in reduce.dimensions]


def rows_of(root: Instruction, roles: Mapping[Instruction, Role]) -> Rows | None:
    """Return how a kernel goes row by row, None for one that has no fused reduction."""
    todo, seen = list(root.operands), set[Instruction]()
    while todo:
        inst = todo.pop()
        if inst in seen or roles[inst] is not Role.FUSED:
            continue
        if inst.opcode == "reduce":
            rows = _space(root, inst)
            if rows is None:
                return None  # see `endings`
            walk_rows(rows, roles)
            return rows
        seen.add(inst)
        todo.extend(inst.operands)
    return None


def locals_of(rows: Rows, roles: Mapping[Instruction, Role]) -> list[tuple[Instruction, bool]]:
    """Return what is computed ahead of a row's elements, in order: row values and row arrays.

    The flag tells an array, which is kept.
    """
    found: list[tuple[Instruction, bool]] = []
    cost: dict[Instruction, float] = {}
    for inst in _in_order(rows):
        if inst is rows.root or roles[inst] is not Role.FUSED:
            continue
        if inst.opcode in PRODUCTS:
            continue  # all its rows are there before, see `chains`
        if inst.opcode == "reduce":
            found.append((inst, False))
            continue
        operands = dict.fromkeys(inst.operands)
        cost[inst] = inst.spec.cost + sum(cost.get(o, 0.0) for o in operands)
        if cost[inst] <= CHEAP:
            continue
        if rows.is_row_value(inst):
            found.append((inst, False))
            cost[inst] = 0.0
        elif rows.count[inst] > 1 and rows.is_row_array(inst):
            found.append((inst, True))
            cost[inst] = 0.0
    return found


def row_space(root: Instruction, dimensions: Collection[int]) -> Rows | None:
    """Return the rows of an array along some dimensions, None if those are not the innermost."""
    shape = root.array_shape
    order = loop_order(shape)
    gone = [d for d in order if d in dimensions]
    outer = len(order) - len(gone)
    return Rows(root, shape, tuple(order), outer) if gone and order[outer:] == gone else None


def _in_order(rows: Rows) -> list[Instruction]:
    """Return what a kernel reads, each after its operands.

    A walk over these alone: the computation may be a thousand times as large.
    """
    done: set[Instruction] = set()
    order: list[Instruction] = []
    for start in rows.uses:
        stack = [(start, iter(start.operands))]
        while stack:
            inst, rest = stack[-1]
            for operand in rest:
                if operand in rows.uses and operand not in done:
                    stack.append((operand, iter(operand.operands)))
                    break
            else:
                stack.pop()
                if inst not in done:
                    done.add(inst)
                    order.append(inst)
    return order


def _space(root: Instruction, reduce: Instruction) -> Rows | None:
    """Return the row space of a kernel that a reduction's result goes into, if they go together."""
    shape = root.operands[0].shape if root.opcode == "reduce" else root.shape
    if not isinstance(shape, ArrayShape) or not is_plain(shape) or root.shape.is_tuple:
        return None
    order, gone = loop_order(shape), _reduced(reduce)
    rows = Rows(root, shape, tuple(order), len(order) - len(gone))
    if not gone or not rows.reduces(reduce):
        return None
    if root.opcode == "reduce" and _reduced(root) != order[rows.outer :]:
        return None
    return rows


def walk_rows(
    rows: Rows,
    roles: Mapping[Instruction, Role],
    grown: Iterable[Instruction] | None = None,
    changes: Mapping[Instruction, Role] = MappingProxyType({}),
) -> bool:
    """Find all that the root reads, through what is fused; False if that is too much.

    grown: what has become fused since the last walk, which this one continues. changes: roles that
    are others by now than in `roles`.
    """
    uses, count, walked = rows.uses, rows.count, rows.walked
    todo: list[tuple[Instruction, LoopDims]] = []

    def visit(node: Instruction, loop_dims: LoopDims) -> None:
        arrays = arrays_in(node.operands)
        if node not in walked:
            walked.add(node)
            for operand in arrays:
                count[operand] = count.get(operand, 0) + 1
        if node.opcode == "reduce":
            along = tuple(loop_order(node.operands[0].array_shape))
            todo.extend((operand, along) for operand in arrays)
        else:
            todo.extend((o, operand_loop_dims(node, o, loop_dims)) for o in arrays)

    if grown is None:
        uses.clear()
        count.clear()
        walked.clear()
        visit(rows.root, rows.order)
    for start in grown or ():
        if start not in walked and start.opcode not in PRODUCTS:
            for loop_dims in uses[start]:
                visit(start, loop_dims)
    while todo:
        node, loop_dims = todo.pop()
        known = uses.get(node)
        if known is None:
            known = uses[node] = set()
        elif loop_dims in known:
            continue
        known.add(loop_dims)
        if len(uses) > MAX_INSTRUCTIONS:
            return False
        role = changes.get(node) or roles[node]
        renamed = role is Role.ALIAS and node.opcode in RENAMED
        if node.opcode not in PRODUCTS and (role is Role.FUSED or renamed):
            visit(node, loop_dims)
    return True


# --- which kernels are absorbed -----------------------------------------------------------------


def absorb_rows(
    comp: Computation, roles: MutableMapping[Instruction, Role], limits: RowLimits = USUAL_ROWS
) -> None:
    """Fuse reductions over rows, and what goes with them, into the kernels that use them."""
    if not any(i.opcode == "reduce" for i in comp):
        return
    readers: dict[Instruction, set[Instruction]] = {}
    barren: dict[object, set[Instruction]] = {}
    for root in reversed(comp.in_order()):
        if roles[root] is not Role.KERNEL or root.opcode == "constant":
            continue
        if is_on_demand(root) or root.opcode == "reduce":
            if root.opcode == "reduce" and not limits.takes(root):
                continue
            rows = _first_space(root, roles, barren, limits)
            changed = {} if rows is None else _absorbed(rows, comp, roles, readers, limits)
            if changed:
                roles.update(changed)
                readers.clear()


def _absorbed(
    rows: Rows,
    comp: Computation,
    roles: MutableMapping[Instruction, Role],
    readers: dict[Instruction, set[Instruction]],
    limits: RowLimits,
) -> dict[Instruction, Role]:
    """Return the roles that change where a kernel absorbs others: none if no reduction is one."""

    def absorbs(rows: Rows, inst: Instruction) -> bool:
        return (inst.opcode != "reduce" or limits.takes(inst)) and can_absorb(rows, inst)

    changes = absorbed_by(rows, {rows.root}, comp, roles, readers, absorbs)
    return changes if any(i.opcode == "reduce" for i in changes) else {}


def absorbed_by(
    rows: Rows,
    members: set[Instruction],
    comp: Computation,
    roles: Mapping[Instruction, Role],
    readers: dict[Instruction, set[Instruction]],
    absorbs: Callable[[Rows, Instruction], bool],
) -> dict[Instruction, Role]:
    """Return the roles that change where rows are computed with all that only they are made of.

    members: kernels, or what becomes part of one, that may read what is absorbed; to which that is
    added. readers: of instructions, as far as known by these roles. absorbs: whether an instruction
    that is a kernel can be part of the rows. There are no changes if the rows take too much memory.
    """
    changes: dict[Instruction, Role] = {}
    # What one more kernel reads is added to what is known: nothing is walked twice.
    grown: list[Instruction] | None = None
    pending: list[Instruction] = []
    seen = 0
    while grown is None or grown:
        if not walk_rows(rows, roles, grown, changes):
            return {}
        found = islice(rows.uses, seen, None)
        pending += (i for i in found if roles[i] is Role.KERNEL and i.opcode != "constant")
        grown, left, seen = [], [], len(rows.uses)
        for inst in pending:
            if inst not in readers:
                readers[inst] = readers_of(inst, comp, roles)
            if readers[inst] <= members and absorbs(rows, inst):
                changes[inst] = Role.FUSED
                members.add(inst)
                grown.append(inst)
            else:
                left.append(inst)
        pending = left
    if not changes:
        return {}
    for inst in _in_order(rows):
        if roles[inst] is Role.ALIAS and (
            inst.operands[0] in changes or roles[inst.operands[0]] is Role.FUSED
        ):
            changes[inst] = Role.FUSED
            grown.append(inst)
    walk_rows(rows, roles, grown, changes)
    trial = ChainMap(changes, cast(MutableMapping[Instruction, Role], roles))
    kept = [i.shape for i, is_array in locals_of(rows, trial) if is_array]
    size = sum(s.element_type.byte_width for s in kept)  # type: ignore[attr-defined]
    return changes if size * rows.length <= _KEPT_BYTES else {}


def _first_space(
    root: Instruction,
    roles: Mapping[Instruction, Role],
    barren: MutableMapping[object, set[Instruction]],
    limits: RowLimits,
) -> Rows | None:
    """Return the row space of a kernel by a reduction that it reads.

    barren: by what a space depends on at its root, the instructions that are known to read no such
    reduction. It stays true: kernels become fused, and nothing becomes a kernel.
    """
    if root.shape.is_tuple:
        return None
    source = root.operands[0] if root.opcode == "reduce" else root
    kind = (source.shape, root.dimensions if root.opcode == "reduce" else None)
    known = barren.setdefault(kind, set())
    todo, seen = list(root.operands), set[Instruction]()
    while todo:
        inst = todo.pop()
        if inst in seen or inst in known:
            continue
        if not isinstance(inst.shape, ArrayShape) or not inst.shape.dims:
            continue
        seen.add(inst)
        if inst.opcode == "reduce" and roles[inst] is Role.KERNEL:
            rows = _space(root, inst)
            if rows and limits.allow(rows):
                return rows
        elif inst.opcode in RENAMED or is_on_demand(inst):
            todo.extend(inst.operands)
    known |= seen
    return None


def can_absorb(rows: Rows, inst: Instruction) -> bool:
    """True for a kernel that rows can be computed with: a reduction of them, or an operation."""
    if not is_plain(inst.shape):
        return False
    if inst.opcode == "reduce":
        return rows.is_row_value(inst) and rows.reduces(inst)
    return is_on_demand(inst) and (rows.is_row_value(inst) or rows.is_row_array(inst))


def readers_of(
    inst: Instruction, comp: Computation, roles: Mapping[Instruction, Role]
) -> set[Instruction]:
    """Return the instructions that are not fused and read a value, under any name."""
    found: set[Instruction] = {inst} if inst is comp.root else set()
    todo, seen = list(inst.users), set[Instruction]()
    while todo:
        user = todo.pop()
        if user in seen:
            continue
        seen.add(user)
        renamed = roles[user] is Role.ALIAS and user.opcode in RENAMED
        if user is not comp.root and (roles[user] is Role.FUSED or renamed):
            todo.extend(user.users)
        else:
            found.add(user)
    return found
