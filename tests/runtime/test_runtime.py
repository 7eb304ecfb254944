"""Calling compiled programs: arguments, layouts, threads, memory that is shared or used again."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.runtime import blocks, boundary, frame, pool
from hlo.runtime.jit import NativeCode, host_machine
from hlo.runtime.support import support, support_code
from hlo.values.arrays import TOKEN_VALUE
from hlo.values.types import array
from tests.harness.run_compiled import compiled

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def same(shape: str) -> str:
    """Return a module that gives back its parameter, after one operation on it."""
    return (
        f"HloModule m\nENTRY e {{\n  a = {shape} parameter(0)\n  ROOT b = {shape} negate(a)\n}}\n"
    )


# --- arguments ----------------------------------------------------------------------------------

NESTED = """HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  t = (f32[2,3], (s32[], token[])) parameter(1)
  a = f32[2,3] get-tuple-element(t), index=0
  u = (s32[], token[]) get-tuple-element(t), index=1
  n = s32[] get-tuple-element(u), index=0
  k = token[] get-tuple-element(u), index=1
  s = f32[2,3] add(x, a)
  i = (s32[], token[]) tuple(n, k)
  ROOT r = (f32[2,3], (s32[], token[]), f32[2,3]) tuple(s, i, s)
}
"""


def test_tuples_go_in_and_out_nested() -> None:
    for args in ((X, (X, (np.int32(4), None))), (X, X, np.int32(4)), (X.tolist(), (X, [4, None]))):
        first, (number, token), again = compiled(NESTED)(*args)
        np.testing.assert_array_equal(first, X + X)
        np.testing.assert_array_equal(again, X + X)
        assert number.shape == () and number.dtype == np.int32 and number == 4
        assert token is TOKEN_VALUE


@pytest.mark.parametrize(
    "args",
    [
        (X,), (X, X), (X, X, 1, 2), (X.astype(float), X, 1), (X[:1], X, 1), (X, (X, 1)),
        (X, (X, (1.5, None))), ("word", X, 1), (X, X, 2**40),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_as_the_interpreter_does(args: tuple[Any, ...]) -> None:
    with pytest.raises(HloError) as wanted:
        hlo.interpret(hlo.parse(NESTED), *args)
    with pytest.raises(HloError) as got:
        compiled(NESTED)(*args)
    assert str(got.value) == str(wanted.value)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(X), X[:, ::-1][:, ::-1], np.repeat(X, 2, 1)[:, ::2], X.astype(">f4"),
        np.frombuffer(b"\0" + X.tobytes(), "V4", 6, 1).view("f4").reshape(2, 3),
        X.view(type("Mine", (np.ndarray,), {})), X.view("V4"),
    ],
)  # fmt: skip
def test_arrays_in_any_order_in_memory(array: np.ndarray) -> None:
    np.testing.assert_array_equal(compiled(same("f32[2,3]"))(array), -X)


def test_results_are_new_arrays() -> None:
    exe = compiled(same("f32[2,3]"))
    first = exe(X)
    second = exe(first)
    assert type(first) is np.ndarray and first.flags.c_contiguous and first.flags.writeable
    np.testing.assert_array_equal(first, -X)
    np.testing.assert_array_equal(second, X)


@pytest.mark.parametrize("shape", ["f32[0]", "f32[2,0,3]", "f32[]", "f32[1]"])
def test_small_and_empty(shape: str) -> None:
    dims = array("f32", hlo.parse(same(shape)).entry.result_shape.dims).dims
    x = np.full(dims, 2, np.float32)
    got = compiled(same(shape))(x)
    assert got.shape == dims
    np.testing.assert_array_equal(got, -x)


def test_a_program_without_parameters_or_results() -> None:
    text = "HloModule m\nENTRY e {\n  ROOT t = () tuple()\n}\n"
    assert compiled(text)() == ()


# --- layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
def test_an_order_of_dimensions_that_fits_is_not_copied(layout: str) -> None:
    shape = hlo.parse(same(f"f32[2,3]{layout}")).entry.result_shape
    port = boundary.port(shape)
    x = X if layout == "{1,0}" else np.asfortranarray(X)
    assert np.shares_memory(port.physical(x), x)
    memory = port.allocate()
    assert np.shares_memory(port.logical(memory), memory)


@pytest.mark.parametrize(
    "shape",
    ["f32[2,3]{0,1}", "f32[4,5,6]{0,2,1}", "f32[5,9]{1,0:T(2,4)}", "s4[3,5]{1,0:E(4)}",
     "u2[3,5]{0,1:E(2)}", "bf16[7]{0:T(4)}", "f32[3,3]{1,0:L(8)}"],
)  # fmt: skip
def test_ports_are_the_physical_buffer(shape: str) -> None:
    s = hlo.parse(f"HloModule m\nENTRY e {{\n ROOT a = {shape} parameter(0)\n}}").entry.result_shape
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, s.dims).astype(s.element_type.dtype)
    port = boundary.port(s)
    given = port.physical(x)
    assert given.reshape(-1).view(np.uint8).tobytes() == hlo.pack(x, s).tobytes()
    memory = port.allocate()
    assert memory.nbytes == given.nbytes
    memory.reshape(-1).view(np.uint8)[:] = given.reshape(-1).view(np.uint8)
    np.testing.assert_array_equal(port.logical(memory), x)


# --- memory -------------------------------------------------------------------------------------


def test_blocks_are_aligned() -> None:
    for size in (0, 1, 100, 1 << 20, 1 << 22):
        block = blocks.block(size)
        assert block.ctypes.data % blocks.ALIGNMENT == 0 and block.nbytes >= max(1, size)


def test_large_results_lie_aligned_and_their_memory_is_used_again() -> None:
    text = same("f32[600,600]")
    exe, x = compiled(text), np.ones((600, 600), np.float32)
    first = exe(x)
    place = first.ctypes.data
    assert place % 64 == 0
    view = first[1:, ::2].T
    second = exe(x)
    assert second.ctypes.data != place
    del first
    gc.collect()
    assert exe(x).ctypes.data != place, "a view still looks into it"
    del view
    assert exe(2 * x).ctypes.data == place
    np.testing.assert_array_equal(second, -x)


def test_results_outlive_their_program() -> None:
    exe = hlo.compile(hlo.parse(same("f32[600,600]")), cache=False)
    result = exe(np.ones((600, 600), np.float32))
    del exe
    gc.collect()
    assert (result == -1).all()


def test_memory_that_is_not_there_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "HloModule m\nENTRY e {\n a = f32[] parameter(0)\n"
    text += " ROOT b = f32[100000,1000,1000] broadcast(a), dimensions={}\n}\n"
    with pytest.raises(HloError) as error:
        compiled(text)(1.0)
    assert error.value.code == "out-of-memory" and "results 372.5 GiB" in str(error.value)


def test_addresses_are_read_right() -> None:
    for a in (X, X[1:], np.zeros(()), np.zeros(0)):
        assert frame.address_of(a) == a.ctypes.data


# --- memory that an argument and a result share ---------------------------------------------------

ALIASED = {
    "elementwise": (
        "{ {}: (0, {}, may-alias) }",
        "a = f32[2,3] parameter(0)\n b = f32[2,3] parameter(1)\n ROOT c = f32[2,3] add(a, b)",
    ),
    "swap": (
        "{ {0}: (0, {}), {1}: (1, {}, must-alias) }",
        "a = f32[2,3] parameter(0)\n b = f32[2,3] parameter(1)\n c = f32[2,3] add(a, b)\n"
        "ROOT r = (f32[2,3], f32[2,3], f32[2,3]) tuple(b, a, c)",
    ),
    "read later": (
        "{ {0}: (0, {}) }",
        "a = f32[2,3] parameter(0)\n b = f32[2,3] parameter(1)\n c = f32[2,3] add(a, b)\n"
        "d = f32[2,3] reverse(a), dimensions={0,1}\n"
        "ROOT r = (f32[2,3], f32[2,3]) tuple(c, d)",
    ),
    "moved": (
        "{ {}: (0, {}) }",
        "a = f32[2,3] parameter(0)\n b = f32[2,3] parameter(1)\n"
        "d = f32[2,3] reverse(a), dimensions={0,1}\n ROOT c = f32[2,3] add(d, b)",
    ),
    "kept": (
        "{ {0}: (0, {}) }",
        "a = f32[2,3] parameter(0)\n b = f32[2,3] parameter(1)\n"
        "ROOT r = (f32[2,3], f32[2,3]) tuple(a, b)",
    ),
    "updated": (
        "{ {}: (0, {}) }",
        "a = f32[2,3] parameter(0)\n b = f32[2,3] parameter(1)\n z = s32[] constant(0)\n"
        "u = f32[1,3] slice(b), slice={[1:2], [0:3]}\n"
        "ROOT c = f32[2,3] dynamic-update-slice(a, u, z, z)",
    ),
}  # fmt: skip

LOOP = """HloModule w, input_output_alias={ {1}: (0, {}, may-alias) }
b {
  s = (s32[], f32[8,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,3] get-tuple-element(s), index=1
  o = s32[] constant(1)
  z = s32[] constant(0)
  j = s32[] add(i, o)
  u = f32[1,3] dynamic-slice(x, i, z), dynamic_slice_sizes={1,3}
  v = f32[1,3] add(u, u)
  y = f32[8,3] dynamic-update-slice(x, v, j, z)
  ROOT r = (s32[], f32[8,3]) tuple(j, y)
}
c {
  s = (s32[], f32[8,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT p = pred[] compare(i, n), direction=LT
}
ENTRY e {
  a = f32[8,3] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[8,3]) tuple(z, a)
  ROOT w = (s32[], f32[8,3]) while(t), condition=c, body=b
}
"""


def aliased(name: str) -> str:
    alias, body = ALIASED[name]
    return f"HloModule m, input_output_alias={alias}\nENTRY e {{\n {body}\n}}\n"


def leaves(value: Any) -> list[np.ndarray]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("name", ALIASED)
def test_aliases_do_not_change_results(name: str, donate: bool) -> None:
    text, a, b = aliased(name), X.copy(), X * 10
    wanted = leaves(hlo.interpret(hlo.parse(text), X, X * 10))
    got = leaves(compiled(text)(a, b, donate=donate))
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(g, w)
    assert np.shares_memory(got[0], a) is donate
    if not donate:
        np.testing.assert_array_equal(a, X)
        np.testing.assert_array_equal(b, X * 10)
        assert not any(np.shares_memory(g, x) for g in got for x in (a, b))


@pytest.mark.parametrize("et", ["s32", "u8", "s4", "pred", "f64", "bf16", "c64"])
def test_scalars_are_donated(et: str) -> None:
    # Each result is in the memory of the other one's argument.
    text = f"""HloModule m, input_output_alias={{ {{0}}: (0, {{}}, may-alias), {{1}}: (1, {{}}) }}
    ENTRY e {{ x = {et}[] parameter(0)  y = {et}[] parameter(1)
      ROOT t = ({et}[], {et}[]) tuple(y, x) }}"""
    exe = compiled(text)
    dtype = exe.parameters[0].shape.element_type.dtype
    x, y = np.array(1, dtype), np.array(0, dtype)
    first, second = exe(x, y, donate=[0])
    assert np.shares_memory(first, x) and not np.shares_memory(second, y)
    assert (first, second, x, y) == (0, 1, 0, 0)


def test_a_donated_scalar_of_a_tuple_is_read_before_it_is_written() -> None:
    exe = compiled(
        """HloModule m, input_output_alias={ {0}: (0, {0}), {1}: (0, {1}) }
        ENTRY e { p = (f32[], f32[4]) parameter(0)  s = f32[] get-tuple-element(p), index=0
          x = f32[4] get-tuple-element(p), index=1  sb = f32[4] broadcast(s), dimensions={}
          y = f32[4] multiply(x, sb)  d = f32[] add(s, s)  ROOT t = (f32[], f32[4]) tuple(d, y) }"""
    )
    state = np.array(2, np.float32), np.ones(4, np.float32)
    for _ in range(3):
        state = exe(state, donate=True)
    assert state[0] == 16 and (state[1] == 64).all()


def test_a_donated_loop_state_is_updated_in_place() -> None:
    a = np.ones((8, 3), np.float32)
    _, got = compiled(LOOP)(a, donate=[0])
    assert got is a
    np.testing.assert_array_equal(got[:, 0], 2.0 ** np.arange(8))


def test_donation_takes_only_memory_of_its_own() -> None:
    exe = compiled(aliased("read later"))
    x = X.copy()
    sums, _ = exe(x, x, donate=True)
    assert not np.shares_memory(sums, x)
    np.testing.assert_array_equal(x, X)
    fortran = np.asfortranarray(X)
    sums, _ = exe(fortran, X, donate=True)
    np.testing.assert_array_equal(fortran, X)


def test_donation_that_cannot_be() -> None:
    exe, frozen = compiled(aliased("elementwise")), X.copy()
    frozen.flags.writeable = False
    for args, donate, words in (
        ((frozen, X), True, "argument a is read-only"),
        ((X, X), [1], "parameter 1 shares no memory"),
        ((X, X), [7], "parameter 7 shares no memory"),
    ):
        with pytest.raises(HloError, match=words) as error:
            exe(*args, donate=donate)
        assert error.value.code == "bad-donation"


# --- threads ------------------------------------------------------------------------------------

WORK = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,4096] parameter(0)
  e = f32[64,4096] exponential(x)
  z = f32[] constant(0)
  r = f32[64] reduce(e, z), dimensions={1}, to_apply=add
  b = f32[64,4096] broadcast(r), dimensions={0}
  ROOT d = f32[64,4096] divide(e, b)
}
"""


def test_results_are_the_same_for_any_number_of_threads() -> None:
    x = np.random.default_rng(0).standard_normal((64, 4096)).astype(np.float32)
    module = hlo.parse(WORK)
    results = [hlo.compile(module, cache=False, threads=n)(x).tobytes() for n in (1, 2, 3, 8)]
    assert len(set(results)) == 1


def test_calls_from_several_python_threads() -> None:
    exe = hlo.compile(hlo.parse(WORK), cache=False, threads=2)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((64, 4096)).astype(np.float32) for _ in range(4)]
    wanted = [exe(x).copy() for x in inputs]
    wrong: list[int] = []

    def work(n: int) -> None:
        wrong.extend(n for _ in range(20) if not np.array_equal(exe(inputs[n]), wanted[n]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning")  # of JAX, where a test uses it
def test_a_forked_process_has_threads_of_its_own() -> None:
    exe = hlo.compile(hlo.parse(WORK), cache=False, threads=2)
    x = np.ones((64, 4096), np.float32)
    wanted = exe(x)
    child = os.fork()
    if child == 0:
        same = all(np.array_equal(exe(x), wanted) for _ in range(20))
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


_COUNT_UP = """
define void @task(ptr %counts, i64 %begin, i64 %end) {
entry:
  br label %next
next:
  %i = phi i64 [ %begin, %entry ], [ %j, %next ]
  %at = getelementptr i64, ptr %counts, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %end
  br i1 %more, label %next, label %done
done:
  ret void
}
define void @jobs(ptr %threads, ptr %counts, i64 %n, i64 %chunk, i64 %times) {
entry:
  %run = load ptr, ptr %threads
  %state.at = getelementptr ptr, ptr %threads, i64 1
  %state = load ptr, ptr %state.at
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %j, %next ]
  call void %run(ptr %state, ptr @task, ptr %counts, i64 %n, i64 %chunk)
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %times
  br i1 %more, label %next, label %done
done:
  ret void
}
"""


@pytest.mark.parametrize(("threads", "n", "chunk"), [(2, 64, 1), (2, 7, 3), (5, 100, 7), (2, 1, 9)])
def test_the_pool_runs_every_share_once(threads: int, n: int, chunk: int) -> None:
    machine = host_machine()
    code = NativeCode([machine.quick_code(_COUNT_UP)], "jobs")
    jobs = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)(
        code.addresses["jobs"]
    )
    found = pool.pool_of(threads, support(support_code(machine)).addresses)
    assert found is not None
    counts, times = np.zeros(n, np.int64), 3000
    jobs(found.handle, counts.ctypes.data, n, chunk, times)
    assert (counts == times).all()


def test_one_thread_is_no_pool() -> None:
    assert pool.pool_of(1, {}) is None
    assert pool.default_threads() >= 1


def test_types_of_all_widths_pass_through() -> None:
    for name in ("pred", "s4", "u8", "s64", "f16", "bf16", "f8e4m3fn", "f64", "c64", "c128"):
        et = array(name, (5,)).element_type
        x = np.array([0, 1, 1, 0, 1]).astype(et.dtype)
        text = f"HloModule m\nENTRY e {{\n a = {name}[5] parameter(0)\n"
        text += f" ROOT b = {name}[5] reverse(a), dimensions={{0}}\n}}\n"
        got = compiled(text)(x)
        assert got.dtype == et.dtype
        np.testing.assert_array_equal(got, x[::-1])
    assert compiled(same("bf16[2]"))(np.array([1, 2], ml_dtypes.bfloat16).view("V2"))[1] == -2
