"""The results of the stages of code generation as readable text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from hlo.analysis.fusion.roles import Role
from hlo.codegen.entry.assignment import BufferAssignment
from hlo.codegen.entry.buffers import Buffer, Origin
from hlo.codegen.entry.commands import (
    Block,
    Branches,
    ComputeScalar,
    Copy,
    HostCall,
    KernelCall,
    Loop,
    Move,
    UseConstant,
)
from hlo.codegen.entry.kernel_plans import KernelPlan
from hlo.codegen.loops.kernel import KernelEmitter
from hlo.codegen.plan.liveness import Liveness, Storage
from hlo.codegen.plan.tree import computations_of
from hlo.ir import Computation, Instruction


def _lines(lines: Sequence[str]) -> str:
    return "\n".join([*lines, ""])


def _operands(inst: Instruction) -> str:
    return ", ".join(o.name for o in inst.operands)


def tree(entry: Computation) -> str:
    """Return the instructions of each computation of a flattened tree, the entry first."""
    lines = []
    for comp in computations_of(entry):
        lines.append(f"{comp.name}:")
        lines += [f"  {inst}" for inst in comp.in_order()]
    return _lines(lines)


def roles(entry: Computation, roles: Mapping[Instruction, Role]) -> str:
    """Return the role of each instruction, by computation."""
    lines = []
    for comp in computations_of(entry):
        lines.append(f"{comp.name}:")
        lines += [
            f"  {roles[inst].name.lower():10} {inst.name} = {inst.opcode}({_operands(inst)})"
            for inst in comp.in_order()
        ]
    return _lines(lines)


def kernels(plans: Mapping[Instruction, KernelPlan]) -> str:
    """Return what each kernel computes and reads, its steps, and its workspace."""
    lines = []
    for inst, kernel in plans.items():
        fused = "".join(f" {i.opcode}" for i in fused_in(inst, kernel.reads))
        lines.append(f"{inst.name} = {inst.shape} {inst.opcode}{fused and ' of' + fused}")
        lines.append(f"  reads {', '.join(i.name for i in kernel.reads) or 'nothing'}")
        lines += [f"  step  {step_name(step)}" for step in kernel.plan.steps]
        lines += [f"  scratch {n} bytes" for n in kernel.plan.scratch_bytes]
        lines += [f"  table {t.dtype}{list(t.shape)}" for t in kernel.plan.tables]
    return _lines(lines)


def fused_in(inst: Instruction, reads: Sequence[Instruction]) -> list[Instruction]:
    """Return the fused operations of a kernel, each once."""
    found: dict[Instruction, None] = {}
    stack = list(inst.operands)
    while stack:
        operand = stack.pop()
        if operand not in found and operand not in reads:
            found[operand] = None
            stack += operand.operands
    return list(found)


def step_name(step: KernelEmitter) -> str:
    """Return what a step of a kernel is called."""
    while isinstance(step, partial):
        step = step.func
    return getattr(step, "__name__", type(step).__name__).strip("_")


def schedule(entry: Computation, live: Liveness) -> str:
    """Return the schedule, and the live range of each value that is stored."""
    last: dict[Instruction, int] = {}
    for (inst, _), positions in live.uses.items():
        last[inst] = max(last.get(inst, 0), positions[-1])
    lines = [f"{'at':>6} {'until':>6}"]
    for comp in computations_of(entry):
        lines.append(f"{comp.name}:")
        for inst in comp.in_order():
            if live.roles[inst] not in (Role.FUSED, Role.ALIAS, Role.PARAMETER):
                at = live.position[inst]
                lines.append(f"{at:6} {last.get(inst, at):6}  {inst.name} = {inst.opcode}")
    return _lines(lines)


def buffers(assignment: BufferAssignment) -> str:
    """Return a line for each value in memory, in the order of definitions.

    `from` and `to` are positions in the schedule; values of one position range and one offset share
    memory. Scalars and fused values have no line.
    """
    rows = []
    for stored, buffer in assignment.values.items():
        if buffer is not None:
            at = f"{buffer.offset:#x}" if buffer.origin is Origin.TEMP else ""
            shape = stored[0].shape.at(stored[1])
            rows.append((buffer, f"{at:>12}  {_name(stored)} {shape}"))
    rows.sort(key=lambda row: (row[0].first, row[0].last))
    calls = sum(1 for c in assignment.entry.all_commands() if isinstance(c, KernelCall))
    lines = [
        f"{assignment.arena_bytes} bytes of temporaries, {assignment.constants.size} of constants, "
        f"{calls} calls of kernels",
        f"{'from':>6} {'to':>6} {'bytes':>12}  {'memory':9} {'offset':>12}  value",
    ]
    lines += [
        f"{b.first:6} {b.last:6} {b.size_bytes:12}  {b.origin.value:9} {text}" for b, text in rows
    ]
    return _lines(lines)


def _name(stored: Storage) -> str:
    inst, path = stored
    return inst.name + "".join(f"[{n}]" for n in path)


def commands(block: Block) -> str:
    """Return the commands of an entry, in order, with their buffers."""
    return _lines(list(_written(block, {}, "")))


def _where(buffer: Buffer, numbers: dict[Buffer, int]) -> str:
    """Return the name of a buffer: by the number of an argument or result, or in order of use."""
    match buffer.origin:
        case Origin.PARAMETER:
            return f"argument{buffer.number}"
        case Origin.OUTPUT | Origin.SHARED:
            return f"result{buffer.number}"
        case Origin.CONSTANT:
            return f"constants+{buffer.offset:#x}"
        case Origin.COUNTERS:
            return buffer.origin.value
    return f"temp{numbers.setdefault(buffer, len(numbers))}+{buffer.offset:#x}"


def _written(block: Block, numbers: dict[Buffer, int], indent: str) -> Iterator[str]:
    def where(buffer: Buffer) -> str:
        return _where(buffer, numbers)

    def moves(moves: Sequence[Move], indent: str) -> Iterator[str]:
        for m in moves:
            source = where(m.source) if isinstance(m, Copy) else _name(m.value)
            yield f"{indent}copy {source} to {where(m.target)}"

    for command in block.commands:
        inst = command.inst
        match command:
            case KernelCall(_, _, before, all_buffers, offsets, results, inputs, scratch):
                yield from moves(before, indent)
                written = ", ".join(where(all_buffers[n]) for n in dict.fromkeys(results))
                read = [
                    where(all_buffers[n]) + (f"+{offsets[n]:#x}" if offsets[n] else "")
                    for n in dict.fromkeys(inputs.buffer_of.values())
                ]
                read += [i.name for i in inputs.scalars]
                more = f" with {', '.join(map(where, scratch))}" if scratch else ""
                read_from = ", ".join(read) or "nothing"
                yield f"{indent}kernel {inst.name}: {written} from {read_from}{more}"
            case ComputeScalar():
                yield f"{indent}scalar {inst.name} = {inst.opcode}({_operands(inst)})"
            case UseConstant(_, buffer):
                yield f"{indent}constant {inst.name} at {where(buffer)}"
            case HostCall(_, results):
                yield f"{indent}host {inst.name}: {', '.join(map(where, results.values()))}"
            case Loop(_, enter, condition, body, carry):
                yield from moves(enter, indent)
                yield f"{indent}while {inst.name}"
                yield from _written(condition, numbers, indent + "  ")
                yield f"{indent}do"
                yield from _written(body, numbers, indent + "  ")
                yield from moves(carry, indent + "  ")
            case Branches(_, branches):
                for n, (branch, after) in enumerate(branches):
                    yield f"{indent}branch {n} of {inst.name}"
                    yield from _written(branch, numbers, indent + "  ")
                    yield from moves(after, indent + "  ")
