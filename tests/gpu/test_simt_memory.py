"""The SIMT machine: memory of all spaces, and what is wrong with accesses to it."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.gpu.simt import SimtDevice
from tests.gpu.simt import Run, kernel, problem

COPY = kernel("""
    add.s64 %rd3, %rd1, %rd30;
    add.s64 %rd4, %rd2, %rd30;
    ld.global.b32 %r10, [%rd3];
    st.global.b32 [%rd4], %r10;
""")


def test_each_thread_copies_its_element() -> None:
    data = np.arange(256, dtype=np.uint32)
    run = Run(COPY, [data, 1024], blocks=4, threads=64)
    assert (run.array(1, 256) == data).all()


def test_blocks_without_whole_warps() -> None:
    data = np.arange(30, dtype=np.uint32)
    run = Run(COPY, [data, 120], blocks=3, threads=10)
    assert (run.array(1, 30) == data).all()


@pytest.mark.parametrize("blocks", [1, 100, 1000])
def test_large_grids_run_in_batches(blocks: int) -> None:
    data = np.arange(blocks * 64, dtype=np.uint32)
    run = Run(COPY, [data, data.nbytes], blocks=blocks, threads=64)
    assert (run.array(1, data.size) == data).all()


def test_vectors() -> None:
    text = kernel("""
    shl.b64 %rd5, %rd30, 2;
    add.s64 %rd3, %rd1, %rd5;
    add.s64 %rd4, %rd2, %rd5;
    ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd3];
    st.global.v4.b32 [%rd4], {%r13, %r12, %r11, %r10};
    """)
    data = np.arange(128, dtype=np.uint32)
    run = Run(text, [data, 512])
    assert (run.array(1, 128).reshape(-1, 4) == data.reshape(-1, 4)[:, ::-1]).all()


def test_narrow_elements_are_extended_to_registers() -> None:
    text = kernel("""
    cvt.u64.u32 %rd5, %r1;
    add.s64 %rd3, %rd1, %rd5;
    add.s64 %rd4, %rd2, %rd30;
    ld.global.s8 %r10, [%rd3];
    ld.global.u8 %r11, [%rd3];
    add.s32 %r12, %r10, %r11;
    st.global.b32 [%rd4], %r12;
    """)
    data = np.arange(112, 144, dtype=np.uint8)
    run = Run(text, [data, 128])
    expected = data.view(np.int8).astype(np.int32) + data
    assert (run.array(1, 32, np.int32) == expected).all()


def test_shared_memory_by_its_own_and_by_generic_addresses() -> None:
    shared = ".shared .align 4 .b8 tile[128];"
    text = kernel(
        """
    mov.b64 %rd5, tile;
    cvta.shared.u64 %rd6, %rd5;
    mul.wide.u32 %rd7, %r1, 4;
    add.s64 %rd8, %rd6, %rd7;
    add.s64 %rd3, %rd1, %rd30;
    ld.global.b32 %r10, [%rd3];
    st.b32 [%rd8], %r10;
    bar.sync 0;
    xor.b32 %r11, %r1, 31;
    mul.wide.u32 %rd9, %r11, 4;
    add.s64 %rd9, %rd5, %rd9;
    ld.shared.b32 %r12, [%rd9];
    add.s64 %rd4, %rd2, %rd30;
    st.global.b32 [%rd4], %r12;
    """,
        shared=shared,
    )
    data = np.arange(64, dtype=np.uint32)
    run = Run(text, [data, 256], blocks=2)
    assert (run.array(1, 64).reshape(2, 32) == data.reshape(2, 32)[:, ::-1]).all()


def test_generic_addresses_of_several_spaces_at_once() -> None:
    shared = ".shared .align 4 .b8 tile[128];"
    text = kernel(
        """
    mov.b64 %rd5, tile;
    cvta.shared.u64 %rd6, %rd5;
    mul.wide.u32 %rd7, %r1, 4;
    add.s64 %rd8, %rd6, %rd7;
    st.b32 [%rd8], %r1;
    add.s64 %rd9, %rd1, %rd30;
    setp.lt.u32 %p1, %r1, 16;
    selp.b64 %rd10, %rd8, %rd9, %p1;
    ld.b32 %r10, [%rd10];
    add.s64 %rd4, %rd2, %rd30;
    st.global.b32 [%rd4], %r10;
    """,
        shared=shared,
    )
    run = Run(text, [np.full(32, 7, np.uint32), 128])
    assert run.array(1, 32).tolist() == [*range(16), *[7] * 16]


def test_local_memory_belongs_to_each_thread() -> None:
    text = kernel(
        """
    .local .align 8 .b8 depot[16];
    .reg .b64 %SPL;
    mov.b64 %SPL, depot;
    st.local.b32 [%SPL+4], %r4;
    ld.local.b32 %r10, [%SPL+4];
    add.s64 %rd4, %rd1, %rd30;
    st.global.b32 [%rd4], %r10;
    """,
        parameters=1,
    )
    run = Run(text, [256], blocks=2)
    assert (run.array(0, 64) == np.arange(64)).all()


def test_variables_of_the_module() -> None:
    text = kernel("""
    mul.wide.u32 %rd5, %r1, 4;
    mov.b64 %rd6, table;
    add.s64 %rd6, %rd6, %rd5;
    ld.global.b32 %r10, [%rd6];
    add.s64 %rd4, %rd1, %rd30;
    st.global.b32 [%rd4], %r10;
    """, parameters=1, shared=".global .align 4 .b32 table[4] = {5, 6, 7, 8};")  # fmt: skip
    run = Run(text, [16], threads=4)
    assert run.array(0, 4).tolist() == [5, 6, 7, 8]


def test_out_of_bounds_names_allocation_thread_and_line() -> None:
    found = problem(COPY, [np.zeros(60, np.uint32), 256], blocks=2)
    assert found.startswith("gpu-out-of-bounds: reads 4 bytes outside of global memory")
    assert "1 bytes after the end of the 240 bytes of array 0" in found
    assert "kernel k (%x.1), PTX line" in found
    assert "(ld.global.b32), block 1, thread 28 and 3 more" in found


@pytest.mark.parametrize("size", [4, 12, 13, 16])
def test_aligned_vectors_may_read_a_little_more_than_there_is(size: int) -> None:
    text = kernel("""
    ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd1];
    st.global.b32 [%rd2], %r10;
    setp.eq.s32 %p1, %r13, 0;
    """)
    arrays = [np.zeros(size, np.uint8), np.zeros(4, np.uint8)]
    Run(text, arrays, threads=1)
    used = text.replace("ret;", "@%p1 ret;\nret;")
    if size == 16:
        Run(used, arrays, threads=1)
    else:
        assert problem(used, arrays, threads=1).startswith("gpu-uninitialized: branches by")
    beside = text.replace("[%rd2]", "[%rd1+12]")
    if size == 16:
        Run(beside, arrays, threads=1)
    else:
        assert problem(beside, arrays, threads=1).startswith("gpu-out-of-bounds: writes 4 bytes")


def test_the_line_of_the_source() -> None:
    text = kernel("""
    .loc 1 12 3
    add.s64 %rd3, %rd1, %rd30;
    .loc 1 14 5
    ld.global.b32 %r10, [%rd3];
    """, parameters=1, shared='.file 1 "model.hlo"')  # fmt: skip
    found = problem(text, [16])
    assert "(ld.global.b32) of model.hlo:14, block 0, thread 4 and 27 more" in found


def test_writes_out_of_bounds() -> None:
    found = problem(COPY, [np.zeros(64, np.uint32), 128], blocks=2)
    assert found.startswith("gpu-out-of-bounds: writes 4 bytes outside of global memory")
    assert "block 1, thread 0 and 31 more" in found


@pytest.mark.parametrize("size", [64, 2048])
def test_shared_memory_out_of_bounds(size: int) -> None:
    shared = ".shared .align 4 .b8 tile[64];\n.shared .align 4 .b8 other[64];"
    text = kernel(
        f"""
    mov.b64 %rd5, tile;
    st.shared.b32 [%rd5+{size}], %r1;
    """,
        parameters=0, shared=shared,
    )  # fmt: skip
    assert problem(text, [], threads=1).startswith("gpu-out-of-bounds: writes 4 bytes")


def test_dynamic_shared_memory_is_as_large_as_the_launch_says() -> None:
    text = kernel(
        """
    mov.b64 %rd5, dynamic;
    mul.wide.u32 %rd6, %r1, 4;
    add.s64 %rd5, %rd5, %rd6;
    st.shared.b32 [%rd5], %r1;
    """,
        parameters=0, shared=".extern .shared .align 16 .b8 dynamic[];",
    )  # fmt: skip
    Run(text, [], shared_bytes=128)
    found = problem(text, [], shared_bytes=124)
    assert found.startswith("gpu-out-of-bounds")
    assert "thread 31" in found


def test_memory_that_was_given_back() -> None:
    device = SimtDevice()
    address = device.allocate(128)
    assert device.allocated_bytes == 128
    device.free(address)
    assert device.allocated_bytes == 0
    code = device.load(COPY)
    with pytest.raises(HloError, match="gpu-out-of-bounds"):
        device.launch(code, "k", 1, 32, 0, [address, address])


def test_misaligned_vectors() -> None:
    text = kernel("""
    add.s64 %rd3, %rd1, %rd30;
    ld.global.v2.b32 {%r10, %r11}, [%rd3];
    """)
    found = problem(text, [np.zeros(64, np.uint32), 4])
    assert found.startswith(
        "gpu-misaligned: reads 8 bytes of global memory at an address that is no multiple of 8"
    )
    assert "thread 1 and 15 more" in found


def test_without_checks_only_what_cannot_go_on_is_reported() -> None:
    device = SimtDevice(checks=False)
    assert Run(COPY, [128, 128], device=device).array(1, 32).sum() == 0
    with pytest.raises(HloError, match="gpu-out-of-bounds"):
        Run(COPY, [128, 128], blocks=16, device=device)
