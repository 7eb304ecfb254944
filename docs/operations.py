"""Prints docs/operations.md: every operation of the documents, and what here it is.

    python docs/operations.py > docs/operations.md

The names come from docs/operations.txt, all else from the builder, the op table and the tests.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from hlo.builder import XlaBuilder
from hlo.errors import HloError
from hlo.ops import OPS
from hlo.ops.spec import Emitter
from hlo.text import parse
from hlo.types import ELEMENT_TYPES
from hlo.verifier import verify

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from builder_cases import CASES, NOT_RUN  # noqa: E402

DOCUMENTS = {"4": "004", "0": "000", "2": "002", "3": "003"}
NOT_THERE = "-"
AS_THE_PAGE_SAYS = "as the page says"
_HEAD = """# Operations

Every operation of the five documents: what each calls it, and what here it is. `make operations`
writes this page, from `docs/operations.txt`, the builder, the op table and the tests.

- *004 ... 003*: its name in each document that describes operations, oldest first; {dash} where it
  has none. (001, the fifth, describes layouts.)
- *Builder*: the call on an `XlaBuilder`; `...` are arguments that may be left out.
- *Reference*: whether the interpreter has it. *Compiled*: whether code is made for it, and as what.
- *Types*: the element types with which an example of the op table is valid.
- *Tests*: programs of the builder's tests, compared with XLA:CPU or only read by XLA's parser, and
  examples of the op table, which are parsed, verified, interpreted, compiled and compared with
  XLA:CPU.
- *Beside the page*: where XLA, or this project, does other than a page says, and in parentheses the
  test that shows it.

A test is named by its file in `tests/` and what is in brackets there: for `test_op_table[abs-0]`,
run `pytest tests/test_op_table.py -k "[abs-0]"`; for `test_verify::test_x`, add `-k test_x`.
""".format(dash=f"`{NOT_THERE}`")


@dataclass(frozen=True)
class Deviation:
    """Where XLA, or this project, does other than a page says; the test that shows it."""

    text: str
    test: str


@dataclass(frozen=True)
class Row:
    """One operation: its name by document, the builder's method, opcodes, and what deviates."""

    name: str
    names: dict[str, str]
    method: str
    opcodes: tuple[str, ...]
    deviations: tuple[Deviation, ...]


def read_rows() -> dict[str, list[Row]]:
    """Return the rows of docs/operations.txt by section."""
    found: dict[str, list[Row]] = {}
    section = ""
    for line in (HERE / "operations.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
            found[section] = []
        elif line and line[0] != "#":
            found[section].append(_row(line, section))
    return found


def _row(line: str, section: str) -> Row:
    if section == "beyond":
        return Row("", {}, line, (), ())
    if section == "interface":
        name, here, *rest = line.split("; ")
        return Row(name, {}, here, (), tuple(map(_deviation, rest)))
    name, documents, method, opcodes, *rest = line.split("; ")
    names = {}
    for word in documents.split():
        digit, _, other = word.partition("=")
        names[DOCUMENTS[digit]] = other or name
    return Row(name, names, method, tuple(opcodes.split()), tuple(map(_deviation, rest)))


def _deviation(part: str) -> Deviation:
    text, _, test = part.partition(" @")
    return Deviation(text, test)


# --- cells --------------------------------------------------------------------------------------


def _call(method: str) -> str:
    """Return a method with the names of the arguments that it needs."""
    member = getattr(XlaBuilder, method, None)
    if not callable(member):
        return f"`{method}`"
    parameters = inspect.signature(member).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.name != "self"]
    optional = any(p.default is not p.empty for p in parameters)
    return f"`{method}({', '.join([*needed, *(['...'] if optional else [])])})`"


# One element type for each kind, and the word for the kind.
_KINDS = {
    "pred": "pred", "s32": "signed", "u32": "unsigned", "f32": "float", "f8e4m3fn": "f8",
    "c64": "complex",
}  # fmt: skip
_TYPE = re.compile(r"\b(" + "|".join(sorted(ELEMENT_TYPES, key=len, reverse=True)) + r")(?=\[)")


def _types(opcode: str) -> str:
    """Return the kinds of element types that an example of an operation is valid with."""
    accepted: list[str] = []
    for example in OPS[opcode].examples:
        own = _TYPE.search(example)
        if own is None:
            continue
        for et, kind in _KINDS.items():
            if kind not in accepted and _is_valid(re.sub(rf"\b{own[1]}(?=\[)", et, example)):
                accepted.append(kind)
    if not accepted:
        own = _TYPE.search(OPS[opcode].examples[0])
        return own[1] if own else "token"
    words = [k for k in _KINDS.values() if k in accepted]
    if len(words) == len(_KINDS):
        return "all"
    if "float" in words and "f8" in words:
        words.remove("f8")
    if "signed" in words and "unsigned" in words:
        words[words.index("signed")] = "integer"
        words.remove("unsigned")
    return ", ".join(words)


def _is_valid(text: str) -> bool:
    try:
        verify(parse(text))
    except HloError:
        return False
    return True


def _compiled(opcode: str) -> str:
    return f"yes: {OPS[opcode].emitter.value}"


def _tests(row: Row) -> str:
    run = sum(name.split(":")[0] == row.method for name in CASES)
    read = sum(name.split(":")[0] == row.method for name in NOT_RUN)
    parts = [f"{run} beside XLA"] if run else []
    parts += [f"{read} read by XLA"] if read else []
    examples = len(OPS[_main(row)].examples)
    return ", ".join([*parts, f"{examples} example{'s' if examples > 1 else ''}"])


def _beside(row: Row) -> str:
    parts = [d.text + (f" (`{d.test}`)" if d.test else "") for d in row.deviations]
    return "; ".join(parts) or AS_THE_PAGE_SAYS


def _main(row: Row) -> str:
    """Return the opcode that a method is about: the first that is not one for tokens."""
    names = [o for o in row.opcodes if OPS[o].emitter is not Emitter.STRUCTURE]
    return (names or list(row.opcodes))[0]


# --- the page -----------------------------------------------------------------------------------


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def cells(row: Row) -> list[str]:
    """Return a row of the table of operations."""
    main = _main(row)
    return [
        row.name,
        *(row.names.get(d, NOT_THERE) for d in DOCUMENTS.values()),
        _call(row.method),
        ", ".join(f"`{o}`" for o in row.opcodes),
        "yes",
        _compiled(main),
        _types(main),
        _tests(row),
        _beside(row),
    ]


def render() -> str:
    """Return the page."""
    rows = read_rows()
    head = ["Operation", *DOCUMENTS.values(), "Builder", "Opcodes", "Reference", "Compiled",
            "Types", "Tests", "Beside the page"]  # fmt: skip
    interface = [[f"`{r.name}`", _call(r.method), _beside(r)] for r in rows["interface"]]
    beyond = [[_call(r.method), inspect.getdoc(getattr(XlaBuilder, r.method)) or ""]
              for r in rows["beyond"]]  # fmt: skip
    return "\n".join(
        [
            _HEAD,
            _table(head, [cells(r) for r in rows["operations"]]),
            "## The rest of the interface of 004\n",
            _table(["There", "Here", "Beside the page"], interface),
            "## Beyond the documents\n",
            _table(["Builder", "What it does"],
                   [[call, doc.split("\n")[0]] for call, doc in beyond]),
        ]
    )  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(render())
