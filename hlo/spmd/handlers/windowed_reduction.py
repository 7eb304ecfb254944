"""reduce-window: devices get what is under their windows by halo exchange.

Padding takes no part in a reduction. What a device has in its place is the value that changes
nothing, where the function has one; else each element says whether it is there. Where windows take
all elements up to a position, as in a cumulative sum, devices exchange totals only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hlo.analysis.patterns import single_binary_op
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder, build_computation
from hlo.ops.attrs import WindowDim
from hlo.ops.factors import FactorKind, FactorRule
from hlo.spmd.builder import SpmdBuilder, resized
from hlo.spmd.halo.slots import cut_out, index_along, place_of
from hlo.spmd.handlers.by_factors import Partial, by_factors
from hlo.spmd.handlers.reduction import identity_of, is_neutral
from hlo.spmd.handlers.registry import Wanted, handles
from hlo.spmd.handlers.windows import (
    Elements,
    Positions,
    array_of,
    by_windows,
    elements_at,
    positions_of,
    presence,
    varies_in_size,
)
from hlo.spmd.mesh import Axes, PartitionSpec
from hlo.spmd.value import Sharded, Unsharded, Value
from hlo.values.types import PRED, ArrayShape, TupleShape, array


@handles("reduce-window")
def _reduce_window(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    if varies_in_size(inst):
        return by_factors(b, inst, operands, wanted)
    n = len(operands) // 2
    inits = [b.replicated(array_of(v)) for v in operands[n:] if isinstance(v, Sharded)]
    arrays = [array_of(v) for v in operands[:n] if isinstance(v, Sharded)]
    op = single_binary_op(inst.to_apply)
    types = {v.shape.element_type for v in (*arrays, *inits)}
    neutral: Any = None
    if n == 1 and op is not None and len(types) == 1:
        neutral = identity_of(op, arrays[0].shape.element_type)
    rule = inst.spec.factors(inst)
    if op is None or neutral is None:
        share = _Share(b, inst, None, None)
        return by_windows(b, inst, [*arrays, *inits], wanted, share, rule=rule)
    rule, whole = _with_totals(inst, rule)
    (x,), (init,) = arrays, inits
    parts = [d for d in range(x.shape.rank) if d in whole or _direction(inst, d)]
    late = any(x.spec.dims[d] for d in parts) and not is_neutral(init.local, op, neutral)
    start = init
    if late:
        none = b.constant(x.shape.element_type, neutral)
        start = Sharded(none, init.spec, init.shape)
    total = by_windows(
        b, inst, [x, start], wanted, _Share(b, inst, op, neutral),
        Partial.by(inst.to_apply, neutral), rule,
    )  # fmt: skip
    if not late:
        return total
    assert isinstance(total, Sharded)
    first = b.broadcast(init.local, total.local.array_shape)
    return replace(total, local=b.op(op, first, total.local, shape=total.local.shape))


def _with_totals(inst: Instruction, rule: FactorRule) -> tuple[FactorRule, set[int]]:
    """Return the rule with dimensions that one window has all of as what is reduced, and these."""
    operand, result = inst.operands[0].array_shape, inst.array_shape
    whole = {
        d
        for d, w in enumerate(inst.window)
        if result.dims[d] == 1 < operand.dims[d]
        and w.rhs_dilate == 1
        and w.pad_low >= 0
        and w.size - w.pad_low > (operand.dims[d] - 1) * w.lhs_dilate
    }
    moved = {f for d in whole for f in rule.operands[0][d]}
    factors = tuple(
        replace(f, size=operand.dims[d], kind=FactorKind.REDUCTION)
        if (d := next((d for d in whole if n in rule.operands[0][d]), -1)) >= 0
        else f
        for n, f in enumerate(rule.factors)
    )
    results = tuple(() if moved & set(old) else old for old in rule.results[0])
    return replace(rule, factors=factors, results=(results,)), whole


def _direction(inst: Instruction, dim: int) -> int:
    """Return 1 where windows have all elements up to one, -1 where all from one on, else 0."""
    w = inst.window[dim]
    size = inst.operands[0].array_shape.dims[dim]
    plain = w == WindowDim(w.size, 1, w.pad_low, w.pad_high) and w.size >= size > 1
    if plain and (w.pad_low, w.pad_high) == (w.size - 1, 0):
        return 1
    return -1 if plain and (w.pad_low, w.pad_high) == (0, w.size - 1) else 0


@dataclass(frozen=True)
class _Share:
    """Appends one device's part of a reduce-window.

    Attributes:
        op: the opcode of the function; None for one that is more, or of several arrays.
        neutral: the value that changes nothing under it.
    """

    b: SpmdBuilder
    inst: Instruction
    op: str | None
    neutral: Any

    def __call__(
        self, parts: Sequence[Sharded | Unsharded], specs: Sequence[PartitionSpec], _: Axes
    ) -> list[Instruction]:
        b, inst = self.b, self.inst
        n = len(parts) // 2
        arrays = [array_of(p) for p in parts[:n]]
        inits = [array_of(p).local for p in parts[n:]]
        spec, shapes = specs[0], [s for _, s in inst.shape.leaves() if isinstance(s, ArrayShape)]
        window = list(inst.window)
        under: list[tuple[int, Positions, Elements]] = []
        running: list[int] = []
        for d, (w, axes) in enumerate(zip(inst.window, spec.dims, strict=True)):
            cut = arrays[0].spec.dims[d]
            if not axes and not cut:
                continue
            if not axes or (self.op and axes == cut and _direction(inst, d)):
                arrays = [b.masked(arrays[0], self.neutral, [d])]
                size = arrays[0].local.array_shape.dims[d]
                if axes:
                    running.append(d)
                    low, high = (size - 1, 0) if _direction(inst, d) > 0 else (0, size - 1)
                    window[d] = WindowDim(size, pad_low=low, pad_high=high)
                else:
                    hole = w.lhs_dilate
                    window[d] = WindowDim((size - 1) * hole + 1, lhs_dilate=hole)
                continue
            if w == WindowDim(rhs_dilate=w.rhs_dilate, reversal=w.reversal):
                continue
            positions = positions_of(b, w, shapes[0].dims[d], axes)
            found = [elements_at(b, a, d, positions, self.neutral) for a in arrays]
            arrays = [replace(a, local=f.local) for a, f in zip(arrays, found, strict=True)]
            p = found[0].padding
            window[d] = replace(w, pad_low=p.pad_low, pad_high=p.pad_high, lhs_dilate=p.lhs_dilate)
            if not positions.is_inside(arrays[0].shape.dims[d]):
                under.append((d, positions, found[0]))
        results = [b.mesh.local_shape(s, spec) for s in shapes]
        locals_ = [a.local for a in arrays]
        if under and self.neutral is None:
            sizes = arrays[0].shape.dims
            return self._where_there(locals_, inits, results, tuple(window), under, sizes)
        made = b.op("reduce-window", *locals_, *inits, shape=self._shape(results),
                    window=tuple(window), to_apply=inst.to_apply)  # fmt: skip
        if inst.shape.is_tuple:
            return [b.element(made, i) for i in range(n)]
        for d in running:
            made = self._with_those_before(made, d, spec.dims[d])
        return [made]

    def _shape(self, results: list[ArrayShape]) -> ArrayShape | TupleShape:
        return TupleShape(tuple(results)) if self.inst.shape.is_tuple else results[0]

    def _where_there(
        self,
        arrays: list[Instruction],
        inits: list[Instruction],
        results: list[ArrayShape],
        window: tuple[WindowDim, ...],
        under: list[tuple[int, Positions, Elements]],
        sizes: Sequence[int],
    ) -> list[Instruction]:
        """Append the reduction of the elements that are there; each has a pred that tells."""
        b, n = self.b, len(arrays)
        there: Instruction | None = None
        for d, positions, found in under:
            part = presence(b, arrays[0], d, positions, found, sizes[d])
            there = part if there is None else b.op("and", there, part, shape=part.shape)
        assert there is not None
        function = b.program.module.add(_of_those_there(self.inst.to_apply, n))
        made = b.op(
            "reduce-window", *arrays, there, *inits, b.constant(PRED, True),
            shape=TupleShape((*results, results[0].with_type(PRED))), window=window,
            to_apply=function,
        )  # fmt: skip
        return [b.element(made, i) for i in range(n)]

    def _with_those_before(self, local: Instruction, dim: int, axes: Axes) -> Instruction:
        """Append what combines the running results of a device with the totals of those before.

        For windows that end where others begin, with those behind.
        """
        b, shape = self.b, local.array_shape
        et = shape.element_type
        assert self.op is not None
        forward = _direction(self.inst, dim) > 0
        size = shape.dims[dim]
        totals = b.all_gather(cut_out(b, local, dim, size - 1 if forward else 0, 1), dim, axes)
        index = index_along(b, totals, dim)
        here = b.broadcast(place_of(b, b.mesh.coordinates(axes)), index.array_shape)
        before = b.compare(index, here, "LT" if forward else "GT")
        none = b.constant(et, self.neutral)
        filler = b.broadcast(none, totals.array_shape)
        kept = b.op("select", before, totals, filler, shape=totals.shape)
        rest = [d for d in range(shape.rank) if d != dim]
        total = b.op(
            "reduce", kept, none, shape=array(et, [shape.dims[d] for d in rest]),
            dimensions=(dim,), to_apply=b.program.reducer(self.op, et),
        )  # fmt: skip
        spread = b.op("broadcast", total, shape=resized(shape, dim, size), dimensions=tuple(rest))
        return b.op(self.op, spread, local, shape=shape)


def _of_those_there(function: Computation, n: int) -> Computation:
    """Return the function of n values and preds, that leaves out values whose pred is false."""
    scalars = [p.shape for p in function.parameters]

    def body(b: Builder, *given: Instruction) -> Instruction:
        a, has_a, e, has_e = given[:n], given[n], given[n + 1 : -1], given[-1]
        made = b.op("call", *a, *e, shape=function.root.shape, to_apply=function)
        both = [b.element(made, i) for i in range(n)] if made.shape.is_tuple else [made]
        results = []
        for x, left, right in zip(both, a, e, strict=True):
            et = x.array_shape.element_type
            left, right = b.convert(left, et), b.convert(right, et)
            results.append(b.op("select", has_e, b.op("select", has_a, x, right), left))
        return b.tuple(*results, b.op("or", has_a, has_e))

    pred = array(PRED, ())
    return build_computation(
        f"{function.name}.there", [*scalars[:n], pred, *scalars[n:], pred], body
    )
