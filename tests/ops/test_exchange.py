"""Devices that meet: what XLA:CPU cannot be asked, and what ends in an error, not in waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.errors import InferError
from hlo.host import Host, run_together
from hlo.host.host import MAX_DEVICES
from tests.harness.devices import BACKENDS, assert_equal, program, run_here

X = np.arange(8, dtype=np.float32).reshape(4, 2)
TWO = X[:2]
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n"

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


# --- values -------------------------------------------------------------------------------------


def test_reductions_combine_in_the_order_of_the_group(backend: str) -> None:
    more = """f { a = f32[] parameter(0)  b = f32[] parameter(1)  t = f32[] constant(10)
  m = f32[] multiply(a, t)  ROOT r = f32[] add(m, b) }"""
    case = program(
        "f32[1] all-reduce(x0), replica_groups={{2,0,3,1}}, to_apply=f", (4, 1),
        [np.float32([[1], [2], [3], [4]])], more=more,
    )  # fmt: skip
    assert_equal(run_here(case, backend), [[[3142.0]]] * 4)


def test_bf16_rounds_at_each_step(backend: str) -> None:
    # 256 + 1 is 256 in bf16: added one by one, the ones are lost.
    values = np.float32([[256], [1], [1], [1]])
    more = """f { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT r = bf16[] add(a, b) }"""
    case = program(
        "f32[1] convert(y)", (4, 1), [values], more=more,
        before="b = bf16[1] convert(x0)\ny = bf16[1] all-reduce(b), replica_groups={}, to_apply=f",
    )  # fmt: skip
    assert_equal(run_here(case, backend), [[[256.0]]] * 4)


def test_a_reducer_of_another_precision_computes_in_that(backend: str) -> None:
    # (1 + 256) - 256 is 1 in f32, and 0 in bf16.
    more = """f { a = f32[] parameter(0)  b = f32[] parameter(1)  s = f32[] add(a, b)
  ROOT r = f32[] subtract(s, b) }"""
    case = program(
        "f32[1] convert(y)", (2, 1), [np.float32([[1], [256]])], more=more,
        before="b = bf16[1] convert(x0)\ny = bf16[1] all-reduce(b), replica_groups={}, to_apply=f",
    )  # fmt: skip
    assert_equal(run_here(case, backend), [[[1.0]]] * 2)


def test_a_broadcast_is_of_the_first_or_of_the_one_that_is_said(backend: str) -> None:
    case = program("f32[2] collective-broadcast(x0), replica_groups={{2,1},{3,0}}", (4, 1), [X])
    assert_equal(run_here(case, backend), [[X[3]], [X[2]], [X[2]], [X[3]]])
    case = program(
        "f32[2] collective-broadcast(x0, root), replica_groups={{0,1,2,3}}, has_dynamic_root=true",
        (4, 1), [X], before="root = s32[1] constant({3})")  # fmt: skip
    assert_equal(run_here(case, backend), [[X[3]]] * 4)


@pytest.mark.parametrize("groups", ["replica_groups={{0,1}}", "replica_groups={}"])
def test_programs_of_their_own_meet_without_saying_how_many(backend: str, groups: str) -> None:
    module = hlo.parse(
        f"HloModule m\n{ADD}ENTRY e {{ p = f32[2] parameter(0)\n"
        f" ROOT r = f32[2] all-reduce(p), {groups}, to_apply=add }}"
    )
    client = hlo.Client(2, backend=backend, cache=False)
    results = client.execute_parallel([(module, [x]) for x in TWO])
    assert_equal([[client.transfer(r).value] for r in results], [[X[0] + X[1]]] * 2)


def test_random_numbers_differ_from_replica_to_replica(backend: str) -> None:
    case = program(
        "f32[4] rng(a, b), distribution=rng_uniform", (3, 1), [],
        before="a = f32[] constant(0)\nb = f32[] constant(1)",
    )  # fmt: skip
    first, second, third = (tuple(d[0].tolist()) for d in run_here(case, backend))
    assert len({first, second, third}) == 3
    alone = hlo.interpret(hlo.parse(case[0].replace("replica_count=3", "replica_count=1")))
    assert first == tuple(alone.tolist())


@pytest.mark.parametrize(
    ("groups", "want"), [("{{2,0}}", [X[2], 0, X[2], 0]), ("{{3}}", [0, 0, 0, X[3]])]
)
def test_a_device_in_no_group_of_a_broadcast_gets_zeros(
    backend: str, groups: str, want: list[Any]
) -> None:
    case = program(f"f32[2] collective-broadcast(x0), replica_groups={groups}", (4, 1), [X])
    assert_equal(run_here(case, backend), [[np.zeros(2) + w] for w in want])
    case = program(
        f"f32[2] collective-broadcast(x0), replica_groups={groups}, channel_id=1", (1, 4), [X]
    )
    assert_equal(run_here(case, backend), [[np.zeros(2) + w] for w in want])


def test_a_device_in_no_group_of_a_reduction_gets_zeros(backend: str) -> None:
    case = program(
        "f32[2] collective-reduce(x0), replica_groups={{3}}, channel_id=1, "
        "use_global_device_ids=true, to_apply=add", (2, 2), [X],
    )  # fmt: skip
    assert_equal(run_here(case, backend), [[np.zeros(2)]] * 3 + [[X[3]]])


def test_a_reduction_is_for_the_root_alone(backend: str) -> None:
    case = program(
        "f32[2] collective-reduce(x0), replica_groups={{2,1},{3,0}}, to_apply=add",
        (4, 1),
        [X],
    )
    nothing = np.zeros_like(X[0])
    assert_equal(run_here(case, backend), [[nothing], [nothing], [X[2] + X[1]], [X[3] + X[0]]])
    # Each array has a root of its own; a device in no group gets zeros.
    case = program(
        "(f32[2], f32[2]) collective-reduce(x0, x0, roots), replica_groups={{0,1}}, "
        "has_dynamic_root=true, to_apply=add", (2, 1), [X[:2]], before="roots = s32[2] "
        "constant({1,0})")  # fmt: skip
    total = X[0] + X[1]
    assert_equal(run_here(case, backend), [[nothing, total], [total, nothing]])


@pytest.mark.parametrize(
    "line",
    [
        "f32[<=4,2] all-reduce(x), replica_groups={}, to_apply=sum",
        "(f32[<=4,2], f32[2,<=4]) all-reduce(x, y), replica_groups={{0,1}}, to_apply=sum",
        "f32[<=4,2] all-reduce-done(s)",
        "f32[<=4,4] all-gather(x), replica_groups={}, dimensions={1}",
        "f32[<=4,4] all-gather-done(g)",
        "f32[<=4,1] reduce-scatter(x), replica_groups={}, dimensions={1}, to_apply=sum",
        "(f32[<=4,2], f32[<=4,2]) all-to-all(x, x), replica_groups={}",
        "f32[<=4,2] collective-broadcast(x), replica_groups={{1,0}}",
        "f32[<=4,2] collective-permute(x), source_target_pairs={{0,1}}",
        "f32[<=4,2] collective-permute-done(p)",
        # Beside one whose size varies.
        "(f32[2,2], f32[<=4,2]) tuple(f, x)",
    ],
)
def test_arrays_of_dynamic_size_meet_as_if_of_that_size(backend: str, line: str) -> None:
    before = """x = f32[<=4,2] set-dimension-size(x0, n), dimensions={0}
      y = f32[2,<=4] transpose(x), dimensions={1,0}"""
    used = {
        "(s)": "s = f32[<=4,2] all-reduce-start(x), replica_groups={}, to_apply=sum",
        "(g)": "g = (f32[<=4,2], f32[<=4,4]) all-gather-start(x), dimensions={1}, "
        "replica_groups={}",
        "(p)": "p = (f32[<=4,2], f32[<=4,2]) collective-permute-start(x), "
        "source_target_pairs={{0,1},{1,0}}",
        "(f,": "f = f32[2,2] all-reduce(x1), replica_groups={}, to_apply=sum",
    }
    before += "".join(f"\n{text}" for name, text in used.items() if name in line)
    functions = "sum" + ADD.removeprefix("add")
    whole, fixed = np.arange(16, dtype=np.float32).reshape(2, 4, 2), np.ones((2, 2, 2), np.float32)
    for n in (0, 1, 3, 4):
        got = program(
            line, (2, 1), [whole, fixed], more=functions,
            before=f"n = s32[] constant({n})\n{before}",
        )  # fmt: skip
        x = "x = f32[<=4,2] copy(x0)\n" + before.split("\n", 1)[1]
        want = program(
            line.replace("<=4", str(n)), (2, 1), [whole[:, :n], fixed], more=functions,
            before=x.replace("<=4", str(n)),
        )  # fmt: skip
        assert_equal(run_here(got, backend), run_here(want, "reference"))


@pytest.mark.parametrize(
    "line",
    [
        "f32[<=8,2] all-gather(x), replica_groups={}, dimensions={0}",
        "f32[<=8,2] all-gather-done(g)",
        "(f32[<=8,2], f32[<=8,2]) all-gather(x, x), replica_groups={}, dimensions={0}",
        "f32[<=4,2] all-to-all(x), replica_groups={{1,0}}, dimensions={0}",
        "f32[<=2,2] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=sum",
        "f32[<=4,2] collective-permute(x), source_target_pairs={{0,1},{1,0}}",
    ],
)
def test_parts_of_dynamic_size_are_put_together(backend: str, line: str) -> None:
    functions = "sum" + ADD.removeprefix("add")
    whole = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    gather = "g = (f32[<=4,2], f32[<=8,2]) all-gather-start(x), replica_groups={}, dimensions={0}"
    for n in (0, 2, 4):
        more = f"\n{gather}" if "(g)" in line else ""
        cut = f"n = s32[] constant({n})\nx = f32[<=4,2] set-dimension-size(x0, n), dimensions={{0}}"
        before, static, static_before = cut + more, line, "x = f32[<=4,2] copy(x0)" + more
        for text, size in {"<=8": 2 * n, "<=4": n, "<=2": n // 2}.items():
            static, static_before = (t.replace(text, str(size)) for t in (static, static_before))
        got = program(line, (2, 1), [whole], more=functions, before=before)
        fixed = program(static, (2, 1), [whole[:, :n]], more=functions, before=static_before)
        assert_equal(run_here(got, backend), run_here(fixed, "reference"))


def test_parts_of_a_size_that_does_not_divide_are_an_error(backend: str) -> None:
    case = program(
        "f32[<=4,2] all-to-all(x), replica_groups={{0,1}}, dimensions={0}", (2, 1),
        [np.zeros((2, 4, 2), np.float32)],
        before="n = s32[] constant(3)\nx = f32[<=4,2] set-dimension-size(x0, n), dimensions={0}",
    )  # fmt: skip
    with pytest.raises(hlo.HloError, match="does not divide into 2 equal parts"):
        run_here(case, backend)


def test_rows_go_to_several_members_in_several_updates(backend: str) -> None:
    rows = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    empty = np.full((2, 5, 2), -1, np.float32)
    # Each member: two updates for member 0, then two for member 1.
    from_ = np.int32([[[0, 1], [2, 3]], [[3, 2], [0, 1]]])
    sizes = np.int32([[[1, 1], [1, 0]], [[1, 1], [1, 1]]])
    to = np.int32([[[0, 2], [4, 0]], [[1, 3], [0, 1]]])
    case = program(
        "f32[5,2] ragged-all-to-all(x0, x1, x2, x3, x4, x3), replica_groups={{0,1}}", (2, 1),
        [rows, empty, from_, sizes, to],
    )  # fmt: skip
    first, second = empty.copy()
    first[0], first[2], first[1], first[3] = rows[0, 0], rows[0, 1], rows[1, 3], rows[1, 2]
    second[4], second[0], second[1] = rows[0, 2], rows[1, 0], rows[1, 1]
    assert_equal(run_here(case, backend), [[first], [second]])


def test_slices_are_written_into_buffers(backend: str) -> None:
    old = np.full((2, 3), -1, np.float32)
    case = program(
        "f32[3] collective-permute(x0, x1, from, to), source_target_pairs={{0,1}}, "
        "slice_sizes={{1}}", (2, 1), [TWO, old],
        before="one = s32[] constant(1)\nzero = s32[] constant(0)\n"
        "from = (s32[]) tuple(one)\nto = (s32[]) tuple(zero)",
    )  # fmt: skip
    assert_equal(run_here(case, backend), [[old[0]], [[X[0, 1], -1, -1]]])


def test_collectives_in_two_steps(backend: str) -> None:
    text = f"""HloModule m, replica_count=2
{ADD}wrapped {{ x = f32[2] parameter(0)
  ROOT r = f32[1] reduce-scatter(x), replica_groups={{}}, dimensions={{0}}, to_apply=add }}
