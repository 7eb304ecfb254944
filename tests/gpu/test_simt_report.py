"""The SIMT machine: what it counts."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.gpu.simt import Access, SimtDevice
from tests.gpu.simt import Run, kernel


def accesses(text: str, *arrays: np.ndarray | int, threads: int = 32) -> list[Access]:
    run = Run(text, arrays, threads=threads)
    [found] = run.device.report.kernels
    return sorted(found.accesses, key=lambda access: access.code.line)


@pytest.mark.parametrize(("stride", "sectors"), [(0, 1), (4, 4), (8, 8), (32, 32), (128, 32)])
def test_sectors_of_device_memory(stride: int, sectors: int) -> None:
    text = kernel(
        f"""
    mul.wide.u32 %rd5, %r1, {stride};
    add.s64 %rd3, %rd1, %rd5;
    ld.global.b32 %r10, [%rd3];
    """,
        parameters=1,
    )
    [found] = accesses(text, np.zeros(1024, np.uint32))
    least = 1 if stride == 0 else 4
    assert (found.requests, found.bytes) == (1, 128)
    assert (found.transactions, found.least) == (sectors, least)


@pytest.mark.parametrize(
    ("width", "stride", "passes", "least"),
    [
        (4, 4, 1, 1), (4, 0, 1, 1), (4, 8, 2, 1), (4, 128, 32, 1), (4, 132, 1, 1), (1, 1, 1, 1),
        (8, 8, 2, 2), (8, 128, 32, 2), (16, 16, 4, 4), (16, 128, 32, 4), (16, 144, 4, 4),
    ],
)  # fmt: skip
def test_passes_over_the_banks(width: int, stride: int, passes: int, least: int) -> None:
    how = {1: "b8 [%rd6], %r1", 4: "b32 [%rd6], %r1", 8: "b64 [%rd6], %rd5",
           16: "v2.b64 [%rd6], {%rd5, %rd5}"}[width]  # fmt: skip
    # Without a stride, only the first thread writes: several would be a race.
    text = kernel(
        f"""
    setp.ge.u32 %p1, %r1, {32 if stride else 1};
    @%p1 bra $AFTER;
    mul.wide.u32 %rd5, %r1, {stride};
    mov.b64 %rd6, tile;
    add.s64 %rd6, %rd6, %rd5;
    st.shared.{how};
$AFTER:
    """,
        parameters=0, shared=".shared .align 16 .b8 tile[8192];",
    )  # fmt: skip
    [found] = accesses(text)
    assert (found.transactions, found.least) == (passes, least)


def test_instructions_and_lanes() -> None:
    text = kernel(
        """
    setp.ge.u32 %p1, %r1, 8;
    @%p1 bra $AFTER;
    mov.b32 %r10, 1;
    mov.b32 %r10, 2;
$AFTER:
    """,
        parameters=0,
    )
    device = SimtDevice()
    Run(text, [], blocks=3, threads=64, device=device)
    Run(text, [], blocks=3, threads=64, device=device)
    counts = [(k.launches, k.threads, k.opcodes["setp"], k.opcodes["mov"], k.lanes)
              for k in device.report.kernels]  # fmt: skip
    # Five instructions before, which all do, then two by the first warp of each block, and `ret`.
    assert counts == [(1, 192, 6, 18 + 6, 8 * 192 + 2 * 24)] * 2
    device.report.clear()
    assert not device.report.kernels


def test_the_report_names_what_wastes_transactions() -> None:
    text = kernel(
        """
    mul.wide.u32 %rd5, %r1, 64;
    add.s64 %rd3, %rd1, %rd5;
    ld.global.b32 %r10, [%rd3];
    """,
        parameters=1,
    )
    run = Run(text, [np.zeros(512, np.uint32)])
    lines = str(run.device.report).splitlines()
    assert lines[0].split() == [
        "kernel", "HLO", "launches", "threads", "warp", "instr.", "lanes", "global", "B",
        "sectors", "least", "shared", "B", "passes", "least",
    ]  # fmt: skip
    assert lines[1].split()[-6:] == ["128", "32", "4", "0", "0", "0"]
    assert lines[3] == "Accesses with more transactions than their bytes need:"
    assert lines[4].startswith("  k (%x.1), PTX line ")
    assert lines[4].endswith("ld.global.b32: 32 sectors, 4 would do")


def test_local_memory_of_a_warp_is_side_by_side() -> None:
    text = kernel(
        """
        .local .align 8 .b8 own[64];
        mov.b64 %rd10, own;
        st.local.b32 [%rd10+4], %r1;
        st.local.v2.b32 [%rd10+8], {%r1, %r1};
        mul.wide.u32 %rd11, %r1, 2;
        and.b64 %rd11, %rd11, 60;
        add.s64 %rd12, %rd10, %rd11;
        ld.local.b32 %r10, [%rd12];
        """,
        parameters=0,
    )
    [found] = Run(text, []).device.report.kernels
    assert [(a.transactions, a.least) for a in found.accesses] == [(16, 4), (4, 4), (8, 8)]
