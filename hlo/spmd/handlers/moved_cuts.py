"""Operations along dimensions that have to be whole: sorts, Fourier transforms, linear algebra.

What is cut along such a dimension is cut along another one instead, by an all-to-all, if there is
one that the operation treats part by part; else each device gets all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo.ir import Instruction
from hlo.ops.factors import DimFactors, FactorKind, FactorRule
from hlo.spmd.builder import SpmdBuilder
from hlo.spmd.handlers.by_factors import by_factors
from hlo.spmd.handlers.registry import HANDLERS, Wanted, handles
from hlo.spmd.mesh import Axes, DeviceMesh, PartitionSpec
from hlo.spmd.value import Sharded, Value


def with_moved_cuts(
    b: SpmdBuilder, inst: Instruction, rule: FactorRule, operands: Sequence[Value]
) -> list[Value]:
    """Return operands whose dimensions that have to be whole are, others being cut in their place.

    rule: of the instruction. Operands stay where no other dimension can be cut that far.
    """
    assignment: dict[int, Axes] = {}
    homeless: list[int] = []
    for value, dims in zip(operands, rule.operands, strict=True):
        if not isinstance(value, Sharded):
            continue
        for factors, axes in zip(dims, value.spec.dims, strict=True):
            for axis in axes:
                if any(axis in a for a in assignment.values()) or axis in homeless:
                    continue
                passing = [f for f in factors if _passes(rule, f)]
                if passing:
                    # Dimensions that pass have one factor in all operations of this file.
                    assignment[passing[0]] = (*assignment.get(passing[0], ()), axis)
                else:
                    homeless.append(axis)
    if not homeless or not _housed(b.mesh, rule, assignment, homeless):
        return list(operands)
    return [
        _moved(b, origin, v, _spec(v.spec, dims, assignment)) if isinstance(v, Sharded) else v
        for origin, v, dims in zip(inst.operands, operands, rule.operands, strict=True)
    ]


def _moved(b: SpmdBuilder, origin: Instruction, value: Sharded, spec: PartitionSpec) -> Sharded:
    """Return an operand by another spec. Numbers that an iota counts are counted anew.

    Such are the positions that a sort takes along.
    """
    if value.spec == spec or not _counts(origin):
        return b.reshard(value, spec)
    if origin.opcode == "broadcast":
        (source,) = origin.operands
        inner = PartitionSpec(tuple(spec.dims[d] for d in origin.dimensions), spec.manual)
        counted = HANDLERS["iota"](b, source, [], [inner])
        made = by_factors(b, origin, [counted], [spec])
    else:
        made = HANDLERS["iota"](b, origin, [], [spec])
    assert isinstance(made, Sharded)
    return b.reshard(made, spec)


def _counts(inst: Instruction) -> bool:
    if inst.shape.is_dynamic:
        return False
    source = inst.operands[0] if inst.opcode == "broadcast" else inst
    return source.opcode == "iota"


def _passes(rule: FactorRule, factor: int) -> bool:
    return rule.factors[factor].kind is FactorKind.PASS_THROUGH


def _housed(
    mesh: DeviceMesh, rule: FactorRule, assignment: dict[int, Axes], homeless: Sequence[int]
) -> bool:
    """Add axes to the factors with most room, in place; False if there is no room for one."""
    for axis in homeless:
        best, least = None, 0.0
        for n, factor in enumerate(rule.factors):
            count = mesh.count((*assignment.get(n, ()), axis))
            if not _passes(rule, n) or factor.size < count:
                continue
            # Padding is work for nothing.
            waste = -(-factor.size // count) * count / factor.size
            if best is None or waste < least:
                best, least = n, waste
        if best is None:
            return False
        assignment[best] = (*assignment.get(best, ()), axis)
    return True


def _spec(old: PartitionSpec, dims: DimFactors, assignment: Mapping[int, Axes]) -> PartitionSpec:
    along = tuple(tuple(a for f in factors for a in assignment.get(f, ())) for factors in dims)
    return PartitionSpec(along, old.manual)


@handles("cholesky", "triangular-solve", "fft")
def _whole_matrices(
    b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted
) -> Value:
    rule = inst.spec.factors(inst)
    return by_factors(b, inst, with_moved_cuts(b, inst, rule, operands), wanted)


@handles("sort")
def _sort(b: SpmdBuilder, inst: Instruction, operands: Sequence[Value], wanted: Wanted) -> Value:
    rule = inst.spec.factors(inst)
    rule = replace(
        rule.with_kinds({
            n: FactorKind.NEED_REPLICATION for n, factor in enumerate(rule.factors)
            if factor.kind is FactorKind.PERMUTATION
        }),
        reason="elements change places along a dimension, and no other one can be cut in its place",
    )  # fmt: skip
    return by_factors(b, inst, with_moved_cuts(b, inst, rule, operands), wanted, rule=rule)
