"""The SIMT machine: memory that nothing was written to may be loaded, and copied, but not used."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.errors import HloError
from tests.gpu.simt import Run, kernel, problem

_LOAD = """
    add.s64 %rd3, %rd1, %rd30;
    add.s64 %rd4, %rd2, %rd30;
    ld.global.b32 %r10, [%rd3];
"""
_TILE = ".shared .align 16 .b8 tile[1024];"


def test_the_host_gets_no_undefined_values() -> None:
    run = Run(kernel(_LOAD + "st.global.b32 [%rd4], %r10;"), [128, 128])
    with pytest.raises(HloError) as caught:
        run.array(1, 32)
    assert (
        "the host reads memory that nothing was written to: byte 0 of the 128 bytes of array 1"
        in (str(caught.value))
    )


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("cvt.u64.u32 %rd5, %r10; add.s64 %rd5, %rd2, %rd5; st.global.b32 [%rd5], 0;",
         "accesses memory by a value"),
        ("setp.eq.s32 %p1, %r10, 7; @%p1 bra $NEXT; mov.b32 %r11, 1;\n$NEXT:",
         "branches by a value"),
        ("setp.eq.s32 %p1, %r10, 7; @%p1 st.global.b32 [%rd4], 0;", "accesses memory by a value"),
        ("red.global.add.u32 [%rd4], %r10;", "accesses memory by a value"),
        ("shfl.sync.bfly.b32 %r10, %r10, 1, 31, -1; setp.eq.s32 %p1, %r10, 7; @%p1 ret;",
         "branches by a value"),
    ],
)  # fmt: skip
def test_uses(use: str, said: str) -> None:
    found = problem(kernel(_LOAD + use), [128, np.zeros(32, np.uint32)])
    assert found.startswith(f"gpu-uninitialized: {said} of memory that nothing was written to")
    assert "(loaded in PTX line" in found
    assert "block 0, thread 0 and 31 more" in found


@pytest.mark.parametrize(
    "discard",
    [
        "mov.pred %p1, 0; selp.b32 %r10, %r10, 5, %p1;",
        "mov.b32 %r12, 0; and.b32 %r10, %r10, %r12;",
        "setp.eq.s32 %p1, %r10, 7; setp.eq.s32 %p2, 1, 2; and.pred %p1, %p1, %p2;"
        "selp.b32 %r10, 1, 2, %p1;",
        "setp.eq.s32 %p1, %r10, 7; setp.eq.s32 %p2, 1, 1; or.pred %p1, %p1, %p2;"
        "selp.b32 %r10, 1, 2, %p1;",
        "mov.b32 %r10, 9;",
        "setp.eq.s32 %p1, 1, 1; @%p1 mov.b32 %r10, 9;",
        "add.s32 %r12, %r10, 1; mov.b32 %r10, 3;",
    ],
)  # fmt: skip
def test_values_that_are_discarded(discard: str) -> None:
    run = Run(kernel(f"{_LOAD}{discard}\nst.global.b32 [%rd4], %r10;"), [128, 128])
    assert len({*run.array(1, 32).tolist()}) == 1


def test_only_the_lanes_that_load_have_undefined_values() -> None:
    text = kernel("""
    add.s64 %rd3, %rd1, %rd30;
    add.s64 %rd4, %rd2, %rd30;
    mov.b32 %r10, 4;
    setp.ge.u32 %p1, %r1, 16;
    @%p1 bra $NEXT;
    ld.global.b32 %r10, [%rd3];
$NEXT:
    setp.lt.u32 %p2, %r1, 16;
    @%p2 ret;
    st.global.b32 [%rd4], %r10;
    """)
    run = Run(text, [64, 128])
    data = np.empty(64, np.uint8)
    run.device.read(run.addresses[1] + 64, data)
    assert (data.view(np.uint32) == 4).all()


def test_values_move_between_lanes() -> None:
    # Lane 0 has an undefined value; lane 1 gets it, and discards it.
    text = kernel("""
    add.s64 %rd4, %rd2, %rd30;
    mov.b32 %r10, %r1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $NEXT;
    ld.global.b32 %r10, [%rd1];
