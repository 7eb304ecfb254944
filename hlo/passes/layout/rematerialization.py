"""Rematerialization."""

from __future__ import annotations

from collections.abc import Sequence, Set
from heapq import heappop, heappush

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.cost import cost_of_instruction
from hlo.analysis.effects import Effects
from hlo.analysis.memory import Peaks, Value, Values, passes_on, peak_memory, shape_bytes
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import Calls, clone_computation
from hlo.ops import TRANSCENDENTAL_COST, Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.support.memory import memory_bytes
from hlo.values.types import ArrayShape

# Maximum number of instructions to recompute for a value.
_MAX_CHAIN = 12
_MAX_ROUNDS = 3
_MAX_TRIALS = 5
# Peaks that differ by less than this part of the largest count as equal.
_CLOSE = 0.02
# Copies have fractional positions between instructions, whose distance is 1.
_EARLIER = 1e-4
_NOT_AGAIN = frozenset({"parameter", "while", "conditional", "custom-call", "copy-start"})


@module_pass
def rematerialization(module: Module, rewrites: Rewrites, *, memory_limit_bytes: int = 0) -> None:
    """Rematerialize values before late uses, to keep peak memory under a limit.

    The order of the instructions is the schedule; values that are cheapest to compute for the bytes
    that they free are chosen first. memory_limit_bytes: 0 means the memory of this machine.
    """
    limit = memory_limit_bytes or memory_bytes()
    target = _within_reach(module, limit)
    if target is not None:
        _Rematerializer(module, rewrites).reduce(module.entry, target)


def _within_reach(module: Module, limit: int) -> int | None:
    """Return the target for a peak as close to the limit as possible, None to change nothing.

    A target that is too low recomputes much and extends live ranges, so copies of the module are
    tried: with the limit, and if that cannot be reached, with targets between it and the peak.
    """
    best, target = peak_memory(module.entry).bytes, None
    limit = max(limit, _least(module.entry))
    low, high = limit, best
    aim = limit
    for _ in range(_MAX_TRIALS):
        if best <= limit or high - low <= best * _CLOSE:
            break
        trial = module.clone()
        _Rematerializer(trial, Rewrites()).reduce(trial.entry, aim)
        reached = peak_memory(trial.entry).bytes
        if reached < best:
            best, target = reached, aim
        if reached <= aim:
            high = aim
        else:
            low = aim
        aim = (low + high) // 2
    return target


def _least(comp: Computation) -> int:
    """Return a lower bound of a run's memory, whatever the order and the copies.

    Arguments and results stay, and each instruction needs its operands and results.
    """
    values = Values(comp.in_order())
    arguments = {v for p in comp.parameters for v in values.made(p)}
    held = [values.held_by(comp.root), *({*values.used(i), *values.made(i)} for i in comp)]
    return max(sum(values.size[v] for v in arguments | together) for together in held)


class _Rematerializer:
    def __init__(self, module: Module, rewrites: Rewrites) -> None:
        self.rewrites = rewrites
        self.effects = Effects()
        self.calls = Calls(module)
        self.peaks = Peaks()
        self._costs: dict[Instruction, float] = {}
        self._repeatable: dict[Instruction, bool] = {}

    def reduce(self, comp: Computation, limit: int) -> None:
        """Reduce the peak of a computation below a limit, or as close as possible."""
        for _ in range(_MAX_ROUNDS):
            before = self.peaks.of(comp).bytes
            if before <= limit:
                return
            _Sweep(self, comp, limit).run()
            self.peaks.forget(comp)
            if self.peaks.of(comp).bytes >= before:
                return

    def cost(self, inst: Instruction) -> float:
        if inst not in self._costs:
            cost = cost_of_instruction(inst)
            # A byte of traffic takes longer than an operation on registers.
            computing = cost.operations + TRANSCENDENTAL_COST * cost.transcendentals
            self._costs[inst] = computing + 4 * cost.bytes
        return self._costs[inst]

    def can_repeat(self, inst: Instruction) -> bool:
        if inst not in self._repeatable:
            self._repeatable[inst] = (
                inst.opcode not in _NOT_AGAIN
                and self.effects.is_function(inst)
                and self.effects.is_speculatable(inst)
                and not inst.spec.has(Trait.COLLECTIVE)
                and not has_control_edges(inst)
            )
        return self._repeatable[inst]


