"""Loops that one block runs, with the kernels in them: one launch instead of many a turn.

The work of a turn is small, so that launching, and asking the device whether to go on, would take
longer. A kernel never runs for long: a loop that may take many turns is left after some of them,
with its state in memory, and launched again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hlo.analysis.cost import cost_of
from hlo.analysis.trips import counted, never_ends
from hlo.codegen.entry.buffers import Buffer
from hlo.codegen.entry.commands import (
    HostCall,
    KernelCall,
    Loop,
    Move,
    StoreScalar,
)
from hlo.codegen.entry.control import Slot, emit_body, slots_of
from hlo.codegen.entry.emitter import EntryEmitter
from hlo.codegen.entry.state import store_scalar
from hlo.codegen.launches.scalars import Scalar, ScalarWriter, Stored
from hlo.codegen.llvm import FALSE, TRUE, Index, Val, i64
from hlo.codegen.plan.liveness import Path, Storage
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.base import Gpu
from hlo.codegen.targets.gpu.one_block import NotForOneBlock, OneBlockLauncher
from hlo.gpu.plan import Place, Region
from hlo.values.layout.plain import is_empty, size_bytes
from hlo.values.types import PRED, ArrayShape

# Scalar operations of a kernel that one block is not too slow for.
_MOST_WORK = 1 << 16
# Scalar operations after which a loop is left: milliseconds of one block.
_MOST_LAUNCHED = 1 << 26
# Kernels of a loop: each is code of its own.
_MOST_KERNELS = 48
# Static shared memory of a block.
_SHARED_BYTES = 48 << 10
# What a thread copies at a time, in bytes.
_WORD = 4


def is_small(loop: Loop) -> bool:
    """True for a loop whose kernels are small, and which needs nothing from the host."""
    commands = [*loop.condition.all_commands(), *loop.body.all_commands()]
    kernels = sum(isinstance(c, KernelCall) for c in commands)
    if kernels > _MOST_KERNELS or any(isinstance(c, HostCall) for c in commands):
        return False
    loops = [c.inst for c in commands if isinstance(c, Loop)]
    if any(counted(inst) is None for inst in loops) or any(map(never_ends, [*loops, loop.inst])):
        return False
    return turn_cost(loop) <= _MOST_WORK * max(1, kernels)


def turns_at_once(loop: Loop) -> int:
    """Return how many turns of a loop one launch runs at the most."""
    return max(1, int(_MOST_LAUNCHED / max(1.0, turn_cost(loop))))


def turn_cost(loop: Loop) -> float:
    """Return what a turn takes, in scalar operations."""
    costs = [cost_of(comp) for comp in (loop.inst.condition, loop.inst.body)]
    return sum(c.operations + 8 * c.transcendentals + c.bytes / 4 for c in costs)


@dataclass
class OneBlockEmitter(EntryEmitter):
    """Writes loops as code of one block; all of its threads compute the scalars."""

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.target, Gpu)
        self.launcher = self.kernels.launcher = OneBlockLauncher(self.b, self.target)

    def rounds(
        self, loop: Loop, most: int, state: dict[Path, Value]
    ) -> tuple[Val, dict[Path, Value]]:
        """Write a loop that is left after so many turns.

        state: of its scalars. Returns whether it has to be launched again, and the state then.
        """
        b, inst = self.b, loop.inst
        (tested,), (changed,) = inst.condition.parameters, inst.body.parameters
        slots: dict[Path, Slot] = slots_of(self, inst)
        for path, slot in slots.items():
            slot.put(state[path])
        left, is_left = b.alloca("i64"), b.alloca("i1")
        b.store(i64(most), left.name)
        head, more, run, pause, done = map(b.new_label, ("while", "more", "body", "pause", "done"))
        b.store(FALSE, is_left.name)
        b.jump(head)
        b.place(head)
        with b.scope():
            for path, slot in slots.items():
                value = slot.get()
                self.scalars[tested, path] = self.scalars[changed, path] = value
            self.block(loop.condition)
            go_on = self.scalar(inst.condition.root)
            assert isinstance(go_on, Val)
            b.branch(go_on, more, done)
            b.place(more)
            rest = b.load("i64", left.name)
            b.store(b.binary("sub", rest, 1), left.name)
            b.branch(b.icmp("sgt", rest, 0), run, pause)
            b.place(run)
            emit_body(self, loop, slots)
            b.jump(head, b.module.rolled_loop(vectorized=False))
        b.place(pause)
        b.store(TRUE, is_left.name)
        b.jump(done)
        b.place(done)
        return b.load("i1", is_left.name), {path: slot.get() for path, slot in slots.items()}

    # --- memory ---------------------------------------------------------------------------------

    def moves(self, moves: Sequence[Move]) -> None:
        block = self.launcher.block
        for move in moves:
            if isinstance(move, StoreScalar):
                value, target = self.scalars[move.value], self.pointers[move.target]
                block.barrier()
                with self.b.when(block.is_first_thread()):
                    store_scalar(self.b, move.shape, value, target)
                block.barrier()
            elif not is_empty(move.shape):
                self.copy_bytes(self.pointers[move.source], self.pointers[move.target], move.shape)

    def copy_bytes(self, source: str, target: str, shape: ArrayShape) -> None:
        b, size = self.b, size_bytes(shape)
        word = _WORD if size % _WORD == 0 else 1
        type_ = f"i{8 * word}"

        def copy(at: Index) -> None:
            value = b.load(type_, b.element_address(source, type_, at), align=word)
            b.store(value, b.element_address(target, type_, at), align=word)

        self.launcher.block.barrier()
        self.launcher.each(size // word, copy)
        self.launcher.block.barrier()


@dataclass(frozen=True)
class LoopKernel:
    """A loop as a kernel of one block.

    parameters: the name of the address of each place. threads: of the block.
    """

    parameters: Mapping[Place, str]
    threads: int


class _Parameters:
    """The parameters of a kernel under construction: one for each place, when it is first named."""

    def __init__(self) -> None:
        # Constants are addressed from the first.
        self.names: dict[Place, str] = {Place(Region.CONSTANTS): "%constants"}

    def pointer(self, place: Place) -> str:
        return self.names.setdefault(place, f"%p{len(self.names)}")


class _Pointers(dict[Buffer, str]):
    """The address of each buffer, by its parameter."""

    def __init__(self, find: Callable[[Buffer], str]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, buffer: Buffer) -> str:
        found = self[buffer] = self._find(buffer)
        return found


class _Scalars(dict[Storage, Value]):
    """The scalars of a kernel: those from outside are read where they are used."""

    def __init__(self, find: Callable[[Storage], Value]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, stored: Storage) -> Value:
        return self._find(stored)


def loop_kernel(
    emitter: OneBlockEmitter, loop: Loop, place_of: Callable[[Buffer], Place],
    scalar_of: Callable[[Storage], Scalar], start: Mapping[Path, Scalar],
    state: Mapping[Path, Stored], flag: Place,
) -> LoopKernel:  # fmt: skip
    """Write a kernel that runs turns of a loop into an emitter's function.

    place_of, scalar_of: where buffers are, and the scalars from outside. start: the scalars of the
    loop's state when the kernel begins. state: where they are written when it ends. flag: whether
    it has to be launched again. Raises `NotForOneBlock`.
    """
    b, parameters = emitter.b, _Parameters()
    launcher = emitter.launcher

    def outer(stored: Storage) -> Value:
        return ScalarWriter(b, emitter.live, parameters.pointer).value(scalar_of(stored))

    emitter.pointers = _Pointers(lambda buffer: parameters.pointer(place_of(buffer)))
    emitter.scalars = _Scalars(outer)
    writer = ScalarWriter(b, emitter.live, parameters.pointer)
    values = {path: writer.value(value) for path, value in start.items()}
    is_left, after = emitter.rounds(loop, turns_at_once(loop), values)
    launcher.block.barrier()
    with b.when(launcher.block.is_first_thread()):
        for path, slot in state.items():
            store_scalar(b, slot.shape, after[path], parameters.pointer(slot.place))
        scalar.store(b, PRED, is_left, parameters.pointer(flag), 0)
    b.ret()
    if launcher.shared_bytes > _SHARED_BYTES:
        raise NotForOneBlock.at("unsupported", f"{loop.inst.name} takes too much shared memory")
    return LoopKernel(parameters.names, launcher.threads)
