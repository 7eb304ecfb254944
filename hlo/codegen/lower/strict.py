"""Strict arithmetic: sums and linear algebra in double precision, rounded once.

The interpreter adds up floats in f64, whatever their type, and rounds the sum. On f64 operands the
kernels of code generation do the same; products of f32 are exact then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Computation, Instruction
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType

_ALGEBRA = frozenset({"cholesky", "convolution", "dot", "fft", "triangular-solve"})
# Those that reduce by a computation, and its attribute.
_SUMS = {"reduce": "to_apply", "reduce-window": "to_apply", "select-and-scatter": "scatter"}


def round_once(computations: Iterable[Computation]) -> None:
    """Have sums of a flattened tree, given as its computations, added up in f64 and c128."""
    for comp in computations:
        for inst in comp.in_order():
            if _is_rounded_often(inst):
                _widen(comp, inst)
        comp.sort()


def _is_rounded_often(inst: Instruction) -> bool:
    if not isinstance(inst.shape, ArrayShape) or _wide(inst.shape.element_type) is None:
        return False
    return inst.opcode in _ALGEBRA or (
        inst.opcode in _SUMS and single_binary_op(inst.attrs[_SUMS[inst.opcode]]) == "add"
    )


def _wide(et: ElementType) -> ElementType | None:
    """Return the type that values of a type are added up in, None for those that stay as they are.

    f8e8m0fnu has no zero: its sums are of f32.
    """
    if et.is_complex:
        return ELEMENT_TYPES["c128"] if et.bits < 128 else None
    if et.is_float and et.bits < 64 and et.name != "f8e8m0fnu":
        return ELEMENT_TYPES["f64"]
    return None


def _widen(comp: Computation, inst: Instruction) -> None:
    """Replace an instruction by one on wide operands, whose result is rounded."""
    result, called = inst.array_shape, inst.attrs.get(_SUMS.get(inst.opcode, ""))
    declared = [o.array_shape.element_type for o in inst.operands]
    rounded = result.element_type
    if called is not None:
        # What the computation takes: elements and sums are converted to that first.
        total, element = (p.array_shape.element_type for p in called.parameters)
        declared, rounded = [element, total], total
        if inst.opcode == "select-and-scatter":
            declared = [inst.operands[0].array_shape.element_type, element, total]
    operands = [
        _converted(comp, _converted(comp, o, et), _wide(et) or et)
        for o, et in zip(inst.operands, declared, strict=True)
    ]
    wide = _wide(result.element_type)
    assert wide is not None
    made = comp.add(inst.clone(operands, shape=replace(result, element_type=wide)))
    for name in inst.spec.computation_attrs:
        made.attrs[name] = _widened(inst.attrs[name])
    value = _converted(comp, _converted(comp, made, rounded), result.element_type)
    inst.replace_all_uses_with(value)
    if inst.is_root:
        comp.set_root(value)
    comp.remove(inst)


def _converted(comp: Computation, value: Instruction, et: ElementType) -> Instruction:
    shape = value.array_shape
    if shape.element_type is et:
        return value
    return comp.create("convert", replace(shape, element_type=et), [value], like=value)


def _widened(function: Computation) -> Computation:
    """Return a function of scalars in the wide types; it adds or compares."""
    copy = Computation(function.name)
    made: dict[Instruction, Instruction] = {}
    for inst in function.in_order():
        shape = inst.array_shape
        wide = replace(shape, element_type=_wide(shape.element_type) or shape.element_type)
        made[inst] = copy.add(inst.clone([made[o] for o in inst.operands], shape=wide))
    copy.set_root(made[function.root])
    return copy
