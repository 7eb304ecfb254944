"""Arithmetic on bf16 in a wider type."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._float_normalization import float_types, normalize


@module_pass
def float_normalization_bf16(module: Module, rewrites: Rewrites, *, to: str = "f32") -> None:
    """Compute on bf16 in a wider type, between conversions."""
    normalize(module, rewrites, "float_normalization_bf16", float_types("bf16"), to)
