"""Custom calls from native code: C functions of every version, Python's, JAX's LAPACK, notes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.compiler.pipeline import compile_text
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.host import Host
from hlo.runtime.cache import Cache
from hlo.runtime.outside import native_function
from tests.harness.run_compiled import check, run_leaves

X = np.arange(6, dtype=np.float32).reshape(2, 3)

C_SOURCE = r"""
#include "hlo_ffi.h"

void original(void *out, const void **in) {
  for (int i = 0; i < 6; ++i) ((float *)out)[i] = 2 * ((const float *)in[0])[i];
}

void status(void *out, const void **in, XlaCustomCallStatus *s) {
  const float *x = in[0];
  if (x[0] < 0) {
    XlaCustomCallStatusSetFailure(s, "negative", 8);
    return;
  }
  void **outs = out;
  for (int i = 0; i < 6; ++i) ((float *)outs[0])[i] = x[i] + 1;
  *(int32_t *)outs[1] = *(const int32_t *)in[1] * 10;
}

void unified(void *out, const void **in, const char *opaque, size_t size, XlaCustomCallStatus *s) {
  int by = opaque[size - 1] - '0';
  for (int i = 0; i < 6; ++i) ((float *)out)[i] = ((const float *)in[0])[i] * by;
  if (size != 2) XlaCustomCallStatusSetFailure(s, "bad size", 8);
}

int32_t typed(hlo_ffi_call *call) {
  const hlo_ffi_attribute *by = hlo_ffi_find(call->op, "by");
  const hlo_ffi_attribute *at = hlo_ffi_find(call->op, "at");
  const hlo_ffi_attribute *name = hlo_ffi_find(call->op, "name");
  const hlo_ffi_attribute *inner = hlo_ffi_find(call->op, "inner");
  const hlo_ffi_shape *shape = call->op->operands;
  if (by == NULL || by->kind != HLO_FFI_ATTR_FLOAT || by->type != HLO_FFI_F32) {
    return hlo_ffi_fail(call, "by is no f32", 12);
  }
  if (at->count != 2 || at->value.integers[1] != 7 || strcmp(name->value.string, "n\"") != 0 ||
      inner->kind != HLO_FFI_ATTR_DICTIONARY || inner->value.attributes[0].value.integer != 1) {
    return hlo_ffi_fail(call, "attributes", 10);
  }
  if (shape->rank != 2 || shape->dims[1] != 3 || shape->minor_to_major[0] != 0 ||
      shape->type != HLO_FFI_F32) {
    return hlo_ffi_fail(call, "shape", 5);
  }
  for (int i = 0; i < 6; ++i) {
    ((float *)call->results[0])[i] = ((const float *)call->operands[0])[i] * (float)by->value.real;
  }
  return 0;
}

int32_t in_place(hlo_ffi_call *call) {
  if (call->results[0] != call->operands[0]) return hlo_ffi_fail(call, "moved", 5);
  for (int i = 0; i < 6; ++i) ((float *)call->results[0])[i] += 1;
  return 0;
}

int64_t data = 7;
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "f.c").write_text(C_SOURCE)
    include = Path(hlo.__file__).parent / "include"
    target = folder / "f.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-I{include}", "-o", target,
         folder / "f.c"], check=True,
    )  # fmt: skip
    return str(target)


def module(call: str, parameters: str = "x = f32[2,3] parameter(0)") -> str:
    return f"HloModule m\nENTRY e {{ {parameters}\n  ROOT r = {call} }}"


def both(text: str, args: list[Any], host: Callable[[], Host]) -> list[Any]:
    """Return what native code and the interpreter make of a module."""
    native = compile_text(text.encode(), "m", cache=False, host=host())(*args)
    return [native, interpret(parse(text), args, host())]


# --- native functions ---------------------------------------------------------------------------


def test_the_original_version(library: str) -> None:
    text = module('f32[2,3] custom-call(x), custom_call_target="original"')
    for got in both(text, [X], lambda: Host(libraries=[library])):
        np.testing.assert_array_equal(got, 2 * X)


