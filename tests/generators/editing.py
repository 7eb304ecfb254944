"""A large program, and a recorded session of somebody who edits it.

    python -m tests.generators.editing

writes `tests/editor/session.json`: what was typed, pasted and deleted in each scene, and what a new
reading of the whole text says after each step. It is read by the test of the language server and
by `bench/lsp.py`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import NamedTuple

from hlo.editor.positions import Lines
from tests.harness.edited import fresh
from tests.harness.paths import TESTS

INSTRUCTIONS = 10_000
RECORDING = TESTS / "editor/session.json"
_SHAPE = "f32[64,64]{1,0}"


def program(count: int = INSTRUCTIONS) -> str:
    """Return a module of `count` instructions: most in the entry, some in computations."""
    lines = ["HloModule bench", "", "sum {", "  a = f32[] parameter(0)", "  b = f32[] parameter(1)",
             "  ROOT s = f32[] add(a, b)", "}", ""]  # fmt: skip
    inside = 8
    bodies = count // 40
    for number in range(bodies):
        lines += [f"body.{number} {{", f"  p = {_SHAPE} parameter(0)"]
        previous = "p"
        for step in range(inside - 1):
            root = "ROOT " if step == inside - 2 else ""
            lines.append(f"  {root}v.{step} = {_SHAPE} tanh({previous})")
            previous = f"v.{step}"
        lines += ["}", ""]
    lines += ["ENTRY main {", f"  x.0 = {_SHAPE} parameter(0)", "  zero = f32[] constant(0)"]
    left = count - bodies * inside - 5
    for at in range(1, left):
        operands = f"x.{at - 1}, x.{max(0, at - 7)}"
        origin = f'metadata={{op_name="jit(step)/layer_{at // 50}/op" source_line={at}}}'
        if bodies and at % 31 == 0:
            line = f"x.{at} = {_SHAPE} call(x.{at - 1}), to_apply=body.{at % bodies}"
        else:
            opcode = ("add", "multiply", "subtract")[at % 3]
            line = f"x.{at} = {_SHAPE} {opcode}({operands}), {origin}"
        lines.append("  " + line)
    lines.append(f"  ROOT r = f32[64] reduce(x.{left - 1}, zero), dimensions={{1}}, to_apply=sum")
    return "\n".join([*lines, "}", ""])


class Step(NamedTuple):
    """One message of an editor: changes `(start, end, text)`, one after the other, in characters.

    expected: code, line and UTF-16 column of each diagnostic then. hidden: a syntax error hides
    what is behind it from a new reading, of which a server may know more.
    """

    scene: str
    changes: list[tuple[int, int, str]]
    expected: list[tuple[str, int, int]]
    hidden: bool


def session() -> Iterator[Step]:
    """Yield the recorded steps; they begin with `program()`."""
    for scene, changes, expected, hidden in json.loads(RECORDING.read_text()):
        yield Step(scene, [tuple(c) for c in changes], [tuple(d) for d in expected], hidden)


class _Writer:
    """Somebody who writes: makes changes, and keeps them with what they lead to."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps: list[Step] = []
        self._known: dict[str, tuple[list[tuple[str, int, int]], bool]] = {}

    def change(self, scene: str, *changes: tuple[int, int, str]) -> None:
        for start, end, new in changes:
            self.text = self.text[:start] + new + self.text[end:]
        if self.text not in self._known:
            module, found = fresh(self.text)
            places, lines = [], Lines(self.text)
            for code, _, start in found:
                places.append((code, *lines.place(start)))
            hidden = module is None and all(code == "syntax" for code, _, _ in found)
            self._known[self.text] = sorted(places), hidden
        self.steps.append(Step(scene, list(changes), *self._known[self.text]))

    def type(self, scene: str, at: int, text: str) -> None:
        """Type letter by letter."""
        for number, letter in enumerate(text):
            self.change(scene, (at + number, at + number, letter))

    def swap(self, scene: str, old: str, new: str) -> None:
        """Replace the first `old`, and then undo that."""
        at = self.text.index(old)
        self.change(scene, (at, at + len(old), new))
        self.change("undo", (at, at + len(new), old))


