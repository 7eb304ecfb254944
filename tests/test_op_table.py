"""Tests made of the op table: every opcode is there, every example holds what it promises."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from inputs import random_value
from oracle import XlaError, assert_same, leaves, xla_parse, xla_run

from hlo.eval import interpret
from hlo.ir import Module
from hlo.ops import OPS
from hlo.text import parse
from hlo.types import ArrayShape, Shape, TupleShape
from hlo.values import DynamicArray
from hlo.verify import verify

# `hlo_opcode.h` of XLA.
OPCODES = """
abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce
all-reduce-done all-reduce-start all-to-all and asin asinh async-done async-start async-update atan2
atanh batch-norm-grad batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast
call cbrt ceil cholesky clamp collective-broadcast collective-permute collective-permute-done
collective-permute-start compare complex concatenate conditional constant convert convolution copy
copy-done copy-start cosh cosine count-leading-zeros custom-call divide domain dot dynamic-reshape
dynamic-slice dynamic-update-slice erf exponential exponential-minus-one fft floor fusion gather
get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one logistic map
maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter partition-id popcnt
power ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision reduce-scatter
reduce-window remainder replica-id reshape reverse rng rng-bit-generator rng-get-and-update-state
round-nearest-afz round-nearest-even rsqrt scaled-dot scan scatter select select-and-scatter send
send-done set-dimension-size shift-left shift-right-arithmetic shift-right-logical sign sine sinh
slice sort sqrt stochastic-convert subtract tan tanh topk transpose triangular-solve tuple while xor
""".split()

EXAMPLES = [(name, i) for name, spec in OPS.items() for i in range(len(spec.examples))]

# What XLA:CPU cannot be asked through jaxlib, and why.
NOT_RUN_BY_XLA: dict[str, str] = {
    "rng": "the numbers are not specified: each implementation draws its own",
}
# Examples that XLA's parser of the tested jaxlib does not read, and why.
NOT_READ_BY_XLA: dict[str, str] = {}


def example(name: str, index: int) -> str:
    return OPS[name].examples[index]


def ids(case: tuple[str, int]) -> str:
    return f"{case[0]}-{case[1]}"


def arguments(module: Module, name: str) -> list[Any]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [random_value(rng, s) for s in module.entry.parameter_shapes]


def test_all_opcodes_of_xla_are_declared() -> None:
    assert len(OPCODES) == 133
    assert sorted(OPS) == sorted(OPCODES)


@pytest.mark.parametrize("name", OPS)
def test_an_operation_says_what_it_is(name: str) -> None:
    spec = OPS[name]
    assert spec.examples, "at least one example"
    assert spec.source, "the section of the specification"
    used = {i.opcode for text in spec.examples for i in parse(text).instructions()}
    assert name in used, "an example has to use the operation"


@pytest.mark.parametrize("case", EXAMPLES, ids=ids)
def test_an_example_verifies_and_reads_back(case: tuple[str, int]) -> None:
    module = parse(example(*case))
    verify(module)
    text = str(module)
    assert str(parse(text)) == text


@pytest.mark.parametrize("case", EXAMPLES, ids=ids)
def test_xla_reads_our_print_as_the_same_module(case: tuple[str, int]) -> None:
    if case[0] in NOT_READ_BY_XLA:
        pytest.skip(NOT_READ_BY_XLA[case[0]])
    text = example(*case)
    assert xla_parse(str(parse(text))) == xla_parse(text)


@pytest.mark.parametrize("case", EXAMPLES, ids=ids)
def test_the_value_of_an_example_has_the_declared_shape(case: tuple[str, int]) -> None:
    module = parse(example(*case))
    result = interpret(module, arguments(module, case[0]))
    check_shape(result, module.entry.result_shape)


def check_shape(value: Any, shape: Shape) -> None:
    """Fail unless a run-time value is one of a shape."""
    if isinstance(shape, TupleShape):
        assert isinstance(value, tuple) and len(value) == len(shape.elements)
        for v, s in zip(value, shape.elements, strict=True):
            check_shape(v, s)
    elif isinstance(shape, ArrayShape):
        if isinstance(value, DynamicArray):
            assert shape.is_dynamic
            value = value.data
        assert isinstance(value, np.ndarray), f"{type(value)} for {shape}"
        assert value.dtype == shape.element_type.dtype
        assert value.shape == shape.dims


@pytest.mark.parametrize("case", EXAMPLES, ids=ids)
def test_the_value_of_an_example_equals_that_of_xla(case: tuple[str, int]) -> None:
    name, _ = case
    if name in NOT_RUN_BY_XLA:
        pytest.skip(NOT_RUN_BY_XLA[name])
    text = example(*case)
    module = parse(text)
    args = arguments(module, name)
    got = interpret(module, args)
    try:
        want = xla_run(text, leaves(tuple(args)))
    except XlaError as e:
        pytest.fail(f"XLA cannot run this example: {e}")
    assert_same(visible(got), want)


def visible(value: Any) -> Sequence[Any]:
    """Return the leaves of a value; a dynamic array as far as it is meant."""
    return [v.actual if isinstance(v, DynamicArray) else v for v in leaves(value)]
