"""Queues, device numbers, asynchronous pairs and collectives of one device as native code."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from hlo.compiler.pipeline import compile_text
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.host import Host
from tests.harness.run_compiled import check, run_leaves

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ADD = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
"""


def entry(body: str, before: str = "", header: str = "HloModule m") -> str:
    return f"{header}\n{before}ENTRY e {{\n{body}\n}}"


def program(text: str, host: Host) -> Any:
    return compile_text(text.encode(), "m", cache=False, host=host)


# --- queues -------------------------------------------------------------------------------------

FEED = entry("""  t = token[] after-all()
  i = ((f32[2,3], s32[]), token[]) infeed(t)
  d = (f32[2,3], s32[]) get-tuple-element(i), index=0
  u = token[] get-tuple-element(i), index=1
  o = token[] outfeed(d, u), outfeed_shape=(f32[2,3], s32[])
  j = (f32[2,3]{0,1}, token[]) infeed(o)
  ROOT r = f32[2,3]{0,1} get-tuple-element(j), index=0""")


def test_values_pass_through_the_queues_in_order() -> None:
    host = Host(infeed=deque([(X, np.asarray(7, np.int32)), X + 1, "left"]))
    np.testing.assert_array_equal(program(FEED, host)(), X + 1)
    assert list(host.infeed) == ["left"]
    ((data, number),) = host.outfeed
    np.testing.assert_array_equal(data, X)
    assert number == 7


def test_an_empty_queue_and_a_value_that_does_not_fit_are_errors() -> None:
    for queue, code in (([], "empty-queue"), ([(X, X)], "bad-value"), ([X], "bad-value")):
        with pytest.raises(HloError) as e:
            program(FEED, Host(infeed=deque(queue)))()
        assert e.value.code == code


def test_a_program_sends_and_receives() -> None:
    text = entry("""  t = token[] after-all()
  r = (f32[2,3], u32[], token[]) recv(t), channel_id=8, is_host_transfer=true
  d = (f32[2,3], token[]) recv-done(r), channel_id=8, is_host_transfer=true
  v = f32[2,3] get-tuple-element(d), index=0
  u = token[] get-tuple-element(d), index=1
  n = f32[2,3] negate(v)
  s = (f32[2,3], u32[], token[]) send(n, u), channel_id=7, is_host_transfer=true
  ROOT e = token[] send-done(s), channel_id=7, is_host_transfer=true""")
    host = Host(channels={8: deque([X])})
    exe = program(text, host)
    exe()
    np.testing.assert_array_equal(host.channels[7].popleft(), -X)
    with pytest.raises(HloError) as e:
        exe()
    assert e.value.code == "empty-queue"


def test_device_numbers_are_the_hosts() -> None:
    text = entry("""  r = u32[] replica-id()
  p = u32[] partition-id()
  ROOT t = (u32[], u32[]) tuple(r, p)""")
    host = Host(replica_id=3, partition_id=1)
    exe = program(text, host)
    assert [int(v) for v in exe()] == [3, 1]
    host.replica_id = 5
    assert [int(v) for v in exe()] == [5, 1]


# --- pairs --------------------------------------------------------------------------------------


def test_asynchronous_calls() -> None:
    check(
        entry(
            """  x = f32[2,3] parameter(0)
  s = ((f32[2,3], f32[2,3]), f32[2,3], u32[]) async-start(x, x), calls=wrapped
  u = ((f32[2,3], f32[2,3]), f32[2,3], u32[]) async-update(s)
  ROOT d = f32[2,3] async-done(u)""",
            "wrapped { a = f32[2,3] parameter(0)  b = f32[2,3] parameter(1)\n"
            "  ROOT r = f32[2,3] add(a, b) }\n",
        ),
        [X],
    )


def test_copies_change_layouts() -> None:
    check(
        entry("""  x = f32[2,3] parameter(0)
  s = (f32[2,3]{0,1}, f32[2,3], u32[]) copy-start(x)
  d = f32[2,3]{0,1} copy-done(s)
  ROOT r = (f32[2,3]{0,1}, f32[2,3]) tuple(d, x)"""),
        [X],
    )


def test_barriers_and_dependencies_are_their_operand() -> None:
    check(
        entry("""  x = f32[2,3] parameter(0)
  t = token[] after-all()
  a = f32[2,3] add-dependency(x, t)
  p = (f32[2,3], f32[2,3]) tuple(a, x)
  b = (f32[2,3], f32[2,3]) opt-barrier(p)
  g = f32[2,3] get-tuple-element(b), index=0
  ROOT r = f32[2,3] negate(g)"""),
        [X],
    )


