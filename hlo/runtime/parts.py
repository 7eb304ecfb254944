"""Splits a module of LLVM IR into parts that compile in parallel, each function at its own
optimization level.

Loops that LLVM has to vectorize need the whole pipeline. Code that is emitted in final form, with
every innermost loop marked as not to be vectorized, needs a few clean-up passes; straight-line
code that runs once per call needs none, nor does code whose loops only call functions with loops
of their own. A function stays in the part of its callers if it may be inlined, or if it has a
single caller that LLVM can use for interprocedural analysis. The parts depend on the module alone,
so that equal modules give equal code on any number of processors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from hlo.llvm import Function, LlvmModule


class Effort(Enum):
    """Optimization level of a function."""

    NONE = "none"
    CLEAN = "clean"
    VECTORIZE = "vectorize"


# Each module compiled in parallel has an overhead of one or two milliseconds: this many
# characters of clean code take ten times that. Code to vectorize takes several times as long.
_PART_SIZE = 24_000
_MOST_PARTS = 16
_WEIGHT = {Effort.NONE: 0, Effort.CLEAN: 1, Effort.VECTORIZE: 5}


@dataclass(frozen=True)
class Part:
    """The content of one object file: a module for each optimization level, as text."""

    texts: tuple[tuple[Effort, str], ...]


@dataclass
class _Member:
    """A function of the module that is split. uses: the other functions that it names."""

    function: Function
    order: int
    uses: set[str] = field(default_factory=set)
    effort: Effort = Effort.VECTORIZE
    # See `_drives`.
    is_driver: bool = False
    # Characters that do not count.
    added: int = 0

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def is_internal(self) -> bool:
        return self.function.linkage == "internal"

    @property
    def is_apart(self) -> bool:
        """True when it may not be inlined."""
        return "noinline" in self.function.attributes

    @property
    def has_loops(self) -> bool:
        return bool(self.function.innermost_loops)

    @cached_property
    def length(self) -> int:
        """Characters of its text."""
        return len(self.function.text) - self.added

    @property
    def size(self) -> int:
        return self.length * _WEIGHT[self.effort]


def split(module: LlvmModule) -> list[Part]:
    """Return the parts of a module, the largest first; all of it is one if it is small."""
    members = {f.name: _Member(f, n) for n, f in enumerate(module.functions.values())}
    for name, added in module.added.items():
        members[name].added = added
    for member in members.values():
        named = _closure(member.function.symbols, module)
        member.uses = (named & members.keys()) - {member.name}
    _judge(members)
    efforts = (Effort.CLEAN, Effort.VECTORIZE)
    groups = sorted((g for e in efforts for g in _groups(members, e)), key=_size, reverse=True)
    count = min(_MOST_PARTS, 1 + sum(map(_size, groups)) // _PART_SIZE)
    bins: list[list[_Member]] = [[] for _ in range(count)]
    sizes = [0] * count
    for group in groups:
        at = sizes.index(min(sizes))
        bins[at] += group
        sizes[at] += _size(group)
    # Code without optimization compiles quickly: it comes last.
    straight = [m for m in members.values() if m.effort is Effort.NONE]
    bins = [*sorted(bins, key=_size, reverse=True), straight]
    whole = _Whole(module, members)
    return [whole.part(b) for b in bins if b]


def _closure(symbols: Iterable[str], module: LlvmModule) -> set[str]:
    """Return symbols, with those that the values of globals among them refer to."""
    found: set[str] = set()
    stack = list(symbols)
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            if name in module.globals:
                stack += module.globals[name].symbols
    return found


def _size(members: Iterable[_Member]) -> int:
    return sum(m.size for m in members)


def _judge(members: dict[str, _Member]) -> None:
    """Choose the optimization level of each function."""
    stack = [m.name for m in members.values() if m.has_loops]
    repeated: set[str] = set()
    while stack:
        name = stack.pop()
        if name not in repeated:
            repeated.add(name)
            stack += members[name].uses
    for m in members.values():
        loops = m.function.innermost_loops
        if all(loop.metadata is not None and loop.metadata.is_final for loop in loops):
            m.effort = Effort.CLEAN if m.name in repeated else Effort.NONE
    for m in members.values():
        if m.is_internal and m.is_apart and _drives(m, members):
            m.is_driver = True
            attributes = [a for a in m.function.attributes if a != "noinline"]
            m.function = m.function.replace(attributes=("noinline", "optnone", *attributes))
    straight = [m for m in members.values() if m.effort is Effort.NONE]
    if sum(m.length for m in straight) < _PART_SIZE:
        # Too small for a module of its own.
        for m in straight:
            m.effort = Effort.CLEAN


def _drives(m: _Member, members: dict[str, _Member]) -> bool:
    """True when a function spends its time in callees: each innermost loop calls one with loops.

    Optimizing the loops around a microkernel takes LLVM longer than the microkernel itself,
    mostly for strength reduction.
    """
    loops = m.function.innermost_loops
    called = [m.uses & m.function.symbols_in(loop) for loop in loops] or [m.uses]
    return all(any(members[name].has_loops for name in names) for names in called)


def _groups(members: dict[str, _Member], effort: Effort) -> list[list[_Member]]:
    """Return the functions of a level in groups that have to be in one module."""
    group = {m.name: [m] for m in members.values() if m.effort is effort}
    callers = Counter(n for m in members.values() for n in m.uses)
    for name in group:
        m = members[name]
        for used in sorted(m.uses & group.keys()):
            if members[used].is_apart and (callers[used] > 1 or not m.is_internal or m.is_driver):
                continue
            if group[used] is not group[name]:
                small, large = sorted((group[used], group[name]), key=len)
                large += small
                for moved in small:
                    group[moved.name] = large
    return list({id(g): g for g in group.values()}.values())


class _Whole:
    """The module that is split."""

    def __init__(self, module: LlvmModule, members: dict[str, _Member]) -> None:
        self.module, self.members = module, members
        self.users: dict[str, list[str]] = {}
        for m in members.values():
            for used in m.uses:
                self.users.setdefault(used, []).append(m.name)

    def part(self, members: Sequence[_Member]) -> Part:
        ordered = sorted(members, key=lambda m: m.order)
        efforts = ((e, [m for m in ordered if m.effort is e]) for e in Effort)
        return Part(tuple((e, self._text(ms)) for e, ms in efforts if ms))

    def _text(self, members: Sequence[_Member]) -> str:
        """Return functions as a module, with declarations of those that they use of others."""
        inside = {m.name for m in members}
        functions = [
            self._visible(m) if not inside.issuperset(self.users.get(m.name, ())) else m.function
            for m in members
        ]
        foreign = sorted({n for m in members for n in m.uses} - inside)
        declared = [self._visible(self.members[n]).declaration for n in foreign]
        return "\n".join(
            [
                *self.module.header, *self._globals(functions), *self._metadata(functions),
                *declared, *(f.text for f in functions), "",
            ]
        )  # fmt: skip

    def _visible(self, m: _Member) -> Function:
        """Return a function as the other parts see it."""
        if not m.is_internal:
            return m.function
        return m.function.replace(linkage="", visibility="hidden")

    def _globals(self, functions: Sequence[Function]) -> list[str]:
        """Return the globals and declarations that functions need."""
        module = self.module
        needed = _closure((name for f in functions for name in f.symbols), module)
        return [
            *(str(g) for name, g in module.globals.items() if name in needed),
            *(text for name, text in module.declarations.items() if name in needed),
        ]

    def _metadata(self, functions: Sequence[Function]) -> list[str]:
        """Return the metadata nodes that functions need."""
        needed = set[int]()
        stack = [number for f in functions for number in f.metadata]
        while stack:
            number = stack.pop()
            if number not in needed:
                needed.add(number)
                stack += self.module.metadata[number].nodes
        return [str(node) for node in self.module.metadata if node.number in needed]
