"""What objects show of themselves: parts by name, reports, text for people, names in `dir`."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo
import hlo.passes
from hlo.values.types import OPAQUE, TOKEN

TEXT = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

mul {
  a = f32[] parameter(0)
  c = f32[] parameter(1)
  ROOT product = f32[] multiply(a, c)
}

ENTRY main {
  x = f32[8,4] parameter(0)
  b = f32[] constant(0)
  rows = f32[8] reduce(x, b), dimensions={1}, to_apply=add
  ROOT sum = f32[] reduce(rows, b), dimensions={0}, to_apply=mul
}
"""


@pytest.fixture
def module() -> hlo.Module:
    return hlo.parse(TEXT)


# --- by name ------------------------------------------------------------------------------------


def test_parts_of_a_module_by_name(module: hlo.Module) -> None:
    add, _, main = module
    assert module["add"] is add and module["%main"] is main is module.entry
    assert module["product"] is module["mul/product"]
    assert module["sum"] is main.root and module["add/sum"] is add.root
    assert main["rows"] is main.get("rows") is main["%rows"]
    for name in ("add", "rows", "product", "add/a"):
        assert name in module
    for part in (add, add.root):
        assert part in module and part not in hlo.parse(TEXT)
    assert "nothing" not in module and 3 not in module and "rows" in main and "sums" not in main


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rwos", "module m has nothing called 'rwos'; did you mean 'rows'?"),
        ("add/rows", "module m has nothing called 'add/rows'"),
        ("a", "a is in several computations: add/a, mul/a"),
    ],
)
def test_names_that_a_module_has_not(module: hlo.Module, name: str, words: str) -> None:
    with pytest.raises(KeyError, match=re.escape(words)):
        module[name]
    with pytest.raises(KeyError, match="computation main has nothing called 'rwos'; did you mean"):
        module.entry["rwos"]
    for part in (module, module.entry):
        with pytest.raises(TypeError, match="name, not by int"):
            part[0]  # type: ignore[index]


# --- reports ------------------------------------------------------------------------------------


def test_statistics(module: hlo.Module) -> None:
    stats = module.stats()
    assert stats.instructions == 10 and stats.opcodes["parameter"] == 5
    assert stats.argument_bytes == 128 and stats.result_bytes == 4
    assert stats.cost.operations == 24 + 7 and stats.computations["add"]["cost"].operations == 1
    assert "m: 10 instructions in 3 computations" in repr(stats)
    assert json.loads(json.dumps(stats.as_dict()))["cost"]["operations"] == 31


def test_costs(module: hlo.Module) -> None:
    cost = module.cost()
    assert (cost.operations, cost.exact) == (31, True)
    assert [(i.name, c.operations) for i, c in cost.instructions if c.operations] == [
        ("rows", 24), ("sum", 7),
    ]  # fmt: skip
    dearest, *_, total = repr(cost).splitlines()[1:]
    assert dearest.split()[0] == "24" and "rows = f32[8]{0} reduce" in dearest
    assert total.split()[0] == "31" and total.endswith("in all")
    assert cost + cost == hlo.analysis.cost.Cost(62, 0, 2 * cost.bytes)


def test_graphs(module: hlo.Module, tmp_path: Path) -> None:
    graph = module.graph()
    for name, start in (("g.dot", "digraph"), ("g.html", "<!DOCTYPE html>"), ("G.GV", "digraph")):
        graph.save(tmp_path / name)
        assert (tmp_path / name).read_text().startswith(start)
    shown = graph._repr_html_()
    assert shown.startswith("<iframe") and "rows" in shown and "<script" not in shown
    with pytest.raises(hlo.HloError, match=r"g\.png: a graph is saved as \.dot"):
        graph.save(tmp_path / "g.png")
    with pytest.raises(hlo.HloError, match="no such"):
        graph.save(tmp_path / "none" / "g.dot")


