"""Several collectives as one with several operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

from hlo.analysis.congruence import Congruence
from hlo.analysis.memory import shape_bytes
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.passes.collectives._collective import is_movable
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import has_opcode, unfused
from hlo.values.types import ArrayShape, TupleShape, array

# Kinds of collectives are processed one at a time: combining changes the order that the others
# depend on, so each takes a walk over the computation.
_MOST_WALKS = 64

Key = Callable[[Instruction, Congruence], Hashable]
# Dimensions swapped by a transpose, which is its own inverse.
Order = tuple[int, ...]


def combine_collectives(
    module: Module,
    rewrites: Rewrites,
    name: str,
    opcode: str,
    key: Key,
    *,
    threshold_bytes: int,
    threshold_count: int,
    in_loops: bool = True,
) -> None:
    """Make one collective of those of an opcode that have equal keys and do not need each other.

    name: of the rewrite. threshold_bytes, threshold_count: maximum bytes and number of results of
    a combined one. in_loops: also in bodies of loops. Operands gathered or scattered along
    different dimensions are transposed, if their keys are equal.
    """
    if not has_opcode(module, (opcode,)):
        return
    congruence = Congruence()
    bodies = {i.body for i in module.instructions() if i.opcode == "while"}
    for comp in unfused(module):
        if comp in bodies and not in_loops:
            continue
        keys = {
            inst: key(inst, congruence)
            for inst in comp
            if inst.opcode == opcode
            and is_movable(inst)
            and shape_bytes(inst.shape) <= threshold_bytes
        }
        for chosen in _walks(keys):
            groups = _independent(comp, {i: k for i, k in keys.items() if k in chosen})
            for group in groups:
                for some in _chunks(group, threshold_bytes, threshold_count):
                    if len(some) > 1 and rewrites.allow(name, some[0]):
                        _merge(comp, some)


def _walks(keys: Mapping[Instruction, Hashable]) -> Iterator[Collection[Hashable]]:
    """Yield sets of keys to look at together, those of one instruction alone left out."""
    members: dict[Hashable, int] = {}
    for k in keys.values():
        members[k] = members.get(k, 0) + 1
    shared = [k for k, count in members.items() if count > 1]
    for k in shared[:_MOST_WALKS]:
        yield {k}
    if len(shared) > _MOST_WALKS:
        yield set(shared[_MOST_WALKS:])


def _independent(
    comp: Computation, keys: Mapping[Instruction, Hashable]
) -> list[list[Instruction]]:
    """Return candidates by key, separating those that depend on each other.

    Each has a number: how many candidates are on the longest path to it. What is on a path from one
    to another has a greater number than the first, so that merging equal numbers makes no cycle.
    """
    number: dict[Instruction, int] = {}
    found: dict[tuple[Hashable, int], list[Instruction]] = {}
    for inst in comp.in_order():
        before = max((number[p] for p in inst.predecessors()), default=0)
        if inst in keys:
            found.setdefault((keys[inst], before), []).append(inst)
            before += 1
        number[inst] = before
    return list(found.values())


def _chunks(
    group: Sequence[Instruction], most_bytes: int, most: int
) -> Iterator[Sequence[Instruction]]:
    chunk: list[Instruction] = []
    size = 0
    for inst in group:
        bytes_ = shape_bytes(inst.shape)
        if chunk and (size + bytes_ > most_bytes or len(chunk) >= most):
            yield chunk
            chunk, size = [], 0
        chunk.append(inst)
        size += bytes_
    yield chunk


def _merge(comp: Computation, some: Sequence[Instruction]) -> None:
    first = some[0]
    b = Builder(comp, first)
    attrs = dict(first.attrs)
    orders: list[Order | None] = [None] * len(some)
    if "dimensions" in attrs:
        attrs["dimensions"], orders = _along_one_dimension(some)
    operands = [_turned(b, i.operands[0], order) for i, order in zip(some, orders, strict=True)]
    shapes = [
        i.array_shape if order is None else _turned_shape(i.array_shape, order, o.array_shape)
        for i, order, o in zip(some, orders, operands, strict=True)
    ]
    new = b.op(first.opcode, *operands, shape=TupleShape(tuple(shapes)), **attrs)
    new.annotations.update({k: v for k, v in first.annotations.items() if k != "metadata"})
    for n, (inst, order) in enumerate(zip(some, orders, strict=True)):
        own = Builder(comp, inst)
        value = _turned(own, own.element(new, n), order)
        inst.replace_all_uses_with(own.relaid(value, inst.shape))
        comp.remove(inst)


def _along_one_dimension(
    some: Sequence[Instruction],
) -> tuple[tuple[int, ...], list[Order | None]]:
    """Return the dimension that most are gathered or scattered along, and how others get there."""
    least = min(i.array_shape.rank for i in some)
    named = Counter(i.dimensions[0] for i in some)
    common = max((d for d in named if d < least), key=named.__getitem__, default=0)
    orders: list[Order | None] = []
    for inst in some:
        own, order = inst.dimensions[0], list(range(inst.array_shape.rank))
        order[own], order[common] = common, own
        orders.append(None if own == common else tuple(order))
    return (common,), orders


def _turned(b: Builder, value: Instruction, order: Order | None) -> Instruction:
    return value if order is None else b.op("transpose", value, dimensions=order)


def _turned_shape(shape: ArrayShape, order: Order, operand: ArrayShape) -> ArrayShape:
    """Return the shape of a result in other dimensions, in the layout of its operand."""
    turned = array(shape.element_type, [shape.dims[d] for d in order])
    return turned.with_layout(operand.layout)
