"""An operation on parts of its operands: attributes that hold sizes become the parts'."""

from dataclasses import replace

import pytest

import hlo
from hlo.ir import Instruction
from hlo.spmd.localize import localized

# An operation, its operands' and its result's dimensions in the part, and how it prints.
CASES = {
    "slice": (
        "x = f32[8,6] parameter(0) ROOT r = f32[8,2] slice(x), slice={[0:8], [1:5:2]}",
        [(4, 6)], (4, 2), "f32[4,2]{1,0} slice(x), slice={[0:4:1], [1:5:2]}",
    ),
    "dynamic-slice": (
        "x = f32[8,6] parameter(0) i = s32[] parameter(1) "
        "ROOT r = f32[8,2] dynamic-slice(x, i, i), dynamic_slice_sizes={8,2}",
        [(4, 6), ()], (4, 2), "f32[4,2]{1,0} dynamic-slice(x, i, i), dynamic_slice_sizes={4,2}",
    ),
    "gather": (
        "x = f32[5,8] parameter(0) i = s32[6,1] parameter(1) ROOT r = f32[6,8] gather(x, i), "
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        "slice_sizes={1,8}",
        [(5, 4), (2, 1)], (2, 4), "slice_sizes={1,4}",
    ),
    "convolution in feature groups": (
        "x = f32[1,4,8] parameter(0) w = f32[3,2,8] parameter(1) ROOT r = f32[1,2,8] "
        "convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=4",
        [(1, 4, 4), (3, 2, 4)], (1, 2, 4), "feature_group_count=2",
    ),
    "convolution in batch groups": (
        "x = f32[8,4,2] parameter(0) w = f32[3,2,8] parameter(1) ROOT r = f32[2,2,8] "
        "convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=4",
        [(4, 4, 2), (3, 2, 4)], (2, 2, 4), "batch_group_count=2",
    ),
    "custom-call": (
        "x = f32[4,2] parameter(0) ROOT r = f32[4,2] custom-call(x), "
        'custom_call_target="MoveToHost", operand_layout_constraints={f32[4,2]{1,0}}',
        [(2, 2)], (2, 2), "operand_layout_constraints={f32[2,2]{1,0}}",
    ),
    "what has no size in its attributes": (
        "x = f32[4] parameter(0) ROOT r = f32[4,3] broadcast(x), dimensions={0}, "
        "sharding={devices=[2,1]<=[2]}",
        [(2,)], (2, 3), "f32[2,3]{1,0} broadcast(x), dimensions={0}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_localized(name: str) -> None:
    text, dims, result, want = CASES[name]
    root = hlo.parse(f"HloModule m, num_partitions=2 ENTRY e {{ {text} }}").entry.root
    parts = {
        o: Instruction(o.name, "parameter", replace(o.array_shape, dims=d), (), {"number": n})
        for n, (o, d) in enumerate(zip(dict.fromkeys(root.operands), dims, strict=True))
    }
    shape = replace(root.array_shape, dims=result)
    local = localized(root, [parts[o] for o in root.operands], shape)
    assert want in str(local).replace("%", "")
    assert "sharding=" not in str(local)
    assert local.spec.infer(local) == local.shape