# --- collectives --------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    "f32[2,3] all-reduce(x), replica_groups={}, to_apply=add",
    "f32[2,3] reduce-scatter(x), replica_groups={{0}}, dimensions={0}, to_apply=add",
    "f32[2,3] all-gather(x), replica_groups={{0}}, dimensions={0}",
    "f32[2,3] all-to-all(x), replica_groups={{0}}, dimensions={0}",
    "(f32[2,3]) all-to-all(x), replica_groups={{0}}",
    "f32[2,3] collective-broadcast(x), replica_groups={{0}}",
    "f32[2,3] collective-permute(x), source_target_pairs={{0,0}}",
    "f32[2,3] collective-permute(x), source_target_pairs={}",
    "(f32[2,3], f32[2,3]) all-reduce(x, x), replica_groups={}, to_apply=add",
], ids=lambda c: c.split(" ", 1)[1].split("(")[0])  # fmt: skip
def test_one_participant_has_what_it_had(call: str) -> None:
    check(entry(f"  x = f32[2,3] parameter(0)\n  ROOT r = {call}", ADD), [X])


def test_started_collectives() -> None:
    check(
        entry(
            """  x = f32[2,3] parameter(0)
  a = f32[2,3] all-reduce-start(x), replica_groups={{0}}, to_apply=add
  b = f32[2,3] all-reduce-done(a)
  c = (f32[2,3], f32[2,3]) all-gather-start(b), replica_groups={{0}}, dimensions={0}
  d = f32[2,3] all-gather-done(c)
  e = (f32[2,3], f32[2,3], u32[], u32[]) collective-permute-start(d), source_target_pairs={{0,0}}
  ROOT f = f32[2,3] collective-permute-done(e)""",
            ADD,
        ),
        [X],
    )


def test_who_takes_part_in_a_permutation_is_known_at_run_time() -> None:
    text = entry(
        "  x = f32[2,3] parameter(0)\n"
        "  ROOT r = f32[2,3] collective-permute(x), source_target_pairs={{1,1}}",
        header="HloModule m, replica_count=3",
    )
    for device in range(3):
        got = program(text, Host(replica_id=device))(X)
        np.testing.assert_array_equal(got, interpret(parse(text), [X], Host(replica_id=device)))


def test_ragged_updates_are_written_in_order() -> None:
    check(
        entry("""  x = f32[4,2] parameter(0)
  y = f32[5,2] parameter(1)
  from = s32[1,2] constant({{0, 2}})
  sizes = s32[1,2] constant({{2, 1}})
  to = s32[1,2] constant({{3, 0}})
  ROOT r = f32[5,2] ragged-all-to-all(x, y, from, sizes, to, sizes), replica_groups={{0}}"""),
        [np.arange(8, dtype=np.float32).reshape(4, 2), np.full((5, 2), -1, np.float32)],
    )


@pytest.mark.parametrize("call", [
    "f32[2,3] all-reduce(x), replica_groups={{0,1}}, to_apply=add",
    "f32[4,3] all-gather(x), replica_groups={{0,1}}, dimensions={0}",
    "f32[2,3] collective-permute(x), source_target_pairs={{0,1}}",
])  # fmt: skip
def test_more_participants_are_an_error_of_the_module(call: str) -> None:
    text = entry(
        f"  x = f32[2,3] parameter(0)\n  ROOT r = {call}", ADD, "HloModule m, replica_count=2"
    )
    with pytest.raises(HloError) as e:
        run_leaves(text, [X])
    assert e.value.code == "unsupported-participants"


@pytest.mark.parametrize(
    ("line", "right", "wrong"),
    [
        ("ragged-all-to-all(x, y, a, b, c, b), replica_groups={{0}}", (1, 2, 3), (1, 2, 4)),
        ("ragged-all-to-all(x, y, a, b, c, b), replica_groups={{0}}", (0, 4, 0), (3, 2, 0)),
        ("ragged-all-to-all(x, y, a, b, c, b), replica_groups={{0}}", (0, 0, 5), (0, 5, 0)),
        ("collective-permute(x, y, u, w), source_target_pairs={{0,0}}, slice_sizes={{2,1}}",
         (1, 0, 3), (3, 0, 0)),
    ],
)  # fmt: skip
def test_slices_outside_of_what_is_exchanged_are_errors(
    line: str, right: tuple[int, ...], wrong: tuple[int, ...]
) -> None:
    text = f"""HloModule exchanged
ENTRY e {{ x = f32[4,2] parameter(0)  y = f32[5,2] parameter(1)
  i = s32[3] parameter(2)
  a = s32[1] slice(i), slice={{[0:1]}}  b = s32[1] slice(i), slice={{[1:2]}}
  c = s32[1] slice(i), slice={{[2:3]}}  zero = s32[] constant(0)
  p = s32[] reshape(a)  u = (s32[], s32[]) tuple(p, zero)
  q = s32[] reshape(c)  w = (s32[], s32[]) tuple(q, zero)
  ROOT r = f32[5,2] {line} }}
"""
    x, y = np.arange(8, dtype=np.float32).reshape(4, 2), -np.ones((5, 2), np.float32)
    check(text, [x, y, np.array(right, np.int32)])
    args = [x, y, np.array(wrong, np.int32)]
    for run in (run_leaves, lambda text, args: interpret(parse(text), args)):
        with pytest.raises(HloError) as e:
            run(text, args)
        assert e.value.code == "index-out-of-range"
