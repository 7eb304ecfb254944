"""Products of few rows, which read the other operand row by row."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.codegen.kernels.matmul import streaming
from hlo.testing.compare import compare

# The operands' and the result's types, and what is between them: `b` is a dimension of the batch.
PRODUCTS = {
    "a vector": ("f32[1,300]", "f32[300,101]", "f32[1,101]", "{1}", "{0}", ""),
    "no dimension of rows": ("f32[300]", "f32[300,128]", "f32[128]", "{0}", "{0}", ""),
    "the other way round": ("f32[300,128]", "f32[300,3]", "f32[128,3]", "{0}", "{0}", ""),
    "seven rows, in shares": ("f32[7,1400]", "f32[1400,70]", "f32[7,70]", "{1}", "{0}", ""),
    "bf16": ("bf16[2,700]", "bf16[700,96]", "bf16[2,96]", "{1}", "{0}", ""),
    "f16 in, f32 out": ("f16[2,700]", "f16[700,96]", "f32[2,96]", "{1}", "{0}", ""),
    "f64": ("f64[4,301]", "f64[301,65]", "f64[4,65]", "{1}", "{0}", ""),
    "bytes": ("s8[3,900]", "s8[900,99]", "s32[3,99]", "{1}", "{0}", ""),
    "integers that wrap": ("s32[3,300]", "s32[300,99]", "s32[3,99]", "{1}", "{0}", ""),
    "truth values": ("pred[2,700]", "pred[700,99]", "pred[2,99]", "{1}", "{0}", ""),
    "less than a byte": ("s4[2,700]", "s4[700,99]", "s32[2,99]", "{1}", "{0}", ""),
    "a batch": ("f32[3,2,200]", "f32[3,200,90]", "f32[3,2,90]", "{2}", "{1}",
                "lhs_batch_dims={0}, rhs_batch_dims={0},"),
    "wide, in several tasks": ("f32[2,64]", "f32[64,5000]", "f32[2,5000]", "{1}", "{0}", ""),
    "columns of A": ("f32[300,2]", "f32[300,128]", "f32[2,128]", "{0}", "{0}", ""),
}  # fmt: skip


def _module(name: str) -> hlo.Module:
    a, b, c, lhs, rhs, batch = PRODUCTS[name]
    return hlo.parse(f"""HloModule m ENTRY e {{ x = {a} parameter(0) y = {b} parameter(1)
      ROOT z = {c} dot(x, y), {batch} lhs_contracting_dims={lhs}, rhs_contracting_dims={rhs} }}""")


@pytest.mark.parametrize("name", PRODUCTS)
def test_results_are_those_of_the_interpreter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    real = streaming.streamed

    def noted(p: object, inst: object) -> object:
        found.append(real(p, inst))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr("hlo.codegen.kernels.matmul.gemm.streamed", noted)
    module = _module(name)
    args = hlo.random_inputs(module, seed=1)
    run, again = (hlo.compile(module, cache=False, threads=n) for n in (1, 3))
    assert found and all(s is not None for s in found)
    got = run(*args)
    difference = compare(got, hlo.interpret(module, *args))
    assert difference.same, str(difference)
    assert again(*args).tobytes() == got.tobytes()


def test_what_is_no_number_spreads() -> None:
    x, y = np.ones((1, 200), np.float32), np.ones((200, 100), np.float32)
    x[0, 3], y[7, 5], y[3, 9] = np.inf, np.nan, 0
    module = hlo.parse("""HloModule m ENTRY e { x = f32[1,200] parameter(0)
      y = f32[200,100] parameter(1)
      ROOT z = f32[1,100] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    got = hlo.compile(module, cache=False)(x, y)[0]
    assert np.isnan(got[[5, 9]]).all() and np.isposinf(np.delete(got, [5, 9])).all()


def test_many_rows_are_tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("hlo.codegen.kernels.matmul.gemm._add_stream", refuse)
    hlo.compile(hlo.parse("""HloModule m ENTRY e { x = f32[8,300] parameter(0)
      y = f32[300,100] parameter(1)
      ROOT z = f32[8,100] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""),
      cache=False)  # fmt: skip
