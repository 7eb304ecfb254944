"""Operations that the documents explain by others: both ways have to give the same numbers.

Values are small whole numbers where sums are compared, so that every order of adding gives one
result. The interpreter and compiled code are compared with numpy, and with each other.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.builder import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    RaggedDotDimensionNumbers,
    ScatterDimensionNumbers,
    XlaBuilder,
    XlaOp,
)
from tests.harness.builder_cases import plus
from tests.harness.oracle import XlaError, assert_same, leaves, xla_run

_RNG = np.random.default_rng(11)


def whole(*dims: int) -> Any:
    """Return an array of small whole numbers."""
    return _RNG.integers(-4, 5, dims).astype(np.float32)


def runs(b: XlaBuilder, root: XlaOp) -> list[list[Any]]:
    """Return what the interpreter and compiled code make of a program without parameters."""
    module = b.build(root).module()
    return [leaves(hlo.interpret(module)), leaves(hlo.compile(module, cache=False, passes="")())]


def need_same(b: XlaBuilder, *pairs: tuple[XlaOp, Any]) -> None:
    """Check that each value of a program is another, or a numpy array."""
    roots = [root for pair in pairs for root in pair if isinstance(root, XlaOp)]
    for found in runs(b, b.tuple_(roots)):
        values = iter(found)
        for _, right in pairs:
            got = next(values)
            want = next(values) if isinstance(right, XlaOp) else right
            assert_same(got, want, rtol=1e-5, atol=1e-5)


# --- convolution --------------------------------------------------------------------------------


def test_groups_of_features_are_separate_convolutions() -> None:
    x, w = whole(2, 6, 5), whole(4, 3, 2)
    b = XlaBuilder("groups")
    lhs, rhs = b.constant(x), b.constant(w)
    parts = [
        b.conv(lhs[:, 3 * g : 3 * g + 3], rhs[2 * g : 2 * g + 2], (1,), "SAME") for g in range(2)
    ]
    grouped = b.conv(lhs, rhs, (1,), "SAME", feature_group_count=2)
    assert grouped.dims == (2, 4, 5)
    need_same(b, (grouped, b.concat_in_dim(parts, 1)))


def test_depthwise_convolution() -> None:
    """One group a channel: the kernel's multipliers of a channel stand side by side."""
    x, w = whole(1, 4, 4, 3), whole(2, 2, 3, 2)
    b = XlaBuilder("depthwise")
    got = b.conv_with_general_dimensions(
        b.constant(x), b.reshape(b.constant(w), (2, 2, 1, 6)), (1, 1), "VALID",
        "b01f_01io->b01f", feature_group_count=3,
    )  # fmt: skip
    want = np.zeros((1, 3, 3, 6), np.float32)
    for i, j, c, m in np.ndindex(3, 3, 3, 2):
        want[0, i, j, 2 * c + m] = (x[0, i : i + 2, j : j + 2, c] * w[:, :, c, m]).sum()
    need_same(b, (got, want))


def test_groups_of_batches_are_separate_convolutions() -> None:
    b = XlaBuilder("batches")
    lhs, rhs = b.constant(whole(4, 3, 5)), b.constant(whole(6, 3, 2))
    parts = [
        b.conv(lhs[2 * g : 2 * g + 2], rhs[3 * g : 3 * g + 3], (1,), "VALID") for g in range(2)
    ]
    grouped = b.conv(lhs, rhs, (1,), "VALID", batch_group_count=2)
    assert grouped.dims == (2, 6, 4)
    need_same(b, (grouped, b.concat_in_dim(parts, 1)))


def test_padding_holes_and_turns_of_a_convolution_are_those_of_its_operands() -> None:
    b = XlaBuilder("window")
    lhs, rhs = b.constant(whole(1, 2, 5, 6)), b.constant(whole(3, 2, 2, 3))
    labels = "bf01_oi01->bf01"
    got = b.conv_general_dilated(
        lhs, rhs, (2, 1), [(1, 2), (-1, -2)], (2, 3), (1, 2), labels, window_reversal=(True, False)
    )
    padded = b.pad(lhs, 0.0, [(0, 0), (0, 0), (1, 2, 1), (-1, -2, 2)])
    kernel = b.pad(b.rev(rhs, (2,)), 0.0, [(0, 0), (0, 0), (0, 0, 0), (0, 0, 1)])
    need_same(b, (got, b.conv(padded, kernel, (2, 1), "VALID")))


# --- products -----------------------------------------------------------------------------------


