"""Programs of JAX that call Python while they run, in each way of running them, beside XLA."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.frontends.jax_callbacks import Callback, functions_of, give_callbacks

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import buffer_callback, checkify, io_callback  # noqa: E402

X, V = np.float32(3), np.arange(4, dtype=np.float32)
TARGET = "xla_ffi_python_cpu_callback"
# What the callbacks of a run were called with, in order.
LOG: list[Any] = []


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """JAX logs the exceptions of callbacks."""
    with caplog.at_level("CRITICAL"):
        yield


def same(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def told(name: str, *values: Any) -> None:
    LOG.append((name, *(np.asarray(v).tolist() for v in values)))


def pure(name: str, x: Any) -> Any:
    def f(x: Any) -> Any:
        told(name, x)
        return np.asarray(x) + 1

    return jax.pure_callback(f, same(x), x, vmap_method="sequential")


def io(name: str, x: Any, *, ordered: bool = True) -> Any:
    def f(x: Any) -> Any:
        told(name, x)
        return np.asarray(x) + 1

    return io_callback(f, same(x), x, ordered=ordered)


def debug(name: str, *values: Any, ordered: bool = True) -> None:
    jax.debug.callback(lambda *v: told(name, *v), *values, ordered=ordered)


# --- programs -----------------------------------------------------------------------------------


def nested_control(x: Any) -> Any:
    def odd(i: Any, c: Any) -> Any:
        return lax.fori_loop(0, i, lambda _, c: io("odd", c), c)

    return lax.fori_loop(
        0, 4, lambda i, c: lax.cond(i % 2 == 0, lambda c: io("even", c), lambda c: odd(i, c), c), x
    )


def loop_without_trips(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 0, lambda c: (c[0] + 1, pure("no", x)), (0, x))


def loop_that_may_run(x: Any) -> Any:
    """XLA:CPU hoists what does not change, and calls it although the loop does not run."""
    stop = x.astype(int) - 10
    return lax.while_loop(lambda c: c[0] < stop, lambda c: (c[0] + 1, pure("no", x)), (0, x))


def branches(x: Any) -> Any:
    return lax.cond(x > 5, lambda x: pure("greater", x), lambda x: pure("less", x), x)


def one_branch(x: Any) -> Any:
    return lax.cond(x > 5, lambda x: pure("greater", x), lambda x: 2 * x, x)


def switch(x: Any) -> Any:
    return lax.switch(1, [lambda x: io("a", x), lambda x: io("b", x), lambda x: x], x)


def scan(v: Any) -> Any:
    def step(sum_: Any, x: Any) -> Any:
        y = io("step", x)
        return sum_ + y, y

    return lax.scan(step, jnp.float32(0), v)


def condition(x: Any) -> Any:
    return lax.while_loop(lambda c: io("c", c, ordered=False) < 10, lambda c: c + 2, x)


def derivative(x: Any) -> Any:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        debug("primal", x)
        return pure("f", x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (pure("vjp", x) * g,))
    return jax.value_and_grad(f)(x)


def twice_the_same(x: Any) -> Any:
    def f(x: Any) -> Any:
        told("same", x)
        return x

    shape = same(x)
    return io_callback(f, shape, x) + io_callback(f, shape, x)


def unused(x: Any) -> Any:
    pure("pure", x)
    io("io", x, ordered=False)
    return x


def no_results() -> None:
    io_callback(lambda: told("first"), None, ordered=True)
    io_callback(lambda: told("second"), None, ordered=True)


def tree(d: Any) -> Any:
    shapes = {"a": same(d["x"]), "b": (jax.ShapeDtypeStruct((0, 2), np.int32),)}
    return jax.pure_callback(
        lambda d: {"a": 2 * d["x"], "b": (np.zeros((0, 2), np.int32),)}, shapes, d
    )


def calls_of_a_jitted_function(x: Any) -> Any:
    f = jax.jit(lambda x: io("f", x))
    return f(f(x))


def transposed(v: Any) -> Any:
    m = jnp.outer(v, v + 1)
    return jax.pure_callback(lambda a: np.asarray(a).T.copy(), same(m), m.T) + m


def keys() -> Any:
    key = jax.random.key(1)
    debug("key", key)
    return key


def float0(x: Any) -> Any:
    zeros = np.zeros(2, jax.dtypes.float0)
    debug("float0", zeros)
    return jax.pure_callback(lambda x: zeros, same(zeros), x)


def checked(x: Any) -> Any:
    def f(x: Any) -> Any:
        checkify.check(x < 0, "{x} is not negative", x=x)
        return io("f", x)

    return checkify.checkify(f)(x)[1]


PROGRAMS: list[tuple[Callable[..., Any], Any]] = [
    *((f, X) for f in (nested_control, loop_without_trips, branches, one_branch, switch)),
    *((f, X) for f in (condition, derivative, twice_the_same, unused, float0, checked)),
    (calls_of_a_jitted_function, X), (scan, V), (transposed, V), (tree, {"x": V}),
    (jax.vmap(lambda x: pure("pure", x)), V),
    (jax.vmap(lambda x: io("io", x, ordered=False)), V),
    (jax.vmap(lambda x: debug("debug", x, ordered=False)), V),
    (jax.grad(jax.checkpoint(lambda x: (debug("again", x), jnp.sin(jnp.sin(x)))[1])), X),
]  # fmt: skip
RUNS: dict[str, Callable[..., Any]] = {
    "compiled": lambda m, *args: hlo.compile(m)(*args),
    "interpreted": lambda m, *args: hlo.interpret(m, *args),
    "optimized": lambda m, *args: hlo.interpret(hlo.optimize(m), *args),
}
each_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def result_and_log(f: Callable[[], Any]) -> tuple[str, list[Any]]:
    LOG.clear()
    result = f()
    jax.effects_barrier()
    return str(jax.tree.map(np.asarray, result)), LOG.copy()


@pytest.mark.parametrize(("function", "argument"), PROGRAMS)
def test_calls_and_results_are_those_of_xla(function: Any, argument: Any) -> None:
    want = result_and_log(lambda: jax.jit(function)(argument))
    module = hlo.from_jax(function, argument)
    for name, run in RUNS.items():
        assert (name, result_and_log(lambda run=run: run(module, argument))) == (name, want)


@each_run
def test_arguments_are_not_needed(run: Any) -> None:
    assert result_and_log(lambda: run(hlo.from_jax(no_results))) == (
        "None", [("first",), ("second",)],
    )  # fmt: skip
    LOG.clear()
    key = run(hlo.from_jax(keys))
    assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert LOG == [("key", [0, 1])]


@each_run
def test_a_loop_that_does_not_run_calls_nothing(run: Any) -> None:
    assert result_and_log(lambda: run(hlo.from_jax(loop_that_may_run, X), X))[1] == []


@pytest.mark.parametrize(
    "dtype",
    "int4 uint4 int2 uint2 bool uint8 int16 float16 bfloat16 float8_e5m2 float4_e2m1fn "
    "complex64".split(),
)
def test_all_types_pass(dtype: str) -> None:
    x = np.array([[1, 0, 1], [0, 1, 1]]).astype(getattr(jnp, dtype).dtype)
    seen = []

    def f(x: Any) -> Any:
        def reversed_(a: Any) -> Any:
            seen.append((a.dtype, a.shape))
            return np.asarray(a)[:, ::-1]

        return jax.pure_callback(reversed_, same(x), x)

    module = hlo.from_jax(f, x)
    for run in RUNS.values():
        got = run(module, x)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, x[:, ::-1])
    assert set(seen) == {(x.dtype, x.shape)}


# --- where the functions are --------------------------------------------------------------------


def printed(x: Any) -> Any:
    jax.debug.print("x is {x:.1f}", x=x, ordered=True)
    return pure("pure", x)


@pytest.mark.parametrize(
    "stage",
    [lambda f: f.trace(X), lambda f: f.lower(X), lambda f: f.lower(X).compile()],
)
def test_stages_of_jax_have_them(stage: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert hlo.compile(stage(jax.jit(printed)))(X) == 4
    assert capsys.readouterr().out == "x is 3.0\n"


def test_copies_have_them(capsys: pytest.CaptureFixture[str]) -> None:
    module = hlo.from_jax(printed, X)
    for made in (module.clone(), copy.deepcopy(module), hlo.optimize(module, "dce")):
        assert hlo.interpret(made, X) == 4
    assert capsys.readouterr().out == 3 * "x is 3.0\n"
    assert set(module.custom_calls) == {TARGET}
    assert sorted(module.custom_calls[TARGET]) == [0, 1]


@pytest.mark.parametrize("backend", ["reference", "gpu-emulated"])
def test_other_backends_have_them(backend: Any) -> None:
    assert hlo.compile(printed, X, backend=backend)(X) == 4


def test_several_devices_have_them() -> None:
    assert hlo.compile(hlo.from_jax(lambda v: pure("pure", v), V), devices=2)(V)[3] == 4


def test_what_is_compiled_again_calls_its_own() -> None:
    """The second program is the first one's, from the cache."""
    for n in range(2):
        run = hlo.compile(lambda x, n=n: jax.pure_callback(lambda x: x + n, same(x), x), X)
        assert run(X) == 3 + n


