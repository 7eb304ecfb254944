"""Profiles of runs: times that add up, counts that are exact, and the forms they are shown in."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import hlo
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import build
from hlo.objects.targets import platform
from hlo.profiler.counters import Counters
from hlo.profiler.launching import LaunchProfiler
from hlo.profiler.measure import compile_profiled
from hlo.profiler.profile import Profile, with_peak
from hlo.profiler.recorder import recorder_ir
from hlo.profiler.records import KernelTime, Peak, Slice, Spread
from hlo.runtime.jit import host_machine
from tests.harness.schemas import check_schema
from tests.harness.trace_events import check_trace_events

# A loop of 40 iterations around one of 3, and a conditional that takes each branch in turn.
NESTED = """HloModule nested
inner_cond { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3) ROOT go = pred[] compare(i, n), direction=LT }
inner_body { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[64] get-tuple-element(p), index=1 one = s32[] constant(1)
  j = s32[] add(i, one) inner = f32[64] tanh(x) ROOT t = (s32[], f32[64]) tuple(j, inner) }
even { x = f32[64] parameter(0) ROOT on_even = f32[64] sine(x) }
odd { x = f32[64] parameter(0) ROOT on_odd = f32[64] cosine(x) }
cond { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(40) ROOT go = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[64] get-tuple-element(p), index=1 one = s32[] constant(1) zero = s32[] constant(0)
  j = s32[] add(i, one) start = (s32[], f32[64]) tuple(zero, x)
  loop = (s32[], f32[64]) while(start), condition=inner_cond, body=inner_body
  y = f32[64] get-tuple-element(loop), index=1 low = s32[] and(i, one)
  which = f32[64] conditional(low, y, y), branch_computations={even, odd}
  ROOT t = (s32[], f32[64]) tuple(j, which) }
ENTRY e { x = f32[64] parameter(0) zero = s32[] constant(0) t = (s32[], f32[64]) tuple(zero, x)
  w = (s32[], f32[64]) while(t), condition=cond, body=body
  ROOT r = f32[64] get-tuple-element(w), index=1 }
