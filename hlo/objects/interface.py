"""The interface of compiled code: a function, its arguments and results, and its memory."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any

from hlo.errors import HloError, TextError
from hlo.io.arguments import Parameter
from hlo.objects.features import can_be_asked, needed_features
from hlo.runtime.collectives import Collective
from hlo.runtime.outside import Import
from hlo.support.signature import shown
from hlo.values.layout import element_bits, physical_bytes
from hlo.values.shape_text import parse_shape
from hlo.values.types import ArrayShape, Shape, arrays_of, complex_part

# Constants and temporary memory are aligned to so many bytes.
ALIGNMENT = 64
FORMAT = 4
# The magic number of a signature, by which it is found without knowing its symbol.
MAGIC = b"hlo-tools signature\n"
# C compilers have to support this many arguments of a function.
_MOST_ARGUMENTS = 127

# Keywords of C and C++, names in our prototypes, and functions of the C library that the code or
# nearly every program calls.
_TAKEN = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    char8_t class co_await co_return co_yield compl complex concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if imaginary inline int int8_t int16_t int32_t int64_t
    long main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast requires restrict return short signed size_t sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename typeof uint8_t uint16_t uint32_t uint64_t union unsigned using virtual void volatile
    wchar_t while xor xor_eq linux unix errno stdin stdout stderr NULL EOF host in out threads
    workspace memcpy memmove memset memcmp malloc calloc realloc free abort exit printf""".split()
)


def is_symbol(name: str) -> bool:
    """True when a name can be that of an exported function in C and C++."""
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)) and name not in _TAKEN


def need_symbol(name: str) -> str:
    """Return the name of an exported function. Raises HloError for one that C does not take."""
    if not is_symbol(name):
        raise HloError.at("bad-value", f"{shown(name)} is not a valid C identifier")
    return name


def symbol_for(text: str) -> str:
    """Return a name for the function from any text."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "model"
    return name if is_symbol(name) else f"hlo_{name}"


def symbol_of_file(path: str | PurePath) -> str:
    """Return the name for the function of a file: `model` for `out/libmodel.so`."""
    stem = PurePath(path).name.split(".")[0]
    is_library = PurePath(path).suffix in (".a", ".so", ".dylib", ".dll")
    return symbol_for(stem.removeprefix("lib") if is_library else stem)


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return different C identifiers for names, as close to them as can be."""
    used, found = {*_TAKEN, *taken}, []
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "p"
        stem = stem if stem[0].isalpha() else f"p{stem}"
        ident, n = stem, 2
        while ident in used:
            ident, n = f"{stem}_{n}", n + 1
        used.add(ident)
        found.append(ident)
    return found


# --- types --------------------------------------------------------------------------------------


def c_type(shape: ArrayShape) -> str:
    """Return the C type that the address of an array points to.

    A type that C lacks is an unsigned integer of its bits; a complex number is two elements.
    """
    et = complex_part(shape.element_type)
    if shape.element_type.is_complex:
        return "double" if et.bits == 64 else "float"
    if element_bits(shape) != 8 * et.byte_width:
        return "uint8_t"
    if et.is_float and et.bits >= 32:
        return "double" if et.bits == 64 else "float"
    signed = et.is_integer and et.is_signed
    return f"{'' if signed else 'u'}int{8 * et.byte_width}_t"


def type_note(shape: ArrayShape) -> str:
    """Return a note on the elements for callers, if their C type is not self-explanatory."""
    et = shape.element_type
    if et.is_complex:
        return "real and imaginary parts in turn"
    if element_bits(shape) < 8:
        return f"{8 // element_bits(shape)} elements in a byte, the first in its low bits"
    if et.is_pred:
        return "0 or 1"
    if et.is_float and et.bits < 32:
        return f"the bits of {et}"
    return f"values of {et}" if et.is_integer and et.bits < 8 else ""


@dataclass(frozen=True)
class Leaf:
    """An array that is passed by address.

    name: as in the module, with the index in a tuple; ident: the same as a C identifier.
    """

    name: str
    ident: str
    shape: ArrayShape

    @property
    def size_bytes(self) -> int:
        return physical_bytes(self.shape)


@dataclass(frozen=True)
class Level:
    """Code for a processor, of which an object may have several versions.

    cpu: LLVM's name of the processor. features: those that the code needs, by LLVM's names.
    is_native: made for the very processor that it was compiled on.
    """

    cpu: str
    features: tuple[str, ...]
    is_native: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"cpu": self.cpu, "features": self.features, "is_native": self.is_native}

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> Level:
        return cls(parts["cpu"], tuple(parts["features"]), parts["is_native"])


