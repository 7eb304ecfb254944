"""Where values are while the entry function is emitted, and where they may be written.

A value has a buffer of its own unless it can do with one that is there already: the operand that it
updates in place, a buffer in which nothing is needed any more, or the one in which its consumer
wants it. All of these are *wishes*: they are granted when the value is computed, if everything that
the buffer holds is dead by then. So a wish may be made without a thought to who else writes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hlo.codegen.address import size_bytes
from hlo.codegen.buffers import (
    Buffer,
    Liveness,
    Origin,
    Path,
    Place,
    Storage,
    leaves_below,
)
from hlo.codegen.fusion import Role, is_on_demand, updated_operands
from hlo.codegen.llvm import Builder
from hlo.codegen.rejoining import is_joint
from hlo.codegen.scalar import Value
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.types import ArrayShape, Shape

# The value of an instruction: a tree of tuples with these leaves; None for tokens.
Leaf = Value | Place | None

# Results of at least so many bytes take the place of an operand that dies, where they can. For
# smaller ones memory does not matter, and one kernel can serve more of them.
_REUSED_BYTES = 1 << 18


class Memory:
    """Values by storage, the buffers they lie in, and wishes."""

    def __init__(self, b: Builder, live: Liveness) -> None:
        self.b = b
        self.live = live
        self.buffers: list[Buffer] = []
        self.values: dict[Storage, Leaf] = {}
        self._wishes: dict[Storage, Buffer] = {}
        self._aside: list[tuple[int, int]] = []

    # --- values ---------------------------------------------------------------------------------

    def value(self, inst: Instruction, path: Path = ()) -> Leaf:
        """Return the value of a leaf that has been computed."""
        return self.values[self.live.of(inst, path)]

    def buffer_of(self, inst: Instruction, path: Path = ()) -> Buffer | None:
        """Return the buffer of a leaf that has been computed, None if it is a scalar."""
        value = self.value(inst, path)
        return value.buffer if isinstance(value, Place) else None

    def put(self, stored: Storage, buffer: Buffer) -> None:
        """Note that a value lies in a buffer from now on."""
        now = self.live.position.get(stored[0], 0)
        buffer.holds = [s for s in buffer.holds if self.live.last_use(s) > now]
        buffer.holds.append(stored)
        buffer.use(max(now, self.live.last_use(stored)))
        self.values[stored] = Place(buffer)

    def bind(self, buffer: Buffer) -> Buffer:
        """Count a buffer among those of the entry function."""
        self.buffers.append(buffer)
        return buffer

    def new(self, shape: Shape, position: int) -> Buffer:
        """Return temporary memory for an array, alive at a position."""
        buffer = self.scratch(size_bytes(shape), position)
        if isinstance(shape, ArrayShape) and shape.layout is not None:
            buffer.space = shape.layout.memory_space
        return buffer

    def scratch(self, size: int, position: int) -> Buffer:
        """Return temporary memory, alive at a position."""
        return self.bind(Buffer(size, Origin.TEMP, self.b.fresh(), position, position))

    # --- wishes ---------------------------------------------------------------------------------

    def wish(self, stored: Storage, buffer: Buffer) -> None:
        """Note where a value should be written, if that is safe when it is computed.

        What it is made from in place is wanted there too.
        """
        source: Storage | None = stored
        while source is not None and source not in self.values and source not in self._wishes:
            self._wishes[source] = buffer
            source = self._made_of(*source)

    def _made_of(self, maker: Instruction, path: Path) -> Storage | None:
        """Return a value whose place a result can take, which is dead then."""
        live, at = self.live, self.live.position[maker]
        sources = []
        if maker.opcode == "while":
            at = live.start[maker]
            sources = [live.of(maker.operands[0], path)]
        elif maker.opcode == "conditional":
            handed_on = (live.of(c.root, path) for c in maker.called_computations)
            sources = [s for s in handed_on if live.position[s[0]] < live.start[maker]]
        elif path in (changed := updated_operands(maker)):
            sources = [live.of(changed[path], ())]
        return next((s for s in sources if live.is_dead(s, at)), None)

    def wished(self, inst: Instruction, path: Path) -> Buffer | None:
        """Return the buffer in which a result should be."""
        return self._wishes.get((inst, path))

    def can_take(self, buffer: Buffer, position: int) -> bool:
        """True when nothing that a buffer holds is needed after a position."""
        return buffer.is_writable and all(
            self.live.is_dead(s, position, self._aside) for s in buffer.holds
        )

    @contextmanager
    def branch(self, comp: Computation, branches: Sequence[Computation]) -> Iterator[None]:
        """Emit one of several branches: what the others use is not needed after it."""
        self._aside.append((self.live.body_end[comp], self.live.body_end[branches[-1]]))
        try:
            yield
        finally:
            self._aside.pop()

    @contextmanager
    def locked(self, buffers: Iterable[Buffer]) -> Iterator[None]:
        """Keep what buffers hold."""
        held = list(buffers)
        for buffer in held:
            buffer.locked += 1
        try:
            yield
        finally:
            for buffer in held:
                buffer.locked -= 1

    # --- places of results ----------------------------------------------------------------------

    def for_results(self, inst: Instruction, paths: Sequence[Path]) -> list[Buffer]:
        """Return the buffers of a kernel's results.

        A kernel that changes operands in place has to find them there. Any other may read from the
        buffer that it writes only at the index that it writes.
        """
        changed = updated_operands(inst)
        position = self.live.position[inst]
        taken: list[Buffer] = []
        for path in paths:
            shape = inst.shape.at(path)
            assert isinstance(shape, ArrayShape)
            operand = changed.get(path)
            buffer = self._in_place(inst, operand, taken) if operand is not None else None
            if buffer is None:
                buffer = self._wish_granted(inst, path, taken) or self._reused(inst, shape, taken)
            if buffer is None:
                buffer = self.new(shape, position)
            taken.append(buffer)
        return taken

    def _in_place(
        self, inst: Instruction, operand: Instruction, taken: Sequence[Buffer]
    ) -> Buffer | None:
        """Return the buffer of an operand that an instruction may change."""
        buffer = self.buffer_of(operand)
        if buffer is None or buffer in taken:
            return None
        if not self.can_take(buffer, self.live.position[inst]):
            return None
        changed = updated_operands(inst).values()
        others = [o for o in inst.operands if o not in changed]
        if list(inst.operands).count(operand) > 1 or self._reads(others, buffer):
            return None
        return buffer

    def _wish_granted(
        self, inst: Instruction, path: Path, taken: Sequence[Buffer]
    ) -> Buffer | None:
        buffer = self._wishes.get((inst, path))
        if (
            buffer is None
            or buffer in taken
            or not self.can_take(buffer, self.live.position[inst])
            or not self._may_read_and_write(inst, buffer)
        ):
            return None
        return buffer

    def _reused(
        self, inst: Instruction, shape: ArrayShape, taken: Sequence[Buffer]
    ) -> Buffer | None:
        """Return the buffer of an operand that dies here, where a result can take its place."""
        if not (inst.spec.has(Trait.ELEMENTWISE) or is_joint(inst)):
            return None
        if shape.byte_size < _REUSED_BYTES:
            return None
        for operand in leaves_below(inst.operands, self.live.roles):
            buffer = self.buffer_of(operand) if operand.shape.is_array else None
            if (
                buffer is not None
                and buffer.origin is Origin.TEMP
                and buffer not in taken
                and buffer.size_bytes == size_bytes(shape)
                and buffer.space == (shape.layout.memory_space if shape.layout else 0)
                and self.can_take(buffer, self.live.position[inst])
                and self._may_read_and_write(inst, buffer)
            ):
                return buffer
        return None

    def _reads(self, operands: Sequence[Instruction], buffer: Buffer) -> bool:
        """True when something below the operands is read from a buffer."""
        return any(
            self.buffer_of(leaf, path) is buffer
            for leaf in leaves_below(operands, self.live.roles)
            for path, shape in leaf.shape.leaves()
            if isinstance(shape, ArrayShape)
        )

    def _may_read_and_write(self, inst: Instruction, buffer: Buffer) -> bool:
        """True when an instruction reads a buffer at the index that it writes there, if at all."""
        if not is_on_demand(inst) and not is_joint(inst):
            return not self._reads(inst.operands, buffer)
        results = list(inst.operands) if is_joint(inst) else [inst]
        stack, seen = list(results), set[Instruction]()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if not node.spec.has(Trait.ELEMENTWISE):
                if self._reads(node.operands, buffer):
                    return False
                continue
            for operand in node.operands:
                if self.live.roles[operand] is Role.FUSED:
                    stack.append(operand)
                elif self.buffer_of(operand) is buffer and not all(
                    _lie_alike(operand.shape, result.shape) for result in results
                ):
                    return False
        return True


def _lie_alike(a: Shape, b: Shape) -> bool:
    """True when equal indices are at equal addresses."""
    return (
        isinstance(a, ArrayShape)
        and isinstance(b, ArrayShape)
        and a.dims == b.dims
        and a.layout == b.layout
        and a.element_type.byte_width == b.element_type.byte_width
    )
