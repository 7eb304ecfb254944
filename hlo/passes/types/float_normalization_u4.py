"""Arithmetic on u4 in bytes."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._integer_normalization import normalize_integers
from hlo.values.types import ELEMENT_TYPES


@module_pass
def float_normalization_u4(module: Module, rewrites: Rewrites) -> None:
    """Compute on u4 in u8, between conversions."""
    narrow, wide = ELEMENT_TYPES["u4"], ELEMENT_TYPES["u8"]
    normalize_integers(module, rewrites, "float_normalization_u4", narrow, wide)
