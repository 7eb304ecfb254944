"""The builder itself: handles, scopes, sub-builders, queries, and what comes out of `build`."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

import hlo
from hlo.frontends.builder import XlaBuilder, XlaOp, literal_of
from hlo.frontends.text import PrintOptions, print_module
from hlo.values.types import Layout
from tests.harness.oracle import assert_same, xla_from_proto, xla_parse

X = np.float32([[1, -2, 3], [4, 5.5, -6]])
Y = np.float32([[2, 2, -4], [1, 0.5, 7]])


def parameters(*values: np.ndarray) -> tuple[XlaBuilder, list[XlaOp]]:
    """Return a builder with a parameter for each value."""
    b = XlaBuilder("test")
    return b, [b.parameter(i, hlo.Literal.of(v).shape) for i, v in enumerate(values)]


@pytest.mark.parametrize(
    "function",
    [
        operator.add, operator.sub, operator.mul, operator.truediv, operator.eq, operator.ne,
        operator.lt, operator.le, operator.gt, operator.ge,
        lambda x, y: 2 - x + 3 * y, lambda x, y: 1 / x, lambda x, y: abs(-x) ** 2,
        # numpy's operators leave an operand of ours to us.
        lambda x, y: X - y, lambda x, y: X < y, lambda x, y: X[0, 0] * y,
        lambda x, y: X.T @ y, lambda x, y: x @ Y.T,
    ],
)  # fmt: skip
def test_operators_on_floats(function: Callable[..., XlaOp]) -> None:
    b, (x, y) = parameters(X, Y)
    got = hlo.interpret(b.build(function(x, y)).module(), X, Y)
    assert_same(got, function(X, Y).astype(got.dtype))


@pytest.mark.parametrize(
    "function",
    [
        operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
        lambda x, y: ~x, lambda x, y: 5 & x | 8 ^ y, lambda x, y: 9 << y, lambda x, y: 9 >> y,
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_operators_on_integers(function: Callable[..., XlaOp], dtype: type) -> None:
    values = np.array([-100, 77], np.int64).astype(dtype), np.array([3, 5], dtype)
    b, (x, y) = parameters(*values)
    got = hlo.interpret(b.build(function(x, y)).module(), *values)
    assert_same(got, function(*values).astype(dtype))


def test_the_remainder_has_the_sign_of_the_left_side() -> None:
    b, (x,) = parameters(np.int32([-7, 7]))
    assert hlo.interpret(b.build(x % 3).module(), np.int32([-7, 7])).tolist() == [-1, 1]
    b, (x,) = parameters(np.int32([-7, 7]))
    assert hlo.interpret(b.build(30 % x).module(), np.int32([-7, 7])).tolist() == [2, 2]


@pytest.mark.parametrize(
    "index", [1, -1, slice(None), slice(1, None, 2), (0, slice(1, 3)), (..., 0), (slice(5, 2),), ()]
)
def test_indexing_is_pythons(index: object) -> None:
    b, (x,) = parameters(X)
    assert_same(hlo.interpret(b.build(x[index]).module(), X), np.asarray(X[index]))


def test_matrices_and_tuples() -> None:
    b, (x, y) = parameters(X, Y)
    pair = b.tuple_([x @ b.trans(y), x])
    product, same = pair
    assert len(pair) == 2 and same.shape == x.shape
    assert product.dims == (2, 2) and product.rank == 2 and str(product.element_type) == "f32"
    assert_same(hlo.interpret(b.build(product).module(), X, Y), X @ Y.T)
    assert repr(x) == "<XlaOp parameter: f32[2,3]>"
    assert len({x, y, x}) == 2


def test_shapes_are_texts_or_objects() -> None:
    b = XlaBuilder("shapes")
    for i, shape in enumerate(("f32[2,3]", hlo.parse_shape("f32[2,3]"), literal_of(X).shape)):
        assert b.get_shape(b.parameter(i, shape)) == hlo.parse_shape("f32[2,3]{1,0}")


def test_default_dimension_numbers() -> None:
    """The constants of document 004: kConvBatchDimension = 0 and so on."""
    default = XlaBuilder.create_default_conv_dimension_numbers()
    assert (default.input_batch, default.input_feature, default.input_spatial) == (0, 1, (2, 3))
    assert (default.kernel_output, default.kernel_input, default.kernel_spatial) == (0, 1, (2, 3))
    assert XlaBuilder.create_conv_dimension_numbers(0, 1, 2, 3, 0, 1, 2, 3) == default
    b = XlaBuilder("conv")
    x, w = b.parameter(0, "f32[2,3,5,6]"), b.parameter(1, "f32[4,3,2,2]")
    assert b.conv(x, w, (1, 1), "VALID").dims == (2, 4, 4, 5)
    assert b.conv_general(x, w, (1, 1), [(0, 0), (0, 0)], default).dims == (2, 4, 4, 5)


def test_scopes_annotate_what_is_built_in_them() -> None:
    b, (x,) = parameters(X)
    with b.metadata(op_name="layer/neg", source_file="model.py", source_line=7):
        with b.sharding("{replicated}"), b.frontend_attributes({"a": "1"}):
            with b.frontend_attributes({"b": "2"}):
                y = b.neg(x)
            z = b.exp(y)
    w = b.log(z)
    text = str(b.build(w))
    assert 'metadata={op_name="layer/neg" source_file="model.py" source_line=7}' in text
    lines = {line.split(" = ")[0].strip(" %"): line for line in text.splitlines() if " = " in line}
    assert 'frontend_attributes={a="1",b="2"}' in lines["negate"]
    assert "sharding={replicated}" in lines["exponential"] and 'b="2"' not in lines["exponential"]
    assert "metadata" not in lines["ROOT %log"] and "sharding" not in lines["ROOT %log"]
    xla_parse(text)


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        (lambda b: b.metadata(op_nam="x"), "unknown-attribute"),
        (lambda b: b.sharding("{devices=[2]}"), "syntax"),
        (lambda b: b.sharding("replicated"), "syntax"),
    ],
)
def test_a_scope_that_is_none(scope: Callable[..., object], code: str) -> None:
    with pytest.raises(hlo.HloError) as e, scope(XlaBuilder("b")):  # type: ignore[attr-defined]
        pass
    assert e.value.code == code
    assert str(e.value).startswith(__file__)


def test_a_computation_serves_several_programs() -> None:
    inner = XlaBuilder("double")
    double = inner.build(inner.parameter(0, "f32[]") * 2.0)
    assert str(double.program_shape) == "(f32[])->f32[]"
    modules = []
    for name in ("one", "two"):
        b = XlaBuilder(name)
        x = b.parameter(0, "f32[]")
        modules.append(b.build(b.call(double, [b.call(double, [x])])).module())
    for module in modules:
        assert [c.name for c in module.computations].count("double") == 1
        assert hlo.interpret(module, 1.5) == 6


def test_sub_builders_and_return_values() -> None:
    b, (x,) = parameters(X)
    inner = b.create_sub_builder("less")
    a, c = inner.parameter(0, "f32[]", "a"), inner.parameter(1, "f32[]", "b")
    less = inner.build(a < c)
    y = b.sort(x, less, 1)
    b.set_return_value(y)
    b.neg(y)
    assert str(b.get_program_shape()) == "(f32[2,3]{1,0})->f32[2,3]{1,0}"
    assert_same(hlo.interpret(b.build().module(), X), np.sort(X, 1))


def test_the_value_named_last_is_returned() -> None:
    """What is appended afterwards has no effect, unless it is named in turn."""
    b = XlaBuilder("named")
    first = b.constant(1)
    b.set_return_value(first)
    second = b.constant(2)
    assert hlo.interpret(b.build().module()) == 1
    b.set_return_value(second)
    b.constant(3)
    assert hlo.interpret(b.build().module()) == 2
    assert hlo.interpret(b.build(first).module()) == 1
    assert repr(b) == "<XlaBuilder named: 3 operations>"


def test_layouts_are_no_part_of_the_shapes_that_are_checked() -> None:
    b = XlaBuilder("checked")
    x, y = b.parameter(0, "f32[2,3]{0,1}"), b.parameter(1, "f32[2,3]{1,0}")
    assert b.check_shape(x, "f32[2,3]{1,0}") is x
    b.check_same_shape(x, y)


def test_constants_of_the_program() -> None:
    b, (x,) = parameters(X)
    three = b.add(b.constant(1), b.constant(2))
    matrix = b.broadcast(three, (2, 2))
    assert b.is_constant(three) and not b.is_constant(x + 1.0)
    assert b.compute_constant(three) == literal_of(3)
    laid_out = b.compute_constant(matrix, Layout((0, 1)))
    assert str(laid_out.shape) == "s32[2,2]{0,1}" and laid_out.array.tolist() == [[3, 3]] * 2
    pair = b.compute_constant(b.tuple_([three, matrix]))
    assert [e.shape.to_string(False) for e in pair.elements] == ["s32[]", "s32[2,2]"]


def test_literals_from_python_and_numpy() -> None:
    shapes = [True, 1, 1.5, 1j, [[1], [2]], np.float64(1), np.uint8([1]), (1, (2.0,))]
    assert [literal_of(v).shape.to_string(False) for v in shapes] == [
        "pred[]", "s32[]", "f32[]", "c64[]", "s32[2,1]", "f64[]", "u8[1]", "(s32[], (f32[]))",
    ]  # fmt: skip
    with pytest.raises(hlo.HloError) as e:
        literal_of(2**31)
    assert e.value.code == "type-mismatch"


def test_a_literal_is_an_argument() -> None:
    b = XlaBuilder("literals")
    pair = b.parameter(0, "(f32[2], s32[])", "pair")
    module = b.build(pair[0] * b.convert_element_type(pair[1], "f32")).module()
    argument = literal_of((np.float32([1, 2]), 3))
    for run in (lambda *a: hlo.interpret(module, *a), hlo.compile(module)):
        assert run(argument).tolist() == [3, 6]


def test_modules_of_a_computation() -> None:
    b, (x,) = parameters(X)
    computation = b.build(x + 1.0)
    module = computation.module("named", replica_count=2, num_partitions=3)
    assert str(module).startswith("HloModule named, replica_count=2, num_partitions=3")
    hlo.verify(module)
    assert module is not computation.module()
    module.entry.remove  # noqa: B018  (the module is the caller's to change)
    hlo.optimize(module, inplace=True)
    assert str(computation) == str(computation.module())


def test_names_that_hlo_cannot_write() -> None:
    b = XlaBuilder("a b")
    b.parameter(0, "f32[]", "1st input")
    b.parameter(1, "f32[]", "1st input")
    text = str(b.build())
    assert "HloModule a_b" in text and "_1st_input = " in text and "_1st_input.1 = " in text
    hlo.verify(hlo.parse(text))
    xla_parse(text)


@pytest.mark.parametrize("word", ["s4", "pred", "token", "true", "inf", "ROOT", "replicated"])
def test_names_that_mean_something_else_in_text(word: str) -> None:
    b = XlaBuilder(word)
    sub = b.create_sub_builder(word)
    sub.neg(sub.parameter(0, "f32[]", word))
    b.call(sub.build(), [b.parameter(0, "f32[]", word)])
    module = b.build().module()
    short = print_module(module, PrintOptions.short_parsable())
    for text in (str(module), short):
        assert str(hlo.parse(text)) == str(module)
        assert xla_from_proto(hlo.to_proto(module)) == xla_parse(text)


def test_errors_in_a_program_that_was_built_name_its_lines() -> None:
    b, (x,) = parameters(X)
    module = b.build(b.neg(x)).module()
    module.entry.root.shape = hlo.Literal.of(np.float32(0)).shape
    with pytest.raises(hlo.HloError) as e:
        hlo.verify(module)
    assert "b.neg(x)" in str(e.value)


@pytest.mark.parametrize(
    ("nonsense", "error"),
    [
        (lambda b, x: b.neg(3.0), "not a value of the program"),
        (lambda b, x: b.add(1, 2), "has to be a value of the program"),
        (lambda b, x: x + "one", "do not convert"),
        (lambda b, x: b.convert_element_type(x, "s8") + 300, "outside s8"),
        (lambda b, x: b.reshape(x, (-1,)), "no size of a dimension"),
        (lambda b, x: len(x), "a tuple is needed"),
        (lambda b, x: b.tuple_([x]).dims, "an array is needed"),
        (lambda b, x: b.conditional(x, x, lambda a: a), "each case"),
        (lambda b, x: b.broadcast(x, (10**12, 10**12)), "elements"),
    ],
)
def test_nonsense_is_an_error(nonsense: Callable[..., object], error: str) -> None:
    b, (x,) = parameters(X)
    with pytest.raises(hlo.HloError) as e:
        nonsense(b, x)
    assert error in str(e.value)
    assert str(e.value).startswith(__file__)


def test_an_asynchronous_computation_runs_on_its_thread() -> None:
    b, (x,) = parameters(X)
    start = b.async_start([x], lambda v: v + v, "other")
    module = b.build(b.async_done(start)).module()
    hlo.verify(module)
    assert 'execution_thread="other"' in str(module)
