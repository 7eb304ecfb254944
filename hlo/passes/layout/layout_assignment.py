"""Layout assignment with few copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo.analysis.congruence import has_control_edges
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ir.calls import applied_computations
from hlo.ops import Category, Trait
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.values.layout.bitcasts import is_order, layout_of
from hlo.values.types import (
    HOST_MEMORY_SPACE,
    ArrayShape,
    Layout,
    Shape,
    TupleShape,
    with_layouts_of,
)

_MAX_ROUNDS = 5
_RULE = "layout_assignment.assign"
Order = tuple[int, ...]

# They may access host memory while they run on the device.
_CROSSING = frozenset({"dynamic-slice", "dynamic-update-slice"})
# They have the layouts of their operands.
_FOLLOWING = frozenset({"get-tuple-element", "tuple", "opt-barrier"})
# Their computations determine operand and result layouts. All results have to agree.
_CALLING = Trait.CALL | Trait.CONTROL_FLOW
# Materialized in whatever layouts their users need, once for each.
_FLEXIBLE = frozenset({"broadcast", "iota"})
# Their kernels read strided operands, but write row-major results.
_ROWS = frozenset("dot ragged-dot scaled-dot reshape dynamic-reshape gather".split())
# Their kernels need row-major operands and results.
_ROWS_ONLY = frozenset("convolution sort fft cholesky triangular-solve scatter".split())


@module_pass
def layout_assignment(module: Module, rewrites: Rewrites) -> None:
    """Choose the order of dimensions of each value, with copies where layouts conflict.

    Parameters and results have the layouts of the header; operands of computations, custom calls
    and the host keep their layouts, and so does everything with tiles, packed elements or a memory
    space. Contractions, convolutions and sorts are row-major; layouts propagate through other
    operations from operands and users, and transposes become bitcasts where possible.
    """
    signatures = _signatures(module)
    # Functions of elements have no arrays.
    left_out = _wrapped(module).union(applied_computations(module))
    for comp in module.computations:
        if comp in left_out:
            continue
        for _ in range(_MAX_ROUNDS):
            # After copies are inserted, another order may be better between them.
            plan = _Assignment(comp, signatures)
            if not plan.changes() or not rewrites.allow(_RULE, comp.root):
                break
            plan.apply()
            comp.sort()


Signature = tuple[Sequence[Shape], Shape]


def _signatures(module: Module) -> dict[Computation, Signature]:
    """Return the layouts of the parameters and results of computations.

    The entry's are the header's. A loop's state keeps its layouts, and all branches of a
    conditional have the same. If callers differ, the first one decides.
    """
    found: dict[Computation, Signature] = {module.entry: module.program_shapes}
    for inst in module.instructions():
        if inst.opcode == "while":
            body, test = inst.body, inst.condition
            found.setdefault(body, ([inst.shape], inst.shape))
            found.setdefault(test, (found[body][0], test.result_shape))
        elif inst.opcode == "conditional":
            for branch in inst.called_computations:
                found.setdefault(branch, (branch.parameter_shapes, inst.shape))
    for comp in _wrapped(module):
        for callee in comp.root.called_computations:
            found.setdefault(callee, (comp.root.operand_shapes, comp.root.shape))
    for comp in module.computations:
        found.setdefault(comp, (comp.parameter_shapes, comp.result_shape))
    return found


def _wrapped(module: Module) -> set[Computation]:
    """Return the computations of asynchronous operations, which contain a single operation."""
    starts = (i for i in module.instructions() if i.spec.category is Category.ASYNC)
    return {callee for start in starts for callee in start.called_computations}


class _Assignment:
    """The shapes assigned to the values of a computation."""

    def __init__(self, comp: Computation, signatures: Mapping[Computation, Signature]) -> None:
        self._comp = comp
        self._signatures = signatures
        self._order = comp.in_order()
        parameters, self._result = signatures[comp]
        self._shapes: dict[Instruction, Shape] = {}
        self._wanted: dict[Instruction, Order] = {}
        for inst in reversed(self._order):
            self._want_operands(inst)
        for inst in self._order:
            if inst.opcode == "parameter":
                self._shapes[inst] = parameters[inst.parameter_number]
            else:
                self._shapes[inst] = self._shape(inst)
        for inst in self._order:
            if _is_flexible(inst):
                self._shapes[inst] = self._as_used(inst)

    # --- preferences of users -------------------------------------------------------------------

    def _want_operands(self, inst: Instruction) -> None:
        """Record the preferred order of an instruction's operands; later ones override."""
        if inst.is_root and _is_plain(self._result):
            assert isinstance(self._result, ArrayShape)
            self._wanted[inst] = _order_of(self._result)
        for operand in inst.operands:
            if not _is_plain(operand.shape):
                continue
            want = self._want(inst, operand.array_shape)
            if want is not None:
                self._wanted[operand] = want

    def _want(self, inst: Instruction, operand: ArrayShape) -> Order | None:
        if _is_pinned(inst):
            return (
                None if inst.opcode in _FOLLOWING or inst.opcode == "copy" else _order_of(operand)
            )
        if inst.opcode in _ROWS_ONLY:
            return _order_of(operand.with_layout(Layout.default(operand.rank)))
        want = self._wanted.get(inst)
        if want is None:
            return None
        if inst.opcode == "transpose":
            return tuple(inst.dimensions[d] for d in want)
        if _keeps(inst) and len(want) == operand.rank:
            return want
        return None

    # --- assignment -----------------------------------------------------------------------------

    def _shape(self, inst: Instruction) -> Shape:
        shape = inst.shape
        if inst.spec.has(_CALLING):
            return self._signatures[inst.called_computations[-1]][1]
        if inst.opcode == "get-tuple-element":
            whole = self._shapes[inst.operands[0]]
            return whole.elements[inst.tuple_index] if isinstance(whole, TupleShape) else shape
        if inst.opcode == "tuple":
            return TupleShape(tuple(self._shapes[o] for o in inst.operands))
        if inst.opcode in _FOLLOWING:
            return self._shapes[inst.operands[0]]
        if self._crosses(inst):
            assert isinstance(shape, ArrayShape)
            source = self._shapes[inst.operands[0]]
            assert isinstance(source, ArrayShape)
            reads = inst.opcode == "dynamic-slice"
            return shape.with_layout(_placed(source, shape) if reads else source.layout)
        if inst.opcode in ("copy-start", "copy-done"):
            return self._in_flight(inst)
        if _is_pinned(inst) or not isinstance(shape, ArrayShape):
            return shape
        return shape.with_layout(Layout(self._chosen(inst, shape)))

    def _crosses(self, inst: Instruction) -> bool:
        """True for operations that access host memory, and do not change the layout."""
        if inst.opcode not in _CROSSING:
            return False
        source = self._shapes[inst.operands[0]]
        # An array that corresponds to a split one may have no elements.
        return _in_host_memory(source) and not layout_of(source).splits  # type: ignore[arg-type]

    def _in_flight(self, inst: Instruction) -> Shape:
        """Return the shape of a copy's start or done, which changes only the memory space."""
        source, shape = self._shapes[inst.operands[0]], inst.shape
        if inst.opcode == "copy-done":
            return source.at((0,))
        target, *rest = shape.elements if isinstance(shape, TupleShape) else ()
        if not isinstance(source, ArrayShape) or not isinstance(target, ArrayShape):
            return shape
        return TupleShape((target.with_layout(_placed(source, target)), source, *rest[1:]))

    def _chosen(self, inst: Instruction, shape: ArrayShape) -> Order:
        opcode = inst.opcode
        rows = Layout.default(shape.rank).minor_to_major
        if opcode in _ROWS or opcode in _ROWS_ONLY:
            return rows
        if opcode in _FLEXIBLE or opcode == "constant":
            return self._wanted.get(inst, _order_of(shape))
        if opcode == "reduce":
            return self._reduced(inst)
        if opcode == "transpose":
            return self._transposed(inst)
        return self._kept(inst, shape)

    def _as_used(self, inst: Instruction) -> Shape:
        """Return the shape in which a user reads a value that may have any layout."""
        needed = [
            self._needed(user, n)
            for user in inst.users
            for n, operand in enumerate(user.operands)
            if operand is inst
        ]
        have = self._shapes[inst]
        return have if have in needed or not needed else needed[0]

    def _reduced(self, inst: Instruction) -> Order:
        """Return the order without some dimensions."""
        gone = set(inst.dimensions)
        left = [d for d in range(len(self._order_of(inst.operands[0]))) if d not in gone]
        number = {d: n for n, d in enumerate(left)}
        return tuple(number[d] for d in self._order_of(inst.operands[0]) if d in number)

    def _transposed(self, inst: Instruction) -> Order:
        """Return the order for which nothing moves, or that of users, if a copy is needed
        anyway."""
        place = {d: n for n, d in enumerate(inst.dimensions)}
        free = tuple(place[d] for d in self._order_of(inst.operands[0]))
        return self._wanted.get(inst, free)

    def _kept(self, inst: Instruction, shape: ArrayShape) -> Order:
        """Return the order for which the fewest bytes of operands and result are copied."""
        votes: dict[Order, int] = {}
        for operand in dict.fromkeys(inst.operands):
            if _rank(operand) == shape.rank and not _is_flexible(operand):
                votes[self._order_of(operand)] = votes.get(self._order_of(operand), 0) + _size(
                    operand
                )
        want = self._wanted.get(inst)
        if want is not None:
            votes[want] = votes.get(want, 0) + _size(inst)
        if not votes:
            return _order_of(shape)
        most = max(votes.values())
        best = [order for order, votes_ in votes.items() if votes_ == most]
        # Of equals the current one, so that a second run changes nothing.
        return _order_of(shape) if _order_of(shape) in best else best[0]

    def _order_of(self, inst: Instruction) -> Order:
        shape = self._shapes[inst]
        assert isinstance(shape, ArrayShape)
        return _order_of(shape)

    # --- the module -----------------------------------------------------------------------------

    def _needed(self, inst: Instruction, at: int) -> Shape:
        """Return the shape in which an instruction reads an operand."""
        operand = inst.operands[at]
        have = self._shapes[operand]
        if inst.spec.has(_CALLING):
            return self._taken(inst, at, have)
        constraints = inst.operand_layout_constraints
        if constraints:
            return with_layouts_of(have, constraints[at])
        if inst.opcode in _FOLLOWING or inst.opcode in ("copy-start", "copy-done"):
            return have
        if inst.opcode == "copy":
            return self._copied(inst, have)
        if self._crosses(inst):
            return self._crossed(inst, at, have)
        if _is_pinned(inst):
            return operand.shape
        assert isinstance(have, ArrayShape)
        if inst.opcode in _ROWS_ONLY:
            return have.with_layout(Layout.default(have.rank))
        shape = self._shapes[inst]
        if _keeps(inst) and isinstance(shape, ArrayShape) and shape.rank == have.rank:
            return have.with_layout(Layout(_order_of(shape)))
        return have

    def _crossed(self, inst: Instruction, at: int, have: Shape) -> Shape:
        """Return the shape in which an operation that accesses host memory reads an operand."""
        if at == 0:
            return have
        if at == 1 and inst.opcode == "dynamic-update-slice":
            assert isinstance(have, ArrayShape)
            return have.with_layout(_placed(self._shapes[inst], have))
        return inst.operands[at].shape

    def _copied(self, inst: Instruction, have: Shape) -> Shape:
        """Return the shape in which a copy reads its operand: unchanged out of host memory."""
        shape = self._shapes[inst]
        if not (_in_host_memory(have) and not _in_host_memory(shape)):
            return have
        assert isinstance(have, ArrayShape) and isinstance(shape, ArrayShape)
        arrived = have.with_layout(_placed(have, shape))
        return have if arrived == shape else arrived

    def _taken(self, inst: Instruction, at: int, have: Shape) -> Shape:
        """Return the shape in which a computation expects an operand of its caller."""
        if inst.opcode == "conditional":
            if at == 0:
                return have
            return self._signatures[inst.called_computations[at - 1]][0][0]
        return self._signatures[inst.called_computations[-1]][0][at]

    def _copies(self) -> list[tuple[Instruction, int, Shape]]:
        """Return the operands that need a copy to another shape."""
        return [
            (inst, n, self._needed(inst, n))
            for inst in self._order
            for n, operand in enumerate(inst.operands)
            if self._needed(inst, n) != self._shapes[operand]
        ]

    def changes(self) -> bool:
        return (
            any(inst.shape != shape for inst, shape in self._shapes.items())
            or self._shapes[self._comp.root] != self._result
            or bool(self._copies())
        )

    def apply(self) -> None:
        copies, root = self._copies(), self._comp.root
        for inst, shape in self._shapes.items():
            inst.shape = shape
        made: dict[tuple[Instruction, Shape], Instruction] = {}
        for inst, n, shape in copies:
            key = inst.operands[n], shape
            if key not in made:
                made[key] = self._in_shape(*key)
            inst.replace_operand(n, made[key])
        if root.shape != self._result:
            self._comp.set_root(Builder(self._comp, root).relaid(root, self._result))
        for value in {value: None for value, _ in made} | {root: None}:
            if value.opcode in _FOLLOWING and not value.num_users and not value.is_root:
                if not has_control_edges(value):
                    self._comp.remove(value)

    def _in_shape(self, value: Instruction, shape: Shape) -> Instruction:
        """Append a value in other layouts: a copy, or a clone with that layout."""
        b = Builder(self._comp, value)
        if _is_flexible(value):
            made = b.copy(value, value.operands)
            made.shape = shape
            return made
        return b.relaid(value, shape)


