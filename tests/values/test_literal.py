"""Literals: every form of the text, exact bits, errors at the right place, speed by the chunk."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hlo
from hlo.errors import HloError, TextError
from hlo.values.literal import Literal, read_literal, reader, write_literal
from hlo.values.numerals import bits_of
from hlo.values.scan import Scanner
from hlo.values.shape_text import read_shape
from hlo.values.types import ELEMENT_TYPES, TOKEN, Shape, TupleShape, array
from tests.harness.oracle import xla_parse


def shape_of(text: str) -> Shape:
    return read_shape(Scanner(text))


def read(text: str, shape: str) -> Literal:
    return read_literal(text, shape_of(shape))


def values(text: str, shape: str) -> object:
    return read(text, shape).array.tolist()


# --- forms --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "want"),
    [
        ("1", "f32[]", 1.0),
        ("{1, 2}", "s8[2]", [1, 2]),
        ("{{1 2} {3 4}}", "s8[2,2]", [[1, 2], [3, 4]]),
        ("{ /*i0=0*/ {1,2}, // row\n /*i0=1*/ {3,4}}", "s8[2,2]", [[1, 2], [3, 4]]),
        ("{}", "f32[0]", []),
        ("{{},{}}", "f32[2,0]", [[], []]),
        ("{}", "f32[0,2]", []),
        ("{ {}, {} }", "f32[2,0,7]", [[], []]),
        ("{true, false, 1, 0}", "pred[4]", [True, False, True, False]),
        ("(1, -2)", "c64[]", 1 - 2j),
        ("{(1,2) (inf,.5)}", "c64[2]", [1 + 2j, complex(np.inf, 0.5)]),
        ("{-8, 7}", "s4[2]", [-8, 7]),
        ("{-1, 0}", "s1[2]", [-1, 0]),
        ("{18446744073709551615, -0, -2}", "u64[3]", [2**64 - 1, 0, 2**64 - 2]),
        ("{-9223372036854775808, 0009223372036854775807}", "s64[2]", [-(2**63), 2**63 - 1]),
        ("{1e5, 5., .5, 1E-2, -inf}", "f64[5]", [1e5, 5.0, 0.5, 0.01, -np.inf]),
    ],
)
def test_forms(text: str, shape: str, want: object) -> None:
    got = values(text, shape)
    assert got == want
    assert got == read(write_literal(read(text, shape)), shape).array.tolist()


def test_tuples_nest() -> None:
    shape = "(f32[], (s32[2], pred[]), (), token[])"
    literal = read("(1, ({1,2}, true), (), token)", shape)
    assert write_literal(literal) == "( 1, ( {1, 2}, true ), (), token )"
    assert literal.value[1][0].tolist() == [1, 2]
    assert read(write_literal(literal), shape) == literal


def test_deep_tuples_do_not_recurse() -> None:
    shape: Shape = array("s32", [])
    for _ in range(800):
        shape = TupleShape((shape,))
    text = "(" * 800 + "7" + ")" * 800
    assert "7" in write_literal(reader._Reader(text, 0, len(text)).read(shape))


@pytest.mark.parametrize(
    "value",
    [np.zeros(2), np.zeros((2, 1), np.float32), [1.0, 2.0], (Literal.of(1),), "{1, 2}"],
)
def test_a_literal_holds_what_its_shape_says(value: Any) -> None:
    with pytest.raises(HloError, match=r"a literal of f32\[2\] cannot hold"):
        Literal(array("f32", [2]), value)
    with pytest.raises(HloError, match="is not a tuple"):
        _ = Literal(array("f32", [2])).elements


def test_negative_zero_keeps_its_sign() -> None:
    literal = read("{-0, -0.0, 0}", "f32[3]")
    assert np.signbit(literal.array).tolist() == [True, True, False]
    assert write_literal(literal) == "{-0.0, -0.0, 0}"


# --- NaN ----------------------------------------------------------------------------------------


def test_nan_payloads_and_signs_by_their_bits() -> None:
    literal = read("{nan, -nan, nan(0x7), -nan(0x7fffff)}", "f32[4]")
    assert [hex(b) for b in bits_of(literal.array)] == [
        "0x7fc00000", "0xffc00000", "0x7f800007", "0xffffffff",
    ]  # fmt: skip
    assert write_literal(literal) == "{nan, -nan, nan(0x7), -nan(0x7fffff)}"


def test_nan_payload_in_a_complex_number() -> None:
    literal = read("{(nan(0x3),nan(0x4)), (1,2)}", "c64[2]")
    assert write_literal(literal) == "{(nan(0x3), nan(0x4)), (1, 2)}"


def test_literals_are_equal_by_bits() -> None:
    assert read("nan", "f32[]") == read("nan", "f32[]")
    assert read("nan", "f32[]") != read("-nan", "f32[]")
    assert read("0", "f32[]") != read("-0.0", "f32[]")
    assert hash(read("{1,2}", "s4[2]")) == hash(read("{1 2}", "s4[2]"))
    assert read("1", "f32[]") != read("1", "f64[]")


# --- rounding -----------------------------------------------------------------------------------


def test_every_value_of_the_small_types_survives_text() -> None:
    for et in ELEMENT_TYPES.values():
        if et.is_float and et.byte_width <= 2:
            count = min(2**et.bits, 256**et.byte_width)
            every = np.arange(count, dtype=f"u{et.byte_width}").view(et.dtype)
            literal = Literal.of(every)
            assert read_literal(write_literal(literal), literal.shape) == literal, et


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**63), st.sampled_from(["f32", "f64"]))
def test_any_bits_survive_text(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    et = ELEMENT_TYPES[name]
    literal = Literal.of(np.frombuffer(rng.bytes(40 * et.byte_width), et.dtype))
    assert read_literal(write_literal(literal), literal.shape) == literal


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (0.1, "f32", "0.1"),
        (1e-45, "f32", "1.4013e-45"),
        (3.4028235e38, "f32", "3.40282347e+38"),
        (16777216.0, "f32", "16777216"),
        (123456.0, "f32", "123456"),
        (1e6, "f32", "1e+06"),
        (0.1, "bf16", "0.1001"),
        (65504.0, "f16", "65504"),
        (1 / 3, "f64", "0.33333333333333331"),
        (0.001953125, "f8e4m3fn", "0.00195"),
        (2.0**-126, "f8e8m0fnu", "1.2e-38"),
    ],
)
def test_digits_are_those_of_xla(value: float, name: str, text: str) -> None:
    literal = Literal.of(np.array(value, ELEMENT_TYPES[name].dtype))
    assert write_literal(literal) == text
    assert f"constant({text})" in xla_parse(f"{name}[] constant({text})")


def test_the_least_e8m0_keeps_its_bits() -> None:
    # XLA prints 5.9e-39 for it, and reads that as 2**-126.
    least = Literal.of(np.array(2.0**-127, ELEMENT_TYPES["f8e8m0fnu"].dtype))
    assert read_literal(write_literal(least), least.shape) == least


def test_rows_of_one_element_are_tight_as_in_xla() -> None:
    text = "constant({ { {1}, {2} } })"
    assert text in xla_parse(f"s8[1,2,1] {text}")
    assert write_literal(read("{{{1},{2}}}", "s8[1,2,1]")) in text


def test_f16_rounds_by_way_of_f32_as_in_xla() -> None:
    # Just above half way between 2048 and 2050; f32 cannot tell it from half way.
    assert values("2049.00000001", "f16[]") == 2048.0


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "offset", "words"),
    [
        ("{{1,2},{3}}", "s8[2,2]", 9, "expected 2 values in this row of s8[2,2], found 1"),
        ("{{1,2},{3,4,5}}", "s8[2,2]", 12, "found more"),
        ("{{1,2}}", "s8[2,2]", 6, "too few parts"),
        ("{{1,2},{3,4},{5,6}}", "s8[2,2]", 13, "too many parts"),
        ("{1,2}", "s8[2,2]", 1, "expected '{'"),
        ("{{{1},2}}", "s8[2,2]", 2, "found '{'"),
        ("{1}", "f32[]", 0, "expected a number"),
        ("{1}", "f32[0]", 1, "found more"),
        ("{1,,2}", "f32[2]", 3, "unexpected ','"),
        ("{1,2,}", "f32[2]", 5, "unexpected '}'"),
        ("{1,2", "f32[2]", 4, "ends too early"),
        ("", "f32[2]", 0, "ends too early"),
        ("{1,2} 3", "f32[2]", 6, "after the literal"),
        ("{1, 300}", "s8[2]", 4, "300 is out of range for s8: [-128, 127]"),
        ("{-1}", "u8[1]", 1, "-1 is out of range for u8"),
        ("{18446744073709551616}", "u64[1]", 1, "out of range"),
        ("{9223372036854775808}", "s64[1]", 1, "out of range"),
        ("{8}", "s4[1]", 1, "out of range for s4"),
        ("{65520}", "f16[1]", 1, "out of range for f16: [-65504, 65504]"),
        ("{1e400}", "f64[1]", 1, "out of range for f64"),
        ("{0}", "f8e8m0fnu[1]", 1, "out of range for f8e8m0fnu"),
        ("{inf}", "f8e4m3fn[1]", 1, "f8e4m3fn has no inf"),
        ("{nan}", "f4e2m1fn[1]", 1, "f4e2m1fn has no nan"),
        ("{nan(0x0)}", "f32[1]", 1, "NaN payload"),
        ("{nan(0x800000)}", "f32[1]", 1, "NaN payload"),
        ("{nan(0x1)}", "f8e4m3fn[1]", 1, "not possible"),
        ("{1.0}", "s32[1]", 1, "expected an integer"),
        ("{1.5}", "pred[1]", 1, "not a pred"),
        ("{+1}", "f32[1]", 1, "expected a number"),
        ("{1-2}", "f32[1]", 1, "expected a number"),
        ("{0x10}", "f32[1]", 1, "expected a number"),
        ("{1e}", "f32[1]", 1, "expected a number"),
        ("{infinity}", "f32[1]", 1, "expected a number"),
        ("{1, $}", "f32[2]", 4, "unexpected character"),
        ("{1, \u00e9}", "f32[2]", 4, "unexpected"),
        ("{1}", "c64[1]", 1, "(real, imaginary)"),
        ("{(1,2,3)}", "c64[1]", 5, "unexpected ','"),
        ("{(1)}", "c64[1]", 3, "unexpected ')'"),
        ("{(1,2),3}", "c64[2]", 7, "bare number"),
        ("{(1,2)}", "f32[1]", 1, "only complex numbers"),
        ("{1, /* 2}", "f32[2]", 4, "comment is not closed"),
        ("{1, ...}", "f32[2]", 4, "expected a number"),
        ("{...}", "f32[]", 0, "cannot be elided"),
        ("(1, 2)", "(f32[])", 2, "expected ')'"),
        ("(1)", "(f32[], f32[])", 2, "expected ','"),
        ("1", "opaque[]", 0, "no literal of shape"),
        ("{1}", "f32[1000000000000000]", 2, "found 1"),
        ("{{},{}}", "f32[1000000000,0]", 6, "too few parts"),
    ],
)
def test_errors_say_where(text: str, shape: str, offset: int, words: str) -> None:
    with pytest.raises(TextError) as e:
        read(text, shape)
    assert words in e.value.message
    assert e.value.offset == offset


def test_offsets_count_from_the_start_of_the_piece() -> None:
    with pytest.raises(TextError) as e:
        read_literal("constant({1, x})", shape_of("f32[2]"), 9, 15)
    assert e.value.offset == 4


@settings(deadline=None, max_examples=300)
@given(
    st.text(alphabet="{}(),.-+eE0123nainfx/*.\n truels\u00e9\x80", max_size=60),
    st.sampled_from(["f32[2,2]", "s8[3]", "c64[2]", "pred[]", "(f32[], u4[1])", "f4e2m1fn[2]"]),
    st.sampled_from([1, 5, 100]),
)
def test_any_text_is_a_literal_or_an_error_inside_it(text: str, shape: str, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_CHUNK_CHARS", chunk)
        patch.setattr(reader, "_CACHED_LENGTH", -1)
        for candidate in (text, "{" + text + "}", "{{1,2},{" + text + "}}", "(" + text + ")"):
            try:
                literal = read(candidate, shape)
            except TextError as e:
                assert 0 <= e.offset <= len(candidate)
            else:
                assert read(write_literal(literal), shape) == literal


# --- chunks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_chunks_of_any_size_read_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK_CHARS", chunk)
    rng = np.random.default_rng(chunk)
    for dims in [(3,), (2, 3), (4, 1, 2), (5, 0), (3, 4, 5), (2, 2, 2, 2), (7, 1, 1)]:
        for name in ("s4", "u64", "f32", "c64", "pred", "bf16"):
            et = ELEMENT_TYPES[name]
            data = rng.integers(0, 2, dims).astype(et.dtype)
            if et.bits >= 16:
                data = np.frombuffer(rng.bytes(data.nbytes), et.dtype).reshape(dims)
            literal = Literal.of(data)
            assert read_literal(write_literal(literal) + " " * 40, literal.shape) == literal


def test_an_error_in_a_later_chunk_is_found_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK_CHARS", 64)
    rows = ["{" + ", ".join(f"{i}.{j}" for j in range(8)) + "}" for i in range(50)]
    good = "{" + ",\n".join(rows) + "}"
    at = good.index("40.3")
    for bad, offset in ((good[:at] + "4x.3" + good[at + 4 :], at), (good[: at + 6], at + 6)):
        with pytest.raises(TextError) as e:
            read(bad, "f32[50,8]")
        assert e.value.offset == offset


# --- elision ------------------------------------------------------------------------------------


def test_elided_constants_are_filled_alike_and_print_elided() -> None:
    literal = read("{...}", "s32[2,3]")
    assert literal.elided and literal.array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert write_literal(literal) == "{...}"
    assert literal == read("{ ... }", "s32[2,3]") != read("{{0,1,2},{3,4,5}}", "s32[2,3]")
    # The words 0, 1, 2 fill memory byte by byte, least significant first.
    assert read("{...}", "s8[9]").array.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert read("{...}", "s4[9]").array.astype(int).tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert read("{...}", "f32[2]").array.view(np.uint32).tolist() == [0, 1]
    assert read("{...}", "s32[2,2]{0,1}").array.tolist() == [[0, 2], [1, 3]]
    for name in ELEMENT_TYPES:
        assert read("{...}", f"{name}[3]").array.shape == (3,)


def test_elided_constants_of_a_module_count_on() -> None:
    # XLA's parser fills them so, starting from 0 in a new process.
    module = hlo.parse(
        "HloModule m\nENTRY e { a = s32[3] constant({...})\n b = s32[2] constant({...})\n"
        " ROOT c = s32[5] concatenate(a, b), dimensions={0} }"
    )
    assert hlo.interpret(module).tolist() == [0, 1, 2, 3, 4]


def test_elided_tuples_and_huge_arrays_take_no_memory() -> None:
    assert read("{...}", "(f32[2], s32[])").value[1].shape == ()
    assert read("({...})", "(f32[1000000,1000000,1000])").elements[0].elided


def test_limit_elides_long_arrays_and_tuples() -> None:
    assert write_literal(read("{1,2,3}", "s8[3]"), 2) == "{...}"
    assert write_literal(read("{1,2,3}", "s8[3]"), 3) == "{1, 2, 3}"
    assert write_literal(read("(1)", "(s8[])"), 10) == "{...}"
    assert write_literal(read("7", "s8[]"), 0) == "7"


# --- values -------------------------------------------------------------------------------------


def test_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        read("{1,2}", "f32[2]").array[0] = 3


def test_of_takes_numpy_values_and_tuples() -> None:
    literal = Literal.of((np.float32(1), np.zeros((2, 1), bool), ()))
    assert literal.shape.to_string(False) == "(f32[], pred[2,1], ())"
    assert Literal(TOKEN).value is Literal.of(Literal(TOKEN).value).value


def test_of_takes_arrays_of_any_order() -> None:
    turned = np.arange(6, dtype=">i4").reshape(2, 3).T
    literal = Literal.of(turned)
    assert literal.shape.to_string(False) == "s32[3,2]"
    assert literal.array.dtype.isnative and np.array_equal(literal.array, turned)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "no element type holds the dtype <U1 of 'x'"),
        (None, "dtype object of None"),
        ((1, {}), "of {}"),
        (2**70, "of 1180591620717411303424"),
        (np.longdouble(1), "no element type holds the dtype"),
        ([1, [2]], "a literal of lists: "),
    ],
)
def test_what_there_is_no_literal_of(value: object, words: str) -> None:
    with pytest.raises(HloError, match=re.escape(words)) as e:
        Literal.of(value)
    assert e.value.code == "type-mismatch"


# --- XLA ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in ELEMENT_TYPES if n not in ("c64", "c128")])
def test_xla_reads_what_we_print_as_the_same_bits(name: str) -> None:
    """Printed again by XLA, and read by us, the constant is unchanged."""
    et = ELEMENT_TYPES[name]
    rng = np.random.default_rng(3)
    if et.byte_width == 1:
        data = np.arange(2 if et.is_pred else 1 << min(et.bits, 8), dtype=np.uint8)
        data = data.astype(et.dtype) if et.is_pred or et.is_integer else data.view(et.dtype)
    else:
        data = np.frombuffer(rng.bytes(200 * et.byte_width), et.dtype)
    if name == "f8e8m0fnu":
        data = data[1:]  # XLA prints too few digits of the smallest
    literal = Literal.of(data)
    shape = literal.shape.to_string(False)
    text = f"HloModule m\nENTRY e {{ ROOT c = {shape} constant({write_literal(literal)}) }}"
    printed = xla_parse(text, "short")
    start = printed.index("constant(") + len("constant(")
    again = read_literal(printed[start : printed.index("})", start) + 1], literal.shape)
    assert again == literal
