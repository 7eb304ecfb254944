"""Custom calls: registered functions, targets with a meaning of their own, broken attributes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.codegen.lower.prepare import flatten
from hlo.errors import HloError, InferError
from hlo.eval import Host, interpret
from hlo.eval.interpreter import Interpreter
from hlo.frontends.text import parse
from hlo.ops.spec import OpView
from hlo.values.arrays import DynamicArray
from hlo.values.types import F32, S32, TupleShape, array
from tests.harness.oracle import xla_parse
from tests.harness.run_both import errors, run

X = np.array([[3, 1, 2], [-1, np.inf, 0]], np.float32)


def call(target: str, *, result: str = "f32[2,3]", operands: str = "f32[2,3] x") -> str:
    return f'{result} custom-call({operands}), custom_call_target="{target}"'


def test_a_registered_function_gets_the_operation_and_its_values() -> None:
    seen: list[Any] = []

    def scale(op: OpView, args: Sequence[Any]) -> Any:
        seen.append((op.attrs["api_version"], op.annotations["backend_config"]))
        return args[0] * np.float32(2), args[0].sum(keepdims=True)[0]

    text = (
        '(f32[2,3], f32[1]) custom-call(f32[2,3] x), custom_call_target="scale", '
        'api_version=API_VERSION_STATUS_RETURNING, backend_config="by=2"'
    )
    doubled, total = interpret(parse(text), [X[:, ::-1]], Host(custom_calls={"scale": scale}))
    np.testing.assert_array_equal(doubled, 2 * X[:, ::-1])
    assert total.shape == (1,) and seen == [("API_VERSION_STATUS_RETURNING", "by=2")]


def test_a_registered_function_goes_before_a_known_target() -> None:
    host = Host(custom_calls={"Sharding": lambda op, args: -args[0]})
    np.testing.assert_array_equal(interpret(parse(call("Sharding")), [X], host), -X)


def test_an_unknown_target_says_how_to_register_it() -> None:
    with pytest.raises(HloError) as e:
        interpret(parse(call("my_kernl")), [X], Host(custom_calls={"my_kernel": abs}))
    text = str(e.value)
    assert e.value.code == "unknown-custom-call"
    assert "'my_kernl'" in text and "Host(custom_calls=" in text and "'my_kernel'" in text


@pytest.mark.parametrize(
    "value",
    [X.astype(np.float64), X[:1], X[0], (X,), (X, X), 1.5, None, "text"],
    ids=["type", "dims", "rank", "tuple", "pair", "number", "nothing", "string"],
)
def test_what_a_function_returns_is_checked(value: Any) -> None:
    host = Host(custom_calls={"f": lambda op, args: value})
    exe = hlo.compile(parse(call("f")), cache=False, host=host)
    for compute in (lambda: interpret(parse(call("f")), [X], host), lambda: exe(X)):
        with pytest.raises(HloError) as e:
            compute()
        assert e.value.code == "bad-value" and "'f'" in str(e.value)


def test_what_a_function_returns_of_a_tuple_is_checked() -> None:
    text = call("f", result="(f32[2,3], (s32[], f32[2,3]))")
    good = (X, (np.int32(1), X))
    for value in (good, (X,), (X, X), (X, (X, X)), (X, (np.int64(1), X)), (X, (1, X), X), X):
        host = Host(custom_calls={"f": lambda op, args, value=value: value})
        exe = hlo.compile(parse(text), cache=False, host=host)
        for compute in (partial(interpret, parse(text), [X], host), partial(exe, X)):
            if value is good:
                np.testing.assert_array_equal(compute()[1][1], X)
                continue
            with pytest.raises(HloError) as e:
                compute()
            assert e.value.code == "bad-value"


@pytest.mark.parametrize(
    "target",
    ["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
     "MoveToHost", "MoveToDevice", "AssumeGatherIndicesInBound", "LayoutConstraint",
     "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier"],
)  # fmt: skip
def test_an_annotation_returns_its_operand(target: str) -> None:
    assert run(call(target), [X]) is X


def test_an_annotation_without_a_result_returns_nothing() -> None:
    assert run(call("xla.sdy.ShardingGroup", result="()"), [X]) == ()


def test_an_annotation_that_changes_the_shape_needs_more_devices() -> None:
    with pytest.raises(HloError) as e:
        run(call("SPMDFullToShardShape", result="f32[1,3]"), [X])
    assert e.value.code == "unsupported-participants"


def test_top_k_returns_the_largest_with_their_places() -> None:
    values, places = run(call("TopK", result="(f32[2,2], s32[2,2])"), [X])
    np.testing.assert_array_equal(values, [[3, 2], [np.inf, 0]])
    np.testing.assert_array_equal(places, [[0, 2], [1, 2]])
    assert values.dtype == np.float32 and places.dtype == np.int32


@pytest.mark.parametrize("result", ["(f32[2,4], s32[2,4])", "f32[2,2]", "(f32[2,2], s32[2,1])"])
def test_top_k_of_another_shape_is_an_error(result: str) -> None:
    with pytest.raises(HloError) as e:
        run(call("TopK", result=result), [X])
    assert e.value.code == "bad-value"


def test_dynamic_arrays_turn_static_and_back() -> None:
    text = """HloModule dynamic
