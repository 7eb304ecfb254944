"""Runs launch plans on a device.

What a run needs besides its arguments stays on the device between runs: kernels, constants, and
work spaces, one for each run that goes on at a time. A section of the plan is launched step by step
the first time, recorded the second time that it runs on the same addresses, and replayed from then
on, where the device can do so.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.gpu.device import Device, Holder, Replay
from hlo.gpu.plan import ALIGNMENT, Copy, HostCall, Launch, LaunchPlan, Place, Region
from hlo.gpu.sections import Choice, Loop, Node, Repeat, Section, sections_of

# Runs a call of the host, by number, on the bytes of its operands; returns those of its results.
CallHost = Callable[[int, Sequence[np.ndarray]], Sequence[np.ndarray]]
# Raises an error when a run has taken too long.
Check = Callable[[], None]
# What a run takes for a leaf: bytes of the host, or the address of memory of the device.
Memory = np.ndarray | int
# The time that a step took, in seconds.
Timing = tuple[Launch | Copy, float]

# Sections are recorded for so many sets of addresses, those that were used last.
_MOST_BINDINGS = 8
# The host is so many sections ahead of the device at the most, so that a run that takes too long
# leaves little behind.
_MOST_AHEAD = 8
_NAMED_KERNELS = 6
# Launches whose times the device keeps until the host asks for them.
_MOST_MARKS = 1024

_Key = tuple[Region, int]


class LoadedProgram:
    """A program on a device, until `close` or the end of the object. Threads may share it."""

    def __init__(self, device: Device, plan: LaunchPlan, code: str, binary: bytes = b"") -> None:
        """code: the kernels (PTX). binary: as of `Device.load`."""
        self.plan = plan
        self._nodes = sections_of(plan.steps)
        self._kept = _Kept(device, plan, code, binary)
        self._finalizer = weakref.finalize(self, self._kept.release)

    @property
    def device(self) -> Device:
        return self._kept.device

    def close(self) -> None:
        """Give back all that is kept on the device."""
        self._finalizer.detach()
        self._kept.close()

    def run(
        self, arguments: Sequence[Memory], results: Sequence[Memory], call_host: CallHost,
        check: Check,
    ) -> None:  # fmt: skip
        """Run; the memory of `results` is written when this returns.

        Memory of the device is used in place, but for arguments that are not aligned.

        A result that shares memory with an argument begins with the argument's content; both may be
        the same memory of the device.
        """
        with self._running(arguments, results, call_host, check) as run:
            run.nodes(self._nodes)

    def time(
        self, arguments: Sequence[Memory], results: Sequence[Memory], call_host: CallHost,
        check: Check,
    ) -> list[Timing]:  # fmt: skip
        """Run as `run` does, launch by launch; returns the time of each, in order."""
        with self._running(arguments, results, call_host, check) as run:
            run.timings = []
            run.nodes(self._nodes)
            run.collect()
            return run.timings

    @contextmanager
    def _running(
        self, arguments: Sequence[Memory], results: Sequence[Memory], call_host: CallHost,
        check: Check,
    ) -> Iterator[_Run]:  # fmt: skip
        space = self._kept.take()
        try:
            with space.device.active():
                regions = space.bind(self.plan, arguments, results)
                run = _Run(space, regions, call_host, check)
                yield run
                run.finish(results, self.plan.results)
                space.has_zeros = True
        except BaseException:
            # What is still under way comes before what the next run does here. But the caller may
            # give memory of the device back.
            if any(isinstance(data, int) for data in (*arguments, *results)):
                with suppress(HloError):
                    space.device.wait(_no_check)
            raise
        finally:
            self._kept.give(space)


class _Kept(Holder):
    """What a program keeps on the device."""

    def __init__(self, device: Device, plan: LaunchPlan, code: str, binary: bytes) -> None:
        self.device, self._plan = device, plan
        self._code = device.load(code, binary)
        self._constants = 0
        self._lock = threading.Lock()
        self._idle: list[_Space] = []
        device.on_shortage(self)
        if plan.constant_bytes:
            self._constants = device.allocate(plan.constant_bytes, "constants")
            for offset, array in plan.constants:
                device.write(self._constants + offset, _octets(array))
            device.wait(_no_check)

    def take(self) -> _Space:
        """Return a work space that no other run has."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Space(self.device.queue(), self._code, self._constants)

    def give(self, space: _Space) -> None:
        """Take a work space back."""
        with self._lock:
            self._idle.append(space)

    def give_back(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for space in idle:
            space.close()

    def close(self) -> None:
        self.give_back()
        if self._constants:
            self.device.free(self._constants)
            self._constants = 0
        self.device.unload(self._code)

    def release(self) -> None:
        """Close where nobody can be told of errors."""
        with suppress(HloError):
            self.close()


class _Space:
    """A work space: memory of one run at a time, and what was recorded on it."""

    def __init__(self, device: Device, code: Any, constants: int) -> None:
        self.device, self.code = device, code
        self._constants = constants
        self._own: dict[_Key, int] = {}
        # What was recorded and how often it has run, by the addresses of arguments and results.
        self._recorded: dict[tuple[int, ...], _Recorded] = {}
        self.recorded = _Recorded()
        # Whether the counters are 0.
        self.has_zeros = False

    def bind(
        self, plan: LaunchPlan, arguments: Sequence[Memory], results: Sequence[Memory]
    ) -> dict[_Key, int]:
        """Return where each region is, with the arguments there."""
        device = self.device
        regions = {(Region.CONSTANTS, 0): self._constants}
        for region, size in ((Region.ARENA, plan.arena_bytes), (Region.SCALARS, plan.scalar_bytes)):
            regions[region, 0] = self._reserve((region, 0), size)
        if plan.counter_bytes:
            regions[Region.COUNTERS, 0] = self._counters(plan.counter_bytes)
        for number, (data, size) in enumerate(zip(results, plan.results, strict=True)):
            key = (Region.RESULT, number)
            regions[key] = data if isinstance(data, int) else self._reserve(key, size)
        targets = {argument: result for result, argument in plan.aliases}
        for number, (data, size) in enumerate(zip(arguments, plan.arguments, strict=True)):
            key = (Region.ARGUMENT, number)
            if number in targets:
                regions[key] = regions[Region.RESULT, targets[number]]
                if isinstance(data, int) and data != regions[key]:
                    device.copy(regions[key], data, size)
            elif isinstance(data, int) and not data % ALIGNMENT:
                regions[key] = data
            else:
                regions[key] = self._reserve(key, size)
                if isinstance(data, int):
                    device.copy(regions[key], data, size)
            if isinstance(data, np.ndarray) and size:
                device.write(regions[key], data)
        self._choose_recorded(tuple(regions.values()))
        return regions

    def _reserve(self, key: _Key, size: int) -> int:
        """Return memory for a region, whose content is not defined."""
        address = self._own.get(key)
        if address is None:
            region, number = key
            address = self.device.allocate(max(1, size), f"{region.value} {number}")
            self._own[key] = address
        else:
            self.device.forget(address)
        return address

    def _counters(self, size: int) -> int:
        """Return the memory of counters, all of them 0."""
        key = Region.COUNTERS, 0
        if key not in self._own:
            self._own[key] = self.device.allocate(size, Region.COUNTERS.value)
        if not self.has_zeros:
            self.device.write(self._own[key], np.zeros(size, np.uint8))
        # Until the run is done: launches that fail leave what they have counted.
        self.has_zeros = False
        return self._own[key]

    def _choose_recorded(self, addresses: tuple[int, ...]) -> None:
        recorded = self._recorded.pop(addresses, None) or _Recorded()
        if len(self._recorded) == _MOST_BINDINGS:
            self._recorded.pop(next(iter(self._recorded))).close()
        self.recorded = self._recorded[addresses] = recorded

    def close(self) -> None:
        self.device.wait(_no_check)
        for recorded in self._recorded.values():
            recorded.close()
        self._recorded.clear()
        for address in self._own.values():
            self.device.free(address)
        self._own.clear()
        self.device.close_queue()


class _Recorded:
    """What was recorded for one set of addresses."""

    def __init__(self) -> None:
        self._replays: dict[Section, Replay | None] = {}

    def replay(self, section: Section, device: Device, launch: Callable[[], None]) -> Replay | None:
        """Return a section as recorded, None if it is to be launched: when it runs first."""
        if section not in self._replays:
            self._replays[section] = None
            return None
        replay = self._replays[section]
        if replay is None and len(section.steps) > 1:
            replay = self._replays[section] = device.capture(launch)
        return replay

    def close(self) -> None:
        for replay in self._replays.values():
            if replay is not None:
                replay.close()
        self._replays.clear()


class _Run:
    """One run."""

    def __init__(
        self, space: _Space, regions: Mapping[_Key, int], call_host: CallHost, check: Check
    ) -> None:
        self._device, self._space = space.device, space
        self._regions, self._call_host, self._check = regions, call_host, check
        # Launched since the device was last waited for.
        self._ahead: list[Sequence[Launch | Copy]] = []
        # The time of each step, where that is asked for, and of the last ones the marks.
        self.timings: list[Timing] | None = None
        self._marks: list[tuple[Launch | Copy, Any, Any]] = []

    # --- nodes ----------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._check()
            match node:
                case Section():
                    self._section(node)
                case Repeat():
                    for _ in range(node.times):
                        self.nodes(node.body)
                case Loop():
                    self._loop(node)
                case Choice():
                    index = int(self._read(node.index, 4).view(np.int32)[0])
                    count = len(node.branches)
                    self.nodes(node.branches[index if 0 <= index < count else count - 1])
                case HostCall():
                    self._host(node)

    def _section(self, section: Section) -> None:
        if len(self._ahead) >= _MOST_AHEAD:
            self._wait()
        if self.timings is not None:
            self._launch_marked(section)
            return

        def launch() -> None:
            for step in section.steps:
                self._launch(step)

        replay = self._space.recorded.replay(section, self._device, launch)
        if replay is None:
            for step in section.steps:
                self._check()
                self._ahead.append((step,))
                with self._naming():
                    self._launch(step)
        else:
            self._ahead.append(section.steps)
            with self._naming():
                replay.run()

    def _launch_marked(self, section: Section) -> None:
        for step in section.steps:
            self._check()
            self._ahead.append((step,))
            with self._naming():
                start = self._device.mark()
                self._launch(step)
                self._marks.append((step, start, self._device.mark()))
            if len(self._marks) >= _MOST_MARKS:
                self.collect()

    def _loop(self, loop: Loop) -> None:
        self.nodes(loop.condition)
        while self._read(loop.flag, 1)[0]:
            if loop.never_ends:
                raise HloError.at("endless-loop", loop.never_ends)
            self.nodes(loop.turn)

    def _host(self, call: HostCall) -> None:
        operands = [self._read(place, size) for place, size in call.operands]
        for (place, size), data in zip(
            call.results, self._call_host(call.number, operands), strict=True
        ):
            assert data.size == size, (data.size, size)
            self._device.write(self._address(place), data)

    # --- steps ----------------------------------------------------------------------------------

    def _launch(self, step: Launch | Copy) -> None:
        if isinstance(step, Copy):
            source, target = self._address(step.source), self._address(step.target)
            self._device.copy(target, source, step.size)
            return
        addresses = [self._address(place) for place in step.places]
        self._device.launch(
            self._space.code, step.kernel, step.blocks, step.threads, step.shared_bytes, addresses,
            step.instruction,
        )  # fmt: skip

    def _read(self, place: Place, size: int) -> np.ndarray:
        self._wait()
        data = np.empty(size, np.uint8)
        self._device.read(self._address(place), data)
        return data

    def _address(self, place: Place) -> int:
        return self._regions[place.region, place.number] + place.offset

    # --- waiting and errors ---------------------------------------------------------------------

    def _wait(self) -> None:
        with self._naming():
            self._device.wait(self._check)
        self._ahead.clear()

    def finish(self, results: Sequence[Memory], sizes: Sequence[int]) -> None:
        """Wait until all is done, and copy the results that are to be on the host."""
        with self._naming():
            self._device.wait(self._check)
            for number, (data, size) in enumerate(zip(results, sizes, strict=True)):
                if isinstance(data, np.ndarray) and size:
                    self._device.read(self._regions[Region.RESULT, number], data)
        self._ahead.clear()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Say in errors of the device which kernels may be the cause, and of which HLO."""
        try:
            yield
        except HloError as error:
            if error.code != "device-failed":
                raise
            steps = [step for part in self._ahead for step in part if isinstance(step, Launch)]
            [found, *_] = error.diagnostics
            raise HloError([replace(found, notes=((_cause(steps), None),))]) from None

    def collect(self) -> None:
        """Note the time of each step that is marked."""
        assert self.timings is not None
        with self._naming():
            for step, start, end in self._marks:
                self.timings.append((step, self._device.seconds_between(start, end)))
                self._device.forget_mark(start)
                self._device.forget_mark(end)
        self._marks.clear()


def _cause(steps: Sequence[Launch]) -> str:
    """Return a sentence that names the kernels that may have failed, with their instructions."""
    if not steps:
        return "no kernel has been launched since the device was last waited for"
    named = list(dict.fromkeys(f"{s.kernel} of {s.instruction or 'scalars'}" for s in steps))
    more = len(named) - _NAMED_KERNELS
    said = ", ".join(named[:_NAMED_KERNELS]) + (f" and {more} others" if more > 0 else "")
    return f"the kernel is {said}" if len(named) == 1 else f"the kernel is one of {said}"


def _no_check() -> None:
    """There is no deadline."""


def _octets(array: Any) -> np.ndarray:
    """Return a view of an array as bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
