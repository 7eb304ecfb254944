"""Reads operands, numbers and declarations of PTX."""

from __future__ import annotations

import re
import struct

from hlo.gpu.ptx.records import (
    SIZES,
    Address,
    Immediate,
    Negated,
    Operand,
    Reg,
    Special,
    Symbol,
    Variable,
    Vector,
)

# An operand of a list: in brackets of a kind, or a word.
_OPERANDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s\[\]{}()]+")
_NUMBER = re.compile(r"-?\d")
_BRACKETS = frozenset("[{(")
# The registers that the machine sets.
_SPECIAL = re.compile(
    r"%(?:n?tid|n?ctaid|cluster\w*|n?clusterid|lane\w+|n?warpid|n?smid|gridid|clock\w*|globaltimer\w*"
    r"|pm\d|envreg\d|\w+_smem_\w+|is_explicit_cluster|current_graph_exec)(?:\.[xyz])?$"
)


class PtxSyntaxError(Exception):
    """A text is no PTX, or none that is known; the parser adds the line."""


class Registers:
    """The registers of a function, as they are declared and as far as they are used."""

    def __init__(self) -> None:
        self.used: dict[str, str] = {}
        self._single: list[dict[str, tuple[str, str]]] = [{}]
        self._many: dict[str, tuple[str, int]] = {}
        self._scopes = 0

    def declare(self, type_: str, names: str) -> None:
        """Take the names of a `.reg` directive: `%r<10>`, `%SP, %SPL`."""
        for name in names.split(","):
            name = name.strip()
            if name.endswith(">"):
                prefix, _, count = name[:-1].partition("<")
                if not count.isdecimal():
                    raise PtxSyntaxError(f"a number of registers is expected in {name!r}")
                self._many[prefix] = (type_, int(count))
            else:
                inner = len(self._single) > 1
                own = f"{name}.{self._scopes}" if inner else name
                self._single[-1][name] = (type_, own)

    def open(self) -> None:
        """Enter braces: names that are declared in them mean other registers."""
        self._single.append({})
        self._scopes += 1

    def close(self) -> bool:
        """Leave braces. Returns whether registers were declared in them."""
        return bool(self._single.pop())

    def find(self, name: str) -> Reg | None:
        """Return a register, or None if none of the name is declared."""
        for scope in reversed(self._single):
            if name in scope:
                type_, own = scope[name]
                self.used[own] = type_
                return Reg(own)
        prefix = name.rstrip("0123456789")
        type_, count = self._many.get(prefix, ("", 0))
        if prefix == name or int(name[len(prefix) :]) >= count:
            return None
        self.used[name] = type_
        return Reg(name)


class OperandReader:
    """Reads operands of one function; each text once."""

    def __init__(self, registers: Registers) -> None:
        self.registers = registers
        self.known: dict[str, Operand] = {}
        # All variables, functions and labels that are named.
        self.symbols: set[str] = set()

    def read_list(self, text: str) -> tuple[Operand, ...]:
        """Return the operands of a text, `%r1, [%rd1+4], {%r2, %r3}`."""
        known = self.known
        if not _BRACKETS.isdisjoint(text):
            words = _OPERANDS.findall(text)
        else:
            words = [word.strip() for word in text.split(",")]
        return tuple([known.get(word) or self._read(word) for word in words])

    def _read(self, word: str) -> Operand:
        operand = self._parse(word)
        self.known[word] = operand
        return operand

    def _parse(self, word: str) -> Operand:
        first = word[:1]
        if "|" in word:
            return Vector(tuple(self._parse(part) for part in word.split("|")))
        if first == "[":
            return self._address(word[1:-1].strip())
        if first in ("{", "("):
            inner = word[1:-1].strip()
            return Vector(self.read_list(inner) if inner else ())
        if first == "!":
            reg = self._parse(word[1:])
            if isinstance(reg, Reg):
                return Negated(reg)
        elif word == "_":
            return Reg("_")
        elif _NUMBER.match(word):
            return number(word)
        elif first and (first == "%" or first.isalpha() or first in "_$"):
            return self._name(word)
        raise PtxSyntaxError(f"an operand is expected, not {word!r}")

    def _name(self, word: str) -> Operand:
        reg = self.registers.find(word)
        if reg is not None:
            return reg
        if word[0] == "%":
            if not _SPECIAL.match(word):
                raise PtxSyntaxError(f"{word} is neither a declared nor a special register")
            return Special(word)
        if word == "WARP_SZ":
            return Immediate(32)
        self.symbols.add(word)
        return Symbol(word)

    def _address(self, text: str) -> Address:
        text, comma, rest = text.partition(",")
        base, _, offset = text.partition("+")
        where = self._parse(base.strip())
        if not isinstance(where, Reg | Symbol | Immediate):
            raise PtxSyntaxError(f"an address is expected, not [{text}]")
        coordinates = self.read_list(rest.strip()) if comma else ()
        return Address(where, number(offset).bits if offset else 0, coordinates)