"""
CHAIN = """HloModule chain
ENTRY e { x = f32[8,8] parameter(0)
  a = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,8] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[8,8] dot(b, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT d = f32[8,8] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""
PARALLEL = """HloModule parallel
ENTRY e { x = f32[1024,1024] parameter(0) y = f32[1024,1024] tanh(x)
  ROOT z = f32[1024,1024] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="jit(f)/layer/dot_general" source_file="f.py" source_line=7} }
"""


def _named(profile: Profile, name: str) -> KernelTime:
    (found,) = [e for e in profile.entries if e.name == name]
    return found


@pytest.fixture(scope="module")
def nested() -> Profile:
    return hlo.profile(hlo.parse(NESTED), repeat=5, passes="", peak=False)


@pytest.fixture(scope="module")
def parallel() -> Profile:
    return hlo.profile(hlo.parse(PARALLEL), repeat=2, passes="", threads=2, peak=False)


def test_counts_are_exact_though_few_calls_are_timed(nested: Profile) -> None:
    calls = {e.name: e.calls for e in nested.entries if e.kind in ("kernel", "conditional")}
    assert calls == {"inner": 120, "which": 40, "on_even": 20, "on_odd": 20}
    assert _named(nested, "w").iterations == 40
    assert _named(nested, "loop").iterations == 120
    assert _named(nested, "loop").calls == 40


def test_times_add_up_to_those_of_the_runs(nested: Profile) -> None:
    assert sum(e.self_s for e in nested.entries) == pytest.approx(nested.wall_s.mean)
    for e in nested.entries:
        others = [x for x in nested.entries if x.parent >= 0]
        inside = sum(x.total_s for x in others if nested.entries[x.parent] is e)
        assert e.total_s == pytest.approx(e.self_s + inside)
        if e.kind != "call":
            assert e.runs_s.mean == pytest.approx(e.total_s)
    assert [e.name for e in nested.path(nested.entries.index(_named(nested, "inner")))] == [
        "nested", "w", "loop", "inner"
    ]  # fmt: skip


@pytest.mark.parametrize("text", [NESTED, CHAIN, PARALLEL])
def test_results_are_those_of_plain_programs(text: str) -> None:
    module = hlo.parse(text)
    (x,) = hlo.random_inputs(module)
    profiled, plain = compile_profiled(module), hlo.compile(module, cache=False)
    for _ in range(3):
        np.testing.assert_array_equal(profiled(x), plain(x))


def test_short_kernels_are_timed_together_at_first() -> None:
    module = hlo.parse(CHAIN)
    once = hlo.profile(module, repeat=1, passes="", peak=False)
    (group,) = [e for e in once.entries if e.kind == "group"]
    assert group.fused == ("a", "b", "c", "d") and group.calls == 1 and group.total_s > 0
    often = hlo.profile(module, repeat=4, passes="", peak=False)
    kernels = [e for e in often.entries if e.kind == "kernel"]
    assert [e.name for e in kernels] == ["a", "b", "c", "d"]
    assert all(e.is_sampled and e.calls == 1 and e.self_s > 0 for e in kernels)
    assert sum(e.self_s for e in often.entries) == pytest.approx(often.wall_s.mean)


def test_a_kernel_says_what_it_computes_and_where_it_is_from(parallel: Profile) -> None:
    z = _named(parallel, "z")
    assert z.opcode == "dot" and z.operations == 2 * 1024**3 and z.bytes == 3 * 4 * 1024**2
    assert (z.location.op_name, z.location.source) == ("jit(f)/layer/dot_general", "f.py:7")
    assert z.location.hlo_line == 3 and "lhs_contracting_dims" in z.hlo


def test_threads_of_the_pool_are_counted(parallel: Profile) -> None:
    assert parallel.threads == 2 and len(parallel.busy_s) == 2
    assert sum(parallel.busy_s) <= 2 * parallel.wall_s.mean
    assert 0 <= parallel.idle_s <= parallel.wall_s.mean
    assert {s.thread for s in parallel.timeline} >= {0, 1}


def test_a_run_that_fails_leaves_no_profile() -> None:
    module = hlo.parse("""HloModule m ENTRY e { x = f32[4] parameter(0)
      ROOT y = f32[4] custom-call(x), custom_call_target="f" }""")

    def fails(*args: object) -> None:
        raise ValueError("no")

    executable = compile_profiled(module, host=hlo.Host(custom_calls={"f": fails}))
    with pytest.raises(Exception, match="no"):
        executable(np.zeros(4, np.float32))
    assert not executable.runs.wall_s and not executable.record[3]


def test_a_profile_as_json_is_read_back(parallel: Profile) -> None:
    text = json.dumps(parallel.to_json())
    assert Profile.from_json(json.loads(text)) == parallel
    for bad in ({}, {"module": 3}, {**parallel.to_json(), "entries": [{}]}):
        with pytest.raises(hlo.HloError, match="not a profile"):
            Profile.from_json(bad)


def test_stacks_are_folded(nested: Profile, parallel: Profile) -> None:
    lines = nested.folded_stacks().splitlines()
    stacks = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}
    assert "nested;entry/overhead;w;loop;inner" in stacks
    assert sum(stacks.values()) == pytest.approx(nested.wall_s.mean * 1e9, rel=0.01)
    assert "parallel;jit(f);layer;dot_general;z " in parallel.folded_stacks("op_name")
    with pytest.raises(hlo.HloError, match="no order 'opname'"):
        parallel.folded_stacks("opname")


def test_the_share_of_the_peak_is_that_of_what_takes_longest() -> None:
    times = (
        KernelTime("x", "kernel", self_s=2e-3, operations=1e6, bytes=1e3, element_type="f32"),
        KernelTime("y", "kernel", self_s=1e-3, operations=1e3, bytes=1e5, element_type="f32"),
        KernelTime("z", "kernel", self_s=1e-3),
    )
    found = with_peak(Profile("m", entries=times), Peak("cpu", 1, {"f32": 1e9}, 1e9), str)
    assert [(e.bound, e.peak_share) for e in found.entries] == [
        ("compute", pytest.approx(0.5)), ("memory", pytest.approx(0.1)), ("", 0.0)
    ]  # fmt: skip


def test_a_table_has_what_takes_most_time_first() -> None:
    times = (
        KernelTime("e", "entry", self_s=1e-6),
        KernelTime("k", "kernel", 0, "add", calls=2, self_s=3e-6, fused=("a", "b"), bytes=6000),
    )
    profile = Profile("m", runs=1, wall_s=Spread(4e-6, 4e-6, 4e-6), entries=times)
    head, names, first, second = profile.table().splitlines()
    assert head == "m: 1 run on 1 thread, 4 us a run"
    assert names.split()[:3] == ["time", "share", "sum"]
    assert first.split() == "3 us 75.0% 75.0% 2 1.5 us 2 k = add of a, b".split()
    assert second.split() == "1 us 25.0% 100.0% 1 1 us entry/overhead".split()
    assert profile.table(1).splitlines()[-1] == "and 1 more: 1 us"


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu"])
def test_the_clock_is_there_for_other_machines(triple: str) -> None:
    machine = platform(triple).machine
    counter = {"x86_64": "rdtsc", "aarch64": "cntvct", "riscv64": "clock_gettime"}
    module = machine.optimize(recorder_ir(triple, has_threads=True))
    assert counter[triple.split("-")[0]] in machine.assembly(module).lower()


