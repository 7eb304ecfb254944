"""The collectives of a program, and what brings its calls of them to other devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

# The status of a program for its first collective; one more for each further one.
FAILED_STATUS = 1 << 30


@dataclass(frozen=True)
class Collective:
    """A collective of a program, by number.

    channel_id: None where it has none. operands: their shapes as text. groups: the devices that
    meet, in the order of the group; of none, there are more than can be listed. is_partial: devices
    in no group get zeros. errors: code and message of each status of its definition, from 1.
    """

    name: str
    opcode: str
    channel_id: int | None
    operands: str
    groups: tuple[tuple[int, ...], ...]
    is_partial: bool
    errors: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        channel = "" if self.channel_id is None else f", channel {self.channel_id}"
        return f"{self.name} ({self.opcode}{channel})"

    @property
    def texts(self) -> list[str]:
        """All that is text."""
        return [self.name, self.opcode, self.operands, *(t for e in self.errors for t in e)]

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Collective:
        """Return what `to_json` was made of. Raises TypeError or KeyError for anything else."""
        groups = tuple(map(tuple, fields["groups"]))
        errors = tuple((code, message) for code, message in fields["errors"])
        return Collective(**{**fields, "groups": groups, "errors": errors})


class Transport(Protocol):
    """What brings the collectives of a run's devices to each other."""

    def table(self, device: int, collectives: Sequence[Collective]) -> int:
        """Return the address of the `hlo_collectives` of a program on a device."""

    def fail(self, device: int, collective: Collective) -> None:
        """Raise the error of a call that has failed, unless that is for want of devices."""

    def leave(self, device: int) -> None:
        """End what a device has started, since its program has ended early.

        When it returns, nobody reads the program's memory any more.
        """


class Together(Protocol):
    """Several devices that run concurrently.

    stop_at: the address of an 8-byte word that becomes nonzero when they have to stop.
    """

    stop_at: int

    def stop(self) -> None:
        """Have all devices stop."""

    def need_going(self) -> None:
        """Raise the error that ends the run of a device, once they have to stop."""

    def transport(self, make: Callable[[int], Any]) -> Transport:
        """Return what the collectives of this run go through.

        make: makes the one for threads of this process, of so many devices.
        """
