"""Kernels that read arrays which wrap around or are padded: loops in parts."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.analysis.fusion.roles import Role
from hlo.codegen.lower.prepare import flatten
from hlo.codegen.plan.roles import assign_roles
from hlo.frontends.text import parse
from tests.harness.run_compiled import check

RNG = np.random.default_rng(3)


def roll(name: str, source: str, dims: tuple[int, ...], axis: int, by: int) -> str:
    """Return the lines of a roll, as JAX writes it."""

    def part(which: str, first: int, end: int) -> str:
        sizes = [end - first if d == axis else n for d, n in enumerate(dims)]
        bounds = ", ".join(
            f"[{first}:{end}]" if d == axis else f"[0:{n}]" for d, n in enumerate(dims)
        )
        shape = f"f32[{','.join(map(str, sizes))}]"
        return f"  {name}{which} = {shape} slice({source}), slice={{{bounds}}}\n"

    n = dims[axis]
    shape = f"f32[{','.join(map(str, dims))}]"
    return (
        part("h", n - by, n) + part("l", 0, n - by)
        + f"  {name} = {shape} concatenate({name}h, {name}l), dimensions={{{axis}}}\n"
    )  # fmt: skip


def program(dims: tuple[int, ...], body: str, result: str, layout: str = "") -> str:
    shape = f"f32[{','.join(map(str, dims))}]{layout}"
    return f"HloModule m\nENTRY e {{\n  x = {shape} parameter(0)\n{body}  {result}\n}}\n"


def kernels(text: str) -> int:
    roles = assign_roles(flatten(parse(text).entry))
    return sum(role is Role.KERNEL for role in roles.values())


@pytest.mark.parametrize("dims", [(5, 100), (3, 4, 67), (300, 3), (2, 2), (1, 40), (6, 65)])
@pytest.mark.parametrize("by", [1, "half", "most"])
def test_rolls_are_part_of_what_reads_them(dims: tuple[int, ...], by: int | str) -> None:
    shape = f"f32[{','.join(map(str, dims))}]"
    lines, sum_ = "", "x"
    for axis, n in enumerate(dims):
        amount = {"half": n // 2, "most": n - 1}.get(str(by), 1)
        if 0 < amount < n:
            lines += roll(f"r{axis}", "x", dims, axis, amount)
            lines += f"  sum{axis} = {shape} subtract({sum_}, r{axis})\n"
            sum_ = f"sum{axis}"
    text = program(dims, lines, f"ROOT y = {shape} negate({sum_})")
    assert kernels(text) == 1
    check(text, [RNG.standard_normal(dims).astype(np.float32)], ulps=0)


@pytest.mark.parametrize("layout", ["", "{0,1}"])
def test_periodic_boundaries_and_slices_of_them(layout: str) -> None:
    lines = f"""  last = f32[40,2]{layout} slice(x), slice={{[0:40], [98:100]}}
  first = f32[40,3]{layout} slice(x), slice={{[0:40], [0:3]}}
  p = f32[40,105]{layout} concatenate(last, x, first), dimensions={{1}}
  t = f32[40,105]{layout} abs(p)
  a = f32[40,100]{layout} slice(t), slice={{[0:40], [0:100]}}
  b = f32[40,100]{layout} slice(t), slice={{[0:40], [5:105]}}
"""
    text = program((40, 100), lines, f"ROOT y = f32[40,100]{layout} subtract(a, b)", layout)
    check(text, [RNG.standard_normal((40, 100)).astype(np.float32)], ulps=0)


@pytest.mark.parametrize(
    ("padding", "width"),
    [("1_1", 102), ("-3_2", 99), ("40_-1", 139), ("0_0_1", 199)],
)
def test_padding(padding: str, width: int) -> None:
    lines = f"""  v = f32[] constant(7)
  p = f32[12,{width}] pad(x, v), padding=1_1x{padding}
  c = f32[12,{width - 9}] slice(p), slice={{[0:12], [4:{width - 5}]}}
"""
    text = program((10, 100), lines, f"ROOT y = f32[12,{width - 9}] negate(c)")
    check(text, [RNG.standard_normal((10, 100)).astype(np.float32)], ulps=0)


def test_several_results_and_reductions_of_what_wraps() -> None:
    lines = (
        roll("r", "x", (40, 100), 1, 1)
        + roll("q", "x", (40, 100), 0, 3)
        + """
  a = f32[40,100] add(r, q)
  b = f32[40,100] multiply(r, q)
  z = f32[] constant(0)
  c = f32[40] reduce(b, z), dimensions={1}, to_apply=plus
