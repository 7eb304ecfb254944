"""An entry function under construction, as seen by the emission of loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hlo.codegen.entry.assignment import BufferAssignment
from hlo.codegen.entry.buffers import Buffer
from hlo.codegen.entry.calls import KernelCache, Kernels
from hlo.codegen.entry.commands import Block, Loop, Move, StoreScalar
from hlo.codegen.entry.imports import Imports
from hlo.codegen.llvm import FALSE, POLLED_COST, Builder, ModuleBuilder, i64, ptr
from hlo.codegen.loops.address import num_positions, store, store_position, store_prefix
from hlo.codegen.loops.vectors import define
from hlo.codegen.plan.liveness import Liveness, Path, Storage
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent, LlvmTarget
from hlo.ir import Instruction
from hlo.values.layout.plain import is_empty, is_plain, size_bytes
from hlo.values.types import ArrayShape

_MEMCPY = "llvm.memcpy.p0.p0.i64"
# Arrays from this size on are copied by all threads, in blocks: one alone does not reach the
# memory's bandwidth.
_SHARED_COPY_BYTES, _COPY_BLOCK = 1 << 20, 1 << 16


@dataclass
class EntryState:
    """An entry function under construction: where values are, and the time since the last poll."""

    module: ModuleBuilder
    symbol: str
    target: LlvmTarget
    live: Liveness
    assignment: BufferAssignment
    cache: KernelCache
    linkage: str = ""
    # The numbers of replicas and partitions that the program is for.
    device_counts: tuple[int, int] = (1, 1)
    imports: Imports = field(default_factory=Imports)

    def __post_init__(self) -> None:
        self.b = Builder(self.module)
        # Scalars are computed one at a time, so branch-free code has no advantage.
        self.b.is_careful = True
        self.kernels = Kernels(self.module, self.target, self.b, self.cache)
        self.pointers: dict[Buffer, str] = {}
        self.scalars: dict[Storage, Value] = {}
        # The work since the last poll: see `spend`.
        self.spent = 0.0
        # The work of all kernels, likewise, and whether some loop does so little a turn that the
        # code between its kernels matters.
        self.work, self.is_light = 0.0, False
        # The call, and its number, of each collective that has been started.
        self.started: dict[Instruction, tuple[str, int]] = {}

    def block(self, block: Block) -> None:
        """Emit the commands of a computation."""
        raise NotImplementedError

    def iteration(self, loop: Loop, body: Callable[[], None]) -> None:
        """Emit the body of a loop, which `body` does, and what precedes it."""
        raise NotImplementedError

    def buffer(self, inst: Instruction, path: Path = ()) -> Buffer | None:
        """Return the buffer of a leaf, None if it is a scalar."""
        return self.assignment.values[self.live.of(inst, path)]

    def place(self, buffer: Buffer, offset: int) -> str:
        """Return the address at an offset in a buffer."""
        start = self.pointers[buffer]
        return self.b.element_address(start, "i8", offset) if offset else start

    def scalar(self, inst: Instruction, path: Path = ()) -> Value:
        """Return the value of a computed scalar."""
        return self.scalars[self.live.of(inst, path)]

    def spend(self, cost: float) -> None:
        """Record the cost of the code emitted last, in approximate scalar operations."""
        self.spent += cost
        if self.spent >= POLLED_COST:
            self.b.poll(POLLED_COST + 1)
            self.spent = 0.0

    def moves(self, moves: Sequence[Move]) -> None:
        """Write copies and stores."""
        for move in moves:
            target = self.pointers[move.target]
            if isinstance(move, StoreScalar):
                store_scalar(self.b, move.shape, self.scalars[move.value], target)
            elif not is_empty(move.shape):
                self.copy_bytes(self.pointers[move.source], target, move.shape)

    def copy_bytes(self, source: str, target: str, shape: ArrayShape) -> None:
        """Copy an array between two addresses."""
        self.module.declare(_MEMCPY, "void", ["ptr", "ptr", "i64", "i1 immarg"])
        size = size_bytes(shape)
        if size < _SHARED_COPY_BYTES:
            self.b.call_void(_MEMCPY, [ptr(target), ptr(source), i64(size), FALSE])
            self.spend(size / 4)
            return
        parameters = "ptr %target, ptr %source, i64 %size, i64 %begin, i64 %end"
        function = define(self.module, "copy.blocks", parameters, _copy_blocks)
        extent = Extent(-(-size // _COPY_BLOCK), _COPY_BLOCK / 4)
        arguments = [ptr(target), ptr(source), i64(size)]
        self.spend(self.kernels.launcher.launch(function, arguments, extent))


def store_scalar(b: Builder, shape: ArrayShape, value: Value, base: str) -> None:
    """Write an array of one element, in any layout."""
    if is_plain(shape):
        store(b, shape, value, base, ())
        return
    store_prefix(b, shape, base)
    with b.loop(0, num_positions(shape)) as at:
        store_position(b, shape, base, at, lambda _: value)


def _copy_blocks(b: Builder) -> None:
    """Copy the blocks from `%begin` to `%end`, of which the last may be shorter."""
    first = b.mul("%begin", _COPY_BLOCK)
    count = b.sub(b.minimum(b.mul("%end", _COPY_BLOCK), "%size"), first)
    places = [ptr(b.element_address(base, "i8", first)) for base in ("%target", "%source")]
    b.call_void(_MEMCPY, [*places, i64(count), FALSE])
