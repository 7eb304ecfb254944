"""Native code for the bulk of a comparison: which values of two regions differ at all.

The nodes of the other region are taken in chunks. A chunk is one program: the given region's values
that it needs and that are not there yet, what the other region makes of them, and how these
compare. Arrays that only the comparison reads never leave the program. What it finds apart, by half
of the tolerance, is looked at by the interpreter, on the values that came into the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hlo.analysis.cost import cost_of
from hlo.analysis.effects import Effects
from hlo.debug.divergence.apart import Apart
from hlo.debug.divergence.beside import Beside
from hlo.debug.divergence.nodes import Node, Region, Tree
from hlo.debug.divergence.pairing import CONTROL, unpaired_before
from hlo.debug.divergence.values import LastUses, is_cheap
from hlo.ir import Computation, Instruction, Module
from hlo.ir.extract import module_of
from hlo.ops import Trait
from hlo.values.layout.bitcasts import layout_of
from hlo.values.types import ArrayShape, TokenShape, TupleShape

# Runs a module on values for its parameters.
Execute = Callable[[Module, Sequence[Any]], Any]

# So many values are compared by one program.
_CHUNK = 96
# So many of the other region pass where the given one is interpreted, before values are dropped.
_INTERPRETED = 48
# What rounds nothing.
_UNROUNDED = Trait.VIEW | Trait.FORWARDS | Trait.EXACT
# What is less work than this, in operations and bytes, is interpreted sooner than compiled.
_LEAST_WORK = 2e9


def is_worth_compiling(comp: Computation) -> bool:
    """True if the interpreter would take seconds for a computation."""
    cost = cost_of(comp)
    return cost.operations + cost.bytes > _LEAST_WORK


def can_be_cut(module: Module) -> bool:
    """True if parts of a module may run by themselves, and any number of times."""
    effects = Effects()
    return not any(
        inst.shape.is_dynamic
        or any(isinstance(leaf, TokenShape) for _, leaf in inst.shape.leaves())
        or effects.has_side_effect(inst)
        for inst in module.instructions()
    )


@dataclass(frozen=True)
class Program:
    """A chunk as a module.

    arguments: the nodes whose values are its parameters, those of the given region first: so many.
    kept: the nodes of the given region whose values are its first results. compared: the nodes of
    the other region that the further results, true where they differ, are about.
    """

    module: Module
    arguments: Sequence[tuple[bool, Node]]
    kept: Sequence[Node]
    compared: Sequence[Node]


# The chunks of two regions, by what they begin with.
Programs = dict[Any, Program]


class Screen:
    """Compares the values of two regions natively, chunk by chunk, in one run of both.

    execute: runs modules as native code. programs: those made in earlier runs of the same
    regions. given_is_interpreted: the given region's values come from the interpreter.
    """

    def __init__(
        self, beside: Beside, other: Region, lasts: LastUses, execute: Execute,
        programs: Programs, *, given_is_interpreted: bool,
    ) -> None:  # fmt: skip
        self._beside = beside
        self._other = other
        self._lasts = lasts
        self._execute = execute
        self._programs = programs
        self._is_interpreted = given_is_interpreted

    def chunk(self, start: int) -> tuple[list[Node], int]:
        """Compare the nodes from one on; returns those that differ, and where the next starts.

        A loop or branch to be looked into ends a chunk, is in none, and is itself returned.
        """
        beside, nodes = self._beside, self._other.nodes
        at, checks = start, list[Node]()
        most = start + _INTERPRETED if self._is_interpreted else len(nodes)
        while at < min(len(nodes), most) and len(checks) < _CHUNK:
            node = nodes[at]
            partner = beside.partner(node)
            if partner is None or beside.is_exact(node) or node.opcode == "parameter":
                at += 1
                continue
            if node.opcode in CONTROL:
                if checks or at > start:
                    break
                return [node], at + 1
            if node.is_array and partner.is_array:
                checks.append(node)
            at += 1
        if self._is_interpreted:
            for partner in map(beside.partner, nodes[start:at]):
                if partner is not None:
                    _ = beside.given[partner]
        return (self._apart(checks, start, at) if checks else []), at

    def fill(self, nodes: Sequence[Node]) -> None:
        """Compute values of the given region, those that are not there."""
        given = self._beside.given
        missing = [n for n in nodes if n not in given]
        if missing and not self._is_interpreted:
            writer = _Writer(self._beside, given_is_interpreted=False)
            self._run(writer.filled(missing))

    def _apart(self, checks: Sequence[Node], start: int, stop: int) -> list[Node]:
        beside = self._beside
        key = start, stop, frozenset(beside.apart)
        program = self._programs.get(key)
        if program is None or not all(
            node in (beside.given if mine else beside.other) for mine, node in program.arguments
        ):
            program = self._programs[key] = self._program(checks, stop)
        told = self._run(program)
        return [n for n, apart in zip(program.compared, told, strict=True) if bool(apart)]

    def _run(self, program: Program) -> Sequence[Any]:
        """Run a program, keep the values that it computes, and return its further results."""
        given, other = self._beside.given, self._beside.other
        arguments = [(given if mine else other)[node] for mine, node in program.arguments]
        results = self._execute(program.module, arguments)
        for node, value in zip(program.kept, results, strict=False):
            given[node] = value
        return results[len(program.kept) :]

    def _program(self, checks: Sequence[Node], stop: int) -> Program:
        writer = _Writer(self._beside, self._is_interpreted)
        told = [writer.compared(node) for node in checks]
        made = writer.made_of_given()
        lasts = self._lasts.given
        kept = [n for n in made if n.is_array and not is_cheap(n) and lasts.get(n, 0) >= stop]
        return writer.program(kept, checks, told)


class _Writer:
    """Writes a chunk's module."""

    def __init__(self, beside: Beside, given_is_interpreted: bool) -> None:
        self._beside = beside
        self._is_interpreted = given_is_interpreted
        self._comp = Computation("chunk")
        self._apart = Apart(self._comp, beside.tolerance)
        self._made: dict[Node, Instruction] = {}
        self._arguments: list[tuple[bool, Node]] = []
        self._mine: list[Node] = []
        self._functions: dict[str, Any] = {}

    def made_of_given(self) -> Sequence[Node]:
        """Return the given region's nodes that the chunk computes."""
        return self._mine

    def compared(self, node: Node) -> Instruction:
        """Write a node of the other region and its partner; returns whether they are apart."""
        beside = self._beside
        partner = beside.partner(node)
        assert partner is not None
        want = self._of_given(partner)
        self._write_before(node)
        got = self._its(node)
        cone = [partner, *unpaired_before(node, beside.paired())]
        exact = all(n.opcode == "constant" or n.inst.spec.has(_UNROUNDED) for n in cone)
        return self._apart.told(got, want, exact=exact)

    def filled(self, nodes: Sequence[Node]) -> Program:
        """Return the program that computes nodes of the given region."""
        for node in nodes:
            self._of_given(node)
        return self.program(nodes, (), ())

    def program(
        self, kept: Sequence[Node], checks: Sequence[Node], told: Sequence[Instruction]
    ) -> Program:
        results = [*(self._made[n] for n in kept), *told]
        shape = TupleShape(tuple(r.shape for r in results))
        self._comp.add(Instruction("results", "tuple", shape, results), root=True)
        return Program(module_of(self._comp, self._functions), self._arguments, kept, checks)

    def _its(self, node: Node) -> Instruction:
        """Write a node of the other region on the values that its operands stand for."""
        operands = []
        for tree, operand in zip(node.operands, node.inst.operands, strict=True):
            operands.append(self._operand(tree, operand.shape, self._value))
        return self._copied(node, operands)

    def _value(self, node: Node) -> Instruction:
        """Return a value of the other region: the given one's, where there is such a one."""
        beside = self._beside
        partner = beside.partner(node)
        if partner is not None and (partner.is_array or beside.is_exact(node)):
            return self._of_given(partner)
        found = self._made.get(node)
        if found is None:
            if node in beside.other:
                found = self._parameter(node, mine=False)
            else:
                self._write_before(node)
                found = self._its(node)
            self._made[node] = found
        return found

    def _write_before(self, node: Node) -> None:
        """Write what comes before a node of the other region without a partner."""
        beside = self._beside
        for n in unpaired_before(node, beside.paired())[:-1]:
            if n not in self._made:
                is_there = n in beside.other
                self._made[n] = self._parameter(n, mine=False) if is_there else self._its(n)

    def _of_given(self, node: Node) -> Instruction:
        """Write a node of the given region, and all before it that has no value yet."""
        values = self._beside.given
        stack = [node]
        while stack:
            top = stack[-1]
            if top in self._made:
                stack.pop()
                continue
            if top.opcode != "constant" and (self._is_interpreted or top in values):
                self._made[top] = self._parameter(top, mine=True)
                continue
            missing = [o for o in top.operand_nodes() if o not in self._made]
            if missing:
                stack += missing
                continue
            operands = [
                self._operand(tree, operand.shape, self._made.__getitem__)
                for tree, operand in zip(top.operands, top.inst.operands, strict=True)
            ]
            self._made[top] = self._copied(top, operands)
            self._mine.append(top)
        return self._made[node]

    def _copied(self, node: Node, operands: Sequence[Instruction]) -> Instruction:
        self._functions.update(node.inst.module_functions)
        return self._comp.add(node.inst.clone(operands))

    def _parameter(self, node: Node, *, mine: bool) -> Instruction:
        number = len(self._arguments)
        self._arguments.append((mine, node))
        made = Instruction(node.inst.name, "parameter", node.shape, (), {"number": number})
        return self._comp.add(made)

    def _operand(self, tree: Tree, shape: Any, value: Callable[[Node], Instruction]) -> Instruction:
        """Write the value of a tree where an instruction wants an operand of a shape."""
        if isinstance(tree, Node):
            found = value(tree)
            if isinstance(shape, ArrayShape) and isinstance(found.shape, ArrayShape):
                if layout_of(found.shape) != layout_of(shape):
                    return self._comp.add(Instruction("laid", "copy", shape, [found]))
            return found
        parts = [
            self._operand(part, s, value) for part, s in zip(tree, shape.elements, strict=True)
        ]
        whole = TupleShape(tuple(p.shape for p in parts))
        return self._comp.add(Instruction("parts", "tuple", whole, parts))
