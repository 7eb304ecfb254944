"""Loops that go element by element: each thread runs all turns for an element of its own.

The arrays that such a loop changes have equal dimensions, and a turn computes each element of
theirs from the elements of the same place: an iteration for each pixel, a binary search for each
key. It takes one launch instead of one a turn, and the elements stay in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hlo.analysis.fusion.operations import MAX_INSTRUCTIONS, is_multi_output, is_on_demand
from hlo.analysis.fusion.roles import Role
from hlo.analysis.trips import counted
from hlo.codegen.entry.commands import Loop
from hlo.codegen.entry.state import store_scalar
from hlo.codegen.launches.scalars import ScalarWriter, Stored
from hlo.codegen.launches.state import LaunchState, alignment
from hlo.codegen.llvm import Builder
from hlo.codegen.loops.address import Indices, load, store
from hlo.codegen.loops.element import ElementEmitter
from hlo.codegen.loops.kernel import indices_of
from hlo.codegen.plan.liveness import Liveness, Path, array_leaves
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.gpu.base import Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.held import Held
from hlo.errors import HloError
from hlo.gpu.plan import Place
from hlo.gpu.work import Work
from hlo.ir import Instruction
from hlo.values.layout.plain import is_plain, loop_order, minor_to_major, size_bytes
from hlo.values.types import ArrayShape

# Operations that one thread does in a row at the most, and all threads together: milliseconds.
_MOST_IN_A_ROW, _MOST_OPERATIONS = 1 << 16, 1 << 34
_THREADS = 256


class NotByElement(HloError):
    """A turn reads other elements of what it changes than its own."""


@dataclass(frozen=True)
class ElementLoop:
    """A loop that goes element by element.

    shape: of the elements. trips: how often the body runs. changed: the arrays of its state that it
    changes, and numbers: the scalars, with their shapes. values: what the body makes of both.
    roles: of the body's instructions, all of which are computed at an index. cost: of a turn.
    """

    inst: Instruction
    shape: ArrayShape
    trips: int
    changed: Mapping[Path, ArrayShape]
    numbers: Mapping[Path, ArrayShape]
    values: Mapping[Path, Instruction]
    roles: Mapping[Instruction, Role]
    cost: float

    @property
    def parameter(self) -> Instruction:
        """What the body is a function of."""
        return self.inst.body.parameters[0]


def element_loop(w: LaunchState, inst: Instruction) -> ElementLoop | None:
    """Return how a loop goes element by element, None if it does not."""
    counter, body = counted(inst), inst.body
    if counter is None or not counter.count or body.root.opcode != "tuple":
        return None
    (parameter,) = body.parameters
    leaves = dict(array_leaves(inst))
    kept = {path for path in leaves if w.live.of(body.root, path) == (parameter, path)}
    changed = {p: s for p, s in leaves.items() if s.dims and p not in kept}
    numbers = {p: s for p, s in leaves.items() if not s.dims}
    shapes = [*changed.values()]
    if not shapes or any(not is_plain(s) or _loops(s) != _loops(shapes[0]) for s in shapes):
        return None
    walk = _Walk(w.live)
    values = {path: computed_by(w.live, body.root, path) for path in (*changed, *numbers)}
    for path, value in values.items():
        shape = value.shape.at(w.live.of(body.root, path)[1]) if value is parameter else value.shape
        if not isinstance(shape, ArrayShape) or _loops(shape) != _loops(leaves[path]):
            return None
        if not walk.adds(value):
            return None
    cost = sum(node.spec.cost for node in walk.nodes) + 1
    each = cost * counter.count
    if each > _MOST_IN_A_ROW or each * shapes[0].num_elements > _MOST_OPERATIONS:
        return None
    roles = {**w.live.roles, **dict.fromkeys(walk.nodes, Role.FUSED)}
    return ElementLoop(inst, shapes[0], counter.count, changed, numbers, values, roles, cost)


def _loops(shape: ArrayShape) -> object:
    return shape.dims, minor_to_major(shape), bool(shape.num_elements), shape.is_dynamic


class _Walk:
    """What the values of a loop's body are computed from.

    nodes: what each thread computes, instructions that can be computed at any index.
    """

    def __init__(self, live: Liveness) -> None:
        self._live = live
        self.nodes: set[Instruction] = set()

    def adds(self, value: Instruction) -> bool:
        """Add what a value is computed from; False if some of it is not at any index."""
        stack = [value]
        while stack:
            node = stack.pop()
            if node in self.nodes or node.opcode == "parameter":
                continue
            if node.opcode == "constant":
                if not node.shape.is_tuple and not node.array_shape.dims:
                    self.nodes.add(node)
                continue
            if not is_on_demand(node) or not is_plain(node.shape):
                return False
            self.nodes.add(node)
            if len(self.nodes) > MAX_INSTRUCTIONS:
                return False
            stack += [computed_by(self._live, operand, ()) for operand in node.operands]
        return True


def computed_by(live: Liveness, inst: Instruction, path: Path) -> Instruction:
    """Return the instruction that computes a leaf, the parameter if that is where it is from."""
    if not path and is_on_demand(inst):
        return inst
    found, rest = live.of(inst, path)
    return found.operands[rest[0]] if is_multi_output(found) else found


class _Elements:
    """Emission of one thread's turns."""

    def __init__(self, w: LaunchState, loop: ElementLoop, b: Builder, at: Indices) -> None:
        self._w, self._loop, self._b, self._at = w, loop, b, at
        self.names: dict[Place, str] = {}
        self.writer = ScalarWriter(b, w.live, self.pointer)

    def pointer(self, place: Place) -> str:
        """Return the address of a place."""
        return self.names.setdefault(place, f"%p{len(self.names)}")

    def turns(self, start: Mapping[Path, Value]) -> dict[Path, Value]:
        """Write the turns; returns the state after them."""
        loop, paths = self._loop, [*self._loop.values]
        held = Held(self._b, [start[path] for path in paths])
        with self._b.loop(0, loop.trips, plain=True):
            state = dict(zip(paths, held.get(), strict=True))
            held.set(self._turn(state))
        return dict(zip(paths, held.get(), strict=True))

    def _turn(self, state: Mapping[Path, Value]) -> list[Value]:
        """Return the state after a turn."""
        w, loop = self._w, self._loop

        def read(leaf: Instruction, indices: Indices) -> Value:
            inst, path = w.live.of(leaf, ())
            if is_multi_output(inst):
                return elements.at(inst.operands[path[0]], indices)
            if inst is loop.parameter and path in state:
                if indices and indices != self._at:
                    raise NotByElement.at("unsupported", f"{leaf.name} is read at another index")
                return state[path]
            place = w.leaf_place(leaf)
            if place is None:
                return self.writer.value(w.scalar(leaf))
            return load(self._b, leaf.array_shape, self.pointer(place), indices)

        elements = ElementEmitter(self._b, loop.roles, read)
        found: list[Value] = []
        for path, value in loop.values.items():
            if value is not loop.parameter:
                found.append(elements.at(value, self._at if value.array_shape.dims else ()))
                continue
            source = w.live.of(loop.inst.body.root, path)[1]
            if source not in state:
                raise NotByElement.at("unsupported", f"{loop.inst.name} takes over an array")
            found.append(state[source])
        return found


