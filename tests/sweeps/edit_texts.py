"""Edits files of HLO text at random, as somebody who writes does, and looks at each step.

    python -m tests.sweeps.edit_texts FILE ... --count 200

After each edit module and diagnostics are compared with those of a new reading of the text.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from pathlib import Path

from hlo.editor.document import Document, Edit
from tests.harness.edited import difference

_PIECES = (
    "%", "}", "{", "(", ")", ",", "\n", '"', "'", "/*", "*/", "//", "ROOT ", "ENTRY ", "f32[2]{0}",
    " = ", "[", "]", "#0", "\r\n", "\t", "\U0001f600", "\n}\n\n%foo {\n", "HloModule m\n",
    "%a.1 = f32[] constant(1)\n", "foo (p: f32[]) -> f32[] {\n", "metadata={", "to_apply=",
    "calls={\n %q = f32[] constant(1)\n ROOT %z = f32[] negate(%q)\n}", "f32[2] add(x, y)",
    ', backend_config={"a": 1}', "control-predecessors={", "\\", "é",
)  # fmt: skip
_WORD = re.compile(r"%?[\w.-]+")
# Between two computations, and an instruction's line.
_BOUNDARY = re.compile(r"\}[^{}\n]*\n\s*(?:ENTRY )?%?[\w.-]+ (?:\(.*)?\{\n")
_LINE = re.compile(r"^[ \t]*(?:ROOT )?%?[\w.-]+ = .*\n", re.M)
_HEADS = ("foo {\n", "ENTRY main {\n", "%f (p: f32[]) -> f32[] {\n")


def some_edit(rng: random.Random, text: str) -> Edit:
    """Return an edit: a word replaced, a line or computation moved, copied or deleted, a piece."""
    how, at = rng.random(), rng.randrange(len(text) + 1)
    if how < 0.15 and (edit := _edit_of_structure(rng, text)) is not None:
        return edit
    if how < 0.3:
        word = _WORD.search(text, at) or _WORD.search(text)
        other = _WORD.search(text, rng.randrange(len(text) + 1)) or word
        if word is not None and other is not None:
            return Edit(word.start(), word.end(), other[0])
    if how < 0.55:
        start = text.rfind("\n", 0, at) + 1
        end = start
        for _ in range(rng.choice((1, 1, 1, 2, 8))):
            end = text.find("\n", end) + 1 or len(text)
        if rng.random() < 0.5:
            return Edit(start, end, "")
        to = text.rfind("\n", 0, rng.randrange(len(text) + 1)) + 1
        return Edit(to, to, text[start:end])
    if how < 0.6:
        start = text.rfind("\n\n", 0, at) + 2 if "\n\n" in text[:at] else 0
        end = text.find("\n\n", at) + 2 if "\n\n" in text[at:] else len(text)
        to = rng.choice((start, text.rfind("\n\n", 0, rng.randrange(len(text) + 1)) + 2))
        return Edit(start, end, "") if rng.random() < 0.5 else Edit(to, to, text[start:end])
    if how < 0.7:
        bracket = re.compile(r"[][(){}\"'/=,]").search(text, at)
        if bracket is not None:
            return Edit(bracket.start(), bracket.end(), "")
    end = min(len(text), at + rng.choice((0, 1, 2, 40)))
    return Edit(at, end, rng.choice(_PIECES) if how < 0.95 else "")


def _edit_of_structure(rng: random.Random, text: str) -> Edit | None:
    """Return an edit that merges two computations or splits one, None where that is not possible.

    A computation is merged with the next one without the brace, the head, or both.
    """
    boundaries, lines = list(_BOUNDARY.finditer(text)), list(_LINE.finditer(text))
    if boundaries and rng.random() < 0.6:
        start, end = rng.choice(boundaries).span()
        brace, head = text.index("\n", start) + 1, text.rindex("\n", 0, end - 1) + 1
        return Edit(*rng.choice(((start, end), (start, brace), (head, end))), "")
    if not lines:
        return None
    at = rng.choice(lines).start()
    return Edit(at, at, rng.choice(("}\n", "}\n\n", "")) + rng.choice(_HEADS))


def edit_text(text: str, rng: random.Random, count: int) -> tuple[int, str]:
    """Edit a text; returns after how many edits something is wrong, and what, or the count."""
    document = Document("x", text)
    for number in range(count):
        undo = document.text
        trail = []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            trail.append(some_edit(rng, document.text))
            document.edit(trail[-1])
        document.update()
        problem = difference(document)
        if not problem and rng.random() < 0.5:
            # Most of the time a text is right or nearly so.
            trail.append(Edit(0, len(document.text), "(undone)"))
            document.replace(rng.choice((undo, undo, text)))
            document.update()
            problem = difference(document)
        if problem:
            return number + 1, f"{problem}\nafter {trail}"
    return count, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--count", type=int, default=50, help="edits of each file")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    done = failed = 0
    for path in args.files:
        text = Path(path).read_text(errors="surrogateescape")
        edits, problem = edit_text(text, random.Random(f"{path} {args.seed}"), args.count)
        done += edits
        if problem:
            print(f"{path}: {problem}", flush=True)
            failed += 1
    print(f"{done} edits, {failed} files failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