class _Sweep:
    """One pass over a computation in order, with the values in memory at each instruction."""

    def __init__(self, module: _Rematerializer, comp: Computation, limit: int) -> None:
        self.module = module
        self.comp = comp
        self.limit = limit
        self.given = comp.in_order()
        self.place = {inst: float(n) for n, inst in enumerate(self.given)}
        self.values = values = Values(self.given)
        self.results = set(values.held_by(comp.root))
        # Pending uses of each value.
        self.left = dict.fromkeys(values.size, 0)
        for inst in self.given:
            for value in values.used(inst):
                self.left[value] += 1
        self.arguments = {v for p in comp.parameters for v in values.made(p)}
        self.live = dict.fromkeys(self.arguments)
        self.now = sum(values.size[v] for v in self.arguments)
        self.done: set[Instruction] = set()
        # Copies to run before an instruction.
        self.copies: dict[Instruction, list[Instruction]] = {}
        self.hopeless: set[Instruction] = set()
        # Candidates for dropping: not ranked yet; by cost per byte, which may be outdated; and
        # those that could not be dropped when last examined.
        self.fresh: list[Instruction] = []
        self.ranked: list[tuple[float, int, Instruction]] = []
        self.ranks = 0
        self.waiting: dict[Instruction, None] = {}
        self.patience = 0
        self.order: list[Instruction] = []
        self.current = 0.0

    def run(self) -> None:
        for inst in self.given:
            self._run(inst)
        self.comp.reorder(self.order)

    def _run(self, inst: Instruction) -> None:
        self.current = self.place[inst]
        stack = [inst]
        while stack:
            # Running a copy may require more copies.
            if copies := self.copies.get(stack[-1]):
                stack.append(copies.pop(0))
            else:
                self._step(stack.pop())

    def _step(self, inst: Instruction) -> None:
        values = self.values
        if inst.opcode != "parameter":
            for value in values.made(inst):
                self.live[value] = None
                self.now += values.size[value]
                self.fresh.append(value[0])
        if self.now + self.module.peaks.inside(inst) > self.limit:
            self._make_room(inst)
        self.order.append(inst)
        self.done.add(inst)
        for value in values.used(inst):
            self.left[value] -= 1
            if value[0] in self.waiting:  # its next use may be far away now
                del self.waiting[value[0]]
                self.fresh.append(value[0])
        for value in (*values.used(inst), *values.made(inst)):
            self._free(value)

    def _free(self, value: Value) -> None:
        kept = value in self.results or value in self.arguments
        if not self.left[value] and not kept and value in self.live:
            del self.live[value]
            self.now -= self.values.size[value]

    def _make_room(self, at: Instruction) -> None:
        """Drop values that can be recomputed, the cheapest per byte first."""
        busy = {v[0] for v in self.values.used(at)} | {at}
        self._rank(busy)
        if not self._drop_cheapest(at, busy):
            return
        self.patience -= 1
        if self._is_over(at) and self.patience < 0:
            # Conditions may have changed for those that were given up.
            self.fresh += self.waiting
            self.waiting.clear()
            self.patience = len(self.fresh)
            self._rank(busy)
            if not self._drop_cheapest(at, busy):
                return
        if self._is_over(at):
            self._reduce_callees(at)

    def _is_over(self, at: Instruction) -> bool:
        return self.now + self.module.peaks.inside(at) > self.limit

    def _rank(self, busy: Set[Instruction]) -> None:
        """Rank new candidates, except those in use."""
        later = []
        for inst in self.fresh:
            if inst in busy or inst not in self.done:
                later.append(inst)
            elif (inst, 0) not in self.live or inst in self.hopeless:
                continue
            elif (chain := self._chain(inst)) is not None:
                self.ranks += 1
                heappush(self.ranked, (self._ratio(inst, chain), self.ranks, inst))
            elif inst not in self.hopeless:
                self.waiting[inst] = None
        self.fresh = later

    def _ratio(self, inst: Instruction, chain: Sequence[Instruction]) -> float:
        return sum(self.module.cost(i) for i in chain) / self.values.size[inst, 0]

    def _drop_cheapest(self, at: Instruction, busy: Set[Instruction]) -> bool:
        """Drop values until there is room, or none are left; False if rewrites are not allowed."""
        aside, allowed = [], True
        while self.ranked and allowed and self._is_over(at):
            ratio, number, inst = heappop(self.ranked)
            if (inst, 0) not in self.live or inst in self.hopeless:
                continue
            if inst in busy:
                aside.append((ratio, number, inst))
                continue
            chain = self._chain(inst)
            if chain is None:
                if inst not in self.hopeless:
                    self.waiting[inst] = None
                continue
            now = self._ratio(inst, chain)
            if self.ranked and now > ratio and now > self.ranked[0][0]:
                heappush(self.ranked, (now, number, inst))
            else:
                allowed = self._drop(inst, chain)
        for entry in aside:
            heappush(self.ranked, entry)
        return allowed

    def _reduce_callees(self, at: Instruction) -> None:
        if at.opcode == "fusion":
            return
        for callee in at.called_computations:
            if self.module.calls.counts[callee] == 1:
                arguments = sum(map(shape_bytes, callee.parameter_shapes))
                self.module.reduce(callee, self.limit - self.now + arguments)

    def _pending(self, inst: Instruction) -> list[Instruction] | None:
        """Return the pending users, None unless all of them can use a copy."""
        pending = []
        for user in inst.users:
            passes = passes_on(user)
            if user not in self.done:
                if passes and not (user.is_root and user.opcode == "tuple"):
                    return None
                pending.append(user)
            elif passes:
                return None
        return None if inst.is_root else pending

    def _chain(self, inst: Instruction) -> list[Instruction] | None:
        """Return the instructions to recompute for a value, None if that is not worth it."""
        if not isinstance(inst.shape, ArrayShape) or not self.values.size.get((inst, 0)):
            self.hopeless.add(inst)
            return None
        pending = self._pending(inst)
        if not pending:
            return None
        chain: dict[Instruction, None] = {}
        stack = [inst]
        leaves: set[Value] = set()
        while stack:
            top = stack.pop()
            if top in chain:
                continue
            chain[top] = None
            if len(chain) > _MAX_CHAIN or not self.module.can_repeat(top):
                self.hopeless.add(inst)
                return None
            for operand in top.operands:
                held = self.values.held_by(operand)
                if all(v in self.live for v in held):
                    leaves |= held
                else:
                    stack.append(operand)
        # Values that would be dead by then have to stay live.
        until = min(self.place[u] for u in pending)
        if until <= self.current:
            return None  # it is being computed for the next use
        kept = sum(self.values.size[v] for v in leaves if not self._stays(v, until))
        if kept >= self.values.size[inst, 0]:
            return None
        return sorted(chain, key=lambda i: self.place[i])

    def _stays(self, value: Value, until: float) -> bool:
        """True for a value that is needed at a position or later anyway."""
        if value in self.arguments or value in self.results:
            return True
        return any(u not in self.done and self.place[u] >= until for u in value[0].users)

    def _drop(self, inst: Instruction, chain: Sequence[Instruction]) -> bool:
        """Give the pending users of a value a copy, made before the first; False if not allowed."""
        pending = self._pending(inst)
        assert pending
        if not self.module.rewrites.allow("rematerialization.compute_again", inst):
            return False
        first = min(pending, key=lambda u: self.place[u])
        made: dict[Instruction, Instruction] = {}
        for old in chain:
            new = made[old] = self.comp.add(old.clone([made.get(o, o) for o in old.operands]))
            self._own(new)
            self.place[new] = self.place[first] - _EARLIER
            self.values.add(new)
            for value in self.values.made(new):
                self.left[value] = 0
            for value in self.values.used(new):
                self.left[value] += 1
            self.copies.setdefault(first, []).append(new)
        copy = made[inst]
        for user in pending:
            for n, operand in enumerate(user.operands):
                if operand is inst:
                    user.replace_operand(n, copy)
            if passes_on(user):
                self.values.add(user)
                self.results.discard((inst, 0))
                self.results.add((copy, 0))
            self.left[inst, 0] -= 1
            self.left[copy, 0] += 1
        self._free((inst, 0))
        return True

    def _own(self, copy: Instruction) -> None:
        """Give the copy of a fusion a body of its own."""
        if copy.opcode == "fusion":
            copy.attrs["calls"] = clone_computation(copy.calls)
        self.module.calls.added([copy])
