"""Operations cut along factors of their rules, evaluated part by part: `check_factors`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hlo.eval import Host, Interpreter, interpret
from hlo.ir import Computation, Instruction, Module
from hlo.ir.extract import module_of
from hlo.ops import OPS
from hlo.ops.factors import DimFactors, FactorKind, FactorRule
from hlo.ops.spec import Category
from hlo.spmd.localize import localized
from hlo.values.arrays import DynamicArray
from hlo.values.types import ArrayShape, Shape, TupleShape
from tests.harness.oracle import leaves
from tests.sweeps.compare_generated import compare_results

# What is summed in another order in parts.
_ROUNDED = {
    Category.CONTRACTION, Category.LINALG, Category.REDUCTION, Category.WINDOW, Category.COLLECTIVE,
}  # fmt: skip


def check_rule(inst: Instruction) -> FactorRule:
    """Fail unless the rule of an operation goes with its shapes; returns it."""
    rule = inst.spec.factors(inst)
    kinds = {f.kind for f in rule.factors}
    assert bool(rule.reason) == (rule.structural or FactorKind.NEED_REPLICATION in kinds)
    if rule.structural:
        assert not rule.factors and not rule.operands and not rule.results
        return rule
    used: set[int] = set()
    for arrays, shapes in (
        (rule.operands, inst.operand_shapes), (rule.results, [s for _, s in inst.shape.leaves()]),
    ):  # fmt: skip
        assert len(arrays) == len(shapes)
        for dims, shape in zip(arrays, shapes, strict=True):
            assert len(dims) == (shape.rank if isinstance(shape, ArrayShape) else 0)
            for d, numbers in enumerate(dims):
                assert isinstance(shape, ArrayShape)
                factors = [rule.factors[n] for n in numbers]
                used |= {*numbers}
                if any(f.kind is FactorKind.PERMUTATION for f in factors):
                    continue  # of different sizes in each array
                assert math.prod(f.size for f in factors) == shape.dims[d]
            flat = [n for numbers in dims for n in numbers]
            assert len(flat) == len(set(flat)), "a factor is in one dimension of an array"
    for dims in rule.results:
        for n in (n for numbers in dims for n in numbers):
            assert rule.factors[n].kind is not FactorKind.REDUCTION
    assert used == set(range(len(rule.factors)))
    return rule


def check_factors(inst: Instruction, args: Sequence[Any], parts: int = 2) -> int:
    """Fail unless an operation, cut along any of its factors, gives the parts of its result.

    args: values of the operands. Returns how many factors were cut.
    """
    rule = check_rule(inst)
    shapes = [s for shape in (inst.shape, *inst.operand_shapes) for _, s in shape.leaves()]
    if any(isinstance(s, ArrayShape) and s.is_dynamic for s in shapes) or any(
        isinstance(v, DynamicArray) for v in args
    ):
        return 0  # what is cut has a fixed size
    count = 0
    for n, factor in enumerate(rule.factors):
        cuts = factor.kind in (FactorKind.PASS_THROUGH, FactorKind.REDUCTION)
        if cuts and factor.size > 1 and (order := _combined(inst, args, factor.kind)) is not None:
            _check(inst, rule, n, order, min(parts, factor.size))
            count += 1
    return count


def _combined(inst: Instruction, args: Sequence[Any], kind: FactorKind) -> list[Any] | None:
    """Return operands of which partial results can be combined; None where there are none."""
    if kind is FactorKind.PASS_THROUGH or inst.spec.category is Category.CONTRACTION:
        return list(args)
    known = Interpreter(Host()).known_op(inst.to_apply)
    identity = OPS[known].identity if known is not None else None
    et = inst.operands[-1].array_shape.element_type
    if identity is None or not OPS[known or ""].is_associative(et) or identity(et) is None:
        return None
    if inst.opcode == "reduce":
        return [args[0], np.asarray(identity(et)).astype(et.dtype)]
    return list(args)


def _check(inst: Instruction, rule: FactorRule, n: int, args: list[Any], parts: int) -> None:
    whole = _evaluate(inst, args)
    pieces = []
    for part in range(parts):
        mine = []
        for value, dims in zip(args, rule.operands, strict=True):
            mine.append(_cut(value, dims, rule, n, parts, part) if _has(dims, n) else value)
        if part and inst.opcode == "scatter" and rule.factors[n].kind is FactorKind.REDUCTION:
            mine[: len(pieces[-1])] = pieces[-1]  # the operands count once
        pieces.append(_evaluate(_local(inst, rule, n, mine, parts, part), mine))
    found = []
    for i, (want, dims) in enumerate(zip(whole, rule.results, strict=True)):
        values = [piece[i] for piece in pieces]
        if _has(dims, n):
            found.append(_joined(values, dims, rule, n, want.shape))
        elif rule.factors[n].kind is FactorKind.PASS_THROUGH:
            found.append(values[0])
            for v in values[1:]:
                compare_results([v], [want], None)
        elif inst.opcode == "scatter":
            found.append(values[-1])
        elif inst.opcode == "reduce":
            found.append(_reduced(inst, values, args[1]))
        else:
            found.append(_total(values))
    inexact = inst.spec.category in _ROUNDED and whole[0].dtype.kind not in "iub"
    # Partial results are rounded to the type, of which the narrow ones have two bits.
    rounding = 0.5 if whole[0].dtype.itemsize == 1 else 1e-3
    compare_results(found, whole, rounding if inexact else 0.0)


def _total(values: list[np.ndarray]) -> np.ndarray:
    """Return a sum, of floats rounded once."""
    dtype = values[0].dtype
    wide = dtype if dtype.kind in "iub" else np.result_type(dtype, np.float64)
    return np.add.reduce([v.astype(wide) for v in values], 0, dtype=wide).astype(dtype)


def _has(dims: DimFactors, n: int) -> bool:
    return any(n in numbers for numbers in dims)


def _sizes(dims: DimFactors, rule: FactorRule, shape: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the number and the size of each factor of an array, in order."""
    for numbers, size in zip(dims, shape, strict=True):
        for number in numbers:
            yield number, size if len(numbers) == 1 else rule.factors[number].size


