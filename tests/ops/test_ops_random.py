"""Random numbers: bits exactly as XLA's, distributions by their statistics, state by its rules."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.eval import Host, interpret
from hlo.frontends.text import parse
from hlo.values.types import element_type
from hlo.verifier import verify
from tests.harness.oracle import xla_run

MAX = 2**64 - 1
STATES = {
    "rng_three_fry": [(5, 7), (MAX, MAX - 1)],
    "rng_philox": [(5, 7), (MAX, MAX), (5, 7, 9), (MAX, MAX - 1, MAX)],
}


def run(text: str, *args: Any, host: Host | None = None) -> Any:
    module = parse(text)
    verify(module)
    return interpret(module, args, host)


def check_bits(algorithm: str, state: tuple[int, ...], et: str, dims: tuple[int, ...]) -> None:
    shape = f"{et}[{','.join(map(str, dims))}]"
    words = f"u64[{len(state)}]"
    text = f"({words}, {shape}) rng-bit-generator({words} s), algorithm={algorithm}"
    args = [np.array(state, np.uint64)]
    (new, bits), (want_new, want_bits) = run(text, *args), xla_run(text, args)
    assert new.dtype == np.uint64
    assert new.tolist() == want_new.tolist()
    assert bits.dtype == element_type(et).dtype
    assert bits.shape == want_bits.shape
    # XLA's results come back as unsigned integers of the same width.
    assert bits.tobytes() == want_bits.tobytes()


@pytest.mark.parametrize("algorithm", STATES)
@pytest.mark.parametrize(
    "dims",
    [(), (1,), (5,), (4,), (3, 5), (3, 4), (4, 3), (1, 1), (5, 1, 3), (7, 7), (3, 3, 2), (0, 3)],
    ids=str,
)
def test_bits_of_every_shape_are_those_of_xla(algorithm: str, dims: tuple[int, ...]) -> None:
    for et in ("u32", "u64"):
        check_bits(algorithm, STATES[algorithm][0], et, dims)


@pytest.mark.parametrize("algorithm", STATES)
@pytest.mark.parametrize("et", "s8 u8 s16 u16 s32 s64 f16 bf16 f32 f64 u4 s4 u2".split())
def test_bits_of_every_type_are_those_of_xla(algorithm: str, et: str) -> None:
    check_bits(algorithm, (123456789, 2**40 + 3), et, (3, 7))


@pytest.mark.parametrize(
    ("algorithm", "state"),
    [(a, s) for a, states in STATES.items() for s in states] + [("rng_default", (5, 7))],
    ids=str,
)
def test_every_state_goes_on_as_in_xla(algorithm: str, state: tuple[int, ...]) -> None:
    # The counters wrap around inside these arrays.
    for et, dims in itertools.product(("u32", "u64"), ((5,), (3, 5))):
        check_bits(algorithm, state, et, dims)


def test_bits_of_narrow_floats_keep_nan_and_all() -> None:
    text = "(u64[2], f8e4m3fn[4096]) rng-bit-generator(u64[2] s), algorithm=rng_philox"
    _, bits = run(text, np.array([1, 2], np.uint64))
    assert set(bits.view(np.uint8)) == set(range(256))


UNIFORM = "{0}[20000] rng({0}[] a, {0}[] b), distribution=rng_uniform"
NORMAL = "{0}[20000] rng({0}[] a, {0}[] b), distribution=rng_normal"


def scalars(et: str, *values: float) -> list[np.ndarray]:
    return [np.asarray(v).astype(element_type(et).dtype) for v in values]


@pytest.mark.parametrize("et", "f64 f32 bf16 f16 f8e5m2 f8e4m3fn".split())
def test_uniform_floats_lie_in_the_half_open_interval(et: str) -> None:
    got = run(UNIFORM.format(et), *scalars(et, -1, 3))
    assert got.dtype == element_type(et).dtype
    wide = got.astype(np.float64)
    assert wide.min() >= -1
    assert wide.max() < 3
    assert abs(wide.mean() - 1) < 0.1
    assert abs(wide.std() - 4 / 12**0.5) < 0.1


@pytest.mark.parametrize("et", "s64 u64 s32 u32 s16 u8 s4 u2".split())
def test_uniform_integers_take_every_value_below_the_limit(et: str) -> None:
    got = run(UNIFORM.format(et), *scalars(et, 0, 3))
    assert got.dtype == element_type(et).dtype
    values, counts = np.unique(got.astype(np.int64), return_counts=True)
    assert values.tolist() == [0, 1, 2]
    assert counts.min() > 6000


def test_the_whole_range_of_an_integer_type_can_be_asked_for() -> None:
    low, high = -(2**63), 2**63 - 1
    got = run(UNIFORM.format("s64"), np.array(low), np.array(high))
    assert got.min() < low / 2
    assert got.max() > high / 2
    got = run(UNIFORM.format("f64"), np.array(-1.7e308), np.array(1.7e308))
    assert np.isfinite(got).all()


@pytest.mark.parametrize("et", ["f32", "s32", "pred"])
def test_an_empty_interval_gives_its_lower_limit(et: str) -> None:
    # The specification leaves this to the implementation.
    got = run(UNIFORM.format(et), *scalars(et, 1, 1))
    assert np.unique(got).tolist() == [1]


@pytest.mark.parametrize("et", "f64 f32 bf16 f16".split())
def test_normal_numbers_have_their_mean_and_deviation(et: str) -> None:
    got = run(NORMAL.format(et), *scalars(et, 2, 0.5))
    assert got.dtype == element_type(et).dtype
    wide = got.astype(np.float64)
    assert abs(wide.mean() - 2) < 0.02
    assert abs(wide.std() - 0.5) < 0.02


def test_the_seed_of_the_host_decides() -> None:
    def one(seed: int) -> Any:
        host = Host(rng_state=seed)
        return run(UNIFORM.format("f32"), *scalars("f32", 0, 1), host=host)

    assert (one(1) == one(1)).all()
    assert (one(1) != one(1 << 20)).any()


def test_the_state_is_returned_and_then_moved() -> None:
    text = "u64[2] rng-get-and-update-state(), delta=3"
    assert run(text).tolist() == xla_run(text)[0].tolist()
    host = Host(rng_state=2**128 - 2)
    assert run(text, host=host).tolist() == [2**64 - 2, 2**64 - 1]
    assert run(text, host=host).tolist() == [1, 0]
    # One state for the whole module: XLA:CPU has one for each instruction.
    module = """HloModule states
