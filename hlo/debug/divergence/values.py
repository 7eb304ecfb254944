"""The values of one run of a region, and how long they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hlo.debug.divergence.nodes import Node, Region, Tree, evaluated, leaves
from hlo.debug.divergence.pairing import Pairing
from hlo.eval.interpreter import Interpreter
from hlo.ops import Trait

_CHEAP = Trait.ELEMENTWISE | Trait.VIEW


class Values:
    """The values of one run of a region, computed when they are asked for."""

    def __init__(
        self, interpreter: Interpreter, arguments: Mapping[Node, Any], lasts: Mapping[Node, int]
    ) -> None:
        self._interpreter = interpreter
        self._values: dict[Node, Any] = dict(arguments)
        self._lasts = lasts

    def __setitem__(self, node: Node, value: Any) -> None:
        self._values[node] = value

    def __contains__(self, node: Node) -> bool:
        return node in self._values

    def __getitem__(self, node: Node) -> Any:
        values = self._values
        if node in values:
            return values[node]
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [o for o in top.operand_nodes() if o not in values]
            if top in values:
                stack.pop()
            elif missing:
                stack += missing
            else:
                stack.pop()
                operands = [evaluated(t, values.__getitem__) for t in top.operands]
                values[top] = self._interpreter.evaluate(top.inst, operands)
        return values[node]

    def tree(self, tree: Tree) -> Any:
        return evaluated(tree, self.__getitem__)

    def free(self, at: int) -> None:
        """Forget the values that nothing needs from the step of a number on."""
        gone = [n for n in self._values if self._lasts.get(n, at + 1) <= at]
        for node in gone:
            del self._values[node]


@dataclass(frozen=True)
class LastUses:
    given: Mapping[Node, int]
    other: Mapping[Node, int]


def is_cheap(node: Node) -> bool:
    """True for what native code sooner computes again than it reads it."""
    spec = node.inst.spec
    return node.opcode == "constant" or (spec.has(_CHEAP) and not spec.has(Trait.NO_FOLD))


def last_uses(
    mine: Region, region: Region, pairing: Pairing, *, again: Callable[[Node], bool]
) -> LastUses:
    """Return for each node the step, a number of a node of `region`, after which nothing needs it.

    What is asked for later all the same is computed again. again: what is meant to be.
    """
    other: dict[Node, int] = {}
    given: dict[Node, int] = {}
    end = len(region.nodes) + 1
    for node in region.nodes:
        for operand in node.operand_nodes():
            other[operand] = node.number
    for node in [*region.parameters, *leaves(region.root)]:
        other[node] = end
    for node, number in other.items():
        partner = pairing.of.get(node)
        if partner is not None:
            given[partner] = max(given.get(partner, 0), number)
    # A value of the given module is needed for as long as what is computed from it may be, and
    # that, where it has no partner, for as long as what is computed from it.
    computed: dict[Node, int] = {}
    for node in reversed(mine.nodes):
        partner = pairing.claimed.get(node)
        at = max(partner.number if partner is not None else 0, computed.get(node, 0))
        if again(node):
            at = max(at, given.get(node, 0))
        for operand in node.operand_nodes():
            given[operand] = max(given.get(operand, 0), at)
            if operand not in pairing.claimed:
                computed[operand] = max(computed.get(operand, 0), at)
    for node in [*mine.parameters, *leaves(mine.root)]:
        given[node] = end
    return LastUses(given, other)