def _bounds(size: int, parts: int, part: int) -> tuple[int, int]:
    step = -(-size // parts)
    return min(part * step, size), min((part + 1) * step, size)


def _local_dims(
    dims: DimFactors, rule: FactorRule, n: int, shape: Sequence[int], length: int
) -> tuple[int, ...]:
    """Return the dimensions of a part in which factor `n` is of a given length."""
    return tuple(
        size // (rule.factors[n].size if len(numbers) > 1 else size) * length if n in numbers
        else size
        for numbers, size in zip(dims, shape, strict=True)
    )  # fmt: skip


def _cut(
    value: np.ndarray, dims: DimFactors, rule: FactorRule, n: int, parts: int, part: int
) -> np.ndarray:
    split = list(_sizes(dims, rule, value.shape))
    axis = [number for number, _ in split].index(n)
    low, high = _bounds(split[axis][1], parts, part)
    index = (slice(None),) * axis + (slice(low, high),)
    local = _local_dims(dims, rule, n, value.shape, high - low)
    return value.reshape([size for _, size in split])[index].reshape(local)


def _joined(
    values: list[np.ndarray], dims: DimFactors, rule: FactorRule, n: int, shape: Sequence[int]
) -> np.ndarray:
    split = list(_sizes(dims, rule, shape))
    axis = [number for number, _ in split].index(n)
    opened = []
    for part, value in enumerate(values):
        low, high = _bounds(split[axis][1], len(values), part)
        sizes = [size for _, size in split]
        sizes[axis] = high - low
        opened.append(value.reshape(sizes))
    return np.concatenate(opened, axis).reshape(shape)


def _local(
    inst: Instruction, rule: FactorRule, n: int, args: list[Any], parts: int, part: int
) -> Instruction:
    low, high = _bounds(rule.factors[n].size, parts, part)
    local = iter(
        replace(s, dims=_local_dims(dims, rule, n, s.dims, high - low))
        if isinstance(s, ArrayShape) else s
        for (_, s), dims in zip(inst.shape.leaves(), rule.results, strict=True)
    )  # fmt: skip
    shape = _like(inst.shape, local)
    operands = [
        o if not isinstance(o.shape, ArrayShape)
        else Instruction(o.name, "parameter", replace(o.shape, dims=value.shape), (), {"number": 0})
        for o, value in zip(inst.operands, args, strict=True)
    ]  # fmt: skip
    made = localized(inst, operands, shape)
    inferred = made.spec.infer(made)
    assert [getattr(s, "dims", ()) for _, s in inferred.leaves()] == [
        getattr(s, "dims", ()) for _, s in shape.leaves()
    ]
    return made


def _like(shape: Shape, parts: Iterator[Shape]) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_like(s, parts) for s in shape.elements))
    return next(parts)


def _evaluate(inst: Instruction, args: Sequence[Any]) -> list[np.ndarray]:
    comp = Computation("part")
    operands = [
        comp.add(Instruction(f"p{i}", "parameter", o.shape, (), {"number": i}))
        for i, o in enumerate(inst.operands)
    ]
    comp.set_root(comp.add(inst.clone(operands)))
    return leaves(interpret(module_of(comp), args, Host()))


def _reduced(inst: Instruction, values: list[np.ndarray], init: np.ndarray) -> np.ndarray:
    """Return the reduction of partial results by the operation's own computation."""
    shape = replace(inst.array_shape, dims=(len(values), *values[0].shape), layout=None)
    operands = [
        Instruction("x", "parameter", shape, (), {"number": 0}),
        Instruction("y", "parameter", inst.operands[1].shape, (), {"number": 1}),
    ]
    again = inst.clone(operands, attrs={"dimensions": (0,)})
    return _evaluate(again, [np.stack(values), init])[0]


def values_of(module: Module, args: Sequence[Any]) -> dict[Instruction, Any]:
    """Return the values of the operations of a module's entry."""
    seen = [i for i in module.entry.in_order() if isinstance(i.shape, ArrayShape)]
    root = module.entry.root
    every = module.entry.add(
        Instruction("every", "tuple", TupleShape(tuple(i.shape for i in seen)), seen)
    )
    module.entry.set_root(every)
    found = interpret(module, args, Host())
    module.entry.set_root(root)
    module.entry.remove(every)
    return dict(zip(seen, found, strict=True))
