"""What kernels do that do not say it themselves: counts of the instructions that they compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hlo.analysis.cost import Cost, costs_of_instructions
from hlo.analysis.fusion.operations import is_multi_output
from hlo.analysis.fusion.roles import Role
from hlo.analysis.trips import counted
from hlo.codegen.entry.commands import KernelCall, Loop
from hlo.codegen.kernels.reduce.combiner import Combiner
from hlo.codegen.kernels.reduce.running import Running
from hlo.codegen.pipeline import PlannedProgram
from hlo.codegen.targets.base import Extent
from hlo.codegen.targets.gpu.base import Grid
from hlo.gpu.work import Unit, Work
from hlo.ir import Instruction
from hlo.values.types import ArrayShape, Shape

_Costs = Callable[[Instruction], Cost]


class KernelWork:
    """The work of a program's kernels."""

    def __init__(self, planned: PlannedProgram) -> None:
        self._roles = planned.roles
        self._costs: _Costs = costs_of_instructions(planned.unstored.__contains__)

    def of(self, inst: Instruction) -> Work:
        """Return what computing an instruction takes, with what is fused into it."""
        counts: Counter[Unit] = Counter()
        traffic = 0
        for part in self._parts(inst):
            cost = self._costs(part)
            traffic += cost.bytes
            counts[Unit.SPECIAL] += cost.transcendentals
            counts[_unit(part.shape)] += _operations(part, cost)
        return Work(tuple((unit, n) for unit, n in counts.items() if n), traffic)

    def of_steps(self, inst: Instruction, extents: Sequence[Extent]) -> list[Work]:
        """Return what each kernel of an instruction does: as they say, or by how many threads."""
        whole = self.of(inst)
        said = [extent.work if isinstance(extent, Grid) else None for extent in extents]
        threads = [
            extent.blocks * extent.threads if isinstance(extent, Grid) else extent.iterations
            for extent in extents
        ]
        total = max(1, sum(threads))
        return [work or whole.part(n, total) for work, n in zip(said, threads, strict=True)]

    def of_loop(self, loop: Loop) -> Work:
        """Return what a loop takes in one kernel: each of its kernels is a round of each turn."""
        counter = counted(loop.inst)
        rounds = kernels_of(loop) * (1 if counter is None else counter.count)
        return replace(self.of(loop.inst), rounds=max(1, rounds))

    def _parts(self, inst: Instruction) -> Iterator[Instruction]:
        """Yield the instructions that a kernel computes, each once."""
        stack = [*inst.operands] if is_multi_output(inst) else [inst]
        seen = set(stack)
        while stack:
            part = stack.pop()
            yield part
            for operand in part.operands:
                if self._roles.get(operand) is Role.FUSED and operand not in seen:
                    seen.add(operand)
                    stack.append(operand)


def _operations(inst: Instruction, cost: Cost) -> int:
    """Return the operations of an instruction: prefix sums take linear time."""
    if inst.opcode == "reduce-window" and Running.of(inst, Combiner.of(inst.to_apply)) is not None:
        return sum(2 * x.array_shape.num_elements for x in inst.operands)
    return cost.operations


def kernels_of(loop: Loop) -> int:
    """Return how many kernels a turn of a loop runs, or would if they were launched."""
    found = 0
    for command in (*loop.condition.commands, *loop.body.commands):
        if isinstance(command, KernelCall):
            found += 1
        elif isinstance(command, Loop):
            counter = counted(command.inst)
            found += kernels_of(command) * (1 if counter is None else counter.count)
    return found


def _unit(shape: Shape) -> Unit:
    """Return what computes values of a shape; narrow floats are computed as f32."""
    leaf = next((s for _, s in shape.leaves() if isinstance(s, ArrayShape)), None)
    if leaf is None:
        return Unit.INTEGER
    kind = leaf.element_type
    if not (kind.is_float or kind.is_complex):
        return Unit.INTEGER
    return Unit.F64 if kind.bits == (128 if kind.is_complex else 64) else Unit.F32
