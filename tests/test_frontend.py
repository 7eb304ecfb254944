"""Programs of JAX as modules."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.errors import HloError

jax = pytest.importorskip("jax")


def layer(params: dict[str, Any], x: Any, unused: Any = 0) -> Any:
    return jax.nn.relu(x @ params["w"] + params["b"]), x.sum()


PARAMS = {"b": np.float32([1, -1, 0]), "w": np.eye(4, 3, dtype=np.float32)}
X = np.ones((2, 4), np.float32)


def test_a_function_becomes_a_module() -> None:
    module = hlo.from_jax(layer, PARAMS, X, 3)
    names = [p.name for p in module.entry.parameters]
    assert [n.strip("_") for n in names] == ["params__b", "params__w", "x", "unused"]
    hlo.verify(module)
    y, total = hlo.interpret(module, PARAMS["b"], PARAMS["w"], X, 3)
    np.testing.assert_array_equal(y, layer(PARAMS, X)[0])
    assert total == 8


@pytest.mark.parametrize("lowered", [False, True])
def test_jitted_and_lowered_ones_too(lowered: bool) -> None:
    jitted = jax.jit(lambda x: jax.lax.scan(lambda c, e: (c + e, c * e), 0.0, x))
    spec = jax.ShapeDtypeStruct((5,), np.float32)
    module = hlo.from_jax(jitted.lower(spec)) if lowered else hlo.from_jax(jitted, spec)
    assert any(i.opcode == "while" for i in module.instructions())
    x = np.arange(5, dtype=np.float32)
    got = hlo.interpret(module, x)
    want = jitted(x)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_a_lowered_program_takes_no_arguments() -> None:
    lowered = jax.jit(lambda x: x).lower(1.0)
    with pytest.raises(TypeError, match="has its arguments already"):
        hlo.from_jax(lowered, 1.0)


def test_without_jax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(HloError, match=r"hlo-tools\[jax\]") as e:
        hlo.from_jax(lambda x: x, 1.0)
    assert e.value.code == "missing-extra"
