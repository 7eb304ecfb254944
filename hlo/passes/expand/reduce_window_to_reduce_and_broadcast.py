"""Windows that always see all of a dimension."""

from __future__ import annotations

from hlo.analysis.patterns import applies, single_binary_op
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops import Trait
from hlo.ops.attrs import WindowDim
from hlo.passes.expand._inline import rounds
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import RuleSet
from hlo.values.types import ArrayShape, array

_RULES = RuleSet("reduce_window_to_reduce_and_broadcast")
# Operations that are not idempotent, but do not change with an initial value of:
_KEEPING = {"add": (0,), "multiply": (0, 1)}


@module_pass
def reduce_window_to_reduce_and_broadcast(module: Module, rewrites: Rewrites) -> None:
    """Replace windows that always cover a whole dimension by a reduce and a broadcast."""
    _RULES.apply(module, rewrites)


@_RULES.rule("reduce-window", "windows over all of a dimension = broadcast(reduce(x))", static=True)
def reduced_once(inst: Instruction, b: Builder) -> Instruction | None:
    return None if rounds(inst) else _reduced(inst, b)


@_RULES.rule(
    "reduce-window", "the same of floats, but for the order of additions",
    static=True, approximate=True,
)  # fmt: skip
def reduced_once_of_floats(inst: Instruction, b: Builder) -> Instruction | None:
    return _reduced(inst, b) if rounds(inst) else None


def _reduced(inst: Instruction, b: Builder) -> Instruction | None:
    if len(inst.operands) != 2 or not isinstance(inst.shape, ArrayShape):
        return None
    (x, init), shape = inst.operands, inst.array_shape
    window = inst.window
    dims = [d for d, w in enumerate(window) if w != WindowDim()]
    if len(dims) != 1 or not _may_repeat(inst, init) or x.array_shape.dims != shape.dims:
        return None
    (dim,) = dims
    size = shape.dims[dim]
    if size < 2 or window[dim] != WindowDim(2 * size - 1, 1, size - 1, size - 1):
        return None
    if x.array_shape.element_type is not shape.element_type:
        return None
    total = b.op("reduce", x, init, dimensions=(dim,), to_apply=inst.to_apply)
    others = tuple(d for d in range(shape.rank) if d != dim)
    whole = array(shape.element_type, shape.dims)
    return b.op("broadcast", total, shape=whole, dimensions=others)


def _may_repeat(inst: Instruction, init: Instruction) -> bool:
    """True where the initial value, which is the padding too, may be taken in several times."""
    comp = inst.to_apply
    if applies(comp, Trait.IDEMPOTENT):
        return True
    values = _KEEPING.get(single_binary_op(comp) or "")
    return values is not None and init.opcode == "constant" and init.literal.value in values