ENTRY e {{
  x = f32[2] parameter(0)
  a = f32[2] all-reduce-start(x), replica_groups={{}}, to_apply=add
  b = f32[2] all-reduce-done(a)
  c = (f32[2], f32[4]) all-gather-start(b), replica_groups={{{{0,1}}}}, dimensions={{0}}
  d = f32[4] all-gather-done(c)
  e = (f32[2], f32[2], u32[], u32[]) collective-permute-start(x), source_target_pairs={{{{0,1}}}}
  f = f32[2] collective-permute-done(e)
  g = ((f32[2]), f32[1], u32[]) async-start(x), calls=wrapped
  h = f32[1] async-done(g)
  ROOT r = (f32[4], f32[2], f32[1]) tuple(d, f, h)
}}"""
    total = X[0] + X[1]
    both = np.concatenate([total, total])
    want = [[both, [0, 0], total[:1]], [both, X[0], total[1:]]]
    assert_equal(run_here((text, (2, 1), [TWO]), backend), want)


def test_values_are_sent_from_device_to_device(backend: str) -> None:
    # Around a ring that is open between the last and the first.
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}'
    text = f"""HloModule m, num_partitions=3
ENTRY e {{
  x = f32[2] parameter(0)
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), channel_id=1, {pairs}
  s = (f32[2], u32[], token[]) send(x, t), channel_id=1, {pairs}
  rd = (f32[2], token[]) recv-done(r), channel_id=1
  sd = token[] send-done(s), channel_id=1
  ROOT v = f32[2] get-tuple-element(rd), index=0
}}"""
    got = run_here((text, (1, 3), [X[:3]]), backend)
    assert_equal(got, [[[0, 0]], [X[0]], [X[1]]])


def test_each_device_has_queues_of_its_own(backend: str) -> None:
    text = f"""HloModule m, replica_count=2
{ADD}ENTRY e {{
  t = token[] after-all()
  i = (f32[2], token[]) infeed(t)
  x = f32[2] get-tuple-element(i), index=0
  u = token[] get-tuple-element(i), index=1
  y = f32[2] all-reduce(x), replica_groups={{}}, to_apply=add
  z = f32[2] subtract(y, x)
  ROOT o = token[] outfeed(z, u)
}}"""
    client = hlo.Client(2, backend=backend, cache=False)
    for device in range(2):
        client.transfer_to_infeed(X[device], device)
    client.execute_replicated(hlo.parse(text), [[], []])
    found = [[client.transfer_from_outfeed(device).array] for device in range(2)]
    assert_equal(found, [[X[1]], [X[0]]])


# --- errors -------------------------------------------------------------------------------------


def branches(on_first: str, on_second: str, *, replicas: int = 2, before: str = "") -> str:
    """Return a program in which device 0 computes something else of x than the others."""
    return f"""HloModule m, replica_count={replicas}
{ADD}first {{ x = f32[2] parameter(0)
  ROOT one = {on_first} }}
