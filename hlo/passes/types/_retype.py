"""Instructions computed in other element types, with conversions around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

from hlo.analysis.congruence import has_control_edges
from hlo.errors import InferError
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder, build_computation
from hlo.ir.calls import Calls, copy_cone
from hlo.passes.rules import is_configured
from hlo.values.types import ArrayShape, ElementType, Shape, TupleShape

# The new type of each element type; types without an entry do not change.
Types = Mapping[ElementType, ElementType]


def retyped(shape: Shape, types: Types) -> Shape:
    """Return a shape with other element types, in the same layout except for the width of
    elements."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(retyped(s, types) for s in shape.elements))
    if not isinstance(shape, ArrayShape) or shape.element_type not in types:
        return shape
    if shape.layout is not None and shape.layout.element_bits:
        shape = shape.with_layout(replace(shape.layout, element_bits=0))
    return shape.with_type(types[shape.element_type])


def has_type(shape: Shape, types: Types) -> bool:
    """True for a shape with an array of a type that has an entry."""
    return any(isinstance(s, ArrayShape) and s.element_type in types for _, s in shape.leaves())


def converted(b: Builder, value: Instruction, shape: Shape) -> Instruction:
    """Return a value in the element types of a shape, element by element of a tuple."""
    if value.shape == shape:
        return value
    if isinstance(shape, TupleShape):
        parts = [converted(b, b.element(value, n), s) for n, s in enumerate(shape.elements)]
        return b.tuple(*parts)
    return b.op("convert", value, shape=shape)


class Retyper:
    """Computes instructions of a module in other types, and the computations that they apply."""

    def __init__(self, module: Module, types: Types) -> None:
        self.types = types
        self._module = module
        # Computations created here, which may need changes as well.
        self.made: list[Computation] = []
        self._values: dict[Instruction, Instruction] = {}
        self._applied: dict[tuple[Computation, bool], Computation] = {}

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self._module)

    def can(self, inst: Instruction) -> bool:
        """True when an instruction is valid in the other types."""
        if has_control_edges(inst) or is_configured(inst):
            return False
        probe = inst.clone()
        try:
            # Only shapes matter, so temporary parameters suffice.
            b = Builder(Computation("probe"))
            operands = [
                b.parameter(n, retyped(s, self.types), f"p{n}")
                for n, s in enumerate(inst.operand_shapes)
            ]
            for n, operand in enumerate(operands):
                probe.replace_operand(n, operand)
            probe.shape = retyped(inst.shape, self.types)
            if not inst.called_computations:
                found = inst.spec.infer(probe)
                return _same_types(found, probe.shape)
        except InferError:
            return False
        finally:
            probe.drop_edges()
        return True

    def change(
        self,
        inst: Instruction,
        directly: Callable[[Computation], bool] = lambda _: False,
    ) -> Instruction:
        """Replace an instruction by one in the other types, between conversions.

        Returns the new instruction.

        directly: the computations whose operations change to the other types; others convert their
        arguments back to the old types and round as often as before.
        """
        comp = inst.parent
        assert comp is not None
        b = Builder(comp, inst)
        calls = self._calls if inst.called_computations else None
        new = inst.clone([self._converted(b, o) for o in inst.operands])
        new.shape = retyped(inst.shape, self.types)
        new.replace_called({c: self._other(c, directly(c), inst) for c in inst.called_computations})
        comp.add(new)
        inst.replace_all_uses_with(converted(b, new, inst.shape))
        if calls is None:
            comp.remove(inst)
        else:
            calls.added([new])
            calls.remove(inst)
        return new

    def _converted(self, b: Builder, value: Instruction) -> Instruction:
        """Return a value in the other types: one conversion serves all that use it."""
        if value not in self._values or self._values[value].parent is not value.parent:
            self._values[value] = converted(b, value, retyped(value.shape, self.types))
        return self._values[value]

    def _other(self, comp: Computation, directly: bool, inst: Instruction) -> Computation:
        key = comp, directly
        if key not in self._applied or self._applied[key].module is None:
            make = self._direct if directly else self._around
            self._applied[key] = make(comp, inst)
            self.made.append(self._applied[key])
        return self._applied[key]

    def _direct(self, comp: Computation, inst: Instruction) -> Computation:
        """Return a copy of a computation all of whose values have the other types."""
        copy = comp.clone(comp.name)
        for value in copy:
            value.shape = retyped(value.shape, self.types)
        return copy

    def _around(self, comp: Computation, inst: Instruction) -> Computation:
        """Return a computation that converts to the old types, computes, and converts back."""

        def body(b: Builder, *parameters: Instruction) -> Instruction:
            made = {
                old: converted(b, new, old.shape)
                for old, new in zip(comp.parameters, parameters, strict=True)
            }
            copy_cone(comp, b.comp, made, [comp.root])
            return converted(b, made[comp.root], retyped(comp.result_shape, self.types))

        shapes = [retyped(s, self.types) for s in comp.parameter_shapes]
        return build_computation(comp.name, shapes, body, inst)


def _same_types(a: Shape, b: Shape) -> bool:
    types = [
        [s.element_type for _, s in shape.leaves() if isinstance(s, ArrayShape)] for shape in (a, b)
    ]
    return types[0] == types[1]