def test_the_version_with_a_status(library: str) -> None:
    text = module(
        '(f32[2,3], s32[]) custom-call(x, n), custom_call_target="status", '
        "api_version=API_VERSION_STATUS_RETURNING",
        "x = f32[2,3] parameter(0)\n  n = s32[] parameter(1)",
    )
    four = np.asarray(4, np.int32)
    for got in both(text, [X, four], lambda: Host(libraries=[library])):
        np.testing.assert_array_equal(got[0], X + 1)
        assert got[1] == 40
    host = Host(libraries=[library])
    exe = compile_text(text.encode(), "m", cache=False, host=host)
    for run in (lambda: exe(X - 1, four), lambda: interpret(parse(text), [X - 1, four], host)):
        with pytest.raises(HloError, match="negative") as e:
            run()
        assert e.value.code == "custom-call-failed"
    np.testing.assert_array_equal(exe(X, four)[0], X + 1)


def test_the_version_with_an_opaque_string(library: str) -> None:
    text = module(
        'f32[2,3] custom-call(x), custom_call_target="unified", '
        'api_version=API_VERSION_STATUS_RETURNING_UNIFIED, backend_config="a3"'
    )
    for got in both(text, [X], lambda: Host(libraries=[library])):
        np.testing.assert_array_equal(got, 3 * X)


TYPED = (
    'f32[2,3]{{0,1}} custom-call(x), custom_call_target="typed", '
    "operand_layout_constraints={{f32[2,3]{{0,1}}}}, api_version=API_VERSION_TYPED_FFI, "
    'backend_config={{by = {} : f32, at = array<i64: 5, 7>, name = "n\\"", '
    "inner = {{k = 1 : i32}}}}"
)


def test_the_typed_version_has_shapes_and_attributes(library: str) -> None:
    for got in both(module(TYPED.format("0.5")), [X], lambda: Host(libraries=[library])):
        np.testing.assert_array_equal(got, X / 2)


def test_a_function_may_rely_on_the_place_of_its_result(library: str) -> None:
    text = module(
        'f32[2,3] custom-call(x), custom_call_target="in_place", '
        "output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_TYPED_FFI"
    )
    x = X.copy()
    for got in both(text, [x], lambda: Host(libraries=[library])):
        np.testing.assert_array_equal(got, X + 1)
    np.testing.assert_array_equal(x, X)


def test_a_native_function_of_no_known_version_is_never_called() -> None:
    for version in (0, 5):
        with pytest.raises(HloError) as e:
            native_function(1, version)
        assert e.value.code == "bad-value"


@pytest.mark.parametrize("target", ["system", "abort", "malloc", "dlopen", "Py_Finalize", "data"])
@pytest.mark.parametrize("own", [True, False], ids=["library", "process"])
def test_only_functions_that_the_file_itself_defines_are_called(
    library: str, target: str, own: bool
) -> None:
    text = module(f'f32[2,3] custom-call(x), custom_call_target="{target}"')
    host = Host(libraries=[library if own else "process"])
    with pytest.raises(HloError) as e:
        compile_text(text.encode(), "m", cache=False, host=host)
    assert e.value.code == "unknown-custom-call" and "itself" in str(e.value)
    with pytest.raises(HloError) as e:
        interpret(parse(text), [X], host)
    assert e.value.code == "unknown-custom-call"


def test_a_library_that_is_not_there() -> None:
    text = module('f32[2,3] custom-call(x), custom_call_target="f"')
    with pytest.raises(HloError) as e:
        compile_text(text.encode(), "m", cache=False, host=Host(libraries=["/no/lib.so"]))
    assert e.value.code == "bad-library"


# --- Python functions ---------------------------------------------------------------------------