second {{ x = f32[2] parameter(0)
  ROOT two = {on_second} }}
ENTRY e {{
  x = f32[2] parameter(0)
  i = u32[] replica-id()
  zero = u32[] constant(0)
  {before}
  is_first = pred[] compare(i, zero), direction=EQ
  ROOT r = f32[2] conditional(is_first, x, x), true_computation=first, false_computation=second
}}"""


def failure(text: str, backend: str, counts: tuple[int, int] = (2, 1)) -> hlo.HloError:
    with pytest.raises(hlo.HloError) as e:
        run_here((text, counts, [X[: counts[0] * counts[1]]]), backend)
    assert len(e.value.diagnostics) == 1
    return e.value


SUM = "f32[2] all-reduce(x), replica_groups={}, to_apply=add"


@pytest.mark.parametrize(("first", "second", "code", "words"), [
    # One device comes to its end, or meets the others in another way.
    (SUM, "f32[2] negate(x)", "deadlock", ["one (all-reduce)", "device 1", "came to the end"]),
    ("f32[2] negate(x)", SUM, "deadlock", ["two (all-reduce)", "device 0"]),
    (SUM, SUM.replace("{},", "{}, channel_id=1,"), "deadlock",
     ["device 0 in one (all-reduce) for device 1", "device 1 in two (all-reduce, channel 1)"]),
    (SUM, SUM.replace("{},", "{{1,0}},"), "deadlock", ["one (all-reduce)", "two (all-reduce)"]),
    (SUM, "f32[2] all-to-all(x), replica_groups={{0,1}}, dimensions={0}",
     "mismatched-collectives", ["one (all-reduce) of f32[2]", "two (all-to-all) of f32[2]"]),
], ids=["ends", "ends first", "channel", "group", "kind"])  # fmt: skip
def test_devices_that_do_not_meet_are_an_error(
    backend: str, first: str, second: str, code: str, words: list[str]
) -> None:
    error = failure(branches(first, second), backend)
    assert error.code == code
    for word in words:
        assert word in error.diagnostics[0].message


def test_collectives_of_other_shapes_do_not_meet(backend: str) -> None:
    longer = "p = f32[4] concatenate(x, x), dimensions={0}\n  q = f32[4] all-reduce(p), "
    longer += "replica_groups={}, to_apply=add\n  ROOT two = f32[2] slice(q), slice={[0:2]}"
    text = branches(SUM, "X").replace("ROOT two = X", longer)
    error = failure(text, backend)
    assert error.code == "mismatched-collectives"
    assert "of f32[2]" in error.diagnostics[0].message
    assert "of f32[4]" in error.diagnostics[0].message


def test_a_loop_that_goes_on_alone_is_an_error(backend: str) -> None:
    text = f"""HloModule m, replica_count=2
{ADD}c {{ p = (u32[], f32[2]) parameter(0)  n = u32[] get-tuple-element(p), index=0
  m = u32[] constant(5)  ROOT r = pred[] compare(n, m), direction=LT }}
