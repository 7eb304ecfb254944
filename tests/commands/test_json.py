"""What commands print with `--json` is as docs/json.md and the schemas say."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import hlo.compiler.coverage
from tests.harness.paths import ROOT
from tests.harness.schemas import SCHEMAS, check_schema, schema

MODULE = """HloModule m, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
cond { p = (f32[8,8]) parameter(0) v = f32[8,8] get-tuple-element(p), index=0
  o = f32[1,1] slice(v), slice={[0:1], [0:1]} s = f32[] reshape(o) c = f32[] constant(9)
  ROOT go = pred[] compare(s, c), direction=LT }
body { p = (f32[8,8]) parameter(0) v = f32[8,8] get-tuple-element(p), index=0
  r = f32[8,8] all-reduce(v), replica_groups={{0,1}}, channel_id=1,
    use_global_device_ids=true, to_apply=add
  ROOT t = (f32[8,8]) tuple(r) }
ENTRY main {
  x = f32[8,16] parameter(0)
  y = f32[16,8] parameter(1)
  d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = (f32[8,8]) tuple(d)
  w = (f32[8,8]) while(t), condition=cond, body=body
  v = f32[8,8] get-tuple-element(w), index=0
  g = f32[16,8] all-gather(v), dimensions={0}, replica_groups={{0,1}}, channel_id=2,
    use_global_device_ids=true
  e = f32[8,8] exponential(v)
  ROOT out = (f32[16,8], f32[8,8]) tuple(g, e)
}
"""
SHARDED = """HloModule sharded, num_partitions=2
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
  c = f32[8,8] cholesky(x), lower=true
  t = f32[8,8] transpose(c), dimensions={1,0}, sharding={devices=[2,1]<=[2]}
  ROOT y = f32[8,8] negate(t), sharding={devices=[1,2]<=[2]}
}
"""
SCALAR = """HloModule scalar, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { x = f32[4] parameter(0)
  k = f32[4] custom-call(x), custom_call_target="f", api_version=API_VERSION_TYPED_FFI
  ROOT y = f32[4] add(x, k) }
"""
BROKEN = """HloModule m
ENTRY main {
  x = f32[2] parameter(0)
  y = f32[3] negate(x)
  ROOT z = f32[2] add(x, q)
}
"""

# What hlo-opt prints: the part of its schema, by the options.
REPORTS = [
    (["m.hlo"], "verdict"),
    (["m.hlo", "--quiet", "--passes=default"], "verdict"),
    (["m.hlo", "scalar.hlo"], "verdicts"),
    (["sharded.hlo", "--report=page.html"], "verdict"),
    (["m.hlo", "--stats"], "statistics"),
    (["scalar.hlo", "--stats"], "statistics"),
    (["m.hlo", "--cost"], "costs"),
    (["scalar.hlo", "--cost", "--device=h100"], "device_cost"),
    (["m.hlo", "--memory"], "memory"),
    (["m.hlo", "--signature"], "signature"),
    (["scalar.hlo", "--simulate="], "simulation"),
    (["m.hlo", "--simulate=devices=8,topology=ring,jitter=0.1,overhead=5us"], "simulation"),
    (["sharded.hlo", "--report=-"], "partition"),
    (["sharded.hlo", "sharded.hlo", "--report=-"], "partitions"),
    (["--list-ops"], "operations"),
    (["--list-passes"], "passes"),
    (["--list-stages"], "stages"),
]
FAILURES = [
    ["broken.hlo"],
    ["none.hlo"],
    ["broken.hlo", "--stats"],
    ["broken.hlo", "--memory"],
    ["broken.hlo", "--report=page.html"],
    ["m.hlo", "--report=-"],
    ["m.hlo", "--cost", "--device=h1000"],
    ["m.hlo", "--passes=no-such-pass"],
    ["m.hlo", "--simulate=devices=many"],
    ["m.hlo", "--extract=nothing"],
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "m": MODULE, "sharded": SHARDED, "scalar": SCALAR, "broken": BROKEN,
    }.items():  # fmt: skip
        Path(f"{name}.hlo").write_text(text)


def commands() -> dict[str, click.Command]:
    """The commands of the package, by name."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    found = {}
    for name, place in scripts.items():
        module, _, function = place.partition(":")
        found[name] = getattr(importlib.import_module(module), function)
    return found


def has_json(command: click.Command) -> bool:
    return any("--json" in option.opts for option in command.params)


def printed(name: str, *args: str, code: int = 0) -> Any:
    """Return what a command prints: one line of JSON."""
    result = CliRunner().invoke(commands()[name], [*args, "--json"])
    assert result.exit_code == code, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


# Parts of schemas that others close, with more keys.
_OPEN = {"hlo-layout/$defs/facts"}


# --- the page -----------------------------------------------------------------------------------


def test_the_page_has_every_command_and_every_schema() -> None:
    page = (ROOT / "docs" / "json.md").read_text()
    rows = dict(re.findall(r"^\| `(hlo-[\w-]+)` .*?\(schemas/([\w-]+)\.schema\.json\)", page, re.M))
    assert rows == {name: name for name, command in commands().items() if has_json(command)}
    linked = set(re.findall(r"\(schemas/([\w.-]+)\)", page))
    assert linked == {file.name for file in SCHEMAS.iterdir()}


