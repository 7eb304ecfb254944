"""From a planned program to kernels in LLVM IR and the launch plan that runs them.

It walks the same commands as the emitter of the entry function (`hlo.codegen.entry.emitter`), and
writes a step for each instead of code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hlo.analysis.fusion.roles import Role
from hlo.codegen.entry.buffers import Buffer, Origin
from hlo.codegen.entry.calls import Emitted
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
from hlo.codegen.launches.carried import Span
from hlo.codegen.launches.control import write_branches, write_loop
from hlo.codegen.launches.early import with_early_scalars
from hlo.codegen.launches.scalars import (
    MOST_OPERATIONS,
    Scalar,
    ScalarWriter,
    Stored,
    formula,
    places_of,
)
from hlo.codegen.launches.state import SLOT_BYTES, LaunchState, Task, alignment
from hlo.codegen.llvm import Builder, Val, i64
from hlo.codegen.llvm.narrow import with_narrow_divisions
from hlo.codegen.llvm.spaces import add_spaces
from hlo.codegen.llvm.vector_access import with_vector_accesses
from hlo.codegen.pipeline import PlannedProgram
from hlo.codegen.plan.liveness import Path, array_leaves
from hlo.codegen.scalar.operations import Cplx
from hlo.codegen.targets.base import Extent
from hlo.codegen.targets.gpu.base import MOST_THREADS, SHARE_THREADS, Gpu, Grid
from hlo.codegen.targets.gpu.block import Block as ThreadBlock
from hlo.gpu import plan
from hlo.gpu.plan import LaunchPlan, Place, Region
from hlo.gpu.work import Work
from hlo.ir import Instruction
from hlo.llvm import LlvmModule
from hlo.values.layout.plain import is_empty, size_bytes
from hlo.values.types import ArrayShape


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


class _Writer(LaunchState):
    """Writes the commands of a program."""

    def __init__(self, planned: PlannedProgram, gpu: Gpu, is_located: bool) -> None:
        super().__init__(planned, gpu, is_located)
        self.calls: list[Instruction] = []
        # How many commands name each buffer, and the scalars that are results of the program.
        self._writers = Counter(_buffers(self.assignment.entry))
        self._stored: set[Buffer] = set()
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
        self.moves([m for m in a.moves if m.target not in self._stored])
        self.flush()
        for function in [*self.module.functions.values()]:
            if function.linkage == "internal" and "noinline" in function.attributes:
                inlined = tuple(a for a in function.attributes if a != "noinline")
                self.module.functions[function.name] = function.replace(
                    attributes=("alwaysinline", *inlined)
                )
        self._finish()
        launches = LaunchPlan(
            tuple(self.steps),
            tuple(_content_bytes(s) for _, s in a.arguments),
            tuple(_content_bytes(s) for s in a.results),
            a.arena_bytes, self.num_slots * SLOT_BYTES, a.constants.size, a.constants.pieces,
            # Scalars are read where they are needed, in memory of their own.
            tuple((result, n) for result, n in a.aliases if a.results[result].dims),
            max((b.size_bytes for b in a.buffers if b.origin is Origin.COUNTERS), default=0),
        )  # fmt: skip
        return GpuProgram(self.module, launches, tuple(self.calls), self.instructions)

    def _finish(self) -> None:
        """Let the code say what LLVM would have to find out: that takes it longer than all else."""
        module, gpu = self.module, self.gpu
        add_spaces(module)
        limits = {
            f"@{gpu.thread_register}": MOST_THREADS - 1,
            f"@{gpu.block_register}": gpu.most_blocks - 1,
        }  # fmt: skip
        for name, function in module.functions.items():
            narrow = replace(function, body=with_narrow_divisions(function.body, limits))
            module.functions[name] = replace(narrow, body=with_vector_accesses(narrow, module))

    # --- commands ---------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Write the steps of a computation."""
        for command in with_early_scalars(block.commands, self._sources):
            self._command(command)

    def _sources(self, inst: Instruction) -> list[Instruction]:
        return [self.live.of(leaf, ())[0] for leaf in self.reads(inst)]

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
                write_loop(self, command)
            case Branches():
                write_branches(self, command)

    def _scalar(self, inst: Instruction) -> None:
        def scalar_of(leaf: Instruction) -> Scalar | None:
            return None if self.leaf_place(leaf) is not None else self.scalar(leaf)

        found: Scalar | None = formula(inst, self.reads(inst), scalar_of)
        if found is None:
            if any(task.target.region is not Region.SCALARS for task in self.tasks):
                self.flush()  # it may read what they write
            place = self.slot(inst.array_shape)
            self.tasks.append(Task(place, inst.array_shape, inst=inst))
            found = Stored(place, inst.array_shape)
        self.scalars[inst, ()] = found

    # --- kernels ----------------------------------------------------------------------------------

    def _kernel(self, call: KernelCall) -> None:
        self._deliver()
        leaves = array_leaves(call.inst)
        for (path, leaf), number in zip(leaves, call.results, strict=True):
            if not leaf.dims:
                self._result_slot(call.inst, path, leaf, call.buffers[number])
        self.moves(call.moves)
        inputs, plan_ = call.inputs, call.plan.plan
        places = [self.place(x, at) for x, at in zip(call.buffers, call.offsets, strict=True)]
        places += [self.place(x) for x in call.scratch]
        places += [Place(Region.CONSTANTS, at) for at in call.tables]
        scalars = [self.scalar(x) for x in inputs.scalars]
        if not self._is_carried(call, places, scalars):
            self.flush()
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
        self.in_slots.clear()

    def _result_slot(self, inst: Instruction, path: Path, leaf: ArrayShape, buffer: Buffer) -> None:
        """Have a kernel write a scalar result to a slot, rather than to memory that is reused.

        A result of the program that nothing else writes to is as good.
        """
        place = self.place(buffer)
        if self._writers[buffer] > 1 or (inst, path) != self._delivered.get(buffer):
            place = self.in_slots[buffer] = self.slot(leaf)
        self.scalars[inst, path] = Stored(place, leaf)

    def slot_of(self, inst: Instruction, path: Path, leaf: ArrayShape) -> Place:
        for buffer, value in self._delivered.items():
            if value == (inst, path) and buffer.origin is Origin.OUTPUT:
                if not self._writers[buffer]:
                    return self.place(buffer)
        return self.slot(leaf)

    def _is_carried(
        self, call: KernelCall, places: Sequence[Place], scalars: Sequence[Scalar]
    ) -> bool:
        """True when a kernel's first launch can compute what is to be computed before it."""
        sizes = [buffer.size_bytes for buffer in (*call.buffers, *call.scratch)]
        spans = [Span(place, size) for place, size in zip(places, sizes, strict=False)]
        written = [spans[n] for n in {*call.results, *range(len(call.buffers), len(spans))}]
        read = [Span(place) for place in places_of(scalars)]
        made = {task.target for task in self.tasks if task.inst is not None}
        if made.isdisjoint(span.place for span in read):
            return self.is_apart(written, [*spans, *read])
        # All threads compute what they read.
        if any(task.inst is not None and not self._is_short(task.inst) for task in self.tasks):
            return False
        read = [span for span in read if span.place not in made]
        own = [span for task in self.tasks for span in self.reads_of(task)]
        return self.is_apart(written, [*spans, *read, *own])

    def _is_short(self, inst: Instruction) -> bool:
        """True for a scalar that each thread may compute from memory."""
        stack, seen = [inst], {inst}
        while stack and len(seen) <= MOST_OPERATIONS:
            for operand in stack.pop().operands:
                if operand not in seen and self.live.roles[operand] is Role.FUSED:
                    seen.add(operand)
                    stack.append(operand)
        return len(seen) <= MOST_OPERATIONS

    def _deliver(self) -> None:
        """Have what runs next store the results of the program that are known by now."""
        if self.depth:
            return
        for move in self.assignment.moves:
            if not isinstance(move, StoreScalar) or move.target in self._stored:
                continue
            known = self.scalars.get(move.value)
            if known is not None and move.target.origin is Origin.OUTPUT:
                if not self._writers[move.target]:
                    self._stored.add(move.target)
                    self.moves([move])

    def _call(
        self, inst: Instruction, emitted: Emitted, places: Sequence[Place],
        scalars: Sequence[Scalar], work: Work,
    ) -> None:  # fmt: skip
        """Write the launch of a kernel on places and scalars."""
        b = Builder(self.module)
        b.is_careful = True
        function, extent = self.module.functions[emitted.function], emitted.extent
        tasks, self.tasks = self.tasks, []
        names = [f"%p{n}" for n in range(len(places))]
        known, others = dict(zip(places, names, strict=True)), dict[Place, str]()

        def pointer(place: Place) -> str:
            return known.get(place) or others.setdefault(place, f"%p{len(places) + len(others)}")

        writer = ScalarWriter(b, self.live, pointer)
        targets = {task.target for task in tasks}
        if not targets.isdisjoint(places_of(scalars)):
            for task in tasks:
                if task.inst is not None:
                    self.task_value(b, writer, task, pointer)
        arguments = [Val("ptr", name) for name in names]
        for value in map(writer.value, scalars):
            arguments += [value.re, value.im] if isinstance(value, Cplx) else [value]
        grid = extent if isinstance(extent, Grid) else self._shared_out(extent)
        if tasks:
            first = ThreadBlock(b, self.gpu).global_index(grid.threads)
            with b.when(b.compare("eq", first, 0)):
                self.store_all(b, writer, tasks, pointer)
        if isinstance(extent, Grid):
            b.call_void(emitted.function, arguments)
        else:
            self._by_shares(b, emitted, arguments, grid)
        b.ret()
        # As the kernel says of its parameters.
        said = [" ".join(words.split()[1:-1]) for words in function.parameters[: len(places)]]
        said += ["" if place in targets else "readonly" for place in others]
        every = {**dict(enumerate(places)), **dict(enumerate(others, len(places)))}
        parameters = [
            f"ptr align {alignment(place)} {said[n]} %p{n}".replace("  ", " ")
            for n, place in every.items()
        ]
        stem = emitted.function.removeprefix("kernel.")
        self.launch(stem, b, parameters, (*places, *others), grid, inst, work)

    def _shared_out(self, extent: Extent) -> Grid:
        """Return the grid of a kernel that is written for processors: threads have shares."""
        share = -(-extent.iterations // self.gpu.most_shares)
        shares = -(-extent.iterations // share)
        threads = min(SHARE_THREADS, -(-shares // self.gpu.lanes) * self.gpu.lanes)
        return Grid(extent.iterations, extent.cost, -(-shares // threads), threads)

    def _by_shares(
        self, b: Builder, emitted: Emitted, arguments: Sequence[Val], grid: Grid
    ) -> None:
        """Call a kernel that is written for processors, each thread for a share of its own."""
        count = grid.iterations
        share = -(-count // self.gpu.most_shares)
        begin = b.mul(ThreadBlock(b, self.gpu).global_index(grid.threads), share)
        with b.when(b.compare("slt", begin, count)):
            end = b.minimum(b.add(begin, share), count)
            b.call_void(emitted.function, [*arguments, i64(begin), i64(end)])

    # --- the host ---------------------------------------------------------------------------------

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
                    place = self.slot(leaf)
                    self.scalars[inst, path] = Stored(place, leaf)
                results.append((place, _content_bytes(leaf)))
        self.calls.append(inst)
        self.steps.append(plan.HostCall(len(self.calls) - 1, tuple(operands), tuple(results)))


def _buffers(block: Block) -> Iterator[Buffer]:
    """Yield the buffers that the commands of a block name, those of a command once."""
    for command in block.all_commands():
        match command:
            case KernelCall():
                moved = [buffer for move in command.moves for buffer in _moved(move)]
                yield from {*command.buffers, *command.scratch, *moved}
            case HostCall():
                yield from command.results.values()
            case Loop():
                for move in (*command.enter, *command.carry):
                    yield from _moved(move)
            case Branches():
                for _, moves in command.branches:
                    for move in moves:
                        yield from _moved(move)


def _moved(move: Move) -> tuple[Buffer, ...]:
    return (move.target,) if isinstance(move, StoreScalar) else (move.source, move.target)


def _content_bytes(shape: ArrayShape) -> int:
    """Return the bytes of an array, 0 if it has no elements, whatever its tiles take."""
    return 0 if is_empty(shape) else size_bytes(shape)
