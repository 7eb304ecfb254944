"""Buffer assignment: the buffer of every stored value, and the copies that this needs.

A value has a buffer of its own unless it can use an existing one: that of the operand that it
updates in place, one whose values are all dead, or the one in which its consumer expects it. All of
these are *wishes*: they are granted when the value is computed, if all values in the buffer are
dead by then. So a wish may be made without regard to other writers of the buffer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.analysis.fusion.operations import is_multi_output, is_on_demand, updated_operands
from hlo.analysis.fusion.roles import Role
from hlo.codegen.entry.buffers import Buffer, Origin, assign_offsets
from hlo.codegen.entry.commands import (
    Block,
    Branches,
    Command,
    ComputeScalar,
    Copy,
    HostCall,
    KernelCall,
    Loop,
    Move,
    StoreScalar,
    UseConstant,
)
from hlo.codegen.entry.constants import Constants
from hlo.codegen.entry.kernel_plans import KernelPlan, writes_nothing
from hlo.codegen.loops.kernel import Inputs
from hlo.codegen.plan.liveness import Liveness, Path, Storage, array_leaves, leaves_below
from hlo.codegen.targets.base import Plan
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.values.layout.plain import size_bytes
from hlo.values.types import ArrayShape, Shape

# Results of at least so many bytes reuse the buffer of a dead operand, if possible. For smaller
# ones memory does not matter, and kernels can be shared by more of them.
_REUSED_BYTES = 1 << 18
# Of a counter, see `Plan`.
_COUNTER_BYTES = 4
# They query the device ids: their results are in registers.


@dataclass(frozen=True)
class BufferAssignment:
    """An entry as commands on buffers.

    arguments, results: their array leaves, in order. outputs: the buffer of each result leaf.
    aliases: pairs of a result leaf and an argument leaf, by number, in the same memory. moves: to
    the outputs, at the end. buffers: all of them. values: the buffer of each stored value, None for
    scalars. arena_bytes: of all temporary buffers.
    """

    entry: Block
    arguments: tuple[tuple[Storage, ArrayShape], ...]
    results: tuple[ArrayShape, ...]
    outputs: Mapping[Path, Buffer]
    aliases: tuple[tuple[int, int], ...]
    moves: tuple[Move, ...]
    buffers: tuple[Buffer, ...]
    values: Mapping[Storage, Buffer | None]
    constants: Constants
    arena_bytes: int


def assign_buffers(
    entry: Computation,
    live: Liveness,
    plans: Mapping[Instruction, KernelPlan],
    aliases: Mapping[Path, tuple[int, Path]],
    alignment: int,
    *,
    constants: Constants | None = None,
) -> BufferAssignment:
    """Return the buffers of the values of a flattened computation tree.

    aliases: the parameter, by number and path, that each of these outputs may overwrite.
    alignment: of offsets, in bytes: a power of two. constants: those of other programs, to which
    those of this one are added.
    """
    constants = Constants(alignment) if constants is None else constants
    return _Assigner(live, plans, alignment, constants).assign(entry, aliases)


class _Assigner:
    """Visits instructions in execution order."""

    def __init__(
        self, live: Liveness, plans: Mapping[Instruction, KernelPlan], alignment: int,
        constants: Constants,
    ) -> None:  # fmt: skip
        self.live = live
        self.roles = live.roles
        self.plans = plans
        self.constants = constants
        self._alignment = alignment
        self.buffers: list[Buffer] = []
        self.values: dict[Storage, Buffer | None] = {}
        self._wishes: dict[Storage, Buffer] = {}
        self._aside: list[tuple[int, int]] = []

    def assign(
        self, entry: Computation, aliases: Mapping[Path, tuple[int, Path]]
    ) -> BufferAssignment:
        arguments = [((p, path), leaf) for p in entry.parameters for path, leaf in array_leaves(p)]
        numbers = {stored: n for n, (stored, _) in enumerate(arguments)}
        outputs: dict[Path, Buffer] = {}
        shared: dict[Storage, Path] = {}
        # Scalars are read before anything is written: whatever else their memory is for.
        scalars: dict[Storage, Path] = {}
        results: list[ArrayShape] = []
        for path, leaf in array_leaves(entry.root):
            stored = _shared_parameter(entry, aliases.get(path), leaf)
            if stored is not None and not leaf.dims:
                scalars[stored], stored = path, None
            if stored is not None:
                shared[stored] = path
            origin = Origin.OUTPUT if stored is None else Origin.SHARED
            outputs[path] = self._bind(Buffer(size_bytes(leaf), origin, number=len(results)))
            results.append(leaf)
        for stored, leaf in arguments:
            if stored in shared:
                self.put(stored, outputs[shared[stored]])
                continue
            buffer = self._bind(Buffer(size_bytes(leaf), Origin.PARAMETER, number=numbers[stored]))
            if leaf.dims:
                self.put(stored, buffer)
            else:
                self.values[stored] = None
        for path, buffer in outputs.items():
            self.wish(self.live.of(entry.root, path), buffer)
        block = self._block(entry)
        moves = self._deliver(entry, outputs)
        spaces = assign_offsets(self.buffers, self._alignment)
        leaf_of = {path: n for n, path in enumerate(outputs)}
        return BufferAssignment(
            block, tuple(arguments), tuple(results), outputs,
            tuple((leaf_of[path], numbers[stored]) for stored, path in (shared | scalars).items()),
            tuple(moves), tuple(self.buffers), self.values, self.constants,
            max((end for _, end in spaces.values()), default=0),
        )  # fmt: skip

    def _deliver(self, entry: Computation, outputs: Mapping[Path, Buffer]) -> list[Move]:
        """Return parallel moves to the outputs: some still contain arguments."""
        copies: list[Copy] = []
        scalars: list[Move] = []
        for path, leaf in array_leaves(entry.root):
            value = self.buffer_of(entry.root, path)
            if value is not None:
                copies.append(Copy(value, outputs[path], leaf))
            else:
                scalars.append(StoreScalar(self.live.of(entry.root, path), outputs[path], leaf))
        return [*scalars, *self._copies(copies, self.live.body_end[entry])]

    # --- values ---------------------------------------------------------------------------------

    def buffer_of(self, inst: Instruction, path: Path = ()) -> Buffer | None:
        """Return the buffer of a computed leaf, None if it is a scalar."""
        return self.values[self.live.of(inst, path)]

    def put(self, stored: Storage, buffer: Buffer) -> None:
        """Record that a value is in a buffer from now on."""
        now = self.live.position.get(stored[0], 0)
        buffer.holds = [s for s in buffer.holds if self.live.last_use(s) > now]
        buffer.holds.append(stored)
        buffer.use(max(now, self.live.last_use(stored)))
        self.values[stored] = buffer

    def _bind(self, buffer: Buffer) -> Buffer:
        self.buffers.append(buffer)
        return buffer

    def new(self, shape: Shape, position: int) -> Buffer:
        """Return temporary memory for an array, live at a position."""
        buffer = self._scratch(size_bytes(shape), position)
        if isinstance(shape, ArrayShape) and shape.layout is not None:
            buffer.space = shape.layout.memory_space
        return buffer

    def _scratch(self, size: int, position: int) -> Buffer:
        return self._bind(Buffer(size, Origin.TEMP, position, position))

    def _copies(self, copies: Iterable[Copy], position: int) -> list[Copy]:
        """Return parallel copies in sequence: sources that are also targets are saved first."""
        copies = [c for c in copies if c.source is not c.target]
        written = {c.target for c in copies}
        first, then = [], []
        for c in copies:
            if c.source in written:
                saved = self.new(c.shape, position)
                first.append(Copy(c.source, saved, c.shape))
                c = Copy(saved, c.target, c.shape)
            then.append(c)
        return [*first, *then]

    # --- commands -------------------------------------------------------------------------------

    def _block(self, comp: Computation) -> Block:
        """Return the commands of a computation, instruction by instruction."""
        commands: list[Command] = []
        for inst in comp.in_order():
            match self.roles[inst]:
                case Role.KERNEL if inst.opcode == "constant":
                    commands.append(self._constant(inst))
                case Role.KERNEL if inst not in self.plans:
                    self._leave_unwritten(inst)
                case Role.KERNEL:
                    commands.append(self._kernel(inst))
                case Role.SCALAR:
                    commands.append(ComputeScalar(inst))
                    self.values[inst, ()] = None
                case Role.HOST:
                    commands.append(self._host(inst))
                case Role.CONTROL if inst.opcode == "while":
                    commands.append(self._loop(inst))
                case Role.CONTROL:
                    commands.append(self._branches(inst))
        return Block(comp, tuple(commands))

    def _constant(self, inst: Instruction) -> UseConstant:
        offset, size = self.constants.literal(inst)
        buffer = self._bind(Buffer(size, Origin.CONSTANT, offset=offset))
        self.put((inst, ()), buffer)
        return UseConstant(inst, buffer)

    def _leave_unwritten(self, inst: Instruction) -> None:
        assert writes_nothing(inst)
        for path, buffer in self.for_results(inst).items():
            self.put((inst, path), buffer)

    def _kernel(self, inst: Instruction) -> KernelCall:
        position, plan = self.live.position[inst], self.plans[inst]
        targets = self.for_results(inst)
        moves = self._to_results(inst, targets)
        # The number of each place in memory: a buffer, and an offset in it.
        places = {(buffer, 0): n for n, buffer in enumerate(dict.fromkeys(targets.values()))}
        results = tuple([places[buffer, 0] for buffer in targets.values()])
        buffer_of: dict[Instruction, int] = {}
        scalars: list[Instruction] = []
        for leaf in plan.reads:
            buffer = self.buffer_of(leaf)
            if buffer is None:
                scalars.append(leaf)
            else:
                place = buffer, self.live.offset.get(leaf, 0)
                buffer_of[leaf] = places.setdefault(place, len(places))
        call = KernelCall(
            inst, plan, tuple(moves), tuple([buffer for buffer, _ in places]),
            tuple([offset for _, offset in places]), results,
            Inputs(list(plan.reads), buffer_of, scalars),
            self._workspace(plan.plan, position),
            tuple(self.constants.table(data) for data in plan.plan.tables),
        )  # fmt: skip
        self._put_results(inst, targets)
        return call

    def _workspace(self, plan: Plan, position: int) -> tuple[Buffer, ...]:
        """Return memory for a kernel's own use."""
        found = tuple(self._scratch(n, position) for n in plan.scratch_bytes)
        if plan.counters:
            # Kernels run one after the other, and leave zeros: all have the same counters.
            size = _COUNTER_BYTES * plan.counters
            found += (self._bind(Buffer(size, Origin.COUNTERS)),)
        return found

    def _put_results(self, inst: Instruction, targets: Mapping[Path, Buffer]) -> None:
        """Record results: arrays are in their buffers, scalars are loaded from theirs."""
        for path, leaf in array_leaves(inst):
            if leaf.dims:
                self.put((inst, path), targets[path])
            else:
                self.values[inst, path] = None

    def _to_results(self, inst: Instruction, targets: Mapping[Path, Buffer]) -> list[Move]:
        """Return moves of operands that a kernel updates in place to its result buffers."""
        moves: list[Move] = []
        for path, operand in updated_operands(inst).items():
            buffer, shape = self.buffer_of(operand), operand.array_shape
            if buffer is None:
                moves.append(StoreScalar(self.live.of(operand, ()), targets[path], shape))
            elif buffer is not targets[path]:
                moves.append(Copy(buffer, targets[path], shape))
        return moves

    def _host(self, inst: Instruction) -> HostCall:
        if inst.spec.has(Trait.DEVICE_ID):
            self.values[inst, ()] = None
            return HostCall(inst, {})
        targets = self.for_results(inst)
        self._put_results(inst, targets)
        return HostCall(inst, targets)

    # --- loops ----------------------------------------------------------------------------------

    def _loop(self, inst: Instruction) -> Loop:
        condition, body = inst.condition, inst.body
        state, enter = self._enter(inst)
        (tested,), (changed,) = condition.parameters, body.parameters
        for path in _scalar_paths(inst):
            self.values[tested, path] = self.values[changed, path] = None
        # The body reads the same state as the condition.
        with self.locked(state.values()):
            for path, buffer in state.items():
                self.put((tested, path), buffer)
            test = self._block(condition)
        for path, buffer in state.items():
            self.put((changed, path), buffer)
        for path, buffer in state.items():
            self.wish(self.live.of(body.root, path), buffer)
        turn = self._block(body)
        carry = self._copies(self._to(body, state), self.live.body_end[body])
        for path in _scalar_paths(inst):
            self.values[inst, path] = None
        for path, buffer in state.items():
            self.put((inst, path), buffer)
        return Loop(inst, tuple(enter), test, turn, tuple(carry))

    def _to(self, comp: Computation, targets: Mapping[Path, Buffer]) -> Iterator[Copy]:
        """Yield the copies of a computation's result to the expected buffers."""
        for path, buffer in targets.items():
            source, leaf = self.buffer_of(comp.root, path), comp.root.shape.at(path)
            assert source is not None and isinstance(leaf, ArrayShape)
            yield Copy(source, buffer, leaf)

    def _enter(self, inst: Instruction) -> tuple[dict[Path, Buffer], list[Copy]]:
        """Choose the buffers of a loop's state; returns the moves of the initial values."""
        start = self.live.start[inst]
        (init,) = inst.operands
        (parameter,) = inst.body.parameters
        root = inst.body.root
        arrays = [(path, leaf) for path, leaf in array_leaves(inst) if leaf.dims]
        state: dict[Path, Buffer] = {}
        # Elements that the body passes through unchanged can stay in the buffer of the initial
        # value.
        for path, _ in arrays:
            if self.live.of(root, path) == (parameter, path):
                source = self.buffer_of(init, path)
                assert source is not None
                source.holds.append((parameter, path))
                source.use(self.live.position[inst])
                state[path] = source
        copies: list[Copy] = []
        taken: list[Buffer] = []
        for path, leaf in arrays:
            if path in state:
                continue
            source = self.buffer_of(init, path)
            assert source is not None
            choices = (self.wished(inst, path), source)
            buffer = self._first_free(choices, taken, start) or self.new(leaf, start)
            buffer.use(self.live.position[inst])
            taken.append(buffer)
            state[path] = buffer
            copies.append(Copy(source, buffer, leaf))
        return {path: state[path] for path, _ in arrays}, self._copies(copies, start)

    def _first_free(
        self, choices: Iterable[Buffer | None], taken: Collection[Buffer], position: int
    ) -> Buffer | None:
        for buffer in choices:
            if buffer is not None and buffer not in taken and self.can_take(buffer, position):
                return buffer
        return None

    # --- branches -------------------------------------------------------------------------------

    def _branches(self, inst: Instruction) -> Branches:
        results = self._branch_results(inst)
        found = []
        for comp in inst.called_computations:
            with self.branch(comp, inst.called_computations):
                for path, buffer in results.items():
                    self.wish(self.live.of(comp.root, path), buffer)
                block = self._block(comp)
                copies = self._copies(self._to(comp, results), self.live.body_end[comp])
            found.append((block, tuple(copies)))
        for path, buffer in results.items():
            self.put((inst, path), buffer)
        for path in _scalar_paths(inst):
            self.values[inst, path] = None
        return Branches(inst, tuple(found))

    def _branch_results(self, inst: Instruction) -> dict[Path, Buffer]:
        """Choose the buffers of a conditional's results, common to all branches.

        Their old values must be dead after the conditional. Using an outer buffer that a branch
        passes through saves that branch a copy.
        """
        end = self.live.position[inst]
        found: dict[Path, Buffer] = {}
        for path, leaf in array_leaves(inst):
            if not leaf.dims:
                continue
            choices = [self.wished(inst, path)]
            choices += [
                self.values.get(self.live.of(c.root, path)) for c in inst.called_computations
            ]
            buffer = self._first_free(choices, found.values(), end)
            found[path] = buffer or self.new(leaf, self.live.start[inst])
            found[path].use(end)
        return found

    # --- wishes ---------------------------------------------------------------------------------

    def wish(self, stored: Storage, buffer: Buffer) -> None:
        """Record where a value should be written, if that is safe when it is computed.

        The same is wished for the values that it is updated from in place.
        """
        source: Storage | None = stored
        while source is not None and source not in self.values and source not in self._wishes:
            self._wishes[source] = buffer
            source = self._made_of(*source)

    def _made_of(self, maker: Instruction, path: Path) -> Storage | None:
        """Return a value whose buffer a result can reuse, because it is dead then."""
        live, at = self.live, self.live.position[maker]
        sources = []
        if maker.opcode == "while":
            at = live.start[maker]
            sources = [live.of(maker.operands[0], path)]
        elif maker.opcode == "conditional":
            passed_on = (live.of(c.root, path) for c in maker.called_computations)
            sources = [s for s in passed_on if live.position[s[0]] < live.start[maker]]
        elif path in (changed := updated_operands(maker)):
            sources = [live.of(changed[path], ())]
        return next((s for s in sources if live.is_dead(s, at)), None)

    def wished(self, inst: Instruction, path: Path) -> Buffer | None:
        """Return the buffer in which a result should be."""
        return self._wishes.get((inst, path))

    def can_take(self, buffer: Buffer, position: int) -> bool:
        """True when all values in a buffer are dead after a position."""
        return buffer.is_writable and all(
            self.live.is_dead(s, position, self._aside) for s in buffer.holds
        )

    @contextmanager
    def branch(self, comp: Computation, branches: Sequence[Computation]) -> Iterator[None]:
        """Visit one of several branches: values used only by the others are dead after it."""
        self._aside.append((self.live.body_end[comp], self.live.body_end[branches[-1]]))
        try:
            yield
        finally:
            self._aside.pop()

    @contextmanager
    def locked(self, buffers: Iterable[Buffer]) -> Iterator[None]:
        """Prevent other writes to some buffers."""
        kept = list(buffers)
        for buffer in kept:
            buffer.locked += 1
        try:
            yield
        finally:
            for buffer in kept:
                buffer.locked -= 1

    # --- buffers of results ---------------------------------------------------------------------

    def for_results(self, inst: Instruction) -> dict[Path, Buffer]:
        """Return the buffers of an instruction's results.

        Operands that a kernel updates in place have to be there. Any other kernel may read its
        result's buffer only at the index that it writes.
        """
        changed = updated_operands(inst)
        position = self.live.position[inst]
        found: dict[Path, Buffer] = {}
        taken = found.values()
        for path, shape in array_leaves(inst):
            operand = changed.get(path)
            buffer = self._in_place(inst, operand, taken) if operand is not None else None
            if buffer is None:
                buffer = self._wish_granted(inst, path, taken) or self._reused(inst, shape, taken)
            found[path] = buffer or self.new(shape, position)
        return found

    def _in_place(
        self, inst: Instruction, operand: Instruction, taken: Collection[Buffer]
    ) -> Buffer | None:
        """Return the buffer of an operand that an instruction may update."""
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
        self, inst: Instruction, path: Path, taken: Collection[Buffer]
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
        self, inst: Instruction, shape: ArrayShape, taken: Collection[Buffer]
    ) -> Buffer | None:
        """Return the buffer of an operand that is dead after this, if the result can reuse it."""
        if not (inst.spec.has(Trait.ELEMENTWISE) or is_multi_output(inst)):
            return None
        if shape.byte_size < _REUSED_BYTES:
            return None
        for operand in leaves_below(inst.operands, self.roles):
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
        """True when a value that is fused or an operand is read from a buffer."""
        return any(
            self.buffer_of(leaf, path) is buffer
            for leaf in leaves_below(operands, self.roles)
            for path, _ in array_leaves(leaf)
        )

    def _may_read_and_write(self, inst: Instruction, buffer: Buffer) -> bool:
        """True when an instruction reads a buffer only at the index that it writes, if at all."""
        if not is_on_demand(inst) and not is_multi_output(inst):
            return not self._reads(inst.operands, buffer)
        results = list(inst.operands) if is_multi_output(inst) else [inst]
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
                if self.roles[operand] is Role.FUSED:
                    stack.append(operand)
                elif self.buffer_of(operand) is buffer and (
                    operand in self.live.offset
                    or not all(_lie_alike(operand.shape, result.shape) for result in results)
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


def _scalar_paths(inst: Instruction) -> list[Path]:
    return [path for path, leaf in array_leaves(inst) if not leaf.dims]


def _shared_parameter(
    entry: Computation, alias: tuple[int, Path] | None, leaf: ArrayShape
) -> Storage | None:
    """Return the parameter leaf in the memory of an output of this shape, if there is one."""
    if alias is None:
        return None
    number, path = alias
    parameter = entry.parameters[number]
    return (parameter, path) if parameter.shape.at(path) == leaf else None
