"""Elements of a dimension from device to device, in as few rounds as can be.

A round is one collective-permute: each device sends to one at most, and receives from one at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder, resized
from hlo.spmd.halo.slots import (
    Fill,
    by_device,
    cut_out,
    index_along,
    is_zero,
    padded,
    scalar_of,
    within,
)
from hlo.spmd.mesh import Axes


@dataclass(frozen=True, slots=True)
class Message:
    """Elements that one device needs of another, or of itself.

    Attributes:
        sender, receiver: coordinates along the axes.
        offset: of the first element in the sender's array.
        size: how many elements.
        place: of the first element at the receiver.
    """

    sender: int
    receiver: int
    offset: int
    size: int
    place: int


@dataclass
class Round:
    """Messages of different senders to different receivers.

    size: of the longest.
    """

    size: int
    by_sender: dict[int, Message] = field(default_factory=dict)
    by_receiver: dict[int, Message] = field(default_factory=dict)

    def takes(self, message: Message) -> bool:
        return message.sender not in self.by_sender and message.receiver not in self.by_receiver

    def add(self, message: Message) -> None:
        self.size = max(self.size, message.size)
        self.by_sender[message.sender] = message
        self.by_receiver[message.receiver] = message

    def begins(self, length: int) -> dict[int, int]:
        """Return where the piece begins that each sender takes out of what it has.

        length: of what it has: pieces are of the same size.
        """
        return {c: min(m.offset, length - self.size) for c, m in self.by_sender.items()}


def messages_of(
    starts: np.ndarray,
    counts: np.ndarray,
    size: int,
    shard: int,
    periodic: bool = False,
    limit: int | None = None,
    base: int = 0,
    place: int | np.ndarray = 0,
) -> list[Message] | None:
    """Return who sends what, so that device c has elements from starts[c] on, counts[c] of them.

    None when a device would receive more than `limit` elements.

    size, shard: of the dimension, and of what each device has of it.
    periodic: elements outside of the dimension are those of its repetitions; else nobody sends
        them.
    base: where a device's shard begins in what it sends from.
    place: by device, where the window begins in what it receives.
    """
    found: list[Message] = []
    at = np.broadcast_to(place, starts.shape).tolist()
    for c, (start, need) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        end = start + need
        first = start
        if not periodic:
            first, end = max(start, 0), min(end, size)
        received = 0
        while first < end:
            v = first % size if periodic else first
            sender, offset = divmod(v, shard)
            run = min(end - first, shard - offset, size - v)
            found.append(Message(sender, c, base + offset, run, at[c] + first - start))
            received += run if sender != c else 0
            if limit is not None and received > limit:
                return None
            first += run
    return found


def joined(messages: Sequence[Message]) -> list[Message]:
    """Return messages with those as one that follow each other at both ends."""
    found: list[Message] = []
    last: dict[tuple[int, int], int] = {}
    for m in sorted(messages, key=lambda m: (m.receiver, m.place)):
        pair = m.sender, m.receiver
        at = last.get(pair)
        if at is not None:
            before = found[at]
            end = before.offset + before.size, before.place + before.size
            if end == (m.offset, m.place):
                found[at] = replace(before, size=before.size + m.size)
                continue
        last[pair] = len(found)
        found.append(m)
    return found


def pairs_of(b: SpmdBuilder, axes: Axes, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs of devices, in all groups along axes, of pairs of coordinates."""
    ordered = sorted(pairs)
    return [(g[s], g[r]) for g in b.mesh.groups(axes) for s, r in ordered]


def rounds_of(messages: Sequence[Message]) -> list[Round]:
    """Return the exchanges in which devices send messages to others; the longest first."""
    rounds: list[Round] = []
    far = [m for m in messages if m.sender != m.receiver]
    far.sort(key=lambda m: (-m.size, m.sender - m.receiver, m.sender))
    for m in far:
        for r in rounds:
            if r.takes(m):
                r.add(m)
                break
        else:
            rounds.append(Round(0))
            rounds[-1].add(m)
    return rounds


def sent(rounds: Sequence[Round]) -> int:
    """Return how many elements a device sends, at most."""
    return sum(r.size for r in rounds)


def deliver(
    b: SpmdBuilder,
    local: Instruction,
    dim: int,
    axes: Axes,
    messages: Sequence[Message],
    size: int,
    fill: Fill | None,
) -> Instruction:
    """Append the exchange of messages; returns what devices receive, `size` along a dimension.

    local: what devices send from.
    fill: what elements are that no message has; by default unspecified.
    """
    rounds = rounds_of(messages)
    own = _own(messages, rounds)
    pieces = [_piece(b, local, dim, axes, r) for r in own]
    for r in rounds:
        piece = _piece(b, local, dim, axes, r)
        pairs = pairs_of(b, axes, ((m.sender, m.receiver) for m in r.by_sender.values()))
        pieces.append(b.permute(piece, pairs))
    shape = local.array_shape
    if _is_regular(own, rounds, b.mesh.count(axes), fill):
        return _concatenated(b, [*own, *rounds], pieces, dim, size, fill)
    result: Instruction | None = None
    if fill is not None:
        filler = scalar_of(b, shape.element_type, fill)
        result = b.broadcast(filler, resized(shape, dim, size))
    for r, piece in zip([*own, *rounds], pieces, strict=True):
        result = _placed(b, result, piece, dim, axes, r, shape.dims[dim], size)
    assert result is not None, messages
    return result


