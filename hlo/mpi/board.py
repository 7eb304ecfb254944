"""What the devices of this process do: who waits for whom, as the watch over all ranks asks it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class NativeState(NamedTuple):
    """What a device does in native code.

    moves: grows with everything that it does. met: how often it has come to each place. current:
    where it is now, with the name of the operation and its members; None if nowhere.
    """

    moves: int
    met: Mapping[str, int]
    current: tuple[str, str, tuple[int, ...]] | None


@dataclass
class _Device:
    """What one device has done in this run, and where it waits.

    steps: grows with everything that it does. met: how often it has come to each meeting place.
    """

    steps: int = 0
    met: Counter[str] = field(default_factory=Counter)
    place: str | None = None
    what: str = ""
    members: tuple[int, ...] = ()
    has_ended: bool = False
    native: Callable[[], NativeState] | None = None

    def status(self) -> dict[str, Any]:
        """Return it as JSON has it, native code included."""
        found: dict[str, Any] = {
            "steps": self.steps, "met": dict(self.met), "place": self.place, "what": self.what,
            "members": self.members, "ended": self.has_ended,
        }  # fmt: skip
        if self.native is not None:
            moves, met, current = self.native()
            found["steps"] += moves
            found["met"] = dict(self.met + Counter(met))
            if current is not None:
                found["place"], found["what"], found["members"] = current
        return found


class Board:
    """What the devices of this process do. Thread-safe.

    A *place* names where devices meet: a group of them, or a connection. Who is there for the nth
    time waits for those members that have not been there as often.
    """

    def __init__(self, devices: range) -> None:
        self._lock = threading.Lock()
        self._devices = {device: _Device() for device in devices}
        self._run = 0

    def begin(self) -> None:
        """Record that a run begins."""
        with self._lock:
            self._run += 1
            self._devices = {device: _Device() for device in self._devices}

    def watch(self, device: int, native: Callable[[], NativeState]) -> None:
        """Have the status of a device say what it does in native code."""
        with self._lock:
            self._devices[device].native = native

    def come(self, device: int, place: str) -> None:
        """Record that a device comes to a place, without waiting."""
        with self._lock:
            state = self._devices[device]
            state.steps += 1
            state.met[place] += 1

    def wait(self, device: int, place: str, what: str, members: tuple[int, ...]) -> None:
        """Record that a device waits for others at the place where it has come.

        what: names the operation. members: devices that have to come as often, itself or not.
        """
        with self._lock:
            state = self._devices[device]
            state.steps += 1
            state.place, state.what, state.members = place, what, members

    def leave(self, device: int) -> None:
        """Record that a device no longer waits."""
        with self._lock:
            state = self._devices[device]
            state.steps += 1
            state.place = None

    def end(self, device: int) -> None:
        """Record that a device has come to the end of its program."""
        with self._lock:
            self._devices[device].has_ended = True

    def status(self) -> dict[str, Any]:
        """Return what all devices do, as JSON has it."""
        with self._lock:
            return {
                "run": self._run,
                "devices": {device: s.status() for device, s in self._devices.items()},
            }


def deadlock(devices: dict[int, dict[str, Any]]) -> str:
    """Return who waits for whom, of devices that can never continue; empty if there are none.

    devices: the status of all devices of the run, at one time.
    """
    missing = {
        device: {m for m in s["members"] if devices[m]["met"].get(s["place"], 0) <
                 s["met"][s["place"]]}
        for device, s in devices.items() if s["place"] is not None
    }  # fmt: skip
    ended = {device for device, s in devices.items() if s["ended"]}
    going = set(devices) - set(missing) - ended
    stuck = dict(missing)
    while found := [device for device, others in stuck.items() if others <= going]:
        going.update(found)
        for device in found:
            del stuck[device]
    if not stuck:
        return ""
    text = "deadlock: " + "; ".join(
        f"device {d} in {devices[d]['what']} for {named(others)}"
        for d, others in sorted(stuck.items())
    )
    gone = set[int]().union(*stuck.values()) & ended
    return f"{text}; {named(gone)} came to the end" if gone else text


def named(devices: set[int]) -> str:
    """Return devices as errors name them."""
    word = "device " if len(devices) == 1 else "devices "
    return word + ", ".join(map(str, sorted(devices)))