ENTRY e {
  x = f32[4] parameter(0)
  n = s32[] parameter(1)
  d = f32[<=4] custom-call(x, n), custom_call_target="SliceToDynamic"
  p = (f32[4], s32[]) custom-call(d), custom_call_target="PadToStatic"
  ROOT t = (f32[<=4], (f32[4], s32[])) tuple(d, p)
}
"""
    module, x = parse(text), np.arange(4, dtype=np.float32)
    dynamic, (static, size) = interpret(module, [x, np.asarray(3, np.int32)])
    assert isinstance(dynamic, DynamicArray) and dynamic.sizes == (3,) and size == 3
    np.testing.assert_array_equal(static[:3], x[:3])
    with pytest.raises(HloError) as e:
        interpret(module, [x, np.asarray(5, np.int32)])
    assert e.value.code == "index-out-of-range"


def test_every_attribute_is_read_and_printed_in_the_order_of_xla() -> None:
    text = """HloModule attributes

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[4] parameter(0)
  v = f32[4] custom-call(x), padding_type=PADDING_SAME, custom_call_target="a \\"b\\"", \
operand_layout_constraints={f32[4]{0}}, custom_call_has_side_effect=true, \
literal=f32[2]{0} {2, 3}, output_to_operand_aliasing={{}: (0, {})}, schedule=SCHEDULE_LATEST, \
api_version=API_VERSION_TYPED_FFI, backend_config="abc"
  w = f32[4] custom-call(v), window={size=3 stride=2 pad=1_1}, dim_labels=b0f_0io->b0f, \
feature_group_count=2, batch_group_count=2, operand_precision={high}, \
custom_call_target="f", called_computations={%add}
  ROOT r = f32[4] custom-call(w), custom_call_target="g", to_apply=add
}
"""
    module = parse(text)
    printed = str(module)
    assert str(parse(printed)) == printed
    assert xla_parse(printed) == xla_parse(text)
    for line in text.splitlines():
        if "window" in line or "literal" in line:
            assert line.split("), ")[1] in printed


CUSTOM = """HloModule m
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{ x = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(x), custom_call_target="f", {} }}
"""


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ("operand_layout_constraints={}", "operand-count"),
        ("operand_layout_constraints={f32[5]{0}}", "shape-mismatch"),
        ("output_to_operand_aliasing={{}: (1, {})}", "index-out-of-range"),
        ("output_to_operand_aliasing={{1}: (0, {})}", "index-out-of-range"),
        ("output_to_operand_aliasing={{}: (0, {2})}", "index-out-of-range"),
        ("output_to_operand_aliasing={{}: (0, {}), {}: (0, {})}", "bad-value"),
        ("to_apply=add, called_computations={add}", "bad-value"),
        ("feature_group_count=0", "bad-value"),
        ("api_version=API_VERSION_FIRST", "bad-value"),
        ("schedule=SCHEDULE_SOON", "bad-value"),
    ],
)
def test_a_broken_attribute_is_an_error(attributes: str, code: str) -> None:
    assert code in [c for c, _ in errors(CUSTOM.format(attributes))]


def test_a_target_has_to_be_named() -> None:
    assert [c for c, _ in errors("f32[] custom-call(f32[] x)")] == ["missing-attribute"]


@pytest.mark.parametrize("sizes", [(3, 3), (-1, 3), (2, 2), (2,)])
def test_the_sizes_that_a_function_returns_are_checked(sizes: tuple[int, ...]) -> None:
    value = DynamicArray(X, sizes)
    host = Host(custom_calls={"f": lambda op, args: value})
    text = call("f", result="f32[<=2,3]")
    exe = hlo.compile(parse(text), cache=False, host=host)
    for compute in (partial(interpret, parse(text), [X], host), partial(exe, X)):
        with pytest.raises(HloError) as e:
            compute()
        assert e.value.code == "bad-value"


@pytest.mark.parametrize(("have", "want"), [(4, 6), (6, 4)])
def test_a_slice_to_dynamic_may_change_bounds(have: int, want: int) -> None:
    """As in XLA, whose algebraic simplifier has such a module among its tests."""
    text = f"""HloModule m
ENTRY e {{
  x = f32[{have}] parameter(0)
  n = s32[] parameter(1)
  ROOT d = f32[<={want}] custom-call(x, n), custom_call_target="SliceToDynamic"
}}
"""
    x, n = np.arange(have, dtype=np.float32), np.asarray(3, np.int32)
    made = interpret(parse(text), [x, n])
    assert isinstance(made, DynamicArray) and made.data.shape == (want,)
    np.testing.assert_array_equal(hlo.compile(parse(text), cache=False)(x, n), x[:3])
    with pytest.raises(HloError) as e:
        interpret(parse(text), [x, np.asarray(5, np.int32)])
    assert e.value.code == "index-out-of-range"


def test_a_target_is_checked_where_no_verifier_was() -> None:
    """What passes or callers of the interpreter and of code generation make is checked there."""
    module = parse(call("TopK", result="(f32[2,2], s32[2,2])"))
    top = module.entry.root
    top.shape = TupleShape((array(F32, (2, 2)), array(S32, (2, 3000))))
    with pytest.raises(HloError):
        flatten(module.entry)
    with pytest.raises(InferError):
        top.spec.evaluate(top, [X], Interpreter(Host(), (1, 1)))
