"""Prints docs/operations.md: every operation of the documents and its counterpart here.

    python -m docs.operations > docs/operations.md

The names come from docs/operations.txt, all else from the builder, the op table and the tests:
`Types` from tests/harness/type_probes.txt, programs that are tried with every type.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from hlo.codegen.targets.cpu import cpu_target
from hlo.compiler.lowering import Clock, emit
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.builder import XlaBuilder
from hlo.frontends.text import parse
from hlo.ir import Module
from hlo.ops import OPS
from hlo.ops.spec import Category
from hlo.runtime.jit import host_machine
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType, Shape
from hlo.values.types.element import Kind
from tests.harness.builder_cases import CASES, NOT_RUN, all_cases
from tests.harness.type_probes import Probe, accepted, probes
from tests.ops.test_op_table import arguments, host

HERE = Path(__file__).resolve().parent

DOCUMENTS = {"4": "004", "0": "000", "2": "002", "3": "003"}
NOT_THERE = "-"
AS_THE_PAGE_SAYS = "as the page says"
_HEAD = """# Operations

Every operation of the five documents: its name in each, and its counterpart here. `make operations`
generates this page, from `docs/operations.txt`, the builder, the op table and the tests.

- *004 ... 003*: its name in each document that describes operations, oldest first; {dash} where it
  has none. (001, the fifth, describes layouts.)
- *Builder*: the call on an `XlaBuilder`; `...` are optional arguments.
- *Reference*: whether the interpreter runs the op table's examples of it. *Compiled*: whether
  they are compiled, and as what.
- *Types*: the element types of its operands, after a colon those of one operand or form;
  after `to` those of the result, if they differ. Without operands, those of the result.
- *Tests*: programs of the builder's tests, compared with XLA:CPU or only read by XLA's parser, and
  examples of the op table, which are parsed, verified, interpreted, compiled and compared with
  XLA:CPU. Its types are tested by `tests/values/test_types.py`.
- *Beside the page*: deviations of XLA, or this project, from a page, and in parentheses the test
  that shows it.

