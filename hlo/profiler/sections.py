"""What the time of an entry function is divided into, and the code that divides it.

Each kernel, loop, conditional and call outside is a section; scalars belong to the section around
them. Outside of loops, consecutive kernels that are too short to be timed each make a group, a
section of its own: its members are timed in some runs only, like the iterations of loops (see
`hlo.profiler.recorder`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import FALSE, Val, i64
from hlo.codegen.report import fused_in, step_name
from hlo.ir import Instruction
from hlo.ops.host.custom_targets import CHECK_SIZE
from hlo.profiler.recorder import (
    COUNTDOWN,
    FLAG,
    HEADER_WORDS,
    ITERATIONS,
    LOOP_WORDS,
    RECORD,
    SECTION_WORDS,
    recorder_ir,
)

# Kernels shorter than this, in seconds, are timed together: reading the counter is to take about a
# hundredth of the time at most.
_SHORT_S = 1.5e-6
# Loops inside of others of so many iterations at most are timed as a whole or not at all.
_FEW_TRIPS = 64
# In iterations of more, tests whether they are timed take less than a hundredth of the time.
_SHORT_ITERATION_S = 1e-5
# What a kernel takes at least, and for each operation, transcendental function and byte.
_CALL_S, _OPERATION_S, _FUNCTION_S, _BYTE_S = 3e-8, 5e-11, 5e-10, 5e-11


# The functions that the code calls, with the number of their arguments.
_FUNCTIONS = {"begin": 1, "switch": 1, "enter": 2, "turn": 2, "leave": 2, "end": 0}


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
    words of a loop of which iterations are timed; trips: the known number of iterations of one that
    is timed as a whole or not at all, iterations: the place of the counter of another. copies: an
    iteration ends with copies, which are the loop's own time. is_doubled: its body is written
    twice, as tests whether it is timed would take too much of its time.
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


@dataclass
class _Frame:
    """A computation whose commands are being written."""

    owner: Section
    # Of each command: the group that it is in, and the section of its time.
    plan: Sequence[tuple[Section | None, Section]]
    # Whether it is timed, where that is not always so. It does not change while the commands run:
    # loops inside put `FLAG` back.
    flag: Val | None
    # Whether it is in a loop of which iterations are timed.
    is_inside: bool
    next: int = 0
    group: Section | None = None

    def __post_init__(self) -> None:
        self.current = self.owner


class Sections(Instrumentation):
    """Writes what divides the time of an entry into sections, which it lists."""

    def __init__(self, triple: str, *, has_threads: bool) -> None:
        """Begin a program for a machine. has_threads: kernels may be shared by POSIX threads."""
        self.ir = recorder_ir(triple, has_threads=has_threads)
        self.has_threads = has_threads
        self.words = HEADER_WORDS
        self.all: list[Section] = []
        self.loops: list[int] = []
        self._frames: list[_Frame] = []
        self._owners: list[Section] = []
        # Of loops and conditionals, and the counters of branches: a body may be written twice, at
        # first with all that is timed in it. `_is_plain`: it is the second time.
        self._section_by: dict[int, Section] = {}
        self._counter_by: dict[int, int] = {}
        self._is_plain = False

    # --- memory ---------------------------------------------------------------------------------

    def _reserve(self, words: int) -> int:
        at = self.words
        self.words += words
        return at

    def _section(
        self, kind: str, parent: Section | None, executions: Executions,
        inst: Instruction | None = None,
    ) -> Section:  # fmt: skip
        # A loop has a second section, of what is not timed.
        word = self._reserve(SECTION_WORDS * (2 if kind == "while" else 1))
        section = Section(word, kind, parent, executions, inst)
        self.all.append(section)
        return section

    # --- the function ---------------------------------------------------------------------------

    def begin(self, entry: EntryState) -> None:
        """Declare what the code calls, and start the clock."""
        module = entry.module
        module.define(RECORD, "external global i64")
        for name, count in _FUNCTIONS.items():
            module.declare(f"hlo.profile.{name}", "void", ["i64"] * count, "cold nounwind")
        roles = entry.live.roles
        unstored = (Role.FUSED, Role.SCALAR)
        self._roles = roles
        self._cost = costs_of_instructions(
            lambda i: roles.get(i) in unstored and not any(map(is_multi_output, i.users))
        )
        root = self._section("entry", None, Executions())
        self._owners.append(root)
        with self._added(entry):
            self._call(entry, "begin", root.word)

    def end(self, entry: EntryState) -> None:
        """Stop the clock."""
        with self._added(entry):
            self._call(entry, "end")

    def enter(self, entry: EntryState, block: Block) -> None:
        """Choose the sections of a computation's commands."""
        if self._is_plain:
            if id(block) in self._counter_by:
                self._add(entry, self._counter_by[id(block)], 1)
            return
        owner = self._owners[-1]
        outer = self._frames[-1] if self._frames else None
        flag = outer.flag if outer is not None else None
        if owner.loop is not None:
            is_known = owner.is_doubled and not _is_test(owner, block)
            with self._added(entry):
                flag = None if is_known else self._flag(entry) if _is_divided(block) else FALSE
        executions = self._executions(entry, owner, block)
        is_inside = owner.loop is not None or (outer is not None and outer.is_inside)
        plan = self._plan(block, owner, executions, is_inside=is_inside)
        self._frames.append(_Frame(owner, plan, flag, is_inside))

    def leave(self, entry: EntryState, block: Block) -> None:
        """Go back to the section around a computation."""
        if self._is_plain:
            return
        frame = self._frames.pop()
        if not self._frames and entry.assignment.moves:
            results = self._section("results", frame.owner, Executions())
            self._switch(entry, results, None)
        elif frame.current is not frame.owner and not _is_end_of_turn(frame.owner, block):
            self._switch(entry, frame.owner, frame.flag)

    def before(self, entry: EntryState, command: Command) -> None:
        """Begin the section of a command."""
        if self._is_plain:
            if isinstance(command, Loop | Branches):
                self._owners.append(self._section_by[id(command)])
            return
        frame = self._frames[-1]
        group, section = frame.plan[frame.next]
        frame.next += 1
        if isinstance(command, Loop) and section.loop is not None:
            self._enter_loop(entry, section, frame)
        elif group is not frame.group or section is not frame.current:
            if group is not None and group is not frame.group:
                self._switch(entry, group, frame.flag)
                frame.current = group
            if section is not frame.current:
                with self._added(entry):
                    flag = frame.flag if group is None else self._flag(entry)
                self._switch(entry, section, flag)
        frame.group, frame.current = group, section
        if isinstance(command, Loop | Branches):
            self._owners.append(section)
            self._section_by[id(command)] = section

    def after(self, entry: EntryState, command: Command) -> None:
        """Leave a loop; the time of other commands ends when the next one's begins."""
        if not isinstance(command, Loop | Branches):
            return
        section = self._owners.pop()
        if section.loop is not None and not self._is_plain:
            frame = self._frames[-1]
            with self._added(entry), _if_timed(entry, frame.flag):
                self._call(entry, "leave", section.loop, frame.owner.word)
            frame.current = frame.owner

    def iteration(self, entry: EntryState, loop: Loop) -> None:
        """Count an iteration, and time it if it is due."""
        section, b = self._owners[-1], entry.b
        if section.iterations is not None:
            with self._added(entry):
                self._add(entry, section.iterations, 1)
        if section.loop is not None and self._is_plain:
            self._add(entry, section.loop + ITERATIONS, 1)
        elif section.loop is not None and not section.is_doubled:
            with self._added(entry), b.when(self._is_due(entry, section.loop)):
                self._call(entry, "turn", section.loop, section.word)

    def body(self, entry: EntryState, loop: Loop, emit: Callable[[], None]) -> None:
        """Write the body of a loop, of short iterations once to be timed and once without that."""
        section, b = self._owners[-1], entry.b
        if self._is_plain or not section.is_doubled:
            emit()
            return
        assert section.loop is not None
        due, timed, plain, done = map(b.new_label, ("due", "timed", "plain", "turned"))
        with self._added(entry):
            # After one that is timed, the next one is due, if only to end that.
            b.branch(self._is_due(entry, section.loop), due, plain)
            b.place(due)
            self._call(entry, "turn", section.loop, section.word)
            b.branch(self._flag(entry), timed, plain)
            b.place(timed)
        spent = entry.spent
        with b.scope():
            emit()
        with self._added(entry):
            b.jump(done)
            b.place(plain)
            self._is_plain, entry.spent = True, spent
            with b.scope():
                emit()
            self._is_plain = False
            b.jump(done)
            b.place(done)

    def _enter_loop(self, entry: EntryState, section: Section, frame: _Frame) -> None:
        assert section.loop is not None
        with self._added(entry), _if_timed(entry, frame.flag):
            self._call(entry, "enter", section.loop, section.word)

    def _executions(self, entry: EntryState, owner: Section, block: Block) -> Executions:
        """Return how often a computation runs; branches count that themselves."""
        inst = owner.inst
        if owner.kind == "while" and inst is not None:
            is_test = _is_test(owner, block)
            if owner.trips is not None:
                return Executions(times=owner.trips + is_test, of=owner.executions)
            if owner.loop is None:
                return Executions()
            return Executions(owner.loop, is_loop=True, is_test=is_test)
        if owner.kind == "conditional" and any(map(_is_timed, block.commands)):
            counter = self._reserve(1)
            with self._added(entry):
                self._add(entry, counter, 1)
            self._counter_by[id(block)] = counter
            return Executions(counter)
        return owner.executions

    # --- code -----------------------------------------------------------------------------------

    @contextmanager
    def _added(self, entry: EntryState) -> Iterator[None]:
        """Have what is written not count where the program is divided into parts.

        Which functions are in one part decides what LLVM knows of their callers: kernels are to be
        those of the program as it is.
        """
        if self._is_plain:
            yield
            return
        lines = entry.b.lines
        before = len(lines)
        yield
        written = sum(len(str(line)) + 1 for line in lines[before:])
        added = entry.module.added
        added[entry.symbol] = added.get(entry.symbol, 0) + written

    def _call(self, entry: EntryState, function: str, *args: int) -> None:
        entry.b.call_void(f"hlo.profile.{function}", [i64(a) for a in args])

    def _switch(self, entry: EntryState, section: Section, flag: Val | None) -> None:
        with self._added(entry), _if_timed(entry, flag):
            self._call(entry, "switch", section.word)

    def _is_due(self, entry: EntryState, loop: int) -> Val:
        """Write the test whether the countdown of a loop has ended, which has one less to go."""
        return entry.b.icmp("sle", self._add(entry, loop + COUNTDOWN, -1), 0)

    def _flag(self, entry: EntryState) -> Val:
        """Write the test whether the code around is timed."""
        return entry.b.icmp("ne", entry.b.load("i64", self._address(entry, FLAG)), 0)

    def _add(self, entry: EntryState, word: int, amount: int) -> Val:
        """Write the addition to a word of the record; returns the sum."""
        at = self._address(entry, word)
        total = entry.b.binary("add", entry.b.load("i64", at), amount)
        entry.b.store(total, at)
        return total

    def _address(self, entry: EntryState, word: int) -> str:
        return entry.b.element_address(f"@{RECORD}", "i64", word)

    # --- sections -------------------------------------------------------------------------------

    def _plan(
        self, block: Block, owner: Section, executions: Executions, *, is_inside: bool
    ) -> list[tuple[Section | None, Section]]:
        """Return the group of each command, if it is in one, and its section."""
        plan: list[tuple[Section | None, Section]] = []
        commands = list(block.commands)
        while commands:
            count = 0 if is_inside else self._short(commands)
            if count:
                group = self._section("group", owner, executions)
                for command in commands[:count]:
                    section = group
                    if _is_timed(command):
                        section = self._section_of(command, group, executions, is_inside=False)
                    plan.append((group, section))
                group.cost = sum((s.cost for s in self.all if s.parent is group), start=Cost())
            else:
                count = 1
                section = owner
                if _is_timed(commands[0]):
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
                section = self._section("kernel", parent, executions, inst)
                section.steps = tuple(map(step_name, command.plan.plan.steps))
                section.fused = tuple(self._fused(command))
                section.cost = self._cost_of(command)
            case Loop():
                section = self._section("while", parent, executions, inst)
                blocks = (command.condition, command.body)
                counter, is_divided = counted(inst), any(map(_is_divided, blocks))
                few = is_inside and counter is not None and counter.count <= _FEW_TRIPS
                if counter is not None and (few or not is_divided):
                    section.trips = counter.count
                elif is_divided:
                    section.loop = self._reserve(LOOP_WORDS)
                    section.copies = bool(command.carry)
                    section.is_doubled = self._is_short(command)
                    self.loops.append(section.loop)
                else:
                    section.iterations = self._reserve(1)
                if not is_divided:
                    section.cost = self._cost(inst)
            case Branches():
                section = self._section("conditional", parent, executions, inst)
            case _:
                section = self._section("host", parent, executions, inst)
                section.cost = self._cost(inst)
        return section

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


