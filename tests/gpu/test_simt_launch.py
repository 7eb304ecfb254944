"""The SIMT machine: what a launch is called with, and launches that no GPU accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.gpu.simt import SimtDevice

_HEADER = ".version 7.8\n.target sm_90\n.address_size 64\n"
# As nvcc writes it: y[row][column] = s * (row * width + column) + p.second, in two dimensions.
_PLANE = """
.visible .entry plane(.param .u64 y, .param .u32 n, .param .f32 s, .param .align 8 .b8 p[16])
{
    .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<2>; .reg .f32 %f<8>;
    ld.param.u64 %rd1, [y];
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [s];
    ld.param.f32 %f2, [p+8];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mov.u32 %r6, %ctaid.y; mov.u32 %r7, %ntid.y; mov.u32 %r8, %tid.y;
    mad.lo.s32 %r9, %r6, %r7, %r8;
    mov.u32 %r10, %nctaid.x;
    mul.lo.s32 %r11, %r10, %r3;
    mad.lo.s32 %r12, %r9, %r11, %r5;
    setp.ge.u32 %p1, %r12, %r1;
    @%p1 bra $DONE;
    cvt.rn.f32.u32 %f3, %r12;
    fma.rn.f32 %f4, %f3, %f1, %f2;
    mul.wide.u32 %rd3, %r12, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f4;
$DONE:
    ret;
}
"""
_POINT = np.array([0, 0, 5, 0], np.float32).tobytes()


def _launch(ptx: str, blocks: Any, threads: Any, arguments: Sequence[Any], shared: int = 0) -> None:
    device = SimtDevice()
    code = device.load(_HEADER + ptx)
    (name,) = code.kernels
    device.launch(code, name, blocks, threads, shared, arguments)


def test_grids_in_two_dimensions_and_arguments_of_any_type() -> None:
    device = SimtDevice()
    code, y = device.load(_HEADER + _PLANE), device.allocate(4 * 90, "y")
    for arguments in ((90, 2.0), (90, 2), (np.uint32(90), np.float32(2))):
        device.launch(code, "plane", (2, 3), (8, 2), 0, [y, *arguments, _POINT])
        data = np.empty(4 * 90, np.uint8)
        device.read(y, data)
        assert (data.view(np.float32) == 2 * np.arange(90) + 5).all()


@pytest.mark.parametrize(
    ("blocks", "threads", "arguments", "shared", "message"),
    [
        (1, 32, (0, 1, 1.0), 0, "3 parameters for 4"),
        (1, 32, ("y", 1, 1.0, _POINT), 0, "parameter y, 8 bytes of u64, cannot be 'y'"),
        (1, 32, (0, 1 << 32, 1.0, _POINT), 0, "parameter n, 4 bytes of u32, cannot be 4294967296"),
        (1, 32, (0, 1.5, 1.0, _POINT), 0, "parameter n, 4 bytes of u32, cannot be 1.5"),
        (1, 32, (0, 1, np.float64(1), _POINT), 0, "parameter s, 4 bytes of f32, cannot be"),
        (1, 32, (0, 1, 1.0, b""), 0, "parameter p, 16 bytes of b8, cannot be b''"),
        (0, 32, (0, 1, 1.0, _POINT), 0, "0 blocks"),
        ((1, 65536), 32, (0, 1, 1.0, _POINT), 0, "1 by 65536 by 1 blocks"),
        (1, (1, 1, 65), (0, 1, 1.0, _POINT), 0, "1 by 1 by 65 threads a block"),
        (1, (32, 33), (0, 1, 1.0, _POINT), 0, "32 by 33 by 1 threads a block, at most 1024"),
        ("x", 32, (0, 1, 1.0, _POINT), 0, "'x' is not a number of blocks"),
        (1, 1.5, (0, 1, 1.0, _POINT), 0, "1.5 is not a number of threads"),
        ((1, 1, 1, 1), 32, (0, 1, 1.0, _POINT), 0, r"\(1, 1, 1, 1\) is not a number of blocks"),
        (1, 32, (0, 1, 1.0, _POINT), -1, "-1 bytes of shared memory"),
        (1, 32, (0, 1, 1.0, _POINT), 1 << 20, "bytes of shared memory"),
    ],
)
def test_launches_that_no_gpu_accepts(
    blocks: Any, threads: Any, arguments: Sequence[Any], shared: int, message: str
) -> None:
    with pytest.raises(HloError, match=message) as caught:
        _launch(_PLANE, blocks, threads, arguments, shared)
    assert caught.value.code == "bad-launch"


def test_more_local_memory_than_a_thread_has() -> None:
    with pytest.raises(HloError, match="bytes of local memory"):
        _launch(".visible .entry k() { .local .b8 s[99999999999]; ret; }", 1, 32, ())


def test_values_for_more_than_a_variable_holds() -> None:
    with pytest.raises(HloError, match="s of 8 bytes has values for 12"):
        _launch(".global .b32 s[2] = {1, 2, 3};\n.visible .entry k() { ret; }", 1, 32, ())


def test_batches_without_an_end_are_stopped() -> None:
    device = SimtDevice(limit=1 << 10)
    code = device.load(f"{_HEADER}.visible .entry k() {{ ret; }}")
    with pytest.raises(HloError, match="still runs after 1024 instructions"):
        device.launch(code, "k", (1 << 31) - 1, 1024, 0, ())


@pytest.mark.parametrize(
    "line",
    [
        "ld.global.b99 %r1, [%rd1];",
        "ld.global.b32 %r1;",
        "ld.param.b32 %r1, %r2;",
        "st.global.b32 [%rd1];",
        "st.b32;",
        "atom.global.add.zz %r1, [%rd1], 1;",
        "cvta.to.global.u64 5, %rd1;",
        "cp.async.ca;",
        "bar.warp.sync;",
        "add.s32 %r1, %r2, !%r3;",
        "add.s32 %r1, %r2, %p1;",
        "fma.rn.f32 %p1, %f1, %f2, %f3;",
        "shfl.sync.zz.b32 %r1, %r2, 1, 31, -1;",
        ".loc 1;",
    ],
)
def test_instructions_that_ptx_does_not_have(line: str) -> None:
    registers = ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<2>; .reg .f32 %f<8>;"
    with pytest.raises(HloError) as caught:
        _launch(f".visible .entry k() {{\n{registers}\n{line}\nret;\n}}", 1, 32, ())
    assert caught.value.code in ("unsupported-ptx", "ptx-syntax")
