"""Functions as text that is equal wherever they are: in which module, under which names.

What a module calls its functions, globals and metadata says nothing about what they compute. Here
they are named by the order in which the code refers to them, and functions that other parts of the
module see by a hash of that text, which has the hashes of what they call in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlo.llvm import Compiled, Function, LlvmModule

# Linkage of globals that only their own object file sees.
_LOCAL = ("private ", "internal ")


@dataclass(frozen=True)
class Canonical:
    """A module of some functions as text, and the symbol of each of them, by its former name."""

    text: str
    symbols: Mapping[str, str]


def canonical(
    module: LlvmModule,
    functions: Sequence[Function],
    called: Mapping[str, Function | Compiled],
    effort: str,
) -> Canonical:
    """Return functions of a module as a module of their own.

    called: functions of other parts, under the names that they have there, by their former names.
    effort: what else the code depends on.
    """
    own = {f.name: f"hlo.own.{n}" for n, f in enumerate(functions)}
    found = _References(module, own, called)
    for f in functions:
        found.add(f.references, f.metadata)
    for nodes in module.named_metadata.values():
        found.add((), nodes)
    text = found.text(functions)
    name = hashlib.sha256(f"{effort}\n{text}".encode()).hexdigest()[:32]
    symbols = {former: f"hlo.{name}.{n}" for n, former in enumerate(own)}
    return Canonical(text.replace("@hlo.own.", f"@hlo.{name}."), symbols)


class _References:
    """The names of what functions refer to, in the order in which they do."""

    def __init__(
        self,
        module: LlvmModule,
        own: Mapping[str, str],
        called: Mapping[str, Function | Compiled],
    ) -> None:
        self._module, self._called = module, called
        self._names = dict(own)
        self._numbers: dict[int, int] = {}
        # Of what is defined or declared once.
        self._globals: list[str] = []
        self._declarations: dict[str, None] = {}

    def add(self, symbols: Sequence[str], nodes: Sequence[int]) -> None:
        """Name functions and globals and number metadata nodes, and what these refer to."""
        for name in symbols:
            if name not in self._names:
                self._names[name] = self._name(name)
                if name in self._module.globals:
                    self.add(self._module.globals[name].symbols, ())
        for number in nodes:
            if number not in self._numbers:
                self._numbers[number] = 1 + len(self._numbers)
                self.add((), self._module.metadata[number].nodes)

    def _name(self, name: str) -> str:
        if name in self._called:
            self._declarations[self._called[name].declaration] = None
            return self._called[name].name
        if name not in self._module.globals:
            self._declarations[self._module.declarations[name]] = None
            return name
        self._globals.append(name)
        is_local = self._module.globals[name].text.startswith(_LOCAL)
        return f"hlo.data.{len(self._globals)}" if is_local else name

    def text(self, functions: Sequence[Function]) -> str:
        """Return functions as a module, with all that they refer to."""
        module, names, numbers = self._module, self._names, self._numbers
        lines = [
            *module.header,
            *(str(module.globals[name].renamed(names)) for name in self._globals),
            *self._declarations,
            *(f.renamed(names, numbers).text for f in functions),
            *(str(module.metadata[n].renumbered(numbers)) for n in numbers),
            *(
                f"!{name} = !{{{', '.join(f'!{numbers[n]}' for n in nodes)}}}"
                for name, nodes in module.named_metadata.items()
            ),
        ]
        return "\n".join(lines) + "\n"