b {{ p = (u32[], f32[2]) parameter(0)  n = u32[] get-tuple-element(p), index=0
  x = f32[2] get-tuple-element(p), index=1  o = u32[] constant(1)  i = u32[] add(n, o)
  sum = f32[2] all-reduce(x), replica_groups={{}}, to_apply=add
  ROOT r = (u32[], f32[2]) tuple(i, sum) }}
ENTRY e {{ x = f32[2] parameter(0)  i = u32[] replica-id()
  s = (u32[], f32[2]) tuple(i, x)  ROOT w = (u32[], f32[2]) while(s), condition=c, body=b }}"""
    error = failure(text, backend)
    assert error.code == "deadlock"
    assert "sum" in error.diagnostics[0].message
    assert "device 1 came to the end" in error.diagnostics[0].message


def test_two_that_wait_for_each_other_are_an_error(backend: str) -> None:
    # Devices 2 and 3 meet and come to the end.
    first = "f32[2] all-reduce(x), replica_groups={{0,1},{2},{3}}, to_apply=add"
    second = "f32[2] all-reduce(x), replica_groups={{0,1},{2,3}}, channel_id=1, "
    second += "use_global_device_ids=true, to_apply=add"
    error = failure(branches(first, second, replicas=4), backend, (4, 1))
    assert error.code == "deadlock"


def test_a_receive_of_what_nobody_sends_is_an_error(backend: str) -> None:
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
    text = f"""HloModule m, replica_count=2
