"""The pass framework: pipelines as text, options, limits, observers, plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main as hlo_opt

import hlo
from hlo.__main__ import commands
from hlo.errors import HloError
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes import (
    Fix,
    Pass,
    PassRun,
    Rewrites,
    RuleSet,
    Step,
    all_passes,
    find_pass,
    module_pass,
    parse_pipeline,
    run_pipeline,
)
from hlo.passes.default import default_pipeline, pipeline_of, pipeline_text
from hlo.passes.observers import VerifyEach
from hlo.passes.validate import Validate
from hlo.runtime.cache import Cache
from hlo.verifier import verify
from tests.harness.paths import TESTS

TEXT = """HloModule m
ENTRY e {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  u = f32[2] add(a, b)
  t = (f32[2], f32[2]) tuple(a, b)
  g = f32[2] get-tuple-element(t), index=1
  ROOT r = f32[2] multiply(g, a)
}
"""

_WRONG = RuleSet("often_wrong")


@module_pass
def often_wrong(module: Module, rewrites: Rewrites, *, times: int = 3, on: bool = False) -> None:
    """Rewrite what is right, and one thing that is not."""
    _WRONG.apply(module, rewrites)


@module_pass
def without_a_word(module: Module, rewrites: Rewrites) -> None:
    """Replace additions by what they add to."""
    for inst in list(module.entry):
        if inst.opcode == "add":
            inst.replace_all_uses_with(inst.operands[0])


@_WRONG.rule("add", "a + b = b + a")
def swapped(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "parameter" or y.opcode == "parameter":
        return None
    return b.op("add", y, x)


@_WRONG.rule("subtract", "a - b = b - a, which is wrong")
def minus_the_other_way(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "parameter":
        return None
    return b.op("subtract", y, x)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dce",
        "dce,tuple-simplifier",
        "fix(dce,fix{max-iters=3}(tuple-simplifier),dce),dce",
        "often-wrong{times=4,on=true}",
    ],
)
def test_pipelines_print_as_they_parse(text: str) -> None:
    assert ",".join(map(str, parse_pipeline(text))) == text


def test_dashes_and_underscores_are_the_same_and_flags_need_no_value() -> None:
    found = parse_pipeline(" tuple_simplifier , often_wrong { on } ")
    assert str(found[0]) == "tuple-simplifier"
    assert isinstance(found[1], Step) and found[1].options == {"on": True}


@pytest.mark.parametrize(
    ("text", "column", "code", "words"),
    [
        ("dce,", 5, "pass-syntax", "expected the name of a pass, found the end"),
        ("dce)", 4, "pass-syntax", "expected ',' or the end, found ')'"),
        ("fix(dce", 8, "pass-syntax", "expected ',' or ')', found the end"),
        ("fix dce", 5, "pass-syntax", "expected '('"),
        ("fix{max-iters=0}(dce)", 4, "pass-syntax", "max-iters of one or more"),
        ("dce,tuple-simplifer", 5, "unknown-pass", "did you mean 'tuple-simplifier'?"),
        ("often-wrong{time=1}", 13, "bad-pass-option", "did you mean 'times'?"),
        ("often-wrong{times=x}", 19, "bad-pass-option", "times is an integer, not 'x'"),
        ("often-wrong{times}", 18, "pass-syntax", "expected '=' and a value for times"),
        ("often-wrong{on=7}", 16, "bad-pass-option", "on is true or false, not '7'"),
        ("dce{x=1}", 5, "bad-pass-option", "dce has no option x"),
        ("fix(" * 100, 201, "pass-syntax", "at most 50 fix in each other"),
    ],
)
def test_bad_pipelines_say_where(text: str, column: int, code: str, words: str) -> None:
    with pytest.raises(HloError) as e:
        parse_pipeline(text)
    assert e.value.code == code
    assert words in str(e.value)
    assert str(e.value).startswith(f"passes:1:{column}:")


@pytest.mark.parametrize(
    ("passes", "place"),
    [("dce,nosuch", "passes:1:5: "), (["dce", "cse, nosuch"], "passes[1]:1:6: ")],
)
def test_bad_pipelines_in_python_name_the_argument(passes: Any, place: str) -> None:
    module = hlo.parse(TEXT)
    calls: list[Callable[[], object]] = [
        lambda: hlo.optimize(module, passes=passes),
        lambda: hlo.compile(module, cache=False, passes=passes),
        lambda: hlo.Client(passes=passes).compile(module),
    ]
    for call in calls:
        with pytest.raises(HloError) as e:
            call()
        assert e.value.code == "unknown-pass" and str(e.value).startswith(place)


@pytest.mark.parametrize(
    "command", ["opt --passes=nosuch", "run --passes=nosuch", "compile --passes=nosuch"]
)
def test_bad_pipelines_of_commands_name_the_flag(command: str, tmp_path: Path) -> None:
    name, flag = command.split()
    file = tmp_path / "m.hlo"
    file.write_text(TEXT)
    out = ["-o", str(tmp_path / "m.o")] if name == "compile" else []
    tool = commands()[name].load()
    result = CliRunner().invoke(tool, [str(file), flag, *out])
    assert result.exit_code == 1 and result.stderr.startswith("--passes:1:1: error: ")


def test_every_pass_is_found_by_its_file() -> None:
    root = Path(hlo.__file__).parent / "passes"
    files = {p.stem for p in root.glob("*/*.py") if not p.stem.startswith("_")}
    assert files <= {p.name for p in all_passes()}
    for name in files:
        spec = find_pass(name.replace("_", "-"))
        assert spec.summary.endswith(".")


def test_every_pass_has_file_tests() -> None:
    root = Path(hlo.__file__).parent / "passes"
    tests = {p.stem for p in TESTS.glob("filetests/passes/**/*.hlo")}
    assert {p.stem for p in root.glob("*/*.py") if not p.stem.startswith("_")} <= tests


def test_fix_runs_until_nothing_changes() -> None:
    module = hlo.parse(TEXT)
    runs = run_pipeline(module, parse_pipeline("fix(dce,tuple-simplifier)"))
    # An idempotent pass does not run again for its own changes alone.
    assert [(r.name, r.changed) for r in runs] == [
        ("dce", True), ("tuple_simplifier", True), ("dce", False),
    ]  # fmt: skip
    assert [i.opcode for i in module.entry] == ["parameter", "parameter", "multiply"]


def test_a_limit_stops_after_so_many_rewrites() -> None:
    module = hlo.parse(TEXT)
    rewrites = Rewrites(limit=1)
    find_pass("dce").run(module, {}, rewrites)
    assert len(rewrites.log) == 1
    assert len(module.entry) == 5


def test_validate_names_the_rule_that_changed_a_result() -> None:
    module = hlo.parse("""HloModule m
