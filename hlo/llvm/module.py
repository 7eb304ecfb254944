"""Modules: globals, declarations, functions, metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hlo.llvm.compiled import Compiled, CompiledFunctions
from hlo.llvm.function import Function


@dataclass(frozen=True)
class Global:
    """A global variable or constant. text: what follows its name; symbols: those in its value.

    space, align: its address space and alignment, 0 and 1 for what the text does not say.
    """

    name: str
    text: str
    symbols: tuple[str, ...] = ()
    space: int = 0
    align: int = 1

    @property
    def is_constant(self) -> bool:
        return " constant " in self.text

    def in_space(self, space: int) -> Global:
        """Return a constant as one in another address space."""
        text = self.text.replace(" constant ", f" addrspace({space}) constant ", 1)
        return replace(self, text=text, space=space)

    def renamed(self, symbols: Mapping[str, str]) -> Global:
        """Return the global with other names for itself and for those in its value."""
        start, *rest = self.text.split("@") if self.symbols else (self.text,)
        for piece in rest:
            name = max(filter(piece.startswith, self.symbols), key=len, default="")
            start += f"@{symbols.get(name, name)}{piece[len(name) :]}"
        used = tuple(symbols.get(name, name) for name in self.symbols)
        return replace(self, name=symbols.get(self.name, self.name), text=start, symbols=used)

    def __str__(self) -> str:
        return f"@{self.name} = {self.text}"


@dataclass(frozen=True)
class Node:
    """A numbered metadata node. nodes: the numbers of those that it refers to."""

    number: int
    text: str
    nodes: tuple[int, ...] = ()

    def renumbered(self, numbers: Mapping[int, int]) -> Node:
        """Return the node with other numbers for itself and for those that it refers to."""
        start, *rest = self.text.split("!")
        for piece in rest:
            tail = piece.lstrip("0123456789")
            digits = piece[: len(piece) - len(tail)]
            start += f"!{numbers[int(digits)] if digits else ''}{tail}"
        used = tuple(numbers[n] for n in self.nodes)
        return Node(numbers[self.number], start, used)

    def __str__(self) -> str:
        return f"!{self.number} = {self.text}"


@dataclass
class LlvmModule:
    """A module of LLVM IR; globals, declarations and functions by name, metadata by number.

    declarations: as LLVM IR writes them. attribute_groups: attributes that functions have as `#0`,
    `#1`, ... by number. named_metadata: the nodes of `llvm.module.flags` and
    others. added: characters of functions that do not count where a module is divided by size.
    source_name: what the code is made from, as assembly and objects name it.
    known: the functions that need not be written, as there is object code of them; None where there
    are none. compiled: those that the module calls, under the names that it has for them.
    """

    target_triple: str = ""
    data_layout: str = ""
    globals: dict[str, Global] = field(default_factory=dict)
    declarations: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    attribute_groups: list[str] = field(default_factory=list)
    metadata: list[Node] = field(default_factory=list)
    named_metadata: dict[str, tuple[int, ...]] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    known: CompiledFunctions | None = None
    compiled: dict[str, Compiled] = field(default_factory=dict)
    source_name: str = ""

    def add(self, function: Function) -> Function:
        """Add a function, or replace the one of its name."""
        self.functions[function.name] = function
        return function

    def reuse(self, name: str, key: str) -> Compiled | None:
        """Give a name to the function with an origin of this key, if it is known.

        It need not be added then.
        """
        found = self.known.find(key) if self.known is not None else None
        if found is not None:
            self.compiled[name] = found
        return found

    def has(self, name: str) -> bool:
        """Return whether there is a function of a name, added or known."""
        return name in self.functions or name in self.compiled

    def define(
        self, name: str, text: str, symbols: Sequence[str] = (), *, space: int = 0, align: int = 1
    ) -> str:
        """Add a global; returns its address, `@name`. symbols: those that its value refers to.

        space, align: as the text has them.
        """
        self.globals[name] = Global(name, text, tuple(symbols), space, align)
        return f"@{name}"

    def declare(self, name: str, result: str, params: Sequence[str], attributes: str = "") -> None:
        """Declare an intrinsic or a function of another object."""
        if name not in self.declarations:
            text = f"declare {result} @{name}({', '.join(params)}) {attributes}"
            self.declarations[name] = text.rstrip()

    def node(self, text: str, nodes: Sequence[int] = ()) -> int:
        """Add a metadata node; returns its number. nodes: those that it refers to."""
        number = len(self.metadata)
        self.metadata.append(Node(number, text, tuple(nodes)))
        return number

    @property
    def header(self) -> list[str]:
        """The lines that say what the module is for."""
        layout = [f'target datalayout = "{self.data_layout}"'] if self.data_layout else []
        triple = [f'target triple = "{self.target_triple}"'] if self.target_triple else []
        return [*layout, *triple, *self._source]

    @property
    def _source(self) -> list[str]:
        if not self.source_name:
            return []
        name = "".join(
            chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}"
            for c in self.source_name.encode(errors="surrogateescape")
        )
        return [f'source_filename = "{name}"']

    def to_text(self) -> str:
        """Return the module as LLVM IR."""
        lines: list[str] = [
            *self.header,
            *map(str, self.globals.values()),
            *self.declarations.values(),
            *(f.text for f in self.functions.values()),
            *(f"attributes #{n} = {{ {x} }}" for n, x in enumerate(self.attribute_groups)),
            *map(str, self.metadata),
            *(
                f"!{name} = !{{{', '.join(f'!{n}' for n in nodes)}}}"
                for name, nodes in self.named_metadata.items()
            ),
        ]
        return "\n".join(lines) + "\n"
