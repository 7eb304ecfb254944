"""Arrays of dynamic size as arrays at their bounds and sizes."""

from __future__ import annotations

from collections.abc import Iterator

from hlo.expansions.dynamic import (
    SIZED_CALLS,
    Sized,
    SizedDraft,
    Value,
    may_be_dynamic,
    need_bounds,
    static,
    whole,
)
from hlo.ir import Computation, Instruction, Module
from hlo.ops.movement.dimension_sizes import SIZE_OPS
from hlo.passes.expand._inline import inline, rounds
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.types import S32, ArrayShape, Shape, TupleShape, array

_FROM, _TO = SIZED_CALLS


@module_pass
def dynamic_padder(module: Module, rewrites: Rewrites) -> None:
    """Pad dynamic arrays to their bounds, with separate scalars for their sizes.

    What an operation would see of the padding is covered first. Only parameters and results of the
    entry stay dynamic, through the custom calls PadToStatic and SliceToDynamic. Sums of floats
    differ by their order. Raises HloError (`unsupported`) for what has no bound or no static form.
    """
    entry = module.entry
    if not may_be_dynamic(entry) or _is_padded(entry) or _has_control_edges(entry):
        return
    expanded = _expanded(entry)
    approximate = any(rounds(i) for i in module.instructions())
    if expanded is None or not rewrites.allow(
        "dynamic_padder.pad", entry.root, approximate=approximate
    ):
        return
    before = set(_reached(entry))
    old = [i for i in reversed(entry.in_order()) if i.opcode != "parameter"]
    root = inline(entry, entry.root, expanded, _numbered(entry))
    entry.set_root(root)
    for inst in old:
        entry.remove(inst)
    for comp in before - set(_reached(entry)):
        module.remove(comp)


def _reached(comp: Computation) -> Iterator[Computation]:
    """Yield a computation and all that run in it."""
    stack, seen = [comp], {comp}
    while stack:
        top = stack.pop()
        yield top
        new = [c for i in top for c in i.called_computations if c not in seen]
        seen.update(new)
        stack.extend(dict.fromkeys(new))


def _has_control_edges(entry: Computation) -> bool:
    return any(i.control_predecessors for comp in _reached(entry) for i in comp)


def _is_padded(entry: Computation) -> bool:
    """True where only parameters and results are dynamic, and calls make the change."""
    return all(
        not any(map(may_be_dynamic, inst.called_computations)) and _is_edge(inst) for inst in entry
    )


def _is_edge(inst: Instruction) -> bool:
    target = inst.custom_call_target if inst.opcode == "custom-call" else None
    if target == _FROM:
        return inst.operands[0].opcode in ("parameter", "get-tuple-element")
    if inst.opcode in SIZE_OPS:
        return False
    if static(inst.shape) == inst.shape:
        return True
    if target == _TO or inst.opcode == "tuple":
        return all(user.opcode == "tuple" for user in inst.users)
    if inst.opcode not in ("parameter", "get-tuple-element"):
        return False
    return all(
        user.opcode == "get-tuple-element"
        or (user.opcode == "custom-call" and user.custom_call_target == _FROM)
        for user in inst.users
    )


def _expanded(entry: Computation) -> Computation | None:
    """Return the entry with its body in static arrays, None where results would look otherwise."""
    d = _Padded(entry.root)
    made = [d.parameter(n, p.shape, p.name) for n, p in enumerate(_numbered(entry))]
    result = d.run(entry, [d.taken(p) for p in made])
    root = d.given(result, entry.root.shape)
    return None if root is None else d.done(root)


def _numbered(entry: Computation) -> list[Instruction]:
    return sorted(entry.parameters, key=lambda p: p.parameter_number)


class _Padded(SizedDraft):
    """A computation whose parameters and results are dynamic, and nothing else."""

    def taken(self, inst: Instruction) -> Value:
        """Append what makes a parameter an array at its bounds, and sizes."""
        shape = inst.shape
        if static(shape) == shape:
            return whole(self, inst)
        if isinstance(shape, TupleShape):
            return tuple(self.taken(self.element(inst, n)) for n in range(len(shape.elements)))
        assert isinstance(shape, ArrayShape)
        need_bounds(inst)
        parts = TupleShape((static(shape), *(array(S32, ()) for _ in shape.dims)))
        call = self.op("custom-call", inst, shape=parts, custom_call_target=_FROM)
        sizes = tuple(
            self.element(call, 1 + n) if shape.dynamic[n] else bound
            for n, bound in enumerate(shape.dims)
        )
        return Sized(self.element(call, 0), sizes)

    def given(self, value: Value, shape: Shape) -> Instruction | None:
        """Append what makes a value one of a shape, None where other dimensions vary."""
        if isinstance(shape, TupleShape):
            parts = [self.given(v, s) for v, s in zip(value, shape.elements, strict=True)]
            some = [p for p in parts if p is not None]
            return self.tuple(*some) if len(some) == len(parts) else None
        if not isinstance(value, Sized):
            return value if isinstance(value, Instruction) else None
        assert isinstance(shape, ArrayShape)
        if any(value.is_varying(n) and not shape.is_dynamic_dim(n) for n in range(shape.rank)):
            return None
        data = self.relaid(value.data, static(shape))
        if not shape.is_dynamic:
            return data
        sizes = [self.size(n) for n in value.sizes]
        return self.op("custom-call", data, *sizes, shape=shape, custom_call_target=_TO)