def _is_pinned(inst: Instruction) -> bool:
    """True for instructions whose operand and result layouts are fixed."""
    shapes = (inst.shape, *inst.operand_shapes)
    if not all(isinstance(s, ArrayShape) for s in shapes):
        return True
    known = _FLEXIBLE | _ROWS | _ROWS_ONLY | {"constant", "reduce", "transpose"}
    return not (inst.opcode in known or _keeps(inst))


def _placed(shape: Shape, where: ArrayShape) -> Layout:
    """Return the layout of an array in the memory space of another."""
    assert isinstance(shape, ArrayShape)
    return replace(layout_of(shape), memory_space=layout_of(where).memory_space)


def _in_host_memory(shape: Shape) -> bool:
    return (
        isinstance(shape, ArrayShape)
        and shape.layout is not None
        and shape.layout.memory_space == HOST_MEMORY_SPACE
    )


def _is_flexible(inst: Instruction) -> bool:
    return inst.opcode in _FLEXIBLE and not _is_pinned(inst)


def _keeps(inst: Instruction) -> bool:
    """True for what gives the order of dimensions that it gets, whichever it is."""
    keeps = inst.spec.has(Trait.KEEPS_LAYOUT | Trait.ELEMENTWISE)
    return keeps and inst.opcode not in _ROWS_ONLY


def _is_plain(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and is_order(shape)


def _order_of(shape: ArrayShape) -> Order:
    return (shape.layout or Layout.default(shape.rank)).minor_to_major


def _rank(inst: Instruction) -> int:
    return inst.shape.rank if isinstance(inst.shape, ArrayShape) else -1


def _size(inst: Instruction) -> int:
    return inst.array_shape.byte_size
