"""The code that divides the time of an entry function into sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from hlo.analysis.source_location import Tables
from hlo.codegen.entry.commands import Block, Branches, Command, Loop
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import FALSE, Val, i64
from hlo.profiler.recorder import (
    COUNTDOWN,
    FLAG,
    ITERATIONS,
    RECORD,
    recorder_ir,
)
from hlo.profiler.sections import Executions, Section, Sections, is_divided, is_timed

# The functions that the code calls, with the number of their arguments.
_FUNCTIONS = {"begin": 1, "switch": 1, "enter": 2, "turn": 2, "leave": 2, "end": 0}


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


class Counters(Instrumentation):
    """Writes what divides the time of an entry into sections, and lists these."""

    # `perf` shows them.
    keeps_names = True

    def __init__(self, triple: str, *, has_threads: bool, tables: Tables | None = None) -> None:
        """Begin a program for a machine.

        has_threads: kernels may be shared by POSIX threads. tables: those of the module's stack
        frames.
        """
        self.tables = tables or {}
        self.ir = recorder_ir(triple, has_threads=has_threads)
        self.has_threads = has_threads
        self.sections = Sections()
        self._frames: list[_Frame] = []
        self._owners: list[Section] = []
        # Of loops and conditionals, and the counters of branches: a body may be written twice, at
        # first with all that is timed in it. `_is_plain`: it is the second time.
        self._section_by: dict[int, Section] = {}
        self._counter_by: dict[int, int] = {}
        self._is_plain = False
        # Of loops that are written twice: the countdown, in a register while they run.
        self._countdown_by: dict[int, str] = {}

    # --- the function ---------------------------------------------------------------------------

    def begin(self, entry: EntryState) -> None:
        """Declare what the code calls, and start the clock."""
        module = entry.module
        module.define(RECORD, "external global i64")
        for name, count in _FUNCTIONS.items():
            module.declare(f"hlo.profile.{name}", "void", ["i64"] * count, "cold nounwind")
        root = self.sections.begin(entry.live.roles)
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
                flag = None if is_known else self._flag(entry) if is_divided(block) else FALSE
        executions = self._executions(entry, owner, block)
        is_inside = owner.loop is not None or (outer is not None and outer.is_inside)
        plan = self.sections.plan(block, owner, executions, is_inside=is_inside)
        self._frames.append(_Frame(owner, plan, flag, is_inside))

    def leave(self, entry: EntryState, block: Block) -> None:
        """Go back to the section around a computation."""
        if self._is_plain:
            return
        frame = self._frames.pop()
        if not self._frames and entry.assignment.moves:
            results = self.sections.add("results", frame.owner, Executions())
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
            with self._added(entry):
                if section.is_doubled:
                    left = entry.b.load("i64", self._countdown_by[section.loop])
                    entry.b.store(left, self._address(entry, section.loop + COUNTDOWN))
                with _if_timed(entry, frame.flag):
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
            with self._added(entry):
                at = self._address(entry, section.loop + COUNTDOWN)
                with b.when(b.icmp("sle", self._add_at(entry, at, -1), 0)):
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
            countdown = self._countdown_by[section.loop]
            b.branch(b.icmp("sle", self._add_at(entry, countdown, -1), 0), due, plain)
            b.place(due)
            self._call(entry, "turn", section.loop, section.word)
            self._load_countdown(entry, section.loop)
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
        if section.is_doubled:
            with self._added(entry):
                self._countdown_by[section.loop] = entry.b.alloca("i64").name
                self._load_countdown(entry, section.loop)

    def _load_countdown(self, entry: EntryState, loop: int) -> None:
        left = entry.b.load("i64", self._address(entry, loop + COUNTDOWN))
        entry.b.store(left, self._countdown_by[loop])

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
        if owner.kind == "conditional" and any(map(is_timed, block.commands)):
            counter = self.sections.reserve(1)
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

    def _flag(self, entry: EntryState) -> Val:
        """Write the test whether the code around is timed."""
        return entry.b.icmp("ne", entry.b.load("i64", self._address(entry, FLAG)), 0)

    def _add(self, entry: EntryState, word: int, amount: int) -> Val:
        """Write the addition to a word of the record; returns the sum."""
        return self._add_at(entry, self._address(entry, word), amount)

    def _add_at(self, entry: EntryState, at: str, amount: int) -> Val:
        total = entry.b.binary("add", entry.b.load("i64", at), amount)
        entry.b.store(total, at)
        return total

    def _address(self, entry: EntryState, word: int) -> str:
        return entry.b.element_address(f"@{RECORD}", "i64", word)


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
