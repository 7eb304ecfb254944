"""A linker from one WebAssembly object file to a module, since llvmlite includes none.

Source: the "WebAssembly Object File Linking" conventions of tool-conventions, and the core
specification's binary format. Functions, types and code keep their indices and offsets; data and
the stack get addresses, functions whose address is taken get a table entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hlo.errors import HloError

_START = b"\0asm\1\0\0\0"
_PAGE = 1 << 16
# The stack is below all data: an overflow traps instead of overwriting data.
_STACK_BYTES = 1 << 18
_CUSTOM, _TYPE, _IMPORT, _FUNCTION, _TABLE, _MEMORY, _GLOBAL, _EXPORT = range(8)
_ELEMENT, _CODE, _DATA, _DATA_COUNT = 9, 10, 11, 12
_ORDER = (
    _TYPE, _IMPORT, _FUNCTION, _TABLE, _MEMORY, _GLOBAL, _EXPORT, _ELEMENT, _DATA_COUNT, _CODE,
    _DATA,
)  # fmt: skip
_I32, _FUNCREF = b"\x7f", b"\x70"
# Kinds of imports and exports.
_IS_FUNCTION, _IS_TABLE, _IS_MEMORY, _IS_GLOBAL = range(4)
# Kinds and flags of symbols.
_FUNCTION_SYMBOL, _DATA_SYMBOL, _GLOBAL_SYMBOL, _SECTION_SYMBOL, _TAG_SYMBOL, _TABLE_SYMBOL = range(
    6
)
_UNDEFINED, _HAS_NAME = 0x10, 0x40
_SEGMENT_INFO, _SYMBOL_TABLE = 5, 8
# Relocations by their numbers: what they refer to, and how the number is written.
_RELOCATIONS = {
    0: ("index", "leb"), 1: ("table", "sleb"), 2: ("table", "i32"), 3: ("address", "leb"),
    4: ("address", "sleb"), 5: ("address", "i32"), 6: ("type", "leb"), 7: ("index", "leb"),
    8: ("offset", "i32"), 9: ("section", "i32"), 13: ("index", "i32"), 20: ("index", "leb"),
}  # fmt: skip
_HAS_ADDEND = {3, 4, 5, 8, 9}


def link_wasm(code: bytes, exports: Sequence[str]) -> bytes:
    """Return a module of an object file, with its own memory and no imports.

    exports: exported symbols; data as a global with its address. The memory and the function
    table are exported too. Raises HloError for an object that uses features which our objects do
    not.
    """
    return _Linker(_read(code), exports).module()


# --- reading ------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        """Return the unsigned LEB128 encoding of a number."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return value

    def signed(self) -> int:
        start = self.at
        value = self.number()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> bits - 1 else value

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def text(self) -> str:
        return self.take(self.number()).decode()

    @property
    def is_done(self) -> bool:
        return self.at >= len(self.data)


@dataclass(frozen=True)
class _Symbol:
    """A symbol: an index among its kind, or an offset in a data segment."""

    kind: int
    flags: int
    name: str
    index: int = 0
    offset: int = 0

    @property
    def is_defined(self) -> bool:
        return not self.flags & _UNDEFINED


@dataclass(frozen=True)
class _Relocation:
    kind: int
    offset: int
    symbol: int
    addend: int


@dataclass
class _Object:
    """An object file: sections by number, custom ones with their names among them."""

    sections: list[tuple[int, str, bytearray]] = field(default_factory=list)
    imports: list[tuple[str, str, int, bytes]] = field(default_factory=list)
    symbols: list[_Symbol] = field(default_factory=list)
    alignments: list[int] = field(default_factory=list)
    relocations: dict[int, list[_Relocation]] = field(default_factory=dict)

    def section(self, number: int) -> bytearray | None:
        return next((data for n, _, data in self.sections if n == number), None)


def _read(code: bytes) -> _Object:
    r, found = _Reader(code), _Object()
    if r.take(len(_START)) != _START:
        raise _unknown("it is no WebAssembly")
    while not r.is_done:
        number = r.take(1)[0]
        body = _Reader(r.take(r.number()))
        name = body.text() if number == _CUSTOM else ""
        data = body.data[body.at :]
        found.sections.append((number, name, bytearray(data)))
        rest = _Reader(data)
        if number == _IMPORT:
            found.imports = _imports(rest)
        elif name == "linking":
            _linking(rest, found)
        elif name.startswith("reloc."):
            section = rest.number()
            found.relocations[section] = [_relocation(rest) for _ in range(rest.number())]
    return found


def _unknown(why: str) -> HloError:
    return HloError.at("no-linker", f"this object is not linked here: {why}", hint="give --linker")