def test_a_timeline_is_in_order(nested: Profile) -> None:
    own = [s for s in nested.timeline if s.thread == 0]
    assert own == sorted(own, key=lambda s: s.begin_s)
    assert all(a.begin_s + a.duration_s <= b.begin_s + 1e-9 for a, b in pairwise(own))
    assert {s.mark for s in own} >= {"", "iteration"}
    assert isinstance(own[0], Slice) and own[0].begin_s == 0


def test_json_and_trace_events_are_as_their_schemas_say(nested: Profile, parallel: Profile) -> None:
    for profile in (nested, parallel):
        check_schema("profile", json.loads(json.dumps(profile.to_json())))
        check_trace_events(profile.chrome_trace())


def test_trace_events_are_nested_as_the_program_ran(nested: Profile) -> None:
    events = [e for e in nested.chrome_trace()["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in events if e["name"].startswith("run ")] == [
        f"run {n}" for n in range(5)
    ]
    (*_, inner) = (e for e in events if e["name"] == "inner")
    at = inner["ts"] + inner["dur"] / 2
    around = [e["name"] for e in events if e["ts"] <= at <= e["ts"] + e["dur"]]
    run, outer, iteration, *rest = around[-5:]
    assert run.startswith("run ") and iteration.startswith("iteration")
    assert [outer, *rest] == ["w", "loop", "inner"]
    numbered = [e["name"] for e in events if e["name"].startswith("iteration ")]
    assert "iteration 0" in numbered
    assert inner["args"]["hlo"].startswith("%inner = f32[64]{0} tanh(")


def test_trace_events_do_not_overlap_for_being_rounded() -> None:
    ends = [0.0, 1.0004e-6, 2.0016e-6, 3.0028e-6]
    slices = [
        Slice(n % 2, a, b - a, thread)
        for thread in (0, 1)
        for n, (a, b) in enumerate(pairwise(ends))
    ]
    entries = (KernelTime("e", "entry"), KernelTime("k", "kernel", 0))
    found = Profile("m", runs=1, entries=entries, timeline=tuple(slices)).chrome_trace()
    check_trace_events(found)
    times = [(e["ts"], e["dur"]) for e in found["traceEvents"] if e["ph"] == "X"]
    assert times == [(0, 3.003), (1, 1.002), (0, 1), (1, 1.002), (2.002, 1.001)]


# A loop of 60 iterations around one that runs as often as the first one has.
TRIANGLE = """HloModule triangle
inner_cond { p = (s32[], s32[], f32[256]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1 ROOT go = pred[] compare(i, n), direction=LT }
inner_body { p = (s32[], s32[], f32[256]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1 x = f32[256] get-tuple-element(p), index=2
  one = s32[] constant(1) j = s32[] add(i, one) inner = f32[256] tanh(x)
  ROOT t = (s32[], s32[], f32[256]) tuple(j, n, inner) }
cond { p = (s32[], f32[256]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(60) ROOT go = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[256]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[256] get-tuple-element(p), index=1 one = s32[] constant(1) zero = s32[] constant(0)
  j = s32[] add(i, one) start = (s32[], s32[], f32[256]) tuple(zero, i, x)
  loop = (s32[], s32[], f32[256]) while(start), condition=inner_cond, body=inner_body
  y = f32[256] get-tuple-element(loop), index=2 outer = f32[256] sine(y)
  ROOT t = (s32[], f32[256]) tuple(j, outer) }
ENTRY e { x = f32[256] parameter(0) zero = s32[] constant(0) t = (s32[], f32[256]) tuple(zero, x)
  w = (s32[], f32[256]) while(t), condition=cond, body=body
  ROOT r = f32[256] get-tuple-element(w), index=1 }
"""


# A loop of iterations of some ten nanoseconds; the second time, of so many as an argument says.
TINY = """HloModule tiny
cond {{ p = (s32[], f32[2,2], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0
  known = s32[] constant(500) given = s32[] get-tuple-element(p), index=2
  ROOT go = pred[] compare(i, {bound}), direction=LT }}
body {{ p = (s32[], f32[2,2], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[2,2] get-tuple-element(p), index=1 n = s32[] get-tuple-element(p), index=2
  one = s32[] constant(1) j = s32[] add(i, one)
  tiny = f32[2,2] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT t = (s32[], f32[2,2], s32[]) tuple(j, tiny, n) }}
ENTRY e {{ x = f32[2,2] parameter(0) n = s32[] parameter(1) zero = s32[] constant(0)
  t = (s32[], f32[2,2], s32[]) tuple(zero, x, n)
  w = (s32[], f32[2,2], s32[]) while(t), condition=cond, body=body
  ROOT r = f32[2,2] get-tuple-element(w), index=1 }}
"""


@pytest.mark.parametrize("bound", ["known", "given"])
def test_loops_of_tiny_iterations_are_timed_as_a_whole(bound: str) -> None:
    module, x = hlo.parse(TINY.format(bound=bound)), np.eye(2, dtype=np.float32)
    found = hlo.profile(module, x, np.int32(500), repeat=3, passes="", peak=False)
    w = _named(found, "w")
    assert (w.calls, w.iterations, w.fused) == (1, 500, ("tiny",)) and w.self_s > 0
    assert [e.kind for e in found.entries] == ["entry", "while", "call"]
    assert w.operations >= (bound == "known") * 500 * 2 * 8
    check_schema("profile", json.loads(json.dumps(found.to_json())))
    check_trace_events(found.chrome_trace())


def test_iterations_of_unknown_number_are_counted() -> None:
    module = hlo.parse(TRIANGLE)
    found = hlo.profile(module, repeat=7, passes="", peak=False)
    assert (_named(found, "w").iterations, _named(found, "outer").calls) == (60, 60)
    assert (_named(found, "loop").iterations, _named(found, "inner").calls) == (1770, 1770)
    (x,) = hlo.random_inputs(module)
    np.testing.assert_array_equal(compile_profiled(module)(x), hlo.compile(module, cache=False)(x))


@pytest.mark.parametrize("text", [NESTED, TRIANGLE, PARALLEL])
def test_kernels_are_those_of_plain_programs(text: str) -> None:
    module, machine = hlo.parse(text), host_machine()
    counters, plainly = Counters(machine.triple, has_threads=True), Instrumentation()
    plainly.keeps_names = True
    plain, profiled = (
        [_functions(c) for c in build(module, machine, Clock(), instrumentation=i).code]
        for i in (plainly, counters)
    )
    assert profiled[: len(plain)] == plain


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="of Linux")
def test_native_functions_are_found_in_memory() -> None:
    executable = compile_profiled(hlo.parse(PARALLEL), passes="", threads=2)
    found = {name: (at, size) for at, size, name in executable.symbols()}
    assert found["hlo_entry"][0] == executable._entry_at
    assert {"kernel.y", "kernel.z", "hlo.profile.switch"} <= found.keys()
    assert all(size > 0 for _, size in found.values())
    lines = executable.perf_map().splitlines()
    assert f"{executable._entry_at:x} {found['hlo_entry'][1]:x} hlo_entry" in lines
    addresses = [int(line.split()[0], 16) for line in lines]
    assert addresses == sorted(addresses)


