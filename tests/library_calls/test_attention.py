"""Attention of cuDNN, compared with its definition in float64; gradients, with differences."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.harness.library_calls import assert_close, run_call

_RNG = np.random.default_rng(7)
_B, _T, _S, _H = 2, 5, 6, 8


def _random(*dims: int, dtype: Any = np.float32) -> np.ndarray:
    return _RNG.uniform(-1, 1, dims).astype(dtype)


def _dims(lhs: int, rhs: int, lhs_batch: Any, rhs_batch: Any) -> dict[str, list[str]]:
    return {
        "lhs_contracting_dimensions": [str(lhs)], "rhs_contracting_dimensions": [str(rhs)],
        "lhs_batch_dimensions": [str(n) for n in lhs_batch],
        "rhs_batch_dimensions": [str(n) for n in rhs_batch],
    }  # fmt: skip


_FORWARD = {
    "BTNH": ((3, 3, (0, 2), (0, 2)), (3, 1, (0, 1), (0, 2))),
    "BNTH": ((3, 3, (0, 1), (0, 1)), (3, 2, (0, 1), (0, 1))),
}
_BACKWARD = {
    "BTNH": ((2, 1, (0, 1), (0, 2)), (3, 1, (0, 1), (0, 2)), (2, 1, (0, 1), (0, 2)),
             (3, 3, (0, 2), (0, 2))),
    "BNTH": ((2, 2, (0, 1), (0, 1)), (3, 2, (0, 1), (0, 1)), (2, 2, (0, 1), (0, 1)),
             (3, 3, (0, 1), (0, 1))),
}  # fmt: skip


def _config(form: str = "BNTH", **fields: Any) -> dict[str, Any]:
    names = ("bmm1", "bmm2")
    back = ("bmm1_grad_gemm1", "bmm1_grad_gemm2", "bmm2_grad_gemm1", "bmm2_grad_gemm2")
    found = {
        f"{name}_dot_dimension_numbers": _dims(*dims)
        for name, dims in (*zip(names, _FORWARD[form], strict=True),
                           *zip(back, _BACKWARD[form], strict=True))
    }  # fmt: skip
    return {
        "cudnn_fmha_backend_config": {
            "fmha_scale": 0.5, "dropout_rate": 0, "mask_type": "NO_MASK", "seed": "42", **found,
            **fields,
        }
    }  # fmt: skip


def _kept(mask: str, window: int, lengths: Any) -> np.ndarray:
    """Return which scores count, [batch, 1, query, key]."""
    query, key = np.arange(_T)[:, None], np.arange(_S)
    kept = np.ones((_B, 1, _T, _S), bool)
    if mask.endswith("CAUSAL"):
        kept &= key <= query
    if window:
        kept &= (key <= query) & (query - key < window)
    if mask.startswith("PADDING"):
        kept &= (query < lengths[0][:, None, None, None]) & (key < lengths[1][:, None, None, None])
    return kept


def _scores(q: np.ndarray, k: np.ndarray, bias: Any) -> np.ndarray:
    """Scores [batch, head, query, key] of arrays [batch, head, length, size]."""
    k = np.repeat(k, q.shape[1] // k.shape[1], 1)
    return 0.5 * q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3) + bias


def _attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, kept: Any, bias: Any
) -> tuple[np.ndarray, np.ndarray]:
    v = np.repeat(v, q.shape[1] // v.shape[1], 1).astype(np.float64)
    powers = np.where(kept, np.exp(_scores(q, k, bias)), 0)
    total = powers.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return powers / np.where(total, total, 1) @ v, np.log(total[..., 0])


def _in_form(form: str, a: np.ndarray) -> np.ndarray:
    return a.transpose(0, 2, 1, 3).copy() if form == "BTNH" else a


_LENGTHS = (np.array([5, 3], np.int32), np.array([4, 6], np.int32))


@pytest.mark.parametrize("form", ["BNTH", "BTNH"])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(
    ("mask", "window"),
    [("NO_MASK", 0), ("CAUSAL", 0), ("CAUSAL", 2), ("PADDING", 0), ("PADDING_CAUSAL", 0)],
)
@pytest.mark.parametrize("heads", [(2, 2), (4, 2)])
def test_forward(form: str, has_bias: bool, mask: str, window: int, heads: tuple[int, int]) -> None:
    n, m = heads
    q, k, v = _random(_B, n, _T, _H), _random(_B, m, _S, _H), _random(_B, m, _S, _H)
    bias = _random(1, n, _T, _S) if has_bias else np.float32(0)
    operands = [_in_form(form, a) for a in (q, k, v)]
    operands += [bias] if has_bias else []
    operands += _LENGTHS if mask.startswith("PADDING") else ()
    name = "ScaleBiasSoftmax" if has_bias else "Softmax"
    layout = "{3,1,2,0}" if form == "BTNH" else ""
    got = run_call(
        f"__cudnn$fmha{name}", operands,
        f"(f32[{_B},{n},{_T},{_H}]{layout}, f32[{_B},{n},{_T}], u8[0])",
        _config(form, mask_type=mask, sliding_window_length=window),
    )  # fmt: skip
    want, log_sum = _attention(q, k, v, _kept(mask, window, _LENGTHS), bias)
    assert_close(got[0], want)
    assert_close(got[1], log_sum)


def test_narrow_types_and_inference() -> None:
    q, k, v = (_random(_B, 2, n, _H, dtype=ml_dtypes.bfloat16) for n in (_T, _S, _S))
    for target, rate in (("__cudnn$fmhaSoftmax", 0), ("__cudnn$fmhaSoftmaxDropout", 0)):
        got, _ = run_call(
            target, [q, k, v], f"(bf16[{_B},2,{_T},{_H}], u8[16])", _config(dropout_rate=rate)
        )
        assert_close(got, _attention(q, k, v, True, 0)[0], 1e-2)


def test_without_softmax() -> None:
    q, k, v = _random(_B, 2, _T, _H), _random(_B, 2, _S, _H), _random(_B, 2, _S, _H)
    got, _ = run_call("__cudnn$fmhaBmmBmm", [q, k, v], f"(f32[{_B},2,{_T},{_H}], u8[0])", _config())
    assert_close(got, _scores(q, k, 0) @ v)


@pytest.mark.parametrize("form", ["BNTH", "BTNH"])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("mask", ["NO_MASK", "CAUSAL", "PADDING"])
@pytest.mark.parametrize("heads", [(2, 2), (4, 2)])
def test_backward(form: str, has_bias: bool, mask: str, heads: tuple[int, int]) -> None:
    n, m = heads
    q, k, v = _random(_B, n, _T, _H), _random(_B, m, _S, _H), _random(_B, m, _S, _H)
    grad = _random(_B, n, _T, _H)
    bias = _random(1, n, _T, _S) if has_bias else np.float32(0)
    kept = _kept(mask, 0, _LENGTHS)
    output, log_sum = _attention(q, k, v, kept, bias)
    operands = [_in_form(form, a) for a in (q, k, v)]
    operands += [log_sum.astype(np.float32), _in_form(form, grad)]
    operands += [bias] if has_bias else []
    operands += [_in_form(form, output.astype(np.float32))]
    operands += _LENGTHS if mask == "PADDING" else ()
    name = "ScaleBiasSoftmaxBackward" if has_bias else "SoftmaxBackward"
    shapes = [f"f32[{_B},{n},{_T},{_H}]", *[f"f32[{_B},{m},{_S},{_H}]"] * 2]
    shapes += [f"f32[1,{n},{_T},{_S}]"] if has_bias else []
    got = run_call(
        f"__cudnn$fmha{name}", operands, f"({', '.join(shapes)}, u8[0])",
        _config(form, mask_type=mask),
    )  # fmt: skip
    want = _gradients(q, k, v, bias, kept, grad)
    for g, w in zip(got, want[: len(shapes)], strict=False):
        assert_close(g, w, 5e-6)


def _gradients(q: Any, k: Any, v: Any, bias: Any, kept: Any, grad: Any) -> list[np.ndarray]:
    """Return the gradients by central differences of the sum of products with `grad`."""
    arrays = [np.asarray(a, np.float64) for a in (q, k, v, bias)]

    def value() -> float:
        return float((_attention(arrays[0], arrays[1], arrays[2], kept, arrays[3])[0] * grad).sum())

    found = []
    for a in arrays:
        result, step = np.zeros(a.shape), 1e-5
        for at in np.ndindex(a.shape):
            before = a[at]
            a[at] = before + step
            above = value()
            a[at] = before - step
            result[at] = (above - value()) / (2 * step)
            a[at] = before
        found.append(result)
    return found
