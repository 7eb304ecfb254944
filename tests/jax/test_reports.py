"""What is slow and what is wrong in functions of JAX."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import hlo.jax
from hlo.errors import HloError

HERE = __file__


@functools.partial(jax.jit, static_argnums=1, static_argnames="power")
def model(x: dict[str, Any], times: int, unused: float, power: int = 2) -> Any:
    y = jnp.log(x["a"])  # the line that is looked for
    for _ in range(times):
        y = y**power
    return y, x


def line_of(text: str) -> int:
    with open(HERE) as f:
        return 1 + next(n for n, line in enumerate(f) if text in line)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_the_line_of_the_first_nan(dtype: Any) -> None:
    x = {"a": jnp.asarray(np.array([1, -2, 3]).astype(dtype))}
    finding = hlo.jax.find_nan(model, x, 3, 1.0, power=3)
    assert finding is not None and finding.location is not None
    assert (finding.kind, finding.index, finding.opcode) == ("nan", (1,), "log")
    assert (finding.location.file, finding.location.line) == (HERE, line_of("looked for"))
    assert hlo.jax.find_nan(model, {"a": abs(x["a"])}, 1, 1.0) is None


def test_static_arguments_in_any_position() -> None:
    x = {"a": np.float32([1, 2])}
    for call in (
        lambda f: f(model, x, 3, 1.0),
        lambda f: f(model, x, 3, unused=1.0),
        lambda f: f(jax.jit(model.__wrapped__, static_argnums=(-3, 3)), x, 3, 1.0, 2),
        lambda f: f(lambda x: model(x, 2, 0.0), x),
    ):
        assert call(hlo.jax.find_nan) is None
        assert call(hlo.jax.first_divergence) is None


def test_a_profile_has_the_lines_of_python() -> None:
    def f(x: Any) -> Any:
        return jnp.tanh(x) @ x  # the profiled line

    report = hlo.jax.profile(jax.jit(f), np.ones((64, 64), np.float32), peak=False, repeat=2)
    assert f"{HERE}:{line_of('the profiled line')}" in report.table()


def test_a_divergence_has_the_line_of_python() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.sin(x) * 1e8)

    found = hlo.jax.first_divergence(f, np.arange(100, dtype=np.float32), rtol=0, atol=0)
    assert found is not None and found.location is not None
    assert found.location.line == line_of("jnp.sin(x) * 1e8")


def test_the_pipeline_may_be_given() -> None:
    with pytest.raises(HloError, match="no pass called nothing"):
        hlo.jax.profile(lambda x: x + 1, np.float32(1), passes="nothing", peak=False)