def test_operands_of_a_convolution_may_be_of_two_types() -> None:
    """Which XLA:CPU does not run."""
    x, w = whole(1, 2, 5), np.int32(whole(3, 2, 2))
    b = XlaBuilder("mixed")
    mixed = b.conv(b.constant(x), b.constant(w), (1,), "VALID")
    need_same(b, (mixed, b.conv(b.constant(x), b.constant(w.astype(np.float32)), (1,), "VALID")))
    text = str(b.build(mixed))
    with pytest.raises(XlaError, match="Unsupported conversion between element types"):
        xla_run(text)


def test_the_three_modes_of_a_ragged_product() -> None:
    """By where the ragged dimension of the left side is: its own, a summed one, one of batches."""
    sizes, ends = np.int32([2, 0, 3]), [(0, 2), (2, 2), (2, 5)]
    lhs, rhs = whole(5, 4), whole(3, 4, 2)
    b = XlaBuilder("ragged")
    groups = b.constant(sizes)
    own = b.ragged_dot(
        b.constant(lhs), b.constant(rhs), groups,
        RaggedDotDimensionNumbers(DotDimensionNumbers((1,), (1,)), (0,), (0,)),
    )  # fmt: skip
    want_own = np.concatenate([lhs[i:j] @ rhs[g] for g, (i, j) in enumerate(ends)])
    other = whole(5, 3)
    summed = b.ragged_dot(
        b.constant(lhs), b.constant(other), groups,
        RaggedDotDimensionNumbers(DotDimensionNumbers((0,), (0,)), (0,)),
    )  # fmt: skip
    want_summed = np.stack([lhs[i:j].T @ other[i:j] for i, j in ends])
    batches, weights = whole(5, 2, 3), whole(5, 3, 4)
    batch = b.ragged_dot(
        b.constant(batches), b.constant(weights), groups,
        RaggedDotDimensionNumbers(DotDimensionNumbers((2,), (1,), (0,), (0,)), (0,)),
    )  # fmt: skip
    assert (own.dims, summed.dims, batch.dims) == ((5, 2), (3, 4, 3), (5, 2, 4))
    need_same(b, (own, want_own), (summed, want_summed), (batch, batches @ weights))


def test_a_scaled_product_is_one_of_scaled_operands() -> None:
    x, y = whole(2, 3, 4), whole(2, 4, 5)
    s, t = 2.0 ** whole(2, 3, 2), 2.0 ** whole(2, 4, 5)
    numbers = DotDimensionNumbers((2,), (1,), (0,), (0,))
    b = XlaBuilder("scaled")
    given = [b.constant(v) for v in (x, s, y, t)]
    got = b.scaled_dot(*given, numbers, preferred_element_type="f32")
    need_same(b, (got, (x * np.repeat(s, 2, 2)) @ (y * t)))


# --- transforms and solvers ---------------------------------------------------------------------


def test_a_transform_of_several_dimensions_is_one_after_the_other() -> None:
    """The innermost first where it makes complex numbers of real ones, last the other way."""
    x = whole(2, 4, 6)
    b = XlaBuilder("fft")
    real = b.constant(x)

    def along(operand: XlaOp, kind: str) -> XlaOp:
        turned = b.transpose(operand, (0, 2, 1))
        return b.transpose(b.fft(turned, kind, (4,)), (0, 2, 1))

    whole_spectrum = b.fft(real, "RFFT", (4, 6))
    spectrum = along(b.fft(real, "RFFT", (6,)), "FFT")
    back = b.fft(spectrum, "IRFFT", (4, 6))
    need_same(
        b, (whole_spectrum, spectrum), (spectrum, np.fft.rfft2(x).astype(np.complex64)),
        (back, b.fft(along(spectrum, "IFFT"), "IRFFT", (6,))), (back, x),
    )  # fmt: skip


def test_the_length_of_a_transform_says_the_length_of_its_inverse() -> None:
    b = XlaBuilder("lengths")
    for n in (16, 17):
        spectrum = b.fft(b.constant(whole(n)), "RFFT", (n,))
        assert spectrum.dims == (9,)
        assert b.fft(spectrum, "IRFFT", (n,)).dims == (n,)


