"""Random inputs: distributions, what is assumed of parameters, and what NaN does to a check."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.run.command import main

import hlo
from hlo.analysis.domains import domains_of
from hlo.io.random import Distribution, Distributions, Domain, random_array
from hlo.values.types import ELEMENT_TYPES, array, integer_range

INF = math.inf
NORMALIZE = """HloModule normalize
ENTRY main {
  x = f32[4,8] parameter(0)
  var = f32[8] parameter(1)
  eps = f32[] constant(1e-05)
  e = f32[8] broadcast(eps), dimensions={}
  v = f32[8] add(var, e)
  r = f32[8] rsqrt(v)
  b = f32[4,8] broadcast(r), dimensions={1}
  ROOT y = f32[4,8] multiply(x, b)
}
"""


def run(*args: str, text: str = NORMALIZE) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# --- what parameters are for --------------------------------------------------------------------

_IN_BODY = """HloModule m
body {
  s = (s32[], f32[8], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  at = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  part = f32[3] dynamic-slice(x, at), dynamic_slice_sizes={3}
  y = f32[8] dynamic-update-slice(x, part, i)
  ROOT t = (s32[], f32[8], s32[]) tuple(next, y, at)
}
more {
  s = (s32[], f32[8], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT p = pred[] compare(i, n), direction=LT
}
ENTRY main {
  a = (s32[], f32[8]) parameter(0)
  b = s32[] parameter(1)
  i = s32[] get-tuple-element(a), index=0
  x = f32[8] get-tuple-element(a), index=1
  s = (s32[], f32[8], s32[]) tuple(i, x, b)
  ROOT w = (s32[], f32[8], s32[]) while(s), condition=more, body=body
}
"""


def _entry(*lines: str, head: str = "") -> str:
    return "\n".join(["HloModule m", head, "ENTRY main {", *(f"  {x}" for x in lines), "}"])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (NORMALIZE, {(1, ()): (2.0**-7 - 1e-5, INF)}),
        (_entry("p = f32[3] parameter(0)", "ROOT r = f32[3] sqrt(p)"), {(0, ()): (0, INF)}),
        (_entry("p = f32[3] parameter(0)", "ROOT r = f32[3] asin(p)"), {(0, ()): (-1, 1)}),
        # x * x is never negative, whatever x is; what is added to it must not be either.
        (
            _entry(
                "x = f32[3] parameter(0)", "y = f32[3] parameter(1)",
                "xx = f32[3] multiply(x, x)", "s = f32[3] add(xx, y)", "ROOT r = f32[3] sqrt(s)",
            ),
            {(1, ()): (0, INF)},
        ),
        (
            _entry(
                "x = f32[3] parameter(0)", "z = f32[] constant(0)",
                "b = f32[3] broadcast(z), dimensions={}", "m = f32[3] maximum(x, b)",
                "ROOT r = f32[3] sqrt(m)",
            ),
            {},
        ),
        (
            _entry(
                "x = f32[3] parameter(0)", "one = f32[3] constant({1, 1, 1})",
                "d = f32[3] subtract(one, x)", "ROOT r = f32[3] sqrt(d)",
            ),
            {(0, ()): (-INF, 1)},
        ),
        (
            _entry(
                "a = f32[9,4] parameter(0)", "i = s32[2] parameter(1)", "j = s32[2] parameter(2)",
                "i2 = s32[2,1] reshape(i)", "j2 = s32[2,1] reshape(j)",
                "ij = s32[2,2] concatenate(i2, j2), dimensions={1}",
                "ROOT g = f32[2] gather(a, ij), offset_dims={}, collapsed_slice_dims={0,1}, "
                "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
            ),
            {(1, ()): (0, 8), (2, ()): (0, 3)},
        ),
        # Positions from the end, as frontends write them.
        (
            _entry(
                "a = f32[20] parameter(0)", "i = s32[] parameter(1)", "z = s32[] constant(0)",
                "n = s32[] constant(20)", "low = pred[] compare(i, z), direction=LT",
                "up = s32[] add(i, n)", "at = s32[] select(low, up, i)",
                "ROOT d = f32[4] dynamic-slice(a, at), dynamic_slice_sizes={4}",
            ),
            {(1, ()): (0, 16)},
        ),
        (
            _entry(
                "a = f32[20] parameter(0)", "i = s32[3,1] parameter(1)",
                "u = f32[3,5] parameter(2)",
                "ROOT s = f32[20] scatter(a, i, u), update_window_dims={1}, "
                "inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
                "to_apply=second",
                head="second {\n  x = f32[] parameter(0)\n  ROOT y = f32[] parameter(1)\n}",
            ),
            {(1, ()): (0, 15)},
        ),
        (_IN_BODY, {(0, (0,)): (0, 5), (1, ()): (0, 5)}),
        # What counts iterations, bits and elements is small, whatever its type and however it is
        # computed.
        (
            "more {\n  s = (s8[], s8[]) parameter(0)\n  i = s8[] get-tuple-element(s), index=0\n"
            "  n = s8[] get-tuple-element(s), index=1\n"
            "  ROOT p = pred[] compare(i, n), direction=LT\n}\n"
            "body {\n  s = (s8[], s8[]) parameter(0)\n  i = s8[] get-tuple-element(s), index=0\n"
            "  n = s8[] get-tuple-element(s), index=1\n  one = s8[] constant(1)\n"
            "  j = s8[] add(i, one)\n  ROOT t = (s8[], s8[]) tuple(j, n)\n}\n"
            + _entry(
                "n = s8[] parameter(0)", "m = s8[] parameter(1)", "k = s8[] multiply(n, m)",
                "z = s8[] constant(0)", "t = (s8[], s8[]) tuple(z, k)",
                "ROOT w = (s8[], s8[]) while(t), condition=more, body=body",
            )[len("HloModule m\n") :],
            {(0, ()): (0, 9), (1, ()): (0, 9)},
        ),
        (
            _entry(
                "x = u4[5] parameter(0)", "by = u4[5] parameter(1)",
                "ROOT y = u4[5] shift-left(x, by)",
            ),
            {(1, ()): (0, 3)},
        ),
        (
            _entry(
                "x = f32[5] parameter(0)", "n = s32[] parameter(1)",
                "ROOT y = f32[<=5] set-dimension-size(x, n), dimensions={0}",
            ),
            {(1, ()): (0, 5)},
        ),
        (
            _entry(
                "x = s8[90] parameter(0)", "i = u8[] parameter(1)", "j = u8[] parameter(2)",
                "two = u8[] constant(2)", "i2 = u8[] multiply(i, two)", "at = u8[] add(i2, j)",
                "ROOT y = s8[1] dynamic-slice(x, at), dynamic_slice_sizes={1}",
            ),
            {(1, ()): (0, 4.5), (2, ()): (0, 9)},
        ),
    ],
)  # fmt: skip
def test_domains(text: str, want: dict[tuple[int, tuple[int, ...]], tuple[float, float]]) -> None:
    module = hlo.parse(text)
    hlo.verify(module)
    found = domains_of(module)
    assert found.keys() == want.keys()
    for place, (low, high) in want.items():
        assert found[place].low == pytest.approx(low, abs=1e-7)
        assert found[place].high == pytest.approx(high)


def test_results_of_safe_inputs_are_numbers() -> None:
    module = hlo.parse(NORMALIZE)
    for seed in range(20):
        assert np.isfinite(hlo.interpret(module, *hlo.random_inputs(module, seed))).all()


# --- distributions ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ELEMENT_TYPES)
@pytest.mark.parametrize("text", ["safe", "normal", "uniform", "0.5:3"])
def test_random_arrays_of_every_type(name: str, text: str) -> None:
    et = ELEMENT_TYPES[name]
    if text == "0.5:3" and (et.bits == 1 or (et.is_signed and et.bits == 2)) and et.is_integer:
        return  # s2 goes up to 1
    values = random_array(array(et, (50,)), [3], Distribution.parse(text))
    assert values.dtype == et.dtype and values.shape == (50,)
    if et.is_pred:
        return
    wide = values.astype(np.complex128 if et.is_complex else np.float64)
    assert not np.isnan(wide).any()
    parts = np.concatenate([wide.real, wide.imag]) if et.is_complex else wide
    if text == "0.5:3":
        low = 1 if et.is_integer else 0.5
        assert (parts >= low).all() and (parts <= 3).all()
    elif et.is_integer:
        least, most = integer_range(et) if et.bits <= 8 else (0, 9)
        assert (parts >= least).all() and (parts <= most).all()
        assert parts.min() <= least + 0.2 * (most - least)
        assert parts.max() >= most - 0.2 * (most - least)
    elif text == "uniform":
        assert (parts >= 0).all() and (parts <= 1).all()


@pytest.mark.parametrize("name", [n for n, et in ELEMENT_TYPES.items() if et.is_integer])
def test_large_integers_fill_their_type(name: str) -> None:
    et = ELEMENT_TYPES[name]
    least, most = integer_range(et)
    values = random_array(array(et, (2000,)), [1], Distribution("large")).astype(object)
    assert least <= values.min() <= least + (most - least) // 100
    assert most - (most - least) // 100 <= values.max() <= most
    index = random_array(array(et, (50,)), [1], Distribution("large"), Domain(0, 1, "gather"))
    assert set(index.tolist()) == {0, min(1, most)}
    again = random_array(array(et, (2000,)), [1], Distribution("large")).astype(object)
    assert (values == again).all()


def test_a_domain_bounds_what_is_safe_and_nothing_else() -> None:
    positive, index = Domain(0.25, INF, "log"), Domain(0, 3, "gather")
    x, i = array("f32", (200,)), array("s32", (200,))
    assert random_array(x, [0], Distribution(), positive).min() >= 0.25
    assert random_array(x, [0], Distribution("normal"), positive).min() < 0
    assert set(random_array(i, [0], Distribution("normal"), index).tolist()) == {0, 1, 2, 3}
    assert random_array(i, [0], Distribution.parse("50:60"), index).min() >= 50


def test_the_last_pattern_that_fits_counts() -> None:
    given = Distributions(["uniform", "w*=0:1", "w1=5:6", "arg.0=2:3"])
    assert [given.of(n).low for n in ("w0", "w1", "arg.0")] == [0, 5, 2]
    assert given.of("x").kind == "uniform"


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("norml", "'norml' is not a distribution", "did you mean 'normal'?"),
        ("3:1", "'3:1' is an empty or an infinite range", None),
        ("x=1:1e999", "'1:1e999' is an empty or an infinite range", None),
        ("vra=0:1", "no parameter is called 'vra'", "did you mean 'var'?"),
    ],
)
def test_wrong_distributions(spec: str, message: str, hint: str | None) -> None:
    result = run("-", "--random", spec, "--json")
    assert result.exit_code == 1
    (error,) = json.loads(result.stdout)["errors"]
    assert (error["message"], error.get("hint")) == (message, hint)


def test_no_integers_between_two() -> None:
    result = run("-", "--random", "0.2:0.8", text=_entry("ROOT p = s32[3] parameter(0)"))
    assert (result.exit_code, "no s32 is in 0.2:0.8" in result.stderr) == (1, True)


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_it_says_what_it_assumed(backend: str) -> None:
    noted = "assumed of random inputs: var at least 0.0078025 (rsqrt)"
    # The second run of the compiled one comes from the cache.
    for _ in range(2):
        assert noted in run("-", "--backend", backend).stderr
    assert noted not in run("-", "--backend", backend, "--random", "var=1:2").stderr
    assert noted not in run("-", "--backend", backend, "-i", "var=zeros").stderr


# --- checks -------------------------------------------------------------------------------------


def test_a_check_shows_error_and_tolerance() -> None:
    result = run("-", "--check")
    assert result.exit_code == 0
    assert "out0: 32 elements within tolerance, largest error" in result.stderr
    assert "allowed 7.01e-05 of the value + " in result.stderr
    report = json.loads(run("-", "--check", "--json").stdout)["check"]["out0"]
    assert report["rtol"] == pytest.approx(7.01e-5, rel=1e-3)
    assert 0 <= report["error"] < report["atol"]


def test_a_check_of_nothing_but_nan_warns_and_may_fail() -> None:
    args = ["-", "--check", "--random", "var=-2:-1"]
    lax = run(*args)
    assert (lax.exit_code, "all of out0 is NaN, so nothing was compared" in lax.stderr) == (0, True)
    strict = run(*args, "--fail-on-nan")
    assert (strict.exit_code, "32 of 32 elements are NaN" in strict.stderr) == (1, True)
    assert run("-", "--check", "--fail-on-nan").exit_code == 0
    # Without a check as well.
    assert run("-", "--random", "var=-2:-1", "--fail-on-nan").exit_code == 1


def test_python_has_the_same_inputs(tmp_path: Path) -> None:
    module = hlo.parse(NORMALIZE)
    x, var = hlo.random_inputs(module, 5, ["x=1:2"])
    np.savez(tmp_path / "in.npz", x=x, var=var)
    given = run("-", "--inputs", str(tmp_path / "in.npz"), "-o", "-")
    made = run("-", "--seed", "5", "--random", "x=1:2", "-o", "-")
    assert given.stdout == made.stdout
