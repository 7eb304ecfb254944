"""The order of kernels, and what is computed again, where the arena is large."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.codegen.plan import kernel_order, recompute
from hlo.testing.compare import compare

LAYERS, SIDE = 4, 16
BYTES = SIDE * SIDE * 4


def network() -> str:
    """Return a training step that leaves the gradients of its weights to the end."""
    a = f"f32[{SIDE},{SIDE}]"
    lines = [f"h0 = {a} parameter(0)", f"w = {a} parameter(1)", "zero = f32[] constant(0)",
             f"zeros = {a} broadcast(zero), dimensions={{}}"]  # fmt: skip
    product = "lhs_contracting_dims={%d}, rhs_contracting_dims={%d}"
    for n in range(1, LAYERS + 1):
        lines += [
            f"a{n} = {a} dot(h{n - 1}, w), {product % (1, 0)}",
            f"h{n} = {a} maximum(a{n}, zeros)",
        ]
    lines.append(f"g{LAYERS} = {a} negate(h{LAYERS})")
    for n in range(LAYERS, 0, -1):
        lines += [
            f"c{n} = pred[{SIDE},{SIDE}] compare(a{n}, zeros), direction=GT",
            f"m{n} = {a} select(c{n}, g{n}, zeros)",
            f"g{n - 1} = {a} dot(m{n}, w), {product % (1, 1)}",
        ]
    for n in range(1, LAYERS + 1):
        lines.append(f"d{n} = {a} dot(h{n - 1}, m{n}), {product % (0, 0)}")
    results = ", ".join(f"d{n}" for n in range(1, LAYERS + 1))
    root = f"ROOT r = ({', '.join([a] * LAYERS)}) tuple({results})"
    return "HloModule network\nENTRY e {\n  " + "\n  ".join([*lines, root]) + "\n}\n"


def run(monkeypatch: pytest.MonkeyPatch, scheduled: int, recomputed: int) -> int:
    """Check a run with other limits; returns the bytes of temporaries."""
    monkeypatch.setattr(kernel_order, "_LARGE_BYTES", scheduled)
    monkeypatch.setattr(recompute, "_LARGE_BYTES", recomputed)
    module = hlo.parse(network())
    exe = hlo.compile(module, cache=False, passes="")
    rng = np.random.default_rng(0)
    args = [rng.standard_normal((SIDE, SIDE)).astype(np.float32) for _ in range(2)]
    for got, want in zip(exe(*args), hlo.interpret(module, *args), strict=True):
        assert compare(got, want).same
    return exe.arena_bytes


def test_values_do_not_wait_longer_than_they_have_to(monkeypatch: pytest.MonkeyPatch) -> None:
    never = 1 << 40
    as_written = run(monkeypatch, never, never)
    ordered = run(monkeypatch, 0, never)
    assert ordered < as_written
    # The activations before or after each maximum, not both, and what one layer's step takes.
    assert run(monkeypatch, 0, 0) <= (LAYERS + 4) * BYTES < ordered


UPDATED = """HloModule updated
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[4096] parameter(0)
  one = f32[1] constant({1})
  zero = s32[] constant(0)
  y = f32[4096] sort(x), dimensions={0}, to_apply=less
  large = f32[8,4096] broadcast(y), dimensions={1}
  s = f32[8,4096] sort(large), dimensions={1}, to_apply=less
  u = f32[4096] dynamic-update-slice(y, one, zero)
  ROOT t = (f32[8,4096], f32[4096]) tuple(s, u)
}
"""


def test_what_is_updated_in_place_is_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_order, "_LARGE_BYTES", 0)
    module = hlo.parse(UPDATED)
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    exe = hlo.compile(module, cache=False, passes="")
    for got, want in zip(exe(x), hlo.interpret(module, x), strict=True):
        assert compare(got, want).same
