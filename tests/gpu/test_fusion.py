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


def layer(size: int) -> str:
    """Return a product with the weights of one of several layers, stored with wider elements."""
    return f"""HloModule m ENTRY e {{
     x = bf16[24,{size}] parameter(0) i = s32[] parameter(1)
     w = f32[3,{size},4,{size // 4}]{{3,2,0,1}} parameter(2) z = s32[] constant(0)
     s = f32[1,{size},4,{size // 4}]{{3,2,1,0}} dynamic-slice(w, i, z, z, z),
      dynamic_slice_sizes={{1,{size},4,{size // 4}}}
     c = bf16[1,{size},4,{size // 4}]{{3,2,1,0}} convert(s)
     r = bf16[{size},4,{size // 4}]{{2,1,0}} reshape(c)
     ROOT d = bf16[24,4,{size // 4}]{{2,1,0}} dot(x, r), lhs_contracting_dims={{1}},
      rhs_contracting_dims={{0}} }}"""


def test_a_product_reads_the_weights_of_its_layer_where_they_are() -> None:
    written, ptx = program(layer(4096))
    assert all(launch.instruction == "d" for launch in written.plan.launches)
    assert "ld.global.v4.b32" in ptx and "st.shared.v4.b32" in ptx
    check_emulated(layer(256))
    check_emulated(layer(260))
