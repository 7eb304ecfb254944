"""Producers, computed where their consumers need them."""

from __future__ import annotations

import heapq

from hlo.analysis.bitcasts import is_bitcast
from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import Calls
from hlo.ops import Trait
from hlo.passes.fusion._build import FusionBuilder, fusible_computations
from hlo.passes.fusion._kernels import (
    Kernel,
    can_take,
    elements,
    is_cheap,
    is_free,
    is_fusible,
    is_scalar_constant,
    kernel_of,
    merged,
    repeats,
)
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites

# A value of more readers is not computed again for each.
_MAX_READERS = 16


@module_pass
def fusion(module: Module, rewrites: Rewrites) -> None:
    """Fuse producers into their consumers, the largest savings first.

    A producer goes into all its consumers, so that its value is never stored, or into none; iotas,
    broadcasts and scalar constants go wherever they can. What is expensive is computed once. Side
    effects, control edges and dynamic dimensions keep instructions out, and fusions that are there
    already stay as they are.
    """
    calls, effects = Calls(module), Effects(module)
    for comp in fusible_computations(module):
        plan = _Plan(comp, effects)
        plan.fuse_free()
        plan.fuse_by_priority()
        builder = FusionBuilder(comp, calls, effects)
        # Consumers first: they copy producers that later become fusions themselves.
        for kernel in reversed(plan.fused()):
            if kernel.root.parent is comp and rewrites.allow("fusion", kernel.root):
                builder.fuse(kernel.members, [kernel.root])
        builder.finish()


class _Plan:
    """The kernels of a computation, at first one for each instruction.

    A value is in memory as long as it has a kernel of its own. readers: by value, the kernels that
    read it.
    """

    def __init__(self, comp: Computation, effects: Effects) -> None:
        self._kernels: dict[Instruction, Kernel] = {}
        self._readers: dict[Instruction, dict[Instruction, None]] = {}
        self._place: dict[Instruction, int] = {}
        # What has to be in memory: something else than a kernel needs it.
        self._stored = {comp.root}
        for n, inst in enumerate(comp.in_order()):
            self._place[inst] = n
            self._readers[inst] = {}
            if is_fusible(inst, effects):
                self._kernels[inst] = kernel_of(inst)
                for operand in inst.operands:
                    self._readers[operand][inst] = None
            else:
                self._stored.update(inst.operands)

    def fused(self) -> list[Kernel]:
        """Return the kernels of several instructions in order, scalar constants in them.

        What is computed from constants alone is for constant folding to decide; bitcasts alone
        are no kernel.
        """
        found = [
            k
            for k in self._kernels.values()
            if any(o.opcode != "constant" for o in k.reads)
            and len(k.members) > 1
            and not all(map(is_bitcast, k.members))
        ]
        for kernel in found:
            for operand in kernel.reads:
                if is_scalar_constant(operand):
                    kernel.members[operand] = None
        return found

    def fuse_free(self) -> None:
        """Evaluate what costs nothing in each kernel that can."""
        for inst in reversed(self._place):
            kernel = self._kernels.get(inst)
            if kernel is not None and is_free(inst):
                takers = [c for c in self._consumers(inst) if can_take(c, kernel)]
                if takers:
                    self._apply(kernel, [merged(c, kernel) for c in takers])

    def fuse_by_priority(self) -> None:
        """Fuse the producer that saves most, until none saves anything."""
        gains: dict[Instruction, float] = {}
        queue: list[tuple[float, int, Instruction]] = []

        def look(inst: Instruction) -> None:
            gain = self._gain(inst)
            if gains.get(inst) != gain:
                gains[inst] = gain
                if gain > 0:
                    heapq.heappush(queue, (-gain, self._place[inst], inst))

        for inst in list(self._kernels):
            look(inst)
        while queue:
            negative, _, inst = heapq.heappop(queue)
            if inst not in self._kernels or gains[inst] != -negative:
                continue
            kernel = self._kernels[inst]
            changed = [merged(c, kernel) for c in self._consumers(inst)]
            self._apply(kernel, changed)
            for value in dict.fromkeys(v for c in changed for v in (c.root, *c.reads)):
                if value in self._kernels:
                    look(value)

    def _consumers(self, inst: Instruction) -> list[Kernel]:
        return [self._kernels[root] for root in self._readers[inst]]

    def _apply(self, producer: Kernel, changed: list[Kernel]) -> None:
        """Put kernels that evaluate a producer in the places of those that read it."""
        p = producer.root
        for kernel in changed:
            self._kernels[kernel.root] = kernel
            del self._readers[p][kernel.root]
            for operand in producer.reads:
                self._readers[operand][kernel.root] = None
        if not self._readers[p] and p not in self._stored:
            del self._kernels[p]
            for operand in producer.reads:
                del self._readers[operand][p]

    def _gain(self, inst: Instruction) -> float:
        """Return the time that fusing a producer into all its consumers saves, 0 if it cannot."""
        if inst in self._stored or not 0 < len(self._readers[inst]) <= _MAX_READERS:
            return 0.0
        producer, consumers = self._kernels[inst], self._consumers(inst)
        if not all(can_take(c, producer) for c in consumers):
            return 0.0
        if repeats(consumers, producer) and (not is_cheap(producer) or _is_shift(inst)):
            return 0.0
        before = producer.time + sum(c.time for c in consumers)
        return before - sum(merged(c, producer).time for c in consumers)


def _is_shift(inst: Instruction) -> bool:
    """True for what is computed to be compared with its own maximum.

    Computed twice, rounding may differ where code generation contracts products and sums: no
    element may exceed the maximum.
    """
    for user in inst.users:
        if user.opcode == "reduce" and user.to_apply.root.spec.has(Trait.EXTREMUM):
            return elements(inst) > 1
    return False