def test_python_functions_get_logical_arrays_and_their_operation(tmp_path: Path) -> None:
    text = module(
        '(f32[2,3]{0,1}, s32[]) custom-call(x, n), custom_call_target="f"',
        "x = f32[2,3]{0,1} parameter(0)\n  n = s32[] parameter(1)",
    )
    seen = []

    def f(op: Any, args: Any) -> Any:
        seen.append((op.attrs["custom_call_target"], args[0].shape))
        return args[0] * 2, args[1] + 1

    cache = Cache(tmp_path)
    for _ in range(2):  # built, then from the cache
        exe = compile_text(text.encode(), "m", cache=cache, host=Host(custom_calls={"f": f}))
        doubled, n = exe(X, np.asarray(4, np.int32))
        np.testing.assert_array_equal(doubled, 2 * X)
        assert n == 5
    assert seen == [("f", (2, 3))] * 2


def test_what_a_python_function_raises_comes_out_of_the_call() -> None:
    text = module('f32[2,3] custom-call(x), custom_call_target="f"')
    host = Host(custom_calls={"f": lambda op, args: 1 // 0})
    exe = compile_text(text.encode(), "m", cache=False, host=host)
    with pytest.raises(ZeroDivisionError):
        exe(X)
    host.custom_calls["f"] = lambda op, args: args[0].astype(np.float64)
    with pytest.raises(HloError, match=r"float64\[2, 3\]"):
        exe(X)
    host.custom_calls["f"] = lambda op, args: args[0]
    np.testing.assert_array_equal(exe(X), X)


TYPED_CALL = (
    'f32[2,3] custom-call(x), custom_call_target="f", api_version=API_VERSION_TYPED_FFI, '
    "backend_config={by = 2.5 : f32, n = -3 : i64, at = array<i64: 5, 7>, on = true, "
    'name = "n\\"", inner = {k = 1 : i32}, window = 7 : i32}'
)
TYPED_VALUES = {
    "by": 2.5, "n": -3, "at": [5, 7], "on": True, "name": 'n"', "inner": {"k": 1}, "window": 7
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "config"),
    [
        (TYPED_CALL, TYPED_VALUES),
        ('f32[2,3] custom-call(x), custom_call_target="f", backend_config="a3"', "a3"),
        (
            'f32[2,3] custom-call(x), custom_call_target="f", backend_config={"by":[1,2]}',
            {"by": [1, 2]},
        ),
    ],
    ids=["typed", "text", "json"],
)
def test_python_functions_get_typed_attributes(call: str, config: Any) -> None:
    seen: list[Any] = []
    host = Host(custom_calls={"f": lambda op, args: seen.append(op.attrs) or args[0]})
    both(module(call), [X], lambda: host)
    assert len(seen) == 2
    for attrs in seen:
        assert attrs["backend_config"] == config
        assert attrs["custom_call_target"] == "f" and attrs["window"] is None
        if isinstance(config, dict):
            assert attrs["by"] == config["by"]


def test_stablehlo_has_typed_attributes() -> None:
    text = """module { func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.custom_call @f(%x) {mhlo.backend_config = {by = 2.0 : f32, n = [1, 2]}}
        : (tensor<2x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32> } }"""
    host = Host(custom_calls={"f": lambda op, args: args[0] * op.attrs["by"] + op.attrs["n"][1]})
    np.testing.assert_array_equal(interpret(hlo.from_stablehlo(text), [X], host), 2 * X + 2)


@pytest.mark.parametrize("function", [lambda x: x, lambda: X, lambda op, args, more: args[0], abs])
def test_a_function_of_another_form_is_told_the_form(function: Any) -> None:
    text = module('f32[2,3] custom-call(x), custom_call_target="f"')
    host = Host(custom_calls={"f": function})
    exe = compile_text(text.encode(), "m", cache=False, host=host)
    for run in (lambda: exe(X), lambda: interpret(parse(text), [X], host)):
        with pytest.raises(HloError, match=r"does not take \(op, args\)") as e:
            run()
        assert e.value.code == "custom-call-failed"
        assert "f(op, args)" in str(e.value.diagnostics[0].hint)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("custom_calls = {'f': lambda x: x}", "f.py:1: the function of 'f', <lambda>(x), does not"),
        ("x = 1\nimport sys; sys.exit(3)", "f.py:2: SystemExit: 3"),
        ("def g(x):\n  return x.foo\ng(3)", "f.py:2: AttributeError: 'int' object"),
        ("def (", "f.py:1: SyntaxError: "),
        ("custom_calls = [abs]", "f.py defines no dictionary custom_calls"),
        ("custom_calls = {'f': {'0': abs}}", "f.py defines no dictionary custom_calls"),
        ("custom_calls = {'f': {0: 1}}", "f.py defines no dictionary custom_calls"),
    ],
)
def test_a_broken_file_of_functions_is_named_with_its_line(
    tmp_path: Path, content: str, words: str
) -> None:
    from hlo.host.plugins import host_of

    (tmp_path / "f.py").write_text(content)
    with pytest.raises(HloError) as e:
        host_of([str(tmp_path / "f.py")])
    assert e.value.code == "bad-library" and words in str(e.value)


