"""What the library's functions take for a module: modules, files, programs of JAX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.tree_mismatch import ARRAY, mismatch

jax = pytest.importorskip("jax")

X = np.float32([1, 2, 3])


def double(x: Any) -> Any:
    return x + x


def forms(folder: Path) -> dict[str, Any]:
    lowered = jax.jit(double).lower(X)
    module = hlo.from_jax(lowered)
    hlo.save(module, folder / "m.hlo")
    hlo.save(module, folder / "m.pb")
    return {
        "module": module,
        "name": str(folder / "m.hlo"),
        "path": folder / "m.pb",
        "traced": jax.jit(double).trace(X),
        "lowered": lowered,
        "compiled": lowered.compile(),
        "exported": jax.export.export(jax.jit(double))(X),
    }


FORMS = ["module", "name", "path", "traced", "lowered", "compiled", "exported"]
RUNS: dict[str, Callable[[Any], Any]] = {
    "interpret": lambda m: hlo.interpret(m, X),
    "compile": lambda m: hlo.compile(m)(X),
    "optimize": lambda m: hlo.interpret(hlo.optimize(m), X),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("use", RUNS)
def test_all_forms_run(form: str, use: str, tmp_path: Path) -> None:
    (result,) = np.atleast_2d(RUNS[use](forms(tmp_path)[form]))
    assert result.tolist() == [2, 4, 6]


USES: dict[str, Callable[[Any], Any]] = {
    "verify": hlo.verify,
    "random_inputs": hlo.random_inputs,
    "to_proto": hlo.to_proto,
    "to_stablehlo": hlo.to_stablehlo,
    "to_portable_artifact": hlo.to_portable_artifact,
    "trace": lambda m: hlo.trace(m, X),
    "find_nan": lambda m: hlo.find_nan(m, X),
    "first_divergence": lambda m: hlo.first_divergence(m, X),
    "memory_timeline": hlo.memory_timeline,
    "partition": lambda m: hlo.partition(m, 1),
    "diff": lambda m: hlo.diff(m, m),
    "reduce": lambda m: hlo.reduce(m, lambda module: "add" in str(module)),
    "profile": lambda m: hlo.profile(m, X, repeat=1, peak=False),
}


@pytest.mark.parametrize("form", ["name", "lowered"])
@pytest.mark.parametrize("use", USES)
def test_all_functions_take_them(form: str, use: str, tmp_path: Path) -> None:
    USES[use](forms(tmp_path)[form])


@pytest.mark.parametrize("jitted", [False, True])
def test_functions_of_jax_are_lowered_for_the_arguments(jitted: bool) -> None:
    function = jax.jit(double) if jitted else double
    assert hlo.interpret(function, X).tolist() == [2, 4, 6]
    assert hlo.interpret(function, x=X).tolist() == [2, 4, 6]
    for x64, dtype in ((False, np.float32), (True, np.float64)):
        with jax.enable_x64(x64):  # whether JAX reads f64 as f32
            assert hlo.interpret(function, X.astype(np.float64)).dtype == dtype
    assert hlo.compile(function, X)(X + 1).tolist() == [4, 6, 8]
    assert hlo.find_nan(function, X, backend="reference") is None
    assert hlo.trace(function, X, backend="reference").values


def test_functions_without_arguments() -> None:
    with pytest.raises(TypeError, match=r"double has arguments .* jax.jit\(double\).lower"):
        hlo.compile(double)
    with pytest.raises(TypeError, match="a Module is needed"):
        hlo.diff(double, double)
    assert hlo.compile(lambda: 3 * jax.numpy.ones(2))().tolist() == [3, 3]


def test_arguments_are_for_functions() -> None:
    module = hlo.from_jax(double, X)
    with pytest.raises(TypeError, match="only a function of JAX is compiled for arguments"):
        hlo.compile(module, X)


@pytest.mark.parametrize("other", ["module", "name", "lowered"])
def test_benchmarks_of_all_forms(other: str, tmp_path: Path) -> None:
    given = forms(tmp_path)
    found = hlo.bench(given["lowered"], other=given[other], max_time=0.1)
    assert len(found.sides) == 2 and found.sides[0].runs > 0
    names = [side["file"] for side in found.to_json()["sides"]]
    assert names == ["jit_double", given["name"] if other == "name" else "jit_double"]


def test_benchmarks_run_on_the_arguments() -> None:
    """An endless loop for any other argument than 3."""
    text = """HloModule m
    go { n = s32[] parameter(0)  three = s32[] constant(3)
      ROOT more = pred[] compare(n, three), direction=NE }
    same { ROOT n = s32[] parameter(0) }
    ENTRY e { n = s32[] parameter(0)  b = bf16[2] parameter(1)
      w = s32[] while(n), condition=go, body=same
      ROOT t = (s32[], bf16[2]) tuple(w, b) }"""
    import ml_dtypes

    found = hlo.bench(hlo.parse(text), 3, np.zeros(2, ml_dtypes.bfloat16), max_time=0.1)
    assert found.sides[0].runs > 0


@pytest.mark.parametrize(
    ("given", "needed", "words"),
    [
        (((1,), {}), ((ARRAY, ARRAY), {}), "the call has 1 argument by position; the function was"),
        (((1,), {}), (([ARRAY] * 2,), {}), "w is an array, a list of 2 is needed"),
        ((([1, (1, 2)],), {}), (([ARRAY, (ARRAY,)],), {}), "w[1] is a tuple of 2, a tuple of 1"),
        ((({"a": 1},), {}), (({"a": ARRAY, "b": ARRAY},), {}),
         "w is a dictionary of 'a', a dictionary of 'a', 'b' is needed"),
        ((({"a": [1]},), {}), (({"a": ARRAY},), {}), "w['a'] is a list of 1, an array is needed"),
        (((None,), {}), ((ARRAY,), {}), "w is None, an array is needed"),
        (((1,), {"k": [1]}), ((ARRAY,), {"k": ARRAY}), "k is a list of 1, an array is needed"),
        (((1,), {"k": 1}), ((ARRAY,), {}), "by position and k by name; the function was lowered"),
    ],
)  # fmt: skip
def test_where_arguments_are_nested_differently(given: Any, needed: Any, words: str) -> None:
    assert words in mismatch(given, needed, ("w",))


def test_a_call_with_other_trees() -> None:
    run = hlo.compile(lambda params, x: params["w"] * x, {"w": X, "b": X}, X)
    with pytest.raises(hlo.HloError, match=r"params is a dictionary of 'w', a dictionary of 'b', "):
        run({"w": X}, X)
    with pytest.raises(hlo.HloError, match=r"params\['w'\] is a list of 3, an array is needed"):
        run({"w": [1, 2, 3], "b": X}, X)
