"""Writes the entry function: one native function with native control flow that calls the kernels.

Its signature is `i32 entry(ptr args, ptr results, ptr arena, ptr constants, ptr threads, ptr
host)`: arrays of pointers to the argument and result leaves, the arena of all temporaries, the data
of large constants, and null or the caller's `Threads`: `{ void (*run)(state, task, context, n,
chunk), void *state }`, where `run` has to call `task(context, begin, end)` for chunks of [0, n)
that begin at multiples of `chunk`, in any order, and wait for them all. `host` is the table of the
program's external functions, null if there are none (see `hlo.codegen.entry.host`). It returns 0,
or one more than the number of the external function that failed, or a number below -15 if a size is
outside its bound, or a loop would never end. Rank-0 values are SSA values here; scalar loop state
is in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from hlo.codegen import kernels  # noqa: F401  (kernels registers its emitters)
from hlo.codegen.entry.buffers import Origin
from hlo.codegen.entry.commands import (
    Block,
    Branches,
    Command,
    ComputeScalar,
    HostCall,
    KernelCall,
    Loop,
    UseConstant,
)
from hlo.codegen.entry.control import emit_conditional, emit_while
from hlo.codegen.entry.host import emit_host
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import POLLED_COST, i32
from hlo.codegen.loops.address import Indices, load
from hlo.codegen.loops.element import ElementEmitter
from hlo.codegen.plan.liveness import array_leaves
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.ir import Instruction
from hlo.llvm import Function


@dataclass
class EntryEmitter(EntryState):
    """Writes the commands of an entry as a function of an LLVM module."""

    instrumentation: Instrumentation = field(default_factory=Instrumentation)

    # --- the function ---------------------------------------------------------------------------

    def emit(self) -> None:
        """Write the function."""
        b, a = self.b, self.assignment
        for buffer in a.buffers:
            if buffer.origin is Origin.TEMP:
                self.pointers[buffer] = b.address("%arena", buffer.offset)
        for buffer in a.outputs.values():
            self.pointers[buffer] = self._pointer_from("%results", buffer.number)
        for buffer in a.buffers:
            if buffer.origin is Origin.PARAMETER:
                self.pointers[buffer] = self._pointer_from("%args", buffer.number)
                stored, leaf = a.arguments[buffer.number]
                if not leaf.dims:
                    self.scalars[stored] = load(b, leaf, self.pointers[buffer], ())
        self.instrumentation.begin(self)
        self.block(a.entry)
        self.moves(a.moves)
        self.instrumentation.end(self)
        b.ret(i32(0))
        self.kernels.launcher.finish()
        function = Function(
            self.symbol,
            [
                *(f"ptr noalias %{x}" for x in ("args", "results", "arena", "constants")),
                "ptr %threads", "ptr %host",
            ],
            result="i32", linkage=self.linkage, is_light=self.is_light,
        )  # fmt: skip
        self.module.add(b.finish(function))

    def _pointer_from(self, table: str, number: int) -> str:
        at = self.b.element_address(table, "ptr", number)
        return self.b.load("ptr", at, is_invariant=True).name

    # --- commands -------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Emit the commands of a computation."""
        self.instrumentation.enter(self, block)
        for command in block.commands:
            self.b.locate(command.inst.span)
            self.instrumentation.before(self, command)
            self.instrumentation.command(self, command, partial(self._emit, command))
            self.instrumentation.after(self, command)
        self.instrumentation.leave(self, block)

    def _emit(self, command: Command) -> None:
        match command:
            case KernelCall():
                self._kernel(command)
            case ComputeScalar(inst):
                self.spent += 1
                self.scalars[inst, ()] = self._computed(inst)
            case UseConstant(_, buffer):
                address = self.b.element_address("%constants", "i8", buffer.offset)
                self.pointers[buffer] = address
            case HostCall():
                emit_host(self, command)
                # Its running time is unknown.
                self.spend(POLLED_COST)
            case Loop():
                emit_while(self, command)
            case Branches():
                emit_conditional(self, command)

    def iteration(self, loop: Loop, body: Callable[[], None]) -> None:
        """Emit the body of a loop, which `body` does, and what precedes it."""
        self.instrumentation.iteration(self, loop)
        self.instrumentation.body(self, loop, body)

    def _computed(self, inst: Instruction) -> Value:
        def read(leaf: Instruction, indices: Indices) -> Value:
            buffer = self.buffer(leaf)
            if buffer is None:
                return self.scalar(leaf)
            start = self.place(buffer, self.live.offset.get(leaf, 0))
            return load(self.b, leaf.array_shape, start, indices)

        # Loads are not reused across instructions: memory changes in between.
        with self.b.unremembered():
            return ElementEmitter(self.b, self.live.roles, read).compute(inst, ())

    def _kernel(self, call: KernelCall) -> None:
        self.moves(call.moves)
        plan, inputs = call.plan.plan, call.inputs
        places = [self.place(x, at) for x, at in zip(call.buffers, call.offsets, strict=True)]
        scratch = [self.pointers[x] for x in call.scratch]
        tables = [self.b.element_address("%constants", "i8", at) for at in call.tables]
        for step in plan.steps:
            emitted = self.kernels.emit(
                call.inst, self.live.roles, step, inputs, list(call.results), len(call.buffers),
                len(call.scratch), len(tables),
            )  # fmt: skip
            self.work += emitted.extent.iterations * emitted.extent.cost
            pointers = [*places, *scratch, *tables]
            self.spend(self.kernels.call(emitted, pointers, list(map(self.scalar, inputs.scalars))))
        for (path, leaf), number in zip(array_leaves(call.inst), call.results, strict=True):
            if not leaf.dims:
                pointer = self.pointers[call.buffers[number]]
                self.scalars[call.inst, path] = scalar.load(self.b, leaf.element_type, pointer, 0)
