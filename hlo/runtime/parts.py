"""Splits a module of LLVM IR into parts that compile in parallel, each function at its own
optimization level (see `efforts.py`).

The parts depend on the module alone, so that equal modules give equal code on any number of
processors. Kernels, and functions that take long to compile, are apart, with no names of the module
in their text (see `canonical.py`): in all modules that have such functions the part is the same,
and its object code can be kept. Small ones have a part together: their symbols are weak, since the
same one may be in several.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hlo.llvm import Compiled, Function, LlvmModule, Origin
from hlo.runtime.canonical import canonical
from hlo.runtime.efforts import Effort, Group, Member, closure, groups_of, members_of

# Each part has an overhead of one or two milliseconds: this many characters of clean code take
# ten times that. Code to vectorize takes several times as long.
_PART_SIZE = 24_000
_MOST_PARTS = 16
# Code of this size, which takes three times the overhead, is apart; of functions that many modules
# have, code that takes as long as the overhead.
_APART_SIZE = 4_000
_GENERAL_SIZE = 1_000
# The fewest characters of code without optimization that are worth a part beside others.
_LEAST_STRAIGHT = 1_000


@dataclass(frozen=True)
class Part:
    """The content of one object file: modules, each for an optimization level, as text.

    names: those of its functions in the module that was split. is_shared: other modules may have
    the same part.
    """

    texts: tuple[tuple[Effort, str], ...]
    names: tuple[str, ...]
    is_shared: bool = False


@dataclass(eq=False)
class _Unit:
    """Functions that other modules may have, without names of the module that is split.

    calls: the units with what they call. compiled: the keys of object files with what was compiled
    before.
    """

    effort: Effort
    text: str
    names: tuple[str, ...]
    size: int
    calls: tuple[_Unit, ...]
    compiled: tuple[str, ...]


@dataclass(frozen=True)
class _Shared:
    """A function of a unit as those that call it see it."""

    function: Function
    unit: _Unit


@dataclass
class Division:
    """A module in parts, those that take longest first."""

    parts: Sequence[Part] = ()
    # The functions to be kept, and the parts that they are in.
    kept: list[_Shared] = field(default_factory=list)
    part_of: dict[_Unit, Part] = field(default_factory=dict)
    units_of: dict[Part, Sequence[_Unit]] = field(default_factory=dict)

    def compiled(self, keys: Mapping[Part, str]) -> Iterator[tuple[Origin, Compiled]]:
        """Yield the functions to be kept, as other modules may call them.

        keys: of the shared parts.
        """
        for shared in self.kept:
            f = shared.function
            assert f.origin is not None
            parts = tuple(self._needed(shared.unit, keys))
            has_loops = bool(f.innermost_loops)
            yield f.origin, Compiled(f.name, f.declaration, has_loops, f.origin.note, parts)

    def _needed(self, unit: _Unit, keys: Mapping[Part, str]) -> Iterable[str]:
        """Return the keys of the parts with a unit, and with all that is called in them."""
        found: dict[str, None] = {}
        stack = [unit]
        while stack:
            part = self.part_of[stack.pop()]
            if keys[part] not in found:
                found[keys[part]] = None
                for inside in self.units_of[part]:
                    stack += inside.calls
                    found.update(dict.fromkeys(inside.compiled))
        return found


def split(module: LlvmModule, *, keeps_names: bool = False) -> Division:
    """Return the parts of a module.

    keeps_names: functions have their names in all parts, so that no part is shared.
    """
    members = members_of(module)
    optimized = (Effort.FINAL, Effort.CLEAN, Effort.VECTORIZE)
    groups = [g for e in optimized for g in groups_of(members, e)]
    groups += [[m] for m in members.values() if m.effort is Effort.NONE and m.is_kept]
    apart = _Apart(groups, members, keeps_names=keeps_names).groups
    done = {m.name for g in apart for m in g}
    rest = [g for g in groups if g[0].name not in done]
    straight = [m for m in members.values() if m.effort is Effort.NONE and m.name not in done]
    if rest and sum(m.length for m in straight) < _LEAST_STRAIGHT:
        for m in straight:
            m.effort = Effort.CLEAN
        rest, straight = [*rest, *([m] for m in straight)], []
    bins = [[m for g in groups for m in g] for groups in _bins(rest, _size)]
    whole = _Whole(module, members)
    if keeps_names:
        bins = [*apart, *bins]
    else:
        for group in apart:
            whole.set_apart(group)
    division, shared = whole.divided()
    parts = [*shared, *((_size(b), whole.part(b)) for b in bins)]
    ordered = [part for _, part in sorted(parts, key=lambda found: -found[0])]
    # Code without optimization compiles quickly: it comes last.
    division.parts = [*ordered, *([whole.part(straight)] if straight else [])]
    return division


T = TypeVar("T")


def _bins(things: Sequence[T], size: Callable[[T], int]) -> list[list[T]]:
    """Return what is compiled together, each bin for about as long."""
    count = min(_MOST_PARTS, 1 + sum(map(size, things)) // _PART_SIZE)
    bins: list[list[T]] = [[] for _ in range(count)]
    sizes = [0] * count
    for thing in sorted(things, key=size, reverse=True):
        at = sizes.index(min(sizes))
        bins[at].append(thing)
        sizes[at] += size(thing)
    return [b for b in bins if b]


class _Apart:
    """The groups that are apart, what they use before them.

    These are the large ones, those to be kept unless names are, and all that they use, unless that
    is them again, or has a name that others know.
    """

    def __init__(
        self, groups: Sequence[Group], members: Mapping[str, Member], *, keeps_names: bool
    ) -> None:
        self.groups: list[Group] = []
        self._members = members
        self._group_of = {m.name: g for g in groups for m in g}
        # Whether all that a group uses is there, by its first function; False until that is known.
        self._is_found: dict[str, bool] = {}
        for group in groups:
            if _is_large(group) or (not keeps_names and any(m.is_kept for m in group)):
                self._find(group)

    def _find(self, group: Group) -> bool:
        key = group[0].name
        if key not in self._is_found:
            self._is_found[key] = False
            used = {n for m in group for n in m.uses} - {m.name for m in group}
            if all(m.is_internal for m in group) and all(
                [self._find(self._group_of.get(n, [self._members[n]])) for n in sorted(used)]
            ):
                self._is_found[key] = True
                self.groups.append(group)
        return self._is_found[key]


def _is_large(group: Group) -> bool:
    """True when compiling a group takes so long that it is worth a part of its own."""
    least = _GENERAL_SIZE if group[0].function.is_general else _APART_SIZE
    return sum(m.length for m in group) >= least


def _size(members: Iterable[Member]) -> int:
    return sum(m.size for m in members)


class _Whole:
    """The module that is split."""

    def __init__(self, module: LlvmModule, members: dict[str, Member]) -> None:
        self.module, self.members = module, members
        # What other modules may have, by its text, and the functions in it by the names that they
        # have here; those that were compiled before likewise.
        self._units: dict[str, _Unit] = {}
        self._shared: dict[str, _Shared] = {}
        self._known: dict[str, Function | Compiled] = {**module.compiled}
        self._large: set[_Unit] = set()
        self._users: dict[str, list[str]] = {}
        for m in members.values():
            for used in m.uses:
                self._users.setdefault(used, []).append(m.name)

    def set_apart(self, group: Group) -> None:
        """Make a group a unit without names of the module; those it uses are already apart."""
        ordered = sorted(group, key=lambda m: m.order)
        effort, names = group[0].effort, tuple(m.name for m in ordered)
        functions = self._linked(ordered, "weak_odr")
        found = canonical(self.module, functions, self._known, effort.value)
        # Functions that differ by their names only are one.
        unit = self._units.get(found.text)
        if unit is None:
            used = sorted({n for m in group for n in m.uses}.difference(names))
            compiled = [self.module.compiled[n].parts for m in ordered for n in sorted(m.calls)]
            unit = self._units[found.text] = _Unit(
                effort, found.text, names, _size(group),
                tuple(dict.fromkeys(self._shared[n].unit for n in used)),
                tuple(dict.fromkeys(key for keys in compiled for key in keys)),
            )  # fmt: skip
        if _is_large(group):
            self._large.add(unit)
        for f in functions:
            seen = self._known[f.name] = f.replace()
            seen.name = found.symbols[f.name]
            self._shared[f.name] = _Shared(seen, unit)

    def divided(self) -> tuple[Division, list[tuple[int, Part]]]:
        """Return the shared parts, each with its size, and what is in them for other modules.

        Large units are parts; small ones have one together.
        """
        small = [u for u in self._units.values() if u not in self._large]
        bins = [[unit] for unit in self._units.values() if unit in self._large]
        # Who needs one of them takes them all, and what they call.
        for is_straight, calls in itertools.product((False, True), repeat=2):
            bins += _bins(
                [
                    u for u in small
                    if (u.effort is Effort.NONE) is is_straight
                    and bool(u.calls or u.compiled) is calls
                ],
                lambda u: u.size,
            )  # fmt: skip
        division, parts = Division(), []
        for units in bins:
            texts = tuple((u.effort, u.text) for u in units)
            names = tuple(name for u in units for name in u.names)
            part = Part(texts, names, is_shared=True)
            parts.append((sum(u.size for u in units), part))
            division.part_of.update(dict.fromkeys(units, part))
            division.units_of[part] = units
        division.kept = [
            found
            for name, found in self._shared.items()
            if self.members[name].is_kept and found.function.linkage != "internal"
        ]
        return division, parts

    def part(self, members: Sequence[Member]) -> Part:
        """Return functions as a part that only this module has."""
        ordered = sorted(members, key=lambda m: m.order)
        efforts = ((e, [m for m in ordered if m.effort is e]) for e in Effort)
        texts = tuple((e, self._text(ms)) for e, ms in efforts if ms)
        return Part(texts, tuple(m.name for m in ordered))

    def _text(self, members: Sequence[Member]) -> str:
        """Return functions as a module, with declarations of those that they use of others."""
        functions = self._linked(members, "")
        names = {former: seen.name for former, seen in self._known.items()}
        named = {n for m in members for n in (*m.uses, *m.calls)}
        foreign = sorted(named - {m.name for m in members})
        declared = dict.fromkeys(self._seen(n).declaration for n in foreign)
        return "\n".join(
            [
                *self.module.header, *self._globals(functions, names), *self._metadata(functions),
                *declared, *(_renamed(f, names).text for f in functions), "",
            ]
        )  # fmt: skip

    def _linked(self, members: Sequence[Member], linkage: str) -> list[Function]:
        """Return functions as their own part has them: visible to the others that use them.

        linkage: of those.
        """
        inside = {m.name for m in members}
        return [
            m.function if inside.issuperset(self._users.get(m.name, ())) else _visible(m, linkage)
            for m in members
        ]

    def _seen(self, name: str) -> Function | Compiled:
        """Return a function as the other parts see it."""
        return self._known.get(name) or _visible(self.members[name], "")

    def _globals(self, functions: Sequence[Function], names: Mapping[str, str]) -> list[str]:
        """Return the globals and declarations that functions need."""
        module = self.module
        needed = closure((name for f in functions for name in f.symbols), module)
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


def _visible(m: Member, linkage: str) -> Function:
    """Return a function as one that other parts may call."""
    if not m.is_internal:
        return m.function
    return m.function.replace(linkage=linkage, visibility="hidden")
