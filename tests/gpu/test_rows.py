"""Rows on GPUs: softmax and normalizations are one launch, which reads and writes memory once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.gpu.emulated import check_emulated, program


def softmax(t: str, dims: Sequence[int], outer: int = 1, layout: str = "") -> str:
    """Return a softmax along all but the first dimensions."""
    x = f"{t}[{','.join(map(str, dims))}]{layout}"
    r = f"{t}[{','.join(map(str, dims[:outer]))}]"
    kept, along = (",".join(map(str, d)) for d in (range(outer), range(outer, len(dims))))
    return f"""HloModule m
s {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] add(a, b) }}
m {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] maximum(a, b) }}
ENTRY e {{ x = {x} parameter(0) z = {t}[] constant(0) low = {t}[] constant(-inf)
  most = {r} reduce(x, low), dimensions={{{along}}}, to_apply=m
  mb = {x} broadcast(most), dimensions={{{kept}}}
  d = {x} subtract(x, mb) y = {x} exponential(d)
  sum = {r} reduce(y, z), dimensions={{{along}}}, to_apply=s
  sb = {x} broadcast(sum), dimensions={{{kept}}}
  ROOT o = {x} divide(y, sb) }}"""


def variance(t: str, dims: Sequence[int], root: str = "") -> str:
    """Return the sums of squared distances from the mean. root: what is computed with them, v."""
    n, k = dims
    x, r = f"{t}[{n},{k}]", f"{t}[{n}]"
    name = "v" if root else "ROOT v"
    return f"""HloModule m
s {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] add(a, b) }}
ENTRY e {{ x = {x} parameter(0) z = {t}[] constant(0) l = {t}[] constant({k})
  lb = {r} broadcast(l), dimensions={{}}
  sum = {r} reduce(x, z), dimensions={{1}}, to_apply=s
  mean = {r} divide(sum, lb) mb = {x} broadcast(mean), dimensions={{0}}
  c = {x} subtract(x, mb) q = {x} multiply(c, c)
  {name} = {r} reduce(q, z), dimensions={{1}}, to_apply=s
  {root.format(x=x, r=r, g=f"{t}[{k}]")} }}"""


NORM = """vb = {x} broadcast(v), dimensions={{0}} n = {x} rsqrt(vb) o = {x} multiply(c, n)
  g = {g} parameter(1) gb = {x} broadcast(g), dimensions={{1}} ROOT w = {x} multiply(o, gb)"""


@pytest.mark.parametrize("n", [1, 2, 3, 5, 32, 33, 127, 128, 1000, 1025, 2050, 4096, 16384])
def test_lengths(n: int) -> None:
    text = softmax("f32", [5, n])
    check_emulated(text)
    assert len(program(text)[0].plan.launches) == 1


@pytest.mark.parametrize("rows", [1, 3, 64, 65, 129])
def test_numbers_of_rows(rows: int) -> None:
    check_emulated(softmax("f32", [rows, 40]))
    check_emulated(variance("f32", [rows, 12]))


@pytest.mark.parametrize("t", ["f16", "f32", "f64"])
def test_types(t: str) -> None:
    check_emulated(softmax(t, [6, 100]))
    check_emulated(softmax(t, [6, 100]), edges=True)
    check_emulated(variance(t, [6, 100]))


def test_rows_of_several_dimensions() -> None:
    check_emulated(softmax("f32", [3, 5, 6, 8], 2))
    check_emulated(softmax("f32", [3, 5, 6, 7], 1))
    check_emulated(softmax("f32", [7, 1, 24], 1, "{1,2,0}"))


@pytest.mark.parametrize("dims", [(64, 768), (5, 1000), (3, 33), (100, 8), (100, 7)])
def test_normalization(dims: tuple[int, int]) -> None:
    text = variance("f32", dims, NORM)
    check_emulated(text)
    assert len(program(text)[0].plan.launches) == 1


def test_memory_is_read_once_and_written_once() -> None:
    _, code = program(softmax("f32", [128, 1024]))
    lines = [line.split() for line in code.splitlines()]
    reads = [line[0] for line in lines if line and line[0].startswith("ld.global")]
    writes = [line[0] for line in lines if line and line[0].startswith("st.global")]
    assert len(reads) == len(writes) == 2
    assert all(".v4" in word for word in [*reads, *writes])
    assert ".local" not in code


def test_functions_that_go_in_order_are_kernels_of_their_own() -> None:
    text = """HloModule m
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] multiply(a, b) }
ENTRY e { x = f32[70,50] parameter(0) one = f32[] constant(1)
  p = f32[70] reduce(x, one), dimensions={1}, to_apply=f
  pb = f32[70,50] broadcast(p), dimensions={0} ROOT r = f32[70,50] add(x, pb) }"""
    check_emulated(text)
    found, code = program(text)
    assert len(found.plan.launches) == 2
    assert ".local" not in code
