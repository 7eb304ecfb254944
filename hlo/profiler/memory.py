"""The timeline of live buffers of a compiled program, from the compiler's plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo.analysis.source_location import Tables, source_location
from hlo.errors import HloError
from hlo.frontends.programs import takes_programs
from hlo.ir import Instruction, Module
from hlo.profiler.advice import suggestions
from hlo.profiler.timeline import LiveBuffer, MemoryTimeline
from hlo.support.memory import collector_paused
from hlo.support.signature import checked

if TYPE_CHECKING:
    from hlo.codegen.entry.buffers import Buffer
    from hlo.codegen.entry.commands import Block
    from hlo.codegen.pipeline import PlannedProgram
    from hlo.codegen.plan.liveness import Storage
    from hlo.codegen.targets.base import Target


@takes_programs
@checked
def memory_timeline(
    module: Module, *, passes: str = "default", verify: str = "strict", measure: bool = False,
    target: str | None = None, cpu: str | None = None,
) -> MemoryTimeline:  # fmt: skip
    """Return what a compiled module holds in memory at each step of a run.

    Args:
        module: the module; it stays as it is.
        passes: the pipeline that runs first, as for `hlo.compile`.
        verify: as for `hlo.verify`.
        measure: also run it once, on random inputs, and take the high-water mark of the process.
        target: the machine that code is for, as for `hlo-compile`; by default this one.
        cpu: its processor, or the model of the GPU.

    Raises:
        HloError: for an invalid module, pipeline or target, and where native code cannot run it.

    >>> module = hlo.parse('''HloModule m ENTRY e { x = f32[64,64] parameter(0)
    ...   y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ...   ROOT z = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }''')
    >>> found = hlo.memory_timeline(module)
    >>> [(b.name, b.bytes) for b in found.buffers if b.kind == "temporary"]
    [('y', 16384)]
    >>> found.peak_bytes >= 3 * 64 * 64 * 4
    True
    """
    from hlo.lenient import verified
    from hlo.passes import run_pipeline
    from hlo.passes.default import pipeline_of

    if measure and target is not None:
        raise HloError.at("bad-value", "memory is measured on this machine: measure without target")
    optimized = verified(module, verify).clone()
    if passes:
        run_pipeline(optimized, pipeline_of(passes, fuses=False))
    found, planned = optimized_timeline(optimized, _target(target, cpu))
    if not measure:
        return found
    from hlo.profiler.resident import measured_bytes

    return replace(found, measured_bytes=measured_bytes(module, passes, verify, planned))


def _target(triple: str | None, cpu: str | None) -> Target:
    """Return the machine of these names, this one by default. Raises HloError."""
    from hlo.codegen.targets.cpu import cpu_target
    from hlo.runtime.jit import host_machine

    if triple is None and cpu is None:
        machine = host_machine()
        return cpu_target(machine.triple, machine.data_layout, machine.features)
    from hlo.compiler.translation import machines_of

    found = machines_of(triple, cpu, "")
    return found[-1].target if isinstance(found, Sequence) else found.target


def optimized_timeline(
    module: Module, target: Target | None = None
) -> tuple[MemoryTimeline, PlannedProgram]:
    """Return the timeline of a module that passes have been run on, and the program it is of.

    target: what code is for, by default this machine. Raises HloError where native code cannot run
    it.
    """
    from hlo.compiler.lowering import Clock, plan

    target = target or _target(None, None)
    with collector_paused():
        planned = plan(module, target, Clock(), passes="", verify="lenient")
        found = timeline_of(planned, module)
        lower = tuple(suggestions(module, target, planned, found.peak_step))
    return replace(found, suggestions=lower), planned


def timeline_of(planned: PlannedProgram, module: Module) -> MemoryTimeline:
    """Return the timeline of a program that was planned of a module."""
    assignment = planned.assignment
    held = _held(planned)
    steps = _steps(assignment.entry, planned)
    end = max((step for step, _ in steps), default=0)
    workers = _workspaces(assignment.entry)
    buffers = [
        _live(b, held.get(b, []), end, workers.get(b), module.tables) for b in assignment.buffers
    ]
    changes: dict[int, int] = {}
    for b in buffers:
        changes[b.begin] = changes.get(b.begin, 0) + b.bytes
        changes[b.end + 1] = changes.get(b.end + 1, 0) - b.bytes
    points, now, at = [], 0, iter(sorted(changes.items()))
    following = next(at, None)
    for step, inst in steps:
        while following is not None and following[0] <= step:
            now += following[1]
            following = next(at, None)
        points.append((step, inst, now))
    peak = max(points, key=lambda p: p[2], default=(0, "", sum(b.bytes for b in buffers)))
    fixed = sum(b.bytes for b in buffers if b.kind not in ("temporary", "workspace"))
    buffers.sort(key=lambda b: (b.begin, b.end))
    return MemoryTimeline(
        module.name, tuple(points), tuple(buffers), peak[2], peak[0], assignment.arena_bytes,
        fixed + assignment.arena_bytes,
    )  # fmt: skip


def _held(planned: PlannedProgram) -> dict[Buffer, list[Storage]]:
    """Return the values that each buffer holds, in order of definition."""
    found: dict[Buffer, list[Storage]] = {}
    for stored, buffer in planned.assignment.values.items():
        if buffer is not None:
            found.setdefault(buffer, []).append(stored)
    numbers = {stored: n for n, (stored, _) in enumerate(planned.assignment.arguments)}
    for buffer in planned.assignment.buffers:
        # Scalars are read from the memory of arguments, and written to that of results.
        if buffer not in found and buffer.origin.value == "parameter":
            found[buffer] = [s for s, n in numbers.items() if n == buffer.number]
        elif buffer not in found and buffer.origin.value == "output":
            path = [p for p, b in planned.assignment.outputs.items() if b is buffer]
            found[buffer] = [(planned.entry.root, p) for p in path]
    return found


_KINDS = {
    "parameter": "argument", "output": "result", "shared": "argument and result",
    "constant": "constant",
}  # fmt: skip


def _live(
    buffer: Buffer, held: list[Storage], end: int, worker: Instruction | None, tables: Tables
) -> LiveBuffer:
    kind = _KINDS.get(buffer.origin.value)
    begin, last = (0, end) if kind is not None else (buffer.first, buffer.last)
    inst, path = held[0] if held else (worker, ())
    if inst is None:
        return LiveBuffer("", "", buffer.size_bytes, begin, last, kind or "workspace")
    return LiveBuffer(
        value_name((inst, path)), str(inst.shape.at(path)) if held else "", buffer.size_bytes,
        begin, last, kind or ("temporary" if held else "workspace"),
        inst.parent.name if inst.parent else "", str(source_location(inst, tables)),
        tuple(dict.fromkeys(map(value_name, held))),
    )  # fmt: skip


def value_name(stored: Storage) -> str:
    """Return the name of a value: its instruction, and the index path in that one's result."""
    inst, path = stored
    return inst.name + (f"{{{','.join(map(str, path))}}}" if path else "")


