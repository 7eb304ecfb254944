"""Elements of a dimension from device to device, in as few rounds as can be.

A round is one collective-permute: each device sends to one at most, and receives from one at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hlo.ir import Instruction
from hlo.spmd.builder import SpmdBuilder, resized
from hlo.spmd.mesh import Axes
from hlo.spmd.slots import (
    Fill,
    by_device,
    cut_out,
    index_along,
    padded,
    scalar_of,
    within,
)


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
    count = b.mesh.count(axes)
    groups = b.mesh.groups(axes)
    result: Instruction | None = None
    shape = local.array_shape
    if fill is not None:
        filler = scalar_of(b, shape.element_type, fill)
        result = b.broadcast(filler, resized(shape, dim, size))
    for n, r in enumerate([*own, *rounds]):
        offsets = np.zeros(count, np.int64)
        last = shape.dims[dim] - r.size
        begins = {c: min(m.offset, last) for c, m in r.by_sender.items()}
        offsets[:] = next(iter(begins.values()))
        for c, begin in begins.items():
            offsets[c] = begin
        piece = cut_out(b, local, dim, by_device(b, axes, offsets), r.size)
        if n >= len(own):
            pairs = [(g[m.sender], g[m.receiver]) for g in groups for m in r.by_sender.values()]
            piece = b.permute(piece, sorted(pairs))
        result = _placed(b, result, piece, dim, axes, r, begins, size)
    assert result is not None, messages
    return result


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
    begins: dict[int, int],
    size: int,
) -> Instruction:
    """Append what writes a round's pieces to their places in what devices have got so far."""
    count = b.mesh.count(axes)
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
