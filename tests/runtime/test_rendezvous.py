"""Collectives of compiled programs: native code of all devices in one process."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.codegen.pipeline import emit_program
from hlo.codegen.targets.cpu import cpu_target
from tests.generators.exchanges import generate_exchange
from tests.harness.devices import assert_equal, run_here
from tests.harness.processes import HANG_S
from tests.sweeps.compare_exchanges import outcome, same

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n"
X = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.mark.parametrize("seed", range(40))
def test_compiled_collectives_have_the_interpreters_bits(seed: int) -> None:
    program = generate_exchange(seed)
    assert same(outcome(program, "compiled"), outcome(program, "reference")), program[0]


def test_no_collective_is_a_function_of_the_host() -> None:
    text = f"""HloModule m, replica_count=2
{ADD}ENTRY e {{ x = f32[4] parameter(0)
  r = f32[4] all-reduce(x), replica_groups={{}}, to_apply=add
  g = f32[8] all-gather(r), replica_groups={{}}, dimensions={{0}}
  s = f32[4] reduce-scatter(g), replica_groups={{}}, dimensions={{0}}, to_apply=add
  a = f32[4] all-to-all(s), replica_groups={{{{0,1}}}}, dimensions={{0}}
  p = f32[4] collective-permute(a), source_target_pairs={{{{0,1}}}}
  ROOT b = f32[4] collective-broadcast(p), replica_groups={{{{1,0}}}} }}"""
    executable = hlo.compile(hlo.parse(text), cache=False, passes="")
    assert executable.imports == ()
    found = [c.opcode for c in executable.collectives]
    assert found == [
        "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
        "collective-broadcast",
    ]  # fmt: skip


def test_more_collectives_are_under_way_than_there_are_meetings() -> None:
    count = 20
    starts = "\n".join(
        f"start{n} = f32[2] all-reduce-start(y{n}), replica_groups={{}}, to_apply=add"
        for n in range(count)
    )
    scaled = "\n".join(
        f"c{n} = f32[] constant({n})\nk{n} = f32[2] broadcast(c{n}), dimensions={{}}\n"
        f"y{n} = f32[2] add(x, k{n})" for n in range(count)
    )  # fmt: skip
    # In the opposite order.
    dones = "\n".join(f"r{n} = f32[2] all-reduce-done(start{n})" for n in reversed(range(count)))
    shapes, names = (", ".join(t) for t in (["f32[2]"] * count, [f"r{n}" for n in range(count)]))
    text = f"""HloModule m, replica_count=2
{ADD}ENTRY e {{ x = f32[2] parameter(0)
{scaled}
{starts}
{dones}
  ROOT t = ({shapes}) tuple({names}) }}"""
    want = [X[0] + X[1] + 2 * n for n in range(count)]
    assert_equal(run_here((text, (2, 1), [X[:2]]), "compiled"), [want, want])


def test_a_start_is_ended_where_its_done_is() -> None:
    text = f"""HloModule m, replica_count=2
{ADD}ENTRY e {{ x = f32[4096] parameter(0)
  c = f32[4096] all-reduce(x), replica_groups={{}}, to_apply=add
  s = f32[4096] all-reduce-start(c), replica_groups={{}}, to_apply=add
  y = f32[4096] multiply(c, x)
  d = f32[4096] all-reduce-done(s)
  ROOT t = (f32[4096], f32[4096], f32[4096]) tuple(c, d, y) }}"""
    module = hlo.parse(text)
    target = cpu_target("x86_64-linux-gnu", "", "")
    entry = emit_program(module.entry, "main", target).module.functions["main"].text
    called = re.findall(r"call \w+ @(?:hlo.collective.)?(run|start|wait|kernel)", entry)
    assert called == ["run", "start", "kernel", "wait"]
    x = np.linspace(0, 1, 2 * 4096, dtype=np.float32).reshape(2, 4096)
    total = x[0] + x[1]
    want = [[total, total + total, total * own] for own in x]
    assert_equal(run_here((text, (2, 1), [x]), "compiled"), want)


def failing(between: str, *, timeout: float | None = None) -> hlo.HloError:
    """Return the error of a program whose device 0 does something after it has started."""
    text = f"""HloModule m, replica_count=2
{ADD}c {{ n = u32[] parameter(0)  k = u32[] constant(1)
  ROOT t = pred[] compare(n, k), direction=NE }}