def test_functions_of_the_host_come_first() -> None:
    host = hlo.Host(custom_calls={TARGET: {0: lambda x: -x}})
    module = hlo.from_jax(lambda x: pure("pure", x), X)
    assert hlo.compile(module, host=host)(X) == hlo.interpret(module, X, host=host) == -3
    assert hlo.compile(module, host=hlo.Host())(X) == 4


def test_what_a_lowering_keeps_alive_is_used() -> None:
    module = hlo.parse(
        "HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] custom-call(x), "
        'custom_call_target="xla_ffi_python_cpu_callback", backend_config={index = 70 : ui64}, '
        "api_version=API_VERSION_TYPED_FFI }"
    )

    kept = [object(), Callback(70, lambda x: (2 * x,))]
    lowering = SimpleNamespace(compile_args={"keepalive": kept})
    program = SimpleNamespace(_lowering=lowering)
    give_callbacks(module, lambda: functions_of(program))
    assert hlo.interpret(module, X) == 6


# --- tools --------------------------------------------------------------------------------------


def with_nan(v: Any) -> Any:
    return jnp.log(jax.pure_callback(lambda a: np.asarray(a) - 1, same(v), jnp.abs(v))).sum()


def test_tools_that_run_modules_call_them() -> None:
    module = hlo.from_jax(with_nan, V)
    for backend in ("compiled", "reference"):
        found = hlo.find_nan(module, V, backend=backend)
        assert found is not None
        assert found.opcode == "log"
        paths = [v.path for v in hlo.trace(module, V, backend=backend).values]
        assert any("pure_callback" in path for path in paths)
    assert hlo.first_divergence(module, V + 2) is None
    hlo.optimize(module, validate=True)


