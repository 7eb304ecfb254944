"""Where the functions of loaded object files are in memory, so that `perf` can name them.

The loader tells the addresses of exported functions only, and kernels are not exported: that would
change how they are compiled. So the machine code of each section is looked up in the executable
memory of this process, without the places that relocations fill in. Linux on 64-bit processors.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOLS, _RELOCATIONS = 2, 4
_FUNCTION, _EXECUTABLE = 2, 4
# A relocation fills in at most so many bytes.
_FILLED = 8
# The part of a section that is looked for first has at most so many bytes.
_KEY_BYTES = 64


@dataclass
class _Code:
    """A section of machine code: its bytes, its functions, and where relocations are."""

    data: bytes
    functions: list[tuple[int, int, str]] = field(default_factory=list)
    relocations: list[int] = field(default_factory=list)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield what no relocation changes, each piece with its offset."""
        at = 0
        for place in sorted(self.relocations):
            if place > at:
                yield at, self.data[at:place]
            at = max(at, place + _FILLED)
        if at < len(self.data):
            yield at, self.data[at:]

    def find(self, memory: bytes) -> Iterator[int]:
        """Yield the offsets in memory where this is."""
        pieces = list(self.pieces())
        if not pieces:
            return
        offset, longest = max(pieces, key=lambda piece: len(piece[1]))
        key = longest[:_KEY_BYTES]
        at = memory.find(key)
        while at >= 0:
            start = at - offset
            if start >= 0 and all(memory.startswith(p, start + o) for o, p in pieces):
                yield start
            at = memory.find(key, at + 1)


def native_symbols(objects: Sequence[bytes], near: int) -> list[tuple[int, int, str]]:
    """Return address, size and name of each function of loaded object files, by address.

    near: the address of one of them. Object files are loaded close to each other, and equal ones of
    other programs elsewhere. Those of files that are not ELF files of 64 bits, and of other
    systems, are not found.
    """
    sections = [code for data in objects for code in _sections(data) if code.functions]
    places: list[list[int]] = [[] for _ in sections]
    for start, memory in _executable_memory():
        for code, known in zip(sections, places, strict=True):
            known += [start + at for at in code.find(memory)]
    found = [
        (start + offset, size, name)
        for code, known in zip(sections, places, strict=True) if known
        for start in [min(known, key=lambda at: abs(at - near))]
        for offset, size, name in code.functions
    ]  # fmt: skip
    return sorted(found)


def _executable_memory() -> Iterator[tuple[int, bytes]]:
    """Yield the executable memory of this process that no file is mapped to."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # another system
        return
    for line in lines:
        span, modes, _, _, inode, *_ = line.split()
        if modes.startswith("r-x") and inode == "0" and "[" not in line:
            start, end = (int(n, 16) for n in span.split("-"))
            yield start, ctypes.string_at(start, end - start)


def _sections(data: bytes) -> list[_Code]:
    """Return the sections of machine code of an object file."""
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    header = _HEADER.unpack_from(data)
    start, size, count = header[6], header[11], header[12]
    heads = [_SECTION.unpack_from(data, start + n * size) for n in range(count)]
    code = {
        n: _Code(data[h[4] : h[4] + h[5]])
        for n, h in enumerate(heads) if h[2] & _EXECUTABLE and h[5]
    }  # fmt: skip
    for head in heads:
        content, link, info = data[head[4] : head[4] + head[5]], head[6], head[7]
        if head[1] == _SYMBOLS:
            names = data[heads[link][4] :]
            for name, kind, _, section, value, length in _SYMBOL.iter_unpack(content):
                if kind & 15 == _FUNCTION and section in code:
                    text = names[name : names.index(b"\0", name)].decode()
                    code[section].functions.append((value, length, text))
        elif head[1] == _RELOCATIONS and info in code:
            code[info].relocations += [r[0] for r in _RELOCATION.iter_unpack(content)]
    return list(code.values())