def test_objects_of_schemas_have_no_other_keys() -> None:
    """A key that nobody has described is a mistake."""

    def check(part: Any, where: str) -> None:
        if isinstance(part, dict):
            if "properties" in part and where not in _OPEN:
                closed = {"additionalProperties", "unevaluatedProperties"} & part.keys()
                assert closed, where
            for key, value in part.items():
                check(value, f"{where}/{key}")
        elif isinstance(part, list):
            for number, value in enumerate(part):
                check(value, f"{where}/{number}")

    for name in ("errors", "hlo-bench", "hlo-compile", "hlo-fmt", "hlo-layout", "hlo-opt"):
        check(schema(name), name)


# --- what is printed ----------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "part"), REPORTS)
def test_hlo_opt(args: list[str], part: str) -> None:
    check_schema("hlo-opt", printed("hlo-opt", *args), part=part)


def test_hlo_opt_has_a_test_for_each_part() -> None:
    parts = {ref["$ref"].rpartition("/")[2] for ref in schema("hlo-opt")["oneOf"]}
    assert parts == {part for _, part in REPORTS} | {"unsupported"}


def test_hlo_opt_without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [*hlo.compiler.coverage.supported(["add"], ["f32", "token"])]
    missing = hlo.compiler.coverage.Support("add", "c128", "", "no code for it")
    monkeypatch.setattr(hlo.compiler.coverage, "supported", lambda: iter([*pairs, missing]))
    found = printed("hlo-opt", "--list-ops", "--compiled", code=1)
    check_schema("hlo-opt", found, part="unsupported")
    assert found["pairs"] == len(pairs) + 1 and len(found["unsupported"]) == 1


@pytest.mark.parametrize("args", FAILURES)
def test_hlo_opt_errors(args: list[str]) -> None:
    found = printed("hlo-opt", *args, code=1)
    check_schema("hlo-opt", found, part="verdict")
    check_schema("errors", found)


def test_hlo_opt_prints_a_line_for_each_module() -> None:
    result = CliRunner().invoke(commands()["hlo-opt"], ["m.hlo", "scalar.hlo", "--stats", "--json"])
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [stats["module"] for stats in found] == ["m", "scalar"]
    for stats in found:
        check_schema("hlo-opt", stats, part="statistics")


def test_hlo_opt_writes_the_report_to_a_file() -> None:
    assert printed("hlo-opt", "sharded.hlo", "--report=r.json", "--quiet")["errors"] == []
    check_schema("hlo-opt", json.loads(Path("r.json").read_text()), part="partition")


@pytest.mark.parametrize(
    "args",
    [
        ["m.hlo", "-o", "m.o", "--header", "m.h"],
        ["scalar.hlo", "-o", "s.o", "--cpu=generic"],
        ["scalar.hlo", "-o", "s.o", "--target=aarch64-linux-gnu"],
        ["scalar.hlo", "-o", "s.o", "--target=x86_64-linux-gnu", "--cpu=x86-64-v2,x86-64-v3"],
    ],
)
def test_hlo_compile(args: list[str]) -> None:
    found = printed("hlo-compile", *args)
    check_schema("hlo-compile", found, part="compiled")
    assert {path: Path(path).stat().st_size for path in found["written"]} == found["written"]


def test_hlo_compile_errors() -> None:
    for file in ("broken.hlo", "none.hlo"):
        found = printed("hlo-compile", file, "-o", "m.o", code=1)
        check_schema("hlo-compile", found)
        check_schema("errors", found)


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["f32[3,5]{1,0:T(2,2)}"], "layout"),
        (["bf16[64,200]{1,0:T(8,128)(2,1)}"], "layout"),
        (["s4[3,5]{1,0:E(4)S(1)}"], "layout"),
        (["f32[8,<=3]{1,0:SC(0:3,5)}"], "layout"),
        (["f32[]"], "layout"),
        (["f32[0,4]"], "layout"),
        (["f32[3]", "--padded=8"], "layout"),
        (["(f32[3], (s4[5,2], pred[]))"], "tuple"),
        (["()"], "tuple"),
        (["f32[3,5]{1,0:T(2,2)}", "--at=1,2"], "element"),
        (["f32[3,5]{1,0:T(2,2)}", "--place=9"], "element"),
        (["s4[3,5]{1,0:E(4)}", "--at=0,1"], "element"),
    ],
)
def test_hlo_layout(args: list[str], part: str) -> None:
    check_schema("hlo-layout", printed("hlo-layout", *args), part=part)


def test_hlo_layout_files_and_errors() -> None:
    np.save("x.npy", np.ones((3, 5), np.float32))
    shape = "f32[3,5]{1,0:T(2,2)}"
    done = printed("hlo-layout", shape, "--pack=x.npy", "-o", "x.bin")
    check_schema("hlo-layout", done, part="verdict")
    assert done["errors"] == []
    for args in ([shape, "--at=9,9"], ["f32[3,5"], [shape, "--unpack=none.npy", "-o", "y.npy"]):
        failed = printed("hlo-layout", *args, code=1)
        check_schema("hlo-layout", failed, part="verdict")
        assert failed["errors"]


@pytest.mark.parametrize("name", ["hlo-run", "hlo-reduce", "hlo-diff", "hlo-fmt"])
def test_errors_of_the_others(name: str) -> None:
    more = {"hlo-reduce": ["--check"], "hlo-diff": ["m.hlo"]}.get(name, [])
    for file in ("broken.hlo", "none.hlo"):
        if (name, file) == ("hlo-fmt", "broken.hlo"):
            Path(file).write_text("HloModule (")  # what does not even parse
        found = printed(name, file, *more, code=1)
        check_schema(name, found)
        check_schema("errors", found["files"][0] if name == "hlo-fmt" else found)
