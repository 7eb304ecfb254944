"""Runs launch plans on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.gpu.device import Device
from hlo.gpu.plan import (
    Copy,
    HostCall,
    Launch,
    LaunchPlan,
    Place,
    Region,
    Step,
    Switch,
    While,
)

# Runs a call of the host, by number, on the bytes of its operands; returns those of its results.
CallHost = Callable[[int, Sequence[np.ndarray]], Sequence[np.ndarray]]
# Raises an error when a run has taken too long.
Check = Callable[[], None]


class LoadedProgram:
    """A program on a device: its code and its constants, which stay there until `close`."""

    def __init__(self, device: Device, plan: LaunchPlan, code: str) -> None:
        """code: the kernels (PTX)."""
        self.device, self.plan = device, plan
        self.code = device.load(code)
        self._constants = 0
        if plan.constant_bytes:
            self._constants = device.allocate(plan.constant_bytes, "constants")
            for offset, array in plan.constants:
                device.write(self._constants + offset, _octets(array))

    def close(self) -> None:
        """Give the constants' memory back."""
        if self._constants:
            self.device.free(self._constants)
            self._constants = 0

    def run(
        self, arguments: Sequence[np.ndarray], results: Sequence[np.ndarray],
        call_host: CallHost, check: Check,
    ) -> None:  # fmt: skip
        """Run on arrays of bytes of the host; those of `results` are written.

        A result that shares memory with an argument holds the argument's content.
        """
        device, plan = self.device, self.plan
        shared = {result for result, _ in plan.aliases}
        with ExitStack() as stack:
            regions: dict[tuple[Region, int], int] = {(Region.CONSTANTS, 0): self._constants}

            def reserve(region: Region, number: int, size: int) -> int:
                name = f"{region.value} {number}"
                address = stack.enter_context(_memory(device, size, name))
                regions[region, number] = address
                return address

            for number, data in enumerate(arguments):
                if number not in dict(plan.aliases).values():
                    device.write(reserve(Region.ARGUMENT, number, data.size), data)
            for number, data in enumerate(results):
                address = reserve(Region.RESULT, number, data.size)
                if number in shared:
                    device.write(address, data)
            for result, argument in plan.aliases:
                regions[Region.ARGUMENT, argument] = regions[Region.RESULT, result]
            reserve(Region.ARENA, 0, plan.arena_bytes)
            reserve(Region.SCALARS, 0, plan.scalar_bytes)
            _Run(self, regions, call_host, check).steps(plan.steps)
            for number, data in enumerate(results):
                device.read(regions[Region.RESULT, number], data)


class _Run:
    """One run: where its memory is."""

    def __init__(
        self, program: LoadedProgram, regions: dict[tuple[Region, int], int],
        call_host: CallHost, check: Check,
    ) -> None:  # fmt: skip
        self._device, self._code = program.device, program.code
        self._regions, self._call_host, self._check = regions, call_host, check

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._check()
            self._step(step)

    def _step(self, step: Step) -> None:
        match step:
            case Launch():
                addresses = [self._address(place) for place in step.places]
                self._device.launch(
                    self._code, step.kernel, step.blocks, step.threads, step.shared_bytes,
                    addresses,
                )  # fmt: skip
            case Copy():
                source, target = self._address(step.source), self._address(step.target)
                self._device.copy(target, source, step.size)
            case While():
                self._loop(step)
            case Switch():
                index = int(self._read(step.index, 4).view(np.int32)[0])
                count = len(step.branches)
                self.steps(step.branches[index if 0 <= index < count else count - 1])
            case HostCall():
                self._host(step)

    def _loop(self, loop: While) -> None:
        if loop.trips is not None:
            for _ in range(loop.trips):
                self.steps(loop.body)
            return
        while True:
            self.steps(loop.condition)
            if not self._read(loop.flag, 1)[0]:
                return
            if loop.never_ends:
                raise HloError.at("endless-loop", loop.never_ends)
            self.steps(loop.body)

    def _host(self, call: HostCall) -> None:
        operands = [self._read(place, size) for place, size in call.operands]
        for (place, size), data in zip(
            call.results, self._call_host(call.number, operands), strict=True
        ):
            assert data.size == size, (data.size, size)
            self._device.write(self._address(place), data)

    def _read(self, place: Place, size: int) -> np.ndarray:
        data = np.empty(size, np.uint8)
        self._device.read(self._address(place), data)
        return data

    def _address(self, place: Place) -> int:
        return self._regions[place.region, place.number] + place.offset


@contextmanager
def _memory(device: Device, size: int, name: str) -> Iterator[int]:
    address = device.allocate(max(1, size), name)
    try:
        yield address
    finally:
        device.free(address)


def _octets(array: Any) -> np.ndarray:
    """Return a view of an array as bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
