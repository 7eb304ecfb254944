"""A machine that runs what code generation plans, with numpy: an example of a package's backend.

It has an arena, buffers at their offsets and scalars in registers, as native code has them, and
executes the commands of a planned program one after the other. Its only kernel computes an
instruction, with all that is fused into it, from what the plan says that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import hlo
from hlo.analysis.fusion.roles import Role
from hlo.codegen.entry.buffers import Buffer, Origin
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
    UseConstant,
)
from hlo.codegen.pipeline import PlannedProgram
from hlo.codegen.plan.liveness import Path, Storage, array_leaves
from hlo.codegen.targets.base import Plan, Target
from hlo.compiler.backends import Call, Execute, PlannedBackend
from hlo.errors import HloError
from hlo.eval import Interpreter
from hlo.io.arguments import assemble
from hlo.ir import Instruction
from hlo.ops.host.custom_targets import CHECK_SIZE
from hlo.values.layout import physical_bytes
from hlo.values.types import ArrayShape

Read = Callable[[Instruction], Any]
"""Returns the value of an instruction that is in memory, or a scalar."""


def compute(inst: Instruction, read: Read, is_read: Callable[[Instruction], bool],
            interpreter: Interpreter) -> Any:  # fmt: skip
    """Return the value of an instruction, computing what is fused into it on the way."""
    known: dict[Instruction, Any] = {}
    stack = [inst]
    while stack:
        node = stack[-1]
        missing = [o for o in node.operands if o not in known]
        if node is not inst and is_read(node):
            known[node] = read(node)
        elif missing:
            stack += missing
            continue
        else:
            args = [known[o] for o in node.operands]
            known[node] = node.spec.evaluate(node, args, interpreter)
        stack.pop()
    return known[inst]


class NumpyTarget(Target):
    """Every instruction is one kernel."""

    def plan(self, inst: Instruction, roles: Mapping[Instruction, Role]) -> Plan:
        return Plan((compute,))


class NumpyBackend(PlannedBackend):
    """Runs planned programs in this process."""

    @property
    def target(self) -> Target:
        return NumpyTarget()

    def build(self, planned: PlannedProgram) -> Execute:
        def execute(
            arguments: Sequence[np.ndarray], results: Sequence[np.ndarray], call: Call
        ) -> None:
            _Run(planned, arguments, results, call).run()

        return execute


class _Run:
    """One run: its memory and its registers."""

    def __init__(
        self, planned: PlannedProgram, arguments: Sequence[np.ndarray],
        results: Sequence[np.ndarray], call: Call,
    ) -> None:  # fmt: skip
        self._planned, self._assignment = planned, planned.assignment
        self._arguments, self._results = arguments, results
        self._deadline = call.deadline
        self._interpreter = Interpreter(call.host, call.device_counts)
        self._arena = np.zeros(self._assignment.arena_bytes, np.uint8)
        constants = self._assignment.constants
        self._constants = np.zeros(constants.size, np.uint8)
        for offset, array in constants.pieces:
            data = np.frombuffer(array.tobytes(), np.uint8)
            self._constants[offset : offset + data.size] = data
        self._scalars: dict[Storage, Any] = {}

    def run(self) -> None:
        """Run the entry."""
        for buffer in self._assignment.buffers:
            if buffer.origin is Origin.PARAMETER:
                stored, leaf = self._assignment.arguments[buffer.number]
                if not leaf.dims:
                    self._scalars[stored] = self._load(buffer, leaf)
        self._block(self._assignment.entry)
        self._moves(self._assignment.moves)

    # --- memory ---------------------------------------------------------------------------------

    def _memory(self, buffer: Buffer) -> np.ndarray:
        match buffer.origin:
            case Origin.PARAMETER:
                return self._arguments[buffer.number]
            case Origin.OUTPUT | Origin.SHARED:
                return self._results[buffer.number]
            case Origin.CONSTANT:
                return self._constants[buffer.offset :]
        return self._arena[buffer.offset : buffer.offset + buffer.size_bytes]

    def _load(self, buffer: Buffer, shape: ArrayShape, offset: int = 0) -> np.ndarray:
        end = offset + physical_bytes(shape)
        return hlo.unpack(self._memory(buffer)[offset:end].copy(), shape)

    def _store(self, value: Any, buffer: Buffer, shape: ArrayShape) -> None:
        array = np.asarray(value, shape.element_type.dtype)
        self._memory(buffer)[: physical_bytes(shape)] = hlo.pack(array, shape)

    def _leaf(self, inst: Instruction, path: Path = ()) -> Any:
        """Return an array or scalar that has been computed."""
        stored = self._planned.live.of(inst, path)
        buffer, shape = self._assignment.values[stored], inst.shape.at(path)
        assert isinstance(shape, ArrayShape)
        if buffer is None:
            return self._scalars[stored]
        return self._load(buffer, shape, self._planned.live.offset.get(inst, 0))

    def _value(self, inst: Instruction) -> Any:
        leaves = {path: self._leaf(inst, path) for path, _ in array_leaves(inst)}
        return assemble(inst.shape, leaves)

    def _moves(self, moves: Sequence[Move]) -> None:
        for move in moves:
            if isinstance(move, Copy):
                size = physical_bytes(move.shape)
                self._memory(move.target)[:size] = self._memory(move.source)[:size].copy()
            else:
                self._store(self._scalars[move.value], move.target, move.shape)

    # --- commands -------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for command in block.commands:
            if self._deadline is not None:
                self._deadline.check()
            self._command(command)

    def _command(self, command: Command) -> None:
        match command:
            case KernelCall():
                self._kernel(command)
            case ComputeScalar(inst):
                self._scalars[inst, ()] = compute(
                    inst, self._leaf, lambda i: self._planned.roles[i] is not Role.FUSED,
                    self._interpreter,
                )  # fmt: skip
            case UseConstant():
                pass
            case HostCall():
                self._host(command)
            case Loop():
                self._loop(command)
            case Branches():
                self._branches(command)

    def _kernel(self, call: KernelCall) -> None:
        self._moves(call.moves)
        inputs, buffers, offsets = call.inputs, call.buffers, call.offsets

        def read(leaf: Instruction) -> Any:
            if leaf in inputs.buffer_of:
                number = inputs.buffer_of[leaf]
                return self._load(buffers[number], leaf.array_shape, offsets[number])
            return self._leaf(leaf)

        leaves = set(inputs.leaves)
        for step in call.plan.plan.steps:
            value = step(call.inst, read, leaves.__contains__, self._interpreter)
        self._keep(call.inst, value, [buffers[n] for n in call.results])

    def _keep(self, inst: Instruction, value: Any, buffers: Sequence[Buffer]) -> None:
        """Write the leaves of a result to their buffers, and scalars to registers, too."""
        for (path, leaf), buffer in zip(array_leaves(inst), buffers, strict=True):
            part = value
            for n in path:
                part = part[n]
            self._store(part, buffer, leaf)
            if not leaf.dims:
                self._scalars[inst, path] = part

    def _host(self, call: HostCall) -> None:
        inst = call.inst
        args = [self._value(o) for o in inst.operands]
        if inst.opcode == "custom-call" and inst.attrs["custom_call_target"] == CHECK_SIZE:
            size, bound = map(int, args)
            if not 0 <= size <= bound:
                message = str(inst.annotations["backend_config"])
                raise HloError.at("index-out-of-range", message)
            return
        value = inst.spec.evaluate(inst, args, self._interpreter)
        if call.results:
            self._keep(inst, value, [call.results[path] for path, _ in array_leaves(inst)])
        elif inst.shape.is_array:
            self._scalars[inst, ()] = value

    def _scalar_leaves(self, inst: Instruction) -> list[Path]:
        return [path for path, leaf in array_leaves(inst) if not leaf.dims]

    def _loop(self, loop: Loop) -> None:
        inst, paths = loop.inst, self._scalar_leaves(loop.inst)
        (tested,), (changed,) = loop.condition.comp.parameters, loop.body.comp.parameters
        self._moves(loop.enter)
        state = {path: self._leaf(inst.operands[0], path) for path in paths}
        while True:
            for path, value in state.items():
                self._scalars[tested, path] = self._scalars[changed, path] = value
            self._block(loop.condition)
            if not self._leaf(loop.condition.comp.root):
                break
            self._block(loop.body)
            self._moves(loop.carry)
            state = {path: self._leaf(loop.body.comp.root, path) for path in paths}
        for path, value in state.items():
            self._scalars[inst, path] = value

    def _branches(self, branches: Branches) -> None:
        inst, choices = branches.inst, branches.branches
        chosen = self._leaf(inst.operands[0])
        if chosen.dtype == np.bool_:
            index = 0 if chosen else 1
        else:
            # An index out of range chooses the last branch.
            index = int(chosen) if 0 <= int(chosen) < len(choices) else len(choices) - 1
        block, moves = choices[index]
        self._block(block)
        self._moves(moves)
        for path in self._scalar_leaves(inst):
            self._scalars[inst, path] = self._leaf(block.comp.root, path)
