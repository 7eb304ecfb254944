"""Statistics of native code as it is: what kernels store, taken by native functions."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import hlo
from hlo.debug.trace.place_rows import PlaceRows
from hlo.debug.trace.statistics import statistics_of
from hlo.debug.trace.statistics_ir import function_name, statistics_ir
from hlo.debug.trace.statistics_rows import ROW, values_of_keys
from hlo.runtime.jit import NativeCode, host_machine
from hlo.values.types import ELEMENT_TYPES, ElementType

TYPES = ("pred", "s4", "u8", "s32", "u64", "f4e2m1fn", "f8e4m3fn", "bf16", "f16", "f32", "f64")
LOOP = """HloModule m
cond { p = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(TRIPS) ROOT go = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[3] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  k = f32[] convert(j) b = f32[3] broadcast(k), dimensions={} s = f32[3] tanh(x)
  y = f32[3] multiply(s, b), metadata={op_name="f/mul" source_file="f.py" source_line=3}
  ROOT t = (s32[], f32[3]) tuple(j, y) }
ENTRY e { x = f32[3] parameter(0) zero = s32[] constant(0) t = (s32[], f32[3]) tuple(zero, x)
  w = (s32[], f32[3]) while(t), condition=cond, body=body
  ROOT r = f32[3] get-tuple-element(w), index=1 }
"""


def _samples(et: ElementType) -> np.ndarray:
    """Return every byte, or random bits, and special values."""
    rng = np.random.default_rng(1)
    if et.is_pred:
        return rng.integers(0, 2, 300).astype(bool)
    if et.bits <= 8:
        return (np.arange(256) % 2**et.bits).astype(np.uint8).view(et.dtype)
    words = {16: np.uint16, 32: np.uint32, 64: np.uint64}[et.bits]
    bits = rng.integers(0, 2**et.bits - 1, 40_000, dtype=words, endpoint=True).view(et.dtype)
    return np.append(bits, np.array([0, 0, 1], et.dtype))


def test_native_statistics() -> None:
    types = [ELEMENT_TYPES[name] for name in TYPES]
    machine = host_machine()
    state, events, active = (np.zeros(n, np.int64) for n in (2, 100, 1))
    state[1] = 90
    flush = ctypes.CFUNCTYPE(None)(lambda: None)
    code = NativeCode(
        [machine.object_code(machine.optimize(statistics_ir(types, 0)))],
        *(f"{function_name(et)}{end}" for et in types for end in ("", "_one")),
        called={
            "hlo_trace_state": state.ctypes.data, "hlo_trace_events": events.ctypes.data,
            "hlo_trace_active": active.ctypes.data,
            "hlo_trace_flush": ctypes.cast(flush, ctypes.c_void_p).value or 0,
        },
    )  # fmt: skip
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[
        ctypes.c_void_p
    ])  # fmt: skip
    single = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    for et in types:
        take = signature(code.addresses[function_name(et)])
        take_one = single(code.addresses[f"{function_name(et)}_one"])
        whole = _samples(et)
        with np.errstate(invalid="ignore"):
            small = np.abs(whole.astype(np.float64)) < 1e30
        good = whole[small]  # their sum is finite, too
        ones = [whole[n : n + 1] for n in range(0, whole.size, whole.size // 40)]
        for value in (whole, good, good[:37], whole[1:4], whole[:0], *ones):
            state[0] = 0
            if value.size == 1:
                take_one(value.ctypes.data, 7)
            else:
                take(value.ctypes.data, value.size, 7, None)
            row, want = events[: 1 + ROW], statistics_of(value)
            assert (row[0], row[8]) == (7, value.size)
            if value.size:
                assert tuple(values_of_keys(et, row[1:3])) == (want.min, want.max), et
            assert tuple(row[4:8]) == (want.nans, want.infs, want.zeros, want.denormals), et
            if want.mean is not None and np.isfinite(want.mean):
                total = row[3:4].view(np.float64)[0]
                count = value.size - want.nans - want.infs
                np.testing.assert_allclose(total / count, want.mean, rtol=1e-5)


@pytest.mark.parametrize("trips", [3, 1000])
def test_loop(trips: int) -> None:
    module = hlo.parse(LOOP.replace("TRIPS", str(trips)))
    trace = hlo.trace(module, [1, 2, 3])
    values = trace.of("y")
    whole = hlo.trace(module, [1, 2, 3], select=["y"], backend="reference")
    assert sum(v.executions for v in values) == trips and len(values) <= 128
    assert [v.path for v in values] == [v.path for v in whole.values]
    assert values[0].location.source == "f.py:3"
    for got, want in zip(values, whole.values, strict=True):
        a, b = got.statistics, want.statistics
        assert (a.count, a.nans, a.infs) == (b.count, b.nans, b.infs)
        np.testing.assert_allclose(
            np.float64([a.min, a.max, a.mean]), np.float64([b.min, b.max, b.mean]), rtol=1e-3,
            atol=1e-4,
        )  # fmt: skip


def test_selected_iterations() -> None:
    trace = hlo.trace(hlo.parse(LOOP.replace("TRIPS", "50")), [1, 2, 3], select=["iteration=7:9"])
    assert [v.path for v in trace.of("y")] == ["w[7]/y", "w[8]/y"]


def test_large_arrays_and_several_results() -> None:
    text = """HloModule m
      less { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2)
        d = s32[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }
      ENTRY e { x = f32[300,1000] parameter(0)
      y = f32[300,1000] negate(x) c = c64[300,1000] complex(y, x)
      i = s32[300,1000] iota(), iota_dimension=1
      s = (f32[300,1000], s32[300,1000]) sort(y, i), dimensions={1}, to_apply=less
      ROOT t = (c64[300,1000], (f32[300,1000], s32[300,1000])) tuple(c, s) }"""
    x = np.linspace(-1, 2, 300_000, dtype=np.float32).reshape(300, 1000)
    trace = hlo.trace(hlo.parse(text), x)
    (c,) = trace.of("c")
    assert (c.statistics.count, c.statistics.min, c.statistics.max) == (300_000, -2, 2)
    floats, numbers = trace.of("s")
    assert (floats.leaf, floats.statistics.min, floats.statistics.max) == ((0,), -2, 1)
    assert (numbers.leaf, numbers.statistics.min, numbers.statistics.max) == ((1,), 0, 999)


def test_rows_are_put_together_evenly() -> None:
    found, number = PlaceRows(), 0
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = np.zeros((int(rng.integers(0, 200)), 1 + ROW + 1), np.int64)
        rows[:, 9] = rows[:, 1] = rows[:, 2] = np.arange(number, number + len(rows))
        rows[:, 8] = 1
        found.add(rows, rows[:, 9].copy())
        number += len(rows)
    assert found.executions.sum() == number and 32 < len(found.rows) <= 128
    assert set(found.executions[:-1]) == {found.executions[0]}
    np.testing.assert_array_equal(found.rows[:, 8], found.executions)
    np.testing.assert_array_equal(found.rows[:, 1], found.order)
    np.testing.assert_array_equal(found.rows[:, 2], found.last[:, 9])
