"""What is one launch on a GPU: values are computed again where a launch would take longer."""

from __future__ import annotations

import pytest

from hlo.gpu.plan import LaunchPlan
from tests.gpu.emulated import check_emulated, program


def plan_of(text: str) -> LaunchPlan:
    return program(text)[0].plan


def chain(n: int) -> str:
    lines = [f"HloModule m ENTRY e {{ x0 = f32[{n}] parameter(0) y = f32[{n}] parameter(1)"]
    for k in range(3):
        lines.append(
            f"e{k} = f32[{n}] exponential(x{k}) c{k} = f32[{n}] cosine(y)"
            f" t{k} = f32[{n}] tanh(x{k}) p{k} = f32[{n}] multiply(e{k}, c{k})"
            f" {'ROOT ' if k == 2 else ''}x{k + 1} = f32[{n}] add(p{k}, t{k})"
        )
    return "\n".join(lines) + "}"


@pytest.mark.parametrize("n", [1, 1000, 70000])
def test_a_chain_of_costly_operations_is_one_launch(n: int) -> None:
    assert len(plan_of(chain(n)).steps) == 1
    if n <= 1000:
        check_emulated(chain(n))


CHANNELS = """HloModule m ENTRY e {
 x = f32[64,32] parameter(0) v = f32[32] parameter(1) g = f32[32] parameter(2)
 r = f32[32] rsqrt(v) s = f32[32] multiply(r, g)
 b = f32[64,32] broadcast(s), dimensions={1} ROOT y = f32[64,32] multiply(x, b) }"""


def test_what_is_made_of_channels_is_computed_for_each_element() -> None:
    assert len(plan_of(CHANNELS).steps) == 1
    check_emulated(CHANNELS)


def test_what_is_costly_for_very_many_elements_is_stored() -> None:
    large = CHANNELS.replace("64,32", "64000,512").replace("[32]", "[512]")
    large = large.replace("rsqrt(v)", "tanh(v) r2 = f32[512] tan(r) r3 = f32[512] cosine(r2)")
    large = large.replace("multiply(r, g)", "multiply(r3, g)")
    assert len(plan_of(large).steps) == 2


def test_small_independent_arrays_are_made_by_one_launch() -> None:
    text = """HloModule m ENTRY e {
     x = f32[100] parameter(0) y = f32[100] parameter(1)
     a = f32[100] sine(x) b = f32[100] cosine(y) c = f32[100] negate(y)
     ROOT r = (f32[100], f32[100], f32[100]) tuple(a, b, c) }"""
    assert len(plan_of(text).steps) == 1
    check_emulated(text)


def test_a_value_for_kernels_of_other_dimensions_is_computed_by_each() -> None:
    text = """HloModule m
    sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[40,30] parameter(0) z = f32[] constant(0) e = f32[40,30] exponential(x)
     r = f32[30] reduce(e, z), dimensions={0}, to_apply=sum
     t = f32[30,40] transpose(e), dimensions={1,0}
     ROOT q = (f32[30], f32[30,40]) tuple(r, t) }"""
    assert len(plan_of(text).steps) == 2
    check_emulated(text)
