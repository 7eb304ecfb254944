"""Random bits and numbers as native code: bit for bit what the interpreter draws."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from hlo.compiler.pipeline import compile_text
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.host import Host
from hlo.values.types import element_type
from tests.harness.oracle import assert_same

STATE = np.array([0x0123456789ABCDEF, 2**64 - 2, 2**64 - 1], np.uint64)


@pytest.mark.parametrize("algorithm, size", [
    ("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3), ("rng_default", 2),
])  # fmt: skip
@pytest.mark.parametrize(
    "dims", [(), (1,), (5,), (3, 5), (4, 3), (3, 4), (7, 3, 5), (0,), (64, 33)], ids=str
)
def test_bits(algorithm: str, size: int, dims: tuple[int, ...]) -> None:
    for et in ("u32", "u64", "s8", "f32", "bf16", "u4"):
        text = (
            f"(u64[{size}], {et}[{','.join(map(str, dims))}]) rng-bit-generator(u64[{size}] s), "
            f"algorithm={algorithm}"
        )
        got = compile_text(text.encode(), "m", cache=False)(STATE[:size])
        want = interpret(parse(text), [STATE[:size]])
        np.testing.assert_array_equal(got[0], want[0])
        if et == "u4":
            np.testing.assert_array_equal(got[1].astype(int), want[1].astype(int))
        else:
            assert got[1].tobytes() == np.ascontiguousarray(want[1]).tobytes()


def test_bits_in_another_layout() -> None:
    text = (
        "HloModule m\nENTRY e { s = u64[2] parameter(0)\n  ROOT r = (u64[2], u32[6,10]{0,1}) "
        "rng-bit-generator(s), algorithm=rng_three_fry }"
    )
    got = compile_text(text.encode(), "m", cache=False)(STATE[:2])
    np.testing.assert_array_equal(got[1], interpret(parse(text), [STATE[:2]])[1])


def draw(text: str, *args: np.ndarray) -> None:
    """Draw twice on native code and on the interpreter, from the same counter."""
    hosts = [Host(), Host()]
    exe = compile_text(text.encode(), "m", cache=False, host=hosts[0])
    module = parse(text)
    drawn = []
    for _ in range(2):
        got = exe(*args)
        assert_same(got, interpret(module, list(args), hosts[1]), rtol=1e-5, atol=1e-5)
        drawn.append(copy.copy(got))
    assert hosts[0].rng_state == hosts[1].rng_state
    assert (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("et", "f64 f32 bf16 f16 f8e5m2".split())
def test_uniform_floats(et: str) -> None:
    ends = [np.asarray(x, element_type(et).dtype) for x in (-1, 3)]
    draw(f"{et}[50,7] rng({et}[] a, {et}[] b), distribution=rng_uniform", *ends)


@pytest.mark.parametrize("et", "s64 u64 s32 u32 s16 u8 s4".split())
def test_uniform_integers(et: str) -> None:
    ends = [np.asarray(x, element_type(et).dtype) for x in (0, 5)]
    draw(f"{et}[301] rng({et}[] a, {et}[] b), distribution=rng_uniform", *ends)


@pytest.mark.parametrize("et", ["f32", "f64"])
def test_normal_numbers(et: str) -> None:
    ends = [np.asarray(x, element_type(et).dtype) for x in (2, 0.5)]
    draw(f"{et}[301] rng({et}[] a, {et}[] b), distribution=rng_normal", *ends)


def test_an_empty_interval_gives_its_lower_limit() -> None:
    text = "f32[9] rng(f32[] a, f32[] b), distribution=rng_uniform"
    one = np.asarray(1, np.float32)
    assert (compile_text(text.encode(), "m", cache=False)(one, one) == 1).all()


def test_the_counter_is_the_hosts() -> None:
    host = Host(rng_state=2**128 - 2)
    text = b"u64[2] rng-get-and-update-state(), delta=3"
    exe = compile_text(text, "m", cache=False, host=host)
    assert exe().tolist() == [2**64 - 2, 2**64 - 1]
    assert exe().tolist() == [1, 0]
    assert host.rng_state == 4
