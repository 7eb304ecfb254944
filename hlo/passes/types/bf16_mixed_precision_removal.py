"""Operations that mix f32 and bf16."""

from __future__ import annotations

from hlo.ir import Instruction, Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._float_normalization import computes, float_types, normalize
from hlo.values.types import F32, ArrayShape


@module_pass
def bf16_mixed_precision_removal(module: Module, rewrites: Rewrites) -> None:
    """Compute operations that mix f32 and bf16 in f32.

    XLA makes such operations bf16 where it can, which loses digits; this pass does not.
    """
    name = "bf16_mixed_precision_removal"
    normalize(module, rewrites, name, float_types("bf16"), "f32", _mixes)


def _mixes(inst: Instruction) -> bool:
    """True for arithmetic with f32 among operands and results; the caller checks for bf16."""
    shapes = (inst.shape, *inst.operand_shapes)
    leaves = (leaf for shape in shapes for _, leaf in shape.leaves())
    return computes(inst) and any(
        isinstance(leaf, ArrayShape) and leaf.element_type is F32 for leaf in leaves
    )