CALLBACK = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  t = token[] parameter(1)
  y = (token[], f32[2], s32[]) custom-call(t, x), custom_call_target="xla_ffi_python_cpu_callback",
    api_version=API_VERSION_TYPED_FFI, custom_call_has_side_effect=true,
    metadata={op_name="jit(f)/io_callback" source_file="f.py" source_line=3},
    backend_config={index = 2 : ui64}
  ROOT z = f32[2] get-tuple-element(y), index=1
}
"""


def run_callback(functions: Any) -> list[Any]:
    """Return what a callback gives in native code and on the interpreter; errors as they are."""
    host = Host(custom_calls={"xla_ffi_python_cpu_callback": functions})
    runs = (
        lambda: compile_text(CALLBACK.encode(), "m.hlo", cache=False, host=host)([1, 2]),
        lambda: hlo.interpret(parse(CALLBACK, "m.hlo"), [1, 2], host=host),
    )
    results: list[Any] = []
    for run in runs:
        try:
            results.append(np.asarray(run()).tolist())
        except HloError as e:
            results.append(e)
    return results


def test_callbacks_of_jax_are_given_by_number() -> None:
    assert run_callback({2: lambda x: (2 * x, np.int32(1))}) == [[2, 4], [2, 4]]
    assert run_callback({2: lambda x: [2 * x, np.int32(1)]}) == [[2, 4], [2, 4]]
    whole = run_callback(lambda op, args: (None, args[1] * op.attrs["index"], np.int32(1)))
    assert whole == [[2, 4], [2, 4]]


@pytest.mark.parametrize(
    ("functions", "code", "words"),
    [
        (
            {},
            "unknown-custom-call",
            "callback 2 of jit(f)/io_callback is a Python function of the ",
        ),
        ({1: abs}, "unknown-custom-call", "those of numbers 1 are given; f.py:3 calls it"),
        ({2: lambda: 1}, "custom-call-failed", "is called with 1 arrays: "),
        ({2: lambda x: x}, "bad-value", "jit(f)/io_callback returned 1 results, the call has 2"),
        ({2: lambda x: None}, "bad-value", "returned 0 results, the call has 2"),
        ({2: lambda x: (x, 1.5)}, "bad-value", "is float64[], s32[] is needed"),
        ({2: lambda x: x.sort()}, "custom-call-failed", "ValueError: "),
    ],
)
def test_callbacks_of_jax_that_do_not_fit(functions: Any, code: str, words: str) -> None:
    for error in run_callback(functions):
        assert error.code == code
        assert words in str(error)


def test_a_callback_without_a_number_needs_a_function_of_calls() -> None:
    text = module('f32[2,3] custom-call(x), custom_call_target="xla_python_cpu_callback"')
    with pytest.raises(HloError, match=r"\{'xla_python_cpu_callback': f\}, where f\(op, args\)"):
        interpret(parse(text), [X])


def test_native_code_refuses_a_function_for_what_it_knows() -> None:
    text = module('f32[2,3] custom-call(x), custom_call_target="Sharding"')
    host = Host(custom_calls={"Sharding": lambda op, args: -args[0]})
    with pytest.raises(HloError, match="'Sharding' has a meaning"):
        compile_text(text.encode(), "m", cache=False, host=host)
    np.testing.assert_array_equal(interpret(parse(text), [X], host), -X)


def test_an_unknown_target_is_an_error_at_its_place() -> None:
    text = module('f32[2,3] custom-call(x), custom_call_target="my_kernl"')
    with pytest.raises(HloError) as e:
        compile_text(
            text.encode(), "m.hlo", cache=False, host=Host(custom_calls={"my_kernel": abs})
        )
    assert e.value.code == "unknown-custom-call"
    assert str(e.value).startswith("m.hlo:3:") and "'my_kernel'" in str(e.value)


def test_calls_in_a_loop_stop_it_where_they_fail() -> None:
    text = """HloModule m
