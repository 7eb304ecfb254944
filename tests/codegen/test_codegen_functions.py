"""Functions that are applied to elements, whatever they do on the way."""

from __future__ import annotations

import numpy as np
import pytest

from tests.harness.run_compiled import check

# A function of two numbers that makes an array on the way, and reduces, sorts or multiplies it.
FUNCTIONS = {
    "reduced": """  line = f32[3] broadcast(p), dimensions={}
  ramp = f32[3] iota(), iota_dimension=0
  sum = f32[3] add(line, ramp)
  less = f32[] reduce(sum, q), dimensions={0}, to_apply=least
  ROOT r = f32[] add(less, q)""",
    "from a table": """  table = f32[4] constant({0.5, 1.5, -2, 4})
  at = s32[] convert(p)
  part = f32[1] dynamic-slice(table, at), dynamic_slice_sizes={1}
  one = f32[] reshape(part)
  ROOT r = f32[] add(one, q)""",
    "sorted": """  a = f32[1] reshape(p)
  b = f32[1] reshape(q)
  both = f32[2] concatenate(a, b), dimensions={0}
  order = f32[2] sort(both), dimensions={0}, to_apply=less
  first = f32[1] slice(order), slice={[0:1]}
  ROOT r = f32[] reshape(first)""",
    "multiplied": """  a = f32[2] broadcast(p), dimensions={}
  b = f32[2] broadcast(q), dimensions={}
  ROOT r = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}""",
    "looped": """  zero = s32[] constant(0)
  line = f32[2] broadcast(p), dimensions={}
  s = (s32[], f32[2]) tuple(zero, line)
  w = (s32[], f32[2]) while(s), condition=test, body=step
  done = f32[2] get-tuple-element(w), index=1
  last = f32[1] slice(done), slice={[1:2]}
  l = f32[] reshape(last)
  ROOT r = f32[] maximum(l, q)""",
    "beside an array": """  unused = f32[2] constant({1, 2})
  turned = f32[2] negate(unused)
  pair = (f32[2], f32[]) tuple(turned, q)
  other = f32[] get-tuple-element(pair), index=1
  ROOT r = f32[] add(p, other)""",
}
TEXT = """HloModule m
least {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] minimum(x, y)
}}
less {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = pred[] compare(x, y), direction=LT
}}
test {{
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT m = pred[] compare(i, three), direction=LT
}}
step {{
  s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[2] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  half = f32[] constant(0.5)
  h = f32[1] reshape(half)
  u = f32[2] dynamic-update-slice(v, h, i)
  w = f32[2] add(u, v)
  ROOT r = (s32[], f32[2]) tuple(j, w)
}}
f {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
{body}
}}
ENTRY main {{
  x = f32[4,9] parameter(0)
  y = f32[4,9] parameter(1)
  zero = f32[] constant(0)
  {line}
}}
"""
USES = {
    "map": "ROOT r = f32[4,9] map(x, y), dimensions={0,1}, to_apply=f",
    "reduce": "ROOT r = f32[4] reduce(x, zero), dimensions={1}, to_apply=f",
    "reduce-window": "ROOT r = f32[4,8] reduce-window(x, zero), window={size=1x2}, to_apply=f",
    "twice": "a = f32[4,9] map(x, y), dimensions={0,1}, to_apply=f\n"
    "  ROOT r = f32[4,9] map(a, x), dimensions={0,1}, to_apply=f",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_works_on_arrays(name: str, use: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, (4, 9)).astype(np.float32) for _ in range(2))
    check(TEXT.format(body=FUNCTIONS[name], line=USES[use]), [x, y])


def test_a_comparator_that_works_on_arrays() -> None:
    text = """HloModule m
order {
  p = s32[] parameter(0)
  q = s32[] parameter(1)
  table = s32[4] constant({2, 0, 3, 1})
  a = s32[1] dynamic-slice(table, p), dynamic_slice_sizes={1}
  b = s32[1] dynamic-slice(table, q), dynamic_slice_sizes={1}
  c = pred[1] compare(a, b), direction=LT
  ROOT r = pred[] reshape(c)
}
ENTRY main {
  x = s32[40] parameter(0)
  ROOT r = s32[40] sort(x), dimensions={0}, is_stable=true, to_apply=order
}
"""
    check(text, [np.random.default_rng(1).integers(0, 4, 40).astype(np.int32)])


def test_functions_with_constants_that_look_alike_are_different() -> None:
    # numpy prints eight digits.
    text = """HloModule m
f {
  p = f64[] parameter(0)
  c = f64[] constant(0.1234567891)
  ROOT r = f64[] multiply(p, c)
}
g {
  p = f64[] parameter(0)
  c = f64[] constant(0.1234567892)
  ROOT r = f64[] multiply(p, c)
}
ENTRY main {
  x = f64[8] parameter(0)
  a = f64[8] map(x), dimensions={0}, to_apply=f
  b = f64[8] map(x), dimensions={0}, to_apply=g
  ROOT r = (f64[8], f64[8]) tuple(a, b)
}
"""
    check(text, [np.ones(8)], ulps=1)
