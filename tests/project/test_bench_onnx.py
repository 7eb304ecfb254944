"""What the benchmark hands to onnxruntime computes what the module does."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import hlo
from tests.harness.paths import ROOT

PROGRAMS = {
    "elementwise, with broadcasts": """
      x = f32[3,5] parameter(0)  b = f32[5] parameter(1)
      bias = f32[3,5] broadcast(b), dimensions={1}
      one = f32[] constant(1)  ones = f32[3,5] broadcast(one), dimensions={}
      sum = f32[3,5] add(x, bias)  wave = f32[3,5] tanh(sum)
      root = f32[3,5] rsqrt(ones)
      is_less = pred[3,5] compare(wave, bias), direction=NE
      low = f32[3,5] clamp(bias, wave, root)
      ROOT z = f32[3,5] select(is_less, low, ones)""",
    "a product with dimensions in any order": """
      x = f32[4,2,3] parameter(0)  y = f32[5,4,2] parameter(1)
      ROOT z = f32[2,3,5] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={2},
        lhs_contracting_dims={0}, rhs_contracting_dims={1}""",
    "a product of bytes": """
      x = s8[3,4] parameter(0)  y = s8[4,2] parameter(1)
      ROOT z = s32[3,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "a strided convolution in groups": """
      x = f32[2,7,8,4] parameter(0)  w = f32[3,2,2,6] parameter(1)
      ROOT z = f32[2,4,4,6] convolution(x, w), window={size=3x2 stride=2x2 pad=1_1x0_0},
        dim_labels=b01f_01io->b01f, feature_group_count=2""",
    "movement": """
      x = f32[4,6] parameter(0)  v = f32[] parameter(1)  i = s32[] parameter(2)
      t = f32[6,4] transpose(x), dimensions={1,0}  r = f32[6,4] reverse(t), dimensions={0}
      s = f32[3,4] slice(r), slice={[0:6:2], [0:4]}
      p = f32[3,6] pad(s, v), padding=0_0x1_1  c = f32[7,6] concatenate(p, x), dimensions={0}
      ROOT z = f32[2,3] dynamic-slice(c, i, i), dynamic_slice_sizes={2,3}""",
    "rows by index": """
      x = f32[5,3] parameter(0)  i = s32[2,2] parameter(1)
      ROOT z = f32[2,2,3] gather(x, i), offset_dims={2}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=2, slice_sizes={1,3}""",
}
REDUCER = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
"""
PROGRAMS_WITH_REDUCERS = {
    "reductions": """
      x = f32[3,4] parameter(0)  zero = f32[] constant(0)  start = f32[] constant(2)
      s = f32[3] reduce(x, zero), dimensions={1}, to_apply=add
      m = f32[4] reduce(x, start), dimensions={0}, to_apply=max
      ROOT z = (f32[3], f32[4]) tuple(s, m)""",
    "running sums and pooling": """
      x = f32[2,6,6,3] parameter(0)  y = f32[5,4] parameter(1)
      low = f32[] constant(-inf)  zero = f32[] constant(0)
      m = f32[2,3,3,3] reduce-window(x, low), window={size=1x3x3x1 stride=1x2x2x1
        pad=0_0x0_1x0_1x0_0}, to_apply=max
      s = f32[5,4] reduce-window(y, zero), window={size=5x1 pad=4_0x0_0}, to_apply=add
      ROOT z = (f32[2,3,3,3], f32[5,4]) tuple(m, s)""",
    "rows added at indices": """
      x = f32[5,3] parameter(0)  i = s32[4,1] constant({{0},{3},{0},{4}})
      u = f32[4,3] parameter(1)
      ROOT z = f32[5,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
}


def _module(body: str, before: str = "") -> hlo.Module:
    return hlo.parse(f"HloModule m {before} ENTRY e {{ {body} }}")


@pytest.mark.parametrize("name", [*PROGRAMS, *PROGRAMS_WITH_REDUCERS])
def test_onnxruntime_computes_the_same(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    measure = importlib.import_module("measure")
    body = PROGRAMS.get(name) or PROGRAMS_WITH_REDUCERS[name]
    module = _module(body, "" if name in PROGRAMS else REDUCER)
    args = list(hlo.random_inputs(module, seed=1))
    got = measure.onnxruntime(hlo.print_module(module), args)()
    want = hlo.interpret(module, *args)
    for g, w in zip(got, want if isinstance(want, tuple) else [want], strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def test_what_onnx_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    to_onnx = importlib.import_module("to_onnx")
    module = _module("x = c64[4] parameter(0) ROOT z = c64[4] fft(x), fft_type=FFT, fft_length={4}")
    with pytest.raises(to_onnx.Unsupported, match="c64"):
        to_onnx.model_of(module)


def test_errors_are_measured_in_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    accuracy = importlib.import_module("accuracy")
    text = """HloModule m ENTRY e {
      x = f32[2] parameter(0)  tenth = f32[] constant(0.1)
      tenths = f32[2] broadcast(tenth), dimensions={}
      ROOT z = f32[2] multiply(x, tenths) }"""
    x = np.array([1, 3], np.float32)
    exact = hlo.interpret(accuracy.in_double(text), *accuracy.widened([x]))
    # The constant is the number that it is in f32.
    np.testing.assert_array_equal(exact, x.astype(np.float64) * np.float64(np.float32(0.1)))
    assert accuracy.relative_error([exact.astype(np.float32)], [exact]) < 1e-7
    assert accuracy.relative_error([np.float32([0.1, 0.4])], [exact]) == pytest.approx(0.316, 1e-2)
    assert accuracy.in_double(text.replace("multiply(x", "bitcast-convert(x").replace(
        ", tenths)", ")")) is None  # fmt: skip
