"""Loads and stores of neighbours in memory as one access of a vector.

A thread of a GPU reads and writes up to 16 bytes at a time, if their address is a multiple of their
size. Kernels are written element by element; the address of each says how far it is from others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hlo.codegen.llvm.alignment import WIDEST
from hlo.llvm import (
    AtomicUpdate,
    Branch,
    Call,
    ExtractElement,
    Fence,
    Function,
    GetElementPtr,
    InsertElement,
    Instruction,
    Line,
    LlvmModule,
    Load,
    Location,
    Operation,
    Return,
    Store,
    Switch,
    Unary,
    byte_size,
    pointer_type,
    vector_type,
)

# What vectors may consist of.
_TYPES = frozenset({"i8", "i16", "i32", "i64", "half", "bfloat", "float", "double"})
# Accesses that are compared with one another, at the most.
_MOST = 512
# Operations that access memory, compute addresses or end blocks.
_TELLING = frozenset(
    {AtomicUpdate, Branch, Call, Fence, GetElementPtr, Load, Return, Store, Switch}
)
# Intrinsics that access memory unless they say that they do not.
_ACCESSING = ("llvm.nvvm.", "llvm.amdgcn.", "llvm.mem")


class _Place(NamedTuple):
    """An address: so many bytes after one that others have in common, in an array."""

    root: str
    offset: int
    array: str


@dataclass(eq=False)
class _Access:
    """A load or a store on a line. now: the line to which it has been moved."""

    line: int
    now: int
    operation: Load | Store
    place: _Place

    @property
    def size(self) -> int:
        return byte_size(self.operation.type)

    @property
    def align(self) -> int:
        return self.operation.align or self.size

    @property
    def address(self) -> str:
        return self.operation.operands[-1]

    def may_meet(self, other: _Access, alone: Collection[str]) -> bool:
        """Return whether the two may be to the same bytes. alone: see `_Rewriter`."""
        (root, offset, array), there = self.place, other.place
        if root == there.root:
            return offset < there.offset + other.size and there.offset < offset + self.size
        spaces = self.operation.space, other.operation.space
        if spaces[0] != spaces[1]:
            return not all(spaces)
        return array == there.array or not (array in alone or there.array in alone)


def with_vector_accesses(function: Function, module: LlvmModule) -> list[Line]:
    """Return a function's body with neighbours loaded and stored together, where they are aligned.

    module: the function's.
    """
    alone = [name for name, said in function.named_parameters.items() if "noalias" in said]
    return _Rewriter(function.body, frozenset(alone), module).rewritten()


class _Rewriter:
    """Rewrites lines. alone: addresses of arrays to whose elements no other address leads."""

    def __init__(self, lines: Sequence[Line], alone: Collection[str], module: LlvmModule) -> None:
        self._lines, self._alone, self._module = lines, alone, module
        # Addresses that are not their own root, and the first of those that are computed alike.
        self._places: dict[str, _Place] = {}
        self._roots: dict[tuple[str, ...], str] = {}
        # What becomes of a line that does not stay as it is.
        self._new: dict[int, list[Line]] = {}
        self._vectors = 0

    def rewritten(self) -> list[Line]:
        run: list[_Access] = []
        for at, line in enumerate(self._lines):
            if type(line) is Location:
                continue
            if type(line) is Instruction:
                operation = line.operation
                if type(operation) not in _TELLING:
                    continue
                if type(operation) is GetElementPtr:
                    self._places[line.result] = self._after(line.result, operation)
                if type(operation) is Load or type(operation) is Store:
                    place = self._place(operation.operands[-1])
                    run.append(_Access(at, at, operation, place))
                    if len(run) < _MOST:
                        continue
                elif not self._may_access(operation):
                    continue
            self._join(run)
            run = []
        self._join(run)
        found: list[Line] = []
        for at, line in enumerate(self._lines):
            found += self._new.get(at, (line,))
        return found

    # --- addresses --------------------------------------------------------------------------------

    def _place(self, address: str) -> _Place:
        return self._places.get(address) or _Place(address, 0, address)

    def _after(self, name: str, operation: GetElementPtr) -> _Place:
        base, *indices = operation.operands
        root, offset, array = self._place(base)
        size = byte_size(operation.type)
        if len(indices) == 1 and size and indices[0].lstrip("-").isdigit():
            return _Place(root, offset + int(indices[0]) * size, array)
        key = operation.type, *operation.types, root, str(offset), *indices
        return _Place(self._roots.setdefault(key, name), 0, array)

    def _may_access(self, operation: Operation) -> bool:
        """Return whether what is not a load or a store may access memory, or ends a block."""
        if type(operation) is not Call:
            return type(operation) is not GetElementPtr
        callee = operation.callee
        if callee in self._module.functions:
            return "memory(none)" not in self._module.functions[callee].attributes
        if callee.startswith(_ACCESSING):
            return "memory(none)" not in self._module.declarations[callee]
        return not callee.startswith("llvm.")

    # --- vectors ----------------------------------------------------------------------------------

    def _join(self, run: Sequence[_Access]) -> None:
        """Join accesses between which nothing else accesses memory."""
        if len(run) < 2:
            return
        for kind in (Load, Store):
            alike: dict[tuple[object, ...], dict[int, _Access]] = {}
            for access in run:
                type_, _, _, *others = access.operation
                if type(access.operation) is kind and type_ in _TYPES:
                    # What else is said of it is equal for all of a vector.
                    key = access.place.root, type_, *others
                    alike.setdefault(key, {}).setdefault(access.place.offset, access)
            for accesses in alike.values():
                for group in _groups(accesses):
                    if kind is Load:
                        self._load(group, run)
                    else:
                        self._store(group, run)

    def _load(self, group: Sequence[_Access], run: Sequence[_Access]) -> None:
        """Load neighbours where the first of them is loaded, unless stores are in the way."""
        first = min(group, key=lambda x: x.line)
        for store in run:
            if type(store.operation) is Store and any(
                first.line < store.line < x.line and store.may_meet(x, self._alone) for x in group
            ):
                return
        leader, type_ = group[0], first.operation.type
        vector = vector_type(len(group), type_)
        loaded, name = self._name(), self._name()
        address, lines = leader.address, list[Line]()
        if leader is not first:
            # The leader's own address may come later.
            address = self._name()
            types = pointer_type(leader.operation.space), "i64"
            distance = str(leader.place.offset - first.place.offset)
            operands = first.address, distance
            lines.append(Instruction(address, GetElementPtr("", "i8", types, operands)))
        width = leader.size * len(group)
        load = leader.operation._replace(type=vector, operands=(address,), align=width)
        # LLVM makes loads of elements of a vector of which nothing but elements are used.
        lines += [Instruction(loaded, load), Instruction(name, Unary("freeze", vector, (loaded,)))]
        for lane, access in enumerate(group):
            line = self._lines[access.line]
            assert isinstance(line, Instruction)
            lines.append(Instruction(line.result, ExtractElement(vector, (name, str(lane)))))
            self._new[access.line], access.now = [], first.line
        self._new[first.line] = [*lines]

    def _store(self, group: Sequence[_Access], run: Sequence[_Access]) -> None:
        """Store neighbours where the last of them is stored, unless others are in the way."""
        last = max(group, key=lambda x: x.line)
        for other in run:
            if (
                other not in group
                and other.now <= last.line
                and any(x.line < other.line and other.may_meet(x, self._alone) for x in group)
            ):
                return
        leader, type_ = group[0], last.operation.type
        vector = vector_type(len(group), type_)
        lines: list[Line] = []
        whole = "poison"
        for lane, access in enumerate(group):
            name = self._name()
            operands = whole, access.operation.operands[0], str(lane)
            lines.append(Instruction(name, InsertElement(vector, type_, operands)))
            whole = name
            self._new[access.line], access.now = [], last.line
        store = leader.operation._replace(
            type=vector, operands=(whole, leader.address), align=leader.size * len(group)
        )
        self._new[last.line] = [*lines, Instruction("", store)]

    def _name(self) -> str:
        self._vectors += 1
        return f"%vector.{self._vectors}"


def _groups(accesses: Mapping[int, _Access]) -> Iterator[list[_Access]]:
    """Yield the accesses of each vector. accesses: of one type, by their bytes from a root."""
    left = dict(sorted(accesses.items()))
    while left:
        start, leader = next(iter(left.items()))
        size, number = leader.size, WIDEST // leader.size
        while number > 1 and not (
            leader.align >= number * size and all(start + n * size in left for n in range(number))
        ):
            number //= 2
        group = [left.pop(start + n * size) for n in range(number)]
        if number > 1:
            yield group
