"""Every operation of StableHLO, CHLO and Shardy, beside XLA's conversion of the same text.

The cases stand in `stablehlo/*.mlir`, one behind each `// -----`. Without a note the two modules
have equal results; the notes of others, in the first line of a case:

    // STRUCTURE: what they do takes devices or a host, or is random: the instructions are the same.
    // ERROR: words of the error; XLA refuses the text too.
    // XLA REFUSES: why it is taken here.
    // SINCE 0.12: the same instructions, to a jaxlib that is as new; older ones refuse the text.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import jaxlib
import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.frontends.stablehlo.ops import HANDLERS, NOT_TAKEN, STRUCTURE
from hlo.ir import Instruction, Module
from hlo.testing.sampling import random_value
from hlo.values.types import compatible
from tests.harness.conversions import Conversion, convert_all
from tests.harness.oracle import assert_same
from tests.harness.paths import DOCS, TESTS

FOLDER = TESTS / "stablehlo"
DIALECTS = ("stablehlo", "chlo", "sdy", "func")
JAXLIB = tuple(map(int, jaxlib.__version__.split(".")[:2]))
# Operations of newer ones.
NEWER = {"stablehlo.collective_reduce": (0, 12)}
_SAME = hlo.PrintOptions.fingerprint()


def _cases() -> dict[str, str]:
    found = {}
    for path in sorted(FOLDER.glob("*.mlir")):
        for text in re.split(r"^// -----\n", path.read_text(), flags=re.M):
            found[f"{path.stem}-{sum(k.startswith(path.stem) for k in found)}"] = text
    return found


CASES = _cases()


@pytest.fixture(scope="module")
def conversions() -> dict[str, Conversion]:
    return dict(zip(CASES, convert_all(list(CASES.values())), strict=True))


def _note(text: str) -> tuple[str, str]:
    m = re.match(r"// (STRUCTURE|ERROR|XLA REFUSES|SINCE (\d+)\.(\d+))\b:?\s*(.*)", text)
    if not m:
        return "", ""
    if m[2] is None:
        return m[1], m[4]
    return ("STRUCTURE" if (int(m[2]), int(m[3])) <= JAXLIB else "XLA REFUSES"), m[4]


@pytest.mark.parametrize("name", CASES)
def test_what_xla_makes_of_it(name: str, conversions: dict[str, Conversion]) -> None:
    text, xla = CASES[name], conversions[name]
    kind, words = _note(text)
    if kind == "ERROR":
        _refused(text, words)
        if xla.generic is not None:
            _refused(xla.generic, "")
        assert xla.proto is None
        return
    module = hlo.from_stablehlo(text, "case.mlir")
    hlo.verify(module)
    assert str(hlo.parse(str(module))) == str(module)
    if xla.generic is not None:
        generic = hlo.from_stablehlo(xla.generic)
        assert hlo.print_module(generic, _SAME) == hlo.print_module(module, _SAME)
    if kind == "XLA REFUSES":
        assert xla.error and xla.proto is None
        return
    assert xla.proto is not None, xla.error
    want = hlo.from_proto(xla.proto)
    shapes = [p.shape for p in module.entry.parameters]
    assert shapes == [p.shape for p in want.entry.parameters]
    assert compatible(module.entry.result_shape, want.entry.result_shape)
    if kind == "STRUCTURE":
        assert _said(module) == _said(want)
        return
    for edges in (False, True):
        rng = np.random.default_rng(7)
        args = [random_value(rng, shape, edges=edges) for shape in shapes]
        assert_same(hlo.interpret(module, *args), hlo.interpret(want, *args), what=name)


def _refused(text: str, words: str) -> None:
    with pytest.raises(HloError) as e:
        hlo.from_stablehlo(text, "case.mlir")
    assert words in str(e.value) and re.match(r"case\.mlir:\d+:\d+: error: ", str(e.value))


# XLA has some of these besides, which change nothing.
_GLUE = ("tuple", "get-tuple-element", "parameter", "constant", "reshape", "broadcast", "iota")


def _said(module: Module) -> tuple[Counter[str], dict[str, Any], dict[str, Any]]:
    """Return what instructions, header and tables say, without names and the order."""
    reached = [module.entry]
    for comp in reached:
        reached += [c for i in comp for c in i.called_computations if c not in reached]
    said = Counter(_words(i) for comp in reached for i in comp if i.opcode not in _GLUE)
    said += Counter(f"parameter {p.shape} {_notes(p)}"
                    for p in module.entry.parameters)  # fmt: skip
    header = {k: str(v) for k, v in module.attrs.items() if k in _HEADER}
    return said, header, module.tables


_HEADER = ("input_output_alias", "buffer_donor")


def _words(inst: Instruction) -> str:
    skipped = {*inst.spec.computation_attrs, "constrain_layout"}
    attrs = {k: str(v) for k, v in inst.attrs.items() if k not in skipped and v is not None}
    return f"{inst.opcode} {inst.shape} {attrs} {_notes(inst)}"


def _notes(inst: Instruction) -> str:
    found = {k: str(dict(v) if k == "frontend_attributes" else v)
             for k, v in sorted(inst.annotations.items())}  # fmt: skip
    # What has no location in the text is from the text itself, which is called so.
    if 'source_file="-"' in found.get("metadata", ""):
        del found["metadata"]
    return str(found)


# --- nothing is left out ------------------------------------------------------------------------


def _dialect(name: str) -> set[str]:
    """Return the operations of a dialect as jaxlib's own bindings list them."""
    path = Path(jaxlib.__file__).parent / "mlir" / "dialects" / f"_{name}_ops_gen.py"
    return set(re.findall(r'OPERATION_NAME = "([^"]+)"', path.read_text()))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_operation_is_taken_or_has_a_reason(dialect: str) -> None:
    known = HANDLERS.keys() | NOT_TAKEN.keys() | STRUCTURE
    operations = _dialect(dialect)
    assert len(operations) >= 5 and operations <= known, operations - known
    listed = {n for n in known if n.startswith(f"{dialect}.") and JAXLIB >= NEWER.get(n, ())}
    assert listed <= operations, f"there is no such operation: {listed - operations}"
    assert not HANDLERS.keys() & NOT_TAKEN.keys()


def test_every_operation_that_is_taken_has_a_case() -> None:
    texts = "\n".join(t for t in CASES.values() if _note(t)[0] != "ERROR")
    # MHLO's operations are StableHLO's by other names.
    names = [n for n in HANDLERS if not n.startswith("mhlo.")]
    missing = [n for n in names if not re.search(rf"\b{re.escape(n)}(?![\w.-])", texts)]
    assert not missing


def test_the_page_lists_the_same_operations() -> None:
    page = (DOCS / "stablehlo.md").read_text()
    rows = dict(re.findall(r"^\| `([\w.-]+)` \| (.*?) \|$", page, flags=re.M))
    assert rows == NOT_TAKEN
    for dialect in DIALECTS:
        block = re.search(rf"^### {dialect}\n+```text\n(.*?)```", page, flags=re.M | re.S)
        assert block is not None, dialect
        taken = sorted(n.partition(".")[2] for n in HANDLERS if n.startswith(f"{dialect}."))
        assert block[1].split() == taken, f"{dialect}: {' '.join(taken)}"
