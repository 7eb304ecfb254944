"""Builds fusions from instructions of a computation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hlo.analysis.effects import Effects
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import Calls
from hlo.ops import Trait

_CONTRACTIONS = frozenset({"convolution", "dot"})
# Operations whose loops have more dimensions than their result.
_HEROES = _CONTRACTIONS | {"reduce", "reduce-window"}


def fusible_computations(module: Module) -> list[Computation]:
    """Return the entry, and the computations of its calls, loops and branches, callees first."""
    found = {module.entry}
    for comp in reversed(module.callees_first()):
        if comp in found:
            for inst in comp:
                if inst.spec.has(Trait.CONTROL_FLOW):
                    found.update(inst.called_computations)
    return [c for c in module.callees_first() if c in found]


def kind_of(body: Computation, outputs: Sequence[Instruction]) -> str:
    """Return the kind of a fusion, by its iteration space."""
    if any(o.opcode in _HEROES for o in outputs):
        return "kInput"
    return "kOutput" if any(i.opcode in _CONTRACTIONS for i in body) else "kLoop"


class FusionBuilder:
    """Replaces instructions of a computation by fusions, and preserves the order of the others.

    places: position of each instruction in the final order, stable for equal ones.
    """

    def __init__(self, comp: Computation, calls: Calls, effects: Effects) -> None:
        self._comp = comp
        self._calls = calls
        self._effects = effects
        self.places = {inst: n for n, inst in enumerate(comp.in_order())}

    def fuse(
        self,
        members: Iterable[Instruction],
        outputs: Sequence[Instruction],
        *,
        name: str = "fusion",
        body_name: str = "fused_computation",
        kind: str | None = None,
    ) -> Instruction:
        """Fuse some instructions, and remove those without users.

        members: its instructions; existing fusions are unpacked. outputs: the members whose values
        it returns, several as a tuple. Returns the fusion.
        """
        comp, root = self._comp, outputs[0]
        body = Computation(body_name, execution_thread=comp.execution_thread)
        order = sorted(members, key=self.places.__getitem__)
        operands, made = _fill(body, order)
        inner = [made[o] for o in outputs]
        if len(inner) == 1:
            body.set_root(inner[0])
        else:
            tuple_ = Instruction("tuple", "tuple", root.shape, inner)
            tuple_.shape = tuple_.spec.infer(tuple_)
            body.add(tuple_, root=True)
        attrs = {"kind": kind or kind_of(body, inner), "calls": body}
        fusion = comp.create("fusion", body.result_shape, operands, attrs, name=name, like=root)
        self._calls.added([fusion])
        self.places[fusion] = max(self.places[o] for o in outputs)
        self._replace(outputs, fusion)
        for inst in reversed(order):
            if self._effects.is_removable(inst):
                self._calls.remove(inst)
        return fusion

    def _replace(self, outputs: Sequence[Instruction], fusion: Instruction) -> None:
        for n, output in enumerate(outputs):
            new = fusion
            if len(outputs) > 1:
                attrs = {"index": n}
                new = self._comp.create(
                    "get-tuple-element", output.shape, [fusion], attrs, like=output
                )
                self.places[new] = self.places[fusion]
            if "sharding" in output.annotations:
                new.annotations["sharding"] = output.annotations["sharding"]
            output.replace_all_uses_with(new)

    def finish(self) -> None:
        """Move new instructions to the positions of those they replace."""
        self._comp.reorder(sorted(self._comp, key=self.places.__getitem__))


def _fill(
    body: Computation, members: Sequence[Instruction]
) -> tuple[list[Instruction], dict[Instruction, Instruction]]:
    """Append copies of instructions, and parameters for their inputs; returns the inputs."""
    operands: list[Instruction] = []
    made: dict[Instruction, Instruction] = {}
    inside = set(members)
    for inst in members:
        for operand in inst.operands:
            if operand not in inside and operand not in made:
                number = {"number": len(operands)}
                name = f"param_{len(operands)}"
                made[operand] = body.add(Instruction(name, "parameter", operand.shape, (), number))
                operands.append(operand)
    for inst in members:
        args = [made[o] for o in inst.operands]
        if inst.opcode == "fusion":
            made[inst] = _inlined(body, inst, args)
        else:
            made[inst] = body.add(inst.clone(args))
    return operands, made


def _inlined(body: Computation, fusion: Instruction, args: Sequence[Instruction]) -> Instruction:
    source: Computation = fusion.calls
    made = {p: args[n] for n, p in enumerate(source.parameters)}
    for inst in source.in_order():
        if inst not in made:
            made[inst] = body.add(inst.clone([made[o] for o in inst.operands]))
    return made[source.root]
