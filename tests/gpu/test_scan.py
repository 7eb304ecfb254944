"""Prefix sums on GPUs: along and across memory, in one launch or, of few long lines, two."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.gpu.emulated import check_emulated, program


def scan(
    t: str, dims: Sequence[int], axis: int, op: str = "add", *, backward: bool = False,
    start: str = "1",
) -> str:  # fmt: skip
    n = dims[axis]
    sizes = "x".join(str(n) if d == axis else "1" for d in range(len(dims)))
    there = f"0_{n - 1}" if backward else f"{n - 1}_0"
    pads = "x".join(there if d == axis else "0_0" for d in range(len(dims)))
    x = f"{t}[{','.join(map(str, dims))}]"
    return f"""HloModule m
f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}
ENTRY e {{ x = {x} parameter(0) z = {t}[] constant({start})
  ROOT r = {x} reduce-window(x, z), window={{size={sizes} pad={pads}}}, to_apply=f }}"""


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("n", [16, 17, 31, 64, 100, 255, 256, 1000, 1024, 1025, 4097, 9001])
def test_lengths(n: int, backward: bool) -> None:
    check_emulated(scan("s32", [n], 0, backward=backward))
    check_emulated(scan("f32", [3, n], 1, backward=backward))
    check_emulated(scan("f32", [n, 3], 0, backward=backward))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dims", [[100, 40], [1000, 17], [5000, 20], [3, 200, 33]])
def test_across_memory(dims: list[int], backward: bool) -> None:
    check_emulated(scan("f32", dims, len(dims) - 2, backward=backward))


@pytest.mark.parametrize(
    ("t", "op"),
    [("pred", "or"), ("s8", "add"), ("u16", "maximum"), ("s64", "multiply"), ("bf16", "add"),
     ("f16", "minimum"), ("f64", "add"), ("f32", "multiply"), ("f8e5m2", "maximum")],
)  # fmt: skip
def test_types(t: str, op: str) -> None:
    start = "false" if t == "pred" else "1"
    check_emulated(scan(t, [7, 50], 1, op, start=start))
    check_emulated(scan(t, [50, 7], 0, op, start=start))


def test_complex_numbers() -> None:
    check_emulated(scan("c64", [300], 0, start="(1, 2)"))


@pytest.mark.parametrize(
    ("dims", "axis", "count"),
    [([64, 1000], 1, 1), ([1 << 18], 0, 2), ([4, 1 << 16], 1, 2), ([512, 4096], 1, 1)],
)
def test_launches(dims: list[int], axis: int, count: int) -> None:
    found, code = program(scan("f32", dims, axis))
    assert len(found.plan.launches) == count
    assert "shfl.sync.up" in code
    assert ".local" not in code
