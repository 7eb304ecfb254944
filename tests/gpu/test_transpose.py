"""Arrays that are read transposed on GPUs: in tiles, through shared memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.gpu.emulated import check_emulated, program


def transposed(t: str, dims: Sequence[int], order: Sequence[int], prologue: str = "copy") -> str:
    """Return a sum of an array and of a transposed one."""
    out = f"{t}[{','.join(str(dims[d]) for d in order)}]"
    x = f"{t}[{','.join(map(str, dims))}]"
    op = "or" if t == "pred" else "add"
    return f"""HloModule m
ENTRY e {{ x = {x} parameter(0) y = {out} parameter(1) n = {x} {prologue}(x)
  t = {out} transpose(n), dimensions={{{",".join(map(str, order))}}}
  ROOT r = {out} {op}(t, y) }}"""


@pytest.mark.parametrize(
    ("dims", "order"),
    [([128, 128], [1, 0]), ([130, 127], [1, 0]), ([16, 1030], [1, 0]), ([1025, 16], [1, 0]),
     ([3, 90, 70], [0, 2, 1]), ([40, 30, 20], [2, 1, 0]), ([40, 30, 20], [2, 0, 1]),
     ([8, 33, 2, 65], [0, 3, 2, 1])],
)  # fmt: skip
def test_shapes(dims: list[int], order: list[int]) -> None:
    text = transposed("f32", dims, order, "negate")
    check_emulated(text)
    found, code = program(text)
    assert len(found.plan.launches) == 1
    assert "st.shared" in code


@pytest.mark.parametrize("t", "pred s4 s8 u16 bf16 f32 s64 f64 c64 c128".split())
def test_types(t: str) -> None:
    check_emulated(transposed(t, [130, 127], [1, 0]))


def test_short_sides_are_read_as_they_are() -> None:
    text = transposed("f32", [10000, 3], [1, 0])
    check_emulated(text)
    assert "shared" not in program(text)[1]


def test_several_arrays() -> None:
    check_emulated(
        """HloModule m
ENTRY e { x = f32[100,170] parameter(0) y = bf16[100,170] parameter(1) z = f32[170] parameter(2)
  a = f32[170,100] transpose(x), dimensions={1,0} b = bf16[170,100] transpose(y), dimensions={1,0}
  c = f32[170,100] convert(b) d = f32[170,100] broadcast(z), dimensions={0}
  e = f32[170,100] multiply(a, c) ROOT f = f32[170,100] subtract(e, d) }"""
    )