b {{ n = u32[] parameter(0)  o = u32[] constant(2)  ROOT m = u32[] add(n, o) }}
yes {{ x = f32[2] parameter(0)  {between} }}
no {{ x = f32[2] parameter(0)  ROOT r = f32[2] negate(x) }}
ENTRY e {{ x = f32[2] parameter(0)
  i = u32[] replica-id()
  zero = u32[] constant(0)
  is_first = pred[] compare(i, zero), direction=EQ
  s = f32[2] all-reduce-start(x), replica_groups={{}}, to_apply=add
  y = f32[2] conditional(is_first, x, x), true_computation=yes, false_computation=no
  d = f32[2] all-reduce-done(s)
  ROOT z = f32[2] add(d, y) }}"""
    hosts: dict[str, Any] = {"custom_calls": {"fail": _fail}}
    client = hlo.Client(2, cache=False)
    for host in client.hosts:
        host.custom_calls.update(hosts["custom_calls"])
    with pytest.raises(hlo.HloError) as e:
        client.execute_replicated(hlo.parse(text), [[X[0]], [X[1]]], timeout=timeout)
    # The devices can run again.
    again = "HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }"
    assert client.execute_and_transfer(hlo.parse(again), [X[1]]).array.tolist() == [4, 6]
    return e.value


def _fail(op: Any, args: Any) -> Any:
    raise hlo.HloError.at("bad-value", "nothing can be had here")


def test_a_device_fails_between_start_and_done() -> None:
    error = failing('ROOT r = f32[2] custom-call(x), custom_call_target="fail"')
    assert error.code == "bad-value" and "device 0" in error.diagnostics[0].message


def test_a_device_that_others_wait_for_is_late() -> None:
    error = failing(
        "n = u32[] constant(0)  w = u32[] while(n), condition=c, body=b\n"
        "  v = f32[] convert(w)  ROOT r = f32[2] broadcast(v), dimensions={}", timeout=0.3,
    )  # fmt: skip
    assert error.code == "timeout"


def test_a_reducer_that_does_not_end_is_late() -> None:
    text = """HloModule m, replica_count=2
c { p = (f32[], f32[]) parameter(0)  ROOT t = pred[] constant(true) }
b { ROOT p = (f32[], f32[]) parameter(0) }
f { x = f32[] parameter(0)  y = f32[] parameter(1)  s = (f32[], f32[]) tuple(x, y)
  w = (f32[], f32[]) while(s), condition=c, body=b
  ROOT r = f32[] get-tuple-element(w), index=0 }
ENTRY e { x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), replica_groups={}, to_apply=f }"""
    client = hlo.Client(2, cache=False)
    with pytest.raises(hlo.HloError) as e:
        client.execute_replicated(hlo.parse(text), [[X[0]], [X[1]]], timeout=0.3)
    assert e.value.code == "timeout"


def test_roots_that_differ_are_an_error_on_all_devices() -> None:
    text = """HloModule m, replica_count=2
ENTRY e { x = f32[2] parameter(0)
  i = u32[] replica-id()
  root = s32[] convert(i)
  ROOT r = f32[2] collective-broadcast(x, root), replica_groups={{0,1}}, has_dynamic_root=true }"""
    for backend in ("compiled", "reference"):
        with pytest.raises(hlo.HloError) as e:
            run_here((text, (2, 1), [X[:2]]), backend)
        assert e.value.code == "bad-value"


def test_eight_devices_meet_on_fewer_processors() -> None:
    text = f"""HloModule m, replica_count=8
{ADD}c {{ p = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(200)  ROOT r = pred[] compare(i, n), direction=LT }}
b {{ p = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  x = f32[2] get-tuple-element(p), index=1  o = s32[] constant(1)  j = s32[] add(i, o)
  t = f32[2] collective-permute(x), source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,4}},{{4,5}},
    {{5,6}},{{6,7}},{{7,0}}}}
  ROOT r = (s32[], f32[2]) tuple(j, t) }}
ENTRY e {{ x = f32[2] parameter(0)  i = s32[] constant(0)  s = (s32[], f32[2]) tuple(i, x)
  w = (s32[], f32[2]) while(s), condition=c, body=b
  ROOT r = f32[2] get-tuple-element(w), index=1 }}"""
    values = np.arange(16, dtype=np.float32).reshape(8, 2)
    # 200 steps around a ring of 8 end where they began.
    assert_equal(run_here((text, (8, 1), [values]), "compiled"), [[v] for v in values])


def test_many_devices_on_few_processors_leave_each_other_time() -> None:
    """Those that wait sleep for so long that the last ones come."""
    count = 800
    module = hlo.parse(f"""HloModule m, replica_count={count}
{ADD}ENTRY e {{ x = f32[] parameter(0)
  ROOT r = f32[] all-reduce(x), replica_groups={{}}, to_apply=add }}""")
    client = hlo.Client(count, cache=False)
    results = client.execute_replicated(module, [[np.float32(1)]] * count, timeout=HANG_S)
    assert [float(client.transfer(r).value) for r in results] == [count] * count
