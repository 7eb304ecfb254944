"""Modules that break a rule and that XLA runs: refused with a hint, or run as XLA runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hlo
from hlo.errors import HloError
from hlo.lenient import verified
from hlo.verifier import verify
from tests.harness.oracle import assert_same, leaves, xla_run

_HERE = Path(__file__).parent


def _cases(name: str) -> dict[str, str]:
    parts = re.split(r"^-- (.+)\n", (_HERE / name).read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


REFUSED = _cases("refused.txt")
# Valid, but no backend runs them as they are.
NOT_RUN = _cases("not_run.txt")


def _runs_as_xla(text: str) -> None:
    module = hlo.parse(text)
    before = str(module)
    repaired = verified(module, "lenient")
    verify(repaired)
    args = hlo.random_inputs(repaired)
    want = hlo.interpret(module, *args, verify="lenient")
    exe = hlo.compile(module, cache=False, verify="lenient")
    assert_same(exe(*args), want, ulps=1e3)
    plain = hlo.compile(module, cache=False, passes="", verify="lenient")
    assert_same(plain(*args), want, ulps=1e3)
    assert_same(want, tuple(xla_run(text, leaves(tuple(args)))), ulps=1e3)
    assert str(module) == before


@pytest.mark.parametrize("name", REFUSED)
def test_a_lenient_module_runs_as_xla_runs_it(name: str) -> None:
    _runs_as_xla(REFUSED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_a_strict_error_says_what_xla_does(name: str) -> None:
    module = hlo.parse(REFUSED[name])
    with pytest.raises(HloError) as e:
        hlo.verify(module)
    for found in e.value.diagnostics:
        assert re.fullmatch(r"XLA .*; --verify=lenient accepts it", found.hint or ""), found


@pytest.mark.parametrize("name", NOT_RUN)
def test_what_xla_removes_is_not_needed(name: str) -> None:
    module = hlo.parse(NOT_RUN[name])
    hlo.verify(module)
    with pytest.raises(HloError, match=r"hint: .*--verify=lenient"):
        hlo.interpret(module, *hlo.random_inputs(module))
    _runs_as_xla(NOT_RUN[name])


_CALL = 'u = f32[2] custom-call(p), custom_call_target="nobody"'
NEEDED = {
    "read": f"{_CALL}\n  ROOT r = f32[2] negate(u)",
    "with a side effect": f"{_CALL}, custom_call_has_side_effect=true\n  ROOT r = f32[2] negate(p)",
    "read on one path": f"{_CALL}\n  c = pred[2] compare(p, p), direction=LT\n"
    "  ROOT r = f32[2] select(c, p, u)",
}


@pytest.mark.parametrize("name", NEEDED)
def test_unknown_calls_that_are_needed_stay_errors(name: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  p = f32[2] parameter(0)\n  {NEEDED[name]}\n}}\n"
    for run in (hlo.interpret, lambda m, x, verify: hlo.compile(m, cache=False, verify=verify)):
        with pytest.raises(HloError) as e:
            run(hlo.parse(text), [1, 2], verify="lenient")
        assert e.value.code == "unknown-custom-call"


WRONG = {
    "an alias between shapes": (
        "p = f32[2,3] parameter(0)\n  ROOT r = f32[3,2] reshape(p)",
        ", input_output_alias={ {}: (0, {}, must-alias) }",
    ),
    "a nested tuple": (
        "p = f32[2] parameter(0)\n  ROOT r = ((f32[2])) opt-barrier(p)", "",
    ),
    "a tuple of one elsewhere": ("p = f32[2] parameter(0)\n  ROOT r = (f32[2]) negate(p)", ""),
    "a tuple of one of another type": (
        "p = f32[2] parameter(0)\n  ROOT r = (f32[3]) opt-barrier(p)", "",
    ),
    "a transform of another length": (
        "p = c64[4] parameter(0)\n  ROOT r = c64[4] fft(p), fft_type=FFT, fft_length={2}", "",
    ),
    "a bitcast of another size": (
        "p = f32[3,5]{1,0:T(4,8)} parameter(0)\n  ROOT r = f32[3,4]{1,0:T(8,128)} bitcast(p)", "",
    ),
    "a state of other dimensions": (
        "p = u64[2] parameter(0)\n"
        "  ROOT r = (u32[4], u32[5]) rng-bit-generator(p), algorithm=rng_default", "",
    ),
    "random pred": (
        "p = u64[2] parameter(0)\n  ROOT r = pred[5] rng-bit-generator(p), algorithm=rng_default",
        "",
    ),
    "a sparse kernel that is not whole": (
        "a = f32[1,4] parameter(0)\n  b = f32[2,1] parameter(1)\n"
        "  ROOT r = f32[1,1] convolution(a, b), dim_labels=bf_io->bf, "
        "sparsity_config={rhs={sparsity=1x4 dimension=0 stride=1}}", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_xla_refuses_is_refused_without_a_hint(name: str) -> None:
    lines, header = WRONG[name]
    module = hlo.parse(f"HloModule m{header}\nENTRY e {{\n  {lines}\n}}\n")
    for mode in ("strict", "lenient"):
        with pytest.raises(HloError) as e:
            hlo.verify(module, mode)
        assert "lenient" not in str(e.value)


def test_one_error_that_lenient_accepts_beside_one_that_it_does_not() -> None:
    module = hlo.parse(
        "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  r = (f32[2]) opt-barrier(p)\n"
        "  ROOT s = f32[5] add(p, p)\n}\n"
    )
    with pytest.raises(HloError) as e:
        hlo.verify(module)
    first, second = e.value.diagnostics
    assert first.hint is not None and "--verify=lenient" in first.hint
    assert second.hint is None
    with pytest.raises(HloError) as e:
        hlo.verify(module, "lenient")
    (left,) = e.value.diagnostics
    assert (left.code, left.message) == (second.code, second.message)


def test_a_computation_on_two_threads_is_copied() -> None:
    text = """HloModule m
side { q = f32[2] parameter(0)
 ROOT n = f32[2] negate(q) }, execution_thread="side"
ENTRY e {
  p = f32[2] parameter(0)
  s = ((f32[2]), f32[2], s32[]) async-start(p), async_execution_thread="side", calls=side
  d = f32[2] async-done(s)
  c = f32[2] call(d), to_apply=side
  ROOT r = f32[2] add(c, d)
}
"""
    module = hlo.parse(text)
    repaired = verified(module, "lenient")
    verify(repaired)
    assert {c.execution_thread for c in repaired.computations} == {"main", "side"}
    assert hlo.interpret(module, [1, 2], verify="lenient").tolist() == [0, 0]


def test_optimize_repairs_in_place() -> None:
    module = hlo.parse(REFUSED["a tuple of one from reduce"])
    hlo.optimize(module, "dce", verify="lenient", inplace=True)
    verify(module)


def test_a_scheduled_module_stays_scheduled() -> None:
    text = REFUSED["a tuple of one and its element"].replace(
        "HloModule m", "HloModule m, is_scheduled=true"
    )
    verify(verified(hlo.parse(text), "lenient"))