def test_reduced_modules_have_them() -> None:
    small = hlo.reduce(hlo.from_jax(with_nan, V), lambda m: TARGET in str(m))
    assert [i.opcode for i in small.entry][1:] == ["custom-call"]
    assert list(small.custom_calls) == [TARGET]


@pytest.mark.parametrize("ordered", [False, True])
def test_xla_runs_them_as_the_other_side(ordered: bool) -> None:
    module = hlo.from_jax(lambda x: io("io", x, ordered=ordered) * 2, X)
    LOG.clear()
    assert hlo.first_divergence(module, X, against="xla") is None
    assert len(LOG) >= 2
    bare = hlo.parse(str(module))
    host = hlo.Host(custom_calls={TARGET: {0: lambda x: x + 1}})
    assert hlo.first_divergence(bare, X, against="xla", host=host) is None
    with pytest.raises(hlo.HloError, match=r"callback 0 of .*io_callback is a Python function"):
        # XLA ends the process if there is no function.
        hlo.first_divergence(bare, X, backend="xla", against="reference")


# --- errors -------------------------------------------------------------------------------------


def fails(x: Any) -> Any:
    raise ValueError("no such number")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fails, r"callback 0 of jit\(f\)/pure_callback failed: .*test_jax_callbacks.py:\d+: "
                "ValueError: no such number"),
        (lambda x: np.zeros(3, np.float32), r"Incorrect output shape .*\(\), Actual: \(3,\)"),
        (lambda x: np.int32(1), "Incorrect output dtype .* Expected: float32, Actual: int32"),
        (lambda x: (x, x), "Mismatched number of outputs from callback. Expected: 1, Actual: 2"),
    ],
)  # fmt: skip
def test_exceptions_are_the_cause_of_the_error(function: Any, message: str) -> None:
    def f(x: Any) -> Any:
        return jax.pure_callback(function, same(x), x)

    module = hlo.from_jax(f, X)
    for run in RUNS.values():
        with pytest.raises(hlo.HloError, match=message) as e:
            run(module, X)
        assert e.value.code == "custom-call-failed"
        assert type(e.value.__cause__) is (ValueError if function is fails else RuntimeError)


def test_interrupts_pass() -> None:
    def interrupt(x: Any) -> Any:
        raise KeyboardInterrupt

    module = hlo.from_jax(lambda x: jax.pure_callback(interrupt, same(x), x), X)
    for run in RUNS.values():
        with pytest.raises(KeyboardInterrupt):
            run(module, X)


def test_text_does_not_have_them() -> None:
    """The error names the function, and the line that calls it."""
    module = hlo.parse(str(hlo.from_jax(printed, X)))
    for run in RUNS.values():
        with pytest.raises(hlo.HloError) as e:
            run(module, X)
        assert e.value.code == "unknown-custom-call"
        text = str(e.value)
        assert "callback 0 of jit(printed)/debug_print is a Python function of the process" in text
        assert "test_jax_callbacks.py:" in text
        assert "in printed calls it" in text
        assert f"custom_calls = {{'{TARGET}': {{0: f}}}}" in text


def write_sums(context: Any, results: Any, x: Any, y: Any) -> None:
    told("write_sums", x, y)
    total, twice = map(np.asarray, results)
    assert total.ctypes.data == np.asarray(x).ctypes.data
    assert (x.shape, x.dtype, x.ndim, x.writeable) == ((4,), np.float32, 1, False)
    assert results[0].writeable
    assert context.stage == buffer_callback.ExecutionStage.EXECUTE
    with pytest.raises(jax.errors.JaxRuntimeError, match="GPU context is not available"):
        _ = context.stream
    np.testing.assert_array_equal(np.from_dlpack(y), V + 1)
    twice[...] = 2 * total
    total += np.asarray(y)


def test_functions_write_to_buffers_of_their_results() -> None:
    call = buffer_callback.buffer_callback(
        write_sums, (same(V), same(V)), input_output_aliases={0: 0}
    )

    def f(x: Any) -> Any:
        return call(x + 0, x + 1)

    module = hlo.from_jax(jax.jit(f).lower(V))
    for got in (hlo.interpret(module, V), hlo.compile(module)(V), jax.jit(f)(V)):
        np.testing.assert_array_equal(got[0], 2 * V + 1)
        np.testing.assert_array_equal(got[1], 2 * V)
