"""Values that LLVM knows nothing about."""

from __future__ import annotations

from hlo.llvm import Call


def hidden(value: str) -> Call:
    """Return the operation that leaves an `i64` as it is, in its register.

    It is code of 64-bit machines that has no instruction.
    """
    return Call("", "i64", 'asm "", "=r,0"', ("i64",), (value,))
