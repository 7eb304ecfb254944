"""The pipeline from a module to a function: its stages, its errors, and that it repeats itself."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import hlo
from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import build, compile_text
from hlo.errors import HloError
from hlo.llvm import Function, Instruction, Return
from hlo.runtime.jit import host_machine
from tests.harness.run_compiled import check

LOOP = """HloModule loop
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b) }
body { s = (s32[], f32[4,5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,5] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = f32[4,5] tanh(x)
  low = f32[] constant(-inf)
  m = f32[4] reduce(t, low), dimensions={1}, to_apply=max
  mb = f32[4,5] broadcast(m), dimensions={0}
  y = f32[4,5] add(t, mb)
  ROOT r = (s32[], f32[4,5]) tuple(j, y) }
test { s = (s32[], f32[4,5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[4,5] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[4,5]) tuple(z, x)
  w = (s32[], f32[4,5]) while(t), condition=test, body=body
  ROOT r = f32[4,5] get-tuple-element(w), index=1 }
"""


def test_a_loop_is_what_the_interpreter_says() -> None:
    check(LOOP, [np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)])


def test_stages_are_timed_in_order() -> None:
    exe = compile_text(LOOP.encode(), "loop.hlo", cache=False)
    assert list(exe.compile_seconds) == ["parse", "verify", "passes", "emit", "compile", "load"]
    assert all(s >= 0 for s in exe.compile_seconds.values())
    assert repr(exe) == "<Executable loop: (x: f32[4,5]) -> f32[4,5]>"


def test_counts_of_a_run() -> None:
    exe = hlo.compile(hlo.parse(LOOP), cache=False)
    # Three times: 20 tanh, 16 maxima, 20 sums, one count; four comparisons.
    assert exe.cost["transcendentals"] == 60
    assert exe.cost["operations"] == 3 * (16 + 20 + 1) + 4
    assert exe.cost["exact"]


def test_errors_of_the_text_and_of_the_module() -> None:
    for text, code in (
        (b"HloModule m\nENTRY e { a = f32[2] parameter(0) b = }", "syntax"),
        (b"HloModule m\nENTRY e {\n ROOT a = f32[2] parameter(1)\n}", "bad-parameter-number"),
        (b"HloModule \xff", "bad-file"),
    ):
        with pytest.raises(HloError) as error:
            compile_text(text, "bad.hlo", cache=False)
        assert str(error.value).startswith(("bad.hlo:", "error: bad.hlo"))
        assert code in {d.code for d in error.value.diagnostics}, str(error.value)


def test_instructions_that_code_may_not_use() -> None:
    text = "f32[9] multiply(f32[9] a, f32[9] b)"
    off = [f for f in ("avx512f", "avx2", "neon") if host_machine().features.count(f"+{f}")]
    exe = hlo.compile(hlo.parse(text), cache=False, features=",".join(f"-{f}" for f in off))
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(exe(x, x), x * x)
    for bad in ("+nonsense", "avx2", "-avx3"):
        with pytest.raises(HloError) as error:
            hlo.compile(hlo.parse(text), cache=False, features=bad)
        assert error.value.code == "bad-target"


def test_broken_code_of_ours_is_no_error_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    from hlo.codegen import pipeline

    real = pipeline.write_program

    def broken(*args: object, **options: object) -> object:
        program = real(*args, **options)  # type: ignore[arg-type]
        wrong = Instruction("", Return("i32", ("0",)))
        program.module.add(Function("f", [], body=[wrong]))
        return program

    monkeypatch.setattr(pipeline, "write_program", broken)
    with pytest.raises(RuntimeError):
        hlo.compile(hlo.parse(LOOP), cache=False)


_HASHES = f"""
import hashlib, hlo
from hlo.compiler.pipeline import build
from hlo.compiler.lowering import Clock
from hlo.runtime.jit import host_machine
from hlo.runtime.program import to_bytes
program = build(hlo.parse({LOOP!r}), host_machine(), Clock())
print(hashlib.sha256(b"".join(to_bytes(program))).hexdigest())
"""


def test_the_same_module_is_the_same_code() -> None:
    """Not even the order of Python's hashes shows."""
    found = set()
    for seed in ("0", "1", "random"):
        env = os.environ | {"PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", _HASHES], env=env, capture_output=True, text=True, check=True
        )
        found.add(run.stdout)
    first = build(hlo.parse(LOOP), host_machine(), Clock())
    second = build(hlo.parse(LOOP), host_machine(), Clock())
    assert first.code == second.code
    assert len(found) == 1


def test_passes_come_first_or_not_at_all() -> None:
    body = "x = f32[2] parameter(0) y = f32[2] negate(x) ROOT z = f32[2] negate(y)"
    text = f"HloModule m\nENTRY e {{ {body} }}"
    module = hlo.parse(text)
    plain = hlo.compile(module, cache=False, passes="")
    assert "passes" not in plain.compile_seconds
    assert "passes" in hlo.compile(module, cache=False).compile_seconds
    assert str(module) == str(hlo.parse(text))
    with pytest.raises(HloError, match="no pass called nonesuch"):
        hlo.compile(module, cache=False, passes="nonesuch")
