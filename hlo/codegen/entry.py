"""The entry function: one native function with native control flow that calls the kernels.

Its signature is `i32 entry(ptr args, ptr results, ptr arena, ptr constants, ptr threads, ptr
host)`: arrays of pointers to the argument and result leaves, the arena of all temporaries, the data
of large constants, and null or the caller's `Threads`: `{ void (*run)(state, task, context, n,
chunk), void *state }`, where `run` has to call `task(context, begin, end)` for shares of [0, n)
that begin at multiples of `chunk`, in any order, and wait for them all. `host` is the table of what
the program calls outside, null where it calls nothing (see `hlo.codegen.host`). It returns 0, or
one more than the number of the outside function that failed, or a number below -15 where a size is
outside its bound, or a loop would never end. Rank-0 values are SSA values here; scalar loop state
lives in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hlo.analysis.cost import Cost, cost_of
from hlo.codegen import kernels, scalar  # noqa: F401  (kernels registers its emitters)
from hlo.codegen.address import Indices, is_empty, load, size_bytes
from hlo.codegen.buffers import (
    Buffer,
    Liveness,
    Origin,
    Path,
    Place,
    Storage,
    collect_leaves,
    place,
)
from hlo.codegen.calls import Kernels
from hlo.codegen.constants import Constants
from hlo.codegen.control import emit_conditional, emit_while
from hlo.codegen.element import ElementEmitter
from hlo.codegen.function import Function
from hlo.codegen.fusion import Role, is_on_demand, is_uninitialized, updated_operands
from hlo.codegen.host import Imports, emit_host
from hlo.codegen.kernel import (
    PLANNERS,
    Inputs,
    Plan,
    computation_key,
)
from hlo.codegen.kernels.rows import emit_rows
from hlo.codegen.llvm import POLLED_COST, Builder, Module, Val
from hlo.codegen.memory import Leaf, Memory
from hlo.codegen.on_demand import emit_joint, emit_on_demand
from hlo.codegen.outputs import deliver_outputs, shared_parameter
from hlo.codegen.prepare import flatten
from hlo.codegen.rejoining import is_joint
from hlo.codegen.rows import rows_of
from hlo.codegen.scalar import Cplx, Value
from hlo.codegen.schedule import schedule
from hlo.codegen.target import Target
from hlo.errors import HloError
from hlo.expansions.dynamic import may_be_dynamic, with_sizes
from hlo.ir import Computation, Instruction
from hlo.types import TOKEN, ArrayShape, Shape


@dataclass
class Program:
    """What code generation hands to the runtime.

    llvm: the module's text. arena_bytes: size of the temporary memory. constants: arrays that the
    entry expects one after the other, each at its offset, in `constant_bytes` bytes. aliases: pairs
    of a result leaf and an argument leaf, by number: the argument is read, and overwritten, in the
    memory of the result. imports: the instructions whose functions the host's table has to hold.
    """

    llvm: str
    entry: str
    arena_bytes: int
    constants: list[tuple[int, np.ndarray]]
    constant_bytes: int
    arguments: list[ArrayShape]
    results: list[ArrayShape]
    kernels: int = 0
    is_parallel: bool = False
    aliases: list[tuple[int, int]] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    imports: list[Instruction] = field(default_factory=list)
    uses_host: bool = False
    # Where the values are, for reports.
    values: Mapping[Storage, Leaf] = field(default_factory=dict)
    # The shape of the result, with the dimensions that vary.
    result: Shape = TOKEN
    # The code of an error and what is wrong, by what the entry returns then.
    checks: Mapping[int, tuple[str, str]] = field(default_factory=dict)


@dataclass
class EntryEmitter:
    """Emits the entry function of a flattened computation."""

    module: Module
    symbol: str
    target: Target
    linkage: str = ""
    live: Liveness = field(default_factory=Liveness)
    constants: Constants = field(default_factory=Constants)
    imports: Imports = field(default_factory=Imports)

    def __post_init__(self) -> None:
        self.b = Builder(self.module)
        # Scalars are computed one at a time: nothing is gained without branches.
        self.b.is_careful = True
        self.kernels = Kernels(self.module, self.target, self.b)
        self.memory = Memory(self.b, self.live)
        # What has been done since the code last looked whether to go on: see `spend`.
        self.spent = 0.0
        # Where the memory spaces are in the arena.
        self.spaces: dict[int, tuple[int, int]] = {}
        self._functions: dict[str, Function] = {}
        if self.module.write_function is None:
            self.module.write_function = self.function

    # --- the whole ------------------------------------------------------------------------------

    def emit(self, comp: Computation, aliases: Mapping[Path, tuple[int, Path]]) -> Program:
        """Emit the entry of a flattened computation.

        aliases: the parameter, by number and path, that each of these outputs may overwrite.
        """
        arguments, results, pairs, arena = self._body(comp, aliases)
        return Program(
            self.module.to_text(), self.symbol, arena, self.constants.pieces, self.constants.size,
            arguments, results, len(self.kernels.by_body), self.kernels.uses_threads, pairs,
            self._cost(comp), self.imports.instructions, self.imports.uses_host,
            self.memory.values, checks=self.imports.checks,
        )  # fmt: skip

    def _body(
        self, comp: Computation, aliases: Mapping[Path, tuple[int, Path]]
    ) -> tuple[list[ArrayShape], list[ArrayShape], list[tuple[int, int]], int]:
        """Write the function; returns argument and result leaves, aliases, bytes of the arena."""
        self.live.visit(comp)
        arguments: list[ArrayShape] = []
        results: list[ArrayShape] = []
        sources: dict[Storage, int] = {}
        for p in comp.parameters:
            for path, leaf in p.shape.leaves():
                if isinstance(leaf, ArrayShape):
                    sources[p, path] = len(arguments)
                    arguments.append(leaf)
        outputs: dict[Path, Buffer] = {}
        shared: dict[Storage, Path] = {}
        for path, leaf in comp.root.shape.leaves():
            if isinstance(leaf, ArrayShape):
                stored = shared_parameter(comp, aliases.get(path), leaf)
                if stored is not None:
                    shared[stored] = path
                origin = Origin.OUTPUT if stored is None else Origin.SHARED
                outputs[path] = self._pointer_from("%results", len(results), origin, leaf)
                results.append(leaf)
        for stored, number in sources.items():
            if stored in shared:
                self.memory.put(stored, outputs[shared[stored]])
            else:
                self._bind_argument(stored, arguments[number], number)
        for path, buffer in outputs.items():
            self.memory.wish(self.live.of(comp.root, path), buffer)
        self.computation(comp)
        deliver_outputs(self, comp, outputs)
        self.b.write("ret i32 0")
        self.spaces = place(self.memory.buffers)
        arena = max((end for _, end in self.spaces.values()), default=0)
        self._write_entry()
        leaf_of = {path: n for n, path in enumerate(outputs)}
        pairs = [(leaf_of[path], sources[stored]) for stored, path in shared.items()]
        return arguments, results, pairs, arena

    def function(self, comp: Computation) -> Function:
        """Write a computation that kernels call as a function of this module, once."""
        key = computation_key(comp)
        found = self._functions.get(key)
        if found is None:
            name = f"function_{len(self._functions)}"
            inner = EntryEmitter(self.module, name, self.target, linkage="internal ")
            inner.kernels.by_key, inner.kernels.by_body = self.kernels.by_key, self.kernels.by_body
            _, results, _, arena = inner._body(comp, {})
            if inner.imports.instructions or inner.imports.uses_host:
                raise HloError.at(
                    "unsupported", f"{comp.name}: what is applied to elements calls nothing outside"
                )
            constants = inner.constants.add_to(self.module, name)
            found = self._functions[key] = Function(name, results, arena, constants)
        return found

    def _cost(self, comp: Computation) -> Cost:
        unstored = (Role.FUSED, Role.SCALAR)
        roles = self.live.roles
        return cost_of(comp, lambda i: roles.get(i) in unstored and not any(map(is_joint, i.users)))

    def assign(self, moves: Sequence[tuple[Buffer, Buffer, ArrayShape]], position: int) -> None:
        """Copy sources to targets in parallel: sources that are targets too are saved first."""
        moves = [move for move in moves if move[0] is not move[1]]
        written = {target for _, target, _ in moves}
        ready = []
        for source, target, leaf in moves:
            if source in written:
                saved = self.memory.new(leaf, position)
                self.copy(source, saved, leaf)
                source = saved
            ready.append((source, target, leaf))
        for source, target, leaf in ready:
            self.copy(source, target, leaf)

    def _write_entry(self) -> None:
        k = self.kernels
        temps = [f"  {k.context} = alloca i64, i64 {max(1, k.context_slots)}, align 8"]
        temps += [
            f"  {x.pointer} = getelementptr inbounds i8, ptr %arena, i64 {x.offset}"
            for x in self.memory.buffers
            if x.origin is Origin.TEMP
        ]
        header = (
            f"define {self.linkage}i32 @{self.symbol}(ptr noalias %args, ptr noalias %results, "
            f"ptr noalias %arena, ptr noalias %constants, ptr %threads, ptr %host) nounwind"
        )
        text = self.b.finish(header)
        first, rest = text.split("entry:\n", 1)
        self.module.functions[self.symbol] = "\n".join([first + "entry:", *temps, rest])

    def _pointer_from(self, table: str, number: int, origin: Origin, leaf: ArrayShape) -> Buffer:
        at = self.b.element_address(table, "ptr", number)
        pointer = self.b.effect("ptr", f"load ptr, ptr {at}, !invariant.load !{{}}").name
        buffer = Buffer(size_bytes(leaf), origin, pointer)
        return self.memory.bind(buffer)

    def _bind_argument(self, stored: Storage, leaf: ArrayShape, number: int) -> None:
        buffer = self._pointer_from("%args", number, Origin.PARAMETER, leaf)
        if leaf.dims:
            self.memory.put(stored, buffer)
        else:
            self.memory.values[stored] = load(self.b, leaf, buffer.pointer, ())

    # --- computations ---------------------------------------------------------------------------

    def spend(self, cost: float) -> None:
        """Say that the code that was last written costs so much, in rough scalar operations."""
        self.spent += cost
        if self.spent >= POLLED_COST:
            self.b.poll(POLLED_COST + 1)
            self.spent = 0.0

    def copy(self, source: Buffer, target: Buffer, leaf: ArrayShape) -> None:
        """Copy an array between two buffers, unless they are one."""
        if source is not target and not is_empty(leaf):
            self.copy_bytes(source.pointer, target.pointer, leaf)

    def copy_bytes(self, source: str, target: str, leaf: ArrayShape) -> None:
        """Copy an array between two addresses."""
        self.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1 immarg"])
        self.b.write(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, "
            f"i64 {size_bytes(leaf)}, i1 false)"
        )
        self.spend(size_bytes(leaf) / 4)

    def computation(self, comp: Computation) -> None:
        """Emit what a computation does, instruction by instruction, at the present place."""
        for inst in comp.in_order():
            self.b.locate(inst.span)
            match self.live.roles[inst]:
                case Role.KERNEL:
                    self._kernel(inst)
                case Role.SCALAR:
                    self.spent += 1
                    self.memory.values[inst, ()] = self._scalar(inst)
                case Role.HOST:
                    emit_host(self, inst)
                    # Nobody knows for how long that ran.
                    self.spend(POLLED_COST)
                case Role.CONTROL if inst.opcode == "while":
                    emit_while(self, inst)
                case Role.CONTROL:
                    emit_conditional(self, inst)

    def _scalar(self, inst: Instruction) -> Value:
        def read(leaf: Instruction, indices: Indices) -> Value:
            value = self.memory.value(leaf)
            if isinstance(value, Place):
                return load(self.b, leaf.array_shape, value.buffer.pointer, indices)
            assert value is not None
            return value

        # Loads are not remembered between instructions: memory changes in between.
        with self.b.unremembered():
            return ElementEmitter(self.b, self.live.roles, read).compute(inst, ())

    # --- kernels --------------------------------------------------------------------------------

    def _kernel(self, inst: Instruction) -> None:
        memory, position = self.memory, self.live.position[inst]
        if inst.opcode == "constant":
            memory.put((inst, ()), self._constant(inst))
            return
        leaves = collect_leaves(inst, self.live.roles)
        outputs = [p for p, s in inst.shape.leaves() if isinstance(s, ArrayShape)]
        targets = memory.for_results(inst, outputs)
        shapes = [s for _, s in inst.shape.leaves() if isinstance(s, ArrayShape)]
        if all(map(is_empty, shapes)) or is_uninitialized(inst):
            for path, target in zip(outputs, targets, strict=True):
                memory.put((inst, path), target)
            return
        self._bring_operands(inst, dict(zip(outputs, targets, strict=True)))
        places: list[Buffer] = list(dict.fromkeys(targets))
        buffer_of: dict[Instruction, int] = {}
        scalars: list[Instruction] = []
        for leaf in leaves:
            value = memory.value(leaf)
            if isinstance(value, Place):
                if value.buffer not in places:
                    places.append(value.buffer)
                buffer_of[leaf] = places.index(value.buffer)
            else:
                scalars.append(leaf)
        inputs = Inputs(leaves, buffer_of, scalars)
        planner = PLANNERS.get(inst.opcode)
        if is_joint(inst):
            plan = Plan((emit_joint,))
        elif is_on_demand(inst):
            by_rows = rows_of(inst, self.live.roles) is not None
            plan = Plan((emit_rows if by_rows else emit_on_demand,))
        elif planner is None:
            raise HloError.at(
                "unsupported", f"{inst.opcode} has no native code yet", inst.span,
                hint="the reference interpreter runs it",
            )  # fmt: skip
        else:
            plan = planner(inst, self.live.roles, self.target)
        numbers = [places.index(t) for t in targets]
        scratch = [memory.scratch(n, position) for n in plan.scratch_bytes]
        tables = [self._table(data) for data in plan.tables]
        for step in plan.steps:
            emitted = self.kernels.emit(
                inst, self.live.roles, step, inputs, numbers, len(places), len(scratch), len(tables)
            )
            pointers = [*(p.pointer for p in (*places, *scratch)), *tables]
            scalar_args = [self._scalar_value(x) for x in scalars]
            self.spend(self.kernels.call(emitted, pointers, scalar_args))
        for path, target in zip(outputs, targets, strict=True):
            leaf_shape = inst.shape.at(path)
            assert isinstance(leaf_shape, ArrayShape)
            if leaf_shape.dims:
                memory.put((inst, path), target)
            else:
                held = scalar.load(self.b, leaf_shape.element_type, target.pointer, 0)
                memory.values[inst, path] = held

    def _scalar_value(self, inst: Instruction) -> Value:
        held = self.memory.value(inst)
        assert isinstance(held, Val | Cplx)
        return held

    def _bring_operands(self, inst: Instruction, targets: Mapping[Path, Buffer]) -> None:
        """Copy what a kernel changes in place to where it finds it, if it is elsewhere."""
        for path, operand in updated_operands(inst).items():
            value, shape = self.memory.value(operand), operand.array_shape
            if isinstance(value, Place):
                self.copy(value.buffer, targets[path], shape)
            else:
                assert value is not None
                scalar.store(self.b, shape.element_type, value, targets[path].pointer, 0)

    def _table(self, data: np.ndarray) -> str:
        """Return the address of a kernel's constants."""
        return self.b.element_address("%constants", "i8", self.constants.table(data))

    def _constant(self, inst: Instruction) -> Buffer:
        offset, size = self.constants.literal(inst)
        pointer = self.b.element_address("%constants", "i8", offset)
        return self.memory.bind(Buffer(size, Origin.CONSTANT, pointer))


def emit_program(
    comp: Computation,
    symbol: str,
    target: Target,
    aliases: Mapping[Path, tuple[int, Path]] | None = None,
    *,
    is_located: bool = False,
    is_watched: bool = False,
) -> Program:
    """Return the LLVM module of a computation and what its entry expects.

    aliases: the parameter, by number and index path, whose memory each of these outputs may have.
    is_located: let comments in the code say which HLO it is for. is_watched: have it look from time
    to time whether to go on, which takes the functions of `hlo.runtime.watch`.
    """
    module = Module(
        target.triple,
        target.data_layout,
        features=target.features,
        is_located=is_located,
        is_watched=is_watched,
    )
    result = comp.root.shape
    aliases = aliases or {}
    if may_be_dynamic(comp):
        comp, result, aliases = with_sizes(comp, aliases)
    flat = flatten(comp)
    schedule(flat)
    program = EntryEmitter(module, symbol, target).emit(flat, aliases)
    program.result = result
    return program
