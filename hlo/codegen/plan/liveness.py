"""Live ranges of stored values.

Instructions of a flattened computation tree are numbered in execution order, the bodies of loops
and branches inside the number range of their instruction. The live range of a value extends from
its definition to its last use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo.analysis.fusion.operations import is_multi_output
from hlo.analysis.fusion.roles import Role
from hlo.ir import Computation, Instruction
from hlo.values.layout.plain import strides_of
from hlo.values.types import ArrayShape

Path = tuple[int, ...]
# A value in memory: the defining instruction and the index path in its result.
Storage = tuple[Instruction, Path]


def live_ranges(entry: Computation, roles: dict[Instruction, Role]) -> Liveness:
    """Return the live ranges of the values of a flattened computation tree."""
    live = Liveness(roles)
    live.visit(entry)
    return live


@dataclass
class Liveness:
    """Positions and uses of stored values, over a flattened computation tree."""

    roles: dict[Instruction, Role]
    # Where parts of values in memory are, in bytes from the beginning: see `parts`.
    offset: dict[Instruction, int] = field(default_factory=dict)
    position: dict[Instruction, int] = field(default_factory=dict)
    # Where loops and branches begin: the position of the instruction itself is at their end.
    start: dict[Instruction, int] = field(default_factory=dict)
    body_end: dict[Computation, int] = field(default_factory=dict)
    # The value in memory of an array leaf of an instruction.
    storage: dict[Storage, Storage] = field(default_factory=dict)
    # Positions at which a stored value is used, ascending.
    uses: dict[Storage, list[int]] = field(default_factory=dict)
    # Stored values that a kernel or scalar reads, its fused operands included, in order.
    reads: dict[Instruction, list[Storage]] = field(default_factory=dict)
    _next: int = 0

    def visit(self, comp: Computation, params: Sequence[Instruction] | None = None) -> None:
        """Number a computation; `params` are the values of its parameters."""
        for inst in comp.in_order():
            role = self.roles[inst]
            if role is Role.CONTROL:
                self._visit_control(inst)
            self.position[inst] = self._tick()
            for path, _ in array_leaves(inst):
                self.storage[inst, path] = self._resolve(inst, path, params)
            if role is Role.ALIAS and inst.opcode == "slice":
                self.offset[inst] = self.offset.get(inst.operands[0], 0) + part_offset(inst)
            if role in (Role.KERNEL, Role.SCALAR, Role.HOST):
                self.reads[inst] = self._leaves(inst)
                for stored in self.reads[inst]:
                    self._use(stored, self.position[inst])
        self.body_end[comp] = self._tick()
        self._use_all(comp.root, self.body_end[comp])

    def of(self, inst: Instruction, path: Path) -> Storage:
        """Return the stored value of a leaf."""
        return self.storage[inst, path]

    def last_use(self, stored: Storage) -> int:
        """Return the last position at which a value is used, 0 if it never is."""
        uses = self.uses.get(stored)
        return uses[-1] if uses else 0

    def is_dead(
        self, stored: Storage, position: int, aside: Sequence[tuple[int, int]] = ()
    ) -> bool:
        """True when a value is not used after a position.

        aside: ranges of positions, exclusive of the first, that cannot follow this one: branches
        not taken.
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
        for path, _ in array_leaves(inst):
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
                return self.storage[params[inst.parameter_number], path]
            case "tuple" if not is_multi_output(inst):
                return self.storage[operands[path[0]], path[1:]]
            case "get-tuple-element":
                return self.storage[operands[0], (inst.tuple_index, *path)]
            case _ if self.roles[inst] is Role.ALIAS and operands:
                return self.storage[operands[0], path]  # the same memory, another shape
        return inst, path

    def _leaves(self, inst: Instruction) -> list[Storage]:
        """Return the stored values that an instruction reads, through fused operands."""
        found: dict[Storage, None] = {}
        for leaf in collect_leaves(inst, self.roles):
            for path, _ in array_leaves(leaf):
                found[self.storage[leaf, path]] = None
        return list(found)


def part_offset(inst: Instruction) -> int:
    """Return the distance in bytes of a slice that is one run of memory from that of its array."""
    shape = inst.operands[0].array_shape
    strides = strides_of(shape)
    first = sum(part.start * stride for part, stride in zip(inst.slice, strides, strict=True))
    return first * shape.element_type.byte_width


def array_leaves(inst: Instruction) -> list[tuple[Path, ArrayShape]]:
    """Return the arrays in a result, and their index paths."""
    return [(path, leaf) for path, leaf in inst.shape.leaves() if isinstance(leaf, ArrayShape)]


def collect_leaves(inst: Instruction, roles: Mapping[Instruction, Role]) -> list[Instruction]:
    """Return the values that a kernel reads, through fused operands, in order of first visit."""
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
    """Return the values that are read through the given operands."""
    found: dict[Instruction, None] = {}
    for operand in operands:
        if roles[operand] is Role.FUSED:
            found |= dict.fromkeys(collect_leaves(operand, roles))
        else:
            found[operand] = None
    return list(found)
