"""Every worked example of the documents, with their numbers, on the interpreter and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.builder import DotDimensionNumbers, XlaBuilder, XlaOp
from tests.harness.builder_cases import at_least, largest, plus
from tests.harness.oracle import xla_run

Example = tuple[Callable[[XlaBuilder], XlaOp], Any]

_V = [
    [[10, 11, 12], [15, 16, 17]],
    [[20, 21, 22], [25, 26, 27]],
    [[30, 31, 32], [35, 36, 37]],
    [[40, 41, 42], [45, 46, 47]],
]
_ROWS = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0], [9.0, 10.0, 11.0]]
_CUBE = [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]] * 4
_IN_ORDER = [10, 11, 12, 15, 16, 17, 20, 21, 22, 25, 26, 27,
             30, 31, 32, 35, 36, 37, 40, 41, 42, 45, 46, 47]  # fmt: skip


def _v(b: XlaBuilder) -> XlaOp:
    return b.constant(_V, "f32")


def _sum_of_first(size: int) -> Example:
    """Set a dynamic size and reduce."""
    values = list(map(float, range(1, 11)))
    return (
        lambda b: b.reduce(b.set_dimension_size(b.constant(values), size, 0), 0.0, plus, (0,)),
        sum(values[:size]),
    )


def _argmax(b: XlaBuilder) -> XlaOp:
    def pick(high: XlaOp, at: XlaOp, value: XlaOp, index: XlaOp) -> XlaOp:
        inner, better = value.builder, value >= high
        return inner.tuple_([inner.select(better, value, high), inner.select(better, index, at)])

    values = b.constant([3.0, 9.0, 4.0, 9.0, 1.0])
    return b.reduce([values, b.iota("s32[5]", 0)], [-np.inf, -1], pick, (0,))


def _loop(b: XlaBuilder) -> XlaOp:
    """A thousand times: count, and add a constant vector."""

    def step(state: XlaOp) -> XlaOp:
        inner = state.builder
        return inner.tuple_([state[0] + 1, state[1] + inner.constant_r1(10, 0.5)])

    init = b.tuple_([b.constant(0), b.constant_r1(10, 0.0)])
    return b.while_(lambda state: state[0] < 1000, step, init)


def _minimum(padding: str) -> Callable[[XlaBuilder], XlaOp]:
    return lambda b: b.reduce_window(
        b.constant([10000.0, 1000.0, 100.0, 10.0, 1.0]), float(np.finfo(np.float32).max),
        lambda x, y: x.builder.min_(x, y), (3,), (2,), padding,
    )  # fmt: skip


def _if(predicate: bool) -> Callable[[XlaBuilder], XlaOp]:
    return lambda b: b.conditional(
        b.constant(predicate), b.constant(3.0), lambda x: x * 2.0, b.constant([1, 4]),
        lambda x: x.builder.convert_element_type(x[1], "f32"),
    )  # fmt: skip


def _branch(index: int) -> Callable[[XlaBuilder], XlaOp]:
    return lambda b: b.conditional(
        b.constant(index),
        [lambda x: x + 1, lambda x: x * 10, lambda x: -x],
        [b.constant(1), b.constant(2), b.constant(3)],
    )


EXAMPLES: dict[str, Example] = {
    "BitcastConvertType of s32 to s8": (
        lambda b: b.bitcast_convert_type(b.constant([0x04030201, -1]), "s8"),
        [[1, 2, 3, 4], [-1] * 4]),
    "BitcastConvertType of s8 to s32": (
        lambda b: b.bitcast_convert_type(b.constant([1, 2, 3, 4], "s8"), "s32"), 0x04030201),
    "BitcastConvertType of s32 to f32": (
        lambda b: b.bitcast_convert_type(b.constant([0x3F800000, -(2**31)]), "f32"), [1.0, -0.0]),
    "Broadcast": (lambda b: b.broadcast(b.constant(2.0), (2, 3)), [[2.0] * 3] * 2),
    "Clamp": (lambda b: b.clamp(0, b.constant([-1, 5, 9]), 6), [0, 5, 6]),
    "Collapse 012": (lambda b: b.collapse(_v(b), (0, 1, 2)), _IN_ORDER),
    "Collapse 01": (
        lambda b: b.collapse(_v(b), (0, 1)),
        [row for block in _V for row in block],
    ),
    "Collapse 12": (lambda b: b.collapse(_v(b), (1, 2)), [x + y for x, y in _V]),
    "Collapse, no dimension": (lambda b: b.collapse(_v(b), ()), _V),
    "Concat of vectors": (
        lambda b: b.concat_in_dim([b.constant(x) for x in ([2, 3], [4, 5], [6, 7])], 0),
        [2, 3, 4, 5, 6, 7],
    ),
    "Concat of matrices": (
        lambda b: b.concat_in_dim([b.constant([[1, 2], [3, 4], [5, 6]]), b.constant([[7, 8]])], 0),
        [[1, 2], [3, 4], [5, 6], [7, 8]],
    ),
    "Conditional, true": (_if(True), 6.0),
    "Conditional, false": (_if(False), 4.0),
    "Conditional, first": (_branch(0), 2),
    "Conditional, below": (_branch(-1), -3),
    "Conditional, beyond": (_branch(3), -3),
    "ConvertElementType": (
        lambda b: b.convert_element_type(b.constant([0, 1, 2]), "f32"), [0.0, 1.0, 2.0]),
    "DotGeneral": (
        lambda b: b.dot_general(
            b.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
            b.constant([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]), DotDimensionNumbers((1,), (1,)),
        ),
        [[6.0, 12.0], [15.0, 30.0]],
    ),
    "DotGeneral in batches": (
        lambda b: b.dot_general(
            b.constant([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]),
            b.constant([[[1.0, 0.0], [0.0, 1.0]]] * 2),
            DotDimensionNumbers((2,), (1,), (0,), (0,)),
        ),
        [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]],
    ),
    "DotGeneral in two batch dimensions": (
        lambda b: b.dot_general(
            b.constant([[[[1.0, 2.0]], [[3.0, 4.0]]]]),
            b.constant([[[[1.0], [1.0]], [[2.0], [0.0]]]]),
            DotDimensionNumbers((3,), (2,), (0, 1), (0, 1))),
        [[[[3.0]], [[6.0]]]],
    ),
    "DynamicSlice of a vector": (
        lambda b: b.dynamic_slice(b.constant([0.0, 1.0, 2.0, 3.0, 4.0]), b.constant([2]), (2,)),
        [2.0, 3.0],
    ),
    "DynamicSlice of a matrix": (
        lambda b: b.dynamic_slice(b.constant(_ROWS), [2, 1], (2, 2)), [[7.0, 8.0], [10.0, 11.0]]),
    "DynamicUpdateSlice of a vector": (
        lambda b: b.dynamic_update_slice(
            b.constant([0.0, 1.0, 2.0, 3.0, 4.0]), b.constant([5.0, 6.0]), [2]),
        [0.0, 1.0, 5.0, 6.0, 4.0],
    ),
    "DynamicUpdateSlice of a matrix": (
        lambda b: b.dynamic_update_slice(
            b.constant(_ROWS), b.constant([[12.0, 13.0], [14.0, 15.0], [16.0, 17.0]]), [1, 1]),
        [[0.0, 1.0, 2.0], [3.0, 12.0, 13.0], [6.0, 14.0, 15.0], [9.0, 16.0, 17.0]],
    ),
    "Tuple": (
        lambda b: b.tuple_([b.constant([float(i) for i in range(10)]), b.constant(5)]),
        ([float(i) for i in range(10)], 5)),
    "GetDimensionSize": (lambda b: b.get_dimension_size(_v(b), 2), 3),
    "GetDimensionSize, set": (
        lambda b: b.get_dimension_size(b.set_dimension_size(b.constant([1, 2, 3]), 2, 0), 0), 2),
    "GetTupleElement": (
        lambda b: b.get_tuple_element(
            b.tuple_([b.constant([float(i) for i in range(10)]), b.constant(5)]), 1),
        5),
    "Iota 0": (lambda b: b.iota("s32[4,8]", 0), [[i] * 8 for i in range(4)]),
    "Iota 1": (lambda b: b.iota("s32[4,8]", 1), [list(range(8))] * 4),
    "Iota of floats": (lambda b: b.iota("f32[2,3]", 1), [[0.0, 1.0, 2.0]] * 2),
    "Map with a value for every call": (
        lambda b: b.map_(
            [b.constant([1, 2]), b.constant([3, 4]), b.constant([5, 6])],
            lambda x, y, z, s: (x + y + z) * s, [0], [b.constant(10)]),
        [90, 120],
    ),
    "Pad by nothing": (lambda b: b.pad(b.constant([1, 2]), 0, [(0, 0, 0)]), [1, 2]),
    "Pad within, then cut": (lambda b: b.pad(b.constant([1, 2, 3]), 0, [(-1, -1, 1)]), [0, 2, 0]),
    "Map of three, and a value for every call": (
        lambda b: b.map_(
            [b.constant([1, 2]), b.constant([10, 20]), b.constant([5, 6])],
            lambda x, y, z, s: x * y + z - s, static_operands=[b.constant(3)]),
        [12, 43],
    ),
    "Reduce a vector": (
        lambda b: b.reduce(b.constant([10, 11, 12, 13]), 0, plus, (0,)), 46),
    "Reduce 0 of a matrix": (
        lambda b: b.reduce(b.constant(_CUBE[0]), 0.0, plus, (0,)), [5.0, 7.0, 9.0]),
    "Reduce 1 of a matrix": (
        lambda b: b.reduce(b.constant(_CUBE[0]), 0.0, plus, (1,)), [6.0, 15.0]),
    "Reduce 10, unordered": (
        lambda b: b.reduce(b.constant(_CUBE), 0.0, plus, (1, 0)), [20.0, 28.0, 36.0]),
    "Reduce 0": (
        lambda b: b.reduce(b.constant(_CUBE), 0.0, plus, (0,)),
        [[4.0, 8.0, 12.0], [16.0, 20.0, 24.0]]),
    "Reduce 2": (
        lambda b: b.reduce(b.constant(_CUBE), 0.0, plus, (2,)), [[6.0, 15.0]] * 4),
    "Reduce 01": (
        lambda b: b.reduce(b.constant(_CUBE), 0.0, plus, (0, 1)), [20.0, 28.0, 36.0]),
    "Reduce all": (lambda b: b.reduce_all(b.constant(_CUBE), 0.0, plus), 84.0),
    "Reduce of two": (_argmax, (9.0, 3)),
    "ReduceWindow VALID": (_minimum("VALID"), [100.0, 1.0]),
    "ReduceWindow SAME": (_minimum("SAME"), [1000.0, 10.0, 1.0]),
    "ReduceWindow 2x3": (
        lambda b: b.reduce_window(
            b.constant(np.arange(24, dtype=np.float32).reshape(4, 6)), -np.inf, largest, (2, 3),
            (2, 3), "VALID"),
        [[8.0, 11.0], [20.0, 23.0]],
    ),
    "ReduceWindow 2x3 by steps of 1": (
        lambda b: b.reduce_window(
            b.constant(np.arange(24, dtype=np.float32).reshape(4, 6)), -np.inf, largest, (2, 3),
            (1, 1), "VALID"),
        [[8.0, 9.0, 10.0, 11.0], [14.0, 15.0, 16.0, 17.0], [20.0, 21.0, 22.0, 23.0]],
    ),
    "ReduceWindow with holes": (
        lambda b: b.reduce_window_with_general_padding(
            b.constant([[1, 2], [3, 4], [5, 6]]), 0, plus, (2, 1), (4, 1), [(2, 1), (0, 0)],
            (2, 1), (3, 1)),
        [[0, 0], [3, 4]],
    ),
    "Reshape 24": (lambda b: b.reshape(_v(b), (24,)), _IN_ORDER),
    "Reshape 012 to 8x3": (
        lambda b: b.reshape(_v(b), (0, 1, 2), (8, 3)), [row for block in _V for row in block]),
    "Reshape 120 to 24": (
        lambda b: b.reshape(_v(b), (1, 2, 0), (24,)),
        [10, 20, 30, 40, 11, 21, 31, 41, 12, 22, 32, 42,
         15, 25, 35, 45, 16, 26, 36, 46, 17, 27, 37, 47],
    ),
    "Reshape 120 to 8x3": (
        lambda b: b.reshape(_v(b), (1, 2, 0), (8, 3)),
        [[10, 20, 30], [40, 11, 21], [31, 41, 12], [22, 32, 42],
         [15, 25, 35], [45, 16, 26], [36, 46, 17], [27, 37, 47]],
    ),
    "Reshape 120 to 2x6x2": (
        lambda b: b.reshape(_v(b), (1, 2, 0), (2, 6, 2)),
        [[[10, 20], [30, 40], [11, 21], [31, 41], [12, 22], [32, 42]],
         [[15, 25], [35, 45], [16, 26], [36, 46], [17, 27], [37, 47]]],
    ),
    # The first document prints these numbers under the order 1, 2, 0: they are those of 1, 0, 2.
    "Reshape as 004 prints it": (
        lambda b: b.reshape(_v(b), (1, 0, 2), (2, 6, 2)),
        [[[10, 11], [12, 20], [21, 22], [30, 31], [32, 40], [41, 42]],
         [[15, 16], [17, 25], [26, 27], [35, 36], [37, 45], [46, 47]]],
    ),
    "Reshape to 8x3": (
        lambda b: b.reshape(_v(b), (8, 3)), [row for block in _V for row in block]),
    "Reshape to no dimension": (lambda b: b.reshape(b.constant([[5.0]]), ()), 5.0),
    "Reshape of no dimension": (lambda b: b.reshape(b.constant(5.0), (1, 1)), [[5.0]]),
    "Reshape to a shape": (lambda b: b.reshape("s32[2,1]", b.constant([3, 4])), [[3], [4]]),
    "Reshape to a scalar": (lambda b: b.reshape(b.constant([[5.0]]), (0, 1), ()), 5.0),
    "Reshape of a scalar": (lambda b: b.reshape(b.constant(5.0), (), (1, 1)), [[5.0]]),
    "Select": (
        lambda b: b.select(
            b.constant([True, False, False, True]), b.constant([1, 2, 3, 4]),
            b.constant([100, 200, 300, 400])),
        [1, 200, 300, 4],
    ),
    "Select by a scalar": (
        lambda b: b.select(
            b.constant(True), b.constant([1, 2, 3, 4]), b.constant([100, 200, 300, 400])),
        [1, 2, 3, 4],
    ),
    "SelectAndScatter": (
        lambda b: b.select_and_scatter(
            b.constant(
                [[7.0, 2.0, 5.0, 3.0, 10.0, 2.0], [3.0, 8.0, 9.0, 3.0, 4.0, 2.0],
                 [1.0, 5.0, 7.0, 5.0, 6.0, 1.0], [0.0, 6.0, 2.0, 7.0, 2.0, 8.0]]),
            at_least, (2, 3), (2, 3), "VALID", b.constant([[2.0, 6.0], [3.0, 1.0]]), 0.0, plus),
        [[0.0, 0.0, 0.0, 0.0, 6.0, 0.0], [0.0, 0.0, 2.0, 0.0, 0.0, 0.0],
         [0.0, 0.0, 3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]],
    ),
    # The first of two elements is the one with the lower index: always it, or never.
    "SelectAndScatter of the first": (
        lambda b: b.select_and_scatter(
            b.constant([5, 5, 5, 5, 5]), lambda x, y: x.builder.constant(True), (3,), (2,), "VALID",
            b.constant([1, 2]), 0, plus),
        [1, 0, 2, 0, 0],
    ),
    "SelectAndScatter of the last": (
        lambda b: b.select_and_scatter(
            b.constant([5, 5, 5, 5, 5]), lambda x, y: x.builder.constant(False), (3,), (2,),
            "VALID", b.constant([1, 2]), 0, plus),
        [0, 0, 1, 0, 2],
    ),
    # 9 is the largest of two windows: 2 and 6 are both added there.
    "SelectAndScatter, windows overlap": (
        lambda b: b.select_and_scatter(
            b.constant(
                [[7.0, 2.0, 5.0, 3.0, 8.0], [3.0, 8.0, 9.0, 3.0, 4.0],
                 [1.0, 5.0, 7.0, 5.0, 6.0], [0.0, 6.0, 2.0, 10.0, 2.0]]),
            at_least, (2, 3), (2, 2), "VALID", b.constant([[2.0, 6.0], [3.0, 1.0]]), 0.0, plus),
        [[0.0] * 5, [0.0, 0.0, 8.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0, 0.0],
         [0.0, 0.0, 0.0, 1.0, 0.0]],
    ),
    "SetDimensionSize, product": (
        lambda b: b.reduce(
            b.set_dimension_size(b.constant(list(map(float, range(1, 11)))), 5, 0), 1.0,
            lambda x, y: x * y, (0,)),
        120.0,
    ),
    "SetDimensionSize 5": _sum_of_first(5),
    "SetDimensionSize 6": _sum_of_first(6),
    "Slice in the interface": (
        lambda b: b.slice_(
            b.constant([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]), (1, 1), (2, 3)),
        [[5, 6]]),
    "Slice of a vector": (
        lambda b: b.slice_(b.constant([0.0, 1.0, 2.0, 3.0, 4.0]), (2,), (4,)), [2.0, 3.0]),
    "Slice of a matrix": (
        lambda b: b.slice_(b.constant(_ROWS), (2, 1), (4, 3)), [[7.0, 8.0], [10.0, 11.0]]),
    "Sort": (lambda b: b.sort(b.constant([[3, 1, 2], [0, 5, 4]])), [[1, 2, 3], [0, 4, 5]]),
    "Sort of columns": (
        lambda b: b.sort(b.constant([[3, 1, 2], [1, 3, 2]]), lambda x, y: x < y, 0),
        [[1, 1, 2], [3, 3, 2]]),
    "Sort of rows": (
        lambda b: b.sort(b.constant([[3, 1, 2], [1, 3, 2]]), lambda x, y: x < y, 1),
        [[1, 2, 3], [1, 2, 3]]),
    "Sort of the last dimension": (
        lambda b: b.sort(b.constant([[3, 1], [1, 3]]), lambda x, y: x < y), [[1, 3], [1, 3]]),
    "Sort that keeps the order of equals": (
        lambda b: b.sort(
            [b.constant([2, 1, 2, 1, 2]), b.iota("s32[5]", 0)], lambda x, y, *_: x < y, 0, True),
        ([1, 1, 2, 2, 2], [1, 3, 0, 2, 4]),
    ),
    "Sort of three": (
        lambda b: b.sort(
            [b.constant([3, 1]), b.constant([42, 50]), b.constant([-3.0, 1.1])],
            lambda a, c, *_: a < c),
        ([1, 3], [50, 42], [np.float32(1.1), -3.0]),
    ),
    "TopK": (
        lambda b: b.top_k(b.constant([[0.1, 0.3, 0.1], [0.7, 0.2, -0.1]]), 1),
        ([[np.float32(0.3)], [np.float32(0.7)]], [[1], [0]]),
    ),
    "TopK, equal ones in order": (
        lambda b: b.top_k(b.constant([[3, 1, 3, 1], [2, 2, 2, 5]]), 3),
        ([[3, 3, 1], [5, 2, 2]], [[0, 2, 1], [3, 0, 1]])),
    "TopK, smallest": (
        lambda b: b.top_k(b.constant([3, 1, 3, 1]), 3, largest=False), ([1, 1, 3], [1, 3, 0])),
    "TopK as 002 writes it": (
        lambda b: b.top_k(
            b.constant([[0.1, 0.3, 0.1], [0.7, 0.2, -0.1]]), 1, lambda x, y: x < y),
        ([[np.float32(0.1)], [np.float32(-0.1)]], [[0], [2]]),
    ),
    "TopK by a comparator": (
        lambda b: b.top_k(
            b.constant([[0.1, 0.3, 0.1], [0.7, 0.2, -0.1]]), 1, comparator=lambda x, y: x > y),
        ([[np.float32(0.3)], [np.float32(0.7)]], [[1], [0]]),
    ),
    "While, not once": (
        lambda b: b.while_(lambda s: s < 3, lambda s: s + 1, b.constant(7)), 7),
    "While": (_loop, (1000, [500.0] * 10)),
}  # fmt: skip


def as_lists(value: Any) -> Any:
    """Return a result as the lists of numbers that an example states."""
    return tuple(map(as_lists, value)) if isinstance(value, tuple) else value.tolist()


def test_xla_computes_the_examples() -> None:
    b = XlaBuilder("examples")
    roots = [program(b) for program, _ in EXAMPLES.values()]
    found = iter(xla_run(str(b.build(b.tuple_(roots)))))
    for name, (_, want) in EXAMPLES.items():
        parts = [next(found).tolist() for _ in (want if isinstance(want, tuple) else (want,))]
        assert (tuple(parts) if isinstance(want, tuple) else parts[0]) == want, name


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_worked_example(name: str) -> None:
    program, want = EXAMPLES[name]
    b = XlaBuilder("example")
    module = b.build(program(b)).module()
    assert as_lists(hlo.interpret(module)) == want
    assert as_lists(hlo.compile(module, cache=False, passes="")()) == want
