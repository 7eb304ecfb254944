"""Collectives: shapes and attributes, and values where a group is one device."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.eval import Host, interpret
from hlo.frontends.text import parse
from tests.harness.oracle import xla_parse
from tests.harness.run_both import errors, run, run_both

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""


def module(line: str, *, header: str = "", before: str = "") -> str:
    return (
        f"HloModule m{header}\n{ADD}ENTRY e {{\n  x = f32[2,3] parameter(0)\n"
        f"  {before}\n  ROOT r = {line}\n}}\n"
    )


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "f32[2,3] all-reduce(x), replica_groups={}, to_apply=add",
        "f32[2,3] all-reduce(x), replica_groups={{0}}, channel_id=1, use_global_device_ids=true, "
        "to_apply=add",
        "f32[2,3] all-gather(x), replica_groups={{0}}, dimensions={1}",
        "f32[2,3] reduce-scatter(x), replica_groups=[1,1]<=[1], dimensions={1}, to_apply=add",
        "f32[2,3] all-to-all(x), replica_groups={{0}}, dimensions={0}",
        "f32[2,3] collective-permute(x), source_target_pairs={{0,0}}",
    ],
)
def test_a_group_of_one_gets_its_operand(line: str) -> None:
    np.testing.assert_array_equal(run_both(module(line), [X]), X)


def test_a_broadcast_in_a_group_of_one_is_its_operand() -> None:
    # XLA:CPU has no collective-broadcast.
    for line in (
        "f32[2,3] collective-broadcast(x), replica_groups={{0}}",
        "f32[2,3] collective-broadcast(x, root), replica_groups={{0}}, has_dynamic_root=true",
    ):
        before = "root = s32[1] constant({0})"
        np.testing.assert_array_equal(run(module(line, before=before), [X]), X)


def test_several_operands_make_a_tuple() -> None:
    for line in (
        "(f32[2,3], f32[2,3]) all-reduce(x, x), replica_groups={}, to_apply=add",
        "(f32[2,3], f32[2,3]) all-gather(x, x), replica_groups={{0}}, dimensions={0}",
    ):
        first, second = run_both(module(line), [X])
        np.testing.assert_array_equal(first, X)
        np.testing.assert_array_equal(second, X)
    (only,) = run(module("(f32[2,3]) all-to-all(x), replica_groups={{0}}"), [X])
    np.testing.assert_array_equal(only, X)


def test_a_device_that_nobody_sends_to_gets_zeros() -> None:
    got = run(module("f32[2,3] collective-permute(x), source_target_pairs={}"), [X])
    np.testing.assert_array_equal(got, np.zeros_like(X))


@pytest.mark.parametrize(
    ("start", "done"),
    [
        ("f32[2,3] all-reduce-start(x), replica_groups={{0}}, to_apply=add",
         "f32[2,3] all-reduce-done(s)"),
        ("(f32[2,3], f32[2,3]) all-gather-start(x), replica_groups={{0}}, dimensions={0}",
         "f32[2,3] all-gather-done(s)"),
        ("(f32[2,3], f32[2,3], u32[], u32[]) collective-permute-start(x), "
         "source_target_pairs={{0,0}}", "f32[2,3] collective-permute-done(s)"),
    ],
)  # fmt: skip
def test_start_and_done_yield_what_the_plain_operation_does(start: str, done: str) -> None:
    text = module(done, before=f"s = {start}")
    np.testing.assert_array_equal(run(text, [X]), X)
    assert xla_parse(str(parse(text))) == xla_parse(text)


def test_the_starts_of_several_operands_hold_tuples() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  y = s32[4] parameter(1)
  s = ((f32[2,3], s32[4]), (f32[2,3], s32[4])) all-gather-start(x, y), replica_groups={{0}},
    dimensions={0}
  g = (f32[2,3], s32[4]) all-gather-done(s)
  p = ((f32[2,3], s32[4]), (f32[2,3], s32[4])) collective-permute-start(x, y),
    source_target_pairs={}
  q = (f32[2,3], s32[4]) collective-permute-done(p)
  ROOT t = ((f32[2,3], s32[4]), (f32[2,3], s32[4])) tuple(g, q)
}
"""
    y = np.arange(4, dtype=np.int32)
    (gx, gy), (px, py) = run(text, [X, y])
    np.testing.assert_array_equal(gx, X)
    np.testing.assert_array_equal(gy, y)
    assert not px.any() and not py.any() and py.dtype == np.int32