def _imports(r: _Reader) -> list[tuple[str, str, int, bytes]]:
    found = []
    for _ in range(r.number()):
        module, name, kind, start = r.text(), r.text(), r.take(1)[0], r.at
        if kind == _IS_FUNCTION:
            r.number()
        elif kind == _IS_GLOBAL:
            r.take(2)
        elif kind in (_IS_TABLE, _IS_MEMORY):
            r.take(kind == _IS_TABLE)
            has_most = r.take(1)[0] & 1
            for _ in range(1 + has_most):
                r.number()
        else:
            raise _unknown(f"it imports {name}, of kind {kind}")
        found.append((module, name, kind, r.data[start : r.at]))
    return found


def _linking(r: _Reader, found: _Object) -> None:
    if r.number() != 2:
        raise _unknown("its format is another one")
    while not r.is_done:
        kind = r.take(1)[0]
        part = _Reader(r.take(r.number()))
        if kind == _SYMBOL_TABLE:
            found.symbols = [_symbol(part, found.imports) for _ in range(part.number())]
        elif kind == _SEGMENT_INFO:
            for _ in range(part.number()):
                part.text()
                found.alignments.append(part.number())
                part.number()


def _symbol(r: _Reader, imports: Sequence[tuple[str, str, int, bytes]]) -> _Symbol:
    kind, flags = r.take(1)[0], r.number()
    if kind == _DATA_SYMBOL:
        name = r.text()
        if flags & _UNDEFINED:
            return _Symbol(kind, flags, name)
        index, offset, _ = r.number(), r.number(), r.number()
        return _Symbol(kind, flags, name, index, offset)
    index, name = r.number(), ""
    if kind != _SECTION_SYMBOL:
        if not flags & _UNDEFINED or flags & _HAS_NAME:
            name = r.text()
        else:
            of = {_FUNCTION_SYMBOL: _IS_FUNCTION, _GLOBAL_SYMBOL: _IS_GLOBAL}.get(kind, _IS_TABLE)
            name = [n for _, n, k, _ in imports if k == of][index]
    return _Symbol(kind, flags, name, index)


def _relocation(r: _Reader) -> _Relocation:
    kind = r.number()
    if kind not in _RELOCATIONS:
        raise _unknown(f"it has a relocation of type {kind}")
    offset, symbol = r.number(), r.number()
    return _Relocation(kind, offset, symbol, r.signed() if kind in _HAS_ADDEND else 0)


# --- writing ------------------------------------------------------------------------------------


def _leb(value: int) -> bytes:
    found = bytearray()
    while value >> 7:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _sleb(value: int) -> bytes:
    found = bytearray()
    while not -64 <= value < 64:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value & 127])


def _spelled(value: int, form: str) -> bytes:
    """Return the encoding of a number in a relocation: four bytes, or a padded LEB128 of five."""
    if form == "i32":
        return (value & 0xFFFFFFFF).to_bytes(4, "little")
    if form == "sleb" and value >> 31:
        value -= 1 << 32
    groups = [value >> 7 * i & 127 for i in range(5)]
    return bytes([*(g | 128 for g in groups[:4]), groups[4]])


def _text(text: str) -> bytes:
    return _leb(len(text.encode())) + text.encode()


def _vector(items: Iterable[bytes]) -> bytes:
    found = list(items)
    return _leb(len(found)) + b"".join(found)


def _constant(value: int) -> bytes:
    """Return a constant expression: an i32, in signed LEB128."""
    return b"\x41" + _sleb(value - (1 << 32) if value >> 31 else value) + b"\x0b"


