"""Scatter: a thread an element of the updates, where the order of updates is kept.

A *unit* is a part of the updates that goes to one *destination*: no two destinations have elements
in common. Units are all elements of a window along dimensions in which windows may overlap.

Where units have different destinations, or the function gives the same result in any order, all
updates are combined at once. Else the numbers of units are sorted by destination, and a thread
combines what goes to one element of the result, in the order of updates. If that may be many, and
the function is associative, chunks of sorted units are combined before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hlo.analysis.fusion.roles import Role
from hlo.analysis.patterns import single_binary_op
from hlo.codegen.kernels.reduce.combiner import Combiner, element_type
from hlo.codegen.kernels.update.scatter import Scatter, window_starts
from hlo.codegen.kernels.variables import Variable, chosen
from hlo.codegen.llvm import Index, Val, i64
from hlo.codegen.loops.address import physical_index
from hlo.codegen.loops.inline import inline
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.codegen.targets.gpu.kernels.held import Held
from hlo.codegen.targets.gpu.kernels.sort.records import Record, Records, Rows, Sorting
from hlo.codegen.targets.gpu.kernels.sort.sort import plan_rows
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order

_THREADS = 256
# Units of a chunk, of which so many make a larger one, and levels of these.
_CHUNK, _MOST_LEVELS = 64, 2
# Destinations and units are numbers of 32 bits.
_MOST = 1 << 32
# LLVM's names of what memory does at once, for integers: signed, unsigned.
_ATOMIC = {
    "add": ("add", "add"), "and": ("and", "and"), "or": ("or", "or"), "xor": ("xor", "xor"),
    "maximum": ("max", "umax"), "minimum": ("min", "umin"),
}  # fmt: skip


@dataclass(frozen=True)
class _Units(Scatter):
    """The units of a scatter, and their destinations."""

    @cached_property
    def spread(self) -> list[int]:
        """The dimensions of the operand in which windows may overlap without being the same."""
        return [d for d in self.select.index_map if self.size(d) > 1]

    @cached_property
    def inner(self) -> list[int]:
        """The dimensions of a unit's elements, in the order of memory."""
        return [d for d in loop_order(self.results[0]) if d in self.window and d not in self.spread]

    @cached_property
    def sizes(self) -> list[int]:
        """What units are counted along: batch dimensions, and those in which windows overlap."""
        return [self.update_dims[d] for d in self.batch] + [self.size(d) for d in self.spread]

    @property
    def units(self) -> int:
        return math.prod(self.sizes)

    @cached_property
    def inner_sizes(self) -> list[int]:
        return [self.size(d) for d in self.inner]

    @cached_property
    def chosen(self) -> list[int]:
        """The dimensions of the operand that tell destinations apart."""
        return sorted({*self.select.index_map, *self.batching})

    @property
    def destinations(self) -> int:
        return math.prod(self.dims[d] for d in self.chosen)

    @property
    def are_distinct(self) -> bool:
        """True when no two units have the same destination."""
        shared = set(self.batching.values())
        free = math.prod(self.update_dims[d] for d in self.batch if d not in shared)
        return free == 1 or bool(self.inst.unique_indices)

    @property
    def overwrites(self) -> bool:
        """True when the result of the function is the update."""
        comp = self.inst.to_apply
        root = comp.root
        roots = root.operands if root.opcode == "tuple" else (root,)
        wanted = comp.parameters[self.count :]
        return len(roots) == len(wanted) and all(r is p for r, p in zip(roots, wanted, strict=True))

    @cached_property
    def atomic(self) -> str | None:
        """LLVM's name of the function, if memory does it at once and order does not matter."""
        et = self.results[0].element_type
        opcode = single_binary_op(self.inst.to_apply) if self.count == 1 else None
        if opcode not in _ATOMIC or not et.is_integer or et.bits not in (32, 64):
            return None
        if element_type(self.updates[0]) is not et:
            return None
        return _ATOMIC[opcode][0 if et.is_signed else 1]

    @cached_property
    def levels(self) -> int:
        """How many levels of chunks of units are combined, so that no thread combines many."""
        known = Combiner.of(self.inst.to_apply)
        if self.overwrites or known.known is None or known.held != known.parameters[:1]:
            return 0
        return sum(self.units > _CHUNK ** (level + 1) for level in range(_MOST_LEVELS))

    def chunks(self, level: int) -> int:
        return -(-self.units // _CHUNK**level)

    @property
    def inner_count(self) -> int:
        return math.prod(self.inner_sizes)

    @property
    def element_bytes(self) -> int:
        return self.results[0].element_type.byte_width


def plan_scatter(inst: Instruction, _: Mapping[Instruction, Role], gpu: Gpu) -> Plan | None:
    """Plan a scatter."""
    s = _Units(inst)
    if not math.prod(s.update_dims) or not math.prod(s.dims):
        return Plan(())
    if s.are_distinct or s.atomic is not None:
        return Plan((_combine_units,))
    if s.destinations >= _MOST or s.units >= _MOST // 2:
        return None
    plan = plan_rows(inst, _Destinations(), gpu)
    partial = [_CombineChunks(level) for level in range(1, s.levels + 1)]
    sizes = [s.chunks(step.level) * s.inner_count * s.element_bytes for step in partial]
    memory = (*plan.scratch_bytes, *reversed(sizes), 8 * s.units)
    return Plan((*plan.steps, *partial, _combine_sorted), memory)


def _unit(
    k: Kernel, s: _Units, number: Index
) -> tuple[dict[int, Index], dict[int, Index], dict[int, Index], Val]:
    """Return a unit's place: in the batch, and along spread dimensions; where the window begins by
    dimension of the operand, and whether all of it is in bounds."""
    found = split_index(k.b, number, s.sizes) if s.sizes else []
    batch = dict(zip(s.batch, found, strict=False))
    spread = dict(zip(s.spread, found[len(s.batch) :], strict=True))
    starts, inside = window_starts(k, s, batch)
    return batch, spread, starts, inside


def _update(
    k: Kernel, s: _Units, batch: Mapping[int, Index], within: Mapping[int, Index]
) -> list[Value]:
    """Return the elements of the updates at a place in a window."""
    place = dict(batch) | {at: within.get(d, 0) for d, at in s.window.items()}
    at = tuple(place[d] for d in range(len(s.update_dims)))
    return [k.elements.at(u, at) for u in s.updates]


def _target(
    k: Kernel, s: _Units, starts: Mapping[int, Index], within: Mapping[int, Index]
) -> tuple[Index, ...]:
    """Return the indices of an element of the result."""
    return tuple(k.b.add(starts.get(d, 0), within.get(d, 0)) for d in range(len(s.dims)))


def _old(k: Kernel, s: _Units, target: tuple[Index, ...]) -> list[Value]:
    """Return the elements of the results before."""
    found: list[Value] = []
    for n, shape in enumerate(s.results):
        at = physical_index(k.b, shape, target)
        found.append(scalar.load(k.b, shape.element_type, k.outputs[n], at))
    return found


def _elements(k: Kernel, s: _Units, units: int) -> tuple[Index, Val, dict[int, Index], Grid]:
    """Return for a thread its number of a unit, whether there is one, and its place in that."""
    assert isinstance(k.target, Gpu)
    b, count = k.b, units * s.inner_count
    threads = min(_THREADS, -(-count // 32) * 32)
    at = Block(b, k.target).global_index(threads)
    unit, *place = split_index(b, at, [units, *s.inner_sizes])
    within = dict(zip(s.inner, place, strict=True))
    grid = Grid(count, 1.0, -(-count // threads), threads)
    return unit, b.compare("slt", at, count), within, grid


def _combine_units(k: Kernel) -> Grid:
    """Combine every element of the updates with the one it goes to."""
    s, b = _Units(k.inst), k.b
    b.is_careful = True
    unit, is_there, within, grid = _elements(k, s, s.units)
    with b.when(is_there):
        batch, spread, starts, inside = _unit(k, s, unit)
        with b.when(inside):
            within |= spread
            target, new = _target(k, s, starts, within), _update(k, s, batch, within)
            if s.are_distinct:
                _store(k, target, inline(b, k.inst.to_apply, [*_old(k, s, target), *new]))
            else:
                assert s.atomic is not None and isinstance(k.target, Gpu)
                (value,) = new
                assert isinstance(value, Val)
                at = physical_index(b, s.results[0], target)
                address = b.element_address(k.outputs[0], value.type, at)
                b.atomic_update(s.atomic, value, address, k.target.device_scope)
    return grid


def _store(k: Kernel, target: tuple[Index, ...], values: list[Value]) -> None:
    for n, value in enumerate(values):
        k.store(value, target, n)


# --- updates in the order of their destinations -------------------------------------------------


@dataclass(frozen=True)
class _Destinations(Sorting):
    """Units by their destinations, those out of bounds last: records of both numbers."""

    def rows(self, inst: Instruction) -> Rows:
        return Rows(1, _Units(inst).units, ("i64",))

    def records(self, k: Kernel) -> Records:
        return _DestinationRecords(k)

    def key_bits(self, inst: Instruction) -> int:
        return _Units(inst).destinations.bit_length()


class _DestinationRecords(Records):
    """A record has the destination in its high half, the unit in its low half.

    Sorted ones go to the last array of scratch memory.
    """

    def __init__(self, k: Kernel) -> None:
        self._k, self._b, self._s = k, k.b, _Units(k.inst)

    def read(self, row: Index, position: Index) -> list[Val]:
        b, s = self._b, self._s
        _, spread, starts, inside = _unit(self._k, s, position)
        destination: Index = 0
        for d in s.chosen:
            at = b.add(starts[d], spread.get(d, 0))
            destination = b.add(b.mul(destination, s.dims[d]), at)
        known = chosen(b, inside, destination, s.destinations)
        return [b.binary("or", b.binary("shl", i64(known), 32), i64(position))]

    def less(self, x: Record, y: Record) -> Val:
        return self._b.icmp("ult", x[0], y[0])

    def write(self, row: Index, position: Index, record: Record) -> None:
        self._b.store(record[0], self._b.element_address(self._k.scratch[-1], "i64", position))

    def digit(self, record: Record, shift: Index) -> Index:
        b = self._b
        word = b.binary("lshr", record[0], i64(b.add(shift, 32)))
        return b.binary("and", word, 255).name


class _Sorted:
    """Emission of what is done with sorted records, for one place in units."""

    def __init__(self, k: Kernel, s: _Units, within: Mapping[int, Index]) -> None:
        self.k, self.s, self.b, self.within = k, s, k.b, within

    def _record(self, at: Index) -> Val:
        return self.b.load("i64", self.b.element_address(self.k.scratch[-1], "i64", at))

    def destination(self, at: Index) -> Val:
        """Return the destination at a position in the order."""
        return self.b.binary("lshr", self._record(at), 32)

    def unit(self, at: Index) -> Index:
        """Return the number of the unit at a position in the order."""
        return self.b.binary("and", self._record(at), _MOST - 1).name

    def update(self, at: Index) -> list[Value]:
        """Return the elements of the updates at a position in the order."""
        batch, spread, _, _ = _unit(self.k, self.s, self.unit(at))
        return _update(self.k, self.s, batch, {**self.within, **spread})

    def target(self, at: Index) -> tuple[Index, ...]:
        """Return where the elements at a position in the order go."""
        _, spread, starts, _ = _unit(self.k, self.s, self.unit(at))
        return _target(self.k, self.s, starts, {**self.within, **spread})

    def partial(self, level: int, chunk: Index) -> tuple[str, Index]:
        """Return the array of the combined elements of chunks, and the place there."""
        at = chunk
        for d, size in zip(self.s.inner, self.s.inner_sizes, strict=True):
            at = self.b.add(self.b.mul(at, size), self.within[d])
        return self.k.scratch[-1 - level], at

    def item(self, level: int, at: Index) -> list[Value]:
        """Return the elements of a unit, or what those of a chunk combine to."""
        if not level:
            return self.update(at)
        base, place = self.partial(level, self.b.udiv(at, _CHUNK**level))
        return [scalar.load(self.b, self.s.results[0].element_type, base, place)]

    def fold(self, level: int, at: Variable, end: Index, mine: Val, held: Held) -> None:
        """Combine units, or chunks of a level, up to a position, while they have a destination."""
        b = self.b

        def goes_on() -> Val:
            here = at.get()
            same = b.icmp("eq", self.destination(b.minimum(here, self.s.units - 1)), mine)
            return b.both(b.compare("slt", here, end), same)

        with b.repeat(goes_on):
            values = [*held.get(), *self.item(level, at.get())]
            held.set(inline(b, self.k.inst.to_apply, values))
            at.add(_CHUNK**level)


@dataclass(frozen=True)
class _CombineChunks:
    """Combine the units of every chunk that go on with the destination of the chunk before."""

    level: int

    def __call__(self, k: Kernel) -> Grid:
        s, b = _Units(k.inst), k.b
        b.is_careful = True
        chunk, is_there, within, grid = _elements(k, s, s.chunks(self.level))
        order = _Sorted(k, s, within)
        first = b.mul(chunk, _CHUNK**self.level)
        with b.when(is_there):
            mine = order.destination(first)
            before = order.destination(b.maximum(b.sub(first, 1), 0))
            goes_on = b.both(b.icmp("eq", before, mine), b.compare("sgt", chunk, 0))
            with b.when(b.both(goes_on, b.icmp("ult", mine, s.destinations))):
                step = _CHUNK ** (self.level - 1)
                held = Held(b, order.item(self.level - 1, first))
                at = Variable(b, b.add(first, step))
                end = b.minimum(b.add(first, step * _CHUNK), s.units)
                order.fold(self.level - 1, at, end, mine, held)
                base, place = order.partial(self.level, chunk)
                (value,) = held.get()
                scalar.store(b, s.results[0].element_type, value, base, place)
        return grid


def _combine_sorted(k: Kernel) -> Grid:
    """Combine what goes to one destination: the thread of the first unit that does, all in order.

    Where updates overwrite, it is the thread of the last one.
    """
    s, b = _Units(k.inst), k.b
    b.is_careful = True
    at, is_there, within, grid = _elements(k, s, s.units)
    order = _Sorted(k, s, within)
    with b.when(is_there):
        mine = order.destination(at)
        if s.overwrites:
            near, end = b.minimum(b.add(at, 1), s.units - 1), s.units - 1
        else:
            near, end = b.maximum(b.sub(at, 1), 0), 0
        is_apart = b.icmp("ne", order.destination(near), mine)
        is_chosen = b.binary("or", is_apart, b.compare("eq", at, end))
        with b.when(b.both(is_chosen, b.icmp("ult", mine, s.destinations))):
            target = order.target(at)
            if s.overwrites:
                _store(k, target, order.update(at))
            else:
                _store(k, target, _combined_run(order, target, at, mine))
    return grid


def _combined_run(
    order: _Sorted, target: tuple[Index, ...], first: Index, mine: Val
) -> list[Value]:
    """Return what an element combines to with all that goes there, from a position on."""
    b, s = order.b, order.s
    at, held = Variable(b, first), Held(b, _old(order.k, s, target))
    for level in range(s.levels + 1):
        end: Index = s.units
        if level < s.levels:
            # Up to where a chunk of the next level begins, behind the first unit.
            size = _CHUNK ** (level + 1)
            end = b.minimum(b.mul(b.add(b.udiv(at.get(), size), 1), size), s.units)
        order.fold(level, at, end, mine, held)
    return held.get()


PLANNERS = {"scatter": plan_scatter}
