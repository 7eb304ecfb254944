"""Fourier transforms of any length, one dimension at a time.

A kernel copies rows to the workspace, with separate real and imaginary parts, transforms them
there, and writes them to the result; several adjacent rows at once, so that vectors run across
them. Lengths with a large prime factor are convolutions (`engines.py`). Real rows of even length
are transformed as complex ones of half the length. An inverse transform is the forward one with
real and imaginary parts exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.fft.lines import WorkSpace
from hlo.codegen.kernels.fft.rows import COMPLEX, FROM_REAL, TO_REAL, Pass, Rows
from hlo.codegen.loops.kernel import LIGHT_COST, Kernel, planner, slot_of, split_index
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.values.layout.plain import is_plain
from hlo.values.types import Layout


@dataclass(frozen=True)
class _Emit:
    """The step of a pass. scratch, tables: the first numbers of its work space and constants."""

    p: Pass
    scratch: int
    tables: int

    def __call__(self, k: Kernel) -> Extent:
        b, p = k.b, self.p
        engine, groups, lines = p.engine(k.target), p.groups(k.target), p.lines(k.target)
        count = len(p.tables(k.target))
        tables = k.tables[self.tables : self.tables + count]
        slot = slot_of(k, groups)
        at = b.mul(slot, p.work_bytes(k.target))
        bases = [b.element_address(k.scratch[self.scratch + n], "i8", at) for n in range(2)]
        *outer, inner = [p.after.dims[d] for d in p.others] or [1]
        chunks = -(-inner // lines)
        with b.loop(k.begin, k.end, plain=True) as group:
            *start, chunk = split_index(b, group, [*outer, chunks])
            first = b.mul(chunk, lines)
            here = b.minimum(lines, b.sub(inner, first)) if inner % lines else lines
            work = WorkSpace(k, engine.inner, bases)
            io = Rows(k, self.p, work, lines, start, first, here)
            io.bring(tables)
            engine.emit(work, tables[:-1] if p.is_half else tables)
            io.deliver(tables)
        length = max(2, engine.inner.n)
        cost = lines * length * (math.log2(length) + 4) / engine.inner.lanes * 4
        k.is_light = cost < 8 * LIGHT_COST
        return Extent(groups, cost)


# --- the operation ------------------------------------------------------------------------------


def passes_of(inst: Instruction) -> list[Pass]:
    """Return the passes of an operation, in order."""
    before, after = inst.operands[0].array_shape, inst.array_shape
    kind, lengths = inst.fft_type, inst.fft_length
    inverse = kind in ("IFFT", "IRFFT")
    axes = range(after.rank - len(lengths), after.rank)
    *leading, last = zip(axes, lengths, strict=True)
    if kind == "IRFFT":
        # Complex dimensions first, of the half that is given.
        spare = 0 if leading else None
        found: list[Pass] = []
        held = before
        for axis, n in leading:
            kept = held if is_plain(held) else held.with_layout(Layout.default(held.rank))
            source = 0 if found else None
            found.append(Pass(axis, n, COMPLEX, True, held, kept, source, 0))
            held = kept
        return [*found, Pass(*last, TO_REAL, True, held, after, spare, None)]
    first = FROM_REAL if kind == "RFFT" else COMPLEX
    found = [Pass(*last, first, inverse, before, after, None, None)]
    for axis, n in reversed(leading):
        found.append(Pass(axis, n, COMPLEX, inverse, after, after, None, None, in_place=True))
    return found


@planner("fft")
def _plan_fft(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    after = inst.array_shape
    before = inst.operands[0].array_shape
    if not after.num_elements:
        return Plan(())
    passes = passes_of(inst)
    sizes: list[int] = []
    if passes[0].target == 0:
        sizes.append(before.byte_size)
    steps: list[_Emit] = []
    tables: list[np.ndarray] = []
    for p in passes:
        steps.append(_Emit(p, len(sizes), len(tables)))
        sizes += [target.slots(p.groups(target)) * p.work_bytes(target)] * 2
        tables += p.tables(target)
    return Plan(tuple(steps), tuple(sizes), tuple(tables))
