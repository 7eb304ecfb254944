"""What notebooks show: escaped, short, without scripts; and one line as `repr`."""

from __future__ import annotations

import html
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.debug.trace.finding import Finding
from hlo.profiler.records import KernelTime
from hlo.support.notebook import LINES, ROWS, cut, table

# Names of computations and modules are free; op_name and file names are whatever a framework says.
HOSTILE = "<script>alert(1)</script>"
TEXT = """HloModule m
half { p = f32[2] parameter(0)  ROOT q = f32[2] negate(p) }
ENTRY main {
  x = f32[2] parameter(0)
  y = f32[2] call(x), to_apply=half
  ROOT z = f32[2] log(y), metadata={op_name="<script>alert(1)</script>"
      source_file="<b>.py" source_line=3}
}
"""


class _Checker(HTMLParser):
    """Collects the elements and the text, and fails for what notebooks remove or is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert all(name in ("style", "colspan") for name, _ in attrs), attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(value: Any) -> str:
    """Return the text of what a notebook shows of a value."""
    checker = _Checker()
    checker.feed(value._repr_html_())
    checker.close()
    assert not checker.open
    known = {"div", "p", "details", "summary", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    assert checker.tags <= known
    assert "\n" not in repr(value) and len(repr(value)) < 300
    return checker.text


@pytest.fixture
def module() -> hlo.Module:
    return hlo.parse(TEXT)


def test_module(module: hlo.Module) -> None:
    text = shown(module)
    assert "Module m: (x: f32[2]) -> f32[2], 5 instructions in 2 computations" in text
    assert "ENTRY main: 3 instructions" in text and "ROOT %z = f32[2]{0} log(%y)" in text
    assert "1 other computation" in text and "half2" in text


def test_computation_and_hostile_names(module: hlo.Module) -> None:
    module.entry.root.name = HOSTILE
    module.name = HOSTILE
    assert f"ROOT %{HOSTILE} = " in shown(module.entry)
    assert f"Module {HOSTILE}" in shown(module)


def test_long_computations_are_cut() -> None:
    count = LINES + 40
    chain = "".join(f"v{n + 1} = f32[] negate(v{n})\n" for n in range(count))
    text = shown(hlo.parse(f"HloModule m ENTRY e {{ v0 = f32[] parameter(0)\n{chain} }}"))
    assert f"%v{LINES - 1} =" in text and f"%v{LINES} =" not in text
    assert "and 41 more instructions" in text


def test_large_constants_are_elided() -> None:
    numbers = ",".join(map(str, range(1000)))
    module = hlo.parse(f"HloModule m ENTRY e {{ ROOT c = s32[1000] constant({{{numbers}}}) }}")
    assert "constant({...})" in shown(module)


def test_module_without_entry() -> None:
    assert "0 instructions in 0 computations" in shown(hlo.Module("empty"))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("f32[8,4]", "f32[8,4]{1,0}, 32 elements, 128 B"),
        ("f32[3,5]{1,0:T(4,8)}", "15 elements, 128 B"),
        ("f32[<=8]", "at most 8 elements, 32 B"),
        ("f32[?]", "f32[?]{0}"),
        ("token[]", "token[]"),
        ("()", "0 leaves"),
        ("(f32[2], (s8[3], pred[]))", "1,0s8[3]{0}33 B"),
    ],
)
def test_shape(shape: str, words: str) -> None:
    assert words in shown(hlo.parse_shape(shape))


def test_leaves_of_large_tuples_are_counted() -> None:
    shape = hlo.TupleShape((hlo.parse_shape("f32[2]"),) * (ROWS + 5))
    html_text = shape._repr_html_()
    assert f"{ROWS + 5} leaves" in html_text and "and 5 more" in html_text


def test_trace(module: hlo.Module) -> None:
    trace = hlo.trace(module, np.array([-1, 1], np.float32), passes="", backend="reference")
    assert repr(trace).startswith("<Trace of m: ") and "1 with NaN" in repr(trace)
    text = shown(trace)
    assert "<b>.py:3" in text and "call" not in repr(trace.of("z"))
    assert repr(trace.of("z")[0]) == "<TracedValue z: f32[2] from 0 to 0, 1 NaN, 0 inf>"


def test_find_nan(module: hlo.Module) -> None:
    found = hlo.find_nan(module, np.array([-1, 1], np.float32), backend="reference")
    assert isinstance(found, Finding)
    assert "z (log) makes NaN" in repr(found) and HOSTILE in shown(found)
    assert "operandyf32[2]-110" in shown(found) and "resultzf32[2]000101" in shown(found)


def test_first_divergence(module: hlo.Module) -> None:
    other = hlo.parse(TEXT.replace(" log(y)", " sqrt(y)"))
    found = hlo.first_divergence(
        module, np.array([-2, -4], np.float32), against=other, backend="reference"
    )
    assert found is not None and "at z (log)" in repr(found)
    text = shown(found)
    assert HOSTILE in text and "operandy" in text and "expected" in text


def test_profile() -> None:
    from hlo.profiler.profile import Profile, Spread

    entries = tuple(
        KernelTime(f"k{n}", "kernel", opcode=HOSTILE, self_s=1.0) for n in range(ROWS + 2)
    )
    found = Profile(HOSTILE, runs=1, wall_s=Spread(1, 1, 1), entries=entries)
    assert repr(found) == f"<Profile of {HOSTILE}: 1 run on 1 thread, 1 s a run>"
    text = shown(found)
    assert f"k0 = {HOSTILE}" in text and "and 2 more" in text and "of peak" not in text


def test_memory_timeline(module: hlo.Module) -> None:
    found = hlo.memory_timeline(module)
    assert "<MemoryTimeline of m: at most " in repr(found) and "live at the peak" in shown(found)


def test_comparison() -> None:
    from hlo.profiler.benchmark import Comparison, Measured, Side
    from hlo.profiler.intervals import Estimate

    side = Measured(Side(f"{HOSTILE}.hlo"), Estimate(1e-3, 9e-4, 2e-3, 20), "0.1", 0.5, 100)
    found = Comparison((side,), None, ("busy",), (0,))
    assert repr(found) == f"<Comparison of {HOSTILE}.hlo: 1 ms (900 us to 2 ms, 95%)>"
    assert "warning: busy" in shown(found) and f"{HOSTILE}.hlo" in shown(found)


def test_difference_and_reduction(module: hlo.Module) -> None:
    found = hlo.diff(module, hlo.parse(TEXT.replace(" log(y)", " sqrt(y)")))
    assert "1 changed" in shown(found) and "log: now sqrt" in shown(found)
    small = hlo.reduce(module, lambda m: any(i.opcode == "log" for i in m.instructions()))
    assert "log(%p0)" in shown(small)


def test_tables() -> None:
    assert table(["a"], []) == ""
    found = table(["name", "none", "n"], [["<&", "", "1"]], count=4)
    assert html.escape("<&") in found and "none" not in found and "and 3 more" in found
    assert cut("x" * 300) == "x" * 200 + "... (100 more characters)"


def _document(value: Any) -> str:
    checker = _Checker()
    checker.feed(value._repr_html_())
    checker.close()
    assert not checker.open
    return checker.text


def test_costs_and_statistics() -> None:
    module = hlo.parse(TEXT)
    text = _document(module.cost())
    assert "2 operations, 2 transcendentals" in text and "zlogf32[2]" in text
    text = _document(module.stats())
    assert "5 instructions" in text and "4 opcodes" in text and "half" in text
    many = "".join(f"  y{n} = f32[2] negate(x)\n" for n in range(ROWS + 5))
    long = f"ENTRY e {{\n  x = f32[2] parameter(0)\n{many}  ROOT z = f32[2] abs(x)\n}}"
    assert "and 7 more" in _document(hlo.parse(f"HloModule m\n{long}").cost())


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_executables(backend: str) -> None:
    module = hlo.parse("""HloModule m
    ENTRY e { p = (f32[2], s32[]) parameter(0)  x = f32[2] get-tuple-element(p), index=0
      ROOT y = f32[2] abs(x) }""")
    text = _document(hlo.compile(module, backend=backend))
    assert "parameterp.0f32[2]" in text and "parameterp.1s32[]" in text
    assert "resultout0f32[2]" in text


def test_executables_on_several_devices() -> None:
    module = hlo.parse("""HloModule m ENTRY e {
      x = f32[4] parameter(0), sharding={devices=[2]<=[2]}  ROOT y = f32[4] sqrt(x) }""")
    text = _document(hlo.compile(module, devices=2))
    assert "on 2 devices" in text and "parameterxf32[4]" in text
