"""Traces: values by instruction, iteration and device, their statistics, and their files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.debug.trace.record import Trace
from hlo.debug.trace.selection import Selection
from hlo.debug.trace.statistics import Statistics, merged, statistics_of

BACKENDS = ("reference", "compiled")
LOOP = """HloModule m
cond { p = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(TRIPS) ROOT go = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[2] get-tuple-element(p), index=1 one = s32[] constant(1)
  j = s32[] add(i, one) y = f32[2] add(x, x), metadata={op_name="jit(f)/add"}
  ROOT t = (s32[], f32[2]) tuple(j, y) }
ENTRY e { x = f32[2] parameter(0) zero = s32[] constant(0)
  t = (s32[], f32[2]) tuple(zero, x) w = (s32[], f32[2]) while(t), condition=cond, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1 }
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("passes", ["", "default"])
def test_iterations(backend: str, passes: str) -> None:
    module = hlo.parse(LOOP.replace("TRIPS", "3"))
    trace = hlo.trace(module, [1, -3], backend=backend, passes=passes, select=["opcode=add"])
    found = [(v.path, v.statistics.min, v.statistics.max) for v in trace.of("y")]
    assert found == [("w[0]/y", -6, 2), ("w[1]/y", -12, 4), ("w[2]/y", -24, 8)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_order_and_conditions(backend: str) -> None:
    module = hlo.parse(LOOP.replace("TRIPS", "1"))
    trace = hlo.trace(module, [1, 1], backend=backend, passes="", select=["computation=*"])
    assert [v.path for v in trace.values] == [
        "x", "w[0]/go", "w[0]/j", "w[0]/y", "w[1]/go", "w.0", "w.1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (["y"], ["y"]),
        (["y,j"], ["j", "y"]),
        (["opcode=add", "op_name=*add"], ["y"]),
        (["computation=cond", "opcode=compare"], ["go", "go"]),
        (["opcode=add", "iteration=5"], []),
        (["opcode=constant"], ["zero", "n", "one", "n"]),
    ],
)
def test_selection(select: list[str], expected: list[str]) -> None:
    module = hlo.parse(LOOP.replace("TRIPS", "1"))
    trace = hlo.trace(module, [1, 1], backend="reference", select=select)
    assert [v.instruction for v in trace.values] == expected


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("iteration=3", [3], [2, 4]), ("iteration=3:5", [3, 4], [2, 5]), ("iteration=:2", [0], [2]),
     ("iteration=7:", [7, 99], [6])],
)  # fmt: skip
def test_iteration_ranges(text: str, first: list[int], last: list[int]) -> None:
    selection = Selection.of([text])
    assert all(selection.takes_iteration(n) for n in [None, *first])
    assert not any(selection.takes_iteration(n) for n in last)


@pytest.mark.parametrize("text", ["iteration=x", "iteration=", "opcod=add"])
def test_bad_selection(text: str) -> None:
    with pytest.raises(hlo.HloError) as error:
        Selection.of([text])
    assert error.value.code == "bad-selection"


def test_long_loops_take_bounded_memory() -> None:
    module = hlo.parse(LOOP.replace("TRIPS", "1000"))
    trace = hlo.trace(module, [0, 1e-300], backend="compiled", select=["j"])
    assert len(trace.values) <= 128 and sum(v.executions for v in trace.values) == 1000
    assert trace.values[0].path == "w[0..7]/j" and trace.values[0].statistics.max == 8
    assert "put together" in trace.notes[0]


def test_file(tmp_path: Path) -> None:
    text = """HloModule m ENTRY e { x = f32[2] parameter(0) b = bf16[2] convert(x)
      i = s4[2] convert(x) c = c64[2] complex(x, x) p = pred[2] is-finite(x)
      f = f8e4m3fn[2] convert(x) ROOT t = (bf16[2], s4[2], c64[2], pred[2], f8e4m3fn[2])
        tuple(b, i, c, p, f) }"""
    trace = hlo.trace(hlo.parse(text), [1, -2.5], arrays=True)
    trace.save(tmp_path / "t.npz")
    again = Trace.load(tmp_path / "t.npz")
    assert again.values == trace.values and len(again.values) >= 5
    for a, b in zip(trace.values, again.values, strict=True):
        assert a.array is not None and b.array is not None and a.array.dtype == b.array.dtype
        np.testing.assert_array_equal(a.array, b.array)
    np.savez(tmp_path / "other.npz", x=np.ones(2))
    with pytest.raises(hlo.HloError, match="is not a trace: it has no array"):
        Trace.load(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32([1, -2, 0, np.nan, np.inf, 1e-40]), Statistics(6, -2, 1, -0.25, 1, 1, 1, 1)),
        (np.zeros(0, np.float32), Statistics(0)),
        (np.float32([np.nan]), Statistics(1, None, None, None, 1)),
        (np.array([True, False]), Statistics(2, 0, 1, 0.5, zeros=1)),
        (np.array([-8, 7], ml_dtypes.int4), Statistics(2, -8, 7, -0.5)),
        (np.array([200, 100], np.uint8), Statistics(2, 100, 200, 150.0)),
        (np.array([-0.0, 2**-7], ml_dtypes.float8_e4m3fn),
         Statistics(2, 0, 2**-7, 2**-8, zeros=1, denormals=1)),
        (np.complex64([complex(1, np.inf)]), Statistics(1, 1, 1, 1, 0, 1)),
        (np.array(2 - 3j), Statistics(1, -3, 2, -0.5)),
    ],
)  # fmt: skip
def test_statistics(value: np.ndarray, expected: Statistics) -> None:
    assert statistics_of(value) == expected


def test_merged_statistics() -> None:
    parts = [np.float32([1, 2, np.nan]), np.float32([np.inf]), np.float32([6])]
    whole = statistics_of(np.concatenate(parts))
    assert merged([statistics_of(p) for p in parts]) == whole


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("z0", "z0: no instruction has such a name"),
        ("dead", "dead: the passes leave no instruction of such a name; --passes '' shows it"),
        ("c", "c: sum is applied to elements: such functions are not looked into"),
        ("never", "never: it did not run, or has no array"),
    ],
)
def test_why_a_name_is_not_shown(name: str, note: str) -> None:
    text = """HloModule m
      sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
      yes { p = f32[4] parameter(0) ROOT never = f32[4] tanh(p) }
      no { q = f32[4] parameter(0) ROOT always = f32[4] negate(q) }
      ENTRY e { x = f32[4] parameter(0) i = s32[] parameter(1) z = f32[] constant(0)
        dead = f32[4] exponential(x)
        d = f32[4] conditional(i, x, x), branch_computations={yes, no}
        ROOT r = f32[] reduce(d, z), dimensions={0}, to_apply=sum }"""
    trace = hlo.trace(hlo.parse(text), [1, 2, 3, 4], 1, select=[name])
    assert not trace.values
    assert [n.split(";")[0] for n in trace.notes] == [note.split(";")[0]]
