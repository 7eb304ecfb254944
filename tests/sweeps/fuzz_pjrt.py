"""Calls of PJRT's table with bad arguments: none may crash where the interface allows an error.

    python -m tests.sweeps.fuzz_pjrt --count 20000

Handles are null, live, destroyed, or of another kind; structs are too small; numbers are any. Other
addresses are null, or of memory that is there, since nobody can tell whether an address is valid.
A process makes many calls; one that crashes is reported with its seed and its last call.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import random
import subprocess
import sys
from typing import Any

_PER_PROCESS = 2000
# What fields of these names point to. Others are memory.
_HANDLES = {
    "buffer": "buffer", "src": "buffer", "alias_buffer": "buffer", "event": "event",
    "device": "device", "dst_device": "device", "execute_device": "device", "memory": "memory",
    "dst_memory": "memory", "client": "client", "executable": "executable",
    "loaded_executable": "executable", "topology": "topology", "layout": "layout",
    "topology_description": "topology", "device_description": "description",
    "transfer_manager": "manager",
}  # fmt: skip
_MADE = {"dst_buffer": "buffer", "done_with_host_buffer": "event"}
# These destroy what they get, or have no error to return.
_NO_ERROR = {"Error_Destroy", "Error_Message"}
# These end the client of all other calls, wait for ever, or run any address as code.
_LEFT_OUT = {"Client_Destroy", "Event_Await", "Register_Custom_Partitioner", "FFI_Register_Handler"}
_PROGRAM = """func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %b : tensor<2xf32>
  return %0 : tensor<2xf32>
}"""
_SIZES = (0, 0, 1, 2, 3)
_NUMBERS = (*_SIZES, -1, 7, 63, 1 << 31, 1 << 40, -(1 << 62))


class Caller:
    """Makes calls, and keeps the handles that they return."""

    def __init__(self, seed: int) -> None:
        from hlo.pjrt.interface import interface
        from tests.harness.pjrt import call, client, compiled, device

        self.random = random.Random(seed)
        self.interface, self.call = interface(), call
        self.memory = (ctypes.c_int64 * 4096)()
        for n in range(0, 4096, 2):
            self.memory[n] = n % 5
        self.live: dict[str, list[int]] = {
            "client": [client()], "executable": [compiled(_PROGRAM)],
            "device": [device(0), device(1)],
        }  # fmt: skip

    def address(self) -> int:
        return self.random.choice((0, ctypes.addressof(self.memory)))

    def handle(self, kind: str) -> int:
        """Return a handle, mostly one of a kind."""
        others = [h for handles in self.live.values() for h in handles]
        live = self.live.get(kind) or others
        choices = [
            0,
            self.random.choice(live),
            self.random.choice(live),
            self.random.choice(others),
        ]
        return self.random.choice([*choices, ctypes.addressof(self.memory)])

    def fields(self, name: str) -> dict[str, Any]:
        """Return random arguments."""
        types = self.interface.arguments[name].types
        found: dict[str, Any] = {}
        for field, type_ in types.items():
            if field in ("struct_size", "extension_start"):
                continue
            if field in _HANDLES and type_ == "ptr":
                found[field] = self.handle(_HANDLES[field])
            elif type_ == "ptr" and "callback" not in field and "deleter" not in field:
                found[field] = self.address()
            elif type_ == "i64":
                is_size = "size" in field or field.startswith("num_")
                found[field] = self.random.choice(_SIZES if is_size else _NUMBERS)
            elif type_ == "i32":
                found[field] = self.random.choice((0, 1, 2, 3, 11, 25, -1, 1000))
        return found

    def step(self) -> None:
        """Make a call, which may fail."""
        from tests.harness.pjrt import Failed

        name = self.random.choice(
            [n for n in self.interface.arguments if n not in _NO_ERROR | _LEFT_OUT]
        )
        given = self.fields(name)
        size = self.random.choice((None, None, None, 0, 8, 24))
        print(name, given, size, file=sys.stderr, flush=True)
        try:
            args = self.call(name, size, **given)
        except Failed:
            return
        for field, kind in {**_HANDLES, **_MADE}.items():
            made = getattr(args, field, 0)
            if (
                isinstance(made, int)
                and made
                and made != given.get(field)
                and made != ctypes.addressof(self.memory)
            ):
                self.live.setdefault(kind, []).append(made)


def _process(seed: int, count: int) -> None:
    faulthandler.enable()
    caller = Caller(seed)
    for _ in range(count):
        caller.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here is not None:
        _process(args.here, args.count)
        return
    crashes = 0
    processes = -(-args.count // _PER_PROCESS)
    for seed in range(args.seed, args.seed + processes):
        command = [sys.executable, "-m", "tests.sweeps.fuzz_pjrt", "--here", str(seed)]
        done = subprocess.run(
            [*command, "--count", str(_PER_PROCESS)], capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            crashes += 1
            print(f"seed {seed} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    print(f"{processes * _PER_PROCESS} calls in {processes} processes, {crashes} crashes")
    sys.exit(1 if crashes else 0)


if __name__ == "__main__":
    main()
