"""Attention on GPUs: both products and what is computed between them are one launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import hlo
from hlo.codegen.targets.gpu.kernels.attention import plan
from tests.gpu.emulated import check_emulated, program

REDUCERS = """wide_sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
s {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] add(a, b) }}
m {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] maximum(a, b) }}"""
PLAIN = "scores = {x} add(qk, qk)"
CAUSAL = """low = {t}[] constant(-inf) lb = {x} broadcast(low), dimensions={{}}
  i = s32[{n},{m},{k}] iota(), iota_dimension=1 j = s32[{n},{m},{k}] iota(), iota_dimension=2
  seen = pred[{n},{m},{k}] compare(i, j), direction=GE
  scores = {x} select(seen, qk, lb)"""
MASKED = """mask = {t}[{m},{k}] parameter(3) mb = {x} broadcast(mask), dimensions={{1,2}}
  scores = {x} add(qk, mb)"""
SOFTMAX = """lowest = {t}[] constant(-inf) zero = {t}[] constant(0)
  most = {r} reduce(scores, lowest), dimensions={{2}}, to_apply=m
  shift = {x} broadcast(most), dimensions={{0,1}}
  shifted = {x} subtract(scores, shift) e = {x} exponential(shifted)
  sum = {r} reduce(e, zero), dimensions={{2}}, to_apply=s
  sb = {x} broadcast(sum), dimensions={{0,1}} w = {x} divide(e, sb)"""
NO_MAXIMUM = """zero = {t}[] constant(0) e = {x} exponential(scores)
  sum = {r} reduce(e, zero), dimensions={{2}}, to_apply=s
  sb = {x} broadcast(sum), dimensions={{0,1}} w = {x} divide(e, sb)"""
SIGMOID = "w = {x} logistic(scores)"
# Softmax of what a mask leaves, zeros for the rest: jax.nn.softmax(..., where=mask).
CHOSEN = """mask = pred[{m},{k}] parameter(3)
  seen = pred[{n},{m},{k}] broadcast(mask), dimensions={{1,2}}
  lowest = {t}[] constant(-inf) zero = {t}[] constant(0)
  zeros = {x} broadcast(zero), dimensions={{}} lb = {x} broadcast(lowest), dimensions={{}}
  left = {x} select(seen, scores, lb)
  most = {r} reduce(left, lowest), dimensions={{2}}, to_apply=m
  shift = {x} broadcast(most), dimensions={{0,1}}
  shifted = {x} subtract(left, shift) e = {x} exponential(shifted)
  counted = {x} select(seen, e, zeros)
  sum = {r} reduce(counted, zero), dimensions={{2}}, to_apply=s
  sb = {x} broadcast(sum), dimensions={{0,1}} all = {x} divide(e, sb)
  other = {x} negate(all) w = {x} select(seen, all, OTHER)"""
# Weights in f16 of scores in f32, from which nothing has been subtracted.
HALF = """wide = f32[{n},{m},{k}] convert(scores) e = f32[{n},{m},{k}] exponential(wide)
  zero = f32[] constant(0) sum = f32[{n},{m}] reduce(e, zero), dimensions={{2}}, to_apply=wide_sum
  sb = f32[{n},{m},{k}] broadcast(sum), dimensions={{0,1}} d = f32[{n},{m},{k}] divide(e, sb)
  w = f16[{n},{m},{k}] convert(d)"""


def attention(
    dims: Sequence[int], t: str = "f32", scores: str = PLAIN, weights: str = SOFTMAX
) -> str:
    """Return attention of n heads: m queries, k keys of size d, values of size v."""
    n, m, k, d, v = dims
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}"
    names = {"t": t, "n": n, "m": m, "k": k, "x": f"{t}[{n},{m},{k}]", "r": f"{t}[{n},{m}]"}
    return f"""HloModule m
{REDUCERS.format(t=t)}
ENTRY e {{
  q = {t}[{n},{m},{d}] parameter(0) key = {t}[{n},{k},{d}] parameter(1)
  value = {t}[{n},{k},{v}] parameter(2)
  qk = {names["x"]} dot(q, key), {batch}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  {scores.format(**names)}
  {weights.format(**names)}
  ROOT o = {t}[{n},{m},{v}] dot(w, value), {batch},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}} }}"""


def check_one_launch(text: str, *args: np.ndarray, edges: bool = False) -> None:
    """Fail unless a module is one launch, and computes what it means."""
    assert len(program(text)[0].plan.launches) == 1
    check_emulated(text, *args, edges=edges)


@pytest.mark.parametrize("t", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("scores", [PLAIN, CAUSAL, MASKED])
def test_types(t: str, scores: str) -> None:
    check_one_launch(attention((2, 40, 40, 32, 32), t, scores))


@pytest.mark.parametrize("dims", [
    (1, 8, 8, 16, 16), (3, 16, 33, 16, 24), (1, 17, 31, 40, 8), (2, 64, 64, 64, 64),
    (1, 65, 100, 13, 7), (1, 130, 9, 128, 128), (40, 33, 64, 16, 16),
])  # fmt: skip
@pytest.mark.parametrize("t", ["f32", "bf16"])
def test_sizes(t: str, dims: Sequence[int]) -> None:
    check_one_launch(attention(dims, t))


@pytest.mark.parametrize(("t", "dims"), [("bf16", (1, 70, 9, 64, 16)), ("f32", (1, 70, 9, 8, 64))])
def test_blocks_of_many_queries(
    t: str, dims: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread copies beyond a tile of narrow heads."""
    monkeypatch.setattr(plan, "_BLOCKS", dict.fromkeys(plan._WARPS, 0))
    check_one_launch(attention(dims, t))


