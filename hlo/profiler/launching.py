"""Profiles of programs on GPUs: the time of each kernel by the device's own clock."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hlo.analysis.source_location import SourceLocation, source_location
from hlo.compiler.backends import LoadedModule
from hlo.gpu.execute import Timing
from hlo.gpu.plan import Copy, Launch
from hlo.gpu.work import Work
from hlo.host import Host
from hlo.profiler.profile import Profile, spread
from hlo.profiler.records import KernelTime


class LaunchProfiler:
    """Runs a program on a GPU, on one device, and adds up the time of its launches.

    Launches follow one another without graphs, so that a run takes longer than without a profile;
    the times of kernels are those that they have anyway.
    """

    def __init__(self, program: LoadedModule) -> None:
        """Begin without runs. program: on a backend that times launches."""
        self._program = program
        self.forget()

    def forget(self) -> None:
        """Forget the runs so far."""
        self._runs: list[list[Timing]] = []
        self._walls: list[float] = []

    def run(self, host: Host, values: Sequence[Any]) -> Any:
        """Run on checked values beside a host. Raises HloError."""
        timed = self._program.timed
        assert timed is not None
        start = time.perf_counter()
        result, timings = timed(host, values)
        self._walls.append(time.perf_counter() - start)
        self._runs.append(timings)
        return result

    def profile(self, device: int = 0) -> Profile:
        """Return the profile of the runs since `forget`; device: the number that it is to have."""
        wall = spread(self._walls)
        kernels = self._kernels()
        rest = wall.mean - sum(k.self_s for k in kernels)
        program = self._program
        whole = KernelTime(
            program.name, "entry", self_s=max(0.0, rest), total_s=wall.mean, runs_s=wall
        )
        return Profile(
            program.name, program.backend, device, len(self._walls), 1, wall, wall,
            (whole, *kernels),
        )  # fmt: skip

    def _kernels(self) -> list[KernelTime]:
        """Return the time of each launch of the plan, and of all copies."""
        runs = max(1, len(self._runs))
        seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * runs)
        calls: defaultdict[tuple[str, str], int] = defaultdict(int)
        steps: dict[tuple[str, str], Launch | Copy] = {}
        for number, timings in enumerate(self._runs):
            for step, took in timings:
                key = _key(step)
                seconds[key][number] += took
                calls[key] += 1
                steps[key] = step
        return [self._kernel(steps[key], seconds[key], calls[key] / runs) for key in seconds]

    def _kernel(self, step: Launch | Copy, seconds: list[float], calls: float) -> KernelTime:
        kernel, name = _key(step)
        inst = self._program.kernels.get(kernel)
        time_ = spread(seconds)
        work = step.work if isinstance(step, Launch) else Work(global_bytes=2 * step.size)
        return KernelTime(
            name or kernel, "kernel", opcode=inst.opcode if inst is not None else "copy",
            calls=calls, self_s=time_.mean, total_s=time_.mean, runs_s=time_,
            operations=work.all_operations * calls, bytes=work.global_bytes * calls,
            hlo=str(inst) if inst is not None else "",
            location=(
                SourceLocation() if inst is None else source_location(inst, self._program.tables)
            ),
        )  # fmt: skip


def _key(step: Launch | Copy) -> tuple[str, str]:
    """Return the kernel of a step and the instruction that it is for."""
    return (step.kernel, step.instruction) if isinstance(step, Launch) else ("copies", "")