ENTRY e {
  a = f32[2] parameter(0)
  n = f32[2] negate(a)
  x = f32[2] add(a, n)
  y = f32[2] subtract(a, x)
  z = f32[2] add(a, y)
  ROOT r = f32[2] add(a, z)
}
""")
    with pytest.raises(HloError) as e:
        run_pipeline(module, parse_pipeline("often-wrong"), [Validate(module)])
    assert e.value.code == "pass-changed-result"
    assert "rule often_wrong.minus_the_other_way at y (rewrite 2 of 4)" in str(e.value)


def test_validate_names_a_pass_that_changes_a_result_without_recording_a_rewrite() -> None:
    module = hlo.parse("""HloModule m
ENTRY e {
  a = f32[2] parameter(0)
  n = f32[2] negate(a)
  dead = f32[2] abs(a)
  ROOT r = f32[2] add(a, n)
}
""")
    # Passes around it record what they do, on what it has left.
    pipeline = parse_pipeline("dce,without-a-word,dce")
    with pytest.raises(HloError, match=r"^error: without_a_word changes a result") as e:
        run_pipeline(module, pipeline, [Validate(module)])
    assert e.value.code == "pass-changed-result"
    assert "it records no rewrites" in str(e.value)


def test_validate_runs_all_devices_of_a_module() -> None:
    module = hlo.parse("""HloModule m, replica_count=2
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
ENTRY e {
  a = f32[2] parameter(0)
  b = f32[2] all-reduce(a), replica_groups={{0,1}}, to_apply=add
  ROOT r = f32[2] subtract(a, b)
}
""")
    with pytest.raises(HloError, match=r"rule often_wrong\.minus_the_other_way at r") as e:
        run_pipeline(module, parse_pipeline("often-wrong"), [Validate(module)])
    assert e.value.code == "pass-changed-result"


def test_verify_each_says_which_pass_broke_the_module() -> None:
    class Breaks:
        def before(self, module: Module, step: Step) -> None: ...

        def after(self, module: Module, run: PassRun) -> None:
            module.entry.root.shape = hlo.parse("f32[3] negate(f32[3] a)").entry.root.shape

    with pytest.raises(HloError, match="dce leaves an invalid module") as e:
        run_pipeline(hlo.parse(TEXT), parse_pipeline("dce"), [Breaks(), VerifyEach(verify)])
    assert [d.code for d in e.value.diagnostics][:2] == ["pass-broke-module", "shape-mismatch"]


def test_optimize_runs_the_default_pipeline() -> None:
    module = hlo.parse(TEXT)
    before = str(module)
    optimized = hlo.optimize(module, validate=True)
    assert len(optimized.entry) == 3 and str(module) == before
    assert hlo.diff(module, optimized)
    assert hlo.optimize(module, inplace=True) is module and str(module) == str(optimized)


def test_the_default_pipeline_is_a_word_of_pipelines() -> None:
    stages = list(map(str, default_pipeline()))
    found = pipeline_of("default,fix(default),dce")
    assert list(map(str, found)) == [*stages, f"fix({','.join(stages)})", "dce"]
    with pytest.raises(HloError, match="expected ',' or the end"):
        pipeline_of("default{x=1}")


def test_the_default_pipeline_fuses_unless_code_is_generated() -> None:
    text = """HloModule m
