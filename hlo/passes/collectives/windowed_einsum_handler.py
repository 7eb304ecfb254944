"""Products whose operand is gathered, or whose result is scattered, in windows.

"Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning Models"
(ASPLOS 2023): a device multiplies the part that it has while the next one comes from its neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.cost import Cost, cost_of_instruction
from hlo.analysis.memory import shape_bytes
from hlo.analysis.network.costs import Network
from hlo.analysis.network.transfers import PERMUTE, Transfer, transfer_of
from hlo.analysis.patterns import single_binary_op
from hlo.analysis.simulation.machine import Machine
from hlo.ir import Instruction, Module
from hlo.ir.builder import Builder, build_computation
from hlo.ops.collective.device_groups import CROSS_PARTITION, CROSS_REPLICA, FLATTENED, group_mode
from hlo.passes.collectives._collective import groups_in, is_movable, next_channel, rounds
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import has_opcode, is_configured, replace_instruction, unfused
from hlo.values.types import S32, ArrayShape, Shape, TupleShape, array


@module_pass
def windowed_einsum_handler(
    module: Module,
    rewrites: Rewrites,
    *,
    flops: float = 100e12,
    memory_bandwidth: float = 2e12,
    network_bandwidth: float = 50e9,
    network_latency: float = 2e-6,
) -> None:
    """Turn products of gathered operands, and products that are reduce-scattered, into loops.

    Each iteration multiplies one part while a collective-permute brings the next, where that takes
    less time by the cost model: flops, memory_bandwidth: operations and bytes of memory per second;
    network_bandwidth, network_latency: bytes that a device sends per second, and seconds of a
    message. The bytes sent are the same.
    """
    if not has_opcode(module, ("all-gather", "reduce-scatter")):
        return
    machine, network = Machine(flops, memory_bandwidth), Network(network_bandwidth, network_latency)
    channel = next_channel(module)
    for comp in unfused(module):
        for inst in comp.in_order():
            found = _window_of(inst) if inst.parent is comp else None
            if found is None or not _wins(found, machine, network):
                continue
            approximate = rounds([found.dot])
            if not rewrites.allow(f"windowed_einsum_handler.{found.name}", inst,
                                  approximate=approximate):  # fmt: skip
                continue
            b = Builder(comp, found.replaced)
            make = _scattered if found.scatters else _gathered
            new = make(b, found, channel)
            channel += 1
            module.adopt(b.built)
            replace_instruction(found.replaced, new, b.built)
            for dead in found.dead:
                comp.remove(dead)


@dataclass(frozen=True)
class _Window:
    """A product, and the collective whose parts it is computed from, or which its parts go to.

    operand: the one that is gathered; the result is scattered otherwise. dims: where the factor
    along which it is has its dimension, in either operand and in the result, None if it has none.
    """

    dot: Instruction
    collective: Instruction
    operand: int | None
    dims: tuple[int | None, int | None, int | None]
    groups: Sequence[Sequence[int]]

    @property
    def scatters(self) -> bool:
        return self.operand is None

    @property
    def name(self) -> str:
        return "reduce_scatter" if self.scatters else "all_gather"

    @property
    def members(self) -> int:
        return len(self.groups[0])

    @property
    def replaced(self) -> Instruction:
        return self.collective if self.scatters else self.dot

    @property
    def dead(self) -> list[Instruction]:
        """What has no users any more, users first."""
        both = [self.dot, self.collective]
        return both[::-1] if self.scatters else both

    def part(self, which: int) -> ArrayShape:
        """Return the shape of a part of operand 0 or 1, or, for 2, of the result."""
        whole = self.dot.array_shape if which == 2 else self.dot.operands[which].array_shape
        dims, at = list(whole.dims), self.dims[which]
        if at is not None:
            dims[at] //= self.members
        return array(whole.element_type, dims)


def _window_of(inst: Instruction) -> _Window | None:
    if inst.opcode == "dot":
        for n, operand in enumerate(inst.operands):
            if operand.opcode == "all-gather":
                found = _window(inst, operand, n)
                if found is not None:
                    return found
    elif inst.opcode == "reduce-scatter" and inst.operands[0].opcode == "dot":
        if single_binary_op(inst.to_apply) == "add":
            return _window(inst.operands[0], inst, None)
    return None


def _window(dot: Instruction, collective: Instruction, operand: int | None) -> _Window | None:
    first, second = (dot, collective) if operand is None else (collective, dot)
    if first.num_users != 1 or first.is_root or not is_movable(collective):
        return None
    if has_control_edges(second) or has_control_edges(first) or is_configured(dot):
        return None
    if dot.shape.is_dynamic or any(s.is_dynamic for s in dot.operand_shapes):
        return None
    if not _ids(collective):
        return None
    (dim,), groups = collective.dimensions, groups_in(collective)
    rule = dot.spec.factors(dot)
    arrays = (*rule.operands, *rule.results)
    ours = arrays[2 if operand is None else operand][dim]
    if len(ours) != 1 or len({len(g) for g in groups}) != 1 or len(groups[0]) < 2:
        return None
    if collective.array_shape.dims[dim] % len(groups[0]) and operand is not None:
        return None
    at = [next((d for d, f in enumerate(a) if ours[0] in f), None) for a in arrays]
    return _Window(dot, collective, operand, (at[0], at[1], at[2]), groups)


def _ids(collective: Instruction) -> str | None:
    """Return the opcode of the id that groups are of; None for groups of both kinds."""
    assert collective.parent is not None and collective.parent.module is not None
    replicas, partitions = collective.parent.module.device_counts
    mode = group_mode(collective)
    if mode == CROSS_REPLICA or (mode == FLATTENED and partitions == 1):
        return "replica-id"
    if mode == CROSS_PARTITION or (mode == FLATTENED and replicas == 1):
        return "partition-id"
    return None


def _wins(window: _Window, machine: Machine, network: Network) -> bool:
    """True if the loop takes less time than the collective and the product one after the other."""
    n, dot = window.members, window.dot
    transfer = transfer_of(window.collective, _counts(window))
    assert transfer is not None
    before = network.seconds(network.fastest(transfer)) + machine.seconds(cost_of_instruction(dot))
    parts = [shape_bytes(window.part(which)) for which in range(3)]
    # What is added up, or put into its place, is read and written besides.
    moved = sum(parts) + (2 * parts[2] if window.scatters or window.dims[2] is None else parts[2])
    step = machine.seconds(Cost(cost_of_instruction(dot).operations // n, 0, moved))
    sent = parts[2] if window.operand is None else parts[window.operand]
    permute = network.seconds(network.fastest(Transfer(PERMUTE, 2, sent, sent)))
    return (n - 1) * max(step, permute) + step < before


def _counts(window: _Window) -> tuple[int, int]:
    module = window.dot.parent.module if window.dot.parent is not None else None
    assert module is not None
    return module.device_counts


# --- loops --------------------------------------------------------------------------------------

# Takes a builder, the number of the part, and arrays; returns what it computes.
_Step = Callable[..., list[Instruction]]


def _gathered(b: Builder, window: _Window, channel: int) -> Instruction:
    """Append the loop of a product whose operand is gathered.

    A device begins with its own part; then comes that of the next member of its group.
    """
    which = window.operand
    assert which is not None
    other = window.dot.operands[1 - which]
    adds = window.dims[2] is None

    def step(c: Builder, number: Instruction, mine: Instruction, rest: Instruction,
             total: Instruction) -> Instruction:  # fmt: skip
        factor = _sliced(c, rest, window.dims[1 - which], number, window.part(1 - which))
        operands = (mine, factor) if which == 0 else (factor, mine)
        part = _product(c, window, *operands)
        if adds:
            return c.op("add", total, part)
        starts = _starts(c, window.dims[2], number, window.part(2))
        return c.op("dynamic-update-slice", total, part, *starts)

    def body(c: Builder, number: Instruction, mine: Instruction, rest: Instruction,
             total: Instruction) -> list[Instruction]:  # fmt: skip
        coming = _permuted(c, window, mine, channel)
        return [coming, rest, step(c, number, mine, rest, total)]

    shape = window.dot.array_shape
    zeros = b.filled(shape.element_type, shape.dims, -0.0 if shape.element_type.is_float else 0)
    place = _place(b, window)
    begin = [window.collective.operands[0], other, zeros]
    mine, rest, total = _loop(b, window.members - 1, place, begin, body, window)
    last = _part_number(b, place, b.constant(S32, window.members - 1), window.members)
    return step(b, last, mine, rest, total)


def _scattered(b: Builder, window: _Window, channel: int) -> Instruction:
    """Append the loop of a product whose result is reduced and scattered.

    A sum goes from member to member, each of which adds its product, until it is where it belongs.
    """
    lhs, rhs = window.dot.operands

    def part(c: Builder, number: Instruction, x: Instruction, y: Instruction) -> Instruction:
        cut = [
            _sliced(c, value, window.dims[n], number, window.part(n))
            for n, value in enumerate((x, y))
        ]
        return _product(c, window, *cut)

    def body(c: Builder, number: Instruction, sums: Instruction, x: Instruction,
             y: Instruction) -> list[Instruction]:  # fmt: skip
        coming = _permuted(c, window, sums, channel)
        return [c.op("add", coming, part(c, number, x, y)), x, y]

    place = _place(b, window)
    # The next member's part goes around the longest way.
    after = _part_number(b, place, b.constant(S32, 1), window.members)
    first = part(b, after, lhs, rhs)
    sums, *_ = _loop(b, window.members - 1, after, [first, lhs, rhs], body, window, first=1)
    return sums


def _loop(
    b: Builder, count: int, place: Instruction, begin: Sequence[Instruction], body: _Step,
    window: _Window, first: int = 0,
) -> list[Instruction]:  # fmt: skip
    """Append a loop over arrays; returns what they are at the end.

    body: returns the next arrays, from the number of the part that is due: place + first in the
    first iteration, and one more in each that follows.
    """
    index = array(S32, ())
    state = TupleShape((index, index, *(_plain(value.shape) for value in begin)))

    def run(c: Builder, given: Instruction) -> Instruction:
        i, at, *arrays = (c.element(given, n) for n in range(len(state.elements)))
        due = i if not first else c.op("add", i, c.constant(S32, first))
        number = _part_number(c, at, due, window.members)
        following = c.op("add", i, c.constant(S32, 1))
        return c.tuple(following, at, *body(c, number, *arrays))

    def test(c: Builder, given: Instruction) -> Instruction:
        return c.compare(c.element(given, 0), c.constant(S32, count), "LT")

    like = window.replaced
    init = b.tuple(b.constant(S32, 0), place, *(b.relaid(v, _plain(v.shape)) for v in begin))
    loop = b.op(
        "while", init, shape=state,
        condition=build_computation("windowed_test", [state], test, like),
        body=build_computation("windowed_body", [state], run, like),
    )  # fmt: skip
    return [b.element(loop, n) for n in range(2, len(state.elements))]


def _plain(shape: Shape) -> ArrayShape:
    """Return a shape in the default layout."""
    assert isinstance(shape, ArrayShape)
    return array(shape.element_type, shape.dims)


def _place(b: Builder, window: _Window) -> Instruction:
    """Append the place of this device in its group: s32[]."""
    opcode = _ids(window.collective)
    assert opcode is not None
    replicas, partitions = _counts(window)
    places = [0] * (replicas if opcode == "replica-id" else partitions)
    for group in window.groups:
        for n, device in enumerate(group):
            places[device] = n
    entry = b.op("dynamic-slice", b.constant(S32, places), b.op(opcode), dynamic_slice_sizes=(1,))
    return b.reshape(entry, ())


def _part_number(b: Builder, place: Instruction, more: Instruction, members: int) -> Instruction:
    """Append (place + more) mod members."""
    return b.op("remainder", b.op("add", place, more), b.constant(S32, members))


def _permuted(b: Builder, window: _Window, value: Instruction, channel: int) -> Instruction:
    """Append what the next member of the group has."""
    pairs = tuple(
        (device, group[n - 1]) for group in window.groups for n, device in enumerate(group)
    )
    attrs: dict[str, Any] = {"source_target_pairs": pairs}
    if _ids(window.collective) == "partition-id":
        attrs["channel_id"] = channel
    return b.op(PERMUTE, value, **attrs)


def _sliced(
    b: Builder, value: Instruction, dim: int | None, number: Instruction, part: ArrayShape
) -> Instruction:
    """Append a part of an operand along a dimension; all of it where there is none."""
    if dim is None:
        return value
    starts = _starts(b, dim, number, part)
    return b.op("dynamic-slice", value, *starts, shape=part, dynamic_slice_sizes=part.dims)


def _starts(
    b: Builder, dim: int | None, number: Instruction, part: ArrayShape
) -> list[Instruction]:
    assert dim is not None
    zero = b.constant(S32, 0)
    offset = b.op("multiply", number, b.constant(S32, part.dims[dim]))
    return [offset if d == dim else zero for d in range(part.rank)]


def _product(b: Builder, window: _Window, lhs: Instruction, rhs: Instruction) -> Instruction:
    """Append the product of parts, in the type and with the annotations of the whole."""
    dot = window.dot
    cut = window.part(2)
    new = b.op("dot", lhs, rhs, shape=cut, **dot.attrs)
    notes = {k: v for k, v in dot.annotations.items() if k not in ("metadata", "sharding")}
    new.annotations.update(notes)
    return new