def test_device_ids_come_from_the_host() -> None:
    text = """HloModule m, replica_count=4, num_partitions=2
ENTRY e { r = u32[] replica-id()
  p = u32[] partition-id()
  ROOT t = (u32[], u32[]) tuple(r, p) }
"""
    assert interpret(parse(text), [], Host(replica_id=3, partition_id=1)) == (3, 1)
    assert run(text) == (0, 0)


RAGGED = """HloModule m
ENTRY e {
  x = f32[6,2] parameter(0)
  y = f32[5,2] parameter(1)
  from = s32[1,3] parameter(2)
  size = s32[1,3] parameter(3)
  to = s32[1,3] parameter(4)
  ROOT r = f32[5,2] ragged-all-to-all(x, y, from, size, to, size), replica_groups={{0}}
}
"""


def ragged(starts: list[int], sizes: list[int], to: list[int]) -> np.ndarray:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    y = np.full((5, 2), -1, np.float32)
    return run(RAGGED, [x, y, *(np.array([v], np.int32) for v in (starts, sizes, to))])


def test_ragged_updates_to_itself_are_written_in_order() -> None:
    got = ragged([4, 0, 5], [2, 3, 0], [0, 1, 2])
    np.testing.assert_array_equal(got, [[8, 9], [0, 1], [2, 3], [4, 5], [-1, -1]])


@pytest.mark.parametrize(
    "case",
    [([5, 0, 0], [2, 0, 0], [0, 0, 0]), ([0, 0, 0], [2, 0, 0], [4, 0, 0]),
     ([-1, 0, 0], [1, 0, 0], [0, 0, 0]), ([0, 0, 0], [-1, 0, 0], [0, 0, 0])],
)  # fmt: skip
def test_a_ragged_update_out_of_bounds_is_an_error(case: tuple[list[int], ...]) -> None:
    with pytest.raises(HloError) as e:
        ragged(*case)
    assert e.value.code in ("index-out-of-range", "bad-value")


PERMUTE = """HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  i = s32[] constant(0)
  j = s32[] constant(1)
  from = (s32[], s32[]) tuple(i, j)
  to = (s32[], s32[]) tuple(j, i)
  ROOT r = f32[2,3] collective-permute(x, y, from, to), source_target_pairs={{0,0}},
    slice_sizes={{1,2}}
}
"""


def test_a_permutation_in_place_writes_slices_into_the_output_buffer() -> None:
    y = np.zeros((2, 3), np.float32)
    got = run(PERMUTE, [X, y])
    np.testing.assert_array_equal(got, [[0, 0, 0], [1, 2, 0]])
    assert not y.any(), "the operand itself stays"
    with pytest.raises(HloError) as e:
        run(PERMUTE.replace("{{1,2}}", "{{2,2}}"), [X, y])
    assert e.value.code == "index-out-of-range"


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("f32[2,3] all-reduce(x), replica_groups={{0,1}}, to_apply=add", ""),
        ("f32[2,3] all-reduce(x), replica_groups={}, to_apply=add", ", replica_count=2"),
        ("f32[2,3] all-reduce(x), replica_groups={{0}}, channel_id=1, to_apply=add",
         ", num_partitions=2"),
        ("f32[4,3] all-gather(x), replica_groups={{0,1}}, dimensions={0}", ""),
        ("f32[4,3] all-gather(x), replica_groups={}, dimensions={0}", ""),
        ("f32[1,3] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add", ""),
        ("f32[2,3] all-to-all(x), replica_groups={{0,1}}, dimensions={0}", ""),
        ("f32[2,3] collective-broadcast(x), replica_groups={{1,0}}", ""),
        ("f32[2,3] collective-permute(x), source_target_pairs={{0,1}}", ""),
        ("f32[2,3] collective-permute(x), source_target_pairs={{1,0}}", ""),
    ],
)  # fmt: skip
def test_more_participants_are_an_error(line: str, header: str) -> None:
    with pytest.raises(HloError) as e:
        interpret(parse(module(line, header=header)), [X])
    assert e.value.code == "unsupported-participants"
    assert e.value.diagnostics[0].span is not None


def test_a_group_of_one_among_many_devices_runs() -> None:
    line = "f32[2,3] all-reduce(x), replica_groups={{0},{1},{2}}, to_apply=add"
    text = module(line, header=", replica_count=3")
    np.testing.assert_array_equal(run(text, [X]), X)
    np.testing.assert_array_equal(interpret(parse(text), [X], Host(replica_id=2)), X)


