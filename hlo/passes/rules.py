"""Rewriting by rules: small functions, each with its equation, applied until none fires.

    RULES = RuleSet("algsimp")

    @RULES.rule("add", "x + 0 = x")
    def add_zero(inst: Instruction, b: Builder) -> Instruction | None: ...

A rule looks at an instruction, and returns what computes the same value, new or old, or None. It
changes nothing else: what it built in vain is taken away again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from hlo.analysis.effects import Effects
from hlo.eval.dynamic import may_be_dynamic
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops import Trait
from hlo.ops.contract.operand_configs import is_packed
from hlo.ops.movement.dimension_sizes import SIZE_MAKERS
from hlo.passes.rewrites import Rewrites
from hlo.values.types import ArrayShape, Shape, compatible, without_layout

Rewriter = Callable[[Instruction, Builder], Instruction | None]
# Of instructions: the opcode, whether there are dynamic dimensions, the opcodes of the operands.
_Kind = tuple[str, bool, tuple[str, ...]]


@dataclass(frozen=True)
class Rule:
    """A rewrite of the instructions of some opcodes.

    equation: what it rests on, and for what it holds. approximate: results may differ by rounding.
    static: it never sees, nor makes, arrays with dynamic dimensions. on: opcodes one of which an
    operand has to have, `same` for the instruction's own; any operands, if there are none.
    """

    name: str
    opcodes: tuple[str, ...]
    equation: str
    rewrite: Rewriter
    approximate: bool = False
    static: bool = False
    on: tuple[str, ...] = ()

    def may_apply(self, opcode: str, operands: Container[str]) -> bool:
        """Return whether an instruction may match, by its opcode and those of its operands."""
        if not self.on:
            return True
        for sought in self.on:  # a plain loop: hundreds of rules are asked for each kind
            if (opcode if sought == "same" else sought) in operands:
                return True
        return False


class RuleSet:
    """The rules of a pass, by opcode, in order of registration."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: dict[str, Rule] = {}
        self._by_opcode: dict[str, list[Rule]] = {}
        # See `chosen`.
        self._chosen: dict[frozenset[str], dict[_Kind, Sequence[Rule]]] = {}

    def rule(
        self, opcodes: str, equation: str, *, approximate: bool = False, static: bool = False,
        on: str = "",
    ) -> Callable[[Rewriter], Rewriter]:  # fmt: skip
        """Register a rewrite of some opcodes, separated by spaces, under the function's name.

        The other arguments are as in `Rule`; opcodes in `on` are separated by spaces as well.
        """

        def add(rewrite: Rewriter) -> Rewriter:
            name = f"{self.name}.{rewrite.__name__}"
            assert name not in self.rules, f"there are two rules called {name}"
            sought, looked_at = tuple(opcodes.split()), tuple(on.split())
            new = Rule(name, sought, equation, rewrite, approximate, static, looked_at)
            self.rules[name] = new
            self._chosen.clear()
            for opcode in new.opcodes:
                self._by_opcode.setdefault(opcode, []).append(new)
            return rewrite

        return add

    def of(self, opcode: str) -> Sequence[Rule]:
        return self._by_opcode.get(opcode, ())

    def chosen(self, skipped: frozenset[str]) -> dict[_Kind, Sequence[Rule]]:
        """Return the rules but for the skipped ones, by what they were last asked for.

        Modules have the same kinds of instructions again and again.
        """
        return self._chosen.setdefault(skipped, {})

    def apply(
        self,
        module: Module,
        rewrites: Rewrites,
        *,
        computations: Iterable[Computation] | None = None,
        skipped: frozenset[str] = frozenset(),
    ) -> None:
        """Rewrite computations until no rule fires any more; by default all outside fusions.

        skipped: names of rules that are not to be used.
        """
        if not has_opcode(module, self._by_opcode):
            return
        effects = Effects()
        for comp in unfused(module) if computations is None else computations:
            if comp.has_opcode(self._by_opcode):
                _Worklist(comp, self, rewrites, effects, skipped).run()


def has_opcode(module: Module, opcodes: Container[str]) -> bool:
    """True if any instruction has one of some opcodes: a pass may have nothing to look for."""
    return any(comp.has_opcode(opcodes) for comp in module.computations)


def is_configured(inst: Instruction) -> bool:
    """True for products whose factors are scaled, sparse or packed: no rule is about these."""
    return inst.opcode in ("dot", "convolution") and (
        len(inst.operands) > 2 or inst.sparsity_config is not None or is_packed(inst)
    )


def unfused(module: Module) -> list[Computation]:
    """Return the computations that are not the inside of a fusion, callees first.

    Neither are they what an asynchronous operation wraps, which is one instruction for ever.
    """
    owned = {
        c
        for i in module.call_sites()
        if i.opcode == "fusion" or i.spec.has(Trait.ASYNC_CHAIN)
        for c in i.called_computations
    }
    return [c for c in module.callees_first() if c not in owned]


# Of what has more operands, their opcodes do not decide which rules look at it.
_MANY = 4
# More rewrites than this for each instruction that was there: two rules undo each other.
_MAX_REWRITES_PER_INSTRUCTION = 100


