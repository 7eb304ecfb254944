"""Arithmetic on 8-bit floats in wider ones."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._float_normalization import F8, float_types, normalize


@module_pass
def float_normalization_f8(module: Module, rewrites: Rewrites, *, to: str = "f32") -> None:
    """Compute on floats of eight bits in a wider type, between conversions.

    That is f32 rather than XLA's f16, in which not all operations round as in the narrow types.
    """
    normalize(module, rewrites, "float_normalization_f8", float_types("+".join(F8)), to)
