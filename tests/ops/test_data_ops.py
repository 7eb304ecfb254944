"""Parameter, constant, iota: every type against XLA, and what they reject."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.values.types import ELEMENT_TYPES
from hlo.verifier import verify
from tests.harness.oracle import XlaError, assert_same, xla_run


def run(text: str, *args: object) -> object:
    module = parse(text)
    verify(module)
    return interpret(module, list(args))


NUMBERS = [n for n, et in ELEMENT_TYPES.items() if not et.is_pred]


@pytest.mark.parametrize("name", NUMBERS)
def test_iota_in_every_type(name: str) -> None:
    text = f"{name}[3,70] iota(), iota_dimension=1"
    got = np.asarray(run(text))
    assert got.dtype == ELEMENT_TYPES[name].dtype and got.shape == (3, 70)
    try:
        want = xla_run(text)
    except XlaError:
        pytest.skip("XLA:CPU has no such arrays")
    assert_same(got, want)


def test_iota_past_the_range_of_its_type() -> None:
    """The value is that of the 64-bit index converted: integers wrap, floats round."""
    assert run("u8[300] iota(), iota_dimension=0")[256:258].tolist() == [0, 1]  # type: ignore[index]
    assert float(run("bf16[300] iota(), iota_dimension=0")[257]) == 256.0  # type: ignore[index]


@pytest.mark.parametrize("shape", ["f32[0,3]", "f32[3,0]", "s32[1]"])
def test_iota_of_odd_shapes(shape: str) -> None:
    text = f"{shape} iota(), iota_dimension=0"
    assert_same(run(text), xla_run(text))


@pytest.mark.parametrize(
    "constant",
    [
        "f32[] constant(-inf)",
        "c128[2]{0} constant({(1,-0.5), (inf, 2)})",
        "s32[2,2]{0,1} constant({{1,2},{3,4}})",
        "f8e4m3fn[3] constant({0.3, -448, nan})",
        "pred[2] constant({true, 0})",
    ],
)
def test_constants_run_as_in_xla(constant: str) -> None:
    text = f"HloModule m\nENTRY e {{ ROOT c = {constant} }}"
    assert_same(run(text), xla_run(text))


def test_a_constant_tuple_is_a_tuple() -> None:
    """XLA:CPU cannot run one."""
    got = run("(f32[2], (s32[], u8[1])) constant(({1,2}, (3, {4})))")
    assert_same(got, (np.float32([1, 2]), (np.int32(3), np.uint8([4]))))


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("pred[3] iota(), iota_dimension=0", "type-mismatch", "pred"),
        ("s32[] iota(), iota_dimension=0", "bad-dimension", "outside [0, 0)"),
        ("s32[3] iota(), iota_dimension=1", "bad-dimension", "outside [0, 1)"),
        ("s32[3] iota(), iota_dimension=-1", "bad-dimension", "-1"),
        ("s32[3] iota()", "missing-attribute", "iota_dimension"),
        ("(s32[3]) iota(), iota_dimension=0", "type-mismatch", "iota"),
        ("f32[1000000,1000000] iota(), iota_dimension=0", "out-of-memory", "iota"),
        ("f32[1000000,1000000] constant({...})", "out-of-memory", "constant"),
        ("s8[2] constant({1, 300})", "literal-range", "300"),
        ("s8[2] constant({1})", "literal-shape", "found 1"),
    ],
)
def test_rejected(text: str, code: str, words: str) -> None:
    with pytest.raises(HloError) as e:
        run(text)
    assert e.value.code == code
    assert words in e.value.diagnostics[0].message
    assert e.value.diagnostics[0].span is not None