def _write(writer: _Writer) -> None:
    def end_of(line: str) -> int:
        return writer.text.index("\n", writer.text.index(line)) + 1

    at = end_of("  x.4000 = ")
    line = f"  y = {_SHAPE} add(x.4000, x.3)\n"
    writer.type("type an instruction", at, line)
    for size in (11, 6, len(line) - 17):
        behind = at + len(line.rstrip("\n")) + 1
        line = line[: len(line) - size]
        writer.change("undo", (behind - size, behind, ""))

    at = end_of("  x.6000 = ")
    names = ["x.6000", *(f"z.{number}" for number in range(40))]
    block = "".join(
        f"  {name} = {_SHAPE} tanh({before})\n" for before, name in itertools.pairwise(names)
    )
    writer.change("paste 40 instructions", (at, at, block))
    writer.change("undo", (at, at + len(block), ""))

    at = writer.text.index("body.7 {")
    body = writer.text[at : writer.text.index("body.8 {")]
    writer.change("delete a computation", (at, at + len(body), ""))
    writer.change("undo", (at, at, body))

    at = writer.text.index("x.5000 = ")
    writer.type("rename a definition", at, "re")
    writer.change("undo", (at, at + 2, ""))
    places, found = [], -1
    while (found := writer.text.find("x.5000", found + 1)) >= 0:
        places.append(found)
    # An editor makes the changes of a renaming from the end of the text to its beginning.
    writer.change("rename everywhere", *((at, at + 6, "total") for at in reversed(places)))
    places = [at - number for number, at in enumerate(places)]
    writer.change("undo", *((at, at + 5, "x.5000") for at in reversed(places)))

    for number in (200, 4500, 7900):
        shape = f"  x.{number} = f32[64,64]{{1,0}}"
        for mark in "[]{}":
            writer.swap("delete a bracket", shape, shape.replace(mark, ""))
        call = writer.text.index("(", writer.text.index(shape))
        writer.change("delete a bracket", (call, call + 1, ""))
        writer.change("undo", (call, call, "("))
        writer.swap("a wrong shape", shape, shape.replace("64,64", "64,63"))
    writer.swap("delete a bracket", "body.100 {", "body.100")
    writer.swap("delete a bracket", "}\n\nbody.101 {", "\n\nbody.101 {")
    writer.swap("delete a bracket", "}\n\nENTRY", "\n\nENTRY")
    for number in (20, 60, 248):
        head = f"body.{number} {{\n"
        for old, new in (
            (f"}}\n\n{head}", ""), (head, ""), (f"}}\n\n{head}", head), (head, f"{head}}}\n{head}"),
        ):  # fmt: skip
            writer.swap("merge two computations" if not new else "a brace", old, new)
        inside = writer.text.index("  v.4 = ", writer.text.index(head))
        for name in ("half", f"body.{number + 1}", "main"):
            split = f"}}\n\n{name} {{\n"
            writer.change("split a computation", (inside, inside, split))
            writer.change("undo", (inside, inside + len(split), ""))
    writer.swap("open a string", 'op_name="jit(step)/layer_60', "op_name=jit(step)/layer_60")
    writer.swap("a wrong shape", "x.0 = f32[64,64]", "x.0 = f32[64]")
    writer.swap("a wrong shape", "ROOT s = f32[]", "ROOT s = f32[1]")

    at = writer.text.index("\n", writer.text.index("  x.3000 = "))
    writer.type("type a comment", at, " // todo")
    writer.change("undo", (at, at + 8, ""))
    writer.swap("open a comment", "  x.7800 = ", "  /* x.7800 = ")
    writer.swap("open a comment", "  x.100 = ", "  /*x.100 = ")

    at = writer.text.index("body.9 {")
    body = writer.text[at : writer.text.index("body.10 {")]
    writer.change("move a computation", (at, at + len(body), ""))
    to = writer.text.index("body.150 {")
    writer.change("move a computation", (to, to, body))
    writer.change("undo", (to, to + len(body), ""), (at, at, body))


def main() -> None:
    text = program()
    writer = _Writer(text)
    _write(writer)
    assert writer.text == text
    RECORDING.write_text("[\n" + ",\n".join(map(json.dumps, writer.steps)) + "\n]\n")


if __name__ == "__main__":
    main()
