"""Smaller dimensions, consistently: which dimensions of a module's values are the same index.

The factor rules of the operations say which dimensions of operands and results belong together.
Those that do form an axis; one that is regrouped (by a reshape) is the product of others. A choice
of sizes for the axes is tried on every instruction by its shape inference: where that finds another
size, as for the results of windows, the axis takes it, and where it cannot be, axes keep their
sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from hlo.errors import InferError
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import applied_computations
from hlo.ops import Trait
from hlo.ops.factors import DimFactors
from hlo.ops.spec import OpRecord
from hlo.values.literal import Literal
from hlo.values.types import ArrayShape, Shape, TupleShape, compatible

Path = tuple[int, ...]
# Rounds of making sizes fit before the module stays as it is.
_ROUNDS = 40


class Axis:
    """Dimensions that are the same index. parts: the axes that it is the product of, major first.

    number: in order of first occurrence in the module.
    """

    __slots__ = ("fixed", "forward", "number", "parts", "size")

    def __init__(self, size: int, number: int = 0) -> None:
        self.size, self.number = size, number
        self.parts: tuple[Axis, ...] = ()
        self.fixed = False
        self.forward: Axis | None = None


def _found(axis: Axis) -> Axis:
    while axis.forward is not None:
        axis = axis.forward
    return axis


class Axes:
    """The axes of a valid module."""

    def __init__(self, module: Module) -> None:
        self._of: dict[tuple[Instruction, Path], list[Axis]] = {}
        self._count = 0
        applied = set(applied_computations(module))
        self.computations = [c for c in module.computations if c not in applied]
        for comp in self.computations:
            for inst in comp:
                for path, shape in inst.shape.leaves():
                    if isinstance(shape, ArrayShape):
                        self._of[inst, path] = [self._new(size) for size in shape.dims]
                        elided = inst.opcode == "constant" and inst.literal.is_elided_in_part
                        if elided or shape.is_dynamic or any(s < 0 for s in shape.dims):
                            self._fix(self._of[inst, path])
        for comp in self.computations:
            for inst in comp:
                self._connect(inst)

    def _new(self, size: int) -> Axis:
        self._count += 1
        return Axis(size, self._count)

    def free(self) -> list[Axis]:
        """Return the axes that may be smaller, in order."""
        found: dict[Axis, None] = {}
        for axes in self._of.values():
            for axis in axes:
                for leaf in self._leaves(axis):
                    if leaf.size > 1 and not leaf.fixed:
                        found[leaf] = None
        return sorted(found, key=lambda axis: axis.number)

    def _leaves(self, axis: Axis) -> Iterator[Axis]:
        axis = _found(axis)
        if not axis.parts:
            yield axis
        for part in axis.parts:
            yield from self._leaves(part)

    def _fix(self, axes: Sequence[Axis]) -> None:
        for axis in axes:
            for leaf in self._leaves(axis):
                leaf.fixed = True

    # --- which are the same ---------------------------------------------------------------------

    def _connect(self, inst: Instruction) -> None:
        """Join the axes of an instruction's operands and results."""
        pairs = list(_passed(inst))
        if pairs:
            for (a, from_path), (b, to_path) in pairs:
                for path, _ in a.shape.at(from_path).leaves():
                    theirs = self._of.get((a, from_path + path))
                    if theirs is not None:
                        self._join_all(theirs, self._of[b, to_path + path])
            return
        rule = inst.spec.factors(inst)
        if rule.structural:
            if inst.opcode != "parameter" and inst.operands:
                for value in (inst, *inst.operands):
                    self._fix(
                        [x for p, _ in value.shape.leaves() for x in self._of.get((value, p), [])]
                    )
            return
        factors = [self._new(f.size) for f in rule.factors]
        places: list[tuple[Instruction, Path, DimFactors]]
        places = [(o, (), dims) for o, dims in zip(inst.operands, rule.operands, strict=True)]
        leaves = [path for path, _ in inst.shape.leaves()]
        places += [(inst, path, dims) for path, dims in zip(leaves, rule.results, strict=True)]
        for value, path, dims in places:
            axes = self._of.get((value, path))
            if axes is None:
                continue
            for axis, numbers in zip(axes, dims, strict=True):
                if len(numbers) == 1:
                    self._join(axis, factors[numbers[0]])
                elif numbers:
                    self._divide(axis, [factors[n] for n in numbers])

    def _join_all(self, a: Sequence[Axis], b: Sequence[Axis]) -> None:
        for x, y in zip(a, b, strict=True):
            self._join(x, y)

    def _join(self, a: Axis, b: Axis) -> None:
        """Make two axes one, if they are of one size: along a window they need not be."""
        a, b = _found(a), _found(b)
        if a is b or a.size != b.size:
            return
        if b.number < a.number:
            a, b = b, a
        parts, b.parts = b.parts, ()
        fixed = b.fixed
        b.forward = a
        if parts:
            self._divide(a, parts)
        if fixed:
            self._fix([a])

    def _divide(self, axis: Axis, parts: Sequence[Axis]) -> None:
        """Make an axis the product of others, and those what it is a product of already."""
        axis, parts = _found(axis), [_found(p) for p in parts]
        if axis in parts or axis.size != math.prod(p.size for p in parts):
            if any(p.size != 1 for p in parts if p is not axis):
                self._fix([axis, *parts])
            return
        if not axis.parts:
            axis.parts = tuple(parts)
            if axis.fixed:
                self._fix(parts)
            return
        mine, theirs = [_found(p) for p in axis.parts], list(parts)
        while mine and theirs:
            x, y = _found(mine.pop(0)), _found(theirs.pop(0))
            if x.size == y.size:
                self._join(x, y)
            elif x.size % y.size == 0 and y.size > 1:
                rest = self._new(x.size // y.size)
                self._divide(x, [y, rest])
                mine.insert(0, rest)
            elif y.size % x.size == 0 and x.size > 1:
                rest = self._new(y.size // x.size)
                self._divide(y, [x, rest])
                theirs.insert(0, rest)
            else:
                self._fix([x, y, *mine, *theirs])
                return

    # --- sizes ----------------------------------------------------------------------------------

    def fitted(self, chosen: Mapping[Axis, int]) -> dict[Axis, int] | None:
        """Return sizes of axes that all instructions accept, near to those chosen; None if none."""
        sizes = dict(chosen)
        taken: dict[Axis, int] = {}
        kept: set[Axis] = set()
        for _ in range(_ROUNDS):
            done = True
            for comp in self.computations:
                for inst in comp:
                    # Constants are cut to any size.
                    if inst.opcode in ("parameter", "constant"):
                        continue
                    if not self._fits(inst, sizes, taken, kept):
                        done = False
            if done:
                return sizes
        return None

    def _fits(
        self, inst: Instruction, sizes: dict[Axis, int], taken: dict[Axis, int], kept: set[Axis]
    ) -> bool:  # fmt: skip
        """Return whether an instruction accepts sizes; else change them towards what it does.

        taken: the sizes that inference has asked for. kept: axes that keep their own sizes.
        """
        if next(_passed(inst), None) is not None:
            return True
        shape = self._shape(inst, sizes)
        operands = [self._shape(o, sizes) for o in inst.operands]
        if shape == inst.shape and all(
            a == b.shape for a, b in zip(operands, inst.operands, strict=True)
        ):
            return True
        changed = False
        wanted = self._wanted(inst, sizes)
        if wanted is None:
            return not self._keep(self._refused(inst, sizes), sizes, kept)
        if compatible(wanted, shape):
            return True
        for (path, have), (_, want) in zip(shape.leaves(), wanted.leaves(), strict=False):
            if not isinstance(have, ArrayShape) or not isinstance(want, ArrayShape):
                continue
            for axis, a, b in zip(self._of[inst, path], have.dims, want.dims, strict=False):
                axis = _found(axis)
                if a == b:
                    continue
                if axis.parts or axis.fixed or axis in kept or taken.get(axis, b) != b or b < 1:
                    refused = [*self._leaves(axis), *self._refused(inst, sizes)]
                    changed |= self._keep(refused, sizes, kept)
                else:
                    taken[axis] = sizes[axis] = b
                    changed = True
        return not changed

    def _wanted(self, inst: Instruction, sizes: Mapping[Axis, int]) -> Shape | None:
        """Return the shape that inference says for operands of such sizes; None for an error."""
        shape = self._shape(inst, sizes)
        operands = [self._shape(o, sizes) for o in inst.operands]
        try:
            attrs = {**inst.attrs, **inst.spec.resized(inst, operands, shape)}
            record = OpRecord.of(inst, operands, attrs, shape)
            wanted = inst.spec.infer(record)
            inst.spec.verify(record)
        except (InferError, ArithmeticError):
            return None
        return wanted

    def _refused(self, inst: Instruction, sizes: Mapping[Axis, int]) -> list[Axis]:
        """Return axes of an instruction so that it is valid, if these keep their own sizes.

        The others, which have the sizes that were chosen for them, do not depend on those: the
        batch of a window's operand may be smaller where its rows cannot.
        """
        around = list(dict.fromkeys(self._around(inst)))
        own = {axis: axis.size for axis in around}
        for axis in around:
            tried = {**sizes, **own, axis: sizes.get(axis, axis.size)}
            wanted = self._wanted(inst, tried)
            if wanted is not None and compatible(wanted, self._shape(inst, tried)):
                own.pop(axis)
        return list(own)

    def _around(self, inst: Instruction) -> list[Axis]:
        values = [inst, *inst.operands]
        return [
            leaf
            for value in values
            for path, _ in value.shape.leaves()
            for axis in self._of.get((value, path), ())
            for leaf in self._leaves(axis)
        ]

    def _keep(self, axes: Sequence[Axis], sizes: dict[Axis, int], kept: set[Axis]) -> bool:
        """Have axes keep their own sizes; returns whether some had others."""
        changed = False
        for axis in axes:
            if axis not in kept:
                kept.add(axis)
                changed |= sizes.pop(axis, axis.size) != axis.size
        return changed

    def _size(self, axis: Axis, sizes: Mapping[Axis, int]) -> int:
        axis = _found(axis)
        if axis.parts:
            return math.prod(self._size(p, sizes) for p in axis.parts)
        return sizes.get(axis, axis.size)

    def _shape(self, inst: Instruction, sizes: Mapping[Axis, int]) -> Shape:
        def resized(shape: Shape, path: Path) -> Shape:
            if isinstance(shape, TupleShape):
                parts = (resized(s, (*path, n)) for n, s in enumerate(shape.elements))
                return TupleShape(tuple(parts))
            axes = self._of.get((inst, path))
            if axes is None:
                return shape
            assert isinstance(shape, ArrayShape)
            dims = tuple(self._size(axis, sizes) for axis in axes)
            return shape if dims == shape.dims else replace(shape, dims=dims)

        return resized(inst.shape, ())

    def apply(self, sizes: Mapping[Axis, int]) -> bool:
        """Give the module's values sizes that fit; returns whether any is smaller."""
        shapes = {i: self._shape(i, sizes) for comp in self.computations for i in comp}
        changed = {i: s for i, s in shapes.items() if s != i.shape}
        attrs = {
            i: i.spec.resized(i, [shapes[o] for o in i.operands], s)
            for i, s in shapes.items()
            if i in changed or any(o in changed for o in i.operands)
            if next(_passed(i), None) is None
        }
        for inst, new in attrs.items():
            inst.attrs.update(new)
        for inst, shape in changed.items():
            if inst.opcode == "constant":
                inst.attrs["literal"] = _first_of(inst.literal, shape)
            inst.shape = shape
        return bool(changed)


def _first_of(literal: Literal, shape: Shape) -> Literal:
    """Return the elements of a literal at the first indices."""
    assert isinstance(shape, ArrayShape)
    part = literal.array[tuple(slice(size) for size in shape.dims)]
    return Literal.of(part.copy()).with_shape(shape)


def _passed(
    inst: Instruction,
) -> Iterator[tuple[tuple[Instruction, Path], tuple[Instruction, Path]]]:
    """Yield pairs of values, each with a path, of which one is handed on as the other."""
    opcode, spec = inst.opcode, inst.spec
    if opcode == "tuple":
        for n, operand in enumerate(inst.operands):
            yield (operand, ()), (inst, (n,))
    elif opcode == "get-tuple-element":
        yield (inst, ()), (inst.operands[0], (inst.tuple_index,))
    elif opcode == "while":
        (state,) = inst.operands
        for comp in (inst.body, inst.condition):
            yield (state, ()), (comp.parameters[0], ())
        yield (inst.body.root, ()), (inst, ())
        yield (state, ()), (inst, ())
    elif opcode == "conditional":
        for operand, comp in zip(inst.operands[1:], inst.called_computations, strict=True):
            yield (operand, ()), (comp.parameters[0], ())
            yield (comp.root, ()), (inst, ())
    elif spec.has(Trait.CALL) and not spec.has(Trait.ASYNC_CHAIN) and inst.called_computations:
        callee: Computation = inst.called_computations[0]
        for operand, parameter in zip(inst.operands, callee.parameters, strict=True):
            yield (operand, ()), (parameter, ())
        yield (callee.root, ()), (inst, ())
    elif spec.has(Trait.FORWARDS) and inst.operands and inst.operands[0].shape == inst.shape:
        yield (inst.operands[0], ()), (inst, ())


def resize(module: Module, size: Callable[[Axis], int]) -> bool:
    """Make dimensions of a valid module smaller, in place; returns whether any is.

    size: the wanted size of an axis. What comes of it has to be verified.
    """
    axes = Axes(module)
    free = axes.free()
    chosen = {axis: want for axis in free if (want := size(axis)) < axis.size}
    fitted = axes.fitted(chosen) if chosen else None
    return fitted is not None and axes.apply(fitted)
