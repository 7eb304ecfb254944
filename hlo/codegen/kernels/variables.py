"""Variables of emitted code: on the stack, from where LLVM takes them into registers."""

from __future__ import annotations

from hlo.codegen.llvm import Builder, Index, Val, i64


class Variable:
    """An i64 that changes."""

    def __init__(self, b: Builder, value: Index | None = None) -> None:
        self.b = b
        self._slot = b.alloca("i64").name
        if value is not None:
            self.set(value)

    def get(self) -> str:
        """Return the present value."""
        return self.b.load("i64", self._slot).name

    def set(self, value: Index) -> None:
        self.b.store(i64(value), self._slot)

    def add(self, by: Index) -> None:
        self.set(self.b.add(self.get(), by))


def chosen(b: Builder, condition: Val, yes: Index, no: Index) -> Index:
    """Return one of two indices."""
    return b.select(condition, Val("i64", str(yes)), Val("i64", str(no))).name


def as_index(b: Builder, value: Val) -> Index:
    """Return an unsigned integer as an index."""
    return value.name if value.type == "i64" else b.cast("zext", value, "i64").name
