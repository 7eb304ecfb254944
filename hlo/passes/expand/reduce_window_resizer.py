"""Windows over one dimension, over two."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.attrs import WindowDim
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import ArrayShape

_RULES = RuleSet("reduce_window_resizer")


@module_pass
def reduce_window_resizer(module: Module, rewrites: Rewrites) -> None:
    """Add a dimension of size one to windowed reductions of vectors."""
    _RULES.apply(module, rewrites)


@_RULES.rule("reduce-window", "reduce-window(x) = reshape(reduce-window(reshape(x)))", static=True)
def of_two_dimensions(inst: Instruction, b: Builder) -> Instruction | None:
    count = len(inst.operands) // 2
    inputs, inits = inst.operands[:count], inst.operands[count:]
    if inputs[0].array_shape.rank != 1:
        return None
    rows = [b.reshape(x, (*x.array_shape.dims, 1)) for x in inputs]
    attrs = inst.attrs | {"window": (*inst.window, WindowDim())}
    new = b.op("reduce-window", *rows, *inits, **attrs)
    if isinstance(inst.shape, ArrayShape):
        return b.reshape(new, inst.shape.dims)
    parts = (b.element(new, n) for n in range(count))
    return b.tuple(*(b.reshape(p, p.array_shape.dims[:1]) for p in parts))
