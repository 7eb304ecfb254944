"""The SIMT machine: races, atomic updates and asynchronous copies."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.gpu.simt import SimtDevice
from tests.gpu.simt import Run, kernel, problem

TILE = ".shared .align 16 .b8 tile[1024];"
# The thread's element of the tile is at %rd6, that of the thread with the next number at %rd7.
_OWN = """
    mov.b64 %rd5, tile;
    mul.wide.u32 %rd6, %r1, 4;
    add.s64 %rd6, %rd5, %rd6;
    add.s32 %r10, %r1, 1;
    and.b32 %r10, %r10, 63;
    mul.wide.u32 %rd7, %r10, 4;
    add.s64 %rd7, %rd5, %rd7;
"""


def shared_kernel(body: str, parameters: int = 0) -> str:
    return kernel(_OWN + body, parameters, TILE)


def test_reads_of_what_another_thread_writes_need_a_barrier() -> None:
    body = "st.shared.b32 [%rd6], %r1;\n{}\nld.shared.b32 %r11, [%rd7];"
    Run(shared_kernel(body.format("bar.sync 0;")), [], threads=64)
    found = problem(shared_kernel(body.format("")), [], threads=64)
    assert found.startswith("gpu-race: reads shared memory that thread 1 of block 0 writes too")
    assert "(ld.shared.b32), block 0, thread 0 and 63 more" in found


def test_writes_of_what_another_thread_reads_need_a_barrier() -> None:
    body = """
    st.shared.b32 [%rd6], %r1;
    bar.sync 0;
    ld.shared.b32 %r11, [%rd7];
    {}
    st.shared.b32 [%rd6], %r11;
    """
    Run(shared_kernel(body.format("bar.sync 0;")), [], threads=64)
    found = problem(shared_kernel(body.format("")), [], threads=64)
    assert found.startswith("gpu-race: writes shared memory that thread 63 of block 0 reads too")


def test_a_read_by_the_writer_hides_no_other_reader() -> None:
    body = """
    st.shared.b32 [%rd6], %r1;
    bar.sync 0;
    ld.shared.b32 %r11, [%rd7];
    ld.shared.b32 %r12, [%rd6];
    st.shared.b32 [%rd6], %r11;
    """
    assert problem(shared_kernel(body), [], threads=64).startswith("gpu-race: writes shared memory")


def test_equal_values_from_several_threads_are_a_race() -> None:
    found = problem(shared_kernel("st.shared.b32 [%rd5], 1;"), [], threads=64)
    assert found.startswith("gpu-race: writes shared memory that thread 63 of block 0 writes too")


def test_one_thread_may_do_as_it_likes() -> None:
    body = """
    st.shared.b32 [%rd6], %r1;
    ld.shared.b32 %r11, [%rd6];
    st.shared.b32 [%rd6], %r11;
    st.shared.b32 [%rd6], %r1;
    """
    Run(shared_kernel(body), [], threads=64)


def test_bytes_beside_each_other_are_no_race() -> None:
    text = kernel(
        """
    cvt.u64.u32 %rd5, %r4;
    add.s64 %rd3, %rd1, %rd5;
    st.global.b8 [%rd3], %r1;
    ld.global.u8 %r10, [%rd3];
    """,
        parameters=1,
    )
    run = Run(text, [128], blocks=4)
    assert (run.array(0, 128, np.uint8) == np.tile(np.arange(32), 4)).all()


def test_blocks_race_in_spite_of_barriers() -> None:
    text = kernel(
        """
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd3, %rd1, %rd5;
    bar.sync 0;
    st.global.b32 [%rd3], %r1;
    """,
        parameters=1,
    )
    Run(text, [128])
    found = problem(text, [128], blocks=2)
    assert found.startswith("gpu-race: writes global memory that thread 0 of block 1 writes too")
    # Also when they do not run together.
    assert problem(text, [4096], blocks=40, threads=1024).startswith("gpu-race: writes global")


@pytest.mark.parametrize("blocks", [2, 40])
def test_blocks_that_read_what_another_writes(blocks: int) -> None:
    text = kernel(
        """
    ld.global.b32 %r10, [%rd1];
    setp.ne.u32 %p1, %r2, 1;
    @%p1 ret;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 ret;
    st.global.b32 [%rd1], 5;
    """,
        parameters=1,
    )
    found = problem(text, [np.zeros(1, np.uint32)], blocks=blocks, threads=1024)
    assert found.startswith(("gpu-race: writes global memory", "gpu-race: reads global memory"))


def test_barriers_order_global_memory_within_a_block() -> None:
    text = kernel(
        """
    add.s64 %rd3, %rd1, %rd30;
    xor.b64 %rd4, %rd3, 4;
    st.global.b32 [%rd3], %r1;
    bar.sync 0;
    ld.global.b32 %r10, [%rd4];
    """,
        parameters=1,
    )
    Run(text, [512], blocks=2, threads=64)
    found = problem(text.replace("bar.sync 0;", ""), [512], blocks=2, threads=64)
    assert found.startswith("gpu-race: reads global memory that thread 1 of block 0 writes too")


def test_launches_do_not_race_with_each_other() -> None:
    text = kernel(
        """
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd3, %rd1, %rd5;
    st.global.b32 [%rd3], %r1;
    """,
        parameters=1,
    )
    run = Run(text, [128])
    code = run.device.load(text)
    address = run.device.allocate(128)
    for _ in range(3):
        run.device.launch(code, "k", 1, 32, 0, [address])


# --- atomic updates ---------------------------------------------------------------------------


def test_atomic_updates_are_done_one_after_the_other() -> None:
    text = kernel("""
    atom.global.add.u32 %r10, [%rd1], 2;
    add.s64 %rd3, %rd2, %rd30;
    st.global.b32 [%rd3], %r10;
    red.global.max.s32 [%rd1+4], %r4;
    atom.global.inc.u32 %r11, [%rd1+8], 9;
    """)
    run = Run(text, [np.array([5, 0, 0], np.uint32), 384], blocks=3)
    assert run.array(0, 3).tolist() == [5 + 2 * 96, 95, 96 % 10]
    assert (run.array(1, 96) == 5 + 2 * np.arange(96)).all()


def test_compare_and_swap() -> None:
    # Each thread multiplies by 3 in a loop until it was not disturbed.
    text = kernel(
        """
    ld.relaxed.gpu.global.b32 %r10, [%rd1];
