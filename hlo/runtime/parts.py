"""Splits a module of LLVM IR into parts that compile in parallel, each function at its own
optimization level.

Loops that LLVM has to vectorize need the whole pipeline. Code that is emitted in final form, with
every innermost loop marked as not to be vectorized, needs a few clean-up passes, and fewer in
functions that are written by hand, such as microkernels. Straight-line code that runs once per call
needs none, nor does code whose loops only call functions with loops of their own. A function stays
in the part of its callers if it may be inlined, or if it has a single caller that LLVM can use for
interprocedural analysis. The parts depend on the module alone, so that equal modules give equal
code on any number of processors.

Functions that take long to compile are apart, with no names of the module in their text (see
`canonical.py`): in all modules that have such functions the part is the same, and its object code
can be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from hlo.llvm import Function, LlvmModule
from hlo.runtime.canonical import canonical


class Effort(Enum):
    """Optimization level of a function."""

    NONE = "none"
    FINAL = "final"
    CLEAN = "clean"
    VECTORIZE = "vectorize"


# Each part has an overhead of one or two milliseconds: this many characters of clean code take
# ten times that. Code to vectorize takes several times as long.
_PART_SIZE = 24_000
_MOST_PARTS = 16
_WEIGHT = {Effort.NONE: 0, Effort.FINAL: 1, Effort.CLEAN: 1, Effort.VECTORIZE: 5}
# Code of this size, which takes three times the overhead, is apart; of functions that many modules
# have, code that takes as long as the overhead.
_APART_SIZE = 4_000
_GENERAL_SIZE = 1_000
# The fewest characters of code without optimization that are worth a part.
_LEAST_STRAIGHT = 1_000


@dataclass(frozen=True)
class Part:
    """The content of one object file: a module for each optimization level, as text.

    names: those of its functions in the module that was split. is_shared: other modules may have
    the same part.
    """

    texts: tuple[tuple[Effort, str], ...]
    names: tuple[str, ...]
    is_shared: bool = False


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


_Group = list[_Member]


def split(module: LlvmModule, *, keeps_names: bool = False) -> list[Part]:
    """Return the parts of a module, those that take longest first.

    keeps_names: functions have their names in all parts, so that no part is shared.
    """
    members = {f.name: _Member(f, n) for n, f in enumerate(module.functions.values())}
    for name, added in module.added.items():
        members[name].added = added
    for member in members.values():
        named = _closure(member.function.symbols, module)
        member.uses = (named & members.keys()) - {member.name}
    _judge(members)
    optimized = (Effort.FINAL, Effort.CLEAN, Effort.VECTORIZE)
    groups = [g for e in optimized for g in _groups(members, e)]
    apart = _apart(groups, members)
    done = {m.name for g in apart for m in g}
    rest = [g for g in groups if g[0].name not in done]
    straight = [m for m in members.values() if m.effort is Effort.NONE and m.name not in done]
    if sum(m.length for m in straight) < _LEAST_STRAIGHT:
        for m in straight:
            m.effort = Effort.CLEAN
        rest, straight = [*rest, *([m] for m in straight)], []
    bins = _bins(rest)
    whole = _Whole(module, members)
    if keeps_names:
        bins = [*apart, *bins]
    else:
        for group in apart:
            whole.set_apart(group)
    parts = [*whole.apart.values(), *((_size(b), whole.part(b)) for b in bins)]
    ordered = [part for _, part in sorted(parts, key=lambda found: -found[0])]
    # Code without optimization compiles quickly: it comes last.
    return [*ordered, *([whole.part(straight)] if straight else [])]


def _bins(groups: Sequence[_Group]) -> list[_Group]:
    """Return groups that are compiled together, each bin for about as long."""
    count = min(_MOST_PARTS, 1 + sum(map(_size, groups)) // _PART_SIZE)
    bins: list[_Group] = [[] for _ in range(count)]
    sizes = [0] * count
    for group in sorted(groups, key=_size, reverse=True):
        at = sizes.index(min(sizes))
        bins[at] += group
        sizes[at] += _size(group)
    return [b for b in bins if b]


def _apart(groups: Sequence[_Group], members: Mapping[str, _Member]) -> list[_Group]:
    """Return the groups that are apart, what they use before them.

    These are the large ones and all that they use, unless that is them again, or has a name that
    others know.
    """
    group_of = {m.name: g for g in groups for m in g}
    found: list[_Group] = []
    # Whether all that a group uses was found, by its first function; False while it is looked for.
    is_found: dict[str, bool] = {}

    def find(group: _Group) -> bool:
        key = group[0].name
        if key not in is_found:
            is_found[key] = False
            used = {n for m in group for n in m.uses} - {m.name for m in group}
            if all(m.is_internal for m in group) and all(
                [find(group_of.get(n, [members[n]])) for n in sorted(used)]
            ):
                is_found[key] = True
                found.append(group)
        return is_found[key]

    for group in groups:
        least = _GENERAL_SIZE if group[0].function.is_general else _APART_SIZE
        if sum(m.length for m in group) >= least:
            find(group)
    return found


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
            # Nothing in general functions is known so late that instructions have to be combined.
            final = Effort.FINAL if m.function.is_general else Effort.CLEAN
            m.effort = final if m.name in repeated else Effort.NONE
        if m.is_internal and m.is_apart and _drives(m, members):
            if m.has_loops and (m.function.is_general or m.function.is_light):
                m.is_driver = True
                attributes = [a for a in m.function.attributes if a != "noinline"]
                m.function = m.function.replace(attributes=("noinline", "optnone", *attributes))
            else:
                m.effort = Effort.NONE


def _drives(m: _Member, members: dict[str, _Member]) -> bool:
    """True when a function spends its time in callees: each innermost loop calls one with loops.

    Optimizing the loops around a microkernel takes LLVM longer than the microkernel itself,
    mostly for strength reduction. Where they are not light, values need not be in registers.
    """
    loops = m.function.innermost_loops
    called = [m.uses & m.function.symbols_in(loop) for loop in loops] or [m.uses]
    return all(any(members[name].has_loops for name in names) for names in called)


def _groups(members: dict[str, _Member], effort: Effort) -> list[list[_Member]]:
    """Return the functions of a level in groups that have to be in one module.

    General functions are with those that only they use, and not with others.
    """
    group = {m.name: [m] for m in members.values() if m.effort is effort}
    callers: dict[str, set[str]] = {}
    for m in members.values():
        for used in m.uses:
            callers.setdefault(used, set()).add(m.name)
    for name in group:
        m = members[name]
        for used in sorted(m.uses & group.keys()):
            if members[used].function.is_general:
                is_own = m.function.is_general and all(
                    group.get(n) is group[name] for n in callers[used]
                )
            else:
                is_own = len(callers[used]) == 1 and m.is_internal and not m.is_driver
            if members[used].is_apart and not is_own:
                continue
            if group[used] is not group[name]:
                small, large = sorted((group[used], group[name]), key=len)
                large += small
                for moved in small:
                    group[moved.name] = large
    return list({id(g): g for g in group.values()}.values())


class _Whole:
    """The module that is split.

    apart: the parts that other modules may have, with the size of each, by their text.
    """

    def __init__(self, module: LlvmModule, members: dict[str, _Member]) -> None:
        self.module, self.members = module, members
        self.apart: dict[str, tuple[int, Part]] = {}
        # The functions of these parts as others see them, by the names that they had.
        self._named: dict[str, Function] = {}
        self._users: dict[str, list[str]] = {}
        for m in members.values():
            for used in m.uses:
                self._users.setdefault(used, []).append(m.name)

    def set_apart(self, group: _Group) -> None:
        """Make a group a part without names of the module; those it uses are already apart."""
        ordered = sorted(group, key=lambda m: m.order)
        functions, effort = self._linked(ordered), group[0].effort
        found = canonical(self.module, functions, self._named, effort.value)
        for f in functions:
            seen = self._named[f.name] = f.replace()
            seen.name = found.symbols[f.name]
        part = Part(((effort, found.text),), tuple(m.name for m in ordered), is_shared=True)
        # Functions that differ by their names only are one.
        self.apart.setdefault(found.text, (_size(group), part))

    def part(self, members: Sequence[_Member]) -> Part:
        """Return functions as a part that only this module has."""
        ordered = sorted(members, key=lambda m: m.order)
        efforts = ((e, [m for m in ordered if m.effort is e]) for e in Effort)
        texts = tuple((e, self._text(ms)) for e, ms in efforts if ms)
        return Part(texts, tuple(m.name for m in ordered))

    def _text(self, members: Sequence[_Member]) -> str:
        """Return functions as a module, with declarations of those that they use of others."""
        functions = self._linked(members)
        names = {former: seen.name for former, seen in self._named.items()}
        foreign = sorted({n for m in members for n in m.uses} - {m.name for m in members})
        declared = dict.fromkeys(self._seen(n).declaration for n in foreign)
        return "\n".join(
            [
                *self.module.header, *self._globals(functions, names), *self._metadata(functions),
                *declared, *(_renamed(f, names).text for f in functions), "",
            ]
        )  # fmt: skip

    def _linked(self, members: Sequence[_Member]) -> list[Function]:
        """Return functions as their own part has them: visible to the others that use them."""
        inside = {m.name for m in members}
        return [
            m.function if inside.issuperset(self._users.get(m.name, ())) else _visible(m)
            for m in members
        ]

    def _seen(self, name: str) -> Function:
        """Return a function as the other parts see it."""
        return self._named.get(name) or _visible(self.members[name])

    def _globals(self, functions: Sequence[Function], names: Mapping[str, str]) -> list[str]:
        """Return the globals and declarations that functions need."""
        module = self.module
        needed = _closure((name for f in functions for name in f.symbols), module)
        return [
            *(str(g.renamed(names)) for name, g in module.globals.items() if name in needed),
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


def _renamed(function: Function, names: Mapping[str, str]) -> Function:
    """Return a function with other names for what it refers to, which is few of many."""
    if names.keys().isdisjoint(function.symbols):
        return function
    return function.renamed(names, {})


def _visible(m: _Member) -> Function:
    """Return a function as one that other parts may call."""
    if not m.is_internal:
        return m.function
    return m.function.replace(linkage="", visibility="hidden")
