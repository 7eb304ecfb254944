"""A launch plan under construction: where values are on the device, and the steps so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hlo.codegen.entry.buffers import Buffer, Origin
from hlo.codegen.entry.calls import KernelCache, Kernels
from hlo.codegen.entry.commands import (
    Block,
    Move,
    StoreScalar,
)
from hlo.codegen.entry.functions import ElementFunctions
from hlo.codegen.entry.state import store_scalar
from hlo.codegen.launches.carried import Span, meet
from hlo.codegen.launches.scalars import Scalar, ScalarWriter, Stored, places_of
from hlo.codegen.launches.work import KernelWork
from hlo.codegen.llvm import Builder, ModuleBuilder, Val
from hlo.codegen.loops.address import Indices, load
from hlo.codegen.loops.element import ElementEmitter
from hlo.codegen.pipeline import PlannedProgram
from hlo.codegen.plan.liveness import Path, Storage, array_leaves, collect_leaves
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.errors import HloError
from hlo.gpu import plan
from hlo.gpu.plan import Place, Region
from hlo.gpu.work import NOTHING, Work
from hlo.ir import Instruction
from hlo.llvm import Function
from hlo.values.layout.plain import is_empty, size_bytes
from hlo.values.types import ArrayShape

# Scalars in memory are multiples of so many bytes apart: the widest is a complex number of doubles.
SLOT_BYTES = 16
_REGIONS = {
    Origin.TEMP: Region.ARENA,
    Origin.CONSTANT: Region.CONSTANTS,
    Origin.PARAMETER: Region.ARGUMENT,
    Origin.OUTPUT: Region.RESULT,
    Origin.SHARED: Region.RESULT,
    Origin.COUNTERS: Region.COUNTERS,
}


@dataclass(frozen=True)
class Task:
    """A scalar that a kernel of one thread computes and stores.

    inst: that is computed from memory; else `value` is stored.
    """

    target: Place
    shape: ArrayShape
    value: Scalar | None = None
    inst: Instruction | None = None
    # A truth value that is stored as the number of a branch.
    is_branch: bool = False


class LaunchState(ABC):
    """The steps of one program, and what is known of its values."""

    def __init__(self, planned: PlannedProgram, gpu: Gpu, is_located: bool) -> None:
        self.planned, self.gpu = planned, gpu
        self.live, self.assignment = planned.live, planned.assignment
        self.module = ModuleBuilder(
            gpu.triple, gpu.data_layout, has_half_conversion=True,
            has_float_maximum=gpu.has_float_maximum, is_located=is_located,
            is_strict=planned.is_strict,
        )  # fmt: skip
        # Writes itself where a function is applied to elements.
        ElementFunctions(self.module, gpu.thread)
        self.kernels = Kernels(self.module, gpu, Builder(self.module), KernelCache())
        self.work = KernelWork(planned)
        self.steps: list[plan.Step] = []
        self.tasks: list[Task] = []
        self.scalars: dict[Storage, Scalar] = {}
        self.instructions: dict[str, Instruction] = {}
        self.num_slots = 0
        # How many loops and branches are being written.
        self.depth = 0
        # Buffers of scalars that kernels write to slots instead.
        self.in_slots: dict[Buffer, Place] = {}
        # The names of kernels by their code.
        self._entries: dict[str, str] = {}
        self.block_kernels = KernelCache()

    @abstractmethod
    def block(self, block: Block) -> None:
        """Write the steps of a computation."""

    @abstractmethod
    def slot_of(self, inst: Instruction, path: Path, leaf: ArrayShape) -> Place:
        """Return memory for a scalar that a loop or a branch makes: where the caller expects it."""

    # --- places -----------------------------------------------------------------------------------

    def place(self, buffer: Buffer, offset: int = 0) -> Place:
        """Return the place at an offset in a buffer."""
        if buffer in self.in_slots:
            return self.in_slots[buffer].after(offset)
        region = _REGIONS[buffer.origin]
        if buffer.origin in (Origin.TEMP, Origin.CONSTANT):
            return Place(region, buffer.offset + offset)
        return Place(region, offset, buffer.number)

    def slot(self, shape: ArrayShape) -> Place:
        """Reserve memory for a scalar of a shape, whose layout may have padding."""
        first = self.num_slots
        self.num_slots += -(-size_bytes(shape) // SLOT_BYTES)
        return Place(Region.SCALARS, first * SLOT_BYTES)

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
        place = self.slot(shape)
        self.tasks.append(Task(place, shape, value))
        return place

    # --- steps ------------------------------------------------------------------------------------

    @contextmanager
    def inside(self) -> Iterator[list[plan.Step]]:
        """Collect steps apart; yields where they are when the context ends."""
        self.flush()
        outer, self.steps = self.steps, []
        inner = self.steps
        self.depth += 1
        yield inner
        self.flush()
        self.depth -= 1
        self.steps = outer

    def moves(self, moves: Sequence[Move]) -> None:
        """Write copies and stores."""
        for move in moves:
            target = self.place(move.target)
            if isinstance(move, StoreScalar):
                value = self.scalars[move.value]
                if value != Stored(target, move.shape):
                    self.tasks.append(Task(target, move.shape, value))
            elif not is_empty(move.shape):
                source, size = self.place(move.source), size_bytes(move.shape)
                if not self.is_apart([Span(target, size)], [Span(source, size)]):
                    self.flush()
                self.steps.append(plan.Copy(target, source, size))

    def assign(self, slots: Mapping[Path, Stored], values: Instruction) -> None:
        """Write parallel assignments of the scalars of a value to slots."""
        # Tasks before may write what these read.
        self.flush()
        for path, slot in slots.items():
            value = self.scalar(values, path)
            if value != slot:
                self.tasks.append(Task(slot.place, slot.shape, value))
        self.flush()

    def launch(
        self, stem: str, b: Builder, parameters: Sequence[str], places: tuple[Place, ...],
        grid: Grid, inst: Instruction | None, work: Work = NOTHING,
    ) -> None:  # fmt: skip
        """Write the launch of a function as a kernel that the host sees.

        Raises HloError for more blocks or parameters than a launch can have.
        """
        self._check(inst, grid, len(places))
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

    def _check(self, inst: Instruction | None, grid: Grid, parameters: int) -> None:
        name, span = (inst.name, inst.span) if inst is not None else ("scalars", None)
        for count, most, what in (
            (grid.blocks, self.gpu.most_blocks, "blocks"),
            (parameters, self.gpu.most_parameters, "arrays and scalars"),
        ):
            if count > most:
                raise HloError.at(
                    "too-large", f"{name}: a kernel of {count} {what}, of which a GPU takes "
                    f"{most} at the most", span,
                )  # fmt: skip

    # --- scalars ----------------------------------------------------------------------------------

    def reads(self, inst: Instruction) -> list[Instruction]:
        """Return what an instruction is computed from, through what is fused into it."""
        return collect_leaves(inst, self.live.roles)

    def flush(self) -> None:
        """Write the launch that computes the scalars of all tasks."""
        if not self.tasks:
            return
        tasks, self.tasks = self.tasks, []
        b = Builder(self.module)
        b.is_careful = True
        names: dict[Place, str] = {}

        def pointer(place: Place) -> str:
            return names.setdefault(place, f"%p{len(names)}")

        writer = ScalarWriter(b, self.live, pointer)
        self.store_all(b, writer, tasks, pointer)
        b.ret()
        parameters = [f"ptr align {alignment(p)} {name}" for p, name in names.items()]
        self.launch("scalars", b, parameters, tuple(names), Grid(1), None)

    def store_all(
        self, b: Builder, writer: ScalarWriter, tasks: Sequence[Task],
        pointer: Callable[[Place], str],
    ) -> None:  # fmt: skip
        """Compute all tasks, then store them: some read what others write."""
        values = [self.task_value(b, writer, task, pointer) for task in tasks]
        for task, value in zip(tasks, values, strict=True):
            store_scalar(b, task.shape, value, pointer(task.target))

    def reads_of(self, task: Task) -> list[Span]:
        """Return the memory that a task reads, but for what tasks before it compute."""
        made = {t.target for t in self.tasks if t.inst is not None}
        if task.value is not None:
            return [Span(place) for place in places_of([task.value]) if place not in made]
        assert task.inst is not None
        found: list[Span] = []
        for leaf in self.reads(task.inst):
            place = self.leaf_place(leaf)
            if place is not None:
                found.append(Span(place, size_bytes(leaf.array_shape)))
            else:
                found += [Span(p) for p in places_of([self.scalar(leaf)]) if p not in made]
        return found

    def is_apart(self, written: Sequence[Span], read: Sequence[Span]) -> bool:
        """True when a step that writes and reads memory may come before what is to be computed."""
        targets = [Span(task.target) for task in self.tasks]
        if meet(targets, [*written, *read]):
            return False
        return not any(meet(self.reads_of(task), written) for task in self.tasks)

    def task_value(
        self, b: Builder, writer: ScalarWriter, task: Task, pointer: Callable[[Place], str]
    ) -> Value:
        """Return the value of a task. pointer: returns the address of a place."""
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
            return load(b, leaf.array_shape, pointer(place), indices)

        found = ElementEmitter(b, self.live.roles, read).compute(task.inst, ())
        writer.know(Stored(task.target, task.shape), found)
        return found


def scalar_leaves(inst: Instruction) -> list[tuple[Path, ArrayShape]]:
    """Return the scalars in a result, and their index paths."""
    return [(path, leaf) for path, leaf in array_leaves(inst) if not leaf.dims]


def alignment(place: Place) -> int:
    """Return what an address is a multiple of: regions begin at multiples of 256."""
    return min(16, place.offset & -place.offset) if place.offset else 16
