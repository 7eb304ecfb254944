"""Straight code: values and the instructions that make them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hlo.codegen.llvm.module import ModuleBuilder
from hlo.codegen.llvm.values import FALSE, TRUE, Index, Operand, Val
from hlo.errors import Span
from hlo.llvm import (
    Alloca,
    AtomicUpdate,
    Binary,
    Branch,
    Call,
    Cast,
    Compare,
    ExtractElement,
    ExtractValue,
    InsertElement,
    Instruction,
    Line,
    Load,
    Location,
    LoopMetadata,
    Operation,
    Return,
    Select,
    ShuffleVector,
    Store,
    Switch,
    Unary,
    VectorType,
    as_vector,
    overload,
    vector_type,
)


@dataclass(frozen=True)
class LoopChoice:
    """A loop over vectors, and the loop over elements that it was made of."""

    vectors: Sequence[Line]
    elements: Sequence[Line]


class Writer:
    """Writes the instructions of one function.

    Values made through `op` are numbered by scope: asking again for the same operation on the same
    operands returns the first value, as long as its block dominates.
    """

    def __init__(self, module: ModuleBuilder) -> None:
        self.module = module
        self.lines: list[Line | LoopChoice] = []
        self._next = 0
        # What open scopes remember, and in order of writing, what each key stood for before: one
        # look finds a value, however deep scopes are nested.
        self._known: dict[Hashable, Any] = {}
        self._before: list[tuple[Hashable, Any]] = []
        self._entry: list[Line | LoopChoice] = []
        # The addresses of the function's own memory.
        self.allocated: set[str] = set()
        # The addresses that others were computed from.
        self.bases: dict[str, str] = {}
        self._place: Span | None = None

    def locate(self, span: Span | None) -> Span | None:
        """Say which HLO the following code is for; returns what that was before.

        `hlo.objects.metadata` makes debug information of it.
        """
        before = self._place
        if self.module.is_located and span is not None and span is not before:
            self._place = span
            line, column = span.source.line_column(span.start)
            self.lines.append(Location(line, column))
        return before

    # --- values ---------------------------------------------------------------------------------

    def fresh(self) -> str:
        """Return an unused value name."""
        self._next += 1
        return f"%v{self._next}"

    def op(self, type_: str, operation: Operation) -> Val:
        """Write a pure operation, or return the value it already has in this scope."""
        found: Val | None = self._known.get(operation)
        if found is not None:
            return found
        value = self._known[operation] = self.effect(type_, operation)
        self._before.append((operation, None))
        return value

    def remembered(self, key: Hashable) -> Any:
        """Return what `remember` stored under a key in a scope that is still open, or None."""
        return self._known.get(key)

    def remember(self, key: Hashable, value: Any) -> None:
        """Keep a value for as long as the present scope is open."""
        self._before.append((key, self._known.get(key)))
        self._known[key] = value

    def effect(self, type_: str, operation: Operation) -> Val:
        """Write an operation that must not be merged with an equal one (loads, calls)."""
        value = Val(type_, self.fresh())
        self.lines.append(Instruction(value.name, operation))
        return value

    def write(self, operation: Operation) -> None:
        """Write an operation that has no value."""
        self.lines.append(Instruction("", operation))

    def alloca(self, type_: str, count: int = 1, align: int = 0, name: str = "") -> Val:
        """Reserve stack memory for the whole function; returns its address.

        name: of a value that was used already, for memory whose size is known late.
        """
        name = name or self.fresh()
        space, own = self.module.stack_space, name
        if space:
            own = self.fresh()
        self._entry.append(Instruction(own, Alloca(type_, count, align, space)))
        if space:
            generic = Cast("addrspacecast", f"ptr addrspace({space})", "ptr", (own,))
            self._entry.append(Instruction(name, generic))
        self.allocated.add(name)
        return Val("ptr", name)

    def converted(self, type_: str, address: str) -> str:
        """Return a global's address of another address space as a generic one, for the whole
        function."""
        name = self.fresh()
        self._entry.append(Instruction(name, Cast("addrspacecast", type_, "ptr", (address,))))
        return name

    def intrinsic(
        self, name: str, type_: str, args: Sequence[Val], others: Sequence[str] = ()
    ) -> Val:
        """Call a pure LLVM intrinsic overloaded on its result type, then on `others`."""
        types, operands = tuple([a.type for a in args]), tuple([a.name for a in args])
        overloads = tuple(map(overload, (type_, *others)))
        operation = Call("", type_, f"@llvm.{name}", types, operands, overloads)
        self.module.declare(operation.callee, type_, types)
        return self.op(type_, operation)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values made inside are not reused outside."""
        opening = len(self._before)
        try:
            yield
        finally:
            while len(self._before) > opening:
                key, value = self._before.pop()
                if value is None:
                    del self._known[key]
                else:
                    self._known[key] = value

    @contextmanager
    def unremembered(self) -> Iterator[None]:
        """Values made inside are not reused outside, nor those of outside inside."""
        kept = self._known, self._before
        self._known, self._before = {}, []
        try:
            yield
        finally:
            self._known, self._before = kept

    # --- instructions ---------------------------------------------------------------------------

    def binary(self, opcode: str, x: Val, y: Operand, flags: str = "") -> Val:
        """Write an operation on two values of a type: `fadd`, `lshr`, ... flags: `nsw`, ..."""
        if flags and self.module.is_strict:
            flags = flags.replace("contract", "").strip()
        return self.op(x.type, Binary(opcode, flags, x.type, (x.name, _name(y))))

    def unary(self, opcode: str, x: Val) -> Val:
        """Write `fneg` or `freeze`."""
        return self.op(x.type, Unary(opcode, x.type, (x.name,)))

    def icmp(self, predicate: str, x: Val, y: Operand) -> Val:
        """Compare integers or addresses: `eq`, `ult`, `slt`, ..."""
        return self.op(_truth(x.type), Compare("icmp", predicate, x.type, (x.name, _name(y))))

    def fcmp(self, predicate: str, x: Val, y: Operand) -> Val:
        """Compare floats: `oeq`, `uno`, ..."""
        return self.op(_truth(x.type), Compare("fcmp", predicate, x.type, (x.name, _name(y))))

    def cast(self, opcode: str, x: Val, type_: str) -> Val:
        """Convert to a type by `zext`, `fptrunc`, `bitcast`, ..."""
        return self.op(type_, Cast(opcode, x.type, type_, (x.name,)))

    def extract_element(self, vector: Val, lane: Index) -> Val:
        operands = (vector.name, str(lane))
        return self.op(as_vector(vector.type).element, ExtractElement(vector.type, operands))

    def extract_value(self, struct: Val, type_: str, number: int) -> Val:
        """Return the member of a struct that has a number and a type."""
        return self.op(type_, ExtractValue(struct.type, (struct.name,), number))

    def insert_element(self, vector: Val, value: Val, lane: Index) -> Val:
        operands = (vector.name, value.name, str(lane))
        return self.op(vector.type, InsertElement(vector.type, value.type, operands))

    def shuffle_vector(self, x: Val, y: Val, mask: Sequence[int]) -> Val:
        """Return the vector of these lanes of x and y, which count on from x."""
        type_ = vector_type(len(mask), as_vector(x.type).element)
        return self.op(type_, ShuffleVector(x.type, (x.name, y.name), len(mask), tuple(mask)))

    def splat(self, value: Val, lanes: int) -> Val:
        """Return a vector with the value in every lane."""
        none = Val(vector_type(lanes, value.type), "poison")
        first = self.insert_element(none, value, 0)
        return self.op(none.type, ShuffleVector(none.type, (first.name, none.name), lanes))

    def load(
        self, type_: str, address: str, align: int = 0, *, is_invariant: bool = False,
        is_constant: bool = False,
    ) -> Val:  # fmt: skip
        """Load a value. align: of the address, in bytes, if it is not the type's own.

        is_invariant: it does not change while the program runs. is_constant: it never does, and an
        equal load that was written before has it.
        """
        operation = Load(type_, (address,), align, is_invariant)
        return self.op(type_, operation) if is_constant else self.effect(type_, operation)

    def store(
        self, value: Val, address: str, align: int = 0, *, is_nontemporal: bool = False
    ) -> None:
        """Store a value. align: of the address, in bytes, if it is not the type's own.

        is_nontemporal: nobody reads it soon.
        """
        self.write(Store(value.type, (value.name, address), align, is_nontemporal))

    def atomic_update(self, opcode: str, value: Val, address: str, scope: str) -> Val:
        """Combine a value with what memory holds, at once; returns what it held before.

        scope: of the threads that see it as one operation, by LLVM's name.
        """
        operation = AtomicUpdate(opcode, value.type, (value.name, address), scope)
        return self.effect(value.type, operation)

    def call(self, function: str, args: Sequence[Val], type_: str) -> Val:
        """Call a function, which may have effects; returns its result."""
        return self.effect(type_, call(type_, function, args))

    def call_address(self, function: Val, args: Sequence[Val], type_: str) -> Val:
        """Call the function at an address, which may have effects; returns its result."""
        types, operands = tuple([a.type for a in args]), tuple([a.name for a in args])
        return self.effect(type_, Call("", type_, function.name, types, operands))

    def call_void_address(self, function: Val, args: Sequence[Val]) -> None:
        """Call the function at an address, which has no result."""
        types, operands = tuple([a.type for a in args]), tuple([a.name for a in args])
        self.write(Call("", "void", function.name, types, operands))

    def call_void(self, function: str, args: Sequence[Val]) -> None:
        """Call a function without a result."""
        self.write(call("void", function, args))

    def ret(self, value: Val | None = None) -> None:
        """End the function."""
        self.write(Return("void", ()) if value is None else Return(value.type, (value.name,)))

    def jump(self, label: str, loop: LoopMetadata | None = None) -> None:
        """End the block: go on at another. loop: metadata of the loop of which it is the end."""
        self.write(Branch((), (label,), loop))

    def branch(self, condition: Val, yes: str, no: str) -> None:
        """End the block: go on at one of two."""
        self.write(Branch((condition.name,), (yes, no)))

    def switch(self, value: Val, cases: Sequence[str], other: str) -> None:
        """End the block: go on at the block of the value's number, at `other` if it has none."""
        self.write(Switch(value.type, (value.name,), (*cases, other)))

    # --- conditions -----------------------------------------------------------------------------

    def both(self, a: Val, b: Val) -> Val:
        """Return a and b."""
        if a is TRUE or b is FALSE or a == TRUE:
            return b
        if b is TRUE or a is FALSE or b == TRUE:
            return a
        return self.binary("and", a, b)

    def select(self, condition: Val, yes: Val, no: Val) -> Val:
        if condition == TRUE or yes == no:
            return yes
        if condition == FALSE:
            return no
        operands = (condition.name, yes.name, no.name)
        return self.op(yes.type, Select("i1", yes.type, operands))


def call(type_: str, function: str, args: Sequence[Val]) -> Call:
    """Return the call of a function by its name."""
    types, operands = tuple([a.type for a in args]), tuple([a.name for a in args])
    return Call("", type_, f"@{function}", types, operands)


def _name(operand: Operand) -> str:
    return operand.name if isinstance(operand, Val) else str(operand)


def _truth(type_: str) -> str:
    """Return the type of a comparison's result."""
    return vector_type(type_.lanes, "i1") if isinstance(type_, VectorType) else "i1"
