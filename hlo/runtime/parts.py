"""Splits LLVM IR into parts that compile in parallel, with an optimization level per function.

Loops that LLVM has to vectorize need the whole pipeline. Code that is emitted in final form, with
every innermost loop marked as not to be vectorized, needs a few clean-up passes; straight-line
code that runs once per call needs none, nor does code whose loops only call functions with loops
of their own. A function stays in the part of its callers if it may be inlined, or if it has a
single caller that LLVM can use for interprocedural analysis. The parts depend on the text alone,
so that equal modules give equal code on any number of processors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property


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

_NAME = re.compile(r'@("[^"]+"|[\w.$-]+)')
_SYMBOL = re.compile(r'@(?:"[^"]+"|[\w.$-]+)|!\d+')
_LABEL = re.compile(r"^([\w.$-]+):|label %([\w.$-]+)|!llvm\.loop (!\d+)", re.MULTILINE)
_APART = re.compile(r"\bnoinline\b")
_LINKAGE = re.compile(r"^define (internal )?")
_PLAIN = re.compile(r"^(!\d+) = distinct !\{!\d+, !0, !1\}$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """The content of one object file: a module for each optimization level."""

    texts: tuple[tuple[Effort, str], ...]


@dataclass(frozen=True)
class _Loop:
    begin: int
    end: int
    note: str

    def is_within(self, other: _Loop) -> bool:
        return self is not other and other.begin <= self.begin and self.end <= other.end


@dataclass
class _Function:
    name: str
    text: str
    order: int
    uses: set[str] = field(default_factory=set)
    effort: Effort = Effort.VECTORIZE
    # See `_drives`.
    is_driver: bool = False

    @property
    def header(self) -> str:
        return self.text[: self.text.index(" {\n")]

    @property
    def is_internal(self) -> bool:
        return self.text.startswith("define internal ")

    @property
    def is_apart(self) -> bool:
        """True when it may not be inlined."""
        return bool(_APART.search(self.header))

    @property
    def size(self) -> int:
        return len(self.text) * _WEIGHT[self.effort]

    @cached_property
    def innermost(self) -> list[_Loop]:
        """The innermost loops: back edges with their metadata."""
        placed: dict[str, int] = {}
        loops: list[_Loop] = []
        for m in _LABEL.finditer(self.text):
            label, target, note = m.groups()
            if label:
                placed[label] = m.start()
            elif target in placed:
                loops.append(_Loop(placed[target], m.start(), ""))
            elif note:
                loops[-1] = _Loop(loops[-1].begin, loops[-1].end, note)
        # Ordered by end: two loops are either nested or disjoint.
        found: list[_Loop] = []
        for loop in loops:
            if not found or not found[-1].is_within(loop):
                found.append(loop)
        return found


def split(text: str) -> list[Part]:
    """Return the parts of a module, the largest first; all of it is one if it is small."""
    functions, others = _read(text)
    _judge(functions, set(_PLAIN.findall(text)))
    efforts = (Effort.CLEAN, Effort.VECTORIZE)
    groups = sorted((g for e in efforts for g in _groups(functions, e)), key=_size, reverse=True)
    count = min(_MOST_PARTS, 1 + sum(map(_size, groups)) // _PART_SIZE)
    bins: list[list[_Function]] = [[] for _ in range(count)]
    sizes = [0] * count
    for group in groups:
        at = sizes.index(min(sizes))
        bins[at] += group
        sizes[at] += _size(group)
    # Code without optimization compiles quickly: it comes last.
    straight = [f for f in functions.values() if f.effort is Effort.NONE]
    bins = [*sorted(bins, key=_size, reverse=True), straight]
    module = _Module(functions, others)
    return [module.part(b) for b in bins if b]


def _size(functions: Iterable[_Function]) -> int:
    return sum(f.size for f in functions)


def _read(text: str) -> tuple[dict[str, _Function], list[str]]:
    """Return the functions of a module with what they use of each other, and the other lines."""
    functions: dict[str, _Function] = {}
    others = []
    lines = iter(text.split("\n"))
    for line in lines:
        if not line.startswith("define "):
            if line:
                others.append(line)
            continue
        found = _NAME.search(line)
        assert found is not None
        body = "\n".join([line, *_until_brace(lines)])
        functions[found[1]] = _Function(found[1], body, len(functions))
    for f in functions.values():
        f.uses = {n for n in _NAME.findall(f.text) if n in functions and n != f.name}
    return functions, others


def _until_brace(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line == "}":
            return


def _judge(functions: dict[str, _Function], plain: Set[str]) -> None:
    """Choose the optimization level of each function; `plain` is the metadata of loops in final
    form."""
    stack = [f.name for f in functions.values() if f.innermost]
    repeated: set[str] = set()
    while stack:
        name = stack.pop()
        if name not in repeated:
            repeated.add(name)
            stack += functions[name].uses
    for f in functions.values():
        if all(loop.note in plain for loop in f.innermost):
            f.effort = Effort.CLEAN if f.name in repeated else Effort.NONE
    for f in functions.values():
        if f.is_internal and f.is_apart and _drives(f, functions):
            f.is_driver = True
            f.text = f.text.replace(" noinline ", " noinline optnone ", 1)
    straight = [f for f in functions.values() if f.effort is Effort.NONE]
    if sum(len(f.text) for f in straight) < _PART_SIZE:
        # Too small for a module of its own.
        for f in straight:
            f.effort = Effort.CLEAN


def _drives(f: _Function, functions: dict[str, _Function]) -> bool:
    """True when a function spends its time in callees: each innermost loop calls one with loops.

    Optimizing the loops around a microkernel takes LLVM longer than the microkernel itself,
    mostly for strength reduction.
    """
    bodies = [f.text[loop.begin : loop.end] for loop in f.innermost]
    called = [set(_NAME.findall(body)) & f.uses for body in bodies] or [f.uses]
    return all(any(functions[name].innermost for name in names) for names in called)


def _groups(functions: dict[str, _Function], effort: Effort) -> list[list[_Function]]:
    """Return the functions of a level in groups that have to be in one module."""
    group = {f.name: [f] for f in functions.values() if f.effort is effort}
    callers = Counter(n for f in functions.values() for n in f.uses)
    for name in group:
        f = functions[name]
        for used in sorted(f.uses & group.keys()):
            if functions[used].is_apart and (callers[used] > 1 or not f.is_internal or f.is_driver):
                continue
            if group[used] is not group[name]:
                small, large = sorted((group[used], group[name]), key=len)
                large += small
                for moved in small:
                    group[moved.name] = large
    return list({id(g): g for g in group.values()}.values())


class _Module:
    """The module that is split."""

    def __init__(self, functions: dict[str, _Function], others: Sequence[str]) -> None:
        self.functions = functions
        # The lines between functions by symbol; those of the header have none.
        self.lines: dict[str, tuple[int, str]] = {}
        self.head: list[str] = []
        for n, line in enumerate(others):
            if found := _SYMBOL.search(line):
                self.lines[found[0]] = (n, line)
            else:
                self.head.append(line)
        self.users: dict[str, list[str]] = {}
        for f in functions.values():
            for used in f.uses:
                self.users.setdefault(used, []).append(f.name)

    def part(self, members: Sequence[_Function]) -> Part:
        ordered = sorted(members, key=lambda f: f.order)
        efforts = ((e, [f for f in ordered if f.effort is e]) for e in Effort)
        return Part(tuple((e, self._text(fs)) for e, fs in efforts if fs))

    def _text(self, members: Sequence[_Function]) -> str:
        """Return functions as a module, with declarations of those that they use of others."""
        inside = {f.name for f in members}
        bodies = [
            _LINKAGE.sub("define hidden ", f.text)
            if f.is_internal and not inside.issuperset(self.users.get(f.name, ()))
            else f.text
            for f in members
        ]
        foreign = sorted({n for f in members for n in f.uses} - inside)
        declared = [_declaration(self.functions[n]) for n in foreign]
        return "\n".join([*self.head, *self._needed("\n".join(bodies)), *declared, *bodies, ""])

    def _needed(self, bodies: str) -> list[str]:
        """Return what functions need of globals, declarations and metadata."""
        needed: dict[str, tuple[int, str]] = {}
        stack = [bodies]
        while stack:
            for symbol in set(_SYMBOL.findall(stack.pop())):
                if symbol in self.lines and symbol not in needed:
                    needed[symbol] = self.lines[symbol]
                    stack.append(self.lines[symbol][1])
        return [line for _, line in sorted(needed.values())]


def _declaration(f: _Function) -> str:
    header = _LINKAGE.sub("declare hidden " if f.is_internal else "declare ", f.header)
    return header[: header.rindex(")") + 1]  # attributes are for the definition