def number(text: str) -> Immediate:
    """Return a literal. Raises PtxSyntaxError."""
    text = text.strip()
    kind = text[:2].lower()
    try:
        if kind == "0f" and len(text) == 10:
            return Immediate(int(text[2:], 16), "f32")
        if kind == "0d" and len(text) == 18:
            return Immediate(int(text[2:], 16), "f64")
        if "." in text:
            return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64")
        digits = text.rstrip("U")
        sign, digits = (-1, digits[1:]) if digits[:1] == "-" else (1, digits)
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return Immediate(sign * int(digits, 8 if octal else 0))
    except ValueError as e:
        raise PtxSyntaxError(f"a number is expected, not {text!r}") from e


# The parts of a declaration, `.visible .global .align 4 .b8 name[16] = {1, 2}`.
_NAME = re.compile(r"([\w$%]+)((?:\s*\[\s*\d*\s*\])*)\s*(?:=\s*(.*))?$", re.DOTALL)
_SPACES = frozenset(("global", "const", "shared", "local", "param"))
_ADDRESS_WORD = re.compile(r"(?:generic\()?([A-Za-z_$%][\w$]*)\)?(?:\s*\+\s*(-?\d+))?$")


def variable(text: str) -> Variable:
    """Return the variable that a directive declares. Raises PtxSyntaxError."""
    space, type_, align, words = "", "", 0, text.split(None)
    position = 0
    while position < len(words) and words[position].startswith("."):
        word = words[position][1:]
        position += 1
        if word == "align" and position < len(words):
            align = number(words[position]).bits
            position += 1
        elif not space and word in _SPACES:
            space = word
        elif word in SIZES and not type_:
            type_ = word
    found = _NAME.match(text.split(None, position)[-1]) if position < len(words) else None
    if not space or not type_ or found is None:
        raise PtxSyntaxError(f"a declaration is expected, not {text!r}")
    name, bounds, content = found.groups()
    each = SIZES[type_]
    size = each
    for bound in bounds.replace("]", " ").split("["):
        if bounds and bound.strip():
            size *= int(bound)
    if bounds and not bounds.strip("[] \t"):
        size = 0
    octets, addresses = _content(content, each, type_) if content else (b"", ())
    if len(octets) > size:
        raise PtxSyntaxError(f"{name} of {size} bytes has values for {len(octets)}")
    return Variable(name, space, size, align or each, octets, addresses, type_)


def _content(text: str, each: int, type_: str) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    """Return the bytes of an initializer of numbers and addresses."""
    words = text.replace("{", " ").replace("}", " ").split(",")
    addresses = []
    out = bytearray()
    for at, word in enumerate(words):
        word = word.strip()
        if not word:
            continue
        found = _ADDRESS_WORD.match(word)
        if found is not None:
            addresses.append((at * each, found[1], int(found[2] or 0)))
            value = 0
        else:
            literal = number(word)
            value = literal.bits
            if literal.type == "f64" and type_ == "f32":
                (double,) = struct.unpack("<d", struct.pack("<Q", value))
                (value,) = struct.unpack("<I", struct.pack("<f", double))
        out += (value & ((1 << (8 * each)) - 1)).to_bytes(each, "little")
    return bytes(out), tuple(addresses)