def _piece(b: SpmdBuilder, local: Instruction, dim: int, axes: Axes, r: Round) -> Instruction:
    """Append what devices send in a round."""
    begins = r.begins(local.array_shape.dims[dim])
    offsets = np.full(b.mesh.count(axes), next(iter(begins.values())))
    for c, begin in begins.items():
        offsets[c] = begin
    return cut_out(b, local, dim, by_device(b, axes, offsets), r.size)


def _is_regular(
    own: Sequence[Round], rounds: Sequence[Round], count: int, fill: Fill | None
) -> bool:
    """True when each round brings all devices the same place, and to all of it.

    To devices that get nothing, permutes bring zeros.
    """
    empty = fill is None or is_zero(fill)
    for n, r in enumerate([*own, *rounds]):
        places = {(m.place, m.size) for m in r.by_receiver.values()}
        if len(places) > 1 or (len(r.by_receiver) < count and not (empty and n >= len(own))):
            return False
    slots = sorted(next(iter(r.by_receiver.values())).place for r in (*own, *rounds))
    sizes = {next(iter(r.by_receiver.values())).place: r.size for r in (*own, *rounds)}
    return len(sizes) == len(slots) and all(a + sizes[a] <= z for a, z in pairwise(slots))


def _concatenated(
    b: SpmdBuilder,
    rounds: Sequence[Round],
    pieces: Sequence[Instruction],
    dim: int,
    size: int,
    fill: Fill | None,
) -> Instruction:
    """Append the concatenation of pieces that have the same place on all devices."""
    shape = pieces[0].array_shape
    filler = scalar_of(b, shape.element_type, 0 if fill is None else fill)
    slots = {
        next(iter(r.by_receiver.values())).place: p for r, p in zip(rounds, pieces, strict=True)
    }
    parts: list[Instruction] = []
    at = 0
    for place in (*sorted(slots), size):
        if place > at:
            parts.append(b.broadcast(filler, resized(shape, dim, place - at)))
        if place < size:
            parts.append(slots[place])
            at = place + slots[place].array_shape.dims[dim]
    return parts[0] if len(parts) == 1 else b.op("concatenate", *parts, dimensions=(dim,))


def _own(messages: Sequence[Message], rounds: Sequence[Round]) -> list[Round]:
    """Return the rounds of what devices have themselves.

    Those that fit into an exchange are added to it instead, if all do.
    """
    own = [m for m in messages if m.sender == m.receiver]
    added: list[Message] = []
    for m in own:
        r = next((r for r in rounds if r.size >= m.size and r.takes(m)), None)
        if r is None:
            break
        r.add(m)
        added.append(m)
    if len(added) == len(own):
        return []
    for m in added:
        for r in rounds:
            if r.by_sender.get(m.sender) is m:
                del r.by_sender[m.sender], r.by_receiver[m.receiver]
    kept: list[Round] = []
    for m in own:
        for r in kept:
            if r.takes(m):
                r.add(m)
                break
        else:
            kept.append(Round(0))
            kept[-1].add(m)
    return kept


def _placed(
    b: SpmdBuilder,
    result: Instruction | None,
    piece: Instruction,
    dim: int,
    axes: Axes,
    r: Round,
    length: int,
    size: int,
) -> Instruction:
    """Append what writes a round's pieces to their places in what devices have got so far.

    length: of what devices send from.
    """
    count = b.mesh.count(axes)
    begins = r.begins(length)
    # The place of the piece's first element, and the range of those that are meant.
    shifts, first, end = (np.zeros(count, np.int64) for _ in range(3))
    for c, m in r.by_receiver.items():
        shifts[c] = m.place - (m.offset - begins[m.sender])
        first[c], end[c] = m.place, m.place + m.size
    there = np.isin(np.arange(count), list(r.by_receiver))
    shifts[~there] = shifts[np.argmax(there)]
    low = max(0, int(shifts.max()))
    high = max(0, size - r.size - int(shifts.min()))
    at = by_device(b, axes, low - shifts)
    if isinstance(at, int):
        frame = padded(b, piece, dim, int(shifts[0]), size - r.size - int(shifts[0]), 0)
    else:
        frame = cut_out(b, padded(b, piece, dim, low, high, 0), dim, at, size)
    if result is None:
        return frame
    if np.all(there) and not first.any() and np.all(end == size):
        return frame
    begin = by_device(b, axes, first) if first.any() else None
    last = by_device(b, axes, end)
    index = index_along(b, frame, dim)
    inside = within(b, index, begin, last)
    return b.op("select", inside, frame, result, shape=frame.shape)
