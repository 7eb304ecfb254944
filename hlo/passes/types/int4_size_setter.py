"""Packs sub-byte elements."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._element_size import set_element_sizes
from hlo.values.types import ElementType


@module_pass
def int4_size_setter(module: Module, rewrites: Rewrites) -> None:
    """Pack sub-byte elements, including the program's arguments and results.

    Except `pred` and 6-bit types, which take a byte each.
    """
    set_element_sizes(module, rewrites, "int4_size_setter", _packed_bits)


def _packed_bits(et: ElementType) -> int:
    return et.bits if et.bits < 8 and 8 % et.bits == 0 and not et.is_pred else 0
