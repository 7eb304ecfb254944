"""`hlo.jax.transform`: passes and functions inside XLA's compilation for JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo
import hlo.jax
from hlo.errors import HloError
from hlo.passes import Pass, Rewrites

STAGES = ("pre-scheduler", "post-scheduler")
X = np.float32([0.25, 0.5, 3])


def sine_to_cosine(module: hlo.Module) -> int:
    found = [i for i in module.instructions() if i.opcode == "sine"]
    for inst in found:
        assert inst.parent is not None
        new = inst.parent.create("cosine", inst.shape, inst.operands, like=inst)
        inst.replace_all_uses_with(new)
        if inst.parent.root is inst:
            inst.parent.set_root(new)
        inst.parent.remove(inst)
    return len(found)


def _replace(module: hlo.Module, rewrites: Rewrites) -> None:
    for _ in range(sine_to_cosine(module)):
        rewrites.allow("sine-to-cosine", module.entry.root)


REPLACE = Pass("sine_to_cosine", "Replace sines.", {}, _replace)


def fresh() -> Any:
    """Return a function that JAX has not compiled yet."""
    return jax.jit(lambda x: jnp.sin(x) * 2)


@pytest.fixture(autouse=True)
def _removed() -> Iterator[None]:
    yield
    for stage in sys.modules["hlo.jax.transforms"]._STAGES.values():
        assert stage.active == ()


@pytest.mark.parametrize("stage", STAGES)
def test_a_function_edits_inside_of_with(stage: str) -> None:
    f = fresh()
    before = f(X)
    with hlo.jax.transform(sine_to_cosine, stage=stage) as transform:
        inside = f(X)
        assert f(X) is not None
    np.testing.assert_allclose(inside, 2 * np.cos(X), rtol=1e-6)
    np.testing.assert_array_equal(f(X), before)
    [run] = transform.runs
    assert run == hlo.jax.TransformRun("jit__lambda", changed=True, value=1)
    assert repr(transform) == f"<Transform sine_to_cosine at {stage}, removed>"


@pytest.mark.parametrize("passes", [[REPLACE], [REPLACE, "dce"], ["algsimp", REPLACE]])
def test_passes_run_in_a_pipeline(passes: list[object]) -> None:
    with hlo.jax.transform(passes) as transform:
        got = fresh()(X)
    np.testing.assert_allclose(got, 2 * np.cos(X), rtol=1e-6)
    assert transform.runs[-1].changed and transform.runs[-1].value


def test_what_a_function_returns_is_a_report_or_another_module() -> None:
    def other(module: hlo.Module) -> hlo.Module:
        return hlo.parse(str(module).replace("sine(", "cosine("))

    with (
        hlo.jax.transform(other) as replaced,
        hlo.jax.transform(lambda m: [i.opcode for i in m.instructions()]) as counted,
    ):
        got = fresh()(X)
    np.testing.assert_allclose(got, 2 * np.cos(X), rtol=1e-6)
    assert replaced.runs[-1].value is None and replaced.runs[-1].changed
    assert "cosine" in counted.runs[-1].value and not counted.runs[-1].changed


def test_they_run_in_the_order_in_which_they_were_made() -> None:
    seen: list[str] = []
    first = hlo.jax.transform(lambda m: seen.append("first"))
    second = hlo.jax.transform(lambda m: seen.append("second"))
    third = hlo.jax.transform(lambda m: seen.append("third"), stage="post-scheduler")
    fresh()(X)
    second.remove()
    second.remove()
    fresh()(X)
    second.activate()
    second.activate()
    fresh()(X)
    for transform in (first, second, third):
        transform.remove()
    fresh()(X)
    assert seen == ["first", "second", "third", "first", "third", "first", "second", "third"]


def test_without_with_what_was_compiled_stays() -> None:
    f, g = fresh(), fresh()
    want = f(X)
    transform = hlo.jax.transform(sine_to_cosine)
    np.testing.assert_array_equal(f(X), want)
    changed = g(X)
    transform.remove()
    np.testing.assert_array_equal(g(X), changed)
    np.testing.assert_allclose(changed, 2 * np.cos(X), rtol=1e-6)


def _compiled() -> tuple[str, int]:
    compiled = jax.jit(lambda x: jnp.sin(x) + 1, donate_argnums=0).lower(X).compile()
    x = jnp.asarray(X)
    compiled(x)
    assert x.is_deleted()
    return compiled.as_text(), compiled.memory_analysis().alias_size_in_bytes


@pytest.mark.parametrize("passes", [lambda module: None, hlo.Module.clone, "", "dce"])
def test_what_changes_nothing_leaves_the_program_and_donations(passes: Any) -> None:
    results, made = [], list[hlo.jax.Transform]()
    for stages in ((), STAGES):
        with ExitStack() as stack:
            for stage in stages:
                made.append(stack.enter_context(hlo.jax.transform(passes, stage=stage)))
            results.append(_compiled())  # on one line: the text has it
    assert results[0] == results[1] and results[0][1] == X.nbytes
    assert [t.runs[-1].changed for t in made] == [False, False]


def _raises(module: hlo.Module) -> None:
    raise ValueError("no\nmodule")


def _exits(module: hlo.Module) -> None:
    sys.exit(3)


def _breaks(module: hlo.Module) -> None:
    module.entry.root.attrs["size"] = 3


def _cuts(module: hlo.Module) -> hlo.Module:
    return hlo.parse("HloModule m ENTRY e { ROOT c = f32[3] constant({1, 2, 3}) }")


def _compiles(module: hlo.Module) -> float:
    return float(fresh()(jnp.float32(2)))


def _parses(module: hlo.Module) -> hlo.Module:
    return hlo.parse("HloModule m")


ERRORS: list[tuple[Callable[[hlo.Module], object], str, str]] = [
    (_raises, "pass-failed", f"{__file__}:{_raises.__code__.co_firstlineno + 1}: ValueError: no"),
    (_exits, "pass-failed", "SystemExit: 3"),
    (_breaks, "pass-broke-module", f"pass breaks ({__file__}"),
    (_compiles, "pass-failed", "JAX cannot compile in here"),
    (_cuts, "signature-mismatch", "() -> f32[3] after cuts"),
    (_parses, "syntax", "expected a computation"),
]


@pytest.mark.parametrize(("function", "code", "text"), ERRORS, ids=[row[1] for row in ERRORS])
def test_an_error_names_the_module_and_the_function(
    function: Callable[[hlo.Module], object], code: str, text: str
) -> None:
    with pytest.raises(HloError) as e, hlo.jax.transform(function) as transform:
        fresh()(X)
    assert e.value is transform.error and e.value.code == code
    assert "module jit__lambda: " in str(e.value) and text in str(e.value)
    assert isinstance(e.value.__cause__, jax.errors.JaxRuntimeError)
    np.testing.assert_allclose(fresh()(X), 2 * np.sin(X), rtol=1e-6)


def test_without_with_the_error_is_one_of_jax() -> None:
    transform = hlo.jax.transform(_raises)
    try:
        with pytest.raises(jax.errors.JaxRuntimeError, match="module jit__lambda: pass raises"):
            fresh()(X)
    finally:
        transform.remove()


def test_an_error_that_is_caught_inside_is_over() -> None:
    with hlo.jax.transform(_raises):
        with pytest.raises(jax.errors.JaxRuntimeError):
            fresh()(X)
    with pytest.raises(KeyError), hlo.jax.transform(_raises):
        raise KeyError


def test_results_are_validated() -> None:
    with pytest.raises(HloError) as e, hlo.jax.transform([REPLACE], validate=True):
        fresh()(X)
    assert e.value.code == "pass-changed-result" and "sine" in str(e.value)


def test_threads_compile_at_the_same_time() -> None:
    functions = [jax.jit(lambda x, n=n: jnp.sin(x) + n) for n in range(8)]
    seen: list[str] = []
    edits = hlo.jax.transform(sine_to_cosine)
    counts = hlo.jax.transform(lambda m: seen.append(m.name))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda f: np.asarray(f(X)), functions))
    counts.remove()
    edits.remove()
    for n, got in enumerate(results):
        np.testing.assert_allclose(got, np.cos(X) + n, rtol=1e-6)
    assert len(seen) == len(edits.runs) == 8


def test_blocks_are_entered_inside_of_one_another_and_in_threads() -> None:
    f = fresh()
    transform = hlo.jax.transform(sine_to_cosine)

    def inside(_: int) -> list[np.ndarray]:
        with transform:
            first = np.asarray(f(X))
            with transform:
                assert transform._stage.active
            return [first, np.asarray(f(X))]

    with transform, ThreadPoolExecutor(3) as pool:
        results = list(pool.map(inside, range(6)))
        assert transform._stage.active
    assert not transform._stage.active
    for pair in results:
        for got in pair:
            np.testing.assert_allclose(got, 2 * np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(f(X), 2 * np.sin(X), rtol=1e-6)


def test_loops_branches_and_several_results_survive_an_edit() -> None:
    @jax.jit
    def f(x: Any, n: Any) -> Any:
        def body(c: Any) -> Any:
            i, y = c
            return i + 1, jax.lax.cond(i % 2 == 0, jnp.sin, jnp.cos, y)

        return jax.lax.while_loop(lambda c: c[0] < n, body, (0, x)), jnp.sort(x)

    want = f(X, 3)
    with hlo.jax.transform(sine_to_cosine) as transform:
        (count, y), ordered = f(X, 3)
    assert transform.runs[-1].value == 1 and int(count) == 3
    np.testing.assert_allclose(y, np.cos(np.cos(np.cos(X))), rtol=1e-6)
    np.testing.assert_array_equal(ordered, want[1])


def _swap(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, c: (c[1], c[0] + 1), (x, 2 * x))


def _twice(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, c: (c[0] + 1, c[1] * 2), (x, x))


def _update(x: Any) -> Any:
    y = x.at[1].set(7)
    return x, y, y.at[0].set(x[2])


def _equal_loops(x: Any) -> Any:
    def loop(y: Any) -> Any:
        return jax.lax.while_loop(lambda c: c[0] < 9, lambda c: jnp.sin(c) + 9, y)

    return loop(x), loop(2 * x)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("function", [_swap, _twice, _update, _equal_loops])
def test_values_stay_in_memory_of_their_own(function: Callable[[Any], Any], stage: str) -> None:
    def merge(module: hlo.Module) -> None:
        for comp in module.computations:
            for inst in comp:
                if inst.opcode == "copy" and not inst.is_root:
                    inst.replace_all_uses_with(inst.operands[0])
                    comp.remove(inst)

    f = jax.jit(lambda x: function(x))
    want = [np.asarray(a) for a in f(X)]
    for passes in ("fix(default)", "computation-deduplicator", merge):
        x = jnp.asarray(X)
        with hlo.jax.transform(passes, stage=stage) as transform:  # type: ignore[arg-type]
            got = f(x)
        assert transform.runs
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(x, X)


def test_the_persistent_cache_knows_what_is_active(tmp_path: Path) -> None:
    from jax.experimental.compilation_cache import compilation_cache

    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs",
             "jax_persistent_cache_min_entry_size_bytes")  # fmt: skip
    old = {name: getattr(jax.config, name) for name in names}
    values = (str(tmp_path), 0.0, -1)
    try:
        for name, value in zip(names, values, strict=True):
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        for passes in ([REPLACE], sine_to_cosine):
            with hlo.jax.transform(passes) as transform:
                first = fresh()(X)
            np.testing.assert_allclose(first, 2 * np.cos(X), rtol=1e-6)
            np.testing.assert_allclose(fresh()(X), 2 * np.sin(X), rtol=1e-6)
            with transform:  # from the cache
                np.testing.assert_array_equal(fresh()(X), first)
            assert [run.module for run in transform.runs].count("jit__lambda") == 1
        seen = list(tmp_path.iterdir())
        assert seen
    finally:
        for name, value in old.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def test_bad_arguments() -> None:
    with pytest.raises(HloError, match="stage is pre-scheduler or post-scheduler, not 'late'"):
        hlo.jax.transform("dce", stage="late")
    with pytest.raises(HloError, match="there is no pass called dcee"):
        hlo.jax.transform("dcee")
    with pytest.raises(TypeError, match="transform: passes is 5"):
        hlo.jax.transform(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="3 is not a pass"):
        hlo.jax.transform(["dce", 3])
    with pytest.raises(HloError, match="JAX has no platform cpuu here") as e:
        hlo.jax.transform("dce", platforms=["cpuu"])
    assert e.value.code == "unsupported-platform" and "did you mean 'cpu'?" in str(e.value)
    with pytest.raises(HloError, match="the compiler of platform hlo is not XLA"):
        hlo.jax.transform("dce", platforms=("cpu", "hlo"))


def test_a_jax_that_is_too_old_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax.extend.xla", None)
    monkeypatch.setattr(sys.modules["hlo.jax.transforms"], "_STAGES", {})
    with pytest.raises(HloError, match=r"hlo\.jax\.transform needs JAX 0\.10\.2 or newer") as e:
        hlo.jax.transform("dce")
    assert e.value.code == "missing-extra"
