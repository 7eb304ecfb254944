"""Hints for what other programs call the operations."""

from __future__ import annotations

import pytest

import hlo
from hlo.ops import OPS
from hlo.ops.aliases import _HINTS, opcode_hint


@pytest.mark.parametrize(
    ("word", "opcode"),
    [
        ("sub", "subtract"), ("mul", "multiply"), ("exp", "exponential"), ("where", "select"),
        ("matmul", "dot"), ("cast", "convert"), ("cmp", "compare"), ("mod", "remainder"),
        ("neg", "negate"), ("div", "divide"), ("pow", "power"), ("concat", "concatenate"),
        ("sigmoid", "logistic"), ("permute", "transpose"), ("relu", "maximum"), ("gt", "GT"),
        ("lt", "LT"), ("sum", "reduce"), ("mean", "reduce"), ("dot_general", "dot"),
        ("stablehlo.dot_general", "dot"), ("jnp.where", "select"), ("fadd", "add"),
        ("icmp", "compare"), ("sitofp", "convert"), ("ashr", "shift-right-arithmetic"),
        ("DynamicSlice", "dynamic-slice"), ("dynamic_update_slice", "dynamic-update-slice"),
        ("torch.sub", "subtract"), ("aten::mm", "dot"), ("konstant", "constant"), ("ad", "add"),
        ("multiplyy", "multiply"), ("matmull", "dot"), ("log1p", "log-plus-one"),
        ("get_tuple_element", "get-tuple-element"), ("psum", "all-reduce"),
    ],
)  # fmt: skip
def test_what_others_call_an_operation(word: str, opcode: str) -> None:
    hint = opcode_hint(word)
    assert hint is not None and opcode in hint
    if opcode in OPS and word not in ("relu", "mean"):
        assert f"did you mean {opcode!r}?" in hint


def test_hints_name_operations_that_are_there() -> None:
    for word, hint in _HINTS.items():
        assert word not in OPS
        if hint.startswith("did you mean"):
            assert hint.split("'")[1] in OPS


def test_errors_have_the_hint() -> None:
    with pytest.raises(hlo.HloError) as e:
        hlo.parse("f32[2] sub(f32[2] a, f32[2] b)")
    assert e.value.diagnostics[0].hint == "did you mean 'subtract'?"
    with pytest.raises(hlo.HloError) as e:
        hlo.parse("pred[2] gt(f32[2] a, f32[2] b)")
    assert e.value.diagnostics[0].hint == "did you mean 'compare'? with direction=GT"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f32[2,3", "the ']' of the dimensions is missing"),
        ("f32[", "the ']' of the dimensions is missing"),
        ("f32[2;3]", "expected ',' or ']' in the dimensions, found ';3]'"),
        ("f32[2,3]{1,0", "the '}' of the layout is missing"),
        ("f32[2,3]{1 0}", "expected ',', ':' or '}' in the layout, found '0}'"),
        ("(f32[2], s32[]", "the ')' of the tuple shape is missing"),
    ],
)
def test_a_shape_that_does_not_end(text: str, message: str) -> None:
    with pytest.raises(hlo.HloError) as e:
        hlo.parse_shape(text)
    assert e.value.diagnostics[0].message == message


@pytest.mark.parametrize(
    "end", ["", "  ROOT y = f32[2", "  ROOT y = f32[2] add(x, ", '  ROOT y = f32[] copy(x), a="b']
)
def test_a_text_that_is_cut_off_says_so(end: str) -> None:
    with pytest.raises(hlo.HloError) as e:
        hlo.parse(f"HloModule m\n\nENTRY e {{\n  x = f32[2] parameter(0)\n{end}")
    assert "it may be truncated" in str(e.value)
