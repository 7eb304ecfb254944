"""Places of array values: who dies when, what may be overwritten, and where everything lies.

Instructions of a flattened computation tree are numbered in execution order, the bodies of loops
and branches inside the number range of their instruction. A `Buffer` lives from its first to its
last number; buffers that never live together share memory in one arena.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from hlo.codegen.fusion import Role, assign_roles, is_on_demand
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.types import ArrayShape, Shape

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
    """Memory for one or more values. `pointer` is its address in the entry function."""

    size_bytes: int
    origin: Origin
    pointer: str
    first: int = 0
    last: int = 0
    offset: int = 0

    def use(self, position: int) -> None:
        """Keep the buffer alive at a position."""
        self.last = max(self.last, position)

    @property
    def is_writable(self) -> bool:
        return self.origin in (Origin.TEMP, Origin.OUTPUT)


@dataclass(frozen=True)
class Place:
    """An array value: the buffer it lies in."""

    buffer: Buffer


@dataclass
class Liveness:
    """Positions and last uses of stored values, over a flattened computation tree."""

    roles: dict[Instruction, Role] = field(default_factory=dict)
    position: dict[Instruction, int] = field(default_factory=dict)
    body_end: dict[Computation, int] = field(default_factory=dict)
    # What an array leaf of an instruction really is.
    storage: dict[Storage, Storage] = field(default_factory=dict)
    last_use: dict[Storage, int] = field(default_factory=dict)
    # Stored values that a kernel or scalar reads, its fused operands included, in order.
    reads: dict[Instruction, list[Storage]] = field(default_factory=dict)
    _next: int = 0

    def visit(self, comp: Computation, params: list[Instruction] | None = None) -> None:
        """Number a computation; `params` are the instructions that its parameters stand for."""
        self.roles.update(assign_roles(comp))
        for inst in comp.in_order():
            role = self.roles[inst]
            if role is Role.CONTROL:
                self._visit_control(inst)
            self.position[inst] = self._tick()
            for path, leaf in inst.shape.leaves():
                if isinstance(leaf, ArrayShape):
                    self.storage[inst, path] = self._resolve(inst, path, params)
            if role in (Role.KERNEL, Role.SCALAR):
                self.reads[inst] = self._leaves(inst)
                for stored in self.reads[inst]:
                    self._use(stored, self.position[inst])
            elif role is Role.CONTROL:
                for operand in inst.operands:
                    self._use_all(operand, self.position[inst])
        self.body_end[comp] = self._tick()
        self._use_all(comp.root, self.body_end[comp])

    def of(self, inst: Instruction, path: Path) -> Storage:
        """Return the stored value that a leaf stands for."""
        return self.storage[inst, path]

    def _tick(self) -> int:
        self._next += 1
        return self._next

    def _use(self, stored: Storage, position: int) -> None:
        self.last_use[stored] = max(self.last_use.get(stored, 0), position)

    def _use_all(self, inst: Instruction, position: int) -> None:
        if self.roles[inst] is Role.FUSED:
            return
        for path, leaf in inst.shape.leaves():
            if isinstance(leaf, ArrayShape):
                self._use(self.storage[inst, path], position)

    def _visit_control(self, inst: Instruction) -> None:
        start = self._tick()
        if inst.opcode == "while":
            for operand in inst.operands:
                self._use_all(operand, start)
            for comp in inst.called_computations:
                self.visit(comp, [inst])
        else:
            for operand, comp in zip(inst.operands[1:], inst.called_computations, strict=True):
                self.visit(comp, [operand])

    def _resolve(self, inst: Instruction, path: Path, params: list[Instruction] | None) -> Storage:
        operands = inst.operands
        match inst.opcode:
            case "parameter" if params is not None:
                source = params[inst.attrs["number"]]
                # The state of a loop is the loop's own value, numbered only after its body.
                return (source, path) if source.opcode == "while" else self.storage[source, path]
            case "tuple":
                return self.storage[operands[path[0]], path[1:]]
            case "get-tuple-element":
                return self.storage[operands[0], (inst.attrs["index"], *path)]
            case "opt-barrier" | "domain" | "add-dependency":
                return self.storage[operands[0], path]
        return inst, path

    def _leaves(self, inst: Instruction) -> list[Storage]:
        """Return the stored values below an instruction, through fused operands."""
        found: dict[Storage, None] = {}
        seen: set[Instruction] = set()
        stack = list(reversed(inst.operands))
        while stack:
            operand = stack.pop()
            if operand in seen:
                continue
            seen.add(operand)
            if self.roles[operand] is Role.FUSED:
                stack.extend(reversed(operand.operands))
            elif isinstance(operand.shape, ArrayShape):
                found[self.storage[operand, ()]] = None
            else:
                found |= {
                    self.storage[operand, p]: None
                    for p, s in operand.shape.leaves()
                    if isinstance(s, ArrayShape)
                }
        return list(found)

    def last_reads(self, body: Computation) -> dict[Storage, int]:
        """Return the last position in a body at which each stored value is read, results apart."""
        found: dict[Storage, int] = {}

        def visit(comp: Computation) -> None:
            for i in comp:
                at = self.position[i]
                for stored in self.reads.get(i, ()):
                    found[stored] = max(found.get(stored, 0), at)
                if self.roles[i] is Role.CONTROL:
                    for operand in i.operands:
                        for p, s in operand.shape.leaves():
                            if isinstance(s, ArrayShape) and self.roles[operand] is not Role.FUSED:
                                stored = self.of(operand, p)
                                found[stored] = max(found.get(stored, 0), at)
                    for callee in i.called_computations:
                        visit(callee)

        visit(body)
        return found

    def may_overwrite(self, maker: Instruction, old: Storage, last_read: int) -> bool:
        """True when `maker` can write its result over the state it replaces."""
        position = self.position[maker]
        if last_read < position:
            return self.roles[maker] is Role.KERNEL and maker.opcode != "constant"
        if last_read > position or self.roles[maker] is not Role.KERNEL:
            return False
        if maker.opcode in ("dynamic-update-slice", "scatter"):
            others = leaves_below(maker.operands[1:], self.roles)
            return self.roles[maker.operands[0]] is not Role.FUSED and all(
                self.of(o, ()) != old for o in others if isinstance(o.shape, ArrayShape)
            )
        return self._reads_in_place(maker, old)

    def begins_as(self, stored: Storage, old: Storage, last_read: int) -> bool:
        """True when a value is a loop's state that starts as `old`, which nothing reads later."""
        maker, path = stored
        if maker.opcode != "while" or last_read > self.position[maker]:
            return False
        (init,) = maker.operands
        taken = [self.of(init, p) for p, s in maker.shape.leaves() if isinstance(s, ArrayShape)]
        return self.of(init, path) == old and taken.count(old) == 1

    def _reads_in_place(self, inst: Instruction, old: Storage) -> bool:
        """True when an on-demand kernel reads a stored value only at the index that it writes."""
        if not is_on_demand(inst) or not isinstance(inst.shape, ArrayShape):
            return False
        stack, seen = [inst], set[Instruction]()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.spec.has(Trait.ELEMENTWISE):
                for operand in node.operands:
                    if self.roles[operand] is Role.FUSED:
                        stack.append(operand)
                    elif self.of(operand, ()) == old and (
                        not isinstance(operand.shape, ArrayShape)
                        or operand.shape.layout != inst.shape.layout
                        or operand.shape.dims != inst.shape.dims
                        or operand.shape.element_type.byte_width
                        != inst.shape.element_type.byte_width
                    ):
                        return False
            elif any(
                isinstance(o.shape, ArrayShape) and self.of(o, ()) == old
                for o in leaves_below([node], self.roles)
            ):
                return False
        return True


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
    operands: list[Instruction], roles: Mapping[Instruction, Role]
) -> list[Instruction]:
    """Return what is read through the given operands."""
    found: dict[Instruction, None] = {}
    for operand in operands:
        if roles[operand] is Role.FUSED:
            found |= dict.fromkeys(collect_leaves(operand, roles))
        else:
            found[operand] = None
    return list(found)


def size_bytes(shape: Shape) -> int:
    """Return the bytes of an unpacked array, at least one so that addresses differ."""
    assert isinstance(shape, ArrayShape)
    return max(1, shape.byte_size)


def place(buffers: list[Buffer]) -> int:
    """Give every temporary buffer an offset; returns the size of the arena in bytes.

    Largest first, each at the lowest offset that is free over its whole life: the greedy rule that
    comes within a few percent of the peak in practice.
    """
    temps = [x for x in buffers if x.origin is Origin.TEMP]
    placed: list[Buffer] = []
    total = 0
    for buffer in sorted(temps, key=lambda x: (-x.size_bytes, x.first)):
        size = -(-buffer.size_bytes // ALIGNMENT) * ALIGNMENT
        busy = sorted(
            (o.offset, o.offset + -(-o.size_bytes // ALIGNMENT) * ALIGNMENT)
            for o in placed
            if o.first <= buffer.last and buffer.first <= o.last
        )
        at = 0
        for lo, hi in busy:
            if lo - at >= size:
                break
            at = max(at, hi)
        buffer.offset = at
        total = max(total, at + size)
        placed.append(buffer)
    return total
