"""Places of array values: when each is used, and where every buffer lies.

Instructions of a flattened computation tree are numbered in execution order, the bodies of loops
and branches inside the number range of their instruction. A `Buffer` lives from its first to its
last number; buffers that never live together share memory in one arena.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush

import numpy as np

from hlo.codegen.fusion import Role, assign_roles
from hlo.codegen.rejoining import is_joint
from hlo.codegen.rows import absorb_rows
from hlo.ir import Computation, Instruction
from hlo.types import ArrayShape

ALIGNMENT = 64

Path = tuple[int, ...]
# A value in memory: the instruction that makes it and the place in its tuple.
Storage = tuple[Instruction, Path]


class Origin(Enum):
    """Whose memory a buffer is."""

    TEMP = "temp"
    PARAMETER = "parameter"
    OUTPUT = "output"
    SHARED = "shared"  # holds an argument, later a result
    CONSTANT = "constant"


@dataclass(eq=False)
class Buffer:
    """Memory for one or more values. `pointer` is its address in the entry function.

    space: the memory space, as in layouts. holds: the values that were put there and may be needed
    yet. locked: how many conditions of
    loops are being emitted that read what the loop's body will read again.
    """

    size_bytes: int
    origin: Origin
    pointer: str
    first: int = 0
    last: int = 0
    offset: int = 0
    space: int = 0
    holds: list[Storage] = field(default_factory=list)
    locked: int = 0

    def use(self, position: int) -> None:
        """Keep the buffer alive at a position."""
        self.last = max(self.last, position)

    @property
    def is_writable(self) -> bool:
        return not self.locked and self.origin not in (Origin.PARAMETER, Origin.CONSTANT)


@dataclass(frozen=True)
class Place:
    """An array value: the buffer it lies in."""

    buffer: Buffer


@dataclass
class Liveness:
    """Positions and uses of stored values, over a flattened computation tree."""

    roles: dict[Instruction, Role] = field(default_factory=dict)
    position: dict[Instruction, int] = field(default_factory=dict)
    # Where loops and branches begin: the number of the instruction itself stands at their end.
    start: dict[Instruction, int] = field(default_factory=dict)
    body_end: dict[Computation, int] = field(default_factory=dict)
    # What an array leaf of an instruction really is.
    storage: dict[Storage, Storage] = field(default_factory=dict)
    # Positions at which a stored value is used, ascending.
    uses: dict[Storage, list[int]] = field(default_factory=dict)
    # Stored values that a kernel or scalar reads, its fused operands included, in order.
    reads: dict[Instruction, list[Storage]] = field(default_factory=dict)
    _next: int = 0

    def visit(self, comp: Computation, params: Sequence[Instruction] | None = None) -> None:
        """Number a computation; `params` are the instructions that its parameters stand for."""
        roles = assign_roles(comp)
        absorb_rows(comp, roles)
        self.roles.update(roles)
        for inst in comp.in_order():
            role = self.roles[inst]
            if role is Role.CONTROL:
                self._visit_control(inst)
            self.position[inst] = self._tick()
            for path, leaf in inst.shape.leaves():
                if isinstance(leaf, ArrayShape):
                    self.storage[inst, path] = self._resolve(inst, path, params)
            if role in (Role.KERNEL, Role.SCALAR, Role.HOST):
                self.reads[inst] = self._leaves(inst)
                for stored in self.reads[inst]:
                    self._use(stored, self.position[inst])
        self.body_end[comp] = self._tick()
        self._use_all(comp.root, self.body_end[comp])

    def of(self, inst: Instruction, path: Path) -> Storage:
        """Return the stored value that a leaf stands for."""
        return self.storage[inst, path]

    def last_use(self, stored: Storage) -> int:
        """Return the last position at which a value is used, 0 if it never is."""
        uses = self.uses.get(stored)
        return uses[-1] if uses else 0

    def is_dead(
        self, stored: Storage, position: int, aside: Sequence[tuple[int, int]] = ()
    ) -> bool:
        """True when a value is not used after a position.

        aside: ranges of positions, from after one to another, that do not follow this one: the
        branches that are not taken where this one is.
        """
        uses = self.uses.get(stored, [])
        return all(
            any(low < use <= high for low, high in aside)
            for use in uses[bisect_right(uses, position) :]
        )

    def _tick(self) -> int:
        self._next += 1
        return self._next

    def _use(self, stored: Storage, position: int) -> None:
        self.uses.setdefault(stored, []).append(position)

    def _use_all(self, inst: Instruction, position: int) -> None:
        for path, leaf in inst.shape.leaves():
            if isinstance(leaf, ArrayShape):
                self._use(self.storage[inst, path], position)

    def _visit_control(self, inst: Instruction) -> None:
        start = self.start[inst] = self._tick()
        for operand in inst.operands:
            self._use_all(operand, start)
        if inst.opcode == "while":
            # The state inside is not the loop's result: it ends with the body.
            for comp in inst.called_computations:
                self.visit(comp)
        else:
            for operand, comp in zip(inst.operands[1:], inst.called_computations, strict=True):
                self.visit(comp, [operand])

    def _resolve(
        self, inst: Instruction, path: Path, params: Sequence[Instruction] | None
    ) -> Storage:
        operands = inst.operands
        match inst.opcode:
            case "parameter" if params is not None:
                return self.storage[params[inst.attrs["number"]], path]
            case "tuple" if not is_joint(inst):
                return self.storage[operands[path[0]], path[1:]]
            case "get-tuple-element":
                return self.storage[operands[0], (inst.attrs["index"], *path)]
            case "opt-barrier" | "domain" | "add-dependency":
                return self.storage[operands[0], path]
            case _ if self.roles[inst] is Role.ALIAS and operands:
                return self.storage[operands[0], path]  # the same memory, in other dimensions
        return inst, path

    def _leaves(self, inst: Instruction) -> list[Storage]:
        """Return the stored values below an instruction, through fused operands."""
        found: dict[Storage, None] = {}
        for leaf in collect_leaves(inst, self.roles):
            for path, shape in leaf.shape.leaves():
                if isinstance(shape, ArrayShape):
                    found[self.storage[leaf, path]] = None
        return list(found)


def collect_leaves(inst: Instruction, roles: Mapping[Instruction, Role]) -> list[Instruction]:
    """Return what a kernel reads, through fused operands, in the order of first visit."""
    found: dict[Instruction, None] = {}
    seen: set[Instruction] = set()
    stack = list(reversed(inst.operands))
    while stack:
        operand = stack.pop()
        if operand in seen:
            continue
        seen.add(operand)
        if roles[operand] is Role.FUSED:
            stack.extend(reversed(operand.operands))
        else:
            found[operand] = None
    return list(found)


def leaves_below(
    operands: Sequence[Instruction], roles: Mapping[Instruction, Role]
) -> list[Instruction]:
    """Return what is read through the given operands."""
    found: dict[Instruction, None] = {}
    for operand in operands:
        if roles[operand] is Role.FUSED:
            found |= dict.fromkeys(collect_leaves(operand, roles))
        else:
            found[operand] = None
    return list(found)


# --- the arena ----------------------------------------------------------------------------------

# Buffers that are placed with a look at all others; the small ones beyond are placed in order of
# time, which takes a fraction of the time and wastes little of a small part of the arena.
_PLACED_BY_SIZE = 8000


def place(buffers: Sequence[Buffer]) -> dict[int, tuple[int, int]]:
    """Give every temporary buffer an offset in the arena.

    Returns where the part of each memory space begins and ends: buffers of different spaces have no
    memory in common.
    """
    temps = [x for x in buffers if x.origin is Origin.TEMP]
    temps.sort(key=lambda x: (-x.size_bytes, x.first))
    parts: dict[int, tuple[int, int]] = {}
    start = 0
    for space in sorted({x.space for x in temps}):
        here = [x for x in temps if x.space == space]
        size = _place_in_time(here[_PLACED_BY_SIZE:], _place_by_size(here[:_PLACED_BY_SIZE]))
        for buffer in here:
            buffer.offset += start
        parts[space] = (start, start + size)
        start += size
    return parts


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _place_by_size(buffers: Sequence[Buffer]) -> int:
    """Place each buffer, the largest first, at the lowest offset that is free all its life.

    The greedy rule that comes within a few percent of the peak in practice.
    """
    # First and last position, start and end of those placed so far.
    first, last, low, high = (np.zeros(len(buffers), np.int64) for _ in range(4))
    total = 0
    for n, buffer in enumerate(buffers):
        size = _aligned(buffer.size_bytes)
        together = (first[:n] <= buffer.last) & (last[:n] >= buffer.first)
        starts, ends = low[:n][together], high[:n][together]
        order = np.argsort(starts)
        # Up to where memory is taken in front of each busy range, and at last behind all of them.
        taken = np.maximum.accumulate(np.concatenate([[0], ends[order]]))
        gaps = np.flatnonzero(starts[order] - taken[:-1] >= size)
        at = int(taken[gaps[0]] if len(gaps) else taken[-1])
        buffer.offset = at
        first[n], last[n], low[n], high[n] = buffer.first, buffer.last, at, at + size
        total = max(total, at + size)
    return total


def _place_in_time(buffers: Sequence[Buffer], start: int) -> int:
    """Place buffers behind an offset, in order of time, in blocks of powers of two that are used
    again when the buffer before is dead."""
    free: dict[int, list[int]] = {}
    dying: list[tuple[int, int, int]] = []
    total = start
    for buffer in sorted(buffers, key=lambda x: x.first):
        while dying and dying[0][0] < buffer.first:
            _, size, offset = heappop(dying)
            free.setdefault(size, []).append(offset)
        size = max(ALIGNMENT, 1 << (buffer.size_bytes - 1).bit_length())
        if free.get(size):
            buffer.offset = free[size].pop()
        else:
            buffer.offset, total = total, total + size
        heappush(dying, (buffer.last, size, buffer.offset))
    return total
