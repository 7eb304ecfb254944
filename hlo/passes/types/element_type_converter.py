"""Replaces a floating-point type in a whole module."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.ops import Category
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._float_normalization import computes, float_types, normalize


@module_pass
def element_type_converter(
    module: Module, rewrites: Rewrites, *, from_: str = "bf16", to: str = "f32"
) -> None:
    """Compute on and move the float types `from` in a wider type.

    Parameters, constants, tuples and calls of unchanged computations keep their types.
    """
    name = "element_type_converter"
    normalize(module, rewrites, name, float_types(from_), to, _computes_or_moves)


def _computes_or_moves(inst: Instruction) -> bool:
    return computes(inst) or inst.spec.category is Category.MOVEMENT or inst.opcode == "select"