def test_modules_have_reports_wherever_they_come_from() -> None:
    for make in (
        "hlo.parse(t)",
        "hlo.Module.from_text(t)",
        "hlo.from_proto(hlo.to_proto(hlo.parse(t)))",
    ):
        code = f"import hlo; t = {TEXT!r}; print({make}.stats().instructions)"
        assert subprocess.check_output([sys.executable, "-c", code]) == b"10\n"


# --- text for people ----------------------------------------------------------------------------


def test_objects_say_what_they_are(module: hlo.Module) -> None:
    main = module.entry
    many = hlo.parse(
        "HloModule n\nENTRY e {\n"
        + "".join(f"  p{n} = f32[] parameter({n})\n" for n in range(10))
        + f"  ROOT t = tuple({', '.join(f'p{n}' for n in range(10))})\n}}"
    )
    one = hlo.Client()
    for value, text in (
        (module, "<Module m: (x: f32[8,4]) -> f32[], 10 instructions in 3 computations>"),
        (hlo.Module("empty"), "<Module empty: 0 instructions in 0 computations>"),
        (main, "<Computation main: (x: f32[8,4]) -> f32[], 4 instructions>"),
        (main["rows"], "<Instruction rows = f32[8]{0} reduce(x, b)>"),
        (many.entry.root, "tuple(p0, p1, p2, p3, p4, p5, p6, p7, ... 2 more)>"),
        (many, "(p0: f32[], p1: f32[], p2: f32[], p3: f32[], p4: f32[], p5: f32[], ... 4 more)"),
        (hlo.parse_shape("(f32[2,3]{0,1}, token[])"), "<TupleShape (f32[2,3]{0,1}, token[])>"),
        (hlo.parse_shape("bf16[<=8]{0:T(256)}"), "<ArrayShape bf16[<=8]{0:T(256)}>"),
        (hlo.parse_shape("f32[2,3]").layout, "<Layout {1,0}>"),
        ((TOKEN, OPAQUE), "(<TokenShape token[]>, <OpaqueShape opaque[]>)"),
        (hlo.compile(module), "<Executable m: (x: f32[8,4]) -> f32[]>"),
        (one, "<Client of 1 device, compiled>"),
        (hlo.Client(2, backend="reference"), "<Client of 2 devices, reference>"),
        (one.transfer_to_server(np.ones(3)), "<GlobalData f64[3] on device 0>"),
        (one.compile(module), "<LoadedExecutable m: (x: f32[8,4]) -> f32[], 1 replicas, 1 part"),
        (hlo.Literal.of(np.float32([1, 2])), "Literal(f32[2] {1, 2})"),
        (hlo.passes.find_pass("dce"), "<Pass dce: Remove"),
        (hlo.passes.step("cse", nearby_bytes=3), "<Step cse{nearby-bytes=3}>"),
        (hlo.passes.Fix([hlo.passes.step("dce")]), "<Fix fix(dce)>"),
        (hlo.OPS["add"], "<OpSpec add>"),
        (hlo.Host(), "Host("),
        (module.graph(), "<Graph of m: .dot, .html, or save(path)>"),
    ):  # fmt: skip
        assert text in repr(value)


def test_parts_print_as_text(module: hlo.Module) -> None:
    main = module.entry
    assert str(main["rows"]) == ("%rows = f32[8]{0} reduce(%x, %b), dimensions={1}, to_apply=%add")
    assert str(main).startswith("%main (x: f32[8,4])") and str(module["add"]).startswith("%add")
    assert str(hlo.Module("empty")) == "HloModule empty\n"


# --- names --------------------------------------------------------------------------------------


def test_dir_lists_what_is_public_and_no_more() -> None:
    assert [n for n in dir(hlo) if not n.startswith("__")] == sorted(hlo.__all__)
    for info in pkgutil.walk_packages(hlo.__path__, "hlo."):
        if info.ispkg:
            package = importlib.import_module(info.name)
            if hasattr(package, "__all__"):
                assert dir(package) == sorted(package.__all__), info.name
    # Nor what has been loaded since.
    assert [n for n in dir(hlo) if not n.startswith("__")] == sorted(hlo.__all__)
