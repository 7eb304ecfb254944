"""A computation as a graph of values: calls and fusions seen through, tuples as their elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from hlo.errors import HloError
from hlo.ir import Computation, Instruction
from hlo.ops import Trait
from hlo.values.types import ArrayShape, Shape

# A node, or a tuple of these: what an operand is.
Tree = Union["Node", tuple["Tree", ...]]

# Calls of calls grow exponentially: what would come to more nodes stays a call.
_MOST_NODES = 400_000


class Node:
    """A value: an instruction, the instructions that call its computation, and its operands.

    callers: calls and fusions between the region and the instruction, the outermost first.
    number: the place among the nodes of the region, which is an order of execution.
    """

    __slots__ = ("callers", "inst", "number", "operands", "users")

    def __init__(
        self, inst: Instruction, operands: tuple[Tree, ...], callers: tuple[Instruction, ...]
    ) -> None:
        self.inst = inst
        self.operands = operands
        self.callers = callers
        self.number = -1
        self.users: list[Node] = []

    @property
    def shape(self) -> Shape:
        return self.inst.shape

    @property
    def is_array(self) -> bool:
        return isinstance(self.inst.shape, ArrayShape)

    @property
    def opcode(self) -> str:
        return self.inst.opcode

    @property
    def path(self) -> tuple[str, ...]:
        """The names of its callers and its own."""
        return (*(c.name for c in self.callers), self.inst.name)

    def operand_nodes(self) -> Iterator[Node]:
        """Yield the nodes in its operands, in order."""
        for tree in self.operands:
            yield from leaves(tree)

    def __repr__(self) -> str:
        return f"<Node {'/'.join(self.path)} = {self.opcode}>"


@dataclass
class Region:
    """The nodes of a computation in order, its parameters by number, and its result."""

    computation: Computation
    nodes: list[Node] = field(default_factory=list)
    parameters: list[Node] = field(default_factory=list)
    root: Tree = ()


def leaves(tree: Tree) -> Iterator[Node]:
    """Yield the nodes of a tree in order."""
    if isinstance(tree, Node):
        yield tree
    else:
        for part in tree:
            yield from leaves(part)


def flat(tree: Tree) -> Sequence[Node]:
    """Return the nodes of a tree in order."""
    return list(leaves(tree))


def evaluated(tree: Tree, value: Callable[[Node], Any]) -> Any:
    """Return the value of a tree, given that of a node."""
    if isinstance(tree, Node):
        return value(tree)
    return tuple(evaluated(part, value) for part in tree)


def region_of(computation: Computation) -> Region:
    """Return the nodes of a computation. Those without a use and an effect are among them."""
    region = Region(computation)
    sizes: dict[Computation, int] = {}

    def size(comp: Computation) -> int:
        found = sizes.get(comp)
        if found is None:
            sizes[comp] = _MOST_NODES  # for a cycle, which only an invalid module has
            found = len(comp) + sum(size(_callee(i)) for i in comp if _is_inlined(i))
            sizes[comp] = found
        return found

    def add(node: Node) -> Node:
        node.number = len(region.nodes)
        region.nodes.append(node)
        for operand in dict.fromkeys(node.operand_nodes()):
            operand.users.append(node)
        return node

    def expand(
        comp: Computation, arguments: Sequence[Tree] | None, callers: tuple[Instruction, ...]
    ) -> Tree:
        trees: dict[Instruction, Tree] = {}
        for inst in comp.in_order():
            operands = tuple(trees[o] for o in inst.operands)
            if inst.opcode == "parameter":
                if arguments is not None:
                    trees[inst] = arguments[inst.parameter_number]
                else:
                    trees[inst] = add(Node(inst, (), callers))
            elif inst.opcode == "tuple":
                trees[inst] = operands
            elif inst.opcode == "get-tuple-element" and isinstance(operands[0], tuple):
                trees[inst] = operands[0][inst.tuple_index]
            elif _is_inlined(inst) and size(_callee(inst)) + len(region.nodes) < _MOST_NODES:
                trees[inst] = expand(_callee(inst), operands, (*callers, inst))
            else:
                trees[inst] = add(Node(inst, operands, callers))
        return trees[comp.root]

    try:
        region.root = expand(computation, None, ())
    except RecursionError:
        raise HloError.at(
            "call-depth", f"{computation.name}: calls are nested too deep to be followed"
        ) from None
    region.parameters = [n for n in region.nodes if n.opcode == "parameter" and not n.callers]
    region.parameters.sort(key=lambda n: n.inst.parameter_number)
    return region


def _is_inlined(inst: Instruction) -> bool:
    return inst.opcode == "fusion" or (
        inst.spec.has(Trait.CALL) and inst.opcode == "call" and len(inst.called_computations) == 1
    )


def _callee(inst: Instruction) -> Computation:
    return inst.called_computations[0]


class Actions:
    """What instructions of two modules do to their operands: equal ones have equal keys.

    Neither names nor layouts count, but for a bitcast, which is about layouts.
    """

    def __init__(self) -> None:
        self._numbers: dict[Computation, int] = {}
        self._classes: dict[Any, int] = {}
        self._keys: dict[Instruction, int] = {}

    def key(self, inst: Instruction) -> int:
        """Return a number that instructions share which do the same."""
        found = self._keys.get(inst)
        if found is None:
            found = self._keys[inst] = self._class(self._describe(inst))
        return found

    def _describe(self, inst: Instruction) -> Any:
        from hlo.analysis.matching import comparable
        from hlo.values.types import without_layout

        shape: Any = without_layout(inst.shape)
        if inst.opcode == "bitcast":
            shape = (inst.shape, inst.operands[0].shape)
        attrs = tuple((k, self._attribute(v, comparable)) for k, v in inst.attrs.items())
        return inst.opcode, shape, attrs

    def _attribute(self, value: Any, comparable: Callable[[Any], Any]) -> Any:
        if isinstance(value, Computation):
            return "computation", self.number(value)
        if isinstance(value, tuple) and any(isinstance(v, Computation) for v in value):
            return tuple(self._attribute(v, comparable) for v in value)
        if isinstance(value, Mapping):
            return comparable(value)
        return comparable(value)

    def number(self, comp: Computation) -> int:
        """Return a number that computations share which compute the same in the same way."""
        found = self._numbers.get(comp)
        if found is None:
            local: dict[Instruction, int] = {}
            described = []
            for inst in comp.post_order():
                local[inst] = len(local)
                described.append((self.key(inst), tuple(local[o] for o in inst.operands)))
            found = self._numbers[comp] = self._class((tuple(described), local[comp.root]))
        return found

    def _class(self, described: Any) -> int:
        return self._classes.setdefault(described, len(self._classes))
