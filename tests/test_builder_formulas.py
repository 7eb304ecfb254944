"""The documents' examples that state formulas, shapes or several devices rather than numbers."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from builder_cases import plus
from test_builder_examples import as_lists

import hlo
from hlo.builder import GatherDimensionNumbers, ScatterDimensionNumbers, XlaBuilder, XlaOp


def run(b: XlaBuilder, *args: Any, **host: Any) -> Any:
    """Return what the program computes."""
    return hlo.interpret(b.build().module(), *args, host=hlo.Host(**host))


@pytest.mark.parametrize(
    ("operand", "element_type", "result"),
    [
        ("f32[10]", "f16", "f16[10,2]"),
        ("f32[]", "f16", "f16[2]"),
        ("f16[10,2]", "f32", "f32[10]"),
        ("s32[3]", "s8", "s8[3,4]"),
        ("s32[3]", "f32", "f32[3]"),
    ],
)
def test_bitcasts_between_widths(operand: str, element_type: str, result: str) -> None:
    b = XlaBuilder("bitcast")
    cast = b.bitcast_convert_type(b.parameter(0, operand), element_type)
    assert cast.shape.to_string(False) == result
    assert b.bitcast_convert_type(cast, operand[:3]).shape.to_string(False) == operand


def test_gather_of_slices_is_a_batch_of_dynamic_slices() -> None:
    """Element [g, i, j] is the operand's at [x + i, y + j]; a batch of 5, then of 4 by 5."""
    rng = np.random.default_rng(0)
    values = np.arange(16 * 11, dtype=np.float32).reshape(16, 11)
    for batch in ((5,), (4, 5)):
        starts = np.stack([rng.integers(0, 9, batch), rng.integers(0, 6, batch)], -1)
        n = len(batch)
        b = XlaBuilder("gather")
        b.gather(
            b.parameter(0, "f32[16,11]"), b.constant(starts),
            GatherDimensionNumbers((n, n + 1), (), (0, 1), n), (8, 6),
        )  # fmt: skip
        got = run(b, values)
        for at in np.ndindex(*batch):
            x, y = starts[at]
            assert np.array_equal(got[at], values[x : x + 8, y : y + 6])


def test_gather_of_rows() -> None:
    """Element [g, h, i] is the operand's at [indices[g, h, 0], i]."""
    values = np.arange(16 * 11, dtype=np.float32).reshape(16, 11)
    indices = np.random.default_rng(1).integers(0, 16, (4, 5, 1))
    b = XlaBuilder("rows")
    numbers = GatherDimensionNumbers((2,), (0,), (0,), 2)
    b.gather(b.parameter(0, "f32[16,11]"), b.constant(indices), numbers, (1, 11))
    assert np.array_equal(run(b, values), values[indices[..., 0]])


def test_scatter_with_batches() -> None:
    """Shapes and dimension numbers of the page's table; updates outside are skipped."""
    rng = np.random.default_rng(2)
    operand = rng.integers(0, 9, (2, 3, 4, 2)).astype(np.int32)
    indices = rng.integers(0, 4, (2, 2, 3, 2))
    updates = rng.integers(0, 9, (2, 2, 3, 1, 2)).astype(np.int32)
    b = XlaBuilder("scatter")
    numbers = ScatterDimensionNumbers((3, 4), (1,), (2, 1), 3, (0,), (1,))
    b.scatter(b.constant(operand), b.constant(indices), b.constant(updates), plus, numbers)
    want, skipped = operand.copy(), 0
    for i, batch, j in np.ndindex(2, 2, 3):
        at = indices[i, batch, j]  # positions along dimensions 2 and 1 of the operand
        if at[1] < 3:
            want[batch, at[1], at[0], :] += updates[i, batch, j, 0, :]
        skipped += at[1] >= 3
    assert skipped
    assert np.array_equal(run(b), want)


def test_padding_before_after_and_between() -> None:
    b = XlaBuilder("pad")
    b.pad(b.constant([[1, 2, 3], [4, 5, 6]]), 0, [(1, 2, 0), (0, -1, 1)])
    rows = [[1, 0, 2, 0], [4, 0, 5, 0]]
    assert as_lists(run(b)) == [[0] * 4, *rows, [0] * 4, [0] * 4]


def test_convolution_is_the_sum_of_the_pages_loops() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, (2, 3, 5, 6)).astype(np.float32)
    w = rng.integers(-4, 5, (4, 3, 2, 3)).astype(np.float32)
    strides, pads = (2, 1), [(1, 0), (2, 3)]
    b = XlaBuilder("conv")
    b.conv_with_general_padding(b.constant(x), b.constant(w), strides, pads)
    got = run(b)
    want = np.zeros_like(got)
    for n, oz, oy, ox in np.ndindex(*want.shape):
        for iz, ky, kx in np.ndindex(3, 2, 3):
            iy = oy * strides[0] + ky - pads[0][0]
            ix = ox * strides[1] + kx - pads[1][0]
            if 0 <= iy < 5 and 0 <= ix < 6:
                want[n, oz, oy, ox] += x[n, iz, iy, ix] * w[oz, iz, ky, kx]
    assert got.shape == (2, 4, 3, 9)
    assert np.array_equal(got, want)


