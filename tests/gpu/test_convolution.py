"""convolution on GPUs: windows, dilations, groups, dimension numbers, types."""

from __future__ import annotations

import pytest

from hlo.codegen.targets.gpu.kernels.matmul import choice
from tests.gpu.emulated import check_emulated, program

# Shapes of the input, the filter and the result, window, dimension labels, groups.
CASES = [
    ("2,9,9,8", "3,3,8,16", "2,9,9,16", "3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
    ("2,3,8,8", "5,3,3,3", "2,5,4,4", "3x3 stride=2x2 pad=1_1x1_1", "bf01_oi01->bf01", ""),
    ("2,16,9,11", "24,16,3,2", "2,24,9,10", "3x2 pad=1_1x0_0", "bf01_oi01->bf01", ""),
    ("1,4,5", "4,1,3", "1,4,5", "3 pad=1_1", "bf0_oi0->bf0", "feature_group_count=4"),
    ("2,7,7,16", "3,3,1,16", "2,7,7,16", "3x3 pad=1_1x1_1", "b01f_01io->b01f",
     "feature_group_count=16"),
    ("2,7,7,16", "3,3,8,32", "2,7,7,32", "3x3 pad=1_1x1_1", "b01f_01io->b01f",
     "feature_group_count=2"),
    ("4,7,7,8", "3,3,8,32", "2,5,5,32", "3x3", "b01f_01io->b01f", "batch_group_count=2"),
    ("2,5,5,3", "2,4,4,4", "4,4,3,4", "4x4 pad=1_1x1_1", "f01b_i01o->01bf", ""),
    ("1,6,6,8", "3,3,8,16", "1,13,13,16", "3x3 pad=2_2x2_2 lhs_dilate=2x2", "b01f_01io->b01f", ""),
    ("1,9,9,8", "3,3,8,16", "1,5,5,16", "3x3 rhs_dilate=2x2", "b01f_01io->b01f", ""),
    ("1,6,6,8", "3,3,8,16", "1,6,6,16", "3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01io->b01f", ""),
    ("1,4,5,6,8", "2,3,2,8,16", "1,3,3,5,16", "2x3x2", "b012f_012io->b012f", ""),
    ("2,16,8", "4,8,16", "2,16,16", "4 pad=2_1", "b0f_0io->b0f", ""),
    ("1,3,3,4", "1,1,4,8", "1,5,5,8", "1x1 lhs_dilate=2x2", "b01f_01io->b01f", ""),
]  # fmt: skip
# Those that are large enough for tensor cores.
LARGE = [
    ("2,9,9,16", "3,3,16,32", "2,9,9,32", "3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
    ("2,16,9,11", "32,16,3,2", "2,32,5,5", "3x2 stride=2x2 pad=1_1x0_0", "bf01_oi01->bf01", ""),
    ("1,6,6,16", "3,3,16,32", "1,13,13,32", "3x3 pad=2_2x2_2 lhs_dilate=2x2", "b01f_01io->b01f",
     ""),
    ("2,7,7,32", "3,3,16,64", "2,7,7,64", "3x3 pad=1_1x1_1", "b01f_01io->b01f",
     "feature_group_count=2"),
]  # fmt: skip


def convolution(case: tuple[str, ...], et: str = "f32") -> str:
    x, w, out, window, labels, groups = case
    return f"""
HloModule m
ENTRY e {{
  x = {et}[{x}] parameter(0)
  w = {et}[{w}] parameter(1)
  ROOT d = {et}[{out}] convolution(x, w), window={{size={window}}},
    dim_labels={labels}{groups and ", " + groups}
}}"""


@pytest.mark.parametrize("case", CASES)
def test_windows(case: tuple[str, ...]) -> None:
    check_emulated(convolution(case))


@pytest.mark.parametrize("et", ["s8", "s32", "bf16", "f16", "f64", "c64"])
def test_types(et: str) -> None:
    check_emulated(convolution(CASES[0], et))


@pytest.mark.parametrize("et", ["f16", "f32"])
@pytest.mark.parametrize("case", LARGE)
def test_tensor_cores(case: tuple[str, ...], et: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_LEAST_SPLIT", 0)
    text = convolution(case, et)
    check_emulated(text)
    assert "mma.sync" in program(text)[1]


def test_patches_are_copied_asynchronously() -> None:
    code = program(convolution(LARGE[0], "f16"))[1]
    assert "cp.async.cg.shared.global" in code
    assert "st.shared" not in code


def test_bias_and_activation_are_part_of_it() -> None:
    text = """
HloModule m
ENTRY e {
  x = f32[2,9,9,16] parameter(0) w = f32[3,3,16,32] parameter(1) b = f32[32] parameter(2)
  c = f32[2,9,9,32] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  bb = f32[2,9,9,32] broadcast(b), dimensions={3} s = f32[2,9,9,32] add(c, bb)
  z = f32[] constant(0) zz = f32[2,9,9,32] broadcast(z), dimensions={}
  ROOT r = f32[2,9,9,32] maximum(s, zz)
}"""
    check_emulated(text)
    assert len(program(text)[0].plan.launches) == 1