test { s = (s32[], f32[2,3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)  ROOT c = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[2,3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[2,3] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  y = f32[2,3] custom-call(x, i), custom_call_target="f"  ROOT r = (s32[], f32[2,3]) tuple(j, y) }
ENTRY e { x = f32[2,3] parameter(0)  z = s32[] constant(0)  s = (s32[], f32[2,3]) tuple(z, x)
  w = (s32[], f32[2,3]) while(s), condition=test, body=step
  ROOT r = f32[2,3] get-tuple-element(w), index=1 }
"""
    host = Host(custom_calls={"f": lambda op, args: args[0] + args[1].astype(np.float32)})
    exe = compile_text(text.encode(), "m", cache=False, host=host)
    np.testing.assert_array_equal(exe(X), X + 10)
    turns: list[int] = []

    def fail(op: Any, args: Any) -> Any:
        turns.append(int(args[1]))
        return args[0] if args[1] < 2 else [][0]

    host.custom_calls["f"] = fail
    with pytest.raises(IndexError):
        exe(X)
    assert turns == [0, 1, 2]


# --- what needs no function ---------------------------------------------------------------------


def test_annotations_are_their_operand() -> None:
    for target in ("Sharding", "MoveToHost", "xla.sdy.FuncResultSharding"):
        check(module(f'f32[2,3] custom-call(x), custom_call_target="{target}"'), [X])
    check(module('f32[2,3]{0,1} custom-call(x), custom_call_target="LayoutConstraint"'), [X])


def test_a_control_dependence_returns_nothing() -> None:
    text = """HloModule m
    ENTRY e { x = f32[2] parameter(0)  y = f32[2] negate(x)  z = f32[2] abs(x)
      after = () custom-call(y, z), custom_call_target="control_dep",
        custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI
      ROOT r = f32[2] add(y, z) }"""
    x = np.array([-1, 2], np.float32)
    for result in both(text, [x], Host):
        np.testing.assert_array_equal(result, [2, 0])


def test_top_k() -> None:
    text = module('(f32[2,2], s32[2,2]) custom-call(x), custom_call_target="TopK"')
    check(text, [np.array([[3, np.nan, 7], [1, 1, -2]], np.float32)])


PINNED = """HloModule pinned
condition { s = (s32[], b(f32[2,3])) parameter(0)
  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], b(f32[2,3])) parameter(0)
  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)  next = s32[] add(i, one)
  b = b(f32[2,3]) get-tuple-element(s), index=1
  w = b(f32[2,3]{0,1}) custom-call(b), custom_call_target="twice",
    output_to_operand_aliasing={{}: (0, {})}
  ROOT t = (s32[], b(f32[2,3])) tuple(next, w) }
ENTRY e { x = f32[2,3] parameter(0)  zero = s32[] constant(0)
  b = b(f32[2,3]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}
  t = (s32[], b(f32[2,3])) tuple(zero, b)
  w = (s32[], b(f32[2,3])) while(t), condition=condition, body=body
  r = b(f32[2,3]) get-tuple-element(w), index=1
  ROOT u = f32[2,3] custom-call(r), custom_call_target="Unpin",
    output_to_operand_aliasing={{}: (0, {})} }
