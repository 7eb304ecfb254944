"""What the lanes of a warp do together: exchanges, votes, matches, reductions.

Arrays are of (warps, 32). Lanes that an instruction does not name, or that are not active, take no
part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo.gpu.simt.instructions.operation import Lanes, Semantics, UnknownInstruction

LANES = 32
_NUMBERS = np.arange(LANES, dtype=np.uint32)
_BITS = np.uint32(1) << _NUMBERS
_LAST = np.uint32(LANES - 1)


def shuffle_lanes(mode: str, lane: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which lane each lane reads in a `shfl`, and whether that is within the bounds.

    lane, bound: the third and the fourth operand.
    """
    lane, clamp = lane & _LAST, bound & _LAST
    segment = (bound >> np.uint32(8)) & _LAST
    first = _NUMBERS & segment
    last = first | (clamp & ~segment)
    # Numbers wrap: a lane before the first has a large one.
    match mode:
        case "up":
            found = _NUMBERS - lane
            inside = found.view(np.int32) >= last.view(np.int32)
        case "down":
            found = _NUMBERS + lane
            inside = found <= last
        case "bfly":
            found = _NUMBERS ^ lane
            inside = found <= last
        case _:
            found = first | (lane & ~segment)
            inside = found <= last
    return np.where(inside, found, _NUMBERS), inside


def shuffle(modifiers: tuple[str, ...], sources: int, results: int) -> Lanes:
    """`shfl.sync`: the value of another lane, and whether there is one."""
    mode = modifiers[-2]
    if mode not in ("up", "down", "bfly", "idx"):
        raise UnknownInstruction(f"unknown mode {mode}")

    def apply(
        active: np.ndarray, value: np.ndarray, lane: np.ndarray, bound: np.ndarray, *_: np.ndarray
    ) -> Any:
        source, inside = shuffle_lanes(mode, lane, bound)
        source = np.broadcast_to(source, value.shape)
        found = np.take_along_axis(value, source.astype(np.intp), axis=1)
        return (found, np.broadcast_to(inside, value.shape)) if results == 2 else found

    members = ("b32",) * (sources - 3)
    return Lanes(("b32", "u32", "u32", *members), ("b32", "pred")[:results], apply)


def _members(active: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return which lanes take part: those that a mask names."""
    return active & ((mask & _BITS) != 0)


def _ballot(lanes: np.ndarray) -> np.ndarray:
    """Return the lanes as bits of a number, in every lane."""
    found = np.where(lanes, _BITS, np.uint32(0)).sum(axis=1, keepdims=True, dtype=np.uint32)
    return np.broadcast_to(found, lanes.shape)


def vote(modifiers: tuple[str, ...], sources: int, results: int) -> Lanes:
    """`vote.sync`: what the predicates of all lanes say together."""
    mode, type_ = modifiers[-2:]

    def apply(active: np.ndarray, value: np.ndarray, *mask: np.ndarray) -> np.ndarray:
        members = _members(active, mask[0]) if mask else active
        if mode == "ballot":
            return _ballot(members & value)
        every = (value | ~members).all(axis=1, keepdims=True)
        some = (value & members).any(axis=1, keepdims=True)
        found = {"all": every, "any": some, "uni": every | ~some}[mode]
        return np.broadcast_to(found, value.shape)

    if mode not in ("all", "any", "uni", "ballot"):
        raise UnknownInstruction(f"unknown mode {mode}")
    return Lanes(("pred", "b32")[:sources], (type_,), apply)


def active_mask(modifiers: tuple[str, ...], sources: int, results: int) -> Lanes:
    """`activemask`."""
    return Lanes((), ("b32",), _ballot)


def elect(modifiers: tuple[str, ...], sources: int, results: int) -> Lanes:
    """`elect.sync`: one lane is chosen, the first."""

    def apply(active: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        members = _members(active, mask)
        first = members.argmax(axis=1).astype(np.uint32)[:, None]
        return np.broadcast_to(first, active.shape), (first == _NUMBERS) & members

    return Lanes(("b32",), ("b32", "pred"), apply)


_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def reduce(modifiers: tuple[str, ...], sources: int, results: int) -> Lanes:
    """`redux.sync`: the sum, the least, ... of all lanes' values."""
    how, type_ = _REDUCTIONS.get(modifiers[1]), modifiers[-1]
    if how is None or type_ == "f32":
        raise UnknownInstruction("no reduction that is known")
    dtype: type[np.signedinteger[Any] | np.unsignedinteger[Any]] = np.uint32
    if type_ == "s32":
        dtype = np.int32
    neutral = {
        "min": np.iinfo(dtype).max, "max": np.iinfo(dtype).min, "and": np.iinfo(np.uint32).max,
    }.get(modifiers[1], 0)  # fmt: skip

    def apply(active: np.ndarray, value: np.ndarray, mask: np.ndarray) -> np.ndarray:
        values = np.where(_members(active, mask), value.view(dtype), np.array(neutral, dtype))
        found = how.reduce(values, axis=1, keepdims=True, dtype=dtype)
        return np.broadcast_to(found.view(np.uint32), value.shape)

    return Lanes((type_, "b32"), (type_,), apply)


def match(modifiers: tuple[str, ...], sources: int, results: int) -> Lanes:
    """`match.sync`: which lanes have the same value; with `all`, whether all have it."""
    mode, _, type_ = modifiers
    apply: Callable[..., Any]

    def any_(active: np.ndarray, value: np.ndarray, mask: np.ndarray) -> np.ndarray:
        members = _members(active, mask)
        same = (value[:, :, None] == value[:, None, :]) & members[:, None, :]
        return np.where(same, _BITS, np.uint32(0)).sum(axis=2, dtype=np.uint32)

    def all_(active: np.ndarray, value: np.ndarray, mask: np.ndarray) -> Any:
        members = _members(active, mask)
        first = np.take_along_axis(value, members.argmax(axis=1)[:, None], axis=1)
        same = ((value == first) | ~members).all(axis=1, keepdims=True)
        found = np.where(same, _ballot(members), np.uint32(0))
        return (found, np.broadcast_to(same, value.shape)) if results == 2 else found

    apply = all_ if "all" in modifiers else any_
    if "all" not in modifiers and "any" not in modifiers:
        raise UnknownInstruction(f"unknown mode {mode}")
    return Lanes((type_, "b32"), ("b32", "pred")[:results], apply)


SEMANTICS: dict[str, Semantics] = {
    "shfl": shuffle,
    "vote": vote,
    "activemask": active_mask,
    "elect": elect,
    "redux": reduce,
    "match": match,
}
