"""Passes of plug-ins that raise, or break the module: errors that name the pass and its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main

import hlo
from hlo.errors import HloError
from hlo.passes import Rewrites, Step, find_pass, module_pass, registry, run_pipeline

MODULE = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] negate(x)
  ROOT z = f32[4] add(y, x)
}
"""
PASS = '''from hlo.passes import RuleSet, module_pass
RULES = RuleSet("user")
@module_pass
def user_pass(module, rewrites):
    """Do something wrong."""
    z = module.entry.root
    {}
'''
# By what goes wrong: the body of a pass, the code of the error, and words of its message.
WRONG = {
    "no such method": ("module.foo()", "pass-failed", "plugin.py:7: AttributeError: 'Module'"),
    "exit": ("raise SystemExit(5)", "pass-failed", "plugin.py:7: SystemExit: 5"),
    "rule": (
        'RULES.rule("negate", "-x = x")(lambda inst, b: inst.operands[3])\n'
        "    RULES.apply(module, rewrites)",
        "pass-failed", "plugin.py:7: IndexError: list index out of range",
    ),
    "rule that returns no instruction": (
        'RULES.rule("negate", "-x = x")(lambda inst, b: 5)\n    RULES.apply(module, rewrites)',
        "pass-failed", "plugin.py:8: TypeError: rule user.<lambda> returned 5, not an instruction",
    ),
    "rule of another shape": (
        'RULES.rule("negate", "-x = x")(lambda i, b: b.op("tuple", i, shape=None))\n'
        "    RULES.apply(module, rewrites)",
        "pass-failed", "plugin.py:",
    ),
    "operands": ("z.operands = z.operands[:1]", "pass-broke-module", "plugin.py:3"),
    "operands that are none": ('z.operands = ["x", "y"]', "pass-broke-module", "plugin.py:3"),
    "shape": ("z.shape = None", "pass-broke-module", "plugin.py:3"),
    "shape of another type": (
        "z.shape = __import__('hlo').parse_shape('s32[4]')", "pass-broke-module", "plugin.py:3"
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def registered_here_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_PASSES", dict(registry._PASSES))


@pytest.mark.parametrize("kind", WRONG)
def test_the_error_names_the_pass_and_its_line(tmp_path: Path, kind: str) -> None:
    body, code, words = WRONG[kind]
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PASS.format(body))
    (tmp_path / "m.hlo").write_text(MODULE)
    result = CliRunner().invoke(
        main, [str(tmp_path / "m.hlo"), f"--load-pass-plugin={plugin}", "--passes=user-pass"]
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"[{code}]" in result.stderr and words in result.stderr, result.stderr
    assert "user-pass" in result.stderr and "bug" not in result.stderr


def test_what_was_not_valid_before_is_not_blamed_on_a_pass() -> None:
    @module_pass
    def harmless_pass(module: hlo.Module, rewrites: Rewrites) -> None:
        """Leave everything as it is."""

    module = hlo.parse(MODULE)
    module.entry.root.shape = hlo.parse_shape("f32[5]")
    (run,) = run_pipeline(module, [Step(find_pass("harmless-pass"))])
    assert not run.changed


def test_a_function_of_python_is_named_with_its_line() -> None:
    @module_pass
    def raising_pass(module: hlo.Module, rewrites: Rewrites) -> None:
        """Fail."""
        raise KeyError("k")

    with pytest.raises(HloError, match=r"test_user_passes.py:\d+: KeyError: 'k'") as e:
        hlo.optimize(hlo.parse(MODULE), [raising_pass])
    assert e.value.code == "pass-failed" and isinstance(e.value.__cause__, KeyError)


def test_reduction_looks_for_what_a_pass_raises() -> None:
    @module_pass
    def negation_fails(module: hlo.Module, rewrites: Rewrites) -> None:
        """Fail on negations."""
        assert not any(i.opcode == "negate" for i in module.instructions())

    small = hlo.reduce(hlo.parse(MODULE), "pass:negation-fails", jobs=1)
    assert [i.opcode for i in small.instructions()] == ["parameter", "negate"]


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PASS.format("module.foo()"))
    args = ["-", f"--load-pass-plugin={plugin}", "--passes=user-pass"]
    for more, is_shown in (([], False), (["--debug"], True)):
        result = CliRunner().invoke(main, args + more, input=MODULE)
        assert result.exit_code == 1
        assert ("Traceback" in result.stderr and "in user_pass" in result.stderr) == is_shown
