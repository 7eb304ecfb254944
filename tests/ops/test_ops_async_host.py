"""Asynchronous operations, and exchange with the host through queues."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.eval import Host, interpret
from hlo.frontends.text import parse
from hlo.values.arrays import TOKEN_VALUE
from tests.harness.oracle import xla_parse
from tests.harness.run_both import errors, run

X = np.array([1, -2, 3, 0.5], np.float32)

ASYNC = """HloModule m
wrapped {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT r = f32[4] subtract(a, b)
}, execution_thread="side"
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = ((f32[4], f32[4]), f32[4], u32[], s32[]) async-start(x, y), async_execution_thread="side",
    calls=wrapped
  u = ((f32[4], f32[4]), f32[4], u32[], s32[]) async-update(s)
  v = ((f32[4], f32[4]), f32[4], u32[], s32[]) async-update(u)
  ROOT d = f32[4] async-done(v)
}
"""
SUGAR = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = ((f32[4], f32[4]), f32[4]) subtract-start(x, y), async_execution_thread="side"
  u = ((f32[4], f32[4]), f32[4]) subtract-update(s)
  ROOT d = f32[4] subtract-done(u)
}
"""
COPY = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  s = (f32[4]{0:S(1)}, f32[4], u32[]) copy-start(x), cross_program_prefetch_index=2
  ROOT d = f32[4]{0:S(1)} copy-done(s)
}
"""


@pytest.mark.parametrize("text", [ASYNC, SUGAR], ids=["async", "sugar"])
def test_an_async_chain_yields_what_it_wraps(text: str) -> None:
    np.testing.assert_array_equal(run(text, [X, X * 3]), X - X * 3)
    printed = str(parse(text))
    assert str(parse(printed)) == printed
    assert xla_parse(printed) == xla_parse(text)


def test_the_value_of_a_start_has_operands_result_and_contexts() -> None:
    text = ASYNC.replace("ROOT d = f32[4]", "d = f32[4]").replace("  s = ((", "  ROOT s = ((")
    operands, result, *contexts = interpret(parse(text), [X, X])
    assert operands[0] is X and operands[1] is X
    np.testing.assert_array_equal(result, X - X)
    assert [(c.dtype, c.shape, int(c)) for c in contexts] == [("uint32", (), 0), ("int32", (), 0)]


def test_a_copy_in_two_steps_is_a_copy() -> None:
    np.testing.assert_array_equal(run(COPY, [X]), X)


@pytest.mark.parametrize(
    ("text", "old", "new", "code"),
    [
        (ASYNC, "async-start(x, y)", "async-start(x)", "bad-computation"),
        (ASYNC, "s = ((f32[4], f32[4]), f32[4], u32[], s32[])", "s = ((f32[4], f32[4]))",
         "shape-mismatch"),
        (ASYNC, "s = ((f32[4], f32[4]), f32[4], u32[], s32[])",
         "s = ((f32[4], f32[4]), f32[5], u32[], s32[])", "shape-mismatch"),
        (ASYNC, "ROOT d = f32[4] async-done(v)", "ROOT d = f32[4] async-done(x)",
         "shape-mismatch"),
        (ASYNC, "ROOT d = f32[4] async-done", "ROOT d = f32[5] async-done", "shape-mismatch"),
        (ASYNC, "calls=wrapped",
         "calls=wrapped, output_to_operand_aliasing={{}: (2, {})}", "index-out-of-range"),
        (COPY, "s = (f32[4]{0:S(1)}, f32[4], u32[])", "s = f32[4]", "shape-mismatch"),
        (COPY, "copy-done(s)", "copy-done(x)", "shape-mismatch"),
    ],
)  # fmt: skip
def test_a_broken_chain_is_an_error(text: str, old: str, new: str, code: str) -> None:
    assert old in text
    assert code in [c for c, _ in errors(text.replace(old, new))]


# --- infeed, outfeed ----------------------------------------------------------------------------

FEED = """HloModule feed
ENTRY e {
  t = token[] after-all()
  i = ((f32[4], s32[]), token[]) infeed(t), infeed_config="cfg"
  p = (f32[4], s32[]) get-tuple-element(i), index=0
  u = token[] get-tuple-element(i), index=1
  x = f32[4] get-tuple-element(p), index=0
  n = f32[4] negate(x)
  o = token[] outfeed(n, u), outfeed_shape=f32[4]{0}
  q = token[] outfeed(p, o)
  ROOT r = (f32[4], token[]) tuple(n, q)
}
"""


def test_feeds_are_read_and_written_in_order() -> None:
    host = Host(infeed=deque([(X, np.asarray(7, np.int32)), "left"]))
    n, token = interpret(parse(FEED), [], host)
    np.testing.assert_array_equal(n, -X)
    assert token is TOKEN_VALUE and list(host.infeed) == ["left"]
    np.testing.assert_array_equal(host.outfeed[0], -X)
    assert host.outfeed[1][1] == 7


@pytest.mark.parametrize(
    ("queue", "code"),
    [
        ([], "empty-queue"),
        ([X], "bad-value"),
        ([(X, X)], "bad-value"),
        ([(X[:2], np.asarray(7, np.int32))], "bad-value"),
    ],
)
def test_a_feed_that_does_not_fit_is_an_error(queue: list[object], code: str) -> None:
    with pytest.raises(HloError) as e:
        interpret(parse(FEED), [], Host(infeed=deque(queue)))
    assert e.value.code == code and e.value.diagnostics[0].span is not None


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("infeed(t)", "infeed(x)", "type-mismatch"),
        ("i = ((f32[4], s32[]), token[])", "i = (f32[4], s32[], token[])", "shape-mismatch"),
        ("outfeed(n, u)", "outfeed(n, n)", "type-mismatch"),
        ("outfeed_shape=f32[4]{0}", "outfeed_shape=f32[5]{0}", "shape-mismatch"),
    ],
)
def test_a_broken_feed_is_an_error(old: str, new: str, code: str) -> None:
    text = FEED.replace("t = token", "x = f32[4] parameter(0)\n  t = token").replace(
        "  x = f32[4] get", "  z = f32[4] get").replace("negate(x)", "negate(z)")  # fmt: skip
    assert errors(text) == []
    assert code in [c for c, _ in errors(text.replace(old, new))]


# --- send, recv ---------------------------------------------------------------------------------

TRANSFER = """HloModule transfer
ENTRY e {
  x = f32[4] parameter(0)
  t = token[] after-all()
  r = (f32[4], u32[], token[]) recv(t), channel_id=3
  s = (f32[4], u32[], token[]) send(x, t), channel_id=3
  a = token[] send-done(s), channel_id=3
  ROOT d = (f32[4], token[]) recv-done(r), channel_id=3
}
"""
TO_HOST = """HloModule host
ENTRY e {
  x = f32[4] parameter(0)
  t = token[] after-all()
  s = (f32[4], u32[], token[]) send(x, t), channel_id=7, is_host_transfer=true
  a = token[] send-done(s), channel_id=7, is_host_transfer=true
  r = (f32[4], u32[], token[]) recv(a), channel_id=8, is_host_transfer=true
  ROOT d = (f32[4], token[]) recv-done(r), channel_id=8, is_host_transfer=true
}
"""


def test_what_is_sent_is_received_on_the_channel() -> None:
    data, token = run(TRANSFER, [X])
    np.testing.assert_array_equal(data, X)
    assert token is TOKEN_VALUE


def test_the_host_is_at_the_other_end_of_its_channels() -> None:
    host = Host(channels={8: deque([X * 2])})
    data, _ = interpret(parse(TO_HOST), [X], host)
    np.testing.assert_array_equal(data, X * 2)
    np.testing.assert_array_equal(host.channels[7].popleft(), X)


def test_nothing_to_receive_is_an_error() -> None:
    with pytest.raises(HloError) as e:
        run(TO_HOST, [X])
    assert e.value.code == "empty-queue" and "channel 8" in str(e.value)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("send(x, t)", "send(x, x)", "type-mismatch"),
        ("recv(t)", "recv(x)", "type-mismatch"),
        ("r = (f32[4], u32[], token[])", "r = (f32[4], token[])", "shape-mismatch"),
        ("s = (f32[4], u32[], token[])", "s = (f32[5], u32[], token[])", "shape-mismatch"),
        ("send-done(s)", "send-done(x)", "type-mismatch"),
        ("d = (f32[4], token[])", "d = (f32[5], token[])", "shape-mismatch"),
    ],
)
def test_a_broken_transfer_is_an_error(old: str, new: str, code: str) -> None:
    assert old in TRANSFER
    assert code in [c for c, _ in errors(TRANSFER.replace(old, new))]
