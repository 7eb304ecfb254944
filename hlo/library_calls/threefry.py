"""Random bits of JAX on GPUs: the hash Threefry-2x32 of counters, by a key.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), with 20 rounds.
"""

from __future__ import annotations

from hlo.ir import Computation, Instruction
from hlo.library_calls.call import Call, library_call

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


@library_call(
    "cu_threefry2x32_ffi", "cu_threefry2x32", "hip_threefry2x32_ffi", "hip_threefry2x32",
    section="threefry",
)  # fmt: skip
def _threefry(c: Call) -> Computation:
    """The two words of the hash, of the two words of a key and of a counter."""
    c.need_operands(4)
    if any(o.array_shape.element_type.name != "u32" for o in c.operands):
        raise c.wrong("words of keys and counters are u32", "type-mismatch")
    first, second, x, y = (c.plain(n) for n in range(4))
    parity = c.op("xor", c.op("xor", first, second), c.number(_PARITY, first))
    keys = (first, second, parity)
    x, y = c.op("add", x, keys[0]), c.op("add", y, keys[1])
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            x = c.op("add", x, y)
            y = c.op("xor", _rotated(c, y, by), x)
        x = c.op("add", x, keys[(group + 1) % 3])
        more = c.op("add", keys[(group + 2) % 3], c.number(group + 1, y))
        y = c.op("add", y, more)
    return c.done(x, y)


def _rotated(c: Call, x: Instruction, by: int) -> Instruction:
    left = c.op("shift-left", x, c.number(by, x))
    return c.op("or", left, c.op("shift-right-logical", x, c.number(32 - by, x)))
