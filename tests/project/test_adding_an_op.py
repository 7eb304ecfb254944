"""`docs/adding-an-op.md` says all that a new elementwise operation needs: its example is added."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hlo
from hlo.codegen.scalar import native
from hlo.ops.elementwise import arithmetic
from hlo.values.types import ELEMENT_TYPES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding-an-op.md").read_text()
_SECTION = PAGE.partition("\n## An elementwise operation\n")[2].partition("\n## ")[0]
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)
BLOCKS = _BLOCK.findall(_SECTION)
_ADDED = {file: body for _, file, body in BLOCKS if file}


@pytest.fixture
def softsign() -> Iterator[None]:
    """The operation of the page, added as it says, for the time of a test."""
    before = dict(hlo.OPS), dict(native.NATIVE)
    try:
        exec(_ADDED["hlo/ops/elementwise/arithmetic.py"], vars(arithmetic))
        entry = _ADDED["hlo/codegen/scalar/native.py"]
        native.NATIVE.update(eval(f"{{{entry}}}", vars(native)))
        assert [len(t) for t in (hlo.OPS, native.NATIVE)] == [len(t) + 1 for t in before]
        yield
    finally:
        for table, old in zip((hlo.OPS, native.NATIVE), before, strict=True):
            for name in table.keys() - old.keys():
                del table[name]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("softsign")
def test_what_the_page_runs_prints_what_it_says() -> None:
    (program,) = (body for kind, file, body in BLOCKS if kind == "python" and not file)
    (said,) = (body for kind, _, body in BLOCKS if kind == "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue() == said


@pytest.mark.usefixtures("softsign")
@pytest.mark.parametrize("et", ["f64", "f32", "bf16", "f16", "f8e5m2", "f8e4m3fn"])
def test_both_backends_compute_the_same(et: str) -> None:
    module = hlo.parse(
        f"HloModule m ENTRY e {{ x = {et}[257] parameter(0) s = {et}[257] softsign(x) "
        f"y = {et}[257] multiply(s, x) ROOT r = {et}[257] softsign(y) }}"
    )
    hlo.verify(module)
    x = np.linspace(-40, 40, 257).astype(ELEMENT_TYPES[et].dtype)
    x[:4] = np.nan, np.inf, -np.inf, -0.0
    want = hlo.interpret(module, x)
    got = hlo.compile(module, cache=False)(x)
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.usefixtures("softsign")
def test_everything_else_reads_the_declaration() -> None:
    spec = hlo.OPS["softsign"]
    for example in spec.examples:
        module = hlo.parse(example)
        hlo.verify(module)
        assert str(hlo.parse(str(module))) == str(module)
        assert str(hlo.from_proto(hlo.to_proto(module)).entry) == str(module.entry)
    with pytest.raises(hlo.HloError, match=r"softsign.*s32.*floating-point") as caught:
        text = "HloModule m ENTRY e { x = s32[2] parameter(0) ROOT r = s32[2] softsign(x) }"
        hlo.verify(hlo.parse(text))
    assert caught.value.diagnostics[0].code == "type-mismatch"
    # Folded, applied to elements, and of dynamic size.
    folded = hlo.parse("HloModule m ENTRY e { c = f32[] constant(-3) ROOT r = f32[] softsign(c) }")
    folded = hlo.optimize(folded, "constant_folding")
    assert folded.entry.root.opcode == "constant"
    mapped = hlo.parse(
        "HloModule m f { a = f32[] parameter(0) ROOT s = f32[] softsign(a) } "
        "ENTRY e { x = f32[<=5] parameter(0) ROOT r = f32[<=5] map(x), dimensions={0}, to_apply=f }"
    )
    x = np.float32([1, -3])
    assert hlo.interpret(mapped, x).tolist() == hlo.compile(mapped)(x).tolist() == [0.5, -0.75]


def test_the_files_of_the_page_are_there() -> None:
    named = re.findall(r"`((?:hlo|tests|docs)/[\w/]+\.\w+)`", PAGE)
    assert named and all((ROOT / name).exists() for name in named), named
    assert set(_ADDED) <= set(re.findall(r"^\| `([^`]+)` \|", _SECTION, re.M))
