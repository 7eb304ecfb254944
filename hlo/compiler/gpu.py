"""Programs on GPUs, real ones and the SIMT machine: planned, written as PTX, run by their plan."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import llvmlite
import numpy as np

from hlo.codegen.launches.program import write_launches
from hlo.codegen.plan.liveness import array_leaves
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.binding import alone
from hlo.compiler.keys import sources, without_numbers
from hlo.compiler.lowering import Clock, parameters_of, plan
from hlo.compiler.planned import Backend, Call, Loaded, octets
from hlo.errors import HloError, InferError, TextError
from hlo.eval import Interpreter, error_at
from hlo.gpu.arrays import DeviceArray, array_on, new_array
from hlo.gpu.device import Device
from hlo.gpu.execute import LoadedProgram, Memory, Timing
from hlo.gpu.ptxas import ptxas_version
from hlo.gpu.stored import StoredProgram, from_bytes, to_bytes
from hlo.host import Host
from hlo.io.arguments import assemble
from hlo.ir import Instruction, Module
from hlo.objects.metadata import add_metadata
from hlo.ops.host.custom_targets import CHECK_SIZE
from hlo.passes.default import is_of_users
from hlo.runtime.assembly import assembly_of
from hlo.runtime.boundary import Port, port
from hlo.runtime.cache import Cache, digest
from hlo.runtime.leaves import leaf_arrays, wrapper
from hlo.support.deadline import Deadline
from hlo.values.arrays import OnDevice
from hlo.values.layout.packing import pack, unpack
from hlo.values.types import ArrayShape
from hlo.version import __version__

if TYPE_CHECKING:
    from hlo.gpu.cuda.context import Properties

_T = TypeVar("_T")
# The model that code for the SIMT machine is compiled for.
_EMULATED_CPU = "sm_90"
# No kernel of ours is without an end; some that one thread runs take long.
_EMULATED_LIMIT = 1 << 27


@dataclass(frozen=True)
class Machine:
    """A device that programs run on.

    cpu: the model that code is for. adopt: returns arrays of other libraries on the device as ours,
    None for all else. says_lines: errors name lines of the HLO file, which the code has then.
    """

    device: Device
    cpu: str
    adopt: Callable[[Any], DeviceArray | None]
    says_lines: bool = False

    def taken(self, value: Any) -> Any:
        """Return an argument with arrays that are on the device marked, so that they stay there."""
        if isinstance(value, tuple | list):
            return type(value)(map(self.taken, value)) if type(value) in (tuple, list) else value
        if isinstance(value, np.ndarray | np.generic | int | float | complex | str):
            return value
        array = value if isinstance(value, DeviceArray) else self.adopt(value)
        if array is None or array.device is not self.device:
            return value
        return OnDevice(array, array.shape, array.dtype)

    def put(self, value: Any) -> Any:
        """Return a copy of arrays, in tuples perhaps, on the device."""
        if isinstance(value, tuple):
            return tuple(map(self.put, value))
        return array_on(self.device, value, "data") if isinstance(value, np.ndarray) else value


@cache
def real() -> Machine:
    """Return the GPU of this machine. Raises HloError, code `no-device`, if there is none."""
    from hlo.gpu.cuda.adopt import adopt
    from hlo.gpu.cuda.device import CudaDevice

    device = CudaDevice()
    machine = Machine(device, _model(device.properties), partial(adopt, device))
    # When the process ends, after the programs, which are loaded later.
    weakref.finalize(machine, device.close)
    return machine


def _model(properties: Properties) -> str:
    """Return the model to compile for: that of the device, or the last one before it that LLVM
    knows, whose code it runs too."""
    if properties.cpu in Nvptx.models:
        return properties.cpu
    general = [int(m[3:]) for m in Nvptx.models if m[3:].isdigit()]
    return f"sm_{max(c for c in general if c <= properties.capability)}"


@cache
def emulated() -> Machine:
    """Return the SIMT machine."""
    from hlo.gpu.simt import SimtDevice

    device = SimtDevice(limit=_EMULATED_LIMIT)
    return Machine(device, _EMULATED_CPU, lambda value: None, says_lines=True)


class GpuBackend(Backend):
    """Runs programs on a device that takes PTX.

    store: where programs are kept beyond this process.
    """

    has_strict_math = True

    def __init__(self, machine: Machine, store: Cache | None = None) -> None:
        self._machine, self._store = machine, store

    def load(self, module: Module, passes: str, verify: str, clock: Clock) -> Loaded:
        machine, store = self._machine, self._store
        if passes not in ("", "default") and is_of_users(passes):
            store = None
        program, key = None, ""
        calls: tuple[Instruction, ...] = ()
        kernels: Mapping[str, Instruction] = {}
        if store is not None:
            with clock("look up"):
                key = _key(module, machine, passes, verify)
                program = _stored(store, key)
        if program is None:
            program, calls, kernels = self._built(module, passes, verify, clock)
            if store is not None and not calls:
                with clock("store"):
                    store.put_bytes(key, to_bytes(program))
        with clock("load"):
            loaded = LoadedProgram(machine.device, program.plan, program.code, program.binary)
        runner = _Runner(module, program, machine, loaded, calls)
        return Loaded(
            lambda host: partial(runner.run, host, False),
            program.cost,
            {
                "results": sum(p.size_bytes for p in runner.results),
                "temporaries": program.plan.arena_bytes,
                "arguments in their layouts": sum(p.packed_bytes for p in runner.arguments),
            },
            machine.taken,
            lambda host: partial(runner.run, host, True),
            runner.timed,
            kernels,
        )

    def _built(
        self, module: Module, passes: str, verify: str, clock: Clock
    ) -> tuple[StoredProgram, tuple[Instruction, ...], Mapping[str, Instruction]]:
        """Compile a module; returns the program, its calls of the host, and what each kernel
        computes."""
        machine = self._machine
        target = Nvptx(machine.cpu)
        planned = plan(module, target, clock, passes=passes, verify=verify)
        with clock("emit"):
            program = write_launches(planned, target, is_located=machine.says_lines)
            if machine.says_lines and (span := module.entry.span) is not None:
                add_metadata(program.module, [], span.source.name, span, has_tables=False)
        with clock("optimize and assemble"):
            code = assembly_of(program.module, machine.cpu)
            binary = machine.device.machine_code(code)
        made = StoredProgram(
            tuple(planned.arguments), tuple(planned.results), planned.result, program.plan, code,
            binary, vars(planned.cost),
        )  # fmt: skip
        return made, program.calls, program.instructions


def _key(module: Module, machine: Machine, passes: str, verify: str) -> str:
    """Return the key of a program: whatever could make it another is part of it."""
    cpu, span = machine.cpu, module.entry.span
    if machine.says_lines and span is not None:
        cpu += f" {span.source.name} {digest([span.source.text.encode()])}"
    versions = (__version__, llvmlite.__version__, ptxas_version(), sources())
    parts = ("gpu", cpu, *versions, passes, verify)
    return digest([without_numbers(module), *(part.encode() for part in parts)])


def _stored(store: Cache, key: str) -> StoredProgram | None:
    """Return the program under a key, None if there is none that can be read."""
    data = store.get_bytes(key)
    try:
        return None if data is None else from_bytes(data)
    except (ValueError, KeyError, TypeError, TextError):
        return None


class _Runner:
    """A program on a device as it is called: on values of its parameters."""

    def __init__(
        self, module: Module, program: StoredProgram, machine: Machine, loaded: LoadedProgram,
        calls: Sequence[Instruction],
    ) -> None:  # fmt: skip
        self.arguments = [port(s) for s in program.arguments]
        self.results = [port(s) for s in program.results]
        self._name, self._device_counts = module.name, module.device_counts
        self._parameters = parameters_of(module)
        self._machine, self._loaded = machine, loaded
        modules = [alone(c, self._device_counts, module.custom_calls) for c in calls]
        self._calls = [m.entry.root for m in modules]
        self._wrap = wrapper(program.result)
        # The valid part of an array of dynamic size is cut out on the host.
        leaves = [s for _, s in program.result.leaves()]
        self._is_static = not any(isinstance(s, ArrayShape) and s.is_dynamic for s in leaves)

    def run(
        self, host: Host, stays: bool, values: Sequence[Any], timeout: float | None = None
    ) -> Any:
        """Run. stays: results stay on the device, as they do where arguments are there."""
        deadline = None if timeout is None else Deadline(self._name, timeout)
        check = (lambda: None) if deadline is None else deadline.check

        def execute(arguments: Sequence[Memory], results: Sequence[Memory]) -> None:
            call = Call(host, self._device_counts, deadline)
            self._loaded.run(arguments, results, HostCalls(self._calls, call), check)

        return self._on_memory(values, stays, execute)[0]

    def timed(self, host: Host, values: Sequence[Any]) -> tuple[Any, list[Timing]]:
        """Run launch by launch; returns the result and the time of each launch."""

        def execute(arguments: Sequence[Memory], results: Sequence[Memory]) -> list[Timing]:
            calls = HostCalls(self._calls, Call(host, self._device_counts, None))
            return self._loaded.time(arguments, results, calls, lambda: None)

        return self._on_memory(values, False, execute)

    def _on_memory(
        self, values: Sequence[Any], stays: bool,
        execute: Callable[[Sequence[Memory], Sequence[Memory]], _T],
    ) -> tuple[Any, _T]:  # fmt: skip
        """Return the result of a run and what `execute` gives, which runs on memory."""
        leaves: list[Any] = leaf_arrays(self._parameters, values)
        stays = self._is_static and (stays or any(isinstance(x, OnDevice) for x in leaves))
        memory = [_argument(p, leaf) for p, leaf in zip(self.arguments, leaves, strict=True)]
        made = [self._result(n, p, stays) for n, p in enumerate(self.results)]
        both = list(zip(self.results, made, strict=True))
        # Memory of an array without elements has a byte nevertheless.
        places = [
            m.address if isinstance(m, DeviceArray) else octets(m)[: p.size_bytes] for p, m in both
        ]  # fmt: skip
        given = execute(memory, places)
        result = [m if isinstance(m, DeviceArray) else p.logical(m) for p, m in both]
        return self._wrap(result), given

    def _result(self, number: int, port: Port, stays: bool) -> DeviceArray | np.ndarray:
        """Return memory for a result, on the device if its layout has strides."""
        if not stays or port.order is None:
            return port.allocate()
        name = f"result {number}"
        return new_array(self._machine.device, port.dims, port.dtype, name, port.order)


def _argument(port: Port, leaf: Any) -> Memory:
    """Return the memory of an argument, in place if it is as the port says."""
    if isinstance(leaf, OnDevice):
        array: DeviceArray = leaf.array
        if port.order is not None and array.is_in_order(port.order):
            return array.address
        leaf = np.asarray(array)
    return octets(port.physical(leaf))


class HostCalls:
    """The calls of the host that one run of a program makes, in its reference semantics."""

    def __init__(self, calls: Sequence[Instruction], call: Call) -> None:
        self._calls, self._call = calls, call

    @cached_property
    def _interpreter(self) -> Interpreter:
        return Interpreter(self._call.host, self._call.device_counts)

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
        try:
            value = inst.spec.evaluate(inst, args, self._interpreter)
        except (InferError, MemoryError) as e:
            raise error_at(inst, e) from e.__cause__
        return [_memory_of(value, path, leaf) for path, leaf in array_leaves(inst)]


def _assembled(inst: Instruction, memory: Any) -> Any:
    leaves = {path: unpack(next(memory), leaf) for path, leaf in array_leaves(inst)}
    return assemble(inst.shape, leaves)


def _memory_of(value: Any, path: tuple[int, ...], leaf: ArrayShape) -> np.ndarray:
    for number in path:
        value = value[number]
    array = np.asarray(value, leaf.element_type.dtype)
    return np.ascontiguousarray(pack(array, leaf)).reshape(-1).view(np.uint8)
