"""Runs kernels that are written by hand on the SIMT machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hlo.errors import HloError
from hlo.gpu.simt import SimtDevice

_HEADER = ".version 7.8\n.target sm_90\n.address_size 64\n"
_REGISTERS = """
    .reg .pred %p<16>;
    .reg .b16 %h<16>;
    .reg .b32 %r<32>;
    .reg .b64 %rd<32>;
"""


def kernel(body: str, parameters: int = 2, shared: str = "") -> str:
    """Return the text of a kernel `k`: its parameters are in %rd1, %rd2, ..., its thread's number
    in %r1, its block's in %r2, and the number in the grid times 4 in %rd30."""
    listed = ",\n".join(f".param .u64 k_param_{n}" for n in range(parameters))
    loads = "\n".join(
        f"ld.param.b64 %rd{n + 1}, [k_param_{n}];\ncvta.to.global.u64 %rd{n + 1}, %rd{n + 1};"
        for n in range(parameters)
    )
    who = """
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd30, %r4, 4;
    """
    return (
        f"{_HEADER}{shared}\n.visible .entry k(\n{listed}\n)\n{{\n{_REGISTERS}{loads}{who}"
        f"{body}\nret;\n}}\n"
    )


class Run:
    """A launch of kernel `k`: what its arrays hold after it."""

    def __init__(
        self, text: str, arrays: Sequence[np.ndarray | int], blocks: int = 1, threads: int = 32,
        shared_bytes: int = 0, device: SimtDevice | None = None,
    ) -> None:  # fmt: skip
        """arrays: or the size in bytes of one without values."""
        self.device = device if device is not None else SimtDevice(limit=100_000)
        code = self.device.load(text)
        addresses = []
        for n, array in enumerate(arrays):
            size = array if isinstance(array, int) else array.nbytes
            addresses.append(self.device.allocate(size, f"array {n}"))
            if not isinstance(array, int):
                self.device.write(addresses[-1], array.reshape(-1).view(np.uint8))
        self.addresses = addresses
        self.device.launch(code, "k", blocks, threads, shared_bytes, addresses, "x.1")

    def array(self, number: int, count: int, dtype: type = np.uint32) -> np.ndarray:
        data = np.empty(count * np.dtype(dtype).itemsize, np.uint8)
        self.device.read(self.addresses[number], data)
        return data.view(dtype)


def problem(text: str, arrays: Sequence[np.ndarray | int], **launch: int) -> str:
    """Return the code and the message of the problem that a launch has."""
    with pytest.raises(HloError) as caught:
        Run(text, arrays, **launch)
    found = caught.value.diagnostics[0]
    return f"{found.code}: {found.message}"
