"""What propagation found, written into the module: a sharding for each instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType

from hlo.ir import Instruction, Module
from hlo.spmd.mesh import DeviceMesh, PartitionSpec
from hlo.spmd.propagation.annotations import (
    ANNOTATION,
    is_call_of,
    leaf_shapes,
    leaf_shardings,
)
from hlo.spmd.propagation.graph import GROUP, MARKS, running_computations
from hlo.spmd.propagation.state import Graph, Value
from hlo.values.sharding import Sharding, TupleSharding, WholeSharding
from hlo.values.types import TupleShape

Allow = Callable[[str, Instruction], bool]
"""Asked before each change, by the name of the rule and the instruction, whether to make it."""

_REPLICATED = WholeSharding("replicated")
_NOTES = "xla.sdy."


@dataclass
class PropagationResult:
    """The shardings that propagation gave to a module's instructions.

    Attributes:
        mesh: the devices, in whose axes shardings were propagated.
        origins: where the sharding of each instruction came from.
    """

    mesh: DeviceMesh
    origins: dict[Instruction, str] = field(default_factory=dict)


def write(module: Module, graph: Graph, allow: Allow) -> PropagationResult:
    """Annotate each instruction, and remove custom calls that are annotations only."""
    writer = _Writer(graph)
    result = PropagationResult(graph.mesh)
    marks = []
    for comp in running_computations(module):
        for inst in comp:
            sharding = writer.sharding(inst)
            if inst.annotations.get("sharding") != sharding:
                if not allow("sharding", inst):
                    continue
                inst.annotations["sharding"] = sharding
            result.origins[inst] = writer.origin(inst)
            _drop_notes(inst)
            if is_call_of(inst, GROUP, *MARKS):
                marks.append(inst)
    for inst in marks:
        if allow("annotation", inst):
            result.origins.pop(inst)
            _replace(inst, result.origins)
    return result


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[PartitionSpec, Sharding] = {}

    def sharding(self, inst: Instruction) -> Sharding:
        leaves = self.graph.leaves[inst]
        # What is no array keeps what it says: a device on which the instruction runs alone.
        said = inst.annotations.get("sharding", _REPLICATED)
        if not leaves:
            return said if isinstance(said, TupleSharding) else TupleSharding((said,))
        before = leaf_shardings(said, inst.shape)
        found = tuple(
            own if v is None and own else self._of(v) for v, own in zip(leaves, before, strict=True)
        )
        if inst.shape.is_tuple:
            return TupleSharding(found)
        return found[0]

    def _of(self, value: Value | None) -> Sharding:
        if value is None:
            return _REPLICATED
        if value.said is not None:
            return value.said
        spec = value.spec
        if spec not in self._known:
            self._known[spec] = self.graph.mesh.tiles(spec)
        return self._known[spec]

    def origin(self, inst: Instruction) -> str:
        found = dict.fromkeys(_origin(v) for v in self.graph.leaves[inst] if v is not None)
        return "; ".join(found) or "no array"


def _origin(value: Value) -> str:
    """Return where a value's sharding came from, by dimension where that differs."""
    cut = [d for d, axes in enumerate(value.dims) if axes]
    if not cut:
        said = [o for o in value.origins if o]
        return said[0] if said else "no sharding propagated here"
    if len({value.origins[d] for d in cut}) == 1:
        return value.origins[cut[0]]
    return ", ".join(f"dimension {d} {value.origins[d]}" for d in cut)


def _drop_notes(inst: Instruction) -> None:
    """Remove what only propagation reads."""
    notes = inst.annotations.get("frontend_attributes")
    if notes is None or not any(key.startswith(_NOTES) for key in notes):
        return
    kept = {k: v for k, v in notes.items() if not k.startswith(_NOTES)}
    if kept:
        inst.annotations["frontend_attributes"] = MappingProxyType(kept)
    else:
        del inst.annotations["frontend_attributes"]


def _replace(inst: Instruction, origins: dict[Instruction, str]) -> None:
    """Replace an annotation by its operand, or by a copy of it where that changes a sharding."""
    comp = inst.parent
    assert comp is not None
    if is_call_of(inst, GROUP):
        if inst.num_users == 0 and not inst.is_root:
            comp.remove(inst)
        return
    operand, sharding = inst.operands[0], inst.annotations["sharding"]
    new = operand
    has_edges = bool(inst.control_predecessors or inst.control_successors)
    if operand.annotations.get("sharding") != sharding or has_edges:
        new = _copy(operand, inst, sharding, origins)
        for before in list(inst.control_predecessors):
            new.add_control_predecessor(before)
        for after in list(inst.control_successors):
            after.add_control_predecessor(new)
    inst.replace_all_uses_with(new)
    comp.remove(inst)


def _copy(
    operand: Instruction, inst: Instruction, sharding: Sharding, origins: dict[Instruction, str]
) -> Instruction:
    comp = inst.parent
    assert comp is not None
    if not isinstance(inst.shape, TupleShape):
        new = comp.create("copy", inst.shape, [operand], like=inst)
    else:
        parts, at = [], 0
        before = leaf_shardings(operand.annotations["sharding"], operand.shape)
        for i, shape in enumerate(inst.shape.elements):
            part = comp.create("get-tuple-element", shape, [operand], {"index": i}, like=inst)
            count = len(leaf_shapes(shape))
            leaves = TupleSharding(tuple(before[at : at + count]) or (_REPLICATED,))
            part.annotations["sharding"] = leaves if shape.is_tuple else before[at]
            origins[part] = origins.get(operand, "")
            at += count
            parts.append(part)
        new = comp.create("tuple", inst.shape, parts, like=inst)
    new.annotations["sharding"] = sharding
    origins[new] = ANNOTATION
    return new
