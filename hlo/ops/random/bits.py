"""Counter-based random bits: ThreeFry 2x32 and Philox 4x32-10, laid out as XLA emits them.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; the order of the
words and the step of the state follow XLA's `hlo/builder/lib/prng.cc`. All words are uint32 arrays,
and all arithmetic wraps.
"""

from __future__ import annotations

import math

import numpy as np

# The key of the numbers that `rng` draws; the host has the counter.
RNG_KEY = 0
_MASK32 = np.uint64(0xFFFFFFFF)
_SHIFT32 = np.uint64(32)

THREEFRY_PARITY = np.uint32(0x1BD11BDA)
THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PHILOX_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
PHILOX_ROUNDS = 10


def _words(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the low and the high half of uint64s."""
    return (value & _MASK32).astype(np.uint32), (value >> _SHIFT32).astype(np.uint32)


def _join(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(np.uint64) | (high.astype(np.uint64) << _SHIFT32)


def _counters(start: int, number: int) -> np.ndarray:
    """Return `start, start + 1, ...` as uint64s, wrapping around."""
    return np.arange(number, dtype=np.uint64) + np.full(1, start, np.uint64)


def _threefry(counter: np.ndarray, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two words of ThreeFry 2x32 with 20 rounds for uint64 counters."""
    k0, k1 = (np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32))
    keys = (k0, k1, k0 ^ k1 ^ THREEFRY_PARITY)
    x0, x1 = _words(counter)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for rotation in THREEFRY_ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation)))
        x0 = x0 + keys[(group + 1) % 3]
        # Added one by one: numpy wraps arrays in silence, but warns when scalars overflow.
        x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def _philox(words: list[np.ndarray], key: int) -> list[np.ndarray]:
    """Return the four words of Philox 4x32-10 for a counter of four words."""
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(PHILOX_ROUNDS):
        low0, high0 = _words(words[0].astype(np.uint64) * PHILOX_MULTIPLIERS[0])
        low1, high1 = _words(words[2].astype(np.uint64) * PHILOX_MULTIPLIERS[1])
        words = [high1 ^ words[1] ^ np.uint32(k[0]), low1, high0 ^ words[3] ^ np.uint32(k[1]), low0]
        k = [(a + b) & 0xFFFFFFFF for a, b in zip(k, PHILOX_WEYL, strict=True)]
    return words


def threefry_bits(
    state: tuple[int, ...], dims: tuple[int, ...], bits: int
) -> tuple[tuple[int, ...], np.ndarray]:
    """Return the next state `(key, counter)` and uint32s (uint64s for 64 bits) of shape `dims`.

    Widths below 32 take the low bits of a uint32 each, which the caller cuts off.
    """
    key, counter = state
    if bits == 64:
        number = math.prod(dims)
        values = _join(*_threefry(_counters(counter, number), key)).reshape(dims)
        return (key, (counter + number) % 2**64), values
    if not dims:
        state, values = threefry_bits(state, (1,), bits)
        return state, values.reshape(())
    half, split = threefry_split(dims)
    number = math.prod(half)
    pair = _threefry(_counters(counter, number), key)
    joined = np.stack([word.reshape(half) for word in pair], axis=split + 1)
    whole = joined.reshape([2 * half[d] if d == split else n for d, n in enumerate(dims)])
    values = whole[tuple(slice(0, n) for n in dims)]
    return (key, (counter + number) % 2**64), values


def threefry_split(dims: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return how many counters there are for an array of 32-bit words, and where words are paired.

    A counter gives two words. They become neighbours along the first dimension of even size, or
    else along the first of the largest, where the last word is dropped.
    """
    even = [d for d, n in enumerate(dims) if n % 2 == 0]
    split = even[0] if even else dims.index(max(dims))
    return tuple((n + 1) // 2 if d == split else n for d, n in enumerate(dims)), split


def philox_bits(
    state: tuple[int, ...], dims: tuple[int, ...], bits: int
) -> tuple[tuple[int, ...], np.ndarray]:
    """Return the next state and uint32s (uint64s for 64 bits) of shape `dims`.

    state: `(key, low, high)` of a 128-bit counter, or `(key, low)`, where the key is the high half.
    A counter gives four words, or two of 64 bits, in row-major order.
    """
    key, low = state[:2]
    high = state[2] if len(state) == 3 else key
    number, per_counter = math.prod(dims), 2 if bits == 64 else 4
    blocks = -(-number // per_counter)
    counter = _counters(low, blocks)
    carried = np.where(counter < np.uint64(low), np.uint64((high + 1) % 2**64), np.uint64(high))
    words = _philox([*_words(counter), *_words(carried)], key)
    if bits == 64:
        words = [_join(words[0], words[1]), _join(words[2], words[3])]
    values = np.stack(words, axis=1).reshape(-1)[:number].reshape(dims)
    total = (low + blocks) % 2**64
    if len(state) == 2:
        return (key, total), values
    return (key, total, (high + (total < low)) % 2**64), values
