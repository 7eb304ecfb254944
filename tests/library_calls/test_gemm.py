"""Products of cuBLAS, compared with their definition in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.harness.library_calls import assert_close, run_call

_RNG = np.random.default_rng(5)


def _random(*dims: int, dtype: Any = np.float32) -> np.ndarray:
    return _RNG.uniform(-2, 2, dims).astype(dtype)


def _config(epilogue: str = "DEFAULT", **fields: Any) -> dict[str, Any]:
    lhs, rhs = fields.pop("contract", ([1], [0]))
    batch = fields.pop("batch", ([], []))
    return {
        "operation_queue_id": "0",
        "gemm_backend_config": {
            "alpha_real": 1, "alpha_imag": 0, "beta": 0, "epilogue": epilogue,
            "dot_dimension_numbers": {
                "lhs_contracting_dimensions": [str(n) for n in lhs],
                "rhs_contracting_dimensions": [str(n) for n in rhs],
                "lhs_batch_dimensions": [str(n) for n in batch[0]],
                "rhs_batch_dimensions": [str(n) for n in batch[1]],
            },
            "precision_config": {"operand_precision": ["DEFAULT", "DEFAULT"]},
            **fields,
        },
    }  # fmt: skip


def _gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


_ACTIVATIONS = {
    "RELU": lambda x: np.maximum(x, 0), "GELU": _gelu, "SILU": lambda x: x / (1 + np.exp(-x)),
}  # fmt: skip


def _wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(np.float16, 1e-3), (ml_dtypes.bfloat16, 8e-3), (np.float32, 2e-6), (np.float64, 1e-13)],
)
@pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul"])
def test_product_with_addend(target: str, dtype: Any, tolerance: float) -> None:
    a, b, c = _random(5, 7, dtype=dtype), _random(7, 3, dtype=dtype), _random(5, 3, dtype=dtype)
    name = {2: "f16", 4: "f32", 8: "f64"}[np.dtype(dtype).itemsize]
    name = "bf16" if dtype is ml_dtypes.bfloat16 else name
    config = _config(alpha_real=0.5, beta=-1.5)
    got, scratch = run_call(
        target, [a, b, c], f"({name}[5,3], s8[64])", config,
        "output_to_operand_aliasing={{0}: (2, {})},",
    )  # fmt: skip
    wa, wb, wc = _wide(a, b, c)
    assert_close(got, 0.5 * wa @ wb - 1.5 * wc, tolerance)
    assert not scratch.any()


def test_complex_alpha() -> None:
    a, b = (_random(4, 4) + 1j * _random(4, 4) for _ in range(2))
    a, b = a.astype(np.complex64), b.astype(np.complex64)
    (got,) = run_call("__cublas$gemm", [a, b], "c64[4,4]", _config(alpha_real=2, alpha_imag=-1))
    assert_close(got, (2 - 1j) * (a.astype(np.complex128) @ b.astype(np.complex128)))


def test_integers() -> None:
    a, b = (_RNG.integers(-128, 128, (6, 6)).astype(np.int8) for _ in range(2))
    want = a.astype(np.int64) @ b.astype(np.int64)
    for name in ("s32", "f32"):
        (got,) = run_call("__cublas$gemm", [a, b], f"{name}[6,6]", _config())
        np.testing.assert_array_equal(got, want)


def test_layouts_and_transposed_factors() -> None:
    a, b = _random(7, 5), _random(3, 7)
    config = _config(contract=([0], [1]))
    got, _ = run_call("__cublas$gemm", [a, b], "(f32[5,3]{0,1}, s8[4])", config)
    assert_close(got, a.T @ b.T)


@pytest.mark.parametrize(
    ("lhs", "rhs", "batch", "contract", "equation"),
    [
        ((2, 3, 4), (2, 4, 5), ([0], [0]), ([2], [1]), "bmk,bkn->bmn"),
        ((3, 2, 4), (4, 2, 5), ([1], [1]), ([2], [0]), "mbk,kbn->bmn"),
        # the batch of one factor alone: the other one was a broadcast
        ((2, 3, 4), (4, 5), ([0], []), ([2], [0]), "bmk,kn->bmn"),
        ((3, 2, 4), (4, 5), ([1], []), ([2], [0]), "mbk,kn->bmn"),
        ((3, 4), (2, 4, 5), ([], [0]), ([1], [1]), "mk,bkn->bmn"),
        ((3, 4), (4, 2, 5), ([], [1]), ([1], [0]), "mk,kbn->bmn"),
        ((3,), (3,), ([], []), ([0], [0]), "k,k->"),
        ((2, 3), (2, 3), ([0], [0]), ([1], [1]), "bk,bk->b"),
        ((2, 3, 4), (3, 4, 5), ([], []), ([1, 2], [0, 1]), "mkl,kln->mn"),
    ],
)
def test_batches(lhs: Any, rhs: Any, batch: Any, contract: Any, equation: str) -> None:
    a, b = _random(*lhs), _random(*rhs)
    want = np.einsum(equation, *_wide(a, b))
    dims = ",".join(map(str, want.shape))
    config = _config(batch=batch, contract=contract, lhs_stride="12", rhs_stride="0")
    got, _ = run_call("__cublas$gemm", [a, b], f"(f32[{dims}], s8[4194304])", config)
    assert_close(got, want)


@pytest.mark.parametrize(
    "epilogue",
    ["BIAS", "RELU", "BIAS_RELU", "GELU", "GELU_AUX", "BIAS_GELU", "BIAS_GELU_AUX", "SILU",
     "BIAS_SILU"],
)  # fmt: skip
@pytest.mark.parametrize("beta", [0, 0.25])
def test_epilogues(epilogue: str, beta: float) -> None:
    a, b, c, bias = _random(5, 7), _random(7, 3), _random(5, 3), _random(3)
    operands = [a, b, *([c] if beta else []), *([bias] if "BIAS" in epilogue else [])]
    shape = "(f32[5,3], f32[5,3], s8[8])" if epilogue.endswith("AUX") else "(f32[5,3], s8[8])"
    got = run_call("__cublas$lt$matmul", operands, shape, _config(epilogue, beta=beta))
    wa, wb, wc = _wide(a, b, c)
    x = wa @ wb + beta * wc + bias * ("BIAS" in epilogue)
    name = epilogue.removeprefix("BIAS").strip("_").removesuffix("_AUX")
    assert_close(got[0], _ACTIVATIONS[name](x) if name else x)
    if epilogue.endswith("AUX"):
        assert_close(got[1], x)


def test_bias_is_along_the_contiguous_dimension() -> None:
    a, b, bias = _random(3, 4), _random(4, 3), _random(3)
    for layout, want in (("{1,0}", a @ b + bias), ("{0,1}", a @ b + bias[:, None])):
        (got,) = run_call("__cublas$lt$matmul", [a, b, bias], f"f32[3,3]{layout}", _config("BIAS"))
        assert_close(got, want)


def test_enumerations_may_be_numbers() -> None:
    a, b = _random(3, 4), _random(4, 3)
    for epilogue in (2, "2"):
        (got,) = run_call("__cublas$lt$matmul", [a, b], "f32[3,3]", _config(epilogue))  # type: ignore[arg-type]
        assert_close(got, np.maximum(a @ b, 0))


def test_fields_outside_of_a_section() -> None:
    """So dumps of 2023 and before have them."""
    a, b = _random(3, 4), _random(4, 3)
    config = _config(alpha_real=3)["gemm_backend_config"]
    (got,) = run_call("__cublas$gemm", [a, b], "f32[3,3]", config)
    assert_close(got, 3 * (a @ b))


# --- f8 -----------------------------------------------------------------------------------------

_F8 = ml_dtypes.float8_e4m3fn


def _f8(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -448, 448).astype(_F8).astype(np.float64)


@pytest.mark.parametrize("epilogue", ["DEFAULT", "BIAS", "RELU", "BIAS_GELU"])
@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("has_amax", [False, True])
@pytest.mark.parametrize("is_old", [False, True])
def test_f8_to_f8(epilogue: str, beta: float, has_amax: bool, is_old: bool) -> None:
    a, b = _random(16, 16, dtype=_F8), _random(16, 16, dtype=_F8)
    c, bias = _random(16, 16, dtype=ml_dtypes.bfloat16), _random(16, dtype=ml_dtypes.bfloat16)
    sa, sb, sc, sd = (np.float32(x) for x in (0.5, 3, 2 if is_old else 1, 40))
    has_bias = "BIAS" in epilogue
    operands = [a, b, *([c] if beta else []), sa, sb]
    if is_old:
        operands += [sc, sd, *([bias] if has_bias else [])]
    else:
        operands += [*([bias] if has_bias else []), sd]
    shape = "(f8e4m3fn[16,16], f32[], s8[9])" if has_amax else "(f8e4m3fn[16,16], s8[9])"
    config = _config(epilogue, beta=beta, damax_output=has_amax)
    got = run_call("__cublas$lt$matmul$f8", operands, shape, config)
    wa, wb, wc, wbias = _wide(a, b, c, bias)
    x = sa * sb * (wa @ wb) + beta * sc * wc + wbias * has_bias
    name = epilogue.removeprefix("BIAS").strip("_").replace("DEFAULT", "")
    y = _ACTIVATIONS[name](x) if name else x
    assert np.abs(sd * y).max() > 448
    assert_close(got[0], _f8(sd * y), 0.08)
    if has_amax:
        assert_close(got[1], np.abs(y).max())


def test_f8_to_wider_types() -> None:
    a, b = _random(16, 32, dtype=_F8), _random(32, 16, dtype=ml_dtypes.float8_e5m2)
    sa, sb = np.float32(2), np.float32(0.5)
    for operands in ([a, b, sa, sb], [a, b, sa, sb, np.float32(1), np.float32(7)]):
        got, _ = run_call("__cublas$lt$matmul$f8", operands, "(f32[16,16], s8[9])", _config())
        assert_close(got, np.matmul(*_wide(a, b)))