_SOLVES = list(
    itertools.product((True, False), (True, False), (True, False),
                      ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
)  # fmt: skip


def test_solutions_solve_their_systems() -> None:
    """The other triangle, and a diagonal that counts as ones, are NaN: nothing may read them."""
    shape = (2, 3, 3)
    a = whole(*shape) + 1j * whole(*shape) + 9 * np.eye(3)
    rhs = (whole(2, 3, 2) + 1j * whole(2, 3, 2)).astype(np.complex64)
    b, wanted = XlaBuilder("solve"), []
    roots = []
    for left, lower, unit, transpose in _SOLVES:
        triangle = np.tril(a) if lower else np.triu(a)
        seen = np.where(np.tril(np.ones(shape)) if lower else np.triu(np.ones(shape)), a, np.nan)
        if unit:
            triangle = triangle * (1 - np.eye(3)) + np.eye(3)
            seen = np.where(np.eye(3), np.nan, seen)
        op = {"NO_TRANSPOSE": lambda m: m, "TRANSPOSE": lambda m: m.swapaxes(1, 2),
              "ADJOINT": lambda m: m.conj().swapaxes(1, 2)}[transpose](triangle)  # fmt: skip
        right = rhs if left else rhs.swapaxes(1, 2)
        roots.append(
            b.triangular_solve(
                b.constant(seen.astype(np.complex64)),
                b.constant(right),
                left,
                lower,
                unit,
                transpose,
            )
        )
        solved = np.linalg.solve(op, right) if left else right @ np.linalg.inv(op)
        wanted.append(solved.astype(np.complex64))
    text = str(b.build(b.tuple_(roots)))
    for found in (*runs(b, b.tuple_(roots)), xla_run(text)):
        assert_same(tuple(found), tuple(wanted), rtol=1e-3, atol=1e-4)


def test_factors_multiply_to_their_matrices() -> None:
    """Only one triangle is read; of a matrix that is not positive definite all is NaN."""
    m = whole(2, 3, 3) + 1j * whole(2, 3, 3)
    a = m @ m.conj().swapaxes(1, 2) + np.eye(3)
    low, high = np.tril(np.ones((3, 3))), np.triu(np.ones((3, 3)))
    b = XlaBuilder("cholesky")
    roots = [
        b.cholesky(b.constant(np.where(low, a, np.nan).astype(np.complex64)), True),
        b.cholesky(b.constant(np.where(high, a, np.nan).astype(np.complex64)), False),
        b.cholesky(b.constant([[4.0, 0.0], [0.0, -1.0]]), True),
    ]
    factor = np.linalg.cholesky(a)
    wanted = (factor, factor.conj().swapaxes(1, 2))
    text = str(b.build(b.tuple_(roots)))
    for *found, broken in (*runs(b, b.tuple_(roots)), xla_run(text)):
        assert_same(
            tuple(found), tuple(w.astype(np.complex64) for w in wanted), rtol=1e-4, atol=1e-5
        )
        assert np.isnan(broken).all()


# --- by index -----------------------------------------------------------------------------------


def test_a_scatter_updates_what_the_gather_takes() -> None:
    values, at = whole(6, 4), np.array([[1], [4], [0]])
    b = XlaBuilder("inverse")
    operand, indices = b.constant(values), b.constant(at)
    rows = b.gather(operand, indices, GatherDimensionNumbers((1,), (0,), (0,), 1), (1, 4))
    numbers = ScatterDimensionNumbers((1,), (0,), (0,), 1)
    doubled = b.scatter(operand, indices, rows, plus, numbers, False, True)
    want = values.copy()
    want[at[:, 0]] *= 2
    # The present value comes first, and what lies outside is left alone.
    outside = b.constant([[1], [6], [-1]])
    less = b.scatter(operand, outside, rows, lambda old, new: old - new, numbers)
    rest = values.copy()
    rest[1] -= values[1]
    need_same(b, (doubled, want), (less, rest))


@pytest.mark.parametrize(
    ("dims", "sizes", "places"),
    [
        ((2, 3), (3, 2), (1, 0)), ((2, 3), (3, 5, 2), (2, 0)), ((1, 3), (3, 4), (1, 0)),
        ((2, 1), (4, 2, 3), (1, 2)), ((), (2,), ()), ((2, 3), (2, 3), (0, 1)), ((1,), (1,), (0,)),
    ],
)  # fmt: skip
def test_a_broadcast_puts_each_dimension_where_it_is_said_to(
    dims: tuple[int, ...], sizes: tuple[int, ...], places: tuple[int, ...]
) -> None:
    x = whole(*dims)
    b = XlaBuilder("in_dim")
    got = b.broadcast_in_dim(b.constant(x), sizes, places)
    assert got.dims == sizes
    want = np.zeros(sizes, np.float32)
    for at in np.ndindex(*sizes):
        want[at] = x[tuple(0 if n == 1 else at[d] for n, d in zip(dims, places, strict=True))]
    need_same(b, (got, want))


# --- reductions ---------------------------------------------------------------------------------


def test_windows_over_padding_are_windows_over_a_padded_array() -> None:
    b = XlaBuilder("padded")
    x = b.constant(whole(5, 6))
    got = b.reduce_window_with_general_padding(x, 0.0, plus, (2, 3), (1, 2), [(1, 2), (0, 3)])
    padded = b.pad(x, 0.0, [(1, 2), (0, 3)])
    need_same(b, (got, b.reduce_window(padded, 0.0, plus, (2, 3), (1, 2), "VALID")))


def test_the_initial_value_is_on_the_left() -> None:
    b = XlaBuilder("left")
    x = b.constant([1.0, 2.0, 3.0])

    def less(total: XlaOp, value: XlaOp) -> XlaOp:
        return total - value

    need_same(
        b, (b.reduce(x, 100.0, less, (0,)), np.float32(94)),
        (b.reduce_window(x, 100.0, less, (2,), (1,)), np.float32([97, 95])),
    )  # fmt: skip


def test_windows_over_several_arrays() -> None:
    values, places = whole(7), np.arange(7, dtype=np.int32)
    b = XlaBuilder("argmax")

    def later(high: XlaOp, at: XlaOp, value: XlaOp, place: XlaOp) -> XlaOp:
        inner, better = high.builder, value >= high
        return inner.tuple_([inner.select(better, value, high), inner.select(better, place, at)])

    top, at = b.reduce_window(
        [b.constant(values), b.constant(places)], [-np.inf, -1], later, (3,), (2,)
    )
    want = [max(places[i : i + 3], key=lambda p: (values[p], p)) for i in (0, 2, 4)]
    need_same(b, (top, values[want]), (at, np.int32(want)))


# --- random numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "state"),
    [("rng_three_fry", [7, 11]), ("rng_philox", [7, 11, 13]), ("RNG_DEFAULT", [7, 11])],
)
@pytest.mark.parametrize("shape", ["u32[5]", "u64[2,3]", "u8[3]"])
def test_bits_depend_on_the_state_alone(algorithm: str, state: list[int], shape: str) -> None:
    b = XlaBuilder("bits")
    given = b.constant(np.uint64(state))
    after, bits = b.rng_bit_generator(algorithm, given, shape)
    assert after.shape == given.shape and bits.shape.to_string(False) == shape
    again = b.rng_bit_generator(algorithm, after, shape)
    root = b.tuple_([after, bits, *again, b.rng_bit_generator(algorithm, given, shape)[1]])
    mine, compiled = runs(b, root)
    assert_same(tuple(compiled), tuple(mine))
    assert_same(mine[4], mine[1])
    assert not np.array_equal(mine[0], state) and not np.array_equal(mine[3], mine[1])
    assert_same(tuple(xla_run(str(b.build(root)))), tuple(mine))


