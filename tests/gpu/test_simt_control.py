"""The SIMT machine: branches, loops, barriers, and where they go wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.simt import Run, kernel, problem


def test_threads_that_branch_meet_again() -> None:
    text = kernel("""
    and.b32 %r10, %r1, 1;
    setp.eq.s32 %p1, %r10, 0;
    @%p1 bra $EVEN;
    mov.b32 %r11, 100;
    bra.uni $JOIN;
$EVEN:
    mov.b32 %r11, 200;
$JOIN:
    add.s32 %r11, %r11, %r1;
    activemask.b32 %r12;
    add.s64 %rd3, %rd1, %rd30;
    add.s64 %rd4, %rd2, %rd30;
    st.global.b32 [%rd3], %r11;
    st.global.b32 [%rd4], %r12;
    """)
    run = Run(text, [128, 128])
    lanes = np.arange(32)
    assert (run.array(0, 32) == np.where(lanes % 2, 100, 200) + lanes).all()
    assert (run.array(1, 32) == 0xFFFFFFFF).all()


def test_loops_of_different_lengths() -> None:
    text = kernel(
        """
    mov.b32 %r10, 0;
    mov.b32 %r11, 0;
$LOOP:
    add.s32 %r11, %r11, %r10;
    add.s32 %r10, %r10, 1;
    setp.le.s32 %p1, %r10, %r4;
    @%p1 bra $LOOP;
    add.s64 %rd3, %rd1, %rd30;
    st.global.b32 [%rd3], %r11;
    """,
        parameters=1,
    )
    run = Run(text, [4 * 96], blocks=2, threads=48)
    n = np.arange(96)
    assert (run.array(0, 96) == n * (n + 1) // 2).all()


def test_nested_loops_with_exits() -> None:
    text = kernel(
        """
    mov.b32 %r10, 0;
    mov.b32 %r12, 0;
$OUTER:
    mov.b32 %r11, 0;
$INNER:
    add.s32 %r12, %r12, 1;
    setp.gt.s32 %p2, %r12, 20;
    @%p2 bra $OUT;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p1, %r11, %r1;
    @%p1 bra $INNER;
    add.s32 %r10, %r10, 1;
    setp.lt.s32 %p1, %r10, 5;
    @%p1 bra $OUTER;
$OUT:
    add.s64 %rd3, %rd1, %rd30;
    st.global.b32 [%rd3], %r12;
    """,
        parameters=1,
    )
    run = Run(text, [128])
    assert run.array(0, 32).tolist() == [min(21, 5 * max(1, n)) for n in range(32)]


def test_instructions_with_guards() -> None:
    text = kernel("""
    setp.lt.u32 %p1, %r1, 8;
    mov.b32 %r10, 1;
    @%p1 mov.b32 %r10, 2;
    add.s64 %rd3, %rd1, %rd30;
    @!%p1 ld.global.b32 %r10, [%rd3];
    add.s64 %rd4, %rd2, %rd30;
    @%p1 st.global.b32 [%rd4], %r10;
    @%p1 ret;
    st.global.b32 [%rd4], %r10;
    """)
    run = Run(text, [np.arange(32, dtype=np.uint32), 128])
    assert run.array(1, 32).tolist() == [*[2] * 8, *range(8, 32)]


def test_branches_by_tables() -> None:
    text = kernel(
        """
    and.b32 %r10, %r1, 3;
    $TABLE: .branchtargets $A, $B, $C, $B;
    brx.idx %r10, $TABLE;
$A:
    mov.b32 %r11, 10;
    bra.uni $JOIN;
$B:
    mov.b32 %r11, 20;
    bra.uni $JOIN;
$C:
    mov.b32 %r11, 30;
$JOIN:
    add.s64 %rd3, %rd1, %rd30;
    st.global.b32 [%rd3], %r11;
    """,
        parameters=1,
    )
    assert Run(text, [128]).array(0, 32).tolist() == [10, 20, 30, 20] * 8


def test_threads_that_are_done_are_not_waited_for() -> None:
    text = kernel(
        """
    setp.ge.u32 %p1, %r1, 40;
    @%p1 ret;
    bar.sync 0;
    add.s64 %rd3, %rd1, %rd30;
    st.global.b32 [%rd3], %r1;
    """,
        parameters=1,
    )
    assert (Run(text, [160], threads=64).array(0, 40) == np.arange(40)).all()


def test_barriers_in_loops_of_a_block() -> None:
    # Blocks take a different number of turns.
    text = kernel(
        """
    mov.b32 %r10, 0;
    add.s64 %rd3, %rd1, %rd30;
