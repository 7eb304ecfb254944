"""The `origin` annotations of two modules: which values of the unoptimized program they have.

XLA writes them: `{"call.1/add"}` is the result of `add` in the computation that `call.1` called.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo.debug.divergence.nodes import Node, Region
from hlo.frontends.text.origins import read_origins
from hlo.ir import Instruction, Module
from hlo.values.scan import Scanner

# The name of an instruction of the unoptimized program, with the calls before it, and an index path
# in its result.
Key = tuple[str, tuple[int, ...]]


class Origins:
    """Finds the node of a given region that a node of another one has the origin of.

    A module without annotations is itself the unoptimized program.
    """

    def __init__(self, given: Module, other: Module) -> None:
        self._is_annotated = _is_annotated(given)
        self._is_of_use = self._is_annotated or _is_annotated(other)
        self._others_are_annotated = _is_annotated(other)
        self._tables: dict[int, Mapping[Key, Node]] = {}

    def of(self, node: Node, given: Region) -> Node | None:
        """Return the node of the given region for one of another region, or None."""
        if not self._is_of_use:
            return None
        table = self._tables.get(id(given))
        if table is None:
            table = {}
            for n in given.nodes:
                key = _key(n, is_annotated=self._is_annotated)
                if key is not None:
                    table[key] = n
            self._tables[id(given)] = table
        key = _key(node, is_annotated=self._others_are_annotated)
        return None if key is None else table.get(key)


def _is_annotated(module: Module) -> bool:
    return any("origin" in inst.annotations for inst in module.instructions())


def _key(node: Node, *, is_annotated: bool) -> Key | None:
    """Return the origin of an array; None if it is not known."""
    if not node.is_array:
        return None
    place: tuple[int, ...] = ()
    if is_annotated:
        origin = _origin(node.inst)
        if origin is None:
            return None
        name, place = origin
    else:
        while node.opcode == "get-tuple-element" and isinstance(node.operands[0], Node):
            place = (node.inst.tuple_index, *place)
            node = node.operands[0]
        name = node.inst.name
    calls = [c for c in node.callers if c.opcode == "call"]
    prefix = [(_origin(c) or (c.name, ()))[0] if is_annotated else c.name for c in calls]
    return "/".join([*prefix, name]), place


def _origin(inst: Instruction) -> Key | None:
    """Return the annotation of an instruction of one array."""
    text = inst.annotations.get("origin")
    if text is None:
        return None
    leaves = read_origins(Scanner(text)).leaves
    if len(leaves) != 1 or leaves[0][0]:
        return None
    origin = leaves[0][1]
    return None if origin is None else (origin.instruction, origin.place)