class _Linker:
    """Assigns addresses and indices to an object's parts. `bases`: addresses of data segments."""

    def __init__(self, code: _Object, exports: Sequence[str]) -> None:
        self._code, self._exports = code, exports
        self._functions = [i for i in code.imports if i[2] == _IS_FUNCTION]
        self._segments, self.bases, at = self._data_segments(), list[int](), _STACK_BYTES
        for n, (_, data) in enumerate(self._segments):
            unit = 1 << (code.alignments[n] if n < len(code.alignments) else 0)
            at = -(-at // unit) * unit
            self.bases.append(at)
            at += len(data)
        self._end = at
        self._bodies = self._function_bodies()
        # Table entry 0 stays empty: no function has a null address.
        self._slots: dict[int, int] = {}
        for section in code.relocations.values():
            for r in section:
                if _RELOCATIONS[r.kind][0] == "table":
                    self._slots.setdefault(code.symbols[r.symbol].index, len(self._slots) + 1)
        for name in (n for _, n, kind, _ in code.imports if kind == _IS_GLOBAL):
            if name != "__stack_pointer":
                raise _unknown(f"it imports the global {name}")

    def module(self) -> bytes:
        for number, relocations in self._code.relocations.items():
            for r in relocations:
                self._relocate(self._code.sections[number][2], r)
        made = {n: bytes(data) for n, _, data in self._code.sections if n != _CUSTOM}
        made[_IMPORT] = _vector(
            _text(module) + _text(name) + bytes([kind]) + rest
            for module, name, kind, rest in self._functions
        )
        size = len(self._slots) + 1
        made[_TABLE] = _vector([_FUNCREF + b"\0" + _leb(size)])
        made[_MEMORY] = _vector([b"\0" + _leb(-(-self._end // _PAGE))])
        seen, globals_ = self._exported()
        made[_GLOBAL] = _vector([_I32 + b"\1" + _constant(_STACK_BYTES), *globals_])
        made[_EXPORT] = _vector(seen)
        if self._slots:
            functions = _vector(_leb(f) for f in self._slots)
            made[_ELEMENT] = _vector([b"\0" + _constant(1) + functions])
        # Read again: the bytes that relocations changed.
        segments = self._data_segments()
        made[_DATA] = _vector(
            b"\0" + _constant(base) + _leb(len(data)) + data
            for base, (_, data) in zip(self.bases, segments, strict=True)
        )
        parts = [_START]
        for number in _ORDER:
            if made.get(number, b"\0") != b"\0":
                parts.append(bytes([number]) + _leb(len(made[number])) + made[number])
        for name, data in self._custom():
            body = _text(name) + data
            parts.append(b"\0" + _leb(len(body)) + body)
        return b"".join(parts)

    def _data_segments(self) -> list[tuple[int, bytes]]:
        """Return the offset of each segment's bytes in the data section, and the bytes."""
        data = self._code.section(_DATA)
        if data is None:
            return []
        r, found = _Reader(bytes(data)), []
        for _ in range(r.number()):
            if r.number() != 0:
                raise _unknown("it has data that is copied by hand")
            r.take(1)
            r.signed()
            r.take(1)
            size = r.number()
            found.append((r.at, r.take(size)))
        return found

    def _function_bodies(self) -> list[int]:
        """Return the offset of each function in the code section, after its size field."""
        code, found = self._code.section(_CODE), []
        r = _Reader(bytes(code or b"\0"))
        for _ in range(r.number()):
            size = r.number()
            found.append(r.at)
            r.take(size)
        return found

    def _address(self, symbol: _Symbol) -> int:
        if not symbol.is_defined:
            raise _unknown(f"it needs {symbol.name}")
        return self.bases[symbol.index] + symbol.offset

    def _relocate(self, data: bytearray, r: _Relocation) -> None:
        what, form = _RELOCATIONS[r.kind]
        if what == "type":
            value = r.symbol
        else:
            symbol = self._code.symbols[r.symbol]
            value = {
                "index": lambda: symbol.index,
                "table": lambda: self._slots[symbol.index],
                "address": lambda: self._address(symbol) + r.addend,
                "offset": lambda: self._bodies[symbol.index - len(self._functions)] + r.addend,
                "section": lambda: r.addend,
            }[what]()
        spelled = _spelled(value, form)
        data[r.offset : r.offset + len(spelled)] = spelled

    def _exported(self) -> tuple[list[bytes], list[bytes]]:
        """Return the entries of the export section, and globals with addresses of data."""
        seen = [
            _text("memory") + bytes([_IS_MEMORY, 0]),
            _text("__indirect_function_table") + bytes([_IS_TABLE, 0]),
        ]
        globals_: list[bytes] = []
        symbols = {s.name: s for s in self._code.symbols if s.is_defined}
        for name in self._exports:
            symbol = symbols[name]
            if symbol.kind == _FUNCTION_SYMBOL:
                seen.append(_text(name) + bytes([_IS_FUNCTION]) + _leb(symbol.index))
                continue
            globals_.append(_I32 + b"\0" + _constant(self._address(symbol)))
            seen.append(_text(name) + bytes([_IS_GLOBAL]) + _leb(len(globals_)))
        return seen, globals_

    def _custom(self) -> list[tuple[str, bytes]]:
        """Return the custom sections, in the required order."""
        own = [(name, bytes(d)) for number, name, d in self._code.sections if number == _CUSTOM]
        debug = [(name, data) for name, data in own if name.startswith(".debug")]
        features = [(name, data) for name, data in own if name == "target_features"]
        return [*debug, ("name", self._names()), *features]

    def _names(self) -> bytes:
        """Return the name section, for stack traces."""
        names = {s.index: s.name for s in self._code.symbols if s.kind == _FUNCTION_SYMBOL}
        functions = _vector(_leb(i) + _text(name) for i, name in sorted(names.items()))
        return b"\1" + _leb(len(functions)) + functions