$NEXT:
    shfl.sync.up.b32 %r10, %r10, 1, 0, -1;
    setp.le.u32 %p2, %r1, 1;
    selp.b32 %r10, 0, %r10, %p2;
    st.global.b32 [%rd4], %r10;
    """)
    assert Run(text, [4, 128]).array(1, 32).tolist() == [0, 0, *range(1, 31)]


def test_shared_memory() -> None:
    text = kernel("""
    mov.b64 %rd5, tile;
    ld.shared.v2.b32 {%r10, %r11}, [%rd5];
    setp.eq.s32 %p1, %r11, 0;
    @%p1 ret;
    """, parameters=0, shared=_TILE)  # fmt: skip
    assert problem(text, []).startswith("gpu-uninitialized: branches by a value of memory")


@pytest.mark.parametrize("written", [16, 12])
def test_asynchronous_copies_move_what_is_undefined(written: int) -> None:
    text = kernel(f"""
    mov.b64 %rd5, tile;
    mul.wide.u32 %rd6, %r1, 16;
    add.s64 %rd7, %rd5, %rd6;
    add.s64 %rd8, %rd1, %rd6;
    st.global.b64 [%rd8], %rd6;
    st.global.b32 [%rd8+8], %r1;
    {"st.global.b32 [%rd8+12], %r1;" if written == 16 else ""}
    cp.async.cg.shared.global [%rd7], [%rd8], 16;
    cp.async.wait_all;
    ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd7];
    setp.eq.s32 %p1, %r12, 1;
    @%p1 ret;
    setp.eq.s32 %p1, %r13, 1;
    @%p1 ret;
    """, parameters=1, shared=_TILE)  # fmt: skip
    if written == 16:
        Run(text, [512])
    else:
        found = problem(text, [512])
        assert found.startswith("gpu-uninitialized: branches by a value of memory")
        assert "(loaded in PTX line" in found


@pytest.mark.parametrize(
    ("take", "is_fine"),
    [
        ("mov.b32 {%h1, %h2}, %r11; cvt.u32.u16 %r12, %h1;", True),
        ("mov.b32 {%h1, %h2}, %r11; cvt.u32.u16 %r12, %h2;", False),
        ("shl.b32 %r12, %r11, 16;", True),
        ("shr.u32 %r12, %r11, 16;", False),
        ("and.b32 %r12, %r11, 65535;", True),
        ("or.b32 %r12, %r11, 0xffff0000;", True),
        ("or.b32 %r12, %r11, 0xfff00000;", False),
        ("prmt.b32 %r12, %r11, 0, 0x4110;", True),
        ("prmt.b32 %r12, %r11, 0, 0x4310;", False),
        ("cvt.u16.u32 %h1, %r11; cvt.s32.s16 %r12, %h1;", True),
        ("add.s32 %r12, %r11, 1;", False),
        (
            "mul.lo.s32 %r12, %r11, 5; sub.s32 %r12, %r12, %r11; cvt.u16.u32 %h1, %r12;"
            "cvt.u32.u16 %r12, %h1;",
            True,
        ),
        ("shl.b32 %r12, %r11, 1; add.s32 %r12, %r12, 3; shr.u32 %r12, %r12, 16;", False),
        ("mul.hi.u32 %r12, %r11, 5; and.b32 %r12, %r12, 1;", False),
        ("st.global.b32 [%rd2], %r11; ld.global.u16 %r12, [%rd2];", True),
        ("st.global.b32 [%rd2], %r11; ld.global.u16 %r12, [%rd2+2];", False),
    ],
)
def test_each_bit_is_followed(take: str, is_fine: bool) -> None:
    # The third word has 2 of its 4 bytes.
    text = kernel(f"""
    ld.global.v4.b32 {{%r9, %r10, %r11, %r13}}, [%rd1];
    {take}
    setp.eq.s32 %p1, %r12, 1;
    @%p1 ret;
    """)
    arrays = [np.zeros(10, np.uint8), np.zeros(4, np.uint8)]
    if is_fine:
        Run(text, arrays, threads=1)
    else:
        assert problem(text, arrays, threads=1).startswith("gpu-uninitialized: branches by")


def test_registers_that_nothing_was_written_to() -> None:
    # Of 32 threads, one writes to %r11 before all branch by it.
    text = kernel(
        """
        setp.eq.u32 %p1, %r1, 0;
        @%p1 mov.u32 %r11, 1;
        setp.eq.u32 %p2, %r11, 1;
        @%p2 bra $DONE;
    $DONE:
        """,
        parameters=0,
    )
    found = problem(text, [])
    said = "gpu-uninitialized: branches by a register that nothing was written to: kernel k"
    assert found.startswith(said) and found.endswith("block 0, thread 1 and 30 more")
    # With the other lanes' value, in whichever order, nothing is wrong.
    Run(text.replace("@%p1 mov", "@!%p1 mov.u32 %r11, 2;\n@%p1 mov"), [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mov.u32 %q1, 5;", "%q1 is neither a declared"),
        ("bar.sync 16;", "a barrier has a number from 0 to 15"),
        ("bar.sync %r1;", "a barrier has a number from 0 to 15"),
        ("bar.sync 1, 33;", "a multiple of 32"),
    ],
)
def test_registers_and_barriers_that_are_not_there(line: str, said: str) -> None:
    with pytest.raises(HloError, match=said):
        Run(kernel(line, parameters=0), [])
