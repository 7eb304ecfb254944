"""A document that is being edited: its module, what is wrong with it, and where things are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hlo.editor.positions import ExcerptLines, Lines, Place
from hlo.errors import Diagnostic, Span
from hlo.frontends.text.incremental import IncrementalModule
from hlo.frontends.text.reading import Piece
from hlo.frontends.text.units import Built
from hlo.ir import Computation, Instruction, Module
from hlo.support.memory import collector_paused
from hlo.verifier.constraints import is_constrained
from hlo.verifier.incremental import RuleChecker, check_together


@dataclass(frozen=True)
class Edit:
    """New text for the characters `[start, end)`."""

    start: int
    end: int
    text: str


class Document:
    """A text with all that an editor asks about it.

    Attributes:
        name: what errors call it.
        parsed: its statements and computations.
        lines: where its characters are in the file.
        diagnostics: what is wrong with it; spans have the offsets of their statement.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.parsed = IncrementalModule(name, text)
        self.lines: Lines | ExcerptLines = Lines(text)
        self._rules = RuleChecker()
        self.diagnostics: list[Diagnostic] = []
        self._diagnose()

    @property
    def text(self) -> str:
        return self.parsed.text.text

    @property
    def module(self) -> Module | None:
        """The module, if the text can be parsed."""
        return self.parsed.result

    def change(self, start: Place, end: Place, text: str) -> None:
        """Replace what is between two places; after the last of several changes call `update`."""
        self.edit(Edit(self.lines.offset(start), self.lines.offset(end), text))

    def edit(self, edit: Edit) -> None:
        """Replace a range of characters; after the last of several edits call `update`."""
        self.parsed.edit(edit.start, edit.end, edit.text)
        self.lines = Lines(self.text)

    def replace(self, text: str) -> None:
        """Replace the whole text by one of which most is the same."""
        old, size = self.text, min(len(self.text), len(text))
        start = _common(old, text, size)
        end = _common(old[::-1], text[::-1], size - start)
        self.edit(Edit(start, len(old) - end, text[start : len(text) - end]))

    def update(self) -> None:
        """Bring module and diagnostics up to date with the text."""
        self.parsed.update()
        self._diagnose()

    def offsets(self, span: Span) -> tuple[int, int]:
        """Return the characters of the text that a span covers."""
        base = span.source.base if isinstance(span.source, Piece) else 0
        return base + span.start, base + max(span.start, span.end)

    def _diagnose(self) -> None:
        module = self.module
        with collector_paused():
            if module is None:
                self.diagnostics = [*self.parsed.diagnostics, *self._verify_parts()]
            else:
                self.diagnostics = list(self._verify(module))
        self.diagnostics.sort(key=lambda d: self.offsets(d.span)[0] if d.span else 0)

    def _verify_parts(self) -> Iterator[Diagnostic]:
        """Yield the broken rules of what could be built, if it depends on nothing unknown."""
        whole = self.parsed.whole_computations()
        for unit in self.parsed.units:
            if unit.is_duplicate:
                continue
            for statement in unit.statements:
                built = statement.built
                if built is None:
                    continue
                parts = [inst for comp in built.inner for inst in comp]
                # Of two instructions of one name, the first counts.
                names = unit.names
                made = list(filter(lambda i: names.get(i.name) is i, built.made))
                if built.is_valid and len(made) == len(built.made) and _is_known(made, whole):
                    yield from self._rule(built)
                elif built.is_valid:
                    parts += made
                for inst in parts:
                    if _is_known([inst], whole):
                        yield from self._rules.check(inst)

    def _rule(self, built: Built) -> list[Diagnostic]:
        """Return the broken rules of what a statement has become."""
        if built.rule is None:
            built.rule = [d for inst in built.made for d in self._rules.check(inst)]
            built.is_constrained = any(map(is_constrained, built.made))
        return built.rule

    def _verify(self, module: Module) -> Iterator[Diagnostic]:
        constrained, invalid, controlled = [], [], []
        own = {id(c) for u in self.parsed.units for c in (u.comp,)}
        for statement in self.parsed.text.statements:
            built = statement.built
            if built is None:
                continue
            rule = self._rule(built)
            if built.is_constrained:
                constrained += built.made
            if rule:
                invalid += built.made
                yield from rule
            if built.control is not None:
                controlled.append(built.inst)
        # What is written inside of others has no statements of its own.
        for comp in module.computations:
            if id(comp) not in own:
                constrained += comp
                for inst in comp:
                    rule = self._rules.check(inst)
                    if rule:
                        invalid.append(inst)
                        yield from rule
        yield from check_together(module, constrained, invalid, controlled)


def _is_known(instructions: Iterable[Instruction], whole: set[Computation]) -> bool:
    """True if what instructions call has no errors."""
    return all(
        whole.issuperset(inst.called_computations)
        for inst in instructions
        if inst.spec.computation_attrs
    )


def _common(a: str, b: str, size: int) -> int:
    """Return how many characters two texts have in common at the start, `size` at most."""
    low, high = 0, size
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
