"""Tests made of the op table: every opcode is there, every example holds what it promises."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hlo.eval import Host, interpret
from hlo.frontends.text import parse
from hlo.ir import Module
from hlo.ops import OPS
from hlo.testing.sampling import random_value
from hlo.values.arrays import DynamicArray
from hlo.values.types import ArrayShape, Shape, TupleShape
from hlo.verifier import verify
from tests.harness.oracle import XlaError, assert_same, leaves, xla_parse, xla_run

# `hlo_opcode.h` of XLA.
OPCODES = """
abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce
all-reduce-done all-reduce-start all-to-all and asin asinh async-done async-start async-update atan2
atanh batch-norm-grad batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast
call cbrt ceil cholesky clamp collective-broadcast collective-permute collective-permute-done
collective-permute-start collective-reduce compare complex concatenate conditional constant convert
convolution copy copy-done copy-start cosh cosine count-leading-zeros custom-call divide domain dot
dynamic-reshape dynamic-slice dynamic-update-slice erf exp2 exponential exponential-minus-one fft
floor fusion gather get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one
log2 logistic map maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter
partition-id popcnt power ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision
reduce-scatter reduce-window remainder replica-id reshape reverse rng rng-bit-generator
rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt scaled-dot scan scatter select
select-and-scatter send send-done set-dimension-size shift-left shift-right-arithmetic
shift-right-logical shuffle sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh topk
transpose triangular-solve tuple while xor
""".split()

EXAMPLES = [(name, i) for name, spec in OPS.items() for i in range(len(spec.examples))]

_NO_THUNK = "XLA:CPU has no implementation"
_NO_MLIR = "the way to XLA's compiler, MLIR, does not know it"
_HOST = "it needs a host at the other end"
# What XLA:CPU cannot be asked through jaxlib, and why.
NOT_RUN_BY_XLA: dict[str, str] = {
    **dict.fromkeys(["acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"], _NO_THUNK),
    **dict.fromkeys(["collective-broadcast", "copy-done", "copy-start", "ragged-dot"], _NO_THUNK),
    **dict.fromkeys(["send", "send-done", "recv", "recv-done"], _NO_THUNK),
    **dict.fromkeys(["mulhi", "scaled-dot"], _NO_MLIR),
    **dict.fromkeys(["infeed", "outfeed"], _HOST),
    **dict.fromkeys(["async-start", "async-update", "async-done"],
                    "MLIR makes the result a tuple, which XLA's verifier then rejects"),
    "all-to-all-1": "XLA crashes on the tuple form with one participant",
    "after-all-1": "tokens cannot be passed in",
    "bitcast": "XLA accepts it only after layout assignment",
    "fusion-0": "XLA crashes on several results in a fusion that it did not make",
    "ragged-all-to-all": "XLA crashes with one participant",
    "rng": "the numbers are free",
    **dict.fromkeys(["collective-reduce", "compare-3", "dot-3", "exp2", "log2", "shuffle"],
                    "jaxlib 0.10 does not know it"),
}  # fmt: skip
# Examples that XLA's parser of the tested jaxlib does not read, and why.
_NEWER = "jaxlib 0.10 does not know it, 0.12 reads it"
NOT_READ_BY_XLA: dict[str, str] = dict.fromkeys(
    ["collective-reduce", "compare-3", "dot-3", "exp2", "log2", "shuffle"], _NEWER
)


def skip_if_listed(case: tuple[str, int], reasons: dict[str, str]) -> None:
    """Skip a case if its operation, or this one of its examples, is listed with a reason."""
    for key in (case[0], ids(case)):
        if key in reasons:
            pytest.skip(reasons[key])


def example(name: str, index: int) -> str:
    return OPS[name].examples[index]


def ids(case: tuple[str, int]) -> str:
    return f"{case[0]}-{case[1]}"


def arguments(module: Module, name: str, *, edges: bool = False) -> list[Any]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [random_value(rng, s, edges=edges) for s in module.entry.parameter_shapes]


def test_all_opcodes_of_xla_are_declared() -> None:
    assert len(OPCODES) == 137
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
    skip_if_listed(case, NOT_READ_BY_XLA)
    text = example(*case)
    ours, original = xla_parse(str(parse(text))), xla_parse(text)
    if not text.startswith("HloModule"):
        # XLA's parser gives a single instruction a row-major entry, whatever its layouts.
        ours, original = ours.partition("\n")[2], original.partition("\n")[2]
    assert ours == original


@pytest.mark.parametrize("edges", [False, True], ids=["plain", "edges"])
@pytest.mark.parametrize("case", EXAMPLES, ids=ids)
def test_the_value_of_an_example_has_the_declared_shape(case: tuple[str, int], edges: bool) -> None:
    module = parse(example(*case))
    result = interpret(module, arguments(module, case[0], edges=edges), host(module))
    check_shape(result, module.entry.result_shape)


def host(module: Module) -> Host:
    """Return a world that has a value ready for everything the module reads from it."""
    rng = np.random.default_rng(0)
    world = Host()
    for inst in module.instructions():
        if inst.opcode in ("infeed", "recv"):
            value = random_value(rng, inst.shape.at([0]))
            if inst.opcode == "infeed":
                world.infeed.append(value)
            else:
                world.channels.setdefault(inst.attrs["channel_id"], deque()).append(value)
    return world


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
    skip_if_listed(case, NOT_RUN_BY_XLA)
    text = example(*case)
    module = parse(text)
    args = arguments(module, case[0])
    got = visible(interpret(module, args))
    try:
        want = xla_run(text, leaves(tuple(args)))
    except XlaError as e:
        pytest.fail(f"XLA cannot run this example: {e}")
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        # Sums of terms that cancel are as exact as their terms, which are as large as others.
        values = np.abs(w.astype(np.complex128))
        largest = float(np.max(values, initial=0.0, where=np.isfinite(values)))
        assert_same(g, w, atol=1e-6 * largest)


def visible(value: Any) -> Sequence[Any]:
    """Return the leaves of a value; a dynamic array as far as it is meant."""
    return [v.actual if isinstance(v, DynamicArray) else v for v in leaves(value)]