ENTRY e { a = f32[8] parameter(0) b = f32[8] negate(a) ROOT c = f32[8] exponential(b) }"""
    for stage, fuses in (("hlo", True), ("dot", True), ("parsed", False)):
        assert ("fusion" in run(f"--stage={stage}", text=text)[1]) == fuses
    ran = run("--stage=buffers", "--time-passes", text=text)[2].split()
    assert "dce" in ran and "fusion" not in ran


# --- the command ----------------------------------------------------------------------------------


def run(*flags: str, text: str = TEXT) -> tuple[int, str, str]:
    result = CliRunner().invoke(hlo_opt, ["-", *flags], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def test_time_passes_shows_a_line_for_each_run() -> None:
    code, out, err = run("--passes=fix(dce,tuple-simplifier)", "--time-passes")
    assert code == 0
    assert "ROOT %r = f32[2]{0} multiply(%b, %a)" in out
    shown = [line.split()[-1] for line in err.splitlines()[1:4]]
    assert shown == ["dce", "tuple-simplifier", "dce"]


def test_flags_of_passes_need_passes() -> None:
    code, _, err = run("--verify-each")
    assert code == 2
    assert "--verify-each requires --passes" in err


def test_split_input_file_keeps_places() -> None:
    one = "HloModule m\nENTRY e { ROOT a = f32[2] parameter(0) }\n"
    code, out, _ = run("--split-input-file", text=f"{one}// -----\n{one}")
    assert code == 0
    assert out.count("HloModule m") == 2 and out.count("// -----\n") == 1
    bad = "HloModule m\nENTRY e { ROOT a = f32[2] parametr(0) }\n"
    code, out, err = run("--split-input-file", text=f"{one}// -----\n{bad}")
    assert code == 1 and out.count("HloModule m") == 1
    assert "<stdin>:5:27: error: " in err


def test_print_after_and_dump(tmp_path: Path) -> None:
    code, _, err = run(
        "--passes=dce,tuple-simplifier", "--print-after=tuple_simplifier", "--dump-dir",
        str(tmp_path),
    )  # fmt: skip
    assert code == 0
    assert err.count("HloModule m") == 1 and "// after 1 tuple-simplifier" in err
    names = [
        "module_0000.m.0001.after_dce.txt", "module_0000.m.0002.after_tuple_simplifier.txt",
        "module_0000.m.before_optimizations.txt",
    ]  # fmt: skip
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    assert "tuple" not in (tmp_path / names[1]).read_text()


PLUGIN = '''
from hlo.passes import RuleSet, module_pass

RULES = RuleSet("plugged_in")


@module_pass
def plugged_in(module, rewrites):
    """Drop a negation of a negation."""
    RULES.apply(module, rewrites)


@RULES.rule("negate", "-(-x) = x")
def negated_negation(inst, b):
    inner = inst.operands[0]
    return inner.operands[0] if inner.opcode == "negate" else None
'''


def test_a_plugin_brings_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN)
    body = "a = f32[] parameter(0) n = f32[] negate(a) ROOT r = f32[] negate(n)"
    text = f"HloModule m\nENTRY e {{ {body} }}"
    code, out, err = run(
        f"--load-pass-plugin={path}", "--passes=plugged-in", "--validate", text=text
    )
    assert code == 0, err
    assert "ROOT %a" in out


def test_a_plugin_may_have_dataclasses(tmp_path: Path) -> None:
    fields = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    kind = "@dataclass\nclass Kind:\n    name: str\n"
    path = tmp_path / "fielded.py"
    path.write_text(fields + kind + PLUGIN.replace("plugged_in", "fielded"))
    code, _, err = run(f"--load-pass-plugin={path}", "--passes=fielded", text=TEXT)
    assert code == 0, err


@pytest.mark.parametrize(
    ("content", "words"), [("1 / 0", "ZeroDivisionError"), ("def f(:", "SyntaxError")]
)
def test_a_broken_plugin_is_an_error(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(content)
    code, _, err = run(f"--load-pass-plugin={path}")
    assert code == 1
    assert "bad-plugin" in err and words in err
    assert run("--load-pass-plugin=/nowhere.py")[2].endswith(
        "/nowhere.py: no such file or directory [bad-file]\n"
    )


# --- how work grows with the module ---------------------------------------------------------------


def nested_loops(depth: int) -> str:
    """Return loops in each other, all with the same invariant work and state handed through."""
    state = "(s32[], f32[4], f32[4], s32[])"
    bodies = []
    for n in range(depth):
        inner = f"""
  z = s32[] constant(0)
  t = {state} tuple(z, y, k, e)
  w = {state} while(t), condition=cond, body=body{n - 1}
  x2 = f32[4] get-tuple-element(w), index=1
  k2 = f32[4] get-tuple-element(w), index=2"""
        bodies.append(f"""body{n} {{
  s = {state} parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  x = f32[4] get-tuple-element(s), index=1
  k = f32[4] get-tuple-element(s), index=2
  e = s32[] get-tuple-element(s), index=3
  c = f32[4] cosine(k)
  y = f32[4] multiply(x, c){inner if n else ""}
  ROOT r = {state} tuple(m, {"x2, k2" if n else "y, k"}, e)
}}""")
    return f"""HloModule m