def _if_timed(entry: EntryState, flag: Val | None) -> AbstractContextManager[None]:
    """Return the context of code for what is timed: always, or if a flag is true."""
    return nullcontext() if flag is None else entry.b.when(flag)


def _is_end_of_turn(owner: Section, block: Block) -> bool:
    """True for a loop's body after which there is next to nothing until the next iteration."""
    is_body = owner.kind == "while" and not _is_test(owner, block)
    return is_body and not owner.copies


def _is_test(owner: Section, block: Block) -> bool:
    """True for the condition of a loop."""
    inst = owner.inst
    return inst is not None and block.comp is inst.condition and block.comp is not inst.body


def _is_divided(block: Block) -> bool:
    """True for commands of which some have sections of their own."""
    return any(map(_is_timed, block.commands))


def _is_timed(command: Command) -> bool:
    """True for what has a section of its own."""
    match command:
        case KernelCall() | Loop():
            return True
        case HostCall(inst):
            is_check = inst.opcode == "custom-call" and inst.custom_call_target == CHECK_SIZE
            return not is_check and inst.opcode not in ("replica-id", "partition-id")
        case Branches(_, branches):
            return any(moves or any(map(_is_timed, block.commands)) for block, moves in branches)
    return False


def _seconds(cost: Cost) -> float:
    """Return about how long a kernel takes."""
    arithmetic = cost.operations * _OPERATION_S + cost.transcendentals * _FUNCTION_S
    return _CALL_S + max(arithmetic, cost.bytes * _BYTE_S)
