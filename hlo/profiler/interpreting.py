"""Profiles of the interpreter: the time of each instruction, without that of what it calls."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hlo.analysis.cost import Cost, cost_of_instruction
from hlo.analysis.source_location import source_location
from hlo.eval import run_values
from hlo.host import Host
from hlo.ir import Instruction, Module
from hlo.profiler.profile import Profile, spread
from hlo.profiler.records import KernelTime, Spread


class InterpreterProfiler:
    """Runs a module on the interpreter, on one device, and adds up the time of instructions.

    An instruction ends when its value is there. The time since the end of the one before is its
    own: for those that call computations, what is left besides these.
    """

    def __init__(self, module: Module) -> None:
        """Begin without runs. module: a verified one."""
        self._module = module
        self.forget()

    def forget(self) -> None:
        """Forget the runs so far."""
        self._seconds: Counter[Instruction] = Counter()
        self._calls: Counter[Instruction] = Counter()
        self._walls: list[float] = []

    def run(self, host: Host, values: Sequence[Any]) -> Any:
        """Run the module on checked values beside a host. Raises HloError."""
        seconds, calls = self._seconds, self._calls
        last = start = time.perf_counter()

        def observe(inst: Instruction, args: Sequence[Any], value: Any) -> None:
            nonlocal last
            now = time.perf_counter()
            seconds[inst] += now - last  # type: ignore[assignment]
            calls[inst] += 1
            last = now

        result = run_values(self._module, values, host, observe=observe)
        self._walls.append(time.perf_counter() - start)
        return result

    def profile(self, device: int = 0) -> Profile:
        """Return the profile of the runs since `forget`; device: the number that it is to have."""
        runs, wall = max(1, len(self._walls)), spread(self._walls)
        rest = wall.mean - sum(self._seconds.values()) / runs
        whole = KernelTime(
            self._module.name, "entry", self_s=max(0.0, rest), total_s=wall.mean, runs_s=wall
        )
        return Profile(
            self._module.name, "reference", device, len(self._walls), 1, wall, wall,
            (whole, *(self._time(inst, runs) for inst in self._seconds)),
        )  # fmt: skip

    def _time(self, inst: Instruction, runs: int) -> KernelTime:
        seconds, calls = self._seconds[inst] / runs, self._calls[inst] / runs
        cost = Cost() if inst.called_computations else cost_of_instruction(inst)
        return KernelTime(
            inst.name, "instruction", 0, inst.opcode, inst.parent.name if inst.parent else "",
            calls=calls, self_s=seconds, total_s=seconds, runs_s=Spread(seconds, seconds, seconds),
            operations=cost.operations * calls, transcendentals=cost.transcendentals * calls,
            bytes=cost.bytes * calls, hlo=str(inst), location=source_location(inst),
        )  # fmt: skip
