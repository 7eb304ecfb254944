"""Halo exchange: what devices need of a cut dimension, from the devices that have it.

    reach = Reach(axes, starts, counts, size)       # device c: elements from starts[c] on
    local = exchange(b, value, dim, reach, fill=0)  # the dimension has `size` elements there

Three ways, of which the one that sends least is taken:

- a frame: in coordinates in which each device's own shard begins at 0, the windows of all devices
  lie in one range. What it has of the neighbour at each distance arrives by one collective-permute;
  the frame is the concatenation, and a device's window a slice of it.
- messages (`messages.py`): each device sends to each other what that needs, as many at a time as
  have different senders and receivers.
- an all-gather along the dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder, resized
from hlo.spmd.halo.messages import deliver, messages_of, pairs_of, rounds_of, sent
from hlo.spmd.halo.slots import (
    Fill,
    by_device,
    cut_out,
    index_along,
    is_zero,
    padded,
    place_of,
    scalar_of,
    within,
)
from hlo.spmd.mesh import Axes
from hlo.spmd.value import Sharded
from hlo.values.types import S32


@dataclass(frozen=True)
class Reach:
    """Which elements of a dimension each device needs.

    Attributes:
        axes: the mesh axes that devices differ along; what follows is by the coordinate along them.
        starts: the first element, which may be outside of the dimension: int64[devices].
        counts: how many elements are needed: int64[devices].
        size: how many elements each device gets, at least as many as any needs; those behind what
            it needs are unspecified.
    """

    axes: Axes
    starts: np.ndarray
    counts: np.ndarray
    size: int

    def meets(self, size: int, periodic: bool = False) -> bool:
        """True when some device needs elements that are there."""
        low = self.starts if periodic else np.maximum(self.starts, 0)
        high = self.starts + self.counts
        return size > 0 and bool(np.any(low < (high if periodic else np.minimum(high, size))))


def exchange(
    b: SpmdBuilder,
    value: Sharded,
    dim: int,
    reach: Reach,
    fill: Fill | None = None,
    periodic: bool = False,
) -> Instruction:
    """Append what gives each device its elements of a dimension; returns an array of `reach.size`.

    value: cut along `reach.axes` in the dimension, or not cut. The shards may be larger than the
        dimension needs.
    fill: what needed elements outside of the dimension are; by default unspecified.
    periodic: elements outside of the dimension are those of its repetitions.
    """
    size = value.shape.dims[dim]
    shape = value.local.array_shape
    if reach.size == 0 or not reach.meets(size, periodic):
        outside = scalar_of(b, shape.element_type, 0 if fill is None else fill)
        return b.broadcast(outside, resized(shape, dim, reach.size))
    if not value.spec.dims[dim]:
        return _from_whole(b, value, dim, reach, fill, periodic)
    assert value.spec.dims[dim] == reach.axes, (value.spec, reach)
    shard = shape.dims[dim]
    count = len(reach.starts)
    gathered = (count - 1) * shard
    messages = messages_of(reach.starts, reach.counts, size, shard, periodic, gathered)
    if messages is not None:
        rounds = rounds_of(messages)
        # One all-gather, rather than as much by several exchanges.
        limit = gathered if len(rounds) <= 1 else gathered - 1
        if not periodic or size == shard * count:
            frame = _Frame(reach, size, shard, periodic)
            # What messages have exactly, frames have by a slice: of little more, or it is no gain.
            near = frame.extent <= (len(rounds) + 2) * reach.size
            if frame.sent <= limit and (frame.sent, not near) <= (sent(rounds), False):
                return frame.emit(b, value, dim, fill)
        if sent(rounds) <= limit:
            return deliver(b, value.local, dim, reach.axes, messages, reach.size, fill)
    local = cut_out(b, b.all_gather(value.local, dim, reach.axes), dim, 0, size)
    spec = value.spec.with_dim(dim, ())
    if spec.is_replicated:
        b.note(value, "devices need all of it")
    return _from_whole(b, Sharded(local, spec, value.shape), dim, reach, fill, periodic)


def _from_whole(
    b: SpmdBuilder, value: Sharded, dim: int, reach: Reach, fill: Fill | None, periodic: bool
) -> Instruction:
    """Append the windows of a dimension that each device has all of."""
    size = value.shape.dims[dim]
    local = cut_out(b, value.local, dim, 0, size)
    starts = np.where(reach.counts > 0, reach.starts, reach.starts[np.argmax(reach.counts > 0)])
    if periodic:
        starts = starts % size
        turns = -(-(int(starts.max()) + reach.size) // size)
        if turns > 1:
            local = b.op("concatenate", *[local] * turns, dimensions=(dim,))
            size *= turns
    low = max(0, -int(starts.min()))
    high = max(0, int(starts.max()) + reach.size - size)
    local = padded(b, local, dim, low, high, 0 if fill is None else fill)
    return cut_out(b, local, dim, by_device(b, reach.axes, starts + low), reach.size)


@dataclass
class _Hop:
    """What comes from the devices at one distance: elements `low` to `high` of their shards."""

    low: int
    high: int
    pairs: dict[int, int] = field(default_factory=dict)  # sender: receiver, by coordinate

    @property
    def size(self) -> int:
        return self.high - self.low


class _Frame:
    """Windows by the distance of their elements from the shard of the device that needs them.

    Attributes:
        offsets: where windows begin, by device, from the beginning of its own shard.
        extent: the size of the frame, which has them all.
        sent: how many elements each device sends along the dimension.
    """

    def __init__(self, reach: Reach, size: int, shard: int, periodic: bool) -> None:
        self.reach, self.size, self.shard, self.periodic = reach, size, shard, periodic
        need = reach.counts > 0
        offsets = reach.starts - np.arange(len(reach.starts)) * shard
        self.offsets = np.where(need, offsets, offsets[np.argmax(need)])
        self.extent = int(self.offsets.max() - self.offsets.min()) + reach.size
        self.hops: dict[int, _Hop] = {}
        count = len(reach.starts)
        for c, (start, need) in enumerate(
            zip(reach.starts.tolist(), reach.counts.tolist(), strict=True)
        ):
            end = start + need
            if not periodic:
                start, end = max(start, 0), min(end, size)
            for place in range(start // shard, -(-end // shard) if end > start else start // shard):
                low = max(start - place * shard, 0)
                high = min(end - place * shard, shard)
                hop = self.hops.setdefault(place - c, _Hop(low, high))
                hop.low, hop.high = min(hop.low, low), max(hop.high, high)
                hop.pairs[place % count] = c
        far = [h for h in sorted(self.hops) if not self._is_own(h)]
        self.rounds: list[list[int]] = []
        for h in sorted(far, key=lambda h: (-self.hops[h].size, h)):
            for together in self.rounds:
                if all(self._are_apart(h, other) for other in together):
                    together.append(h)
                    break
            else:
                self.rounds.append([h])
        self.sent = sum(max(self.hops[h].size for h in hops) for hops in self.rounds)

    def _is_own(self, hop: int) -> bool:
        return hop % len(self.reach.starts) == 0 if self.periodic else hop == 0

    def _are_apart(self, a: int, b: int) -> bool:
        one, other = self.hops[a].pairs, self.hops[b].pairs
        return not one.keys() & other.keys() and not set(one.values()) & set(other.values())

    def emit(self, b: SpmdBuilder, value: Sharded, dim: int, fill: Fill | None) -> Instruction:
        """Append the exchange, the frame, and the slice of it that is a device's window."""
        reach, shard, shape = self.reach, self.shard, value.local.array_shape
        pieces: dict[int, Instruction] = {}
        for h, hop in self.hops.items():
            if self._is_own(h):
                pieces[h] = cut_out(b, value.local, dim, hop.low, hop.size)
        for hops in self.rounds:
            self._exchange(b, value.local, dim, hops, pieces)
        if fill is not None and not self.periodic:
            for h in self.hops:
                self._fill(b, pieces, dim, h, fill)
        begin = int(self.offsets.min())
        end = begin + self.extent
        outside = 0 if fill is None else fill
        parts: list[Instruction] = []
        at = begin
        lead = 0
        for h in sorted(pieces):
            low = h * shard + self.hops[h].low
            gap = low - at
            if gap and not parts:
                lead = gap
            elif gap:
                filler = scalar_of(b, shape.element_type, outside)
                parts.append(b.broadcast(filler, resized(shape, dim, gap)))
            parts.append(pieces[h])
            at = low + self.hops[h].size
        frame = parts[0] if len(parts) == 1 else b.op("concatenate", *parts, dimensions=(dim,))
        frame = padded(b, frame, dim, lead, end - at, outside)
        return cut_out(b, frame, dim, by_device(b, reach.axes, self.offsets - begin), reach.size)

    def _fill(
        self, b: SpmdBuilder, pieces: dict[int, Instruction], dim: int, hop: int, fill: Fill
    ) -> None:
        """Append what makes needed elements of a piece `fill` where they are outside.

        Those in gaps of the frame are already, and zeros that come where nothing is sent.
        """
        count = len(self.reach.starts)
        at = hop * self.shard
        low, high = at + self.hops[hop].low, at + self.hops[hop].high
        zeros = is_zero(fill) and [hop] in self.rounds
        below = above = False
        for c, need in enumerate(self.reach.counts.tolist()):
            start = int(self.offsets[c])
            first, end = max(start, low), min(start + need, high)
            if first < end and not (zeros and not 0 <= c + hop < count):
                below = below or first < -c * self.shard
                above = above or end > self.size - c * self.shard
        if not below and not above:
            return
        piece = pieces[hop]
        shape = piece.array_shape
        owners = np.arange(count) + hop
        if self.size == count * self.shard:
            there = by_device(b, self.reach.axes, (owners >= 0) & (owners < count))
            one = b.compare(place_of(b, there), b.constant(S32, 0), "NE")
            inside = b.broadcast(one, shape)
        else:
            starts = owners * self.shard + self.hops[hop].low
            index = index_along(b, piece, dim, by_device(b, self.reach.axes, starts))
            inside = within(b, index, 0 if below else None, self.size if above else None)
        filled = b.broadcast(scalar_of(b, shape.element_type, fill), shape)
        pieces[hop] = b.op("select", inside, piece, filled, shape=shape)

    def _exchange(
        self,
        b: SpmdBuilder,
        local: Instruction,
        dim: int,
        hops: Sequence[int],
        pieces: dict[int, Instruction],
    ) -> None:
        """Append one collective-permute, which brings the pieces of distances."""
        longest = max(self.hops[h].size for h in hops)
        starts = np.zeros(len(self.reach.starts), np.int64)
        pairs = []
        begins = {h: min(self.hops[h].low, self.shard - longest) for h in hops}
        starts[:] = begins[hops[0]]
        for h in hops:
            for sender, receiver in self.hops[h].pairs.items():
                starts[sender] = begins[h]
                pairs.append((sender, receiver))
        axes = self.reach.axes
        sends = cut_out(b, local, dim, by_device(b, axes, starts), longest)
        arrived = b.permute(sends, pairs_of(b, axes, pairs))
        for h in hops:
            hop = self.hops[h]
            pieces[h] = cut_out(b, arrived, dim, hop.low - begins[h], hop.size)
