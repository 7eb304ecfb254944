"""Values that a loop changes: on the stack, from where LLVM takes them into registers."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.codegen.llvm import Builder, Val
from hlo.codegen.scalar.operations import Cplx, Value


class Held:
    """Values that change."""

    def __init__(self, b: Builder, values: Sequence[Value]) -> None:
        self._b = b
        self._slots = [[b.alloca(part.type) for part in _parts(value)] for value in values]
        self._types = [[part.type for part in _parts(value)] for value in values]
        self.set(values)

    def set(self, values: Sequence[Value]) -> None:
        for slots, value in zip(self._slots, values, strict=True):
            for slot, part in zip(slots, _parts(value), strict=True):
                self._b.store(part, slot.name)

    def get(self) -> list[Value]:
        """Return the present values."""
        found: list[Value] = []
        for slots, types in zip(self._slots, self._types, strict=True):
            parts = [self._b.load(t, s.name) for s, t in zip(slots, types, strict=True)]
            found.append(Cplx(*parts) if len(parts) == 2 else parts[0])
        return found


def _parts(value: Value) -> list[Val]:
    return [value.re, value.im] if isinstance(value, Cplx) else [value]