$LOOP:
    bar.sync 0;
    add.s32 %r10, %r10, 1;
    setp.le.u32 %p1, %r10, %r2;
    @%p1 bra $LOOP;
    st.global.b32 [%rd3], %r10;
    """,
        parameters=1,
    )
    run = Run(text, [4 * 192], blocks=3, threads=64)
    assert (run.array(0, 192) == np.repeat([1, 2, 3], 64)).all()


def test_divergent_barriers() -> None:
    text = kernel(
        """
    setp.ge.u32 %p1, %r1, 40;
    @%p1 bra $OTHER;
    bar.sync 0;
    bra.uni $JOIN;
$OTHER:
    bar.sync 0;
$JOIN:
    """,
        parameters=0,
    )
    found = problem(text, [], threads=64)
    assert found.startswith("gpu-divergent-barrier: waits at a barrier while thread 40 of the ")
    assert "block 0, thread 0 and 39 more" in found


def test_barriers_of_some_threads() -> None:
    # The first 64 of 96 threads meet at a barrier of their own.
    text = kernel("""
    mov.b64 %rd5, tile;
    mul.wide.u32 %rd6, %r1, 4;
    add.s64 %rd6, %rd5, %rd6;
    setp.ge.u32 %p1, %r1, 64;
    @%p1 bra $JOIN;
    st.shared.b32 [%rd6], %r1;
    bar.sync 1, 64;
    xor.b32 %r10, %r1, 63;
    mul.wide.u32 %rd7, %r10, 4;
    add.s64 %rd7, %rd5, %rd7;
    ld.shared.b32 %r11, [%rd7];
    add.s64 %rd3, %rd1, %rd30;
    st.global.b32 [%rd3], %r11;
$JOIN:
    bar.sync 0;
    """, parameters=1, shared=".shared .align 4 .b8 tile[256];")  # fmt: skip
    run = Run(text, [256], threads=96)
    assert (run.array(0, 64) == 63 - np.arange(64)).all()


def test_barriers_of_more_threads_than_there_are() -> None:
    text = kernel("bar.sync 1, 64;", parameters=0)
    Run(text, [], threads=64)
    found = problem(text, [], threads=32)
    assert found.startswith(
        "gpu-divergent-barrier: waits at a barrier for 64 threads, but only 32 are there"
    )


def test_endless_loops() -> None:
    text = kernel(
        """
    mov.u32 %r10, 0;
$LOOP:
    add.s32 %r10, %r10, 2;
    setp.ne.s32 %p1, %r10, 5;
    @%p1 bra $LOOP;
    """,
        parameters=0,
    )
    found = problem(text, [])
    assert found.startswith("gpu-endless-loop: still runs after 100000 instructions: kernel k")


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ({"blocks": 0}, "0 blocks"), ({"threads": 0}, "0 threads a block, at most 1024"),
        ({"threads": 1025}, "1025 threads"), ({"shared_bytes": 1 << 18}, "262144 bytes of shared"),
    ],
)  # fmt: skip
def test_launches_that_no_gpu_accepts(launch: dict[str, int], said: str) -> None:
    assert problem(kernel("", parameters=0), [], **launch).startswith(
        f"bad-launch: kernel k: {said}"
    )


def test_each_parameter_has_a_value() -> None:
    found = problem(kernel("", parameters=2), [4])
    assert found == "bad-launch: kernel k: 1 parameters for 2"


def test_traps() -> None:
    text = kernel(
        """
    setp.eq.u32 %p1, %r1, 5;
    @!%p1 bra $FINE;
    trap;
$FINE:
    """,
        parameters=0,
    )
    assert "gpu-trap: reaches a trap: kernel k" in problem(text, [])


def test_lanes_that_exchange_values() -> None:
    text = kernel(
        """
    shfl.sync.bfly.b32 %r10, %r1, 1, 31, -1;
    add.s64 %rd3, %rd1, %rd30;
    st.global.b32 [%rd3], %r10;
    """,
        parameters=1,
    )
    assert (Run(text, [256], threads=64).array(0, 64) == (np.arange(64) ^ 1)).all()


def test_exchange_with_lanes_that_are_elsewhere() -> None:
    text = kernel(
        """
    setp.ge.u32 %p1, %r1, 16;
    @%p1 bra $JOIN;
    shfl.sync.bfly.b32 %r10, %r1, 1, 31, -1;
$JOIN:
    """,
        parameters=0,
    )
    found = problem(text, [])
    assert found.startswith("gpu-inactive-lane: is named by other lanes of its warp")
    assert "thread 16 and 15 more" in found


def test_exchange_of_the_lanes_that_are_there() -> None:
    text = kernel(
        """
    setp.ge.u32 %p1, %r1, 16;
    @%p1 bra $JOIN;
    shfl.sync.bfly.b32 %r10, %r1, 1, 31, 65535;
    add.s64 %rd3, %rd1, %rd30;
    st.global.b32 [%rd3], %r10;
$JOIN:
    """,
        parameters=1,
    )
    assert (Run(text, [64]).array(0, 16) == (np.arange(16) ^ 1)).all()