"""


@pytest.mark.parametrize("passes", ["", "default"])
def test_a_pinned_buffer_is_handed_to_custom_calls(passes: str) -> None:
    host = Host(custom_calls={"twice": lambda op, args: 2 * args[0]})
    exe = hlo.compile(parse(PINNED), cache=False, host=host, passes=passes)
    np.testing.assert_array_equal(exe(X), 8 * X)
    np.testing.assert_array_equal(interpret(parse(PINNED), [X], host), 8 * X)


@pytest.mark.parametrize("root", ["ROOT b", "b"])
def test_a_pinned_buffer_is_a_result(root: str) -> None:
    """It was not counted, and written all the same."""
    tuple_ = "" if root == "ROOT b" else "ROOT t = (b(f32[4]), f32[4]) tuple(b, x)"
    text = f"""HloModule m
ENTRY e {{ x = f32[4] parameter(0)
  {root} = b(f32[4]) custom-call(), custom_call_target="CreateBuffer"
  {tuple_} }}"""
    found = run_leaves(text, [np.ones(4, np.float32)])
    assert [v.tolist() for v in found] == ([[0] * 4, [1] * 4] if tuple_ else [[0] * 4])


def test_an_annotation_that_takes_several_devices_is_an_error() -> None:
    text = module('f32[4,3] custom-call(x), custom_call_target="SPMDShardToFullShape"')
    with pytest.raises(HloError) as e:
        run_leaves(text, [X])
    assert e.value.code == "unsupported-participants"


# --- JAX's LAPACK -------------------------------------------------------------------------------


def _matrices(dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def normal(*dims: int) -> np.ndarray:
        x = rng.standard_normal(dims)
        return (x + 1j * rng.standard_normal(dims) if dtype[0] == "c" else x).astype(dtype)

    a = normal(3, 4, 4)
    hermitian = a @ a.conj().swapaxes(-1, -2) + 4 * np.eye(4, dtype=dtype)
    return {"a": a, "tall": normal(3, 5, 4), "wide": normal(4, 6), "h": hermitian,
            "b": normal(3, 4, 2), "v": normal(3, 4)}  # fmt: skip


def _programs() -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
    import jax
    import jax.numpy as jnp

    linalg = jax.lax.linalg
    np_linalg = jnp.linalg
    return {
        "cholesky": (np_linalg.cholesky, ("h",)), "not positive": (np_linalg.cholesky, ("a",)),
        "lu": (linalg.lu, ("tall",)), "lu wide": (linalg.lu, ("wide",)),
        "qr": (np_linalg.qr, ("tall",)), "qr wide": (np_linalg.qr, ("wide",)),
        "qr complete": (lambda x: np_linalg.qr(x, mode="complete"), ("tall",)),
        "qr pivoted": (lambda x: jax.scipy.linalg.qr(x, pivoting=True), ("a",)),
        "svd": (np_linalg.svd, ("tall",)), "svd none": (
            lambda x: np_linalg.svd(x, compute_uv=False), ("tall",)),
        "svd thin": (lambda x: np_linalg.svd(x, full_matrices=False), ("wide",)),
        "svd by qr": (lambda x: linalg.svd(x, algorithm=linalg.SvdAlgorithm.QR), ("tall",)),
        "eigh": (np_linalg.eigh, ("h",)), "eigvalsh": (np_linalg.eigvalsh, ("h",)),
        "eig": (np_linalg.eig, ("a",)), "eigvals": (np_linalg.eigvals, ("a",)),
        "schur": (linalg.schur, ("a",)), "hessenberg": (linalg.hessenberg, ("a",)),
        "tridiagonal": (linalg.tridiagonal, ("h",)),
        "tridiagonal solve": (
            lambda d, b: linalg.tridiagonal_solve(d, d + 4, d, b), ("v", "b")),
        "singular tridiagonal solve": (
            lambda d, b: linalg.tridiagonal_solve(d, 0 * d, d, b, perturb_singular=True),
            ("v", "b")),
        "householder": (linalg.householder_product, ("a", "v")),
        "solve": (np_linalg.solve, ("a", "b")), "inverse": (np_linalg.inv, ("a",)),
        "determinant": (np_linalg.det, ("a",)),
    }  # fmt: skip


_PROGRAMS = (
    "cholesky,not positive,lu,lu wide,qr,qr wide,qr complete,qr pivoted,svd,svd none,svd thin,"
    "svd by qr,eigh,eigvalsh,eig,eigvals,schur,hessenberg,tridiagonal,tridiagonal solve,"
    "singular tridiagonal solve,householder,solve,inverse,determinant"
).split(",")


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_what_jax_exports_is_what_jax_computes(name: str, dtype: str) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("scipy")
    jax.config.update("jax_platforms", "cpu")
    with jax.enable_x64(True):
        function, operands = _programs()[name]
        args = [_matrices(dtype)[o] for o in operands]
        text = jax.jit(function).lower(*args).compiler_ir("hlo").as_hlo_text()
        wanted = [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*args))]
    near = 1e-3 if dtype == "float32" else 1e-10
    for got in both(text, args, Host):
        leaves = got if isinstance(got, tuple) else (got,)
        for g, w in zip(leaves, wanted, strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=near, atol=near)


CSR = module(
    '{} custom-call(v, s, c, x), custom_call_target="cpu_csr_sparse_dense_ffi", '
    "api_version=API_VERSION_TYPED_FFI",
    "v = f32[3] parameter(0)\n  s = s32[4] parameter(1)\n  c = s32[3] parameter(2)\n"
    "  x = f32[2,2] parameter(3)",
)


def test_sparse_products() -> None:
    values, columns = np.float32([2, 3, 4]), np.int32([1, 0, 1])
    x = np.float32([[1, 10], [2, 20]])
    args = [values, np.int32([0, 1, 1, 3]), columns, x]
    (got,) = check(CSR.replace("{}", "f32[3,2]"), args)
    np.testing.assert_array_equal(got, [[4, 40], [0, 0], [11, 110]])
    for bad in ([0, 1, 1, 4], [0, 2, 1, 3], [1, 1, 1, 3]):
        with pytest.raises(HloError, match="rows start at"):
            run_leaves(CSR.replace("{}", "f32[3,2]"), [values, np.int32(bad), columns, x])
    with pytest.raises(HloError, match="a column is outside"):
        run_leaves(CSR.replace("{}", "f32[3,2]"), [*args[:2], columns + 1, x])
    with pytest.raises(HloError, match="does not fit"):
        run_leaves(CSR.replace("{}", "f32[2,2]"), args)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("lapack_spotrf_fi", "did you mean 'lapack_spotrf_ffi'"),
        ("Shardin", "did you mean 'Sharding'"),
        ("nobody_has_this", "--load FILE"),
        ("xla_ffi_python_cpu_callback", "Python function of the process"),
        ("cusolver_getrf_ffi", "for another device"),
        ("__cublas$symm", "known are __cublas$gemm, "),
    ],
)
def test_what_may_help_with_an_unknown_target(target: str, words: str) -> None:
    text = module(f'f32[2,3] custom-call(x), custom_call_target="{target}"')
    for run in (run_leaves, lambda text, args: interpret(parse(text), args)):
        with pytest.raises(HloError) as e:
            run(text, [X])
        assert e.value.code == "unknown-custom-call"
        assert words in str(e.value) and f"'{target}'" in str(e.value)


def test_lapack_without_scipy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    text = module(
        "(f32[2,2]{0,1}, s32[2], s32[]) custom-call(x), api_version=API_VERSION_TYPED_FFI, "
        'custom_call_target="lapack_sgetrf_ffi"',
        "x = f32[2,2]{0,1} parameter(0)",
    )
    with pytest.raises(HloError) as e:
        compile_text(text.encode(), "m", cache=False)
    assert e.value.code == "missing-extra" and "hlo-tools[lapack]" in str(e.value)


@pytest.mark.parametrize("config", [
    "{uplo = 90 : ui8}", "{}", "{uplo = }", '{uplo = "L"}', "{uplo = {{}}", "{uplo = 1e999 : ui8}",
])  # fmt: skip
def test_lapack_with_attributes_that_make_no_sense(config: str) -> None:
    pytest.importorskip("scipy")
    text = module(
        '(f32[2,2]{0,1}, s32[]) custom-call(x), custom_call_target="lapack_spotrf_ffi", '
        f"api_version=API_VERSION_TYPED_FFI, backend_config={config}",
        "x = f32[2,2]{0,1} parameter(0)",
    )
    with pytest.raises(HloError):
        run_leaves(text, [np.eye(2, dtype=np.float32)])


@pytest.mark.parametrize("call", [
    '(f32[2,2]{0,1}, s32[7]) custom-call(x), custom_call_target="lapack_spotrf_ffi"',
    '(f32[2,2]{0,1}, s32[]) custom-call(x), custom_call_target="lapack_dpotrf_ffi"',
    '(f32[2,2]{0,1}, s32[]) custom-call(x, x), custom_call_target="lapack_spotrf_ffi"',
    '(f32[2,2]{0,1}, s32[7], s32[]) custom-call(x), custom_call_target="lapack_sgetrf_ffi"',
])  # fmt: skip
def test_lapack_with_shapes_that_do_not_fit(call: str) -> None:
    pytest.importorskip("scipy")
    text = module(
        f"{call}, api_version=API_VERSION_TYPED_FFI, backend_config={{uplo = 76 : ui8}}",
        "x = f32[2,2]{0,1} parameter(0)",
    )
    with pytest.raises(HloError) as e:
        run_leaves(text, [np.eye(2, dtype=np.float32)])
    assert e.value.code == "bad-value"


# --- Cholesky factors ---------------------------------------------------------------------------


def _factor_text(shape: str, batch: str, letter: str, uplo: str) -> str:
    return module(
        f"({shape}, s32[{batch}]) custom-call(x), api_version=API_VERSION_TYPED_FFI, "
        f'custom_call_target="lapack_{letter}potrf_ffi", '
        f"backend_config={{uplo = {ord(uplo)} : ui8}}",
        f"x = {shape} parameter(0)",
    )


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("letter", "sdcz")
def test_cholesky_factors_without_scipy(
    letter: str, uplo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The minor that fails first has its order in `info`; NaN is not positive."""
    import sys

    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    dtype = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}[letter]
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 3, 9, 9))
    x = (x @ x.swapaxes(-1, -2) + 9 * np.eye(9)).astype(dtype)
    x[0, 1, 0, 0], x[1, 0, 4, 4], x[1, 2, 8, 8] = -1, 0, np.nan
    name = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}[letter]
    text = _factor_text(f"{name}[2,3,9,9]{{2,3,1,0}}", "2,3", letter, uplo)
    compiled, info = run_leaves(text, [x])
    interpreted, same = interpret(parse(text), [x])
    np.testing.assert_array_equal(info, [[0, 1, 0], [5, 0, 9]])
    np.testing.assert_array_equal(info, same)
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-5, atol=1e-5)
    triangle = np.tril if uplo == "L" else np.triu
    other = np.triu if uplo == "L" else np.tril
    k = 1 if uplo == "L" else -1
    np.testing.assert_array_equal(other(compiled, k), other(x, k))
    wanted = np.linalg.cholesky(x[0, 0])
    wanted = wanted if uplo == "L" else np.conj(wanted.T)
    np.testing.assert_allclose(triangle(compiled[0, 0]), wanted, rtol=1e-4, atol=1e-4)


def test_cholesky_factors_of_empty_matrices() -> None:
    text = _factor_text("f32[3,0,0]{1,2,0}", "3", "s", "L")
    factor, info = run_leaves(text, [np.zeros((3, 0, 0), np.float32)])
    assert factor.shape == (3, 0, 0) and list(info) == [0, 0, 0]
