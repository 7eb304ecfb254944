"""The interface of a backend, and the one of machines that run planned programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hlo.compiler.lowering import Clock, parameters_of, plan
from hlo.host import Host
from hlo.ir import Instruction, Module
from hlo.runtime.boundary import port
from hlo.runtime.leaves import leaf_arrays, wrapper
from hlo.support.deadline import Deadline

if TYPE_CHECKING:
    from hlo.codegen.pipeline import PlannedProgram
    from hlo.codegen.targets.base import Target
    from hlo.gpu.execute import Timing

Run = Callable[[Sequence[Any], float | None], Any]
"""Runs a program on a checked value for each parameter, for so many seconds at the most."""
Start = Callable[[Host], Run]
"""Returns the function that runs a program beside a host."""


@dataclass(frozen=True)
class Loaded:
    """A module that a backend is ready to run.

    start: makes the function that runs it. cost: what a run does, as `Executable.cost`, if that was
    counted. working_bytes: what a run takes besides arguments, by purpose.

    Of machines with memory of their own: taken: returns an argument as it is bound to a parameter,
    what is on the machine as `OnDevice`. start_resident: as `start`, and results stay there. timed:
    runs on checked values beside a host, returns the result and the time of each launch. kernels:
    what each kernel computes.
    """

    start: Start
    cost: Mapping[str, Any] = field(default_factory=dict)
    working_bytes: Mapping[str, int] = field(default_factory=dict)
    taken: Callable[[Any], Any] = field(default=lambda value: value)
    start_resident: Start | None = None
    timed: Callable[[Host, Sequence[Any]], tuple[Any, list[Timing]]] | None = None
    kernels: Mapping[str, Instruction] = field(default_factory=dict)


class Backend(ABC):
    """A machine that runs modules.

    has_strict_math: it rounds as `hlo.compile(..., strict=True)` promises where a module asks for
    that, which `hlo.analysis.strict_math.has_strict_math` tells.
    """

    has_strict_math = False

    @abstractmethod
    def load(self, module: Module, passes: str, verify: str, clock: Clock) -> Loaded:
        """Return a module, which stays as it is, ready to run.

        passes: the pipeline to run first, as of `hlo.compile`. verify: how strictly to verify it,
        `strict` or `lenient`. clock: measures what takes time, `with clock("stage")`. Raises
        HloError for a module that is invalid, or that the machine cannot run.
        """


@dataclass(frozen=True)
class Call:
    """What a run depends on besides its arguments.

    host: custom calls, queues, the device. device_counts: the numbers of replicas and of partitions
    that the module is for. deadline: by when the run has to end; checked now and then.
    """

    host: Host
    device_counts: tuple[int, int]
    deadline: Deadline | None


Execute = Callable[[Sequence[np.ndarray], Sequence[np.ndarray], Call], None]
"""Runs a planned program: reads the memory of the argument leaves, writes that of the results.

Each is an array of bytes, in the layout of the leaf's shape. A result that shares memory with an
argument (`BufferAssignment.aliases`) comes with the argument's content, which is to be read there.
"""


class PlannedBackend(Backend):
    """A machine that runs kernels and commands as code generation plans them.

    Passes, fusion, the order of kernels and the assignment of buffers are those of native code;
    which kernels compute an instruction is said by the target.
    """

    @property
    @abstractmethod
    def target(self) -> Target:
        """The machine, as planning sees it."""

    @abstractmethod
    def build(self, planned: PlannedProgram) -> Execute:
        """Return what runs a planned program. Raises HloError for what the machine cannot run."""

    def load(self, module: Module, passes: str, verify: str, clock: Clock) -> Loaded:
        planned = plan(module, self.target, clock, passes=passes, verify=verify)
        with clock("build"):
            execute = self.build(planned)
        arguments = [port(s) for s in planned.arguments]
        results = [port(s) for s in planned.results]
        shared = dict(planned.assignment.aliases)
        wrap = wrapper(planned.result)
        parameters = parameters_of(module)

        def run(host: Host, values: Sequence[Any], timeout: float | None) -> Any:
            deadline = None if timeout is None else Deadline(module.name, timeout)
            call = Call(host, module.device_counts, deadline)
            leaves = leaf_arrays(parameters, values)
            memory = [p.physical(a) for p, a in zip(arguments, leaves, strict=True)]
            made = [p.allocate() for p in results]
            for result, argument in shared.items():
                np.copyto(made[result], memory[argument])
            execute(list(map(octets, memory)), list(map(octets, made)), call)
            return wrap([p.logical(m) for p, m in zip(results, made, strict=True)])

        return Loaded(
            lambda host: partial(run, host),
            vars(planned.cost),
            {
                "results": sum(p.size_bytes for p in results),
                "temporaries": planned.assignment.arena_bytes,
                "arguments in their layouts": sum(p.packed_bytes for p in arguments),
            },
        )


def octets(memory: np.ndarray) -> np.ndarray:
    """Return a view of memory as bytes."""
    return memory.reshape(-1).view(np.uint8)