# --- shapes and attributes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "f32[4,3] all-gather(x), channel_id=1, replica_groups={{0,1}}, constrain_layout=true, "
        "dimensions={0}, use_global_device_ids=true",
        "f32[1,3] reduce-scatter(x), channel_id=1, replica_groups={{0,1}}, constrain_layout=true, "
        "use_global_device_ids=true, dimensions={0}, to_apply=%add",
        "f32[2,3] all-reduce(x), channel_id=1, replica_groups=[1,2]<=[2], constrain_layout=true, "
        "use_global_device_ids=true, to_apply=%add",
        "f32[2,3] all-to-all(x), channel_id=1, replica_groups={{0,1}}, constrain_layout=true, "
        "dimensions={0}",
        "f32[2,3] collective-broadcast(x), channel_id=3, replica_groups=mesh['a'=2,'b'=2] {'a'}",
        "f32[2,3] collective-permute(x), channel_id=3, source_target_pairs={{0,1},{1,0}}",
    ],
)
def test_attributes_are_printed_in_the_order_of_xla(line: str) -> None:
    text = module(line)
    printed = str(parse(text))
    attributes = line.split("(x), ")[1]
    assert attributes in printed
    assert attributes in xla_parse(text, "default")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("f32[4,3] all-gather(x), dimensions={2}", "bad-dimension"),
        ("f32[4,3] all-gather(x), dimensions={0,1}", "bad-dimension"),
        ("f32[4,3] all-gather(x)", "missing-attribute"),
        ("f32[4,4] all-gather(x), dimensions={0}", "shape-mismatch"),
        ("f32[5,3] all-gather(x), dimensions={0}", "shape-mismatch"),
        ("f32[4] all-gather(x), dimensions={0}", "shape-mismatch"),
        ("s32[4,3] all-gather(x), dimensions={0}", "type-mismatch"),
        ("(f32[4,3]) all-gather(x, x), dimensions={0}", "shape-mismatch"),
        ("f32[2,4] all-reduce(x), to_apply=add", "shape-mismatch"),
        ("f32[2,3] all-reduce(x)", "missing-attribute"),
        ("f32[2,3] all-reduce(x), to_apply=one", "bad-computation"),
        ("s32[] all-reduce(i), to_apply=add", "bad-computation"),
        ("f32[2,3] all-reduce(x), to_apply=add, mode=nowhere", "bad-value"),
        ("f32[2,1] reduce-scatter(x), dimensions={2}, to_apply=add", "bad-dimension"),
        ("f32[2,2] reduce-scatter(x), dimensions={1}, to_apply=add", "bad-dimension"),
        ("f32[2,3] all-to-all(x), dimensions={3}", "bad-dimension"),
        ("(f32[2,3], f32[2,3]) all-to-all(x, x), dimensions={0}", "operand-count"),
        ("(f32[2,3], s32[]) all-to-all(x, i), replica_groups={{0,1}}", "shape-mismatch"),
        ("f32[2,3] ragged-all-to-all(x, x, i, i, i, i)", "shape-mismatch"),
        ("f32[2,3] ragged-all-to-all(x, x, x, x, x, x)", "type-mismatch"),
        ("f32[2,3] ragged-all-to-all(x, x)", "operand-count"),
        ("f32[2,3] collective-broadcast(x), has_dynamic_root=true", "operand-count"),
        ("f32[2,3] collective-permute(x)", "missing-attribute"),
        ("f32[2,3] collective-permute(x), source_target_pairs={{0,1},{0,2}}",
         "bad-replica-groups"),
        ("f32[2,3] collective-permute(x), source_target_pairs={{0,1,2}}", "bad-replica-groups"),
        ("f32[2,3] collective-permute(x, x), source_target_pairs={}, slice_sizes={{1,1}}",
         "operand-count"),
        ("f32[2,3] all-reduce(x), replica_groups={{0,0}}, to_apply=add", "bad-replica-groups"),
        ("f32[2,3] all-reduce(x), replica_groups={{0,2}}, to_apply=add", "bad-replica-groups"),
        ("f32[2,3] all-reduce(x), replica_groups={{}}, to_apply=add", "bad-replica-groups"),
        ("f32[4,3] all-gather(x), dimensions={0}, replica_groups={{0,1},{2}}",
         "bad-replica-groups"),
        ("s32[] replica-id()", "type-mismatch"),
        ("u32[] partition-id(i)", "operand-count"),
    ],
)  # fmt: skip
def test_a_broken_collective_is_an_error(line: str, code: str) -> None:
    before = "i = s32[] constant(0)"
    text = module(line, before=before).replace(
        "ENTRY", "one { a = f32[] parameter(0)\n  ROOT n = f32[] negate(a) }\nENTRY"
    )
    assert code in [c for c, _ in errors(text)], errors(text)