cond {{
  s = {state} parameter(0)
  n = s32[] get-tuple-element(s), index=0
  e = s32[] get-tuple-element(s), index=3
  ROOT r = pred[] compare(n, e), direction=LT
}}
{chr(10).join(bodies)}
ENTRY e {{
  x = f32[4] parameter(0)
  k = f32[4] parameter(1)
  z = s32[] constant(0)
  e = s32[] constant(3)
  t = {state} tuple(z, x, k, e)
  ROOT w = {state} while(t), condition=cond, body=body{depth - 1}
}}
"""


def test_loops_in_each_other_take_as_many_rounds_however_many_there_are() -> None:
    found = []
    for depth in (4, 12):
        module = hlo.parse(nested_loops(depth))
        runs = run_pipeline(module, default_pipeline(fuses=False))
        assert sum(i.opcode == "cosine" for i in module.instructions()) == 1
        found.append(len(runs))
    assert found[0] == found[1]


def test_what_might_be_computed_again_is_not_looked_at_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hlo.analysis.memory import peak_memory
    from hlo.passes.layout import rematerialization

    look, looks = rematerialization._Sweep._chain, []
    monkeypatch.setattr(
        rematerialization._Sweep, "_chain", lambda sweep, inst: looks.append(0) or look(sweep, inst)
    )
    found = []
    for layers in (20, 80):
        looks.clear()
        module = hlo.parse(layered(layers))
        peak = peak_memory(module.entry).bytes
        limit = f"rematerialization{{memory-limit-bytes={peak // 2}}}"
        run_pipeline(module, parse_pipeline(limit), [Validate(module)])
        assert peak_memory(module.entry).bytes <= peak // 2 + peak // 20
        found.append(len(looks))
    assert found[1] < 6 * found[0]


def layered(count: int) -> str:
    """Return layers, and their gradients in reverse order."""
    lines = [
        f"d{n} = f32[8,8] dot(x{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"x{n + 1} = f32[8,8] tanh(d{n})"
        for n in range(count)
    ]
    lines.append(f"g{count} = f32[8,8] copy(x{count})")
    lines += [
        f"m{n} = f32[8,8] multiply(x{n + 1}, g{n + 1})\n"
        f"g{n} = f32[8,8] dot(m{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
        for n in reversed(range(count))
    ]
    body = "\n".join(lines)
    return f"""HloModule m, is_scheduled=true