@pytest.mark.parametrize("et", "pred s8 u8 s16 s32 u32 s64 u64 f16 bf16 f32 f64".split())
def test_uniform_numbers_of_every_type(et: str) -> None:
    """From the first limit on and below the second; where there is no such number, the first."""
    limits = (False, True) if et == "pred" else (1, 3)
    b = XlaBuilder("uniform")
    low, high = (b.constant(v, et) for v in limits)
    drawn = b.rng_uniform(low, high, f"{et}[50]")
    none = b.rng_uniform(high, low, f"{et}[5]")
    for inside, outside in runs(b, b.tuple_([drawn, none])):
        assert (inside >= limits[0]).all() and (inside < limits[1]).all()
        assert (outside == limits[1]).all()


# --- sizes that vary ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [((6,), "f32[<=6]"), ((3, 1, 2), "f32[<=3,1,2]"), ((1, 6), "f32[1,<=6]")],
)
def test_a_reshape_varies_where_its_operand_does(sizes: tuple[int, ...], shape: str) -> None:
    x = whole(3, 2)
    b = XlaBuilder("varies")
    two = b.set_dimension_size(b.constant(x), 2, 0)
    got = b.reshape(two, sizes)
    assert got.shape.to_string(False) == shape
    axis = shape.split("<")[0].count(",")
    want = x[:2].reshape([-1 if d == axis else n for d, n in enumerate(sizes)])
    need_same(b, (got, want))


def test_a_reshape_that_leaves_open_what_varies_is_an_error() -> None:
    b = XlaBuilder("open")
    x = whole(6)
    four = b.set_dimension_size(b.constant(x), 4, 0)
    with pytest.raises(hlo.HloError, match="ambiguous which of the dimensions"):
        b.reshape(four, (3, 2))
    need_same(b, (b.reshape("f32[<=3,2]", four), x[:4].reshape(2, 2)))