class _Worklist:
    """The instructions of a computation that a rule may still change, the first on top."""

    def __init__(
        self,
        comp: Computation,
        rules: RuleSet,
        rewrites: Rewrites,
        effects: Effects,
        skipped: frozenset[str],
    ) -> None:
        self._comp = comp
        self._rules = rules
        self._rewrites = rewrites
        self._effects = effects
        self._skipped = skipped
        self._chosen = rules.chosen(skipped)
        self._todo = dict.fromkeys(reversed(comp.in_order()))
        # Rules make nothing dynamic of what is not.
        self._is_static = not may_be_dynamic(comp)
        self._varying = set[Instruction]() if self._is_static else _of_varying_size(comp)
        self._left = _MAX_REWRITES_PER_INSTRUCTION * (len(comp) + 10)

    def run(self) -> None:
        while self._todo:
            inst, _ = self._todo.popitem()
            if inst.parent is self._comp:
                self._visit(inst)

    def _rules_for(self, inst: Instruction) -> Sequence[Rule]:
        """Return the rules that may match an instruction: most match none."""
        opcode, operands = inst.opcode, inst.operands
        if not self._rules.of(opcode):
            return ()
        dynamic = self._meets_dynamic(inst)
        near = tuple([o.opcode for o in operands]) if len(operands) <= _MANY else ()
        key = opcode, dynamic, near
        rules = self._chosen.get(key)
        if rules is None:
            rules = [r for r in self._rules.of(opcode) if not (dynamic and r.static)]
            if near:
                rules = [r for r in rules if r.may_apply(opcode, near)]
            rules = self._chosen[key] = [r for r in rules if r.name not in self._skipped]
        return rules

    def _visit(self, inst: Instruction) -> None:
        rules = self._rules_for(inst)
        if not rules or (not inst.num_users and self._effects.is_removable(inst)):
            return  # the operands' other users need not care; dce takes what is removable
        if inst.control_predecessors or inst.control_successors or is_configured(inst):
            return
        b = Builder(self._comp, inst)
        for rule in rules:
            new = rule.rewrite(inst, b)
            if new is not None and self._apply(rule, inst, new, b.built):
                return
            if b.built:
                self._drop(b.built)
                b.built.clear()

    def _meets_dynamic(self, inst: Instruction) -> bool:
        """True when dimensions of an instruction or of its operands are dynamic."""
        if self._is_static:
            return False
        if inst.shape.is_dynamic or inst in self._varying:
            return True
        for operand in inst.operands:  # a plain loop: each visit of each instruction comes here
            if operand.shape.is_dynamic or operand in self._varying:
                return True
        return False

    def _apply(
        self, rule: Rule, inst: Instruction, new: Instruction, built: Sequence[Instruction]
    ) -> bool:
        if not isinstance(new, Instruction):
            raise TypeError(f"rule {rule.name} returned {new!r}, not an instruction or None")
        if new is inst or not _same_dims(new.shape, inst.shape, rule):
            return False
        if rule.static and (new.shape.is_dynamic or any(map(self._meets_dynamic, built))):
            return False
        if not self._rewrites.allow(rule.name, inst, approximate=rule.approximate):
            return False
        assert self._left, f"rule {rule.name}: rules undo each other at {inst.name}"
        self._left -= 1
        users = inst.users
        copies = replace_instruction(inst, new, built)
        self._todo.update(dict.fromkeys(users))
        self._todo.update(dict.fromkeys(reversed([*built, *copies])))
        self._remove_dead([inst, *reversed(built)])
        return True

    def _drop(self, built: Sequence[Instruction]) -> None:
        for inst in reversed(built):
            if not inst.num_users:
                self._comp.remove(inst)

    def _remove_dead(self, stack: list[Instruction]) -> None:
        """Remove what nothing uses any more. Operands with fewer users get another look.

        Some rules fire only for what has one user.
        """
        while stack:
            dead = stack.pop()
            if dead.parent is not self._comp or not self._effects.is_removable(dead):
                continue
            operands = list(dict.fromkeys(dead.operands))
            self._todo.pop(dead, None)
            self._comp.remove(dead)
            stack.extend(operands)
            for operand in operands:
                self._todo.setdefault(operand)
                if operand.num_users == 1:
                    self._todo.setdefault(operand.users[0])


def _of_varying_size(comp: Computation) -> set[Instruction]:
    """Return what may vary in size although its shape does not say so.

    A text may leave it out of the shapes of what is made from arrays of dynamic dimensions.
    """
    found: set[Instruction] = set()
    for inst in comp.in_order():
        is_scalar = isinstance(inst.shape, ArrayShape) and not inst.shape.dims
        if not is_scalar and (
            inst.opcode in SIZE_MAKERS
            or any(o.shape.is_dynamic or o in found for o in inst.operands)
        ):
            found.add(inst)
    return found


def _same_dims(new: Shape, old: Shape, rule: Rule) -> bool:
    """False when a rule would change which dimensions are dynamic; it may change only layouts."""
    if without_layout(new) == without_layout(old):
        return True
    assert compatible(new, old), f"rule {rule.name} returned {new} in place of {old}"
    return False


def replace_instruction(
    old: Instruction, new: Instruction, built: Sequence[Instruction] = ()
) -> Sequence[Instruction]:
    """Make the users of `old` use `new`, a value of the same computation, in the layout of `old`.

    old: stays, without users. built: what was made for this and may still take any layout. A
    sharding goes over to what has none. Returns what had to be appended to change layouts.
    """
    comp = old.parent
    assert comp is not None
    b = Builder(comp, old)
    if new.shape != old.shape:
        if new in built and new.opcode not in _OF_ONE_LAYOUT:
            new.shape = old.shape
        else:
            new = b.relaid(new, old.shape)
    if "sharding" in old.annotations and new in built:
        new.annotations.setdefault("sharding", old.annotations["sharding"])
    old.replace_all_uses_with(new)
    return b.built


# The layouts of their results say what they compute, or follow from their operands'.
_OF_ONE_LAYOUT = frozenset({"bitcast", "parameter", "tuple", "get-tuple-element"})