$LOOP:
    mul.lo.s32 %r11, %r10, 3;
    atom.global.cas.b32 %r12, [%rd1], %r10, %r11;
    setp.ne.s32 %p1, %r12, %r10;
    mov.b32 %r10, %r12;
    @%p1 bra $LOOP;
    """,
        parameters=1,
    )
    run = Run(text, [np.array([1], np.uint32)], threads=16)
    assert run.array(0, 1)[0] == 3**16 % (1 << 32)


def test_atomic_and_other_writes_are_a_race() -> None:
    text = kernel(
        """
    red.global.add.u32 [%rd1], 1;
    setp.ne.u32 %p1, %r4, 40;
    @%p1 ret;
    st.global.b32 [%rd1], 5;
    """,
        parameters=1,
    )
    found = problem(text, [np.zeros(1, np.uint32)], blocks=2)
    assert found.startswith("gpu-race: writes global memory that thread 31 of block 1 updates too")


def test_sums_that_depend_on_the_order_of_threads() -> None:
    text = kernel("red.global.add.f32 [%rd1], 0f3F800000;", parameters=1)
    Run(text, [np.zeros(1, np.float32)], threads=1)
    found = problem(text, [np.zeros(1, np.float32)], threads=2)
    assert found.startswith("gpu-unordered-sum: adds a floating-point number where thread ")


# --- what blocks tell each other --------------------------------------------------------------

# Each block writes 64 numbers, and the last one adds up those of all blocks.
_LAST_BLOCK = """
    add.s64 %rd3, %rd1, %rd30;
    st.global.b32 [%rd3], 1;
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $TOLD;
    fence.acq_rel.gpu;
    atom.global.inc.u32 %r10, [%rd2], 2;
    fence.acq_rel.gpu;
    st.shared.b32 [tile], %r10;
$TOLD:
    bar.sync 0;
    ld.shared.b32 %r10, [tile];
    setp.ne.u32 %p1, %r10, 2;
    @%p1 ret;
    shl.b32 %r11, %r1, 2;
    cvt.u64.u32 %rd5, %r11;
    add.s64 %rd3, %rd1, %rd5;
    ld.global.b32 %r12, [%rd3];
    ld.global.b32 %r13, [%rd3+256];
    ld.global.b32 %r14, [%rd3+512];
    add.s32 %r12, %r12, %r13;
    add.s32 %r12, %r12, %r14;
    add.s64 %rd4, %rd2, %rd5;
    st.global.b32 [%rd4+4], %r12;
