"""Programs on GPUs, real ones and the SIMT machine: planned, written as PTX, run by their plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.codegen.launches.program import GpuProgram, write_launches
from hlo.codegen.pipeline import PlannedProgram
from hlo.codegen.plan.liveness import array_leaves
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.planned import Call, Execute, PlannedBackend
from hlo.errors import HloError
from hlo.eval import Interpreter
from hlo.gpu.device import Device
from hlo.gpu.execute import LoadedProgram
from hlo.io.arguments import assemble
from hlo.ir import Instruction
from hlo.ops.host.custom_targets import CHECK_SIZE
from hlo.runtime.assembly import assembly_of
from hlo.values.layout.packing import pack, unpack
from hlo.values.types import ArrayShape


class GpuBackend(PlannedBackend):
    """Runs programs on devices that take PTX.

    make: returns a device for the calling thread: devices of one program run side by side.
    """

    def __init__(self, cpu: str, make: Callable[[], Device]) -> None:
        self._target = Nvptx(cpu)
        self._make = make

    @property
    def target(self) -> Nvptx:
        return self._target

    def build(self, planned: PlannedProgram) -> Execute:
        program = write_launches(planned, self._target, is_located=True)
        code = assembly_of(program.module, self._target.cpu)
        here = threading.local()

        def execute(
            arguments: Sequence[np.ndarray], results: Sequence[np.ndarray], call: Call
        ) -> None:
            if not hasattr(here, "program"):
                here.program = LoadedProgram(self._make(), program.plan, code)
            loaded: LoadedProgram = here.program
            calls = HostCalls(program, call)
            loaded.run(arguments, results, calls, _check(call))

        return execute


def _check(call: Call) -> Callable[[], None]:
    deadline = call.deadline
    return deadline.check if deadline is not None else lambda: None


class HostCalls:
    """The calls of the host that one run of a program makes, in its reference semantics."""

    def __init__(self, program: GpuProgram, call: Call) -> None:
        self._calls = program.calls
        self._interpreter = Interpreter(call.host, call.device_counts)

    def __call__(self, number: int, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run a call on the bytes of its operand leaves; returns those of its results."""
        inst = self._calls[number]
        memory = iter(operands)
        args = [_assembled(operand, memory) for operand in inst.operands]
        if inst.opcode == "custom-call" and inst.custom_call_target == CHECK_SIZE:
            size, bound = map(int, args)
            if not 0 <= size <= bound:
                message = str(inst.annotations["backend_config"])
                raise HloError.at("index-out-of-range", message)
            return []
        value = inst.spec.evaluate(inst, args, self._interpreter)
        return [_octets(value, path, leaf) for path, leaf in array_leaves(inst)]


def _assembled(inst: Instruction, memory: Any) -> Any:
    leaves = {path: unpack(next(memory), leaf) for path, leaf in array_leaves(inst)}
    return assemble(inst.shape, leaves)


def _octets(value: Any, path: tuple[int, ...], leaf: ArrayShape) -> np.ndarray:
    for number in path:
        value = value[number]
    array = np.asarray(value, leaf.element_type.dtype)
    return np.ascontiguousarray(pack(array, leaf)).reshape(-1).view(np.uint8)
