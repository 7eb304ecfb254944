"""How JAX lowers programs for this backend."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest

from hlo.jax import lowering, plugin
from hlo.jax.private import backends

plugin.initialize()
SQUARE = np.float32([[4, 1], [1, 3]])


def lowered(function: Callable[..., Any], *args: Any, platforms: Any = ("hlo",)) -> str:
    traced = jax.jit(function).trace(*args)
    return str(traced.lower(lowering_platforms=platforms).as_text())


def called(text: str) -> set[str]:
    return set(re.findall(r"stablehlo\.custom_call @([\w.]+)\(", text))


def test_each_rule_that_jax_has_for_the_cpu_is_known() -> None:
    """A version of JAX with another one fails here: it belongs in one of `lowering`'s lists."""
    for package in ("jax.experimental.sparse", "jax._src.lax", "jax._src"):
        module = importlib.import_module(package)
        for found in pkgutil.iter_modules(module.__path__, package + "."):
            if not re.search("test|debugger|tpu|mosaic|triton|cudnn|deprecated", found.name):
                importlib.import_module(found.name)
    rules = {
        p.name for p, e in backends.rules_of("cpu").items()
        if "jax." in getattr(e.rule, "func", e.rule).__module__
    }  # fmt: skip
    assert rules == lowering.KNOWN


def test_rules_are_either_the_cpus_or_those_of_any_platform() -> None:
    for primitive in backends.rules_of("cpu"):
        mine = primitive in backends.rules_of("hlo")
        assert mine is (primitive.name not in lowering._NOT_TAKEN), primitive.name


@pytest.mark.parametrize(
    ("function", "targets"),
    [
        (jnp.linalg.cholesky, {"lapack_spotrf_ffi"}),
        (jnp.linalg.qr, {"lapack_sgeqrf_ffi", "lapack_sorgqr_ffi"}),
        (jnp.linalg.svd, {"lapack_sgesdd_ffi"}),
        (jnp.linalg.eigh, {"lapack_ssyevd_ffi"}),
        (jnp.linalg.eig, {"lapack_sgeev_ffi"}),
        (jnp.linalg.inv, {"lapack_sgetrf_ffi", "lapack_strsm_ffi"}),
        (jax.scipy.linalg.schur, {"lapack_sgees_ffi"}),
        (jax.scipy.linalg.hessenberg, {"lapack_sgehrd_ffi"}),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)  # fmt: skip
def test_linear_algebra_calls_lapack(function: Callable[..., Any], targets: set[str]) -> None:
    text = lowered(function, SQUARE)
    assert called(text) == targets == called(lowered(function, SQUARE, platforms=("cpu",)))


def test_other_primitives_have_the_rules_of_any_platform() -> None:
    precision = jax.lax.DotAlgorithmPreset.TF32_TF32_F32
    text = lowered(lambda x: jax.lax.dot(x, x, precision=precision), SQUARE)
    assert "algorithm" in text


@pytest.mark.parametrize(
    ("branches", "operation"),
    [
        ({"cpu": jnp.sin, "default": jnp.cos}, "sine"),
        ({"cpu": jnp.sin, "tpu": jnp.cos}, "sine"),
        ({"cpu": jnp.sin, "hlo": jnp.cos}, "cosine"),
        ({"tpu": jnp.sin, "default": jnp.cos}, "cosine"),
    ],
)
def test_a_branch_for_the_cpu_is_for_this_backend(
    branches: dict[str, Callable[..., Any]], operation: str
) -> None:
    text = lowered(lambda x: jax.lax.platform_dependent(x, **branches), SQUARE)
    assert re.findall(r"stablehlo\.(sine|cosine)", text) == [operation]


def test_a_branch_for_another_platform_alone_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="platform hlo"):
        lowered(lambda x: jax.lax.platform_dependent(x, tpu=jnp.sin), SQUARE)


@pytest.mark.parametrize("platforms", [["cpu"], ["tpu", "cpu"], ["hlo"]])
def test_what_was_exported_for_the_cpu_can_be_called(platforms: list[str]) -> None:
    function = jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos))
    exported = jax.export.export(function, platforms=platforms)(SQUARE)
    exported = jax.export.deserialize(exported.serialize())
    assert "call_exported" in lowered(exported.call, SQUARE)


def test_what_was_exported_for_others_cannot_be_called() -> None:
    exported = jax.export.export(jax.jit(jnp.sin), platforms=["tpu"])(SQUARE)
    with pytest.raises(ValueError, match="exported for platforms"):
        lowered(exported.call, SQUARE)


def test_the_rules_of_other_packages_for_the_cpu_are_taken() -> None:
    """Where they have none for any platform."""
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    mine, both = Primitive("hlo_test_cpu_only"), Primitive("hlo_test_both")
    for primitive in (mine, both):
        primitive.def_abstract_eval(lambda x: x)
        mlir.register_lowering(primitive, mlir.lower_fun(jnp.sin, False), platform="cpu")
    mlir.register_lowering(both, mlir.lower_fun(jnp.cos, False))
    assert "stablehlo.sine" in lowered(mine.bind, SQUARE)
    assert "stablehlo.cosine" in lowered(both.bind, SQUARE)