ENTRY e {{
x0 = f32[8,8] parameter(0)
w = f32[8,8] parameter(1)
{body}
ROOT r = f32[8,8] add(g0, x0)
}}
"""


# --- lists of passes ----------------------------------------------------------------------------


def test_passes_as_a_list() -> None:
    pipeline = pipeline_of([
        "dce", "cse{nearby-bytes=3},fix(algsimp)", find_pass("tuple-simplifier"), often_wrong,
        Step(find_pass("dce")), Fix([Step(find_pass("cse"))]),
    ])  # fmt: skip
    text = "dce,cse{nearby-bytes=3},fix(algsimp),tuple-simplifier,often-wrong,dce,fix(cse)"
    assert ",".join(map(str, pipeline)) == text
    assert pipeline_text(["dce", "", often_wrong, "default"]) == "dce,often-wrong,default"
    assert len(pipeline_of(["default"], fuses=False)) < len(pipeline_of(["default"]))
    wanted = str(hlo.optimize(hlo.parse(TEXT), "tuple-simplifier,dce"))
    assert str(hlo.optimize(hlo.parse(TEXT), [find_pass("tuple_simplifier"), "dce"])) == wanted
    assert str(hlo.optimize(hlo.parse(TEXT), [])) == str(hlo.parse(TEXT))


@pytest.mark.parametrize("wrong", [3, None, len, b"dce", ["dce"]])
def test_what_is_no_pass(wrong: object) -> None:
    for use in (hlo.optimize, lambda m, p: hlo.compile(m, passes=p)):
        with pytest.raises(TypeError, match="is not a pass: a name, a Pass, a Step"):
            use(hlo.parse(TEXT), [wrong])
        with pytest.raises(TypeError, match="passes is"):
            use(hlo.parse(TEXT), 3)
        with pytest.raises(HloError, match="no pass called nonsense"):
            use(hlo.parse(TEXT), ["dce", "nonsense"])


def test_passes_of_users_are_run_by_each_compilation(tmp_path: Path) -> None:
    cache, x = Cache(tmp_path), np.ones(2, np.float32)

    def define(value: float) -> Any:
        @module_pass
        def set_constant(module: Module, rewrites: Rewrites) -> None:
            """Make the result constant."""
            entry = module.entry
            literal = hlo.Literal.of(np.full(2, value, np.float32))
            new = entry.create("constant", literal.shape, attrs={"literal": literal})
            entry.set_root(new)

        return set_constant

    for value in (1.0, 2.0):  # defined again, as in a notebook
        own = define(value)
        run = hlo.compile(hlo.parse(TEXT), cache=cache, passes=[own, "dce"])
        assert run(x, x).tolist() == [value, value]
        client = hlo.Client(passes=[own], cache=False)
        assert client.execute_and_transfer(hlo.parse(TEXT), [x, x]).array.tolist() == [value] * 2
    hlo.compile(hlo.parse(TEXT), cache=cache, passes=["fix(dce)"])
    assert "look up" in hlo.compile(hlo.parse(TEXT), cache=cache, passes="fix(dce)").compile_seconds


def _nameless(module: Module, rewrites: Rewrites) -> None:
    pass


def _untyped(module: Module, rewrites: Rewrites, *, n=3) -> None:  # type: ignore[no-untyped-def]
    """Do nothing."""


def dce(module: Module, rewrites: Rewrites) -> None:
    """Have the name of another pass."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_nameless, "needs a docstring"),
        (_untyped, "option n has to be bool, int"),
        (dce, r"a pass called dce already, in hlo\.passes\.cleanup\.dce"),
    ],
)
def test_functions_that_cannot_be_passes(function: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        module_pass(function)
    with pytest.raises(TypeError, match="module_pass: function is"):
        module_pass("dce")  # type: ignore[arg-type]


def test_a_pass_sees_what_a_users_pass_has_changed_without_asking() -> None:
    """What row fusion has found out about the module is not what multi-output fusion is to see."""
    text = """HloModule m ENTRY e {
      x = f32[4096] parameter(0)
      a = f32[4096] sine(x)
      b = f32[4096] cosine(x)
      ROOT t = (f32[4096], f32[4096]) tuple(a, b) }"""

    def unrelated(module: Module, rewrites: Rewrites) -> None:
        entry = module.entry
        y = entry.add(Instruction("y", "parameter", entry["x"].shape, (), {"number": 1}))
        entry["b"].replace_operand(0, y)

    change = Step(Pass("unrelated", "", {}, unrelated))
    first, last = parse_pipeline("row-fusion"), parse_pipeline("multi-output-fusion")
    assert run_pipeline(hlo.parse(text), [*first, *last])[-1].changed
    assert not run_pipeline(hlo.parse(text), [*first, change, *last])[-1].changed


def test_analyses_last_until_a_pass_changes_something() -> None:
    module = hlo.parse(TEXT)
    seen: list[object] = []

    def look(module: Module, rewrites: Rewrites) -> None:
        seen.append(rewrites.analyses)

    look.__module__ = "hlo.passes.look"
    step = Step(Pass("look", "", {}, look))
    runs = run_pipeline(
        module, [step, *parse_pipeline("map-inline"), step, *parse_pipeline("dce"), step]
    )
    assert [run.changed for run in runs if run.name != "look"] == [False, True]
    assert seen[0] is seen[1] and seen[1] is not seen[2]
