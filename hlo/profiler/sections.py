"""What the time of an entry function is divided into.

Each kernel, loop, conditional and call outside is a section; scalars belong to the section around
them. Outside of loops, consecutive kernels that are too short to be timed each make a group, a
section of its own: its members are timed in some runs only, like the iterations of loops (see
`hlo.profiler.recorder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hlo.analysis.cost import Cost, costs_of_instructions
from hlo.analysis.fusion.operations import is_multi_output
from hlo.analysis.fusion.roles import Role
from hlo.analysis.trips import counted
from hlo.codegen.entry.commands import (
    Block,
    Branches,
    Command,
    ComputeScalar,
    HostCall,
    KernelCall,
    Loop,
    UseConstant,
)
from hlo.codegen.report import fused_in, step_name
from hlo.ir import Instruction
from hlo.ops.host.custom_targets import CHECK_SIZE
from hlo.profiler.recorder import HEADER_WORDS, LOOP_WORDS, SECTION_WORDS

# Kernels shorter than this, in seconds, are timed together: reading the counter is to take about a
# hundredth of the time at most.
_SHORT_S = 1.5e-6
# Loops inside of others of so many iterations at most are timed as a whole or not at all.
_FEW_TRIPS = 64
# In iterations of more, tests whether they are timed take less than a hundredth of the time.
_SHORT_ITERATION_S = 1e-5
# Even a countdown takes some percent of iterations of less: a kernel or two that do next to
# nothing. Loops of these are timed as a whole.
_TINY_ITERATION_S = 1e-7
# What a kernel takes at least, and for each operation, transcendental function and byte.
_CALL_S, _OPERATION_S, _FUNCTION_S, _BYTE_S = 3e-8, 5e-11, 5e-10, 5e-11


@dataclass(frozen=True)
class Executions:
    """How often a section runs: once a run, or as a word of the record says.

    word: of a counter, or of the words of a loop. is_loop: its iterations; is_test: and once more
    for each time that it is entered. times: so often each time that `of` runs.
    """

    word: int = 0
    is_loop: bool = False
    is_test: bool = False
    times: int = 1
    of: Executions | None = None


@dataclass(eq=False)
class Section:
    """A part of the time of an entry function.

    word: the place of its words in the record. kind: `entry`, `results`, `kernel`, `group`, `host`,
    `while` or `conditional`. inst: the instruction of a command. cost: of running it once. steps:
    the names of the steps of a kernel. fused: what it computes besides. loop: the place of the
    words of a loop of which iterations are timed. trips: the known number of iterations of another,
    iterations: or the place of their counter; it is timed as a whole or not at all. copies: an
    iteration ends with copies, which are the loop's own time. is_doubled: its body is written
    twice, as tests whether it is timed would take too much of its time. is_whole: kernels
    inside are too short to be timed even now and then.
    """

    word: int
    kind: str
    parent: Section | None
    executions: Executions
    inst: Instruction | None = None
    cost: Cost = field(default_factory=Cost)
    steps: tuple[str, ...] = ()
    fused: tuple[Instruction, ...] = ()
    loop: int | None = None
    iterations: int | None = None
    trips: int | None = None
    copies: bool = False
    is_doubled: bool = False
    is_whole: bool = False


class Sections:
    """The sections of a program and their places in its record.

    all: the sections, outer ones before those inside. words: of the record so far. loops: the
    places of the words of loops of which iterations are timed.
    """

    def __init__(self) -> None:
        self.words = HEADER_WORDS
        self.all: list[Section] = []
        self.loops: list[int] = []
        self._cost = costs_of_instructions(lambda _: False)

    def begin(self, roles: Mapping[Instruction, Role]) -> Section:
        """Add the section of the entry; roles: of its instructions, for what is fused."""
        unstored = (Role.FUSED, Role.SCALAR)
        self._cost = costs_of_instructions(
            lambda i: roles.get(i) in unstored and not any(map(is_multi_output, i.users))
        )
        return self.add("entry", None, Executions())

    def reserve(self, words: int) -> int:
        """Return the place of so many more words of the record."""
        at = self.words
        self.words += words
        return at

    def add(
        self, kind: str, parent: Section | None, executions: Executions,
        inst: Instruction | None = None,
    ) -> Section:  # fmt: skip
        """Add a section inside of another."""
        # A loop has a second section, of what is not timed.
        word = self.reserve(SECTION_WORDS * (2 if kind == "while" else 1))
        section = Section(word, kind, parent, executions, inst)
        self.all.append(section)
        return section

    def plan(
        self, block: Block, owner: Section, executions: Executions, *, is_inside: bool
    ) -> list[tuple[Section | None, Section]]:
        """Return the group of each command, if it is in one, and its section."""
        if owner.is_whole:
            return [(None, owner)] * len(block.commands)
        plan: list[tuple[Section | None, Section]] = []
        commands = list(block.commands)
        while commands:
            count = 0 if is_inside else self._short(commands)
            if count:
                group = self.add("group", owner, executions)
                for command in commands[:count]:
                    section = group
                    if is_timed(command):
                        section = self._section_of(command, group, executions, is_inside=False)
                    plan.append((group, section))
                group.cost = sum((s.cost for s in self.all if s.parent is group), start=Cost())
            else:
                count = 1
                section = owner
                if is_timed(commands[0]):
                    section = self._section_of(commands[0], owner, executions, is_inside=is_inside)
                plan.append((None, section))
            commands = commands[count:]
        return plan

    def _short(self, commands: Sequence[Command]) -> int:
        """Return how many of the first commands make a group, zero for less than two kernels."""
        seconds, kernels, count = 0.0, 0, 0
        for n, command in enumerate(commands):
            if isinstance(command, ComputeScalar | UseConstant):
                continue
            if not isinstance(command, KernelCall) or seconds > _SHORT_S:
                break
            own = _seconds(self._cost_of(command))
            if own > _SHORT_S:
                break
            seconds, kernels, count = seconds + own, kernels + 1, n + 1
        return count if kernels > 1 else 0

    def _section_of(
        self, command: Command, parent: Section, executions: Executions, *, is_inside: bool
    ) -> Section:
        inst = command.inst
        match command:
            case KernelCall():
                section = self.add("kernel", parent, executions, inst)
                section.steps = tuple(map(step_name, command.plan.plan.steps))
                section.fused = tuple(self._fused(command))
                section.cost = self._cost_of(command)
            case Loop():
                section = self.add("while", parent, executions, inst)
                self._divide(section, command, is_inside=is_inside)
            case Branches():
                section = self.add("conditional", parent, executions, inst)
            case _:
                section = self.add("host", parent, executions, inst)
                section.cost = self._cost(inst)
        return section

    def _divide(self, section: Section, loop: Loop, *, is_inside: bool) -> None:
        """Choose how a loop is timed: iterations of it, or the loop as a whole."""
        inst, counter = loop.inst, counted(loop.inst)
        divided = any(map(is_divided, (loop.condition, loop.body)))
        is_few = is_inside and counter is not None and counter.count <= _FEW_TRIPS
        if divided and not is_few and self._is_tiny(loop):
            section.is_whole, divided = True, False
            section.fused = tuple(c.inst for c in loop.body.commands if is_timed(c))
        if not divided:
            section.cost = self._cost(inst)
        if counter is not None and (is_few or not divided):
            section.trips = counter.count
        elif divided:
            section.loop = self.reserve(LOOP_WORDS)
            section.copies = bool(loop.carry)
            section.is_doubled = self._is_short(loop)
            self.loops.append(section.loop)
        else:
            section.iterations = self.reserve(1)

    def _is_tiny(self, loop: Loop) -> bool:
        """True for iterations of nothing but a few kernels that are shorter than a reading."""
        for block in (loop.condition, loop.body):
            if any(isinstance(c, Loop | Branches | HostCall) for c in block.commands):
                return False
        seconds = self._seconds_of(loop.body)
        copied = sum(c.target.size_bytes for c in loop.carry) * _BYTE_S
        return seconds is not None and seconds + copied < _TINY_ITERATION_S

    def _is_short(self, loop: Loop) -> bool:
        """True for short iterations that call nothing outside."""
        seconds = self._seconds_of(loop.body)
        return seconds is not None and seconds < _SHORT_ITERATION_S

    def _seconds_of(self, block: Block) -> float | None:
        """Return about how long commands take; None if they call outside, which has to be once."""
        total = 0.0
        for command in block.commands:
            match command:
                case KernelCall():
                    total += _seconds(self._cost_of(command))
                case HostCall():
                    return None
                case Loop(inst):
                    counter = counted(inst)
                    own = self._seconds_of(command.body)
                    if own is None or self._seconds_of(command.condition) is None:
                        return None
                    total += own * (counter.count if counter is not None else 1)
                case Branches():
                    for branch, _ in command.branches:
                        own = self._seconds_of(branch)
                        if own is None:
                            return None
                        total += own
        return total

    def _fused(self, command: KernelCall) -> list[Instruction]:
        """Return what a kernel computes besides its root, as it is computed inside of it."""
        inside = fused_in(command.inst, command.plan.reads)
        return [i for i in inside if i.opcode not in ("parameter", "constant")]

    def _cost_of(self, command: KernelCall) -> Cost:
        return sum(map(self._cost, self._fused(command)), start=self._cost(command.inst))


def is_divided(block: Block) -> bool:
    """True for commands of which some have sections of their own."""
    return any(map(is_timed, block.commands))


def is_timed(command: Command) -> bool:
    """True for what has a section of its own."""
    match command:
        case KernelCall() | Loop():
            return True
        case HostCall(inst):
            is_check = inst.opcode == "custom-call" and inst.custom_call_target == CHECK_SIZE
            return not is_check and inst.opcode not in ("replica-id", "partition-id")
        case Branches(_, branches):
            return any(moves or any(map(is_timed, block.commands)) for block, moves in branches)
    return False


def _seconds(cost: Cost) -> float:
    """Return about how long a kernel takes."""
    arithmetic = cost.operations * _OPERATION_S + cost.transcendentals * _FUNCTION_S
    return _CALL_S + max(arithmetic, cost.bytes * _BYTE_S)
