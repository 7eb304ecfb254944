"""Emission of an instruction's value at an index, for fused operations.

Elementwise operations take their operands at the same index; movement operations map the index.
Values that are not fused are loaded from memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hlo.analysis.fusion.operations import is_index_vector, wrapped
from hlo.analysis.fusion.roles import Role
from hlo.codegen.llvm import TRUE, Builder, Index, Val, i64
from hlo.codegen.loops.address import Indices, physical_index
from hlo.codegen.loops.inline import inline
from hlo.codegen.scalar import convert
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.scalar.representation import constant
from hlo.ir import Computation, Instruction
from hlo.ops.movement.gather_scatter import index_dims


class ElementEmitter:
    """Emits values at indices into one function.

    load: called for values that are not fused: `(instruction, indices) -> value`.
    """

    def __init__(
        self,
        builder: Builder,
        roles: Mapping[Instruction, Role],
        load: Callable[[Instruction, Indices], Value],
    ) -> None:
        self.b = builder
        self.roles = roles
        self.load = load
        # What is known of indices: the range that they are in, without its end.
        self.ranges: dict[Index, tuple[int, int]] = {}
        # Fused values that were computed ahead.
        self.kept: dict[Instruction, Callable[[Indices], Value]] = {}

    def at(self, inst: Instruction, indices: Indices) -> Value:
        """Return the element of `inst` at `indices` (one per dimension, in range)."""
        key = (inst, indices)
        found = self.b.remembered(key)
        if found is None:
            if inst in self.kept:
                found = self.kept[inst](indices)
            elif self.roles.get(inst) is Role.FUSED:
                found = self.compute(inst, indices)
            else:
                found = self.load(inst, indices)
            self.b.remember(key, found)
        return found

    def compute(self, inst: Instruction, indices: Indices) -> Value:
        """Return the element of a fusible instruction from those of its operands."""
        before = self.b.locate(inst.span)
        value = self._compute(inst, indices)
        self.b.locate(before)
        return value

    def _compute(self, inst: Instruction, indices: Indices) -> Value:
        rule = _RULES.get(inst.opcode)
        if rule is not None:
            return rule(self, inst, indices)
        operands = [
            self.at(o, indices if o.array_shape.dims else ())
            for o in inst.operands  # type: ignore[attr-defined]
        ]
        return scalar.elementwise(self.b, inst, operands)

    def shifted(self, index: Index, by: int) -> Index:
        """Return an index so much further on."""
        moved = self.b.add(index, by)
        if index in self.ranges:
            first, end = self.ranges[index]
            self.ranges[moved] = first + by, end + by
        return moved

    def is_within(self, index: Index, first: int, end: int) -> bool:
        """Return whether an index is known to be in a range."""
        low, high = self.ranges.get(index, (first - 1, end))
        return first <= low and high <= end

    def call(self, comp: Computation, args: Sequence[Value]) -> list[Value]:
        """Return the result leaves of a computation on scalars, emitted in place."""
        return inline(self.b, comp, args)


def _broadcast(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    (operand,) = inst.operands
    dims = operand.array_shape.dims
    picked = [indices[d] for d in inst.dimensions]
    return e.at(operand, tuple(0 if n == 1 else i for n, i in zip(dims, picked, strict=True)))


def reshape_index(
    b: Builder, indices: Indices, source: Sequence[int], target: Sequence[int]
) -> Indices:
    """Map indices of an array of `source` dims to those of its reshape to `target` dims.

    The dims are split into the smallest groups of equal products, so that most indices are
    unchanged.
    """
    if 0 in target:
        return (0,) * len(target)  # there are no elements
    result: list[Index] = []
    i = j = 0
    while i < len(source) or j < len(target):
        i0, j0 = i, j
        p = q = 1
        while True:
            if p == q and (i > i0 or j > j0) and not (p == 1 and i == i0):
                break
            if p <= q and i < len(source):
                p *= source[i]
                i += 1
            elif j < len(target):
                q *= target[j]
                j += 1
            else:
                break
        # Dimensions of size one form no group of their own.
        while j < len(target) and target[j] == 1 and p == q:
            j += 1
        wide_s = [(n, x) for n, x in zip(source[i0:i], indices[i0:i], strict=True) if n != 1]
        wide_t = [n for n in target[j0:j] if n != 1]
        if len(wide_s) == len(wide_t) == 1:
            mapped: list[Index] = [wide_s[0][1]]
        else:
            linear: Index = 0
            for n, x in wide_s:
                linear = b.add(b.mul(linear, n), x)
            mapped = []
            rest = math.prod(wide_t)
            for n in wide_t:
                rest //= n
                mapped.append(b.urem(b.udiv(linear, rest), n) if mapped else b.udiv(linear, rest))
        values = iter(mapped)
        result += [0 if n == 1 else next(values) for n in target[j0:j]]
    return tuple(result)


def _reshape(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    (operand,) = inst.operands
    dims, source_dims = inst.array_shape.dims, operand.array_shape.dims
    return e.at(operand, reshape_index(e.b, indices, dims, source_dims))


def _transpose(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    mapped: list[Index] = [0] * len(indices)
    for at, d in enumerate(inst.dimensions):
        mapped[d] = indices[at]
    return e.at(inst.operands[0], tuple(mapped))


def _reverse(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    dims = inst.array_shape.dims
    flipped = [
        e.b.sub(dims[d] - 1, i) if d in inst.dimensions else i for d, i in enumerate(indices)
    ]
    return e.at(inst.operands[0], tuple(flipped))


def _slice(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    mapped = [
        e.shifted(e.b.mul(i, s.stride), s.start) for i, s in zip(indices, inst.slice, strict=True)
    ]
    return e.at(inst.operands[0], tuple(mapped))


def _concatenate(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    (axis,) = inst.dimensions
    at = indices[axis]
    found = wrapped(inst)
    if found is None:
        assert isinstance(at, int) and is_index_vector(inst)
        return e.at(inst.operands[at], (*indices[:axis], 0, *indices[axis + 1 :]))
    source, pieces = found
    known = [p for p in pieces if e.is_within(at, p.first, p.end)]
    if known:
        place = e.shifted(at, known[0].shift)
    else:
        place = e.b.add(at, pieces[-1].shift)
        for piece in reversed(pieces[:-1]):
            before = e.b.compare("slt", at, piece.end)
            moved = i64(e.b.add(at, piece.shift))
            place = e.b.select(before, moved, i64(place)).name
    return e.at(source, tuple(place if d == axis else i for d, i in enumerate(indices)))


def _pad(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    b, (operand, fill) = e.b, inst.operands
    inside, mapped = TRUE, []
    for i, n, p in zip(indices, operand.array_shape.dims, inst.padding, strict=True):
        if n == 0:
            return e.at(fill, ())
        at = e.shifted(i, -p.low)
        if not p.interior and e.is_within(at, 0, n):
            mapped.append(at)
            continue
        if p.low > 0:
            inside = b.both(inside, b.compare("sge", at, 0))
        if p.interior:
            step = p.interior + 1
            # Out-of-range positions are clamped before the division, which is for non-negative
            # numbers.
            at = b.maximum(at, 0)
            inside = b.both(inside, b.compare("eq", b.urem(at, step), 0))
            at = b.udiv(at, step)
        if p.high > 0 or p.interior:
            inside = b.both(inside, b.compare("slt", at, n))
        if p.low > 0 or p.high > 0 or p.interior:
            at = b.minimum(b.maximum(at, 0), n - 1)
        mapped.append(at)
    return scalar.select(b, inside, e.at(operand, tuple(mapped)), e.at(fill, ()))


def _iota(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    at = indices[inst.iota_dimension]
    return scalar.from_index(e.b, at, inst.array_shape.element_type)


def clamped_start(
    e: ElementEmitter, inst: Instruction, first: int, sizes: Sequence[int], dims: Sequence[int]
) -> list[Index]:
    """Return the start indices of a dynamic slice, clamped so that the slice is in bounds.

    first: the operand number of the first start index; sizes: of the slice; dims: of the array.
    """
    starts: list[Index] = []
    for d, (size, n) in enumerate(zip(sizes, dims, strict=True)):
        if size == n:
            starts.append(0)
            continue
        operand = inst.operands[first + d]
        value = scalar.to_index(e.b, e.at(operand, ()), operand.array_shape.element_type)
        starts.append(e.b.minimum(e.b.maximum(value, 0), n - size))
    return starts


def _dynamic_slice(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    operand = inst.operands[0]
    starts = clamped_start(e, inst, 1, inst.dynamic_slice_sizes, operand.array_shape.dims)
    return e.at(operand, tuple(e.b.add(s, i) for s, i in zip(starts, indices, strict=True)))


def _gather(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    b = e.b
    operand, starts = inst.operands
    if 0 in inst.slice_sizes:
        # There is no element to read: results of such collapsed windows are zero.
        et = operand.array_shape.element_type
        return constant(et, np.zeros((), f"V{et.byte_width}").view(et.dtype))
    dims, start_dims = operand.array_shape.dims, starts.array_shape.dims
    select = index_dims(inst)
    batch = [i for d, i in enumerate(indices) if d not in inst.offset_dims]
    mapped: list[Index] = [0] * len(dims)
    for d, offset in zip(select.window_dims(len(dims)), inst.offset_dims, strict=True):
        mapped[d] = indices[offset]
    for component, d in enumerate(select.index_map):
        at = list(batch)
        if select.index_vector_dim < len(start_dims):
            at.insert(select.index_vector_dim, component)
        value = scalar.to_index(b, e.at(starts, tuple(at)), starts.array_shape.element_type)
        limit = dims[d] - inst.slice_sizes[d]
        mapped[d] = b.add(mapped[d], b.minimum(b.maximum(value, 0), limit))
    for d, axis in select.batching.items():
        mapped[d] = batch[axis]
    return e.at(operand, tuple(mapped))


def _map(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    (value,) = e.call(inst.to_apply, [e.at(o, indices) for o in inst.operands])
    return value


def _bitcast_convert(e: ElementEmitter, inst: Instruction, indices: Indices) -> Value:
    (operand,) = inst.operands
    old, new = operand.array_shape.element_type, inst.array_shape.element_type
    if old.bits > new.bits:
        *whole, at = indices
        return convert.piece(e.b, e.at(operand, tuple(whole)), old, new, at)
    if old.bits < new.bits:
        values = [e.at(operand, (*indices, k)) for k in range(new.bits // old.bits)]
        return convert.join(e.b, values, old, new)
    return convert.bitcast(e.b, e.at(operand, indices), old, new)


Rule = Callable[[ElementEmitter, Instruction, Indices], Value]


def element_rule(opcode: str) -> Callable[[Rule], Rule]:
    """Register how an element of an operation is computed, other than by moving it."""

    def add(rule: Rule) -> Rule:
        _RULES[opcode] = rule
        return rule

    return add


_RULES: dict[str, Rule] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "iota": _iota,
    "dynamic-slice": _dynamic_slice,
    "gather": _gather,
    "map": _map,
    "bitcast-convert": _bitcast_convert,
}


__all__ = ["ElementEmitter", "Indices", "Val", "clamped_start", "physical_index", "reshape_index"]