A test is given by its file in `tests/` and its id in brackets, or by its name.
`pytest tests/ops/test_op_table.py -k "[abs-0] or [abs-1]"` runs `test_op_table[abs-0, abs-1]`,
`pytest tests/verifier/test_verify.py -k test_x` would run
`test_verify::test_x`; ids of several words are written as `pytest --collect-only` prints them.
""".format(dash=f"`{NOT_THERE}`")


@dataclass(frozen=True)
class Deviation:
    """A deviation of XLA, or this project, from a page, and the test that shows it."""

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
        elif line and line[0] != "#" and section != "names":
            found[section].append(_row(line, section))
    return found


def read_names() -> set[tuple[str, str]]:
    """Return the pairs of document and name in docs/operations.txt."""
    lines = re.findall(r"^(\d{3}): (.*)$", (HERE / "operations.txt").read_text(), re.M)
    return {(document, name) for document, names in lines for name in names.split()}


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
    needed = [
        p.name for p in parameters if p.default is p.empty and p.name not in ("self", "builder")
    ]
    optional = any(p.default is not p.empty for p in parameters)
    return f"`{method}({', '.join([*needed, *(['...'] if optional else [])])})`"


_WORDS = {
    Kind.PRED: "pred", Kind.SIGNED: "signed", Kind.UNSIGNED: "unsigned", Kind.FLOAT: "float",
    Kind.COMPLEX: "complex",
}  # fmt: skip


def _words(types: Collection[ElementType]) -> str:
    """Return the kinds that some types are all of, and the names of those that are not."""
    parts: list[str] = []
    for kind, word in _WORDS.items():
        of_kind = [t for t in ELEMENT_TYPES.values() if t.kind is kind]
        present = [t for t in of_kind if t in types]
        parts += [word] if len(present) == len(of_kind) else [t.name for t in present]
    if parts == list(_WORDS.values()):
        return "all"
    if "signed" in parts and "unsigned" in parts:
        parts[parts.index("signed")] = "integer"
        parts.remove("unsigned")
    return ", ".join(parts)


def types_of(name: str) -> str:
    """Return the element types that an operation takes, and those of its result if they differ."""
    return "; ".join(_types(probe) for probe in probes()[name])


def _types(probe: Probe) -> str:
    if not re.search(r"\b[TU]\[", probe.text):
        return "token"
    programs = accepted(probe)
    if len(probe.second_types) > 1:
        seconds = {t: [u for have, u in programs if have is t] for t, _ in programs}
        results = {t: f" to {_words(some)}" for t, some in seconds.items()}
    else:
        results = _results({t: program for (t, _), program in programs.items()})
    text = "; ".join(
        _words([t for t, r in results.items() if r == result]) + result
        for result in dict.fromkeys(results.values())
    )
    return f"{probe.operand}: {text}" if probe.operand else text


def _results(programs: dict[ElementType, Module]) -> dict[ElementType, str]:
    """Return what to say of the result for each type: nothing if it is T's or another operand's."""
    types = {t: _types_in([p.entry.result_shape]) for t, p in programs.items()}
    if len(set(map(tuple, types.values()))) > 1:
        return {t: _derived(t, some) for t, some in types.items()}
    given = {
        et for t, p in programs.items() for et in _types_in(p.entry.parameter_shapes) if et is not t
    }
    fixed = [et for et in types[next(iter(types))] if et not in given]
    told = f" to {fixed[0]}" if fixed and (len(types) > 1 or fixed[0] not in types) else ""
    return dict.fromkeys(types, told)


def _types_in(shapes: Iterable[Shape]) -> list[ElementType]:
    """Return the element types of all arrays in some shapes."""
    leaves = [leaf for shape in shapes for _, leaf in shape.leaves()]
    return [leaf.element_type for leaf in leaves if isinstance(leaf, ArrayShape)]


def _derived(t: ElementType, results: list[ElementType]) -> str:
    """Say how the type of a result follows from T, if it is another one."""
    if t in results:
        return ""
    return " to complex" if results[0].is_complex else " to float"


def _reference(opcode: str) -> str:
    """Return `yes` if the interpreter has a value for every example of an operation."""
    return _yes(opcode, lambda m: interpret(m, arguments(m, opcode), host(m)))


def _compiled(opcode: str) -> str:
    """Return `yes` if LLVM IR is made of every example of an operation, and as what."""
    machine = host_machine()
    target = cpu_target(machine.triple, machine.data_layout, machine.features)
    emitted = _yes(opcode, lambda m: emit(m, "main", target, Clock(), passes=""))
    return f"{emitted}: {OPS[opcode].category.value}" if emitted == "yes" else emitted


def _yes(opcode: str, does: Callable[[Module], object]) -> str:
    for example in OPS[opcode].examples:
        try:
            does(parse(example))
        except HloError:
            return "no"
    return "yes"


def _tests(row: Row) -> str:
    kinds = (("beside XLA", CASES), ("read by XLA", NOT_RUN))
    parts = [(f"{how} ", "test_builder_ops", _cases(row, cases)) for how, cases in kinds]
    parts.append(("", "test_op_table", _examples(row)))
    return ", ".join(f"{how}`{file}[{', '.join(ids)}]`" for how, file, ids in parts if ids)


def _cases(row: Row, cases: Iterable[str]) -> list[str]:
    return [name for name in cases if name.split(":")[0] == row.method]


def _examples(row: Row) -> list[str]:
    return [f"{_main(row)}-{n}" for n in range(len(OPS[_main(row)].examples))]


def tests_of(row: Row) -> list[str]:
    """Return the tests of an operation: `file[id]`."""
    built = _cases(row, all_cases())
    return [f"test_builder_ops[{i}]" for i in built] + [
        f"test_op_table[{i}]" for i in _examples(row)
    ]


def _beside(row: Row) -> str:
    parts = [d.text + (f" (`{d.test}`)" if d.test else "") for d in row.deviations]
    return "; ".join(parts) or AS_THE_PAGE_SAYS


def _main(row: Row) -> str:
    """Return the opcode that a method is about: the first that is not one for tokens."""
    names = [o for o in row.opcodes if OPS[o].category is not Category.STRUCTURE]
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
        _reference(main),
        _compiled(main),
        types_of(row.method if row.method in probes() else main),
        _tests(row),
        _beside(row),
    ]


def _said(method: Callable[..., object]) -> str:
    """Return a docstring without its example."""
    return (inspect.getdoc(method) or "").partition("\n\n>>> ")[0]


def render() -> str:
    """Return the page."""
    rows = read_rows()
    head = ["Operation", *DOCUMENTS.values(), "Builder", "Opcodes", "Reference", "Compiled",
            "Types", "Tests", "Beside the page"]  # fmt: skip
    interface = [[f"`{r.name}`", _call(r.method), _beside(r)] for r in rows["interface"]]
    beyond = [[_call(r.method), _said(getattr(XlaBuilder, r.method))]
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
