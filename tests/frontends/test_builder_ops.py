"""Every method of the builder: XLA's parser takes its module, and XLA:CPU computes what we do."""

from __future__ import annotations

import functools
import itertools
import zlib
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.builder import XlaBuilder, XlaOp
from hlo.frontends.builder.core import operations
from hlo.ir import Module
from hlo.testing.sampling import random_value
from tests.harness.builder_cases import CASES, NEWER, NOT_RUN, Case, all_cases
from tests.harness.oracle import assert_same, leaves, xla_parse, xla_run

# Several programs make one module: XLA takes longer to start on one than to compile it.
CHUNK = 12
_NAMES = list(CASES)


def programs(cases: list[Case]) -> tuple[Module, list[slice]]:
    """Return a module whose result is a tuple of results, and the leaves of each."""
    b = XlaBuilder("cases")
    roots: list[XlaOp] = []

    numbers = itertools.count()

    def parameter(shape: str) -> XlaOp:
        return b.parameter(next(numbers), shape)

    ends = [0]
    for case in cases:
        roots.append(case(b, parameter))
        ends.append(ends[-1] + sum(not s.is_token for _, s in roots[-1].shape.leaves()))
    module = b.build(b.tuple_(roots)).module()
    hlo.verify(module)
    return module, [slice(i, j) for i, j in itertools.pairwise(ends)]


@functools.cache
def results(chunk: int) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return what we and XLA compute for each case of a chunk."""
    names = _NAMES[chunk * CHUNK : (chunk + 1) * CHUNK]
    module, parts = programs([CASES[n] for n in names])
    rng = np.random.default_rng(zlib.crc32(names[0].encode()))
    args = [random_value(rng, s) for s in module.entry.parameter_shapes]
    ours, theirs = leaves(hlo.interpret(module, *args)), xla_run(str(module), args)
    return {n: (ours[p], theirs[p]) for n, p in zip(names, parts, strict=True)}


def test_every_operation_has_a_case() -> None:
    assert {name.split(":")[0] for name in all_cases()} == set(operations(XlaBuilder))


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_xla_does(name: str) -> None:
    ours, theirs = results(_NAMES.index(name) // CHUNK)[name]
    assert len(ours) == len(theirs) > 0
    assert_same(tuple(ours), tuple(theirs), atol=1e-5, what=name)


@pytest.mark.parametrize("name", NOT_RUN)
def test_it_is_read_by_xla_and_prints_as_it_is(name: str) -> None:
    _, case = NOT_RUN[name]
    module, _ = programs([case])
    if name not in NEWER:
        xla_parse(str(module))
    again = hlo.parse(str(module))
    assert str(again) == str(module)


def test_what_is_built_is_optimized_and_compiled() -> None:
    module, _ = programs([CASES[n] for n in ("add", "reduce", "while_", "conditional", "sort")])
    args = [random_value(np.random.default_rng(1), s) for s in module.entry.parameter_shapes]
    want = hlo.interpret(module, *args)
    assert_same(hlo.compile(module)(*args), want)
    assert_same(hlo.interpret(hlo.optimize(module), *args), want)


# Shapes that few operations take.
_ODD = (
    "f32[]", "s32[]", "pred[]", "f32[2]", "s32[3,4]", "f32[0]", "f32[2,3,4]", "c64[2,2]", "u8[1]",
    "(f32[2], s32[])", "()", "token[]", "f32[<=5,2]", "f32[?]", "s4[3]", "f8e4m3fn[2,2]",
)  # fmt: skip


@pytest.mark.parametrize("name", all_cases())
def test_with_other_operands_it_is_an_error_or_valid(name: str) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(5):
        b, numbers = XlaBuilder("odd"), itertools.count()

        def parameter(shape: str, b: XlaBuilder = b, numbers: Any = numbers) -> XlaOp:
            odd = rng.random() < 0.6
            return b.parameter(next(numbers), _ODD[rng.integers(len(_ODD))] if odd else shape)

        try:
            all_cases()[name](b, parameter)
        except hlo.HloError:
            continue
        except TypeError:
            assert name.startswith("index")  # Python's own: a tuple has no slices
            continue
        hlo.verify(b.build().module())
