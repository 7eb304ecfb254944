"""Constraints between instructions: calls, pairs, devices, buffers, the header.

Few instructions are under any, and only those are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

from hlo.ir import Computation, Instruction, Module
from hlo.ops import OPS
from hlo.values.types import ArrayShape, BufferShape, Shape
from hlo.verifier.buffers import check_buffers
from hlo.verifier.calls import check_calls
from hlo.verifier.header import check_header
from hlo.verifier.pairs import PAIRED, check_pairs
from hlo.verifier.partitioning import check_partitioning
from hlo.verifier.report import Report, VerifyOptions

_ATTRS = frozenset({"channel_id", "replica_groups", "source_target_pairs"})
_ANNOTATIONS = frozenset({"parameter_replication", "sharding"})


def is_constrained(inst: Instruction) -> bool:
    """True for an instruction that `check_constraints` has to be given."""
    return (
        _is_constrained(inst.spec.name)
        or not _ANNOTATIONS.isdisjoint(inst.annotations)
        or _has_buffers(inst.shape)
        or any([_has_buffers(o.shape) for o in inst.operands])
    )


@cache
def _is_constrained(opcode: str) -> bool:
    """True if all instructions of an opcode are."""
    spec = OPS[opcode]
    return (
        bool(spec.computation_attrs)
        or opcode == "custom-call"
        or opcode in PAIRED
        or not spec.attrs.keys().isdisjoint(_ATTRS)
    )


def _has_buffers(shape: Shape) -> bool:
    return type(shape) is not ArrayShape and _contains_buffers(shape)


@lru_cache(maxsize=1 << 12)
def _contains_buffers(shape: Shape) -> bool:
    return any(isinstance(leaf, BufferShape) for _, leaf in shape.leaves())


def check_constraints(
    module: Module,
    instructions: Sequence[Instruction],
    scheduled: Iterable[Computation],
    options: VerifyOptions,
    report: Report,
) -> None:
    """Check what `is_constrained` in a module, and its header.

    scheduled: the computations whose order may be no schedule; all that are, if the module says so.
    """
    callers: dict[Computation, list[Instruction]] = {c: [] for c in module.computations}
    for inst in instructions:
        for callee in inst.called_computations:
            callers.setdefault(callee, []).append(inst)
    check_calls(module, instructions, callers, options, report)
    check_pairs(instructions, callers, report)
    check_partitioning(module, instructions, report)
    check_buffers(module, instructions, callers, report)
    check_header(module, scheduled, options, report)
