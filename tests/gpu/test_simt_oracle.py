"""The SIMT machine finds exactly the races that a comparison of all pairs of accesses finds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.gpu.simt import SimtDevice
from tests.gpu.simt import Run, kernel

_THREADS, _CELLS = 40, 128
_CODE = {
    "read": "ld.{space}.b32 %r11, [%rd7];",
    "write": "st.{space}.b32 [%rd7], %r1;",
    "update": "red.{space}.add.u32 [%rd7], 1;",
}


class _Access(NamedTuple):
    step: int
    block: int
    thread: int
    cell: int
    does: str
    epoch: int


def _kernel(steps: list[str], space: str) -> str:
    """Return a kernel that accesses in each step the word that a table names, unless that is -1."""
    body = ["mov.b64 %rd5, tile;" if space == "shared" else "mov.b64 %rd5, %rd2;"]
    for number, step in enumerate(steps):
        if step == "barrier":
            body.append("bar.sync 0;")
            continue
        # The table has a row for each step and a column for each thread of the grid.
        body.append(f"""
    mov.u32 %r5, %nctaid.x;
    mul.lo.s32 %r5, %r5, %r3;
    mad.lo.s32 %r6, %r5, {number}, %r4;
    mul.wide.u32 %rd6, %r6, 4;
    add.s64 %rd6, %rd1, %rd6;
    ld.global.b32 %r10, [%rd6];
    setp.lt.s32 %p1, %r10, 0;
    @%p1 bra $NEXT{number};
    mul.wide.u32 %rd7, %r10, 4;
    add.s64 %rd7, %rd5, %rd7;
    {_CODE[step].format(space=space)}
$NEXT{number}:""")
    return kernel("\n".join(body), 2, f".shared .align 16 .b8 tile[{4 * _CELLS}];")


def _accesses(steps: list[str], table: np.ndarray, blocks: int) -> Iterator[_Access]:
    epoch = 0
    for number, step in enumerate(steps):
        epoch += step == "barrier"
        for thread, cell in enumerate(table[number]):
            if step != "barrier" and cell >= 0:
                block = thread // _THREADS
                yield _Access(number, block, thread, int(cell), step, epoch)


def _races(one: _Access, other: _Access, is_shared: bool) -> bool:
    if one.cell != other.cell or one.thread == other.thread:
        return False
    if one.does == other.does and one.does in ("read", "update"):
        return False
    if one.block != other.block:
        return not is_shared
    return one.epoch == other.epoch


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("space", ["shared", "global"])
def test_races(space: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Blocks run together, or one after the other.
    monkeypatch.setattr("hlo.gpu.simt.launch._THREADS", (1 << 14) if seed % 2 else 64)
    rng = np.random.default_rng(seed)
    blocks, count = int(rng.integers(1, 4)), int(rng.integers(2, 7))
    steps = [str(x) for x in rng.choice(["read", "write", "update", "barrier"], count)]
    # Few accesses, so that about half of the programs have no race.
    table = rng.integers(0, _CELLS, (count, blocks * _THREADS)).astype(np.int32)
    table[rng.random(table.shape) > rng.choice([0.03, 0.1])] = -1
    accesses = list(_accesses(steps, table, blocks))
    expected = any(_races(a, b, space == "shared") for a, b in combinations(accesses, 2))
    device = SimtDevice()
    shared = 4 * _CELLS
    found = False
    try:
        Run(_kernel(steps, space), [table, np.zeros(shared, np.uint8)], blocks, _THREADS, 0, device)
    except HloError as e:
        codes = {d.code for d in e.diagnostics}
        assert codes <= {"gpu-race", "gpu-uninitialized"}
        found = "gpu-race" in codes
    assert found == expected, steps
