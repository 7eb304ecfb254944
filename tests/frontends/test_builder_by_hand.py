"""Methods whose programs XLA:CPU cannot run: results are worked out here, by numpy or by a host."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.builder import XlaBuilder
from hlo.ir import Module
from hlo.testing.sampling import random_value
from tests.harness.builder_cases import NOT_RUN
from tests.harness.oracle import assert_same

_F2 = np.float32([1.5, -2])


def program(name: str) -> Module:
    b = XlaBuilder("by_hand")
    numbers = itertools.count()
    root = NOT_RUN[name][1](b, lambda shape: b.parameter(next(numbers), shape))
    return b.build(root).module()


def _ragged(x: Any, w: Any) -> Any:
    return np.concatenate([x[:2] @ w[0], x[2:] @ w[1]])


def _scaled(x: Any, s: Any, w: Any, t: Any) -> Any:
    return (x * np.repeat(s, 2, 1)) @ (w * np.repeat(t, 2, 0))


def _scan(x: Any, c: Any) -> Any:
    products = []
    for row in x:
        products.append(row * c)
        c = row + c
    return np.stack(products), c


def _mulhi(x: Any, y: Any) -> Any:
    return (x.astype(np.int64) * y >> 32).astype(np.int32)


def _same(x: Any) -> Any:
    return x


def _double(x: Any) -> Any:
    return x + x


def _write_rows(x: Any, y: Any) -> Any:
    y = y.copy()
    y[3:5] = x[:2]
    return y


RESULTS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "exp2": np.exp2, "log2": np.log2,
    "rotate": lambda x: np.roll(x, (-2, 1), (1, 0)), "collective_reduce": _same,
    "atanh": np.arctanh, "cosh": np.cosh, "sinh": np.sinh, "mulhi": _mulhi,
    "async_done": _double, "async_start": _double, "async_update": _double,
    "bitcast": lambda x: x.reshape(6),
    "collective_broadcast": _same, "copy_done": _same, "copy_start": _same,
    "constant:tuple": lambda: np.array([True]),
    "dynamic_reshape": lambda x: x.reshape(2, 3),
    "ragged_all_to_all": _write_rows,
    "ragged_dot": _ragged, "scaled_dot": _scaled, "scan": _scan,
    "set_dimension_size": lambda x: x[:3],
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_it_computes_what_numpy_does(name: str) -> None:
    module, rng = program(name), np.random.default_rng(5)
    args = [random_value(rng, s) for s in module.entry.parameter_shapes]
    want = RESULTS[name](*args)
    for got in (hlo.interpret(module, *args), hlo.compile(module, cache=False, passes="")(*args)):
        assert_same(got, want, rtol=1e-5, atol=1e-6)


def test_stochastic_convert_rounds_to_a_neighbour() -> None:
    x = np.float32([0.25, -1.75, 3])
    low = hlo.interpret(program("stochastic_convert"), x, np.uint32([0] * 3))
    high = hlo.interpret(program("stochastic_convert"), x, np.uint32([2**32 - 1] * 3))
    assert {tuple(low), tuple(high)} == {(0, -1, 3), (1, -2, 3)}


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("rng_normal", -20, 20), ("rng_uniform", 1, 8), ("rng_bernoulli", 0, 1)],
)
def test_random_numbers_lie_in_their_range(name: str, low: float, high: float) -> None:
    for run in (lambda: hlo.interpret(program(name)), hlo.compile(program(name), cache=False)):
        got = run()
        assert got.shape == (5,) and low <= got.min() <= got.max() <= high


# name: (values on the host before; result; values there after)
HOST: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "infeed": ({"infeed": [(_F2, np.int32(7))]}, (_F2, np.int32(7)), {"infeed": []}),
    "infeed_with_token": ({"infeed": [_F2]}, (_F2,), {"infeed": []}),
    "outfeed": ({}, (), {"outfeed": [_F2]}),
    "outfeed_with_token": ({}, (), {"outfeed": [_F2]}),
    "trace": ({}, (), {"outfeed": [_F2]}),
    **{name: ({}, (), {"channels": {1: [_F2]}}) for name in NOT_RUN if "send" in name},
    **{
        name: ({"channels": {1: [_F2]}}, (_F2,), {"channels": {1: []}})
        for name in NOT_RUN
        if "recv" in name
    },
}


@pytest.mark.parametrize("name", HOST)
def test_it_exchanges_values_with_the_host(name: str) -> None:
    before, want, after = HOST[name]
    module = program(name)
    args = [_F2] * len(module.entry.parameters)
    for compiled in (False, True):
        host = hlo.Host(
            infeed=deque(before.get("infeed", [])),
            channels={k: deque(v) for k, v in before.get("channels", {}).items()},
        )
        run = hlo.compile(module, host=host, cache=False) if compiled else None
        got = run(*args) if run else hlo.interpret(module, *args, host=host)
        assert_same(got, want)
        for queue, values in after.items():
            found = getattr(host, queue)
            if isinstance(values, dict):
                found, values = found[1], values[1]
            assert_same(tuple(found), tuple(values))


def test_every_method_is_compared_somewhere() -> None:
    elsewhere = {"stochastic_convert", "rng_normal", "rng_uniform", "rng_bernoulli"}
    assert set(NOT_RUN) == {*RESULTS, *HOST, *elsewhere}