"""


def last_block(*changes: tuple[str, str]) -> Run:
    body = _LAST_BLOCK
    for old, new in changes:
        assert old in body
        body = body.replace(old, new, 1)
    arrays = [768, np.zeros(65, np.uint32)]
    return Run(kernel(body, shared=TILE), arrays, blocks=3, threads=64)


_FENCE, _COUNT = "    fence.acq_rel.gpu;\n", "    atom.global.inc.u32"
_FORMS = {
    "fences": [],
    "membar": [("fence.acq_rel.gpu", "membar.gl"), ("fence.acq_rel.gpu", "membar.gl")],
    "sequential": [("fence.acq_rel.gpu", "fence.sc.sys")],
    "release": [(_FENCE + _COUNT, "    atom.release.gpu.global.inc.u32")],
    "both": [
        (_FENCE + _COUNT, "    atom.acq_rel.gpu.global.inc.u32"), (_FENCE, ""),
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", _FORMS)
def test_the_last_block_sees_what_all_have_released(form: str) -> None:
    run = last_block(*_FORMS[form])
    assert run.array(1, 65).tolist() == [0] + 64 * [3]


_LACKS = {
    "release": [(_FENCE + _COUNT, _COUNT)],
    "acquire": [("], 2;\n" + _FENCE, "], 2;\n")],
    "barrier before": [("    bar.sync 0;\n    setp", "    setp")],
    "barrier after": [("$TOLD:\n    bar.sync 0;", "$TOLD:")],
    "release for the device": [("fence.acq_rel.gpu", "fence.acq_rel.cta")],
    "count for the device": [("atom.global", "atom.relaxed.cta.global")],
    "order of both": [(_FENCE + _COUNT, "    atom.relaxed.gpu.global.inc.u32")],
    "release with the count": [(_FENCE + _COUNT, "    atom.acquire.gpu.global.inc.u32")],
    "being last": [("@%p1 ret;", "")],
}


@pytest.mark.parametrize("lacks", _LACKS)
def test_what_the_last_block_needs(lacks: str) -> None:
    with pytest.raises(HloError) as caught:
        last_block(*_LACKS[lacks])
    assert caught.value.code == "gpu-race"


def test_what_is_written_after_a_release_is_not_released() -> None:
    late = "    add.s64 %rd3, %rd1, %rd30;\n    st.global.b32 [%rd3], 1;\n"
    with pytest.raises(HloError) as caught:
        last_block((late, ""), ("$TOLD:\n", "$TOLD:\n" + late))
    assert caught.value.code == "gpu-race"


def test_orders_of_blocks() -> None:
    text = kernel("atom.global.add.u32 %r10, [%rd1], 1;\nst.global.b32 [%rd1+4], %r2;\n", 1)
    device = SimtDevice(checks=False, order=lambda count: np.arange(count)[::-1])
    run = Run(text, [np.zeros(2, np.uint32)], blocks=5, threads=1, device=device)
    assert run.array(0, 2).tolist() == [5, 0]


# --- asynchronous copies ----------------------------------------------------------------------

_COPIES = """
    mul.wide.u32 %rd8, %r1, 16;
    add.s64 %rd9, %rd5, %rd8;
    add.s64 %rd3, %rd1, %rd8;
    cp.async.cg.shared.global [%rd9], [%rd3], 16{size};
    cp.async.commit_group;
    {wait}
    ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd9];
    add.s64 %rd4, %rd2, %rd8;
    st.global.v4.b32 [%rd4], {{%r10, %r11, %r12, %r13}};
"""


def copies(wait: str, size: str = "") -> str:
    return shared_kernel(_COPIES.format(wait=wait, size=size), 2)


@pytest.mark.parametrize("wait", ["cp.async.wait_group 0;", "cp.async.wait_all;"])
def test_copies_are_there_after_a_wait(wait: str) -> None:
    data = np.arange(128, dtype=np.uint32)
    assert (Run(copies(wait), [data, 512]).array(1, 128) == data).all()


@pytest.mark.parametrize("wait", ["", "cp.async.wait_group 1;", "bar.sync 0;"])
def test_copies_are_not_there_before(wait: str) -> None:
    found = problem(copies(wait), [np.arange(128, dtype=np.uint32), 512])
    assert found.startswith("gpu-unfinished-copy: reads shared memory to which cp.async")


def test_copies_of_nothing_read_nothing() -> None:
    run = Run(copies("cp.async.wait_all;", ", 0"), [4, 512])
    assert not run.array(1, 128).any()


def test_copies_by_other_threads_need_a_barrier() -> None:
    body = """
    mul.wide.u32 %rd8, %r1, 16;
    add.s64 %rd9, %rd5, %rd8;
    add.s64 %rd3, %rd1, %rd8;
    cp.async.cg.shared.global [%rd9], [%rd3], 16;
    cp.async.wait_all;
    {}
    xor.b64 %rd9, %rd9, 16;
    ld.shared.b32 %r10, [%rd9];
    """
    data = np.arange(128, dtype=np.uint32)
    Run(shared_kernel(body.format("bar.sync 0;"), 1), [data])
    found = problem(shared_kernel(body.format(""), 1), [data])
    assert found.startswith("gpu-race: reads shared memory that thread 1 of block 0 writes too")


# --- matrices ---------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_from_shared_memory(transposed: bool) -> None:
    how = ".trans" if transposed else ""
    text = shared_kernel(
        f"""
    mul.wide.u32 %rd8, %r1, 16;
    add.s64 %rd9, %rd5, %rd8;
    add.s64 %rd3, %rd1, %rd8;
    ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd3];
    st.shared.v4.b32 [%rd9], {{%r10, %r11, %r12, %r13}};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x4{how}.shared.b16 {{%r10, %r11, %r12, %r13}}, [%rd9];
    add.s64 %rd4, %rd2, %rd8;
    st.global.v4.b32 [%rd4], {{%r10, %r11, %r12, %r13}};
    """,
        2,
    )
    matrices = np.arange(4 * 64, dtype=np.uint16).reshape(4, 8, 8)
    found = Run(text, [matrices, 512]).array(1, 256, np.uint16).reshape(32, 4, 2)
    expected = matrices.swapaxes(1, 2) if transposed else matrices
    assert (found.swapaxes(0, 1).reshape(4, 8, 8) == expected).all()