def _functions(code: bytes) -> list[str]:
    """Return the names of the kernels in an object file, in order."""
    return [s.decode() for s in code.split(b"\0") if s.startswith(b"kernel.")]


# As JAX writes it: the metadata has a stack frame, and the tables have the line and the function.
FRAMES = """HloModule m

FileNames
1 "/home/me/model.py"

FunctionNames
1 "main"
2 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=20 end_line=20 column=1 end_column=9}
2 {file_name_id=1 function_name_id=2 line=7 end_line=7 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}

ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="f/dot" stack_frame_id=2}
  ROOT z = f32[64,64] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="f/dot" stack_frame_id=1} }
"""


def test_kernels_have_the_line_and_function_of_the_program() -> None:
    module = hlo.parse(FRAMES)
    places = {e.name: e.location for e in hlo.profile(module, repeat=1, peak=False).entries}
    assert (places["y"].source, places["y"].function) == ("/home/me/model.py:7", "layer")
    assert str(places["z"]).startswith("/home/me/model.py:20 in main (f/dot)")
    kept = {b.name: b.location for b in hlo.memory_timeline(module).buffers}
    assert kept["y"].startswith("/home/me/model.py:7 in layer (f/dot)")
    launches = LaunchProfiler(hlo.compile(module, backend="gpu-emulated", cache=False))
    launches.run(hlo.Host(), list(hlo.random_inputs(module)))
    assert {e.location.function for e in launches.profile().entries} >= {"layer", "main"}