@pytest.mark.parametrize("weights", [NO_MAXIMUM, SIGMOID])
@pytest.mark.parametrize("t", ["f32", "bf16"])
def test_other_weights(t: str, weights: str) -> None:
    check_one_launch(attention((2, 40, 50, 32, 32), t, weights=weights))


@pytest.mark.parametrize("other", ["zeros", "other"])
def test_weights_of_which_some_are_others(other: str) -> None:
    """What is chosen instead of a softmax is not divided by its sum."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 16, 16)).astype(np.float32) for _ in range(3))
    mask = rng.random((16, 16)) < 0.5
    mask[3] = False
    text = attention((2, 16, 16, 16, 16), weights=CHOSEN.replace("OTHER", other))
    check_emulated(text, q, k, v, mask)


@pytest.mark.parametrize("size", [4, -5])
def test_weights_that_f16_has_only_when_they_are_divided(size: int) -> None:
    q = np.full((1, 16, 16), 1, np.float16)
    k = np.full((1, 16, 16), size / 8, np.float16)
    v = np.random.default_rng(0).normal(size=(1, 16, 16)).astype(np.float16)
    check_emulated(attention((1, 16, 16, 16, 16), "f16", weights=HALF), q, k, v)


def test_values_that_are_wide() -> None:
    check_one_launch(attention((1, 32, 40, 64, 256), "bf16"))


@pytest.mark.parametrize("t", ["f32", "bf16"])
def test_rows_without_numbers(t: str) -> None:
    """A row whose scores are all -inf is NaN; other rows do not see what is masked."""
    rng = np.random.default_rng(0)
    dtype = hlo.parse_shape(f"{t}[1]").element_type.dtype
    q, k, v = (rng.normal(size=(2, 70, 32)).astype(dtype) for _ in range(3))
    mask = np.zeros((70, 70), dtype)
    mask[3] = -np.inf
    mask[5, :66] = mask[6, 40:] = mask[20:40, :40] = -np.inf
    text = attention((2, 70, 70, 32, 32), t, MASKED)
    check_one_launch(text, q, k, v, mask)
    run = hlo.compile(hlo.parse(text), backend="gpu-emulated")
    out = np.asarray(run(q, k, v, mask), np.float32)
    assert np.isnan(out[:, 3]).all() and np.isfinite(np.delete(out, 3, 1)).all()


@pytest.mark.parametrize("t", ["f32", "bf16"])
def test_special_values(t: str) -> None:
    check_one_launch(attention((2, 40, 50, 16, 16), t, MASKED), edges=True)


def test_what_does_not_fit_stays_apart() -> None:
    for dims in ((1, 32, 32, 16, 200), (1, 4, 64, 32, 32), (1, 32, 32, 300, 32)):
        text = attention(dims)
        assert len(program(text)[0].plan.launches) > 1
        check_emulated(text)
