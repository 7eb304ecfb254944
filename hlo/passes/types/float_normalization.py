"""Arithmetic on narrow floats in wider ones."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._float_normalization import float_types, normalize


@module_pass
def float_normalization(
    module: Module, rewrites: Rewrites, *, from_: str = "bf16", to: str = "f32"
) -> None:
    """Compute on the float types `from`, joined by `+`, in a wider type."""
    normalize(module, rewrites, "float_normalization", float_types(from_), to)
