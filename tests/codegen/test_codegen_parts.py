"""Slices that kernels read where they are in memory: results, and how many kernels there are."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.codegen.targets.cpu import cpu_target
from hlo.compiler.lowering import Clock, emit
from hlo.frontends.text import parse
from hlo.runtime.jit import host_machine
from tests.harness.run_compiled import check, compiled_for

RANDOM = np.random.default_rng(5)
SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def recurrence(steps: int, start: int = 0) -> str:
    """Return a program that adds up the rows of an array one by one, each with a product."""
    lines = [
        f"x = f32[{start + steps},5,24] parameter(0)", "w = f32[24,24] parameter(1)",
        "h0 = f32[5,24] parameter(2)",
    ]  # fmt: skip
    for n in range(steps):
        at = start + n
        lines += [
            f"row{n} = f32[1,5,24] slice(x), slice={{[{at}:{at + 1}], [0:5], [0:24]}}",
            f"r{n} = f32[5,24] reshape(row{n})",
            f"p{n} = f32[5,24] dot(r{n}, w), {DOT}",
            f"a{n} = f32[5,24] add(p{n}, h{n})",
            f"h{n + 1} = f32[5,24] tanh(a{n})",
        ]
    return f"HloModule m ENTRY e {{\n{chr(10).join(lines)}\nROOT y = f32[5,24] negate(h{steps})\n}}"


def kernels(text: str) -> int:
    """Return how many kernels a program has."""
    machine = host_machine("")
    target = cpu_target(machine.triple, machine.data_layout, machine.features, None)
    return emit(parse(text), "entry", target, Clock()).kernels


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("steps", [3, 4, 12])
def test_steps_of_an_unrolled_loop(steps: int) -> None:
    check(
        recurrence(steps),
        [numbers(steps, 5, 24), numbers(24, 24), numbers(5, 24)],
        rtol=1e-4,
        atol=1e-5,
    )


def test_equal_steps_are_one_kernel() -> None:
    few, many = (kernels(recurrence(n, start=2)) for n in (20, 40))
    assert few == many


# name: (what is made of x = f32[12,6,8], and v = s32[64])
BODIES = {
    "rows in runs of several": [
        f"row{n} = f32[2,6,8] slice(x), slice={{[{2 * n}:{2 * n + 2}], [0:6], [0:8]}} "
        f"y{n} = f32[2,6,8] exponential(row{n})"
        for n in range(6)
    ],
    "part of a row": [
        f"row{n} = f32[1,3,8] slice(x), slice={{[{n}:{n + 1}], [2:5], [0:8]}} "
        f"y{n} = f32[1,3,8] negate(row{n})"
        for n in range(5)
    ],
    "one element": [
        f"row{n} = f32[1,1,1] slice(x), slice={{[{n}:{n + 1}], [3:4], [{n}:{n + 1}]}} "
        f"q{n} = f32[] reshape(row{n}) y{n} = f32[6] broadcast(q{n}), dimensions={{}}"
        for n in range(5)
    ],
    "columns, which are no run": [
        f"row{n} = f32[12,6,1] slice(x), slice={{[0:12], [0:6], [{n}:{n + 1}]}} "
        f"y{n} = f32[12,6,1] negate(row{n})"
        for n in range(5)
    ],
    "every other row": [
        f"row{n} = f32[3,6,8] slice(x), slice={{[{n}:{n + 5}:2], [0:6], [0:8]}} "
        f"y{n} = f32[3,6,8] negate(row{n})"
        for n in range(5)
    ],
    "slices of slices": [
        f"t{n} = f32[4,6,8] slice(x), slice={{[{n}:{n + 4}], [0:6], [0:8]}} "
        f"row{n} = f32[1,6,8] slice(t{n}), slice={{[2:3], [0:6], [0:8]}} "
        f"y{n} = f32[1,6,8] negate(row{n})"
        for n in range(5)
    ],
    "sums of rows": [
        f"row{n} = f32[1,6,8] slice(x), slice={{[{n}:{n + 1}], [0:6], [0:8]}} "
        f"y{n} = f32[1,6] reduce(row{n}, zero), dimensions={{2}}, to_apply=sum"
        for n in range(5)
    ],
}


@pytest.mark.parametrize("name", BODIES)
def test_parts_of_an_array(name: str) -> None:
    lines = "\n".join(BODIES[name])
    results = [line.split("y" + str(n) + " = ")[1].split(" ")[0]
               for n, line in enumerate(BODIES[name])]  # fmt: skip
    names = ", ".join(f"y{n}" for n in range(len(results)))
    text = (
        f"HloModule m\n{SUM}ENTRY e {{\nx = f32[12,6,8] parameter(0)\nzero = f32[] constant(0)\n"
        f"{lines}\nROOT r = ({', '.join(results)}) tuple({names})\n}}"
    )
    check(text, [numbers(12, 6, 8)], rtol=1e-6, atol=1e-6)


def test_too_many_parts_of_one_kernel() -> None:
    lines = [f"row{n} = f32[64] slice(x), slice={{[{n * 64}:{n * 64 + 64}]}}" for n in range(20)]
    sums, last = [], "row0"
    for n in range(1, 20):
        sums.append(f"a{n} = f32[64] add({last}, row{n})")
        last = f"a{n}"
    text = "\n".join([*lines, *sums])
    check(
        f"HloModule m ENTRY e {{ x = f32[1280] parameter(0)\n{text}\n"
        f"ROOT y = f32[64] negate({last}) }}",
        [numbers(1280)],
        rtol=1e-6,
    )


# A loop whose body reads rows of the state that it updates in place, one of them before and after.
IN_PLACE = """HloModule m
test {{
  s = (s32[], f32[8,{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  four = s32[] constant(4)
  ROOT go = pred[] compare(i, four), direction=LT
}}
body {{
  s = (s32[], f32[8,{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,{n}] get-tuple-element(s), index=1
  a = f32[1,{n}] slice(x), slice={{[0:1], [0:{n}]}}
  b = f32[1,{n}] slice(x), slice={{[1:2], [0:{n}]}}
  c = f32[1,{n}] slice(x), slice={{[2:3], [0:{n}]}}
  d = f32[1,{n}] slice(x), slice={{[7:8], [0:{n}]}}
  ab = f32[1,{n}] add(a, b)
  cd = f32[1,{n}] multiply(c, d)
  u = f32[1,{n}] subtract(ab, cd)
  zero = s32[] constant(0)
  one = s32[] constant(1)
  y = f32[8,{n}] dynamic-update-slice(x, u, i, zero)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8,{n}]) tuple(j, y)
}}
ENTRY e {{
  x = f32[8,{n}] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[8,{n}]) tuple(zero, x)
  w = (s32[], f32[8,{n}]) while(t), condition=test, body=body
  ROOT r = f32[8,{n}] get-tuple-element(w), index=1
}}
"""


@pytest.mark.parametrize("width", [1, 33, 100_000])
def test_rows_of_what_is_updated_in_place(width: int) -> None:
    text, x = IN_PLACE.format(n=width), numbers(8, width)
    check(text, [x], rtol=1e-4, atol=1e-5)
    one, four = (compiled_for(text, threads)(x) for threads in (1, 4))
    np.testing.assert_array_equal(one, four)


def test_rows_of_results_of_the_same_shape() -> None:
    # Each result has the size of the array that rows are read from.
    lines = [
        f"row{n} = f32[1,70000] slice(p), slice={{[{n}:{n + 1}], [0:70000]}} "
        f"q{n} = f32[70000] reshape(row{n}) b{n} = f32[4,70000] broadcast(q{n}), dimensions={{1}}"
        for n in range(4)
    ]
    text = (
        "HloModule m ENTRY e { x = f32[4,70000] parameter(0) p = f32[4,70000] exponential(x)\n"
        + "\n".join(lines)
        + "\na = f32[4,70000] add(b0, b1) c = f32[4,70000] multiply(b2, b3)\n"
        "ROOT r = f32[4,70000] subtract(a, c) }"
    )
    check(text, [numbers(4, 70000)], rtol=1e-4, atol=1e-5)
