"""Chosen operations in another element type."""

from __future__ import annotations

from hlo.errors import HloError, did_you_mean
from hlo.ir import Instruction, Module
from hlo.ops import OPS, Category
from hlo.ops.aliases import opcode_hint
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._contractions import CONTRACTIONS
from hlo.passes.types._retype import Retyper
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType

# For narrow floats these are defined as computed in more digits and rounded once more.
_DEFAULT = "dot+convolution"
_NOT_CHANGED = frozenset("parameter constant iota bitcast bitcast-convert convert".split())


@module_pass
def change_op_data_type(
    module: Module, rewrites: Rewrites, *, from_: str = "f16", to: str = "f32",
    opcodes: str = _DEFAULT,
) -> None:  # fmt: skip
    """Compute the given operations, joined by `+`, in type `to` if they are all of type `from`.

    Operands and result are converted. It is not checked whether `to` has all values of `from`.
    """
    source, target = _type(from_), _type(to)
    wanted = _opcodes(opcodes)
    if source is target:
        return
    retyper = Retyper(module, {source: target})
    for comp in module.computations:
        for inst in comp.in_order():
            if inst.opcode in wanted and _is_all_of(inst, source) and retyper.can(inst):
                if rewrites.allow(f"change_op_data_type.{inst.opcode}", inst, approximate=True):
                    retyper.change(inst)


def _type(name: str) -> ElementType:
    if name not in ELEMENT_TYPES:
        raise HloError.at(
            "bad-pass-option", f"there is no element type {name}", None,
            did_you_mean(name, ELEMENT_TYPES),
        )  # fmt: skip
    return ELEMENT_TYPES[name]


def _opcodes(names: str) -> frozenset[str]:
    for name in names.split("+"):
        if name not in OPS:
            hint = opcode_hint(name)
            raise HloError.at("bad-pass-option", f"unknown operation {name}", None, hint)
        spec = OPS[name]
        if name not in CONTRACTIONS and spec.category not in (
            Category.ELEMENTWISE,
            Category.MOVEMENT,
        ):
            raise HloError.at(
                "bad-pass-option", f"the type of {name} cannot be changed by this pass"
            )
        if spec.computation_attrs or name in _NOT_CHANGED:
            raise HloError.at(
                "bad-pass-option", f"the type of {name} cannot be changed by this pass"
            )
    return frozenset(names.split("+"))


def _is_all_of(inst: Instruction, et: ElementType) -> bool:
    shapes = [inst.shape, *inst.operand_shapes]
    return all(isinstance(s, ArrayShape) and s.element_type is et for s in shapes)
