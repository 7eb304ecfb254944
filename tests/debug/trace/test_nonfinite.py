"""Native code that looks for a NaN or an infinity, and which values it has to look at."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import hlo
from hlo.debug.trace.nonfinite_ir import bit_test, function_name, nonfinite_ir
from hlo.debug.trace.witnesses import Witnesses
from hlo.runtime.jit import NativeCode, host_machine
from hlo.values.types import ELEMENT_TYPES

TYPES = ("f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f8e8m0fnu", "f8e3m4", "bf16", "f16", "f32", "f64")


def test_native_test_of_arrays() -> None:
    types = [ELEMENT_TYPES[name] for name in TYPES]
    machine = host_machine()
    text = nonfinite_ir(types)
    code = NativeCode([machine.object_code(machine.optimize(text))], *map(function_name, types))
    signature = ctypes.CFUNCTYPE(ctypes.c_bool, *[ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p])
    rng = np.random.default_rng(0)
    for et in types:
        is_bad = signature(code.addresses[function_name(et)])
        bits = rng.integers(0, 256, (4000, et.bits // 8), dtype=np.uint8)
        every = np.concatenate([bits.view(et.dtype).reshape(-1), np.zeros(1, et.dtype)])
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(every)
        assert not is_bad(every.ctypes.data, 0, None)
        good = every[finite]
        assert not is_bad(good.ctypes.data, good.size, None), et
        for wrong in every[~finite][:20]:
            one = good[:37].copy()
            one[int(rng.integers(37))] = wrong
            assert is_bad(one.ctypes.data, one.size, None), (et, wrong)


def test_types_without_nan() -> None:
    assert bit_test(ELEMENT_TYPES["f4e2m1fn"]) is None
    module = hlo.parse("HloModule m ENTRY e { x = f4e2m1fn[4] parameter(0) "
                       "y = f4e2m1fn[4] add(x, x) ROOT r = f32[4] convert(y) }")  # fmt: skip
    assert hlo.find_nan(module, np.ones(4, ELEMENT_TYPES["f4e2m1fn"].dtype)) is None


@pytest.mark.parametrize(
    ("body", "looked_at"),
    [
        ("a = f32[4] exponential(x) b = f32[4] add(a, x) ROOT c = f32[4] log(b)", "c"),
        # What may be hidden is looked at itself.
        ("a = f32[4] log(x) ROOT b = f32[4] tanh(a)", "a b"),
        ("a = f32[4] log(x) ROOT b = f32[4] maximum(a, x)", "a"),
        ("a = f32[4] log(x) ROOT b = f32[4] divide(x, a)", "a b"),
        ("a = f32[4] log(x) ROOT b = f32[4] divide(a, x)", "b"),
        ("a = f32[4] log(x) ROOT b = f32[2] slice(a), slice={[0:2]}", "a"),
        ("a = f32[4] log(x) b = f32[2,2] reshape(a) ROOT c = f32[2,2] transpose(b), "
         "dimensions={1,0}", "a"),
        ("a = f32[4] log(x) b = f32[2,2] reshape(a) ROOT c = f32[2,2] sqrt(b)", "c"),
        ("a = f32[4] log(x) ROOT b = f4e2m1fn[4] convert(a)", "a b"),
        ("a = f32[4] log(x) z = f32[] constant(0) ROOT b = f32[3] pad(a, z), padding=-1_0", "a"),
        ("a = f32[4] log(x) z = f32[] constant(0) "
         "ROOT b = f32[] reduce(a, z), dimensions={0}, to_apply=sum", "b"),
        ("a = f32[4] log(x) z = f32[] constant(0) "
         "ROOT b = f32[] reduce(a, z), dimensions={0}, to_apply=most", "a b"),
    ],
)  # fmt: skip
def test_witnesses(body: str, looked_at: str) -> None:
    functions = "".join(
        f"{name} {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] {op}(p, q) }}\n"
        for name, op in (("sum", "add"), ("most", "maximum"))
    )
    used = [f for f in functions.splitlines() if f"to_apply={f.split()[0]}" in body]
    text = "\n".join(["HloModule m", *used, f"ENTRY e {{ x = f32[4] parameter(0) {body} }}"])
    module = hlo.parse(text)
    witnesses = Witnesses([module.entry])
    found = [inst.name for inst in module.entry if witnesses.is_one(inst)]
    assert " ".join(found) == looked_at


def test_iterations_before_what_is_met_first() -> None:
    """Ten masks are met before; what makes a NaN does so in a later iteration."""
    masks = "".join(
        f"e{n} = f32[2] add(g, m) f{n} = f32[2] exponential(e{n}) "
        for n in range(10)
    )  # fmt: skip
    text = f"""HloModule m
cond {{ s = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
  t = s32[] constant(5) ROOT go = pred[] compare(i, t), direction=LT }}
body {{ s = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
  g = f32[2] get-tuple-element(s), index=1 m = f32[2] constant({{-inf, 0}}) {masks}
  one = s32[] constant(1) j = s32[] add(i, one) k = f32[] convert(i) three = f32[] constant(2.5)
  d = f32[] subtract(three, k) bad = f32[] sqrt(d) w = f32[2] broadcast(bad), dimensions={{}}
  v = f32[2] minimum(w, f9) ROOT r = (s32[], f32[2]) tuple(j, v) }}
ENTRY e {{ x = f32[2] parameter(0) z = s32[] constant(0) t = (s32[], f32[2]) tuple(z, x)
  w = (s32[], f32[2]) while(t), condition=cond, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1 }}"""
    found = hlo.find_nan(hlo.parse(text), [1, 1])
    assert found is not None and found.path == "w[3]/bad"
