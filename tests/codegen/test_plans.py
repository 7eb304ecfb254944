"""Plans of products: equal kernels have one, others have their own."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.codegen.kernels.planners import fused_key
from hlo.codegen.pipeline import plan_program
from hlo.codegen.targets.cpu import cpu_target
from hlo.frontends.text import parse
from hlo.objects.targets import platform
from hlo.runtime.jit import host_machine
from tests.harness.run_compiled import check

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
LAYERS = f"""HloModule layers
ENTRY e {{
  x = f32[40,40] parameter(0)
  w0 = f32[40,40] parameter(1)
  w1 = f32[40,40] parameter(2)
  w2 = f32[40,40]{{0,1}} parameter(3)
  c = f32[] constant(0.25)
  d = f32[] constant(0.5)
  cs = f32[40,40] broadcast(c), dimensions={{}}
  ds = f32[40,40] broadcast(d), dimensions={{}}
  p0 = f32[40,40] dot(x, w0), {DOT}
  a0 = f32[40,40] multiply(p0, cs)
  t0 = f32[40,40] tanh(a0)
  b0 = f32[40,40] opt-barrier(t0)
  p1 = f32[40,40] dot(b0, w1), {DOT}
  a1 = f32[40,40] multiply(p1, ds)
  t1 = f32[40,40] tanh(a1)
  b1 = f32[40,40] opt-barrier(t1)
  p2 = f32[40,40] dot(b1, w2), {DOT}
  a2 = f32[40,40] multiply(p2, ds)
  t2 = f32[40,40] tanh(a2)
  b2 = f32[40,40] opt-barrier(t2)
  p3 = f32[40,40] dot(b2, w1), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  a3 = f32[40,40] multiply(p3, ds)
  ROOT t3 = f32[40,40] tanh(a3)
}}
"""


def test_equal_layers_have_one_plan() -> None:
    machine = host_machine("")
    target = cpu_target(machine.triple, machine.data_layout, machine.features, None)
    planned = plan_program(parse(LAYERS).entry, target)
    plans = [p.plan for i, p in planned.plans.items() if i.opcode == "tanh"]
    keys = [fused_key(i, planned.roles) for i in planned.plans if i.opcode == "tanh"]
    assert len(plans) == 4
    # What a scalar is does not matter; layouts and dimensions do.
    assert keys[0] == keys[1] and len(set(keys)) == 3
    assert plans[0] is plans[1]
    assert len({id(plan) for plan in plans}) == 3


def test_layers_with_one_plan_compute_their_own() -> None:
    random = np.random.default_rng(3)
    x, *w = (random.standard_normal((40, 40)).astype(np.float32) / 6 for _ in range(4))
    check(LAYERS, [x, *w], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("triple", ["armv7-linux-gnueabihf", "wasm32"])
@pytest.mark.parametrize(
    "shapes", [(32, 784, 256), (128, 128, 128), (256, 256, 256), (64, 1024, 10), (300, 70, 90)]
)
@pytest.mark.parametrize("side", [0, 1])
def test_products_take_no_more_memory_where_it_is_scarce(
    triple: str, shapes: tuple[int, int, int], side: int
) -> None:
    m, k, n = shapes
    y, along = (f"f32[{n},{k}]", 1) if side else (f"f32[{k},{n}]", 0)
    text = f"""HloModule m ENTRY e {{ x = f32[{m},{k}] parameter(0)  y = {y} parameter(1)
      d = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{along}}}
      ROOT t = f32[{m},{n}] tanh(d) }}"""
    small, large = (
        plan_program(parse(text).entry, platform(t).target).assignment.arena_bytes
        for t in (triple, "aarch64-linux-gnu")
    )
    assert small <= large
