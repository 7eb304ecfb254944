"""A user's function for a target of a vendor's library comes first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlo
from hlo.runtime.cache import Cache

_TEXT = """HloModule m
ENTRY e {
  a = f32[2,2] parameter(0)
  r = f32[2,2] custom-call(a, a), custom_call_target="TARGET", backend_config=CONFIG
  ROOT n = f32[2,2] negate(r)
}"""
_CONFIG = (
    '{"gemm_backend_config":{"alpha_real":1,"dot_dimension_numbers":'
    '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}'
)


@pytest.mark.parametrize(
    ("target", "config"),
    [
        ("__cublas$gemm", _CONFIG),
        ("__cublas$gemm", "{}"),
        ("__cublas$lt$groupedMatmul", "{}"),
        ("__cudnn$fmhaSoftmaxDropout", '{"dropout_rate":0.5}'),
    ],
)
def test_functions_of_a_host(target: str, config: str, tmp_path: Any) -> None:
    module = hlo.parse(_TEXT.replace("TARGET", target).replace("CONFIG", config))
    before = str(module)
    host = hlo.Host(custom_calls={target: lambda op, args: args[0] * np.float32(10)})
    a = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(hlo.interpret(module, a, host=host), -10 * a)
    cache = Cache(tmp_path)
    for _ in range(2):
        np.testing.assert_array_equal(hlo.compile(module, host=host, cache=cache)(a), -10 * a)
    for backend in ("reference", "gpu-emulated"):
        run = hlo.compile(module, backend=backend, host=host, cache=False)
        np.testing.assert_array_equal(run(a), -10 * a)
    if config == _CONFIG:
        np.testing.assert_array_equal(hlo.compile(module, cache=cache)(a), -(a @ a))
    assert str(module) == before
