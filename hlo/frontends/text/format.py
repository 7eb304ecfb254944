"""`format_text`: HLO text in canonical form, with its comments.

Only white space changes: every word, string and comment stays, in its order. What somebody left out
(shapes, layouts, `%`, signatures, defaults) stays left out, and numbers keep their spelling. The
form is the printer's: one instruction a line, a blank line between computations. Inside bodies one
blank line stays where there are any. A comment stays behind what it follows on its line, or on
lines of its own in front of what follows it, indented like that. A comment to the end of the line
in the middle of an instruction breaks it; the rest is indented further.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hlo.errors import HloError
from hlo.frontends.text import terminals
from hlo.frontends.text.atoms import Atom, Blank, Line, Space
from hlo.frontends.text.parser import parse
from hlo.frontends.text.printer import print_module
from hlo.frontends.text.structure import atoms_of

_CONTINUED = 4
_SEPARATOR = re.compile(r"^//\s*-{5,}[^\S\n]*$\n?", re.M)
_COMMENT = re.compile(rf"(?P<space>\s*+)(?P<comment>(?:{terminals.COMMENT})?)", re.S)
_END = Line(0, Blank.KEEP, 0)


def format_text(text: str, name: str = "<string>") -> str:
    """Return a text in canonical form: of the same module, with the same comments.

    Several modules in one text are separated by lines of `// -----`. `name` names the text in
    errors. Raises HloError with all errors of a text that cannot be parsed, and
    RuntimeError if the result would be another module, which is a bug.
    """
    try:
        return _formatted(text, name)
    except HloError:
        if _SEPARATOR.search(text) is None:
            raise
    out, line, at = [], 0, 0
    for m in [*_SEPARATOR.finditer(text), None]:
        part = text[at : m.start() if m else len(text)]
        # Errors are on the lines of the whole text.
        out.append(_formatted("\n" * line + part, name) if part.strip() else "")
        if m is not None:
            out.append(m[0].rstrip() + "\n")
            line += part.count("\n") + m[0].count("\n")
            at = m.end()
    return "".join(out)


def _formatted(text: str, name: str) -> str:
    module = parse(text, name)
    atoms = list(atoms_of(text))
    result = "".join(_pieces(text, atoms)).rstrip() + "\n"
    changed = [a.text for a in atoms_of(result)] != [a.text for a in atoms]
    if changed or print_module(parse(result)) != print_module(module):
        raise RuntimeError(f"{name}: formatting would change the module")
    return result


def _pieces(text: str, atoms: list[Atom]) -> Iterator[str]:
    """Yield the pieces of the canonical text, white space included."""
    end, indent = 0, 0
    previous: Atom | None = None
    for atom in [*atoms, Atom("", len(text), len(text), _END)]:
        gap = text[end : atom.start]
        if isinstance(atom.before, Line):
            yield from _between_lines(gap, atom.before, previous)
            indent = atom.before.indent
        elif not gap or gap.isspace():
            wanted = atom.before is Space.ONE or (atom.before is Space.KEEP and gap)
            yield " " if wanted else ""
        else:
            yield from _within_line(gap, atom, previous, indent + _CONTINUED)
        yield atom.text
        previous, end = atom, atom.end


def _comments(gap: str) -> tuple[list[tuple[str, str]], str]:
    """Return the comments of a gap, each with the space before it, and the space at the end."""
    found, at = [], 0
    while (m := _COMMENT.match(gap, at)) is not None and m["comment"]:
        found.append((m["space"], m["comment"].rstrip()))
        at = m.end()
    return found, gap[at:]


def _between_lines(gap: str, line: Line, previous: Atom | None) -> Iterator[str]:
    """Yield the comments and line breaks in front of an atom that begins a line."""
    comments, rest = _comments(gap)
    while previous is not None and comments and "\n" not in comments[0][0]:
        yield f" {comments.pop(0)[1]}"
    blank, closes = line.blank, line.inner != line.indent
    if comments and closes:
        blank = Blank.NEVER if previous is None or previous.opens else Blank.KEEP
    for space, comment in comments:
        yield _break(space, blank) if previous else ""
        yield " " * line.inner + comment
        previous, blank = previous or Atom(comment, 0, 0, Space.NONE), Blank.KEEP
    if comments and "\n" not in rest and line is not _END:
        yield " "
    else:
        yield _break(rest, Blank.NEVER if closes else blank) if previous else ""
        yield " " * line.indent


def _break(space: str, blank: Blank) -> str:
    """Return line breaks in place of white space."""
    if blank is Blank.KEEP:
        return "\n\n" if space.count("\n") > 1 else "\n"
    return {Blank.NEVER: "\n", Blank.ONE: "\n\n", Blank.TWO: "\n\n\n"}[blank]


def _within_line(gap: str, atom: Atom, previous: Atom | None, indent: int) -> Iterator[str]:
    """Yield the comments in front of an atom that is on the line of another one.

    indent: of the line that follows a comment to the end of a line.
    """
    comments, rest = _comments(gap)
    broken = f"\n{' ' * indent}"
    is_begun, opened = False, previous is not None and previous.opens
    for i, (space, comment) in enumerate(comments):
        to_end = comment.startswith("//")
        if is_begun:
            yield broken
        elif to_end and "\n" in space:
            yield broken
        elif to_end or (atom.before is Space.ONE and i == 0) or (space and (i or not opened)):
            yield " "
        yield comment
        is_begun = to_end
    if is_begun:
        yield broken
    elif rest:
        yield " "
