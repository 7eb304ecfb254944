"""Calls the short way: as a builtin function, where all arguments are ready."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.runtime import quick
from hlo.runtime.executable import Executable

pytestmark = pytest.mark.skipif(not quick.is_possible(), reason="arrays lie differently here")

ADD = """HloModule m
ENTRY e {
  a = f32[2,3] parameter(0)
  b = f32[2,3] parameter(1)
  ROOT c = f32[2,3] add(a, b)
}
"""
SEVERAL = """HloModule m
ENTRY e {
  a = f32[20,30] parameter(0)
  n = s32[] parameter(1)
  c = f32[20,30] negate(a)
  m = s32[] add(n, n)
  ROOT r = (f32[20,30], s32[]) tuple(c, m)
}
"""
# Ends for even numbers.
ENDLESS = """HloModule m
test { x = s64[] parameter(0)
  zero = s64[] constant(0)
  ROOT go = pred[] compare(x, zero), direction=NE }
body { x = s64[] parameter(0)
  two = s64[] constant(2)
  ROOT y = s64[] subtract(x, two) }
ENTRY e { x = s64[] parameter(0)
  ROOT w = s64[] while(x), condition=test, body=body }
"""
SUM_OF_SOME = """HloModule m
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
ENTRY e { n = s32[] parameter(0)
  a = f32[4] parameter(1)
  d = f32[<=4] set-dimension-size(a, n), dimensions={0}
  z = f32[] constant(0)
  ROOT s = f32[] reduce(d, z), dimensions={0}, to_apply=add }
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def called(text: str, *args: Any, threads: int = 1) -> Executable:
    """Return a program that takes the short way from now on."""
    exe = hlo.compile(hlo.parse(text), cache=False, threads=threads)
    assert isinstance(exe, Executable)
    exe(*args)
    assert exe._quick is None  # what runs once does not need it
    exe(*args)
    assert exe._quick is not None
    return exe


@pytest.mark.parametrize("text", [ADD, SEVERAL])
def test_the_short_way_gives_what_the_long_way_gives(text: str) -> None:
    args = (X, 2 * X) if text == ADD else (np.ones((20, 30), np.float32), np.array(3, np.int32))
    exe = called(text, *args)
    assert exe._quick is not None
    short, long = exe._quick.call(*args), exe._long_way(args, {}, False, None)
    assert type(short) is type(long)
    pairs = zip(short, long, strict=True) if isinstance(short, tuple) else [(short, long)]
    for got, wanted in pairs:
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    "args",
    [
        (),
        (X,),
        (X, X, X),
        (X, X.tolist()),
        (X, X.astype(np.float64)),
        (X, X.T),
        (X, X[None]),
        (X, X[:, :2]),
        (X, np.asfortranarray(X)),
        (X, np.zeros((4, 3), np.float32)[::2]),
        (X, np.ma.MaskedArray(X)),
        (X, None),
    ],
)
def test_what_does_not_fit_goes_the_long_way(args: tuple[Any, ...]) -> None:
    exe = called(ADD, X, X)
    assert exe._quick is not None
    assert exe._quick.call(*args) is None
    np.testing.assert_array_equal(exe(X, X), X + X)


def test_results_are_new_and_nothing_is_kept() -> None:
    exe = called(ADD, X, X)
    a, b = X.copy(), X.copy()
    before = [sys.getrefcount(o) for o in (a, b, None, a.dtype)]
    results = [exe(a, b) for _ in range(100)]
    assert len({r.ctypes.data for r in results}) == 100
    plain = [np.add(a, b)]
    assert sys.getrefcount(results[0]) == sys.getrefcount(plain[0])
    for _ in range(100):
        exe._quick_call(a)
    del results
    after = [sys.getrefcount(o) for o in (a, b, None, a.dtype)]
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 20
    alive = weakref.ref(exe)
    del exe
    gc.collect()
    assert alive() is None


def test_a_failed_run_raises_and_the_next_one_is_as_usual() -> None:
    exe = called(ENDLESS, np.array(6))
    even, odd = np.array(6), np.array(7)
    assert exe(even) == 0
    # A loop whose counter goes by 2 from an odd number to 0 is known not to end.
    for _ in range(3):
        with pytest.raises(HloError) as error:
            exe(odd, timeout=0.05)
        assert error.value.code == "timeout"
        assert exe(even) == 0


def test_a_status_becomes_the_error_of_the_check() -> None:
    ones = np.ones(4, np.float32)
    exe = called(SUM_OF_SOME, np.array(3, np.int32), ones)
    assert exe(np.array(2, np.int32), ones) == 2
    for _ in range(2):
        with pytest.raises(HloError) as error:
            exe(np.array(9, np.int32), ones)
        assert error.value.code == "index-out-of-range"
    assert exe(np.array(4, np.int32), ones) == 4


def test_calls_at_the_same_time_do_not_share_memory() -> None:
    exe = called(SEVERAL, np.ones((20, 30), np.float32), np.array(1, np.int32))
    wrong: list[int] = []

    def work(n: int) -> None:
        x, k = np.full((20, 30), n, np.float32), np.array(n, np.int32)
        for _ in range(2000):
            a, b = exe(x, k)
            if b != 2 * n or not (a == -n).all():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_many_tiny_operations_wake_no_thread() -> None:
    lines = ["  v0 = f32[16,16] parameter(0)", "  zero = f32[] constant(0)"]
    for n in range(1, 60, 4):
        lines += [
            f"  v{n} = f32[16,16] cosine(v{n - 1})",
            f"  v{n + 1} = f32[16,16] dot(v{n}, v{n}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}",
            f"  r{n} = f32[16] reduce(v{n + 1}, zero), dimensions={{1}}, to_apply=add",
            f"  v{n + 2} = f32[16,16] broadcast(r{n}), dimensions={{0}}",
            f"  v{n + 3} = f32[16,16] transpose(v{n + 2}), dimensions={{1,0}}",
        ]
    add = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n"
    text = f"HloModule m\n{add}ENTRY e {{\n" + "\n".join(lines)
    exe = called(
        text + "\n  ROOT r = f32[16,16] negate(v60)\n}", np.ones((16, 16), np.float32), threads=8
    )
    assert exe._pool is None
