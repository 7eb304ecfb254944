"""The documents' examples that state formulas, shapes or several devices rather than numbers."""

from __future__ import annotations

import shutil
import subprocess
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.builder import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    XlaBuilder,
    XlaOp,
    literal_of,
)
from tests.frontends.test_builder_examples import as_lists
from tests.harness.builder_cases import plus
from tests.harness.oracle import xla_parse


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


@pytest.mark.parametrize(
    ("indices", "offsets", "collapsed", "start_map", "vector"),
    [
        ((5, 2), (1, 2, 3, 4), (), (0, 3), 1),
        ((2, 4, 5), (1, 3), (0, 2), (2, 0), 0),  # the vectors run along the first dimension
        ((3, 2, 2), (0, 2, 4), (1,), (3, 1), 1),  # and along the middle one
        ((4, 3), (1, 3), (1, 3), (2,), 2),  # and along one of size 1 that is not there
        ((3,), (0, 1, 2), (2,), (3, 0, 1), 0),  # one vector: the result has windows only
    ],
)
def test_gather_is_the_pages_formula(
    indices: tuple[int, ...], offsets: tuple[int, ...], collapsed: tuple[int, ...],
    start_map: tuple[int, ...], vector: int,
) -> None:  # fmt: skip
    """000, in its words: an element of the result is the operand's at S_in + W_in."""
    rng = np.random.default_rng(6)
    operand = np.arange(4 * 5 * 6 * 3).reshape(4, 5, 6, 3).astype(np.int32)
    sizes = tuple(1 if d in collapsed else 2 for d in range(4))
    starts = rng.integers(0, 2, indices)
    b = XlaBuilder("gather")
    numbers = GatherDimensionNumbers(offsets, collapsed, start_map, vector)
    b.gather(b.constant(operand), b.constant(starts), numbers, sizes)
    got = run(b)
    vectors = starts[..., None] if vector == starts.ndim else starts
    kept = [d for d in range(4) if d not in collapsed]  # window_dims_to_operand_dims
    batch = [d for d in range(got.ndim) if d not in offsets]
    assert got.ndim == len(offsets) + vectors.ndim - 1
    for out in np.ndindex(got.shape):
        at = [out[d] for d in batch]
        start, window = [0] * 4, [0] * 4
        for i, d in enumerate(start_map):
            start[d] = vectors[(*at[:vector], i, *at[vector:])]
        for k, d in enumerate(offsets):
            window[kept[k]] = out[d]
        assert got[out] == operand[tuple(np.add(start, window))]


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


def test_negative_padding_takes_from_what_holes_have_made_longer() -> None:
    b = XlaBuilder("pad")
    b.pad(b.constant([1, 2, 3]), 0, [(-1, -1, 1)])
    assert as_lists(run(b)) == [0, 2, 0]


def test_reduce_window_by_a_computation_that_was_built() -> None:
    """The program of the pages: a reducer's last operation is its result."""
    inner = XlaBuilder("max")
    inner.max_(inner.parameter(0, "f32[]", "y"), inner.parameter(1, "f32[]", "x"))
    largest = inner.build()
    b = XlaBuilder("reduce_window_2x3")
    given = b.parameter(0, "f32[4,6]", "input")
    start = b.constant_literal(literal_of(np.finfo(np.float32).min))
    b.reduce_window(given, start, largest, (2, 3), (2, 3), "VALID")
    values = -np.arange(24, dtype=np.float32).reshape(4, 6)
    assert as_lists(run(b, values)) == [[0, -3], [-12, -15]]


def test_collapse_of_the_interfaces_comment() -> None:
    b = XlaBuilder("collapse")
    assert b.collapse(b.parameter(0, "f32[256,2,2,32]"), (0, 1, 2)).dims == (1024, 32)


