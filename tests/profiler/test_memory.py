"""The timeline of live buffers: what is live when, what would lower it, and what a run takes."""

from __future__ import annotations

import os

import pytest

import hlo
from tests.harness.schemas import check_schema

MIB = 1 << 20
# y waits for the sum at the end while a longer chain of products runs.
WAITS = """HloModule m ENTRY e {
  x = f32[512,512] parameter(0)
  y = f32[512,512] transpose(x), dimensions={1,0}
  a = f32[512,512] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[512,512] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[512,512] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[512,512] sort(c), dimensions={1}, to_apply={
    p = f32[] parameter(0) q = f32[] parameter(1) ROOT l = pred[] compare(p, q), direction=LT }
  d = f32[512,512] dot(s, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[512,512] add(d, y) }"""
UPDATE = """HloModule m{attributes} ENTRY e {{
  x = f32[262144] parameter(0)  v = f32[8] parameter(1)  i = s32[] constant(3)
  ROOT u = f32[262144] dynamic-update-slice(x, v, i) }}"""


def test_live_buffers_of_a_chain() -> None:
    found = hlo.memory_timeline(hlo.parse(WAITS), passes="")
    by_name = {b.name: b for b in found.buffers if b.kind == "temporary"}
    assert {"a", "b"} <= by_name.keys() and by_name["a"].bytes == MIB
    assert by_name["b"].begin > by_name["a"].begin and by_name["a"].end > by_name["b"].end
    steps = [step for step, _, _ in found.points]
    assert steps == sorted(steps)
    for step, _, live in found.points:
        assert live == sum(b.bytes for b in found.buffers if b.begin <= step <= b.end)
    assert found.peak_bytes == max(live for _, _, live in found.points)
    assert found.peak_bytes == sum(b.bytes for b in found.at_peak) <= found.planned_bytes
    assert [b.location for b in found.buffers if b.kind == "argument"] == ["<string>:2"]


def test_donation_is_advised_and_saves_what_it_says() -> None:
    module = hlo.parse(UPDATE.format(attributes=""))
    before = hlo.memory_timeline(module)
    (advice,) = [a for a in before.suggestions if a.kind == "donation"]
    assert " x " in advice.text and advice.bytes == MIB
    donated = hlo.parse(UPDATE.format(attributes=", input_output_alias={ {}: (0, {}) }"))
    after = hlo.memory_timeline(donated)
    assert before.planned_bytes - after.planned_bytes == advice.bytes
    assert not [a for a in after.suggestions if a.kind == "donation"]
    assert [b.kind for b in after.buffers if b.name == "x"] == ["argument and result"]


def test_padding_of_layouts() -> None:
    text = "HloModule m ENTRY e { ROOT x = f32[3,200]{1,0:T(8,128)} parameter(0) }"
    found = hlo.memory_timeline(hlo.parse(text))
    padding = [a for a in found.suggestions if a.kind == "padding"]
    assert padding and padding[0].bytes == 4 * (8 * 256 - 3 * 200)


def test_copies_of_values_that_are_used_later() -> None:
    text = """HloModule m ENTRY e {
      x = f32[262144] parameter(0)  v = f32[8] parameter(1)  i = s32[] constant(3)
      t = f32[262144] sort(x), dimensions={0}, to_apply={
        p = f32[] parameter(0) q = f32[] parameter(1) ROOT l = pred[] compare(p, q), direction=LT }
      u = f32[262144] dynamic-update-slice(t, v, i)
      w = f32[262144] sort(u), dimensions={0}, to_apply={
        p = f32[] parameter(0) q = f32[] parameter(1) ROOT l = pred[] compare(p, q), direction=GT }
      ROOT r = (f32[262144], f32[262144]) tuple(t, w) }"""
    found = hlo.memory_timeline(hlo.parse(text), passes="")
    assert any(a.kind == "copy" and a.text.startswith("u copies") for a in found.suggestions)
    assert all(a.bytes >= 0.01 * found.planned_bytes for a in found.suggestions)


def test_values_that_wait_beyond_the_peak() -> None:
    product = "{}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}".format
    text = f"""HloModule m ENTRY e {{
      k = f32[512,512] parameter(0)
      y = f32[512,512] {product("dot(k, k)")}
      a = f32[512,512] {product("dot(y, y)")}
      w = f32[2048,512] concatenate(a, a, y, a), dimensions={{0}}
      g = f32[2048,2048] dot(w, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
      s = f32[512,512] slice(g), slice={{[0:512], [7:519]}}
      i = f32[512,512] {product("dot(s, s)")}
      ROOT j = f32[512,512] {product("dot(i, y)")} }}"""
    found = hlo.memory_timeline(hlo.parse(text), passes="")
    (advice,) = [a for a in found.suggestions if a.kind == "rematerialization"]
    assert "y is live from y for j" in advice.text
    assert 0 < advice.bytes <= MIB


def test_positions_in_loops() -> None:
    text = """HloModule m
      c { s = (s32[], f32[512,512]) parameter(0)  i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(9)  ROOT t = pred[] compare(i, n), direction=LT }
      b { s = (s32[], f32[512,512]) parameter(0)  i = s32[] get-tuple-element(s), index=0
        o = s32[] constant(1)  j = s32[] add(i, o)  x = f32[512,512] get-tuple-element(s), index=1
        y = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT r = (s32[], f32[512,512]) tuple(j, y) }
      ENTRY e { z = s32[] constant(0)  x = f32[512,512] parameter(0)
        t = (s32[], f32[512,512]) tuple(z, x)
        ROOT w = (s32[], f32[512,512]) while(t), condition=c, body=b }"""
    found = hlo.memory_timeline(hlo.parse(text), passes="")
    names = [name for _, name, _ in found.points]
    assert names.index("w") < names.index("y")
    assert {b.computation for b in found.buffers if b.name == "y"} == {"b"}
    assert found.peak_at == "y"


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux's /proc")
def test_a_run_takes_what_is_planned() -> None:
    text = WAITS.replace("512", "2048")
    found = hlo.memory_timeline(hlo.parse(text), measure=True)
    assert found.measured_bytes is not None
    # A little more is the interpreter's own; a little less, pages of workspace that nothing wrote.
    assert abs(found.measured_bytes - found.planned_bytes) < 0.1 * found.planned_bytes + 8 * MIB


def test_text_and_json() -> None:
    found = hlo.memory_timeline(hlo.parse(UPDATE.format(attributes="")))
    check_schema("memory-timeline", found.to_json())
    text = found.table()
    assert "live at u:" in text and "how to lower it:" in text and "saves 1 MiB" in text
    assert repr(found).startswith("<MemoryTimeline of m: at most 2 MiB at u")
    empty = hlo.memory_timeline(hlo.parse("HloModule m ENTRY e { ROOT x = f32[4] parameter(0) }"))
    check_schema("memory-timeline", empty.to_json())
    assert empty.table()


def test_bad_modules() -> None:
    text = "HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[3] negate(x) }"
    with pytest.raises(hlo.HloError, match="shape-mismatch"):
        hlo.memory_timeline(hlo.parse(text))
