"""Arrays that a kernel reads transposed, compiled: read in tiles, from where they begin."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.frontends.text import parse
from hlo.testing.sampling import random_value
from tests.harness.run_compiled import check

# Each reads some array transposed, which is large enough for tiles.
FORMS = {
    "a row": """
  x = T[3,16,16,64] parameter(0)
  t = T[3,64,16,16]{2,1,3,0} transpose(x), dimensions={0,3,1,2}
  ROOT s = T[1,64,16,16] slice(t), slice={[1:2], [0:64], [0:16], [0:16]}""",
    "the last row of a product": """
  c = T[3,16,16] parameter(0)
  x = T[3,16,16,64] parameter(1)
  t = T[3,64,16,16]{2,1,3,0} transpose(x), dimensions={0,3,1,2}
  b = T[3,64,16,16] broadcast(c), dimensions={0,2,3}
  m = T[3,64,16,16]{2,1,3,0} OP(t, b)
  ROOT s = T[1,64,16,16] slice(m), slice={[2:3], [0:64], [0:16], [0:16]}""",
    "rows at several places": """
  x = T[5,3,40,50] parameter(0)
  s = T[1,1,40,50] slice(x), slice={[3:4], [2:3:2], [0:40], [0:50]}
  t = T[1,50,40,1] transpose(s), dimensions={1,3,2,0}
  ROOT r = T[50,40] reshape(t)""",
    "a strided row, reversed": """
  x = T[7,50,60] parameter(0)
  s = T[3,50,60] slice(x), slice={[1:7:2], [0:50], [0:60]}
  r = T[3,50,60] reverse(s), dimensions={0}
  o = T[1,50,60] slice(r), slice={[0:1], [0:50], [0:60]}
  ROOT t = T[60,1,50] transpose(o), dimensions={2,0,1}""",
    "a row under other dimensions": """
  x = T[6,50,60] parameter(0)
  r = T[6,1,50,60] reshape(x)
  o = T[1,1,50,60] slice(r), slice={[4:5], [0:1], [0:50], [0:60]}
  ROOT t = T[1,60,50,1] transpose(o), dimensions={0,3,2,1}""",
    "a row of two, read twice": """
  x = T[2,90,100] parameter(0)
  a = T[1,90,100] slice(x), slice={[0:1], [0:90], [0:100]}
  b = T[1,90,100] slice(x), slice={[1:2], [0:90], [0:100]}
  s = T[1,90,100] OP(a, b)
  ROOT t = T[1,100,90] transpose(s), dimensions={0,2,1}""",
    "a row at a start": """
  x = T[4,80,70] parameter(0)
  i = s32[] constant(2)
  z = s32[] constant(0)
  s = T[1,80,70] dynamic-slice(x, i, z, z), dynamic_slice_sizes={1,80,70}
  ROOT t = T[70,80,1] transpose(s), dimensions={2,1,0}""",
    "padding that moves and keeps the size": """
  x = T[130,140] parameter(0)
  v = T[] parameter(1)
  p = T[130,140] pad(x, v), padding=0_-129_1x0_0
  ROOT t = T[140,130] transpose(p), dimensions={1,0}""",
    "padding down to a row": """
  x = T[3,130,140] parameter(0)
  v = T[] parameter(1)
  p = T[1,130,140] pad(x, v), padding=-1_-1x0_0x0_0
  ROOT t = T[1,140,130] transpose(p), dimensions={0,2,1}""",
    "one element": """
  x = T[150,160] parameter(0)
  ROOT s = T[1,1] slice(x), slice={[149:150], [7:8]}""",
    "one element of a product": """
  x = T[150,160] parameter(0)
  y = T[160,150] parameter(1)
  t = T[150,160] transpose(y), dimensions={1,0}
  m = T[150,160] OP(x, t)
  ROOT s = T[1,1] slice(m), slice={[149:150:3], [7:8:2]}""",
}
TYPES = ("f32", "pred", "s8", "bf16", "f64", "c64")
CASES = [("a row", et) for et in TYPES] + [
    (form, TYPES[n % len(TYPES)]) for n, form in enumerate(FORMS)
]


@pytest.mark.parametrize(("form", "et"), dict.fromkeys(CASES))
def test_arrays_across_the_loops(form: str, et: str) -> None:
    body = FORMS[form].replace("T[", f"{et}[").replace("OP(", "or(" if et == "pred" else "add(")
    text = f"HloModule m\nENTRY e {{{body}\n}}\n"
    rng = np.random.default_rng(len(form))
    check(text, [random_value(rng, s) for s in parse(text).entry.parameter_shapes])


@pytest.mark.parametrize(("narrow", "wide", "count"), [("s8", "s32", 4), ("bf16", "u32", 2)])
def test_an_element_of_several_that_lie_across(narrow: str, wide: str, count: int) -> None:
    text = f"""HloModule m
ENTRY e {{
  x = {narrow}[64,80,{count}]{{0,1,2}} parameter(0)
  ROOT w = {wide}[64,80]{{1,0}} bitcast-convert(x)
}}
"""
    rng = np.random.default_rng(0)
    check(text, [random_value(rng, s) for s in parse(text).entry.parameter_shapes])
