"""Time passes and planning of 1, 2, 4 and 8 times as many layers: an instruction takes the same.

python bench/passes.py [--layers N]
"""

from __future__ import annotations

import argparse
import time

import hlo
from hlo.codegen.targets.cpu import cpu_target
from hlo.compiler.lowering import Clock, plan
from hlo.runtime.jit import host_machine

# A residual block as frontends write it: a normalization spelled out, a convolution, a sum.
_SHAPE = "f32[8,14,14,32]"
_LAYER = """
  sum.{n} = f32[32] reduce(x.{n}, zero), dimensions={{0,1,2}}, to_apply=add
  mean.{n} = f32[32] divide(sum.{n}, count)
  means.{n} = {shape} broadcast(mean.{n}), dimensions={{3}}
  centred.{n} = {shape} subtract(x.{n}, means.{n})
  square.{n} = {shape} multiply(centred.{n}, centred.{n})
  spread.{n} = f32[32] reduce(square.{n}, zero), dimensions={{0,1,2}}, to_apply=add
  variance.{n} = f32[32] divide(spread.{n}, count)
  epsilon.{n} = f32[] constant(0.001)
  epsilons.{n} = f32[32] broadcast(epsilon.{n}), dimensions={{}}
  shifted.{n} = f32[32] add(variance.{n}, epsilons.{n})
  factor.{n} = f32[32] rsqrt(shifted.{n})
  factors.{n} = {shape} broadcast(factor.{n}), dimensions={{3}}
  normal.{n} = {shape} multiply(centred.{n}, factors.{n})
  none.{n} = f32[] constant(0)
  nones.{n} = {shape} broadcast(none.{n}), dimensions={{}}
  relu.{n} = {shape} maximum(normal.{n}, nones.{n})
  flat.{n} = f32[1568,32] reshape(relu.{n})
  back.{n} = {shape} reshape(flat.{n})
  conv.{n} = {shape} convolution(back.{n}, w), window={{size=3x3 pad=1_1x1_1}},
    dim_labels=b01f_01io->b01f
  x.{m} = {shape} add(x.{n}, conv.{n})"""
_HEAD = """HloModule layers
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
ENTRY main {{
  x.0 = {shape} parameter(0)
  w = f32[3,3,32,32] parameter(1)
  zero = f32[] constant(0)
  ones = f32[] constant(1568)
  count = f32[32] broadcast(ones), dimensions={{}}"""


def layers(count: int) -> str:
    """Return a module of so many layers."""
    body = "".join(_LAYER.format(n=n, m=n + 1, shape=_SHAPE) for n in range(count))
    return f"{_HEAD.format(shape=_SHAPE)}{body}\n  ROOT out = {_SHAPE} negate(x.{count})\n}}\n"


# Products that follow each other.
_PRODUCT = """
  v.{n} = f32[32,32] parameter({m})
  product.{n} = f32[16,32] dot(x.{n}, v.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  x.{m} = f32[16,32] tanh(product.{n})"""


def products(count: int) -> str:
    """Return a module of so many products."""
    body = "".join(_PRODUCT.format(n=n, m=n + 1) for n in range(count))
    head = "HloModule products\nENTRY main {\n  x.0 = f32[16,32] parameter(0)"
    return f"{head}{body}\n  ROOT out = f32[16,32] negate(x.{count})\n}}\n"


def planned(module: hlo.Module) -> float:
    """Return the seconds to verify, optimize and plan a module for this processor."""
    machine = host_machine("")
    target = cpu_target(machine.triple, machine.data_layout, machine.features, None)
    start = time.perf_counter()
    plan(module, target, Clock())
    return time.perf_counter() - start


def optimized(module: hlo.Module) -> float:
    """Return the seconds of the default pipeline, fusions included."""
    start = time.perf_counter()
    hlo.optimize(module, inplace=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, default=50, help="how many layers the first has")
    base = parser.parse_args().layers
    for write in (layers, products):
        planned(hlo.parse(write(2)))  # what is used is imported
        optimized(hlo.parse(write(2)))
    print(f"{'layers':>7} {'':8} {'instructions':>12} {'passes':>8} {'planning':>8}  us each")
    for factor in (1, 2, 4, 8):
        for write in (layers, products):
            module = hlo.parse(write(base * factor))
            count = len(module.entry)
            seconds = planned(module), optimized(module)
            times = " ".join(f"{s / count * 1e6:8.0f}" for s in reversed(seconds))
            print(f"{base * factor:7} {write.__name__:8} {count:12} {times}")


if __name__ == "__main__":
    main()
