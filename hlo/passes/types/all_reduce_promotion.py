"""All-reduces in wider floats."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._float_normalization import float_types, normalize

_REDUCTIONS = frozenset({"all-reduce", "reduce-scatter"})


@module_pass
def all_reduce_promotion(
    module: Module, rewrites: Rewrites, *, from_: str = "bf16", to: str = "f32"
) -> None:
    """Perform all-reduces of the float types `from`, joined by `+`, in a wider type."""
    name, narrow = "all_reduce_promotion", float_types(from_)
    normalize(module, rewrites, name, narrow, to, lambda inst: inst.opcode in _REDUCTIONS)