@dataclass(frozen=True)
class Interface:
    """The interface of a compiled module.

    symbol: name of the exported function. aliases: pairs of a result leaf and an argument leaf that
    may share memory, by number. imports: the external functions that the code calls by number.
    collectives: those of several devices. uses_host: it needs the host's table, or its device ids.
    is_parallel: some kernels are split into chunks for threads. levels: the versions of the code,
    the best one last. digest: tells different code apart.
    """

    symbol: str
    module: str
    parameters: tuple[Parameter, ...]
    result: Shape
    workspace_bytes: int
    aliases: tuple[tuple[int, int], ...] = ()
    imports: tuple[Import, ...] = ()
    collectives: tuple[Collective, ...] = ()
    uses_host: bool = False
    is_parallel: bool = False
    triple: str = ""
    levels: tuple[Level, ...] = ()
    cost: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""

    @cached_property
    def inputs(self) -> list[Leaf]:
        """The array leaves of the parameters, in order."""
        found = [
            (f"{name}{suffix}", part)
            for p in self.parameters
            for _, name, shape in p.leaves()
            if isinstance(shape, ArrayShape)
            for suffix, part in arrays_of(shape)
        ]
        outputs = [leaf.ident for leaf in self.outputs]
        idents = identifiers([name for name, _ in found], taken=(*outputs, self.symbol))
        return [Leaf(name, ident, s) for (name, s), ident in zip(found, idents, strict=True)]

    @cached_property
    def outputs(self) -> list[Leaf]:
        """The array leaves of the result, in order."""
        leaves = [s for _, s in self.result.leaves() if isinstance(s, ArrayShape)]
        named = [(f"out{n}{x}", s) for n, leaf in enumerate(leaves) for x, s in arrays_of(leaf)]
        return [Leaf(name, name.replace(".", "_"), s) for name, s in named]

    @property
    def names_processor(self) -> bool:
        """True when the code can say which level a processor runs."""
        return can_be_asked(self.triple)

    @property
    def asks_processor(self) -> bool:
        """True when the code depends on the processor that it finds itself on."""
        needs = [needed_features(self.triple, level.features) for level in self.levels]
        return can_be_asked(self.triple) and (len(needs) > 1 or any(needs))

    @property
    def is_typed(self) -> bool:
        """True when there are few enough arrays to pass each as a C argument."""
        return len(self.inputs) + len(self.outputs) < _MOST_ARGUMENTS

    def to_bytes(self) -> bytes:
        """Return the signature that an object carries: text, up to a zero byte."""
        return MAGIC + json.dumps(self.to_json()).encode() + b"\0"

    def to_json(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return {
            "format": FORMAT,
            "symbol": self.symbol,
            "module": self.module,
            "parameters": [[p.number, p.name, p.shape.to_string()] for p in self.parameters],
            "result": self.result.to_string(),
            "workspace_bytes": self.workspace_bytes,
            "aliases": self.aliases,
            "imports": [astuple(i) for i in self.imports],
            "collectives": [c.to_json() for c in self.collectives],
            "uses_host": self.uses_host,
            "is_parallel": self.is_parallel,
            "triple": self.triple,
            "levels": [level.to_json() for level in self.levels],
            "cost": dict(self.cost),
            "digest": self.digest,
        }


def find_interfaces(data: bytes | mmap.mmap) -> list[Interface]:
    """Return the interfaces of all our functions in a file's bytes. Raises ValueError."""
    found, at = [], data.find(MAGIC)
    while at >= 0:
        end = data.find(b"\0", at)
        found.append(_from_json(data[at + len(MAGIC) : end]))
        at = data.find(MAGIC, end)
    return found


def _from_json(text: bytes) -> Interface:
    try:
        parts = json.loads(text)
        if parts["format"] != FORMAT:
            raise ValueError(f"its signature has format {parts['format']}, not {FORMAT}")
        return Interface(
            parts["symbol"],
            parts["module"],
            tuple(Parameter(n, name, parse_shape(s)) for n, name, s in parts["parameters"]),
            parse_shape(parts["result"]),
            parts["workspace_bytes"],
            tuple((result, argument) for result, argument in parts["aliases"]),
            tuple(Import(*i) for i in parts["imports"]),
            tuple(Collective.from_json(c) for c in parts["collectives"]),
            parts["uses_host"],
            parts["is_parallel"],
            parts["triple"],
            tuple(map(Level.from_json, parts["levels"])),
            parts["cost"],
            parts["digest"],
        )
    except (KeyError, TypeError, TextError) as e:
        raise ValueError(f"its signature is broken: {e}") from None