def write_element_loop(w: LaunchState, loop: Loop) -> bool:
    """Write a loop as one launch if it goes element by element; returns whether it does."""
    found = element_loop(w, loop.inst)
    if found is None or not found.shape.num_elements:
        return False
    inst, shape, (init,) = loop.inst, found.shape, loop.inst.operands
    order = loop_order(shape)
    threads = min(_THREADS, -(-shape.num_elements // w.gpu.lanes) * w.gpu.lanes)
    b = Builder(w.module)
    b.is_careful = True
    at = Block(b, w.gpu).global_index(threads)
    kept = {path: Stored(w.slot_of(inst, path, leaf), leaf) for path, leaf in found.numbers.items()}
    targets = {path: _place(w, inst, path) for path in found.changed}
    sources = _sources(w, loop, targets)
    try:
        with b.when(b.compare("slt", at, shape.num_elements)):
            indices = indices_of(b, shape, [order], [at]) if order else (0,) * shape.rank
            own = _Elements(w, found, b, indices)
            start = {path: own.writer.value(w.scalar(init, path)) for path in found.numbers}
            for path, leaf in found.changed.items():
                start[path] = load(b, leaf, own.pointer(sources[path]), indices)
            after = own.turns(start)
            for path, leaf in found.changed.items():
                store(b, leaf, after[path], own.pointer(targets[path]), indices)
            with b.when(b.compare("eq", at, 0)):
                for path, slot in kept.items():
                    store_scalar(b, slot.shape, after[path], own.pointer(slot.place))
    except NotByElement:
        return False
    b.ret()
    w.flush()
    if [*sources.values()] == [*targets.values()]:
        w.moves(loop.enter)
    parameters = [f"ptr align {alignment(p)} {name}" for p, name in own.names.items()]
    grid = Grid(shape.num_elements, 1.0, -(-shape.num_elements // threads), threads)
    w.launch("loop", b, parameters, tuple(own.names), grid, inst, _work(w, found))
    for path, slot in kept.items():
        w.scalars[inst, path] = slot
    return True


def _place(w: LaunchState, inst: Instruction, path: Path) -> Place:
    found = w.leaf_place(inst, path)
    assert found is not None
    return found


def _work(w: LaunchState, loop: ElementLoop) -> Work:
    """Return what a loop takes: each array is read once, and what changes is written once."""
    arrays = [leaf for _, leaf in array_leaves(loop.inst) if leaf.dims]
    size = sum(map(size_bytes, [*arrays, *loop.changed.values()]))
    rounds = loop.trips if len(arrays) > len(loop.changed) else 1
    return replace(w.work.of(loop.inst), global_bytes=size, rounds=rounds)


def _sources(w: LaunchState, loop: Loop, targets: Mapping[Path, Place]) -> dict[Path, Place]:
    """Return where the elements are before the loop.

    That is where they will be, after copies, unless a thread may read them from where they are.
    """
    copied = {w.place(move.target): w.place(move.source) for move in loop.enter}
    if not copied.keys().isdisjoint(copied.values()) or not copied.keys() <= {*targets.values()}:
        return dict(targets)
    return {path: copied.get(place, place) for path, place in targets.items()}
