"""The optimization level of each function of a module of LLVM IR, and who has to stay together.

Loops that LLVM has to vectorize need the whole pipeline. Code that is emitted in final form, with
every innermost loop marked as not to be vectorized, needs a few clean-up passes, and fewer in
functions that are written by hand, such as microkernels. Straight-line code that runs once per call
needs none, nor does code whose loops only call functions with loops of their own. A function stays
with its callers if it may be inlined, or if it has a single caller that LLVM can use for
interprocedural analysis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from hlo.llvm import Compiled, Function, LlvmModule


class Effort(Enum):
    """Optimization level of a function."""

    NONE = "none"
    FINAL = "final"
    CLEAN = "clean"
    VECTORIZE = "vectorize"


_WEIGHT = {Effort.NONE: 0, Effort.FINAL: 1, Effort.CLEAN: 1, Effort.VECTORIZE: 5}


@dataclass
class Member:
    """A function of the module that is split. uses: the other functions that it names.

    calls: those of them that are compiled already.
    """

    function: Function
    order: int
    uses: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
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

    @property
    def is_kept(self) -> bool:
        """True when other modules may find it by its origin.

        Whether a function without loops is repeated, its callers say.
        """
        return self.function.origin is not None and self.has_loops

    @cached_property
    def length(self) -> int:
        """Characters of its text."""
        return len(self.function.text) - self.added

    @property
    def size(self) -> int:
        return self.length * _WEIGHT[self.effort]


Group = list[Member]


def members_of(module: LlvmModule) -> dict[str, Member]:
    """Return the functions of a module by name, each with its optimization level."""
    members = {f.name: Member(f, n) for n, f in enumerate(module.functions.values())}
    for name, added in module.added.items():
        members[name].added = added
    for member in members.values():
        named = closure(member.function.symbols, module)
        member.uses = (named & members.keys()) - {member.name}
        member.calls = named & module.compiled.keys()
    _judge(members, module.compiled)
    return members


def closure(symbols: Iterable[str], module: LlvmModule) -> set[str]:
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


def _judge(members: dict[str, Member], compiled: Mapping[str, Compiled]) -> None:
    """Choose the optimization level of each function."""
    repeating = {name for name, known in compiled.items() if known.has_loops}
    repeating.update([name for name, m in members.items() if m.has_loops])
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
            runs_often = m.name in repeated and "optnone" not in m.function.attributes
            m.effort = final if runs_often else Effort.NONE
        if not _drives(m, repeating):
            continue
        if m.is_internal and m.is_apart:
            if m.has_loops and (m.function.is_general or m.function.is_light):
                m.is_driver = True
                attributes = [a for a in m.function.attributes if a != "noinline"]
                m.function = m.function.replace(attributes=("noinline", "optnone", *attributes))
            else:
                m.effort = Effort.NONE
        elif not m.is_internal and not m.function.is_light:
            m.effort = Effort.NONE


def _drives(m: Member, repeating: set[str]) -> bool:
    """True when a function spends its time in callees: each innermost loop calls one with loops.

    repeating: the functions with loops.

    Optimizing the loops around a microkernel takes LLVM longer than the microkernel itself,
    mostly for strength reduction. Where they are not light, values need not be in registers.
    """
    called = m.uses | m.calls
    loops = [called & m.function.symbols_in(loop) for loop in m.function.innermost_loops]
    return all(not names.isdisjoint(repeating) for names in loops or [called])


def groups_of(members: dict[str, Member], effort: Effort) -> list[Group]:
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