def test_a_reshape_to_a_shape_varies_with_its_operand() -> None:
    b = XlaBuilder("fixed")
    four = b.set_dimension_size(b.constant(whole(6)), 4, 0)
    for shape in ("f32[6]", "f32[1,6]", "f32[2,3]"):
        with pytest.raises(hlo.HloError, match=r"f32\[<=6\] varies in size") as caught:
            b.reshape(shape, four)
        assert caught.value.code == "type-mismatch"
    assert b.reshape("f32[2,<=3]", four).shape.to_string(False) == "f32[2,<=3]"


def test_normalization_counts_what_is_meant() -> None:
    """Means and gradients of a batch that varies are those of the batch that is there."""
    x, grad = whole(4, 3), whole(4, 3)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    b = XlaBuilder("batch")
    short, dy = (b.set_dimension_size(b.constant(v), 3, 0) for v in (x, grad))
    scale, offset = b.constant(ones), b.constant(zeros)
    train = b.batch_norm_training(short, scale, offset, 0.5, 1)
    whole_batch = b.batch_norm_training(b.constant(x[:3]), scale, offset, 0.5, 1)
    mean, variance = train[1], train[2]
    slope = b.batch_norm_grad(short, scale, mean, variance, dy, 0.5, 1)
    want = b.batch_norm_grad(b.constant(x[:3]), scale, mean, variance, b.constant(grad[:3]), 0.5, 1)
    need_same(
        b, *((train[i], whole_batch[i]) for i in range(3)), *((slope[i], want[i]) for i in range(3))
    )


def test_a_size_that_is_set_leaves_its_bound() -> None:
    b = XlaBuilder("size")
    shorter = b.set_dimension_size(b.constant(whole(10)), 5, 0)
    assert shorter.shape.to_string(False) == "f32[<=10]"
    need_same(b, (b.get_dimension_size(shorter, 0), np.int32(5)))


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_one_branch_runs(chosen: int) -> None:
    """Seen by what each writes to the outfeed."""
    b = XlaBuilder("branches")

    def say(value: int) -> Any:
        def branch(x: XlaOp) -> XlaOp:
            token = x.builder.outfeed(x.builder.constant(value))
            return x.builder.add_dependency(x + 1.0, token)

        return branch

    one = b.constant(1.0)
    two = b.conditional(b.constant(chosen), [say(v) for v in range(3)], [one] * 3)
    b.conditional(b.constant(chosen == 1), two, say(10), two, say(20))
    module = b.build().module()
    for compiled in (False, True):
        host = hlo.Host()
        run = hlo.compile(module, host=host, cache=False) if compiled else None
        assert (run() if run else hlo.interpret(module, host=host)) == 3
        assert list(host.outfeed) == [chosen, 10 if chosen == 1 else 20]


def test_a_call_may_take_no_operand() -> None:
    b = XlaBuilder("call")
    three = b.create_sub_builder("three")
    need_same(b, (b.call(three.build(three.constant(3))), np.int32(3)))


def test_a_barrier_and_tokens_change_no_value() -> None:
    b = XlaBuilder("barrier")
    x = b.constant(whole(3))
    y, z = b.optimization_barrier(b.tuple_([x, b.neg(x)]))
    token = b.after_all([b.create_token(), b.outfeed(x)])
    assert token.shape.is_token
    b.set_return_value(b.tuple_([y, z, b.add_dependency(x, token)]))
    host = hlo.Host()
    got = hlo.interpret(b.build().module(), host=host)
    assert_same(got, (got[2], -got[2], got[2]))
    assert len(host.outfeed) == 1


def test_what_the_text_takes_of_the_host_the_builder_takes() -> None:
    b = XlaBuilder("host")
    value = b.infeed("((f32[2], s32[]), f32[])")
    token = b.after_all([value, b.create_token()])
    b.outfeed_with_token(value, token)
    b.set_return_value(value)
    module = b.build().module()
    hlo.verify(hlo.parse(str(module)))
    fed = ((np.float32([1, 2]), np.int32(3)), np.float32(4))
    for run in (hlo.interpret, lambda m, host: hlo.compile(m, cache=False, host=host)()):
        host = hlo.Host(infeed=deque([fed]))
        (pair, last) = run(module, host=host)
        assert (pair[0].tolist(), pair[1], last) == ([1, 2], 3, 4)
        assert len(host.outfeed) == 1
