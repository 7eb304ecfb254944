"""The module in a message, changed and written again with all that did not change.

A message has more than a `Module` keeps: the ids of instructions, their order in it, spellings of
defaults, fields of newer versions. `Rewriter` writes the module before and after the change in the
same way; a field that is the same in both is taken from the original message.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

from hlo.frontends.proto import wire
from hlo.frontends.proto.reader import read_module
from hlo.frontends.proto.schema import Field, Message, MessageType, schema
from hlo.frontends.proto.writer import Numbering, first_id, write_module
from hlo.ir import Computation, Instruction, Module

# Fields whose messages have ids.
_NUMBERED = ("computations", "instructions")

_Item = TypeVar("_Item", Computation, Instruction)


class Rewriter:
    """A module that is to be changed, in the bytes of an HloModuleProto.

    Computations are known again by their names, instructions by name and opcode.
    Raises TextError for what is no module.
    """

    def __init__(self, data: bytes) -> None:
        self._kind = schema()["HloModuleProto"]
        self._message = wire.decode(data, self._kind)
        self.module = read_module(self._message)
        self._before = self._after = self._written()
        self._encoded = self._original = wire.encode(self._before, self._kind)

    def update(self) -> bool:
        """Return whether `module` differs from what it was at the last call, or at first.

        Raises InferError for what messages cannot express.
        """
        self._after = self._written()
        last, self._encoded = self._encoded, wire.encode(self._after, self._kind)
        return last != self._encoded

    @property
    def data(self) -> bytes | None:
        """The bytes of the module as it was at the last `update`; None if it is as at first."""
        return None if self._encoded == self._original else self.merged()

    def merged(self) -> bytes:
        """Return the bytes of the module as it was at the last `update`."""
        merged = _merged(self._kind, self._message, self._before, self._after)
        return wire.encode(merged, self._kind)

    def _written(self) -> Message:
        return write_module(self.module, _numbering_like(self.module, self._message))


# --- ids and order ------------------------------------------------------------------------------


def _numbering_like(module: Module, message: Message) -> Numbering:
    """Return the ids that a message has for what is in it, and new ones for the rest.

    The order is that of the message as well, as far as callees and operands still come first.
    """
    known = {c["name"]: (n, c) for n, c in enumerate(message.get("computations", ()))}
    fresh = count(max(c.get("id", 0) for _, c in known.values()) + 1)
    ids: dict[Computation | Instruction, int] = {}
    for comp in module.computations:
        ids[comp] = known[comp.name][1].get("id", 0) if comp.name in known else next(fresh)
    positions = ((c, known[c.name][0] if c.name in known else None) for c in module.callees_first())
    order: dict[Computation, list[Instruction]] = {}
    for comp in _arranged(positions, _callees):
        old = known[comp.name][1].get("instructions", ()) if comp.name in known else ()
        order[comp] = _number(comp, old, ids)
    return Numbering(order, ids)


def _number(
    comp: Computation, old: Sequence[Message], ids: dict[Computation | Instruction, int]
) -> list[Instruction]:
    """Add the ids of the instructions to `ids`, and return their order."""
    known = {(i["name"], i.get("opcode")): (n, i.get("id", 0)) for n, i in enumerate(old)}
    fresh = count(1 + max((i for _, i in known.values()), default=first_id(ids[comp]) - 1))
    positions: list[tuple[Instruction, int | None]] = []
    for inst in comp.in_order():
        position, number = known.get((inst.name, inst.opcode), (None, None))
        ids[inst] = next(fresh) if number is None else number
        positions.append((inst, position))
    return _arranged(positions, Instruction.predecessors)


def _callees(comp: Computation) -> Iterator[Computation]:
    for inst in comp.call_sites:
        yield from inst.called_computations


def _arranged(
    positions: Iterable[tuple[_Item, int | None]], needs: Callable[[_Item], Iterable[_Item]]
) -> list[_Item]:
    """Return items in the order of their positions, but each after all that it needs.

    An item without a position comes after the one before it.
    """
    keys: dict[_Item, tuple[int, int]] = {}
    last = -1
    for number, (item, position) in enumerate(positions):
        last = last if position is None else position
        keys[item] = (last, -1 if position is not None else number)
    waiting = {item: set(needs(item)) & keys.keys() for item in keys}
    users: dict[_Item, list[_Item]] = {item: [] for item in keys}
    for item, needed in waiting.items():
        for other in needed:
            users[other].append(item)
    # Keys are different, so that items are never compared.
    ready = [(keys[item], item) for item, needed in waiting.items() if not needed]
    heapq.heapify(ready)
    order = []
    while ready:
        _, item = heapq.heappop(ready)
        order.append(item)
        for user in users[item]:
            waiting[user].remove(item)
            if not waiting[user]:
                heapq.heappush(ready, (keys[user], user))
    return order


# --- what changed -------------------------------------------------------------------------------


def _merged(kind: MessageType, old: Message, before: Message, after: Message) -> Message:
    """Return a message with the fields of `old` that are the same before and after a change."""
    merged = Message()
    for name in {**old, **after}:
        value = _value(kind, kind.by_name[name], old.get(name), before.get(name), after.get(name))
        if value is not None:
            merged[name] = value
    merged.unknown = old.unknown
    return merged


def _value(kind: MessageType, field: Field, old: Any, before: Any, after: Any) -> Any:
    """Return the value of a field; None where it is absent."""
    inner = field.kind
    if isinstance(inner, MessageType) and field.name in _NUMBERED:
        olds, befores = ({m.get("id", 0): m for m in messages} for messages in (old, before))
        return [
            _merged(inner, olds[n], befores[n], m) if (n := m["id"]) in olds else m for m in after
        ]
    if _encoded(kind, field, before) == _encoded(kind, field, after):
        return old
    if isinstance(inner, MessageType) and not field.repeated and None not in (old, after):
        return _merged(inner, old, before or Message(), after)
    return after


def _encoded(kind: MessageType, field: Field, value: Any) -> bytes:
    return b"" if value is None else wire.encode(Message({field.name: value}), kind)
