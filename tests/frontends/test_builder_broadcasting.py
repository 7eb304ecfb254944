"""Implicit broadcasting: every pair of small shapes, against numpy and the documented rules."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hlo
from hlo.errors import InferError
from hlo.frontends.builder import XlaBuilder
from hlo.frontends.builder.broadcasting import broadcast
from hlo.values.types import array

Dims = tuple[int, ...]


def shapes(sizes: Dims, rank: int = 4) -> list[Dims]:
    """Return all dimensions of up to `rank` out of `sizes`."""
    return [d for r in range(rank + 1) for d in itertools.product(sizes, repeat=r)]


def lifted(dims: Dims, rank: int, places: Dims) -> Dims:
    """Return dimensions at their places among `rank`, with 1 in the others."""
    return tuple(dims[places.index(d)] if d in places else 1 for d in range(rank))


@pytest.mark.parametrize("rank_of_lhs", range(5))
def test_all_pairs_of_sizes_1_and_n_subtract_as_in_numpy(rank_of_lhs: int) -> None:
    """In every rank up to 4, with every choice of dimensions for the array of lower rank."""
    b, roots, want = XlaBuilder("pairs"), [], []
    values, handles = {}, {}
    for i, dims in enumerate(shapes((1, 3))):
        values[dims] = np.arange(1, 1 + np.prod(dims, dtype=int), dtype=np.int32).reshape(dims)
        values[dims] *= i + 1
        handles[dims] = b.constant(values[dims])
    of_rank = [dims for dims in values if len(dims) == rank_of_lhs]
    for lhs, rhs in itertools.product(of_rank, values):
        low, rank = min(len(lhs), len(rhs)), max(len(lhs), len(rhs))
        for places in itertools.combinations(range(rank), low):
            given = () if low == rank else places
            roots.append(b.sub(handles[lhs], handles[rhs], given))
            x, y = (
                values[d].reshape(d if len(d) == rank else lifted(d, rank, places))
                for d in (lhs, rhs)
            )
            want.append(x - y)
    got = hlo.interpret(b.build(b.tuple_(roots)).module())
    assert len(got) == len(want) >= len(of_rank) * len(values)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w, strict=True)


def allowed(lhs: Dims, rhs: Dims, given: Dims) -> Dims | None:
    """Return the dimensions that the documents' rules give, or None where they allow none."""
    low, high = sorted((lhs, rhs), key=len)
    if len(low) == len(high):
        if given not in ((), tuple(range(len(low)))):
            return None
        given = tuple(range(len(low)))
    elif len(given) != len(low) or list(given) != sorted(set(given)):
        return None
    if any(not 0 <= d < len(high) for d in given):
        return None
    try:
        return np.broadcast_shapes(lifted(low, len(high), given), high)
    except ValueError:
        return None


def test_what_the_rules_allow_is_allowed_and_nothing_else() -> None:
    dims = shapes((0, 1, 2, 3), 3)
    numbers = [d for n in range(4) for d in itertools.product((-1, 0, 1, 2, 3), repeat=n)]
    random = np.random.default_rng(0)
    accepted = 0
    for _ in range(20000):
        lhs, rhs = dims[random.integers(len(dims))], dims[random.integers(len(dims))]
        given = numbers[random.integers(len(numbers))] if random.integers(3) else ()
        want = allowed(lhs, rhs, given)
        try:
            got = broadcast("add", array("f32", lhs), array("f32", rhs), given).dims
        except InferError:
            got = None
        assert got == want, (lhs, rhs, given)
        accepted += got is not None
    assert accepted > 1000


@pytest.mark.parametrize(
    ("lhs", "rhs", "dims", "message"),
    [
        ("f32[2,3]", "f32[3]", (), "differ in rank: broadcast_dimensions is needed unless"),
        ("f32[2,3]", "f32[3]", (0,), "in-dim broadcasting needs equal sizes or a 1"),
        ("f32[7,2,5]", "f32[7,2,6]", (), "degenerate-dimension broadcasting needs equal sizes"),
        ("f32[2,3,4]", "f32[3,4]", (2, 1), "does not increase strictly"),
        ("f32[2,3,4]", "f32[3,3]", (1, 1), "does not increase strictly"),
        ("f32[2,3]", "f32[3]", (2,), "names dimension 2, outside [0, 2)"),
        ("f32[2,3]", "f32[3]", (0, 1), "names 2 dimensions, the operand of lower rank"),
        ("f32[2,3]", "f32[2,3]", (1, 0), "left out or name every dimension in order"),
        ("f32[2,3]", "f32[]", (0,), "names 1 dimensions, the operand of lower rank"),
        ("f32[2]", "s32[2]", (), "differ in element type"),
    ],
)
def test_an_illegal_one_is_an_error_that_names_the_rule(
    lhs: str, rhs: str, dims: Dims, message: str
) -> None:
    b = XlaBuilder("illegal")
    x, y = b.parameter(0, lhs), b.parameter(1, rhs)
    with pytest.raises(hlo.HloError) as e:
        b.add(x, y, dims)
    assert message in str(e.value)
    assert "test_builder_broadcasting.py" in str(e.value.diagnostics[0].span)


def test_the_documented_examples() -> None:
    """Numbers of "Broadcasting semantics", document 004."""
    b = XlaBuilder("examples")
    matrix = b.constant([[1, 2, 3], [4, 5, 6]])
    vector = b.constant([7, 8, 9])
    square = b.constant(np.zeros((3, 3), np.int32))
    module = b.build(
        b.tuple_(
            [
                b.add(matrix, vector, (1,)),
                matrix + 7,
                b.add(square, vector, (1,)),
                b.add(square, vector, (0,)),
                b.add(b.constant([1, 2, 3, 4]), b.constant([[5, 6]]), (0,)),
            ]
        )
    ).module()
    want = [
        [[8, 10, 12], [11, 13, 15]],
        [[8, 9, 10], [11, 12, 13]],
        [[7, 8, 9]] * 3,
        [[7, 7, 7], [8, 8, 8], [9, 9, 9]],
        [[6, 7], [7, 8], [8, 9], [9, 10]],
    ]
    for got, numbers in zip(hlo.interpret(module), want, strict=True):
        assert got.tolist() == numbers


@pytest.mark.parametrize(
    ("lhs", "rhs", "dims", "result"),
    [
        ("f32[2,1]", "f32[2,3]", (), (2, 3)),
        ("f32[1,2,5]", "f32[7,2,5]", (), (7, 2, 5)),
        ("f32[7,2,5]", "f32[7,1,5]", (), (7, 2, 5)),
        ("f32[2,1]", "f32[1,3]", (), (2, 3)),
        ("f32[2,3,4]", "f32[3,4]", (1, 2), (2, 3, 4)),
        ("f32[1,2]", "f32[4,3,1]", (1, 2), (4, 3, 2)),
    ],
)
def test_the_documented_shapes(lhs: str, rhs: str, dims: Dims, result: Dims) -> None:
    b = XlaBuilder("shapes")
    assert b.add(b.parameter(0, lhs), b.parameter(1, rhs), dims).dims == result


def test_dynamic_sizes_stay_with_their_dimension() -> None:
    b = XlaBuilder("dynamic")
    x = b.set_dimension_size(b.parameter(0, "f32[4,3]"), 2, 0)
    y = b.add(x, b.parameter(1, "f32[3]"), (1,)) * 2.0
    assert y.shape.to_string(False) == "f32[<=4,3]"
    got = hlo.interpret(b.build(y).module(), np.ones((4, 3), np.float32), np.float32([1, 2, 3]))
    assert got.tolist() == [[4, 6, 8]] * 2