def test_batch_norm_follows_the_formulas() -> None:
    rng = np.random.default_rng(4)
    x, dy = rng.standard_normal((2, 3, 2, 4), np.float32), rng.standard_normal((2, 3, 2, 4))
    dy = dy.astype(np.float32)
    gamma, beta, epsilon = np.float32([1, 2, 3, 4]), np.float32([0, 1, 0, -1]), 0.01
    axes, count = (0, 1, 2), 12
    mean, var = x.mean(axes), x.var(axes)
    root = np.sqrt(var + epsilon)
    b = XlaBuilder("batch_norm")
    given = [b.constant(v) for v in (x, gamma, beta, mean, var, dy)]
    train = b.batch_norm_training(given[0], given[1], given[2], epsilon, 3)
    infer = b.batch_norm_inference(*given[:5], epsilon, 3)
    grad = b.batch_norm_grad(given[0], given[1], given[3], given[4], given[5], epsilon, 3)
    b.tuple_([train, infer, grad])
    (y, batch_mean, batch_var), inferred, (dx, dgamma, dbeta) = run(b)
    want = gamma * (x - mean) / root + beta
    c = (dy * (x - mean) / (var + epsilon)).sum(axes) / count
    d = dy.sum(axes) / count
    close = np.testing.assert_allclose
    close(y, want, 1e-4, 1e-5)
    close(inferred, want, 1e-4, 1e-5)
    close(batch_mean, mean, 1e-5, 1e-6)
    close(batch_var, var, 1e-5)
    close(dx, gamma / root * (dy - d - c * (x - mean)), 1e-3, 1e-4)
    close(dgamma, (dy * (x - mean) / root).sum(axes), 1e-4, 1e-5)
    close(dbeta, dy.sum(axes), 1e-4, 1e-5)


def test_ragged_all_to_all_of_two_replicas() -> None:
    """What a replica gets, piece by piece from each: an operation on one device at a time."""
    inputs = [[1, 2, 2], [3, 4, 0]]
    input_offsets, send_sizes = [[0, 1], [0, 1]], [[1, 2], [1, 1]]
    output_offsets = [[0, 0], [1, 2]]
    want = [[1, 3, 0, 0], [2, 2, 4, 0]]
    for receiver in range(2):
        output = np.zeros(4, np.int32)
        for sender in range(2):
            b = XlaBuilder("ragged")
            numbers = (input_offsets, send_sizes, output_offsets, send_sizes)
            offset, size, to, _ = (b.constant([n[sender][receiver]]) for n in numbers)
            source = b.constant(inputs[sender])
            b.ragged_all_to_all(source, offset, size, b.constant(output), to, size, [[0]])
            output = run(b)
        assert output.tolist() == want[receiver]


def test_custom_call_gets_its_operands() -> None:
    def myfunc(op: Any, args: Any) -> Any:
        x, y = args
        z = np.zeros((3, 3), np.float32)
        z[0, 0] = x[1] + y[1, 0]
        return z

    b = XlaBuilder("custom")
    x, y = b.constant([1.0, 2.0]), b.constant([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])
    b.custom_call("myfunc", [x, y], "f32[3,3]")
    assert run(b, custom_calls={"myfunc": myfunc})[0, 0] == 42


def test_infeeds_of_two_loops_come_in_order() -> None:
    b = XlaBuilder("infeed")

    def read(state: XlaOp) -> XlaOp:
        inner = state.builder
        return inner.tuple_([state[0] + 1, state[1] * 10.0 + inner.infeed("f32[]")])

    state = b.tuple_([b.constant(0), b.constant(0.0)])
    for stop in (2, 4):
        state = b.while_(lambda s, stop=stop: s[0] < stop, read, state)
    values = deque(np.float32(i) for i in (1, 2, 3, 4))
    assert as_lists(run(b, infeed=values)) == (4, 1234.0)


def test_an_infeed_of_an_empty_tuple_reads_nothing() -> None:
    b = XlaBuilder("nothing")
    module = b.build(b.infeed("()")).module()
    host = hlo.Host(infeed=deque(["left"]))
    assert hlo.interpret(module, host=host) == ()
    assert hlo.compile(module, host=host, cache=False)() == ()
    assert list(host.infeed) == ["left"]


def test_infeeds_without_an_order_are_read_as_they_were_appended() -> None:
    b = XlaBuilder("unordered")
    module = b.build(b.tuple_([b.infeed("f32[]"), b.infeed("f32[]")])).module()
    for compiled in (False, True):
        host = hlo.Host(infeed=deque(np.float32([1, 2])))
        run = hlo.compile(module, host=host, cache=False) if compiled else None
        got = run() if run else hlo.interpret(module, host=host)
        assert as_lists(got) == (1, 2)


def test_all_to_all_shapes() -> None:
    b = XlaBuilder("alltoall")
    x = b.parameter(0, "f32[4,16]", "x")
    assert b.all_to_all(x, split_dimension=1, concat_dimension=0, split_count=4).dims == (16, 4)
    assert b.all_to_all(b.parameter(1, "f32[2,4]"), 1, 0, 2, [[0, 1]]).dims == (4, 2)


def test_a_composite_call_says_what_it_is() -> None:
    b = XlaBuilder("composite")
    attributes = "{n = 1 : i32, tensor = dense<1> : tensor<i32>}"
    op = b.composite_call(lambda x: x, [b.constant(1.0)], "foo.bar", attributes, 1)
    assert op.instruction.annotations["frontend_attributes"] == {
        "composite.name": "foo.bar",
        "composite.attributes": attributes,
        "composite.version": "1",
    }
    text = str(b.build())
    assert "is_composite=true" in text and 'composite.name="foo.bar"' in text
