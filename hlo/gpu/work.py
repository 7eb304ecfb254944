"""What a launch does, counted: what the model of speed starts from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Unit(Enum):
    """What computes, by the rate at which it does. SPECIAL: transcendental functions.

    Tensor cores are apart for each type of operands; bf16 is as fast as f16.
    """

    F32 = "f32"
    F64 = "f64"
    F16 = "f16"
    INTEGER = "integer"
    SPECIAL = "special"
    TENSOR_F64 = "tensor f64"
    TENSOR_TF32 = "tensor tf32"
    TENSOR_F16 = "tensor f16"
    TENSOR_S8 = "tensor s8"
    TENSOR_F8 = "tensor f8"

    @property
    def is_tensor(self) -> bool:
        """True for tensor cores."""
        return self.value.startswith("tensor")


@dataclass(frozen=True)
class Work:
    """What one launch of a kernel does, all of its blocks together.

    operations: of each unit; a multiplication with an addition counts as two. global_bytes: read
    from and written to the device's memory, each array once. cached_bytes: what the blocks load and
    store through the second-level cache, each for itself; 0 if no block reads what another does.
    shared_bytes: loaded from and stored to shared memory. rounds: how many times threads wait for
    memory one after the other, as those of a loop do for what the turn before has written.
    """

    operations: tuple[tuple[Unit, int], ...] = ()
    global_bytes: int = 0
    cached_bytes: int = 0
    shared_bytes: int = 0
    rounds: int = 1

    def of(self, unit: Unit) -> int:
        """Return the operations of a unit."""
        return sum(count for found, count in self.operations if found is unit)

    @property
    def tensor_operations(self) -> int:
        """The operations of tensor cores."""
        return sum(count for unit, count in self.operations if unit.is_tensor)

    @property
    def all_operations(self) -> int:
        """The operations of all units."""
        return sum(count for _, count in self.operations)

    def part(self, part: int, whole: int) -> Work:
        """Return so much of the work."""
        operations = tuple((unit, count * part // whole) for unit, count in self.operations)
        return Work(
            operations, self.global_bytes * part // whole, self.cached_bytes * part // whole,
            self.shared_bytes * part // whole, self.rounds,
        )  # fmt: skip


NOTHING = Work()
