"""Arithmetic on s4 in bytes."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._integer_normalization import normalize_integers
from hlo.values.types import ELEMENT_TYPES


@module_pass
def float_normalization_s4(module: Module, rewrites: Rewrites) -> None:
    """Compute on s4 in s8, between conversions."""
    narrow, wide = ELEMENT_TYPES["s4"], ELEMENT_TYPES["s8"]
    normalize_integers(module, rewrites, "float_normalization_s4", narrow, wide)