ENTRY e {{
  x = f32[2] parameter(0)
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), channel_id=0, {pairs}
  d = (f32[2], token[]) recv-done(r), channel_id=0
  ROOT v = f32[2] get-tuple-element(d), index=0
}}"""
    error = failure(text, backend)
    assert error.code == "deadlock"
    assert "d (recv-done, channel 0) for device 0" in error.diagnostics[0].message


def failing_on(device: int, fail: Callable[[], Any]) -> Host:
    """Return a host with a function that fails on a device."""

    def f(op: Any, args: Any) -> Any:
        return fail() if args[0][0] == X[device, 0] else args[0]

    return Host({"f": f})


CALLS = f"""HloModule m, replica_count=3
{ADD}ENTRY e {{
  x = f32[2] parameter(0)
  y = f32[2] custom-call(x), custom_call_target="f"
  ROOT r = f32[2] all-reduce(y), replica_groups={{}}, to_apply=add
}}"""


def test_a_device_that_fails_stops_the_others(backend: str) -> None:
    def fail() -> Any:
        raise IndexError("on purpose")

    client = hlo.Client(3, backend=backend, cache=False, host=failing_on(1, fail))
    with pytest.raises(IndexError, match="on purpose"):
        client.execute_replicated(hlo.parse(CALLS), [[x] for x in X[:3]])
    # The next run has nothing left of it.
    results = client.execute_replicated(hlo.parse(CALLS), [[X[0]], [X[0]], [X[2]]])
    assert_equal([[r] for r in results], [[2 * X[0] + X[2]]] * 3)


def test_an_error_says_which_device_it_is_of(backend: str) -> None:
    def fail() -> Any:
        raise InferError("not on a Friday", code="custom-call-failed")

    client = hlo.Client(3, backend=backend, cache=False, host=failing_on(2, fail))
    with pytest.raises(hlo.HloError, match=r"device 2: \S+: not on a Friday"):
        client.execute_replicated(hlo.parse(CALLS), [[x] for x in X[:3]])


def test_rows_outside_an_array_are_an_error(backend: str) -> None:
    case = program(
        "f32[4] ragged-all-to-all(x0, x0, zero, x1, zero, x1), replica_groups={{0,1}}", (2, 1),
        [np.zeros((2, 4), np.float32), np.int32([[1, 5], [1, 1]])],
        before="zero = s32[2] constant({0, 0})",
    )  # fmt: skip
    with pytest.raises(hlo.HloError) as e:
        run_here(case, backend)
    assert e.value.code == "index-out-of-range"


def test_a_group_that_the_run_does_not_have_is_an_error(backend: str) -> None:
    text = f"HloModule m\n{ADD}ENTRY e {{ x = f32[2] parameter(0)\n ROOT r = {SUM} }}"
    text = text.replace("{}, to", "{{0,1}}, to")
    with pytest.raises(hlo.HloError) as e:
        hlo.Client(2, backend=backend, cache=False).execute_replicated(hlo.parse(text), [[X[0]]])
    assert e.value.code == "unsupported-participants"
    assert "--num-replicas" in str(e.value)


def test_many_devices_meet_and_too_many_are_an_error(backend: str) -> None:
    values = np.ones((300, 1), np.float32)
    case = program("f32[1] all-reduce(x0), replica_groups={}, to_apply=add", (300, 1), [values])
    assert_equal(run_here(case, backend), [[[300.0]]] * 300)
    counts = (MAX_DEVICES // 2, 3)
    hosts = [Host() for _ in range(counts[0] * counts[1])]
    with pytest.raises(hlo.HloError, match=r"runs on 1536 devices \(512 replicas, 3 partitions\)"):
        run_together(hosts, counts, [int for _ in hosts])
