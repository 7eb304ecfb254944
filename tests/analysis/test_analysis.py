"""What computations cost, and what they hold."""

from __future__ import annotations

import pytest

import hlo
from hlo.analysis.cost import cost_of
from hlo.analysis.memory import peak_memory

FUSED = """HloModule m
inside {
  x = f32[100,4] parameter(0)
  y = f32[4] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  row = f32[1,4] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,4}
  rows = f32[1,4] reshape(y)
  sum = f32[1,4] add(row, rows)
  ROOT r = f32[100,4] dynamic-update-slice(x, sum, i, zero)
}
ENTRY e {
  x = f32[100,4] parameter(0)
  y = f32[4] parameter(1)
  i = s32[] parameter(2)
  ROOT r = f32[100,4] fusion(x, y, i), kind=kLoop, calls=inside
}
"""
MOVED = """HloModule m
ENTRY e {{
  x = f32[2,3,4]{before} parameter(0)
  n = f32[2,3,4]{before} negate(x)
  ROOT r = {after} {move}
}}
"""


def test_a_fusion_reads_and_writes_what_is_read_and_written_inside() -> None:
    # A row of x, y, i and the row that is written.
    assert cost_of(hlo.parse(FUSED).entry).bytes == 16 + 16 + 4 + 16


@pytest.mark.parametrize(
    ("before", "after", "move", "is_free"),
    [
        ("{2,1,0}", "f32[6,4]{1,0}", "reshape(n)", True),
        ("{2,1,0}", "f32[6,4]{0,1}", "reshape(n)", False),
        ("{0,2,1}", "f32[3,4,2]{2,1,0}", "transpose(n), dimensions={1,2,0}", True),
        ("{2,1,0}", "f32[3,4,2]{2,1,0}", "transpose(n), dimensions={1,2,0}", False),
        ("{2,1,0}", "f32[24]{0}", "bitcast(n)", True),
        ("{2,1,0}", "f32[2,3,4]{2,1,0}", "copy(n)", False),
        ("{2,1,0:S(5)}", "f32[6,4]{1,0}", "reshape(n)", False),
    ],
)
def test_what_moves_no_element_takes_nothing(
    before: str, after: str, move: str, is_free: bool
) -> None:
    entry = hlo.parse(MOVED.format(before=before, after=after, move=move)).entry
    size = 96
    assert cost_of(entry).bytes == (2 if is_free else 4) * size
    assert peak_memory(entry).bytes == (2 if is_free else 3) * size


def test_a_sparse_kernel_costs_what_its_values_cost() -> None:
    text = """HloModule sparse
ENTRY e { a = f32[2,4] parameter(0)  b = f32[2,3] parameter(1)  c = s32[2,3] parameter(2)
  k = (f32[2,3], s32[2,3]) tuple(b, c)
  ROOT r = f32[2,3] convolution(a, k), dim_labels=bf_io->bf,
    sparsity_config={rhs={sparsity=1x2 dimension=0 stride=1}} }
"""
    assert cost_of(hlo.parse(text).entry).operations == 2 * 2 * 2 * 3


def test_an_array_without_a_size_counts_as_nothing() -> None:
    text = "ENTRY e { a = f32[?,6] parameter(0)  b = f32[2] parameter(1)  ROOT t = tuple(a, b) }"
    assert peak_memory(hlo.parse(text).entry).bytes == 8
