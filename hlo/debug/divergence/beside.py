"""The values of two regions that run side by side, and what comes of others in their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlo.debug.divergence.nodes import Node, Tree, evaluated
from hlo.debug.divergence.pairing import CONTROL, Pairing, unpaired_before
from hlo.debug.divergence.tolerance import Tolerance, moved
from hlo.debug.divergence.values import Values
from hlo.eval.interpreter import Interpreter
from hlo.ir import Instruction
from hlo.testing.compare import Comparison, nudged

# Where a value is computed: a caller, and the iteration if it is a loop.
Frames = tuple[tuple[Instruction, int | None], ...]


class Beside:
    """The values of two regions that run side by side."""

    def __init__(
        self, given: Values, other: Values, interpreter: Interpreter, pairing: Pairing,
        tolerance: Tolerance, frames: Frames,
    ) -> None:  # fmt: skip
        self.given, self.other = given, other
        self.tolerance = tolerance
        self._interpreter = interpreter
        self.pairing = pairing
        self.frames = frames
        # Pairs that turned out to be none: their values differ for good reasons.
        self.apart: set[Node] = set()

    def partner(self, node: Node) -> Node | None:
        return None if node in self.apart else self.pairing.of.get(node)

    def is_exact(self, node: Node) -> bool:
        """True if a node of the other region does what its partner does, to the same values."""
        return (
            node not in self.apart
            and self.pairing.is_exact(node)
            and not (self.apart and any(o in self.apart for o in node.operand_nodes()))
        )

    def value(self, node: Node) -> Any:
        """Return a value of the other region: the given module's, where there is such a one."""
        partner = self.partner(node)
        if partner is not None and (partner.is_array or self.is_exact(node)):
            return self.given[partner]
        if node not in self.other:
            for n in unpaired_before(node, self.paired()):
                if n not in self.other:
                    self.other[n] = self.computed(n)
        return self.other[node]

    def free(self, at: int) -> None:
        """Forget the values that nothing needs from the step of a number on."""
        self.given.free(at)
        self.other.free(at)

    def result(self, tree: Tree) -> Any:
        return evaluated(tree, self.value)

    def computed(
        self, node: Node, instead: Mapping[Node, Any] | None = None,
        leaf: tuple[int, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Return a node's value, from values of others instead of those that they have.

        leaf: the number of a leaf of its operands, and the value of that.
        """
        count = -1

        def value(n: Node) -> Any:
            nonlocal count
            count += 1
            if leaf is not None and count == leaf[0]:
                return leaf[1]
            return instead[n] if instead is not None and n in instead else self.value(n)

        operands = [evaluated(t, value) for t in node.operands]
        return self._interpreter.evaluate(node.inst, operands)

    def compare(self, node: Node, got: Any, want: Any) -> Comparison:
        def moves() -> float:
            """Return what the operands' last places change, with all that is not paired."""
            cone = unpaired_before(node, self.paired())
            return moved(got, self.again(cone, {}, nudge=True))

        return self.tolerance.compare(got, want, moves)

    def paired(self) -> Mapping[Node, Node]:
        if not self.apart:
            return self.pairing.of
        return {n: p for n, p in self.pairing.of.items() if n not in self.apart}

    def again(
        self, cone: Sequence[Node], patches: Mapping[Node, Any], *, nudge: bool = False,
        edge: tuple[Node, int, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Return the value of the last node of a cone, with some of its values replaced.

        patches: by node. edge: a node, the number of a leaf of its operands, and what it takes for
        the value of that. nudge: what comes into the cone differs in its last places.
        """
        inside = set(cone)
        values: dict[Node, Any] = {}
        for node in cone:
            if node in patches:
                values[node] = patches[node]
                continue
            if nudge:
                for operand in node.operand_nodes():
                    if operand not in inside and operand not in values:
                        values[operand] = nudged(self.value(operand))
            own = edge[1:] if edge is not None and edge[0] is node else None
            values[node] = self.computed(node, values, own)
        return values[cone[-1]]

    def again_with(self, cone: Sequence[Node], node: Node, value: Any) -> Any:
        values: dict[Node, Any] = {node: value}
        for n in cone:
            values[n] = self.computed(n, values)
        return values[cone[-1]]

    def other_value(self, node: Node) -> Any:
        """Return what the other region makes of a node, its partner's value notwithstanding."""
        return self.other[node] if node in self.other else self.computed(node)

    def users_with_partners(self, node: Node) -> list[Node]:
        """Return the nearest nodes that depend on a node and can be compared."""
        found: dict[Node, None] = {}
        seen, stack = {node}, [node]
        while stack:
            for user in stack.pop().users:
                partner = self.partner(user)
                if partner is not None and user.is_array and partner.is_array:
                    found[user] = None
                elif user not in seen and user.opcode not in CONTROL:
                    seen.add(user)
                    stack.append(user)
        return list(found)
