"""Straight code: values, and integer arithmetic, of which known numbers are done here."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hlo.codegen.llvm.module import PLACE_MARK, Module
from hlo.codegen.llvm.values import FALSE, TRUE, Index, Operand, Val
from hlo.errors import Span


class Writer:
    """Writes the lines of one function.

    Values made through `op` are numbered by scope: asking again for the same operation on the same
    operands returns the first value, as long as its block dominates.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self._next = 0
        self._scopes: list[dict[Hashable, Any]] = [{}]
        self._entry_allocas: list[str] = []
        # Their addresses.
        self.allocated: set[str] = set()
        self._place: Span | None = None
        # What index values were made from: a product (x, n) by its name, x's own quotient (m, n) by
        # (x, n), a remainder (m, n) by its name.
        self._products: dict[str, tuple[str, int]] = {}
        self._quotients: dict[tuple[str, int], tuple[str, int]] = {}
        self._remainders: dict[str, tuple[str, int]] = {}

    def locate(self, span: Span | None) -> Span | None:
        """Say which HLO the following code is for; returns what that was before.

        It is said in comments, which `hlo.objects.metadata` turns into debug information.
        """
        before = self._place
        if self.module.is_located and span is not None and span is not before:
            self._place = span
            line, column = span.source.line_column(span.start)
            self.lines.append(f"{PLACE_MARK}{line} {column}")
        return before

    # --- values ---------------------------------------------------------------------------------

    def fresh(self) -> str:
        """Return an unused value name."""
        self._next += 1
        return f"%v{self._next}"

    def op(self, type_: str, text: str) -> Val:
        """Write a pure operation, or return the value it already has in this scope."""
        found = self.remembered(text)
        if found is not None:
            return found
        value = Val(type_, self.fresh())
        self.lines.append(f"  {value.name} = {text}")
        self.remember(text, value)
        return value

    def remembered(self, key: Hashable) -> Any:
        """Return what `remember` stored under a key in a scope that is still open, or None."""
        for scope in reversed(self._scopes):
            found = scope.get(key)
            if found is not None:
                return found
        return None

    def remember(self, key: Hashable, value: Any) -> None:
        """Keep a value for as long as the present scope is open."""
        self._scopes[-1][key] = value

    def effect(self, type_: str, text: str) -> Val:
        """Write an operation that must not be merged with an equal one (loads, calls)."""
        value = Val(type_, self.fresh())
        self.lines.append(f"  {value.name} = {text}")
        return value

    def write(self, text: str) -> None:
        """Write a line that has no value."""
        self.lines.append("  " + text)

    def alloca(self, type_: str, count: int = 1, align: int = 0, name: str = "") -> Val:
        """Reserve stack memory for the whole function; returns its address.

        name: of a value that was used already, for memory whose size is known late.
        """
        name = name or self.fresh()
        note = f", align {align}" if align else ""
        size = f", i64 {count}" if count != 1 else ""
        self._entry_allocas.append(f"  {name} = alloca {type_}{size}{note}")
        self.allocated.add(name)
        return Val("ptr", name)

    def intrinsic(self, name: str, type_: str, args: Sequence[Val]) -> Val:
        """Call a pure LLVM intrinsic overloaded on its result type."""
        full = f"llvm.{name}"
        self.module.declare(full, type_, [a.type for a in args])
        return self.op(type_, f"call {type_} @{full}({', '.join(map(str, args))})")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values made inside are not reused outside."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def unremembered(self) -> Iterator[None]:
        """Values made inside are not reused outside, nor those of outside inside."""
        kept = self._scopes
        self._scopes = [{}]
        try:
            yield
        finally:
            self._scopes = kept

    # --- instructions ---------------------------------------------------------------------------

    def binary(self, opcode: str, x: Val, y: Operand, flags: str = "") -> Val:
        """Write an operation on two values of a type: `fadd`, `lshr`, ... flags: `nsw`."""
        how = f"{opcode} {flags}" if flags else opcode
        return self.op(x.type, f"{how} {x}, {_name(y)}")

    def unary(self, opcode: str, x: Val) -> Val:
        """Write `fneg` or `freeze`."""
        return self.op(x.type, f"{opcode} {x}")

    def icmp(self, predicate: str, x: Val, y: Operand) -> Val:
        """Compare integers or addresses: `eq`, `ult`, `slt`, ..."""
        return self.op(_truth(x.type), f"icmp {predicate} {x}, {_name(y)}")

    def fcmp(self, predicate: str, x: Val, y: Operand) -> Val:
        """Compare floats: `oeq`, `uno`, ..."""
        return self.op(_truth(x.type), f"fcmp {predicate} {x}, {_name(y)}")

    def cast(self, opcode: str, x: Val, type_: str) -> Val:
        """Convert to a type by `zext`, `fptrunc`, `bitcast`, ..."""
        return self.op(type_, f"{opcode} {x} to {type_}")

    def extract_element(self, vector: Val, lane: Index) -> Val:
        return self.op(element_type(vector.type), f"extractelement {vector}, i64 {lane}")

    def insert_element(self, vector: Val, value: Val, lane: Index) -> Val:
        return self.op(vector.type, f"insertelement {vector}, {value}, i64 {lane}")

    def shuffle_vector(self, x: Val, y: Val, mask: Sequence[int]) -> Val:
        """Return the vector of these lanes of x and y, which count on from x."""
        shown = ", ".join(f"i32 {i}" for i in mask)
        return self.op(
            f"<{len(mask)} x {element_type(x.type)}>",
            f"shufflevector {x}, {y}, <{len(mask)} x i32> <{shown}>",
        )

    def splat(self, value: Val, lanes: int) -> Val:
        """Return a vector with the value in every lane."""
        none = Val(f"<{lanes} x {value.type}>", "poison")
        first = self.insert_element(none, value, 0)
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.op(none.type, f"shufflevector {first}, {none}, {zeros}")

    def load(
        self, type_: str, address: str, align: int = 0, *, is_invariant: bool = False,
        is_constant: bool = False,
    ) -> Val:  # fmt: skip
        """Load a value. align: of the address, in bytes, if it is not the type's own.

        is_invariant: it does not change while the program runs. is_constant: it never does, and an
        equal load that was written before has it.
        """
        note = f", align {align}" if align else ""
        note += ", !invariant.load !{}" if is_invariant else ""
        text = f"load {type_}, ptr {address}{note}"
        return self.op(type_, text) if is_constant else self.effect(type_, text)

    def store(self, value: Val, address: str, align: int = 0) -> None:
        """Store a value. align: of the address, in bytes, if it is not the type's own."""
        self.write(f"store {value}, ptr {address}" + (f", align {align}" if align else ""))

    def call(self, function: str, args: Sequence[Val], type_: str) -> Val:
        """Call a function, which may have effects; returns its result."""
        return self.effect(type_, f"call {type_} @{function}({', '.join(map(str, args))})")

    def call_void(self, function: str, args: Sequence[Val]) -> None:
        """Call a function without a result."""
        self.write(f"call void @{function}({', '.join(map(str, args))})")

    def ret(self, value: Val | None = None) -> None:
        """End the function."""
        self.write(f"ret {value}" if value is not None else "ret void")

    def branch(self, condition: Val, yes: str, no: str) -> None:
        """End the block: go on at one of two."""
        self.write(f"br {condition}, label %{yes}, label %{no}")

    def switch(self, value: Val, cases: Sequence[str], other: str) -> None:
        """End the block: go on at the block of the value's number, at `other` if it has none."""
        shown = " ".join(f"{value.type} {n}, label %{x}" for n, x in enumerate(cases))
        self.write(f"switch {value}, label %{other} [ {shown} ]")

    # --- index arithmetic -----------------------------------------------------------------------

    def add(self, a: Index, b: Index) -> Index:
        """Return a + b without overflow."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        if isinstance(a, int):
            a, b = b, a
        # (m / n) * n + m % n == m: a merged loop's index is put together again.
        if isinstance(a, str) and isinstance(b, str):
            whole = self._quotients.get(self._products.get(a, ("", 0)))
            if whole is not None and self._remainders.get(b) == whole:
                return whole[0]
        return self.op("i64", f"add nsw i64 {a}, {b}").name

    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(b, int):
            return self.add(a, -b)
        return self.op("i64", f"sub nsw i64 {a}, {b}").name

    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        if b == 1:
            return a
        if isinstance(a, int):
            a, b = b, a
        name = self.op("i64", f"mul nsw i64 {a}, {b}").name
        if isinstance(a, str) and isinstance(b, int):
            self._products[name] = (a, b)
        return name

    def udiv(self, a: Index, b: int) -> Index:
        """Return a // b for a >= 0 and a known b > 0."""
        if b == 1:
            return a
        if isinstance(a, int):
            return a // b
        name = self.op("i64", f"udiv i64 {a}, {b}").name
        self._quotients[name, b] = (a, b)
        return name

    def urem(self, a: Index, b: int) -> Index:
        """Return a % b for a >= 0 and a known b > 0."""
        if b == 1:
            return 0
        if isinstance(a, int):
            return a % b
        name = self.op("i64", f"urem i64 {a}, {b}").name
        self._remainders[name] = (a, b)
        return name

    def minimum(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.intrinsic("smin.i64", "i64", [Val("i64", str(a)), Val("i64", str(b))]).name

    def maximum(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.intrinsic("smax.i64", "i64", [Val("i64", str(a)), Val("i64", str(b))]).name

    def compare(self, predicate: str, a: Index, b: Index) -> Val:
        """Return the i1 of an integer comparison (`slt`, `eq`, `ult`, ...)."""
        if isinstance(a, int) and isinstance(b, int):
            known = {
                "eq": a == b, "ne": a != b,
                "slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b,
            }  # fmt: skip
            if predicate in known:
                return TRUE if known[predicate] else FALSE
        return self.op("i1", f"icmp {predicate} i64 {a}, {b}")

    def both(self, a: Val, b: Val) -> Val:
        """Return a and b."""
        if a is TRUE or b is FALSE or a == TRUE:
            return b
        if b is TRUE or a is FALSE or b == TRUE:
            return a
        return self.op("i1", f"and i1 {a.name}, {b.name}")

    def select(self, condition: Val, yes: Val, no: Val) -> Val:
        if condition == TRUE or yes == no:
            return yes
        if condition == FALSE:
            return no
        return self.op(yes.type, f"select i1 {condition.name}, {yes}, {no}")

    # --- memory ---------------------------------------------------------------------------------

    def address(self, base: str, offset: int) -> str:
        """Return the address so many bytes after a base."""
        return self.effect("ptr", f"getelementptr inbounds i8, ptr {base}, i64 {offset}").name

    def element_address(self, base: str, type_: str, index: Index, width: int = 64) -> str:
        """Return the address of element `index` of an array of `type_` at `base`.

        width: of the index, in bits.
        """
        if index == 0:
            return base
        text = f"getelementptr inbounds {type_}, ptr {base}, i{width} {index}"
        return self.op("ptr", text).name

    def finish(self, header: str) -> str:
        """Return the whole function, given its `define ...` line without the brace."""
        return "\n".join([header + " {", "entry:", *self._entry_allocas, *self.lines, "}"])


def _name(operand: Operand) -> str | int:
    return operand.name if isinstance(operand, Val) else operand


def element_type(vector: str) -> str:
    """Return the type of a vector's elements."""
    return vector[vector.index(" x ") + 3 : -1]


def _truth(type_: str) -> str:
    """Return the type of a comparison's result."""
    return f"{type_[: type_.index(' x ')]} x i1>" if type_.startswith("<") else "i1"
