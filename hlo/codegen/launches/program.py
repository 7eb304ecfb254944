"""From a planned program to kernels in LLVM IR and the launch plan that runs them.

It walks the same commands as the emitter of the entry function (`hlo.codegen.entry.emitter`), and
writes a step for each instead of code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hlo.analysis.trips import counted, never_ends
from hlo.codegen.entry.buffers import Buffer, Origin
from hlo.codegen.entry.calls import Emitted, KernelCache, Kernels
from hlo.codegen.entry.commands import (
    Block,
    Branches,
    Command,
    ComputeScalar,
    HostCall,
    KernelCall,
    Loop,
    Move,
    StoreScalar,
    UseConstant,
)
from hlo.codegen.entry.functions import ElementFunctions
from hlo.codegen.entry.state import store_scalar
from hlo.codegen.launches.one_block import (
    OneBlockEmitter,
    is_small,
    loop_kernel,
    turns_at_once,
)
from hlo.codegen.launches.scalars import Scalar, ScalarWriter, Stored, formula, places_of
from hlo.codegen.launches.work import KernelWork
from hlo.codegen.llvm import Builder, ModuleBuilder, Val, i64
from hlo.codegen.loops.address import Indices, load
from hlo.codegen.loops.element import ElementEmitter
from hlo.codegen.pipeline import PlannedProgram
from hlo.codegen.plan.liveness import Path, Storage, array_leaves, collect_leaves
from hlo.codegen.scalar.operations import Cplx, Value
from hlo.codegen.targets.gpu.base import SHARE_THREADS, Gpu, Grid
from hlo.codegen.targets.gpu.block import Block as ThreadBlock
from hlo.codegen.targets.gpu.one_block import NotForOneBlock
from hlo.gpu import plan
from hlo.gpu.plan import LaunchPlan, Place, Region
from hlo.gpu.work import NOTHING, Work
from hlo.ir import Instruction
from hlo.llvm import Function, LlvmModule
from hlo.ops.control.flow import endless
from hlo.values.layout.plain import is_empty, size_bytes
from hlo.values.types import PRED, S32, ArrayShape, Layout

# Scalars in memory are so many bytes apart: the widest, a complex number of two doubles.
_SLOT_BYTES = 16
_PRED, _INDEX = (ArrayShape(et, (), layout=Layout.default(0)) for et in (PRED, S32))
_REGIONS = {
    Origin.TEMP: Region.ARENA,
    Origin.CONSTANT: Region.CONSTANTS,
    Origin.PARAMETER: Region.ARGUMENT,
    Origin.OUTPUT: Region.RESULT,
    Origin.SHARED: Region.RESULT,
}


@dataclass(frozen=True)
class GpuProgram:
    """What code generation hands to what runs programs on GPUs.

    module: the kernels in LLVM IR. calls: the instructions that the host runs, by the number of
    `hlo.gpu.plan.HostCall`. instructions: what each kernel computes.
    """

    module: LlvmModule
    plan: LaunchPlan
    calls: tuple[Instruction, ...]
    instructions: Mapping[str, Instruction]


def write_launches(planned: PlannedProgram, gpu: Gpu, *, is_located: bool = False) -> GpuProgram:
    """Return a program's kernels and launch plan. Raises HloError for what the GPU cannot run.

    is_located: let the code say which HLO it is for.
    """
    return _Writer(planned, gpu, is_located).write()


@dataclass(frozen=True)
class _Task:
    """A scalar that a kernel of one thread computes and stores.

    inst: that is computed from memory; else `value` is stored.
    """

    target: Place
    shape: ArrayShape
    value: Scalar | None = None
    inst: Instruction | None = None
    # A truth value that is stored as the number of a branch.
    is_branch: bool = False


class _Writer:
    """Writes the steps of one program."""

    def __init__(self, planned: PlannedProgram, gpu: Gpu, is_located: bool) -> None:
        self.planned, self.gpu = planned, gpu
        self.live, self.assignment = planned.live, planned.assignment
        self.module = ModuleBuilder(
            gpu.triple, gpu.data_layout, has_half_conversion=True,
            has_float_maximum=gpu.has_float_maximum, is_located=is_located,
        )  # fmt: skip
        # Writes itself where a function is applied to elements.
        ElementFunctions(self.module, gpu.thread)
        self.kernels = Kernels(self.module, gpu, Builder(self.module), KernelCache())
        self.work = KernelWork(planned)
        self.steps: list[plan.Step] = []
        self.tasks: list[_Task] = []
        self.scalars: dict[Storage, Scalar] = {}
        self.calls: list[Instruction] = []
        self.instructions: dict[str, Instruction] = {}
        self._slots = 0
        # Buffers of scalars that kernels write to slots instead.
        self._in_slots: dict[Buffer, Place] = {}
        self._entries: dict[str, str] = {}
        self._block_kernels = KernelCache()
        # How many commands name each buffer, and the scalars that are results of the program.
        self._writers = Counter(_buffers(self.assignment.entry))
        self._delivered = {
            move.target: move.value
            for move in self.assignment.moves
            if isinstance(move, StoreScalar)
        }

    def write(self) -> GpuProgram:
        a = self.assignment
        for buffer in a.buffers:
            if buffer.origin is Origin.PARAMETER:
                stored, leaf = a.arguments[buffer.number]
                if not leaf.dims:
                    self.scalars[stored] = Stored(self.place(buffer), leaf)
        self.block(a.entry)
        self.moves(a.moves)
        self.flush()
        for function in [*self.module.functions.values()]:
            if function.linkage == "internal" and "noinline" in function.attributes:
                inlined = tuple(a for a in function.attributes if a != "noinline")
                self.module.functions[function.name] = function.replace(
                    attributes=("alwaysinline", *inlined)
                )
        launches = LaunchPlan(
            tuple(self.steps),
            tuple(_content_bytes(s) for _, s in a.arguments),
            tuple(_content_bytes(s) for s in a.results),
            a.arena_bytes, self._slots * _SLOT_BYTES, a.constants.size, a.constants.pieces,
            a.aliases,
        )  # fmt: skip
        return GpuProgram(self.module, launches, tuple(self.calls), self.instructions)

    # --- places ---------------------------------------------------------------------------------

    def place(self, buffer: Buffer, offset: int = 0) -> Place:
        """Return the place at an offset in a buffer."""
        if buffer in self._in_slots:
            return self._in_slots[buffer].after(offset)
        region = _REGIONS[buffer.origin]
        if buffer.origin in (Origin.TEMP, Origin.CONSTANT):
            return Place(region, buffer.offset + offset)
        return Place(region, offset, buffer.number)

    def slot(self) -> Place:
        """Reserve memory for a scalar."""
        self._slots += 1
        return Place(Region.SCALARS, (self._slots - 1) * _SLOT_BYTES)

    def leaf_place(self, inst: Instruction, path: Path = ()) -> Place | None:
        """Return where an array is, None for a scalar."""
        buffer = self.assignment.values[self.live.of(inst, path)]
        if buffer is None:
            return None
        return self.place(buffer, self.live.offset.get(inst, 0))

    def scalar(self, inst: Instruction, path: Path = ()) -> Scalar:
        """Return a scalar that has been computed."""
        return self.scalars[self.live.of(inst, path)]

    def kept(self, value: Scalar, shape: ArrayShape) -> Place:
        """Return where a scalar is in memory, stored for that if need be."""
        if isinstance(value, Stored):
            return value.place
        place = self.slot()
        self.tasks.append(_Task(place, shape, value))
        return place

    # --- commands -------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write the steps of a computation."""
        for command in block.commands:
            self._command(command)

    def _command(self, command: Command) -> None:
        match command:
            case KernelCall():
                self._kernel(command)
            case ComputeScalar(inst):
                self._scalar(inst)
            case UseConstant():
                pass
            case HostCall():
                self._host(command)
            case Loop():
                self._loop(command)
            case Branches():
                self._branches(command)

    @contextmanager
    def inside(self) -> Iterator[list[plan.Step]]:
        """Collect steps apart; yields where they are when the context ends."""
        self.flush()
        outer, self.steps = self.steps, []
        inner = self.steps
        yield inner
        self.flush()
        self.steps = outer

    def moves(self, moves: Sequence[Move]) -> None:
        """Write copies and stores."""
        for move in moves:
            target = self.place(move.target)
            if isinstance(move, StoreScalar):
                value = self.scalars[move.value]
                if value != Stored(target, move.shape):
                    self.tasks.append(_Task(target, move.shape, value))
            elif not is_empty(move.shape):
                self.flush()
                self.steps.append(
                    plan.Copy(target, self.place(move.source), size_bytes(move.shape))
                )

    # --- scalars --------------------------------------------------------------------------------

    def _scalar(self, inst: Instruction) -> None:
        def scalar_of(leaf: Instruction) -> Scalar | None:
            return None if self.leaf_place(leaf) is not None else self.scalar(leaf)

        found: Scalar | None = formula(inst, self._reads(inst), scalar_of)
        if found is None:
            if any(task.target.region is not Region.SCALARS for task in self.tasks):
                self.flush()  # it may read what they write
            place = self.slot()
            self.tasks.append(_Task(place, inst.array_shape, inst=inst))
            found = Stored(place, inst.array_shape)
        self.scalars[inst, ()] = found

    def _reads(self, inst: Instruction) -> list[Instruction]:
        return collect_leaves(inst, self.live.roles)

    def flush(self) -> None:
        """Write the launch that computes the scalars of all tasks."""
        if not self.tasks:
            return
        tasks, self.tasks = self.tasks, []
        places: dict[Place, None] = {}
        for task in tasks:
            if task.value is not None:
                places |= dict.fromkeys(places_of([task.value]))
                continue
            assert task.inst is not None
            for leaf in self._reads(task.inst):
                place = self.leaf_place(leaf)
                if place is not None:
                    places[place] = None
                else:
                    places |= dict.fromkeys(places_of([self.scalar(leaf)]))
        # What tasks before have computed is at hand.
        written = {task.target for task in tasks}
        read = [p for p in places if p not in written or p in self._read_before(tasks)]
        b = Builder(self.module)
        b.is_careful = True
        pointers = {p: f"%p{n}" for n, p in enumerate(dict.fromkeys([*read, *written]))}
        writer = ScalarWriter(b, self.live, pointers.__getitem__)
        values = [self._task_value(b, writer, task, pointers) for task in tasks]
        for task, value in zip(tasks, values, strict=True):
            store_scalar(b, task.shape, value, pointers[task.target])
        b.ret()
        parameters = [f"ptr align {_alignment(p)} {name}" for p, name in pointers.items()]
        self._launch("scalars", b, parameters, tuple(pointers), Grid(1), None)

    def _read_before(self, tasks: Sequence[_Task]) -> set[Place]:
        """Return what tasks read of what others of them write: the state of loops."""
        return {p for t in tasks if t.value is not None for p in places_of([t.value])}

    def _task_value(
        self, b: Builder, writer: ScalarWriter, task: _Task, pointers: Mapping[Place, str]
    ) -> Value:
        if task.value is not None:
            value = writer.value(task.value)
            if task.is_branch:
                assert isinstance(value, Val)
                return b.select(value, Val("i32", "0"), Val("i32", "1"))
            return value
        assert task.inst is not None

        def read(leaf: Instruction, indices: Indices) -> Value:
            place = self.leaf_place(leaf)
            if place is None:
                return writer.value(self.scalar(leaf))
            return load(b, leaf.array_shape, pointers[place], indices)

        found = ElementEmitter(b, self.live.roles, read).compute(task.inst, ())
        writer.know(Stored(task.target, task.shape), found)
        return found

    # --- kernels --------------------------------------------------------------------------------

    def _kernel(self, call: KernelCall) -> None:
        leaves = array_leaves(call.inst)
        for (path, leaf), number in zip(leaves, call.results, strict=True):
            if not leaf.dims:
                self._result_slot(call.inst, path, leaf, call.buffers[number])
        self.moves(call.moves)
        self.flush()
        inputs, plan_ = call.inputs, call.plan.plan
        places = [self.place(x, at) for x, at in zip(call.buffers, call.offsets, strict=True)]
        places += [self.place(x) for x in call.scratch]
        places += [Place(Region.CONSTANTS, at) for at in call.tables]
        scalars = [self.scalar(x) for x in inputs.scalars]
        kernels = [
            self.kernels.emit(
                call.inst, self.live.roles, step, inputs, list(call.results), len(call.buffers),
                len(call.scratch), len(call.tables),
            )
            for step in plan_.steps
        ]  # fmt: skip
        works = self.work.of_steps(call.inst, [emitted.extent for emitted in kernels])
        for emitted, work in zip(kernels, works, strict=True):
            if emitted.extent.iterations:
                self._call(call.inst, emitted, places, scalars, work)
        self._in_slots.clear()

    def _result_slot(self, inst: Instruction, path: Path, leaf: ArrayShape, buffer: Buffer) -> None:
        """Have a kernel write a scalar result to a slot, rather than to memory that is reused.

        A result of the program that nothing else writes to is as good.
        """
        place = self.place(buffer)
        if self._writers[buffer] > 1 or (inst, path) != self._delivered.get(buffer):
            place = self._in_slots[buffer] = self.slot()
        self.scalars[inst, path] = Stored(place, leaf)

    def _call(
        self, inst: Instruction, emitted: Emitted, places: Sequence[Place],
        scalars: Sequence[Scalar], work: Work,
    ) -> None:  # fmt: skip
        """Write the launch of a kernel on places and scalars."""
        b = Builder(self.module)
        b.is_careful = True
        function, extent = self.module.functions[emitted.function], emitted.extent
        read = [p for p in places_of(scalars) if p not in places]
        names = [f"%p{n}" for n in range(len(places) + len(read))]
        pointers = dict(zip([*places, *read], names, strict=True))
        writer = ScalarWriter(b, self.live, pointers.__getitem__)
        arguments = [Val("ptr", name) for name in names[: len(places)]]
        for value in map(writer.value, scalars):
            arguments += [value.re, value.im] if isinstance(value, Cplx) else [value]
        if isinstance(extent, Grid):
            grid = extent
            b.call_void(emitted.function, arguments)
        else:
            grid = self._by_shares(b, emitted, arguments)
        b.ret()
        # As the kernel says of its parameters.
        parameters = []
        for n, (place, name) in enumerate(zip([*places, *read], names, strict=True)):
            said = "readonly"
            if n < len(places):
                said = " ".join(w for w in function.parameters[n].split()[1:-1])
            parameters.append(f"ptr align {_alignment(place)} {said} {name}".replace("  ", " "))
        stem = emitted.function.removeprefix("kernel.")
        self._launch(stem, b, parameters, (*places, *read), grid, inst, work)

    def _by_shares(self, b: Builder, emitted: Emitted, arguments: Sequence[Val]) -> Grid:
        """Call a kernel that is written for processors, each thread for a share of its own."""
        extent = emitted.extent
        share = -(-extent.iterations // self.gpu.most_shares)
        shares = -(-extent.iterations // share)
        threads = min(SHARE_THREADS, -(-shares // self.gpu.lanes) * self.gpu.lanes)
        begin = b.mul(ThreadBlock(b, self.gpu).global_index(threads), share)
        with b.when(b.compare("slt", begin, extent.iterations)):
            end = b.minimum(b.add(begin, share), extent.iterations)
            b.call_void(emitted.function, [*arguments, i64(begin), i64(end)])
        return Grid(extent.iterations, extent.cost, -(-shares // threads), threads)

    def _launch(
        self, stem: str, b: Builder, parameters: Sequence[str], places: tuple[Place, ...],
        grid: Grid, inst: Instruction | None, work: Work = NOTHING,
    ) -> None:  # fmt: skip
        """Write the launch of a function as a kernel that the host sees."""
        function = Function(
            "", parameters, ("nounwind", *self.gpu.kernel_attributes(grid)),
            result=f"{self.gpu.convention} void", is_final=grid.is_final,
        )  # fmt: skip
        b.finish(function)
        is_located = self.module.is_located
        code = function.text_without_locations if is_located else function.text
        name = self._entries.get(code)
        if name is None:
            stem = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem)
            name = f"{stem}_{len(self._entries)}"
            function.name = self._entries[code] = name
            self.module.add(function)
            if inst is not None:
                self.instructions[name] = inst
        said = inst.name if inst is not None else ""
        self.steps.append(
            plan.Launch(name, grid.blocks, grid.threads, places, grid.shared_bytes, said, work)
        )

    # --- control --------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> None:
        inst = loop.inst
        condition, body = inst.condition, inst.body
        self.moves(loop.enter)
        slots = {path: Stored(self.slot(), leaf) for path, leaf in _scalar_leaves(inst)}
        if self._in_one_block(loop, slots):
            return
        self._assign(slots, inst.operands[0])
        (tested,), (changed,) = condition.parameters, body.parameters
        for path, slot in slots.items():
            self.scalars[tested, path] = self.scalars[changed, path] = slot
        with self.inside() as testing:
            self.block(loop.condition)
            flag = self.slot()
            self.tasks.append(_Task(flag, _PRED, self.scalar(condition.root)))
        with self.inside() as running:
            self.block(loop.body)
            self.moves(loop.carry)
            self._assign(slots, body.root)
        counter = counted(inst)
        message = ""
        if never_ends(inst):
            message = f"{inst.name}: {endless(inst).message}"
        trips = None if counter is None else counter.count
        self.steps.append(plan.While(tuple(testing), flag, tuple(running), trips, message))
        for path, slot in slots.items():
            self.scalars[inst, path] = slot

    def _in_one_block(self, loop: Loop, slots: Mapping[Path, Stored]) -> bool:
        """Write a small loop as one kernel; returns whether it is one."""
        if not (self.gpu.has_counted_barriers and is_small(loop)):
            return False
        emitter = OneBlockEmitter(
            self.module, "", replace(self.gpu, is_one_block=True), self.live, self.assignment,
            self._block_kernels,
        )  # fmt: skip
        flag, counter = self.slot(), counted(loop.inst)
        is_once = counter is not None and counter.count <= turns_at_once(loop)
        init = loop.inst.operands[0]
        start = {path: self.scalar(init, path) if is_once else slots[path] for path in slots}
        try:
            kernel = loop_kernel(
                emitter, loop, self.place, self.scalars.__getitem__, start, slots, flag
            )  # fmt: skip
        except NotForOneBlock:
            return False
        named = kernel.parameters
        parameters = [f"ptr align {_alignment(p)} {name}" for p, name in named.items()]
        grid = Grid(1, threads=kernel.threads)
        if not is_once:
            self._assign(slots, init)
        with self.inside() as steps:
            self._launch(
                "loop", emitter.b, parameters, tuple(named), grid, loop.inst,
                self.work.of_loop(loop),
            )  # fmt: skip
        if is_once:
            self.steps += steps
        else:
            self.steps.append(plan.While(tuple(steps), flag, ()))
        for path, slot in slots.items():
            self.scalars[loop.inst, path] = slot
        return True

    def _assign(self, slots: Mapping[Path, Stored], values: Instruction) -> None:
        """Write parallel assignments of the scalars of a value to slots."""
        # Tasks before may write what these read.
        self.flush()
        for path, slot in slots.items():
            value = self.scalar(values, path)
            if value != slot:
                self.tasks.append(_Task(slot.place, slot.shape, value))
        self.flush()

    def _branches(self, branches: Branches) -> None:
        inst = branches.inst
        chosen = self.scalar(inst.operands[0])
        is_truth = inst.operands[0].array_shape.element_type is PRED
        index = self.slot()
        self.tasks.append(_Task(index, _INDEX, chosen, is_branch=is_truth))
        slots = {path: Stored(self.slot(), leaf) for path, leaf in _scalar_leaves(inst)}
        made: list[tuple[plan.Step, ...]] = []
        for block, moves in branches.branches:
            with self.inside() as steps:
                self.block(block)
                self.moves(moves)
                self._assign(slots, block.comp.root)
            made.append(tuple(steps))
        self.steps.append(plan.Switch(index, tuple(made)))
        for path, slot in slots.items():
            self.scalars[inst, path] = slot

    def _host(self, call: HostCall) -> None:
        inst = call.inst
        operands: list[tuple[Place, int]] = []
        for operand in inst.operands:
            for path, leaf in array_leaves(operand):
                place = self.leaf_place(operand, path) or self.kept(
                    self.scalar(operand, path), leaf
                )
                operands.append((place, _content_bytes(leaf)))
        self.flush()
        results: list[tuple[Place, int]] = []
        if call.results or inst.shape.is_array:
            for path, leaf in array_leaves(inst):
                if leaf.dims:
                    place = self.place(call.results[path])
                else:
                    place = self.slot()
                    self.scalars[inst, path] = Stored(place, leaf)
                results.append((place, _content_bytes(leaf)))
        self.calls.append(inst)
        self.steps.append(plan.HostCall(len(self.calls) - 1, tuple(operands), tuple(results)))


def _scalar_leaves(inst: Instruction) -> list[tuple[Path, ArrayShape]]:
    return [(path, leaf) for path, leaf in array_leaves(inst) if not leaf.dims]


def _buffers(block: Block) -> Iterator[Buffer]:
    """Yield the buffers that the commands of a block name, those of a command once."""
    for command in block.commands:
        match command:
            case KernelCall():
                moved = [buffer for move in command.moves for buffer in _moved(move)]
                yield from {*command.buffers, *command.scratch, *moved}
            case HostCall():
                yield from command.results.values()
            case Loop():
                for move in (*command.enter, *command.carry):
                    yield from _moved(move)
                yield from _buffers(command.condition)
                yield from _buffers(command.body)
            case Branches():
                for branch, moves in command.branches:
                    yield from _buffers(branch)
                    for move in moves:
                        yield from _moved(move)


def _moved(move: Move) -> tuple[Buffer, ...]:
    return (move.target,) if isinstance(move, StoreScalar) else (move.source, move.target)


def _content_bytes(shape: ArrayShape) -> int:
    """Return the bytes of an array, 0 if it has no elements, whatever its tiles take."""
    return 0 if is_empty(shape) else size_bytes(shape)


def _alignment(place: Place) -> int:
    """Return what an address is a multiple of: regions begin at multiples of 256."""
    return min(16, place.offset & -place.offset) if place.offset else 16