ENTRY main {
  a = u64[2] rng-get-and-update-state(), delta=5
  b = u64[2] rng-get-and-update-state(), delta=1, control-predecessors={a}
  ROOT t = (u64[2], u64[2]) tuple(a, b)
}
"""
    a, b = run(module, host=Host(rng_state=2**64 - 1))
    assert a.tolist() == [2**64 - 1, 0]
    assert b.tolist() == [4, 1]


BITS = "(u64[2], u32[5]) rng-bit-generator(u64[2] s), algorithm=rng_philox"
RNG = "f32[5] rng(f32[] a, f32[] b), distribution=rng_normal"
STATE = "u64[2] rng-get-and-update-state(), delta=3"


@pytest.mark.parametrize(
    ("text", "old", "new", "code"),
    [
        (BITS, "u64[2]", "u64[4]", "shape-mismatch"),
        (BITS, "u64[2]", "u32[4]", "type-mismatch"),
        (BITS, "u64[2]", "u64[2,1]", "shape-mismatch"),
        (BITS.replace("philox", "three_fry"), "u64[2]", "u64[3]", "shape-mismatch"),
        (BITS, "u32[5]", "pred[5]", "type-mismatch"),
        (BITS, "u32[5]", "c64[5]", "type-mismatch"),
        (BITS, "(u64[2], u32[5]) rng", "u32[5] rng", "type-mismatch"),
        (BITS, "(u64[2], u32[5]) rng", "(u64[3], u32[5]) rng", "shape-mismatch"),
        (BITS, "rng_philox", "rng_mt19937", "bad-value"),
        (RNG, "f32", "s32", "type-mismatch"),
        (RNG, "f32", "c64", "type-mismatch"),
        (RNG.replace("normal", "uniform"), "f32", "c64", "type-mismatch"),
        (RNG, "f32[] b", "f64[] b", "type-mismatch"),
        (RNG, "f32[] b", "f32[1] b", "shape-mismatch"),
        (RNG, "f32[5]", "f64[5]", "type-mismatch"),
        (RNG, "rng_normal", "rng_cauchy", "bad-value"),
        (STATE, "u64[2]", "u64[3]", "shape-mismatch"),
        (STATE, "u64[2]", "u32[2]", "type-mismatch"),
        (STATE, ", delta=3", "", "missing-attribute"),
    ],
)
def test_a_broken_rule_is_named(text: str, old: str, new: str, code: str) -> None:
    assert old in text
    with pytest.raises(HloError) as caught:
        verify(parse(text.replace(old, new)))
    assert code in {d.code for d in caught.value.diagnostics}, str(caught.value)


def test_a_result_beyond_memory_is_our_error() -> None:
    text = f"f32[{10**9},{10**9}] rng(f32[] a, f32[] b), distribution=rng_uniform"
    with pytest.raises(HloError) as caught:
        interpret(parse(text), scalars("f32", 0, 1))
    assert caught.value.code == "out-of-memory"
