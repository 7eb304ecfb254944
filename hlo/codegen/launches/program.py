"""From a planned program to kernels in LLVM IR and the launch plan that runs them.

It walks the same commands as the emitter of the entry function (`hlo.codegen.entry.emitter`), and
writes a step for each instead of code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from hlo.codegen.launches.control import write_branches, write_loop
from hlo.codegen.launches.scalars import Scalar, ScalarWriter, Stored, formula, places_of
from hlo.codegen.launches.state import SLOT_BYTES, LaunchState, Task, alignment
from hlo.codegen.llvm import Builder, Val, i64
from hlo.codegen.pipeline import PlannedProgram
from hlo.codegen.plan.liveness import Path, array_leaves
from hlo.codegen.scalar.operations import Cplx
from hlo.codegen.targets.gpu.base import SHARE_THREADS, Gpu, Grid
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
            a.arena_bytes, self.num_slots * SLOT_BYTES, a.constants.size, a.constants.pieces,
            a.aliases,
        )  # fmt: skip
        return GpuProgram(self.module, launches, tuple(self.calls), self.instructions)

    # --- commands ---------------------------------------------------------------------------------

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
            place = self.slot()
            self.tasks.append(Task(place, inst.array_shape, inst=inst))
            found = Stored(place, inst.array_shape)
        self.scalars[inst, ()] = found

    # --- kernels ----------------------------------------------------------------------------------

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
        self.in_slots.clear()

    def _result_slot(self, inst: Instruction, path: Path, leaf: ArrayShape, buffer: Buffer) -> None:
        """Have a kernel write a scalar result to a slot, rather than to memory that is reused.

        A result of the program that nothing else writes to is as good.
        """
        place = self.place(buffer)
        if self._writers[buffer] > 1 or (inst, path) != self._delivered.get(buffer):
            place = self.in_slots[buffer] = self.slot()
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
            parameters.append(f"ptr align {alignment(place)} {said} {name}".replace("  ", " "))
        stem = emitted.function.removeprefix("kernel.")
        self.launch(stem, b, parameters, (*places, *read), grid, inst, work)

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
                    place = self.slot()
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