def test_broadcast_rev_and_transpose_are_their_formulas() -> None:
    x = np.arange(24, dtype=np.int32).reshape(4, 2, 3)
    order = (2, 0, 1)
    b = XlaBuilder("formulas")
    v = b.constant(x)
    permuted = [x.shape[d] for d in order]
    b.tuple_([
        b.broadcast(v, (5, 1)), b.rev(v, (0, 2)), b.transpose(v, order),
        b.reshape(v, order, permuted), b.trans(v[1]), b.reshape(v[1], (1, 0), (3, 2)),
    ])  # fmt: skip
    wide, turned, moved, flattened, matrix, other = run(b)
    assert wide.shape == (5, 1, 4, 2, 3) and moved.shape == tuple(permuted)
    for i, j, k in np.ndindex(4, 2, 3):
        assert np.all(wide[:, :, i, j, k] == x[i, j, k])
        assert turned[3 - i, j, 2 - k] == x[i, j, k] == moved[k, i, j]
    assert np.array_equal(moved, flattened) and np.array_equal(matrix, other)


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ("f32[]", "f32[]", ()),
        ("f32[4]", "f32[4]", ()),
        ("f32[2,4]", "f32[4]", (2,)),
        ("f32[2,4]", "f32[4,3]", (2, 3)),
        ("f32[2,3,4]", "f32[5,4,6]", (2, 3, 5, 6)),
        # A scalar times an array, which the pages leave open, is as in numpy.
        ("f32[]", "f32[3]", (3,)),
        ("f32[2,3]", "f32[]", (2, 3)),
    ],
)
def test_dot_is_numpys(lhs: str, rhs: str, result: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    b = XlaBuilder("dot")
    product = b.dot(b.parameter(0, lhs), b.parameter(1, rhs))
    assert product.dims == result
    shapes = b.get_program_shape().parameters
    x, y = (rng.integers(-4, 5, s.dims).astype(np.float32) for s in shapes)  # type: ignore[attr-defined]
    assert np.array_equal(run(b, x, y), np.dot(x, y))


@pytest.mark.parametrize(
    ("lhs", "rhs", "batch", "result"),
    [
        ("f32[7,2,3]", "f32[7,3,5]", 1, (7, 2, 5)),
        ("f32[7,6,2,3]", "f32[7,6,3,5]", 2, (7, 6, 2, 5)),
    ],
)
def test_products_in_batches(lhs: str, rhs: str, batch: int, result: tuple[int, ...]) -> None:
    b = XlaBuilder("batches")
    first = tuple(range(batch))
    numbers = DotDimensionNumbers((batch + 1,), (batch,), first, first)
    assert b.dot_general(b.parameter(0, lhs), b.parameter(1, rhs), numbers).dims == result


@pytest.mark.parametrize("size", range(1, 8))
def test_same_padding_keeps_the_size_of_the_input(size: int) -> None:
    """Not taking strides into account; with them it is divided by the stride, rounded up."""
    b = XlaBuilder("same")
    x = b.parameter(0, "f32[2,1,9,7]")
    w = b.parameter(1, f"f32[4,1,{size},3]")
    assert b.conv(x, w, (1, 1), "SAME").dims == (2, 4, 9, 7)
    assert b.conv(x, w, (2, 4), "same").dims == (2, 4, 5, 2)
    assert b.reduce_window(x, 0.0, plus, (1, 1, size, 2), (1, 1, 1, 3), "SAME").dims == (2, 1, 9, 3)


def test_padding_and_dilation_are_zeros_that_are_inserted_before() -> None:
    """Negative padding takes elements away; holes between elements are zeros."""
    rng = np.random.default_rng(8)
    b = XlaBuilder("zeros")
    x = b.constant(rng.integers(-4, 5, (1, 2, 6)).astype(np.float32))
    w = b.constant(rng.integers(-4, 5, (3, 2, 2)).astype(np.float32))
    none = (0, 0, 0)
    for low, high in ((2, 3), (-1, 2), (-2, -1)):
        got = b.conv_with_general_padding(
            x, w, (2,), [(low, high)], lhs_dilation=(3,), rhs_dilation=(2,)
        )
        wide = b.pad(x, 0.0, [none, none, (low, high, 2)])
        want = b.conv(wide, b.pad(w, 0.0, [none, none, (0, 0, 1)]), (2,), "VALID")
        b.tuple_([got, want])
        first, second = run(b)
        assert first.size and np.array_equal(first, second)


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


def test_custom_call_of_the_pages_c_function(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "f.c").write_text(
        """void myfunc(void *out, void **in) {
  float *x = in[0], *y = in[1], *z = out;
  for (int i = 0; i < 9; ++i) z[i] = 0;
  z[0] = x[1] + y[3];
}
"""
    )
    library = str(tmp_path / "f.so")
    command = [compiler, "-shared", "-fPIC", "-o", library, str(tmp_path / "f.c")]
    subprocess.run(command, check=True)
    b = XlaBuilder("custom")
    x, y = b.constant([1.0, 2.0]), b.constant([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])
    module = b.build(b.custom_call("myfunc", [x, y], "f32[3,3]")).module()
    host = hlo.Host(libraries=[library])
    for got in (hlo.interpret(module, host=host), hlo.compile(module, host=host, cache=False)()):
        assert got.tolist() == [[42, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_a_custom_call_says_all_that_it_was_given() -> None:
    b = XlaBuilder("custom")
    x = b.parameter(0, "f32[2,3]")
    b.custom_call(
        "f", [x, x], "f32[2,3]", "text",
        operand_shapes_with_layout=["f32[2,3]{0,1}", "f32[2,3]{1,0}"], has_side_effect=True,
        output_operand_aliasing=[((), (1, ()))], literal=hlo.Literal.of(np.float32([1, 2])),
        computations=[lambda a, c: a + c], schedule="SCHEDULE_LATEST",
        api_version="API_VERSION_STATUS_RETURNING_UNIFIED",
    )  # fmt: skip
    text = str(b.build())
    for said in (
        'custom_call_target="f"', 'backend_config="text"', "custom_call_has_side_effect=true",
        "operand_layout_constraints={f32[2,3]{0,1}, f32[2,3]{1,0}}",
        "output_to_operand_aliasing={{}: (1, {})}", "literal=f32[2]{0} {1, 2}",
        "schedule=SCHEDULE_LATEST", "api_version=API_VERSION_STATUS_RETURNING_UNIFIED",
        "called_computations={%lambda}",
    ):  # fmt: skip
        assert said in text, said
    xla_parse(text)


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
    module = b.build(b.tuple_([b.infeed("()"), b.infeed("s32[]")])).module()
    for compiled in (False, True):
        host = hlo.Host(infeed=deque([np.int32(7)]))
        got = (
            hlo.compile(module, host=host, cache=False)()
            if compiled
            else hlo.interpret(module, host=host)
        )
        assert got == ((), 7)
        assert not host.infeed


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
    said = b.composite_call(lambda x: x, [op], "foo.bar").instruction.annotations
    assert said["frontend_attributes"] == {
        "composite.name": "foo.bar", "composite.attributes": "{}", "composite.version": "0",
    }  # fmt: skip