def _blocks(block: Block) -> Iterator[Block]:
    """Yield a block and those of its loops and branches."""
    from hlo.codegen.entry.commands import Branches, Loop

    yield block
    for command in block.commands:
        if isinstance(command, Loop):
            inner = [command.condition, command.body]
        elif isinstance(command, Branches):
            inner = [branch for branch, _ in command.branches]
        else:
            continue
        for each in inner:
            yield from _blocks(each)


def _workspaces(entry: Block) -> dict[Buffer, Instruction]:
    """Return the kernel that each workspace, or copy for the time of a kernel, is for."""
    from hlo.codegen.entry.commands import KernelCall

    calls = (c for block in _blocks(entry) for c in block.commands if isinstance(c, KernelCall))
    return {scratch: call.inst for call in calls for scratch in call.scratch}


def _steps(entry: Block, planned: PlannedProgram) -> list[tuple[int, str]]:
    """Return the position of each kernel, call, loop and branch with its instruction's name."""
    from hlo.codegen.entry.commands import Branches, HostCall, KernelCall, Loop

    live, found = planned.live, []
    for block in _blocks(entry):
        for command in block.commands:
            if isinstance(command, Loop | Branches):
                found.append((live.start[command.inst], command.inst.name))
            elif isinstance(command, KernelCall | HostCall):
                found.append((live.position[command.inst], command.inst.name))
    return sorted(found)