"""
    )
    result = "ROOT t = (f32[40,100], f32[40,100], f32[40]) tuple(a, b, c)"
    plus = "plus { i = f32[] parameter(0) j = f32[] parameter(1) ROOT k = f32[] add(i, j) }\nENTRY"
    text = program((40, 100), lines, result).replace("ENTRY", plus)
    check(text, [RNG.standard_normal((40, 100)).astype(np.float32)])


def test_what_wraps_is_not_overwritten() -> None:
    dims = (40, 100)
    lines = f"""  e = f32[40,100] exponential(x)
{roll("r", "e", dims, 1, 1)}  s = f32[40,100] add(e, r)
{roll("q", "s", dims, 1, 1)}"""
    text = program(dims, lines, "ROOT t = f32[40,100] add(s, q)")
    x = RNG.standard_normal(dims).astype(np.float32)
    check(text, [x])
    assert "concatenate" in str(parse(text))


def test_a_concatenation_of_other_things_is_a_kernel() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[4,50] parameter(0)
  y = f32[4,50] parameter(1)
  c = f32[4,100] concatenate(x, y), dimensions={1}
  ROOT r = f32[4,100] negate(c)
}
"""
    assert kernels(text) == 2
    check(text, [RNG.standard_normal((4, 50)).astype(np.float32) for _ in range(2)], ulps=0)


PLUS = "plus { i = f32[] parameter(0) j = f32[] parameter(1) ROOT k = f32[] add(i, j) }"
INDEX_VECTORS = {
    "elements": (
        "i = s32[3000,2] concatenate(p, q), dimensions={1}",
        "ROOT r = f32[3000] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, "
        "start_index_map={1,0}, index_vector_dim=1, slice_sizes={1,1}",
        1,
    ),
    "rows": (
        "i = s32[3000,2] concatenate(p, q), dimensions={1}",
        "ROOT r = f32[3000,5] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,5}",
        1,
    ),
    "vectors first": (
        "t = s32[1,3000] reshape(p) s = s32[1,3000] reshape(q) "
        "i = s32[2,3000] concatenate(s, t), dimensions={0}",
        "ROOT r = f32[3000] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, "
        "start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1}",
        1,
    ),
    "one component twice": (
        "i = s32[3000,2] concatenate(p, p), dimensions={1}",
        "ROOT r = f32[3000] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, "
        "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
        1,
    ),
    "more than one component": (
        "o = s32[3000,2] concatenate(p, q), dimensions={1} "
        "i = s32[3000,3] concatenate(o, p), dimensions={1}",
        "y = f32[40,50,2] broadcast(x), dimensions={0,1} "
        "ROOT r = f32[3000] gather(y, i), offset_dims={}, collapsed_slice_dims={0,1,2}, "
        "start_index_map={0,1,2}, index_vector_dim=1, slice_sizes={1,1,1}",
        3,
    ),
    "scatter": (
        "i = s32[3000,2] concatenate(p, q), dimensions={1}",
        "one = f32[] constant(1) u = f32[3000] broadcast(one), dimensions={} "
        "ROOT r = f32[40,50] scatter(x, i, u), update_window_dims={}, "
        "inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, "
        "to_apply=plus",
        1,
    ),
}


@pytest.mark.parametrize("case", INDEX_VECTORS)
def test_components_of_indices_are_computed_by_what_reads_them(case: str) -> None:
    indices, reader, expected = INDEX_VECTORS[case]
    text = f"""HloModule m
{PLUS}
ENTRY e {{
  x = f32[40,50] parameter(0)
  a = s32[3000,1] parameter(1)
  b = s32[3000,1] parameter(2)
  p = s32[3000,1] negate(a)
  q = s32[3000,1] add(a, b)
  {indices}
  {reader}
}}
"""
    x = RNG.standard_normal((40, 50)).astype(np.float32)
    # Some are out of range.
    check(text, [x, *(RNG.integers(-45, 10, (3000, 1)).astype(np.int32) for _ in range(2))])
    assert kernels(text) == expected
