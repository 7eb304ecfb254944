"""The native code, compiled once a machine, and loaded into this process."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache

from hlo.compiler.keys import versions
from hlo.pjrt.interface import interface
from hlo.runtime.cache import Cache, digest
from hlo.runtime.jit import Machine, NativeCode, host_machine

# What Python calls or sets besides entries.
_FUNCTIONS = (
    "error_new", "event_new", "event_release", "event_complete", "event_wait", "block_new",
    "block_release", "block_of", "buffer_new", "programs_dead", "devices_start",
)  # fmt: skip
_VARIABLES = ("python_function", "ending_thread", "default_layouts")


def ir(machine: Machine) -> str:
    """Return the LLVM IR."""
    from hlo.pjrt.native import (
        buffers,
        devices,
        ends,
        errors,
        events,
        layouts,
        memory,
        programs,
        python,
        run,
        runs,
    )  # fmt: skip
    from hlo.pjrt.native.writer import Code

    code = Code(machine.triple, machine.data_layout)
    parts = (
        errors, events, memory, devices, buffers, layouts, programs, run, runs, ends, python
    )  # fmt: skip
    for part in parts:
        part.write(code)
    return code.module.to_text()


@cache
def addresses() -> Mapping[str, int]:
    """Return the addresses of all entries (`PJRT_...`), and of what Python calls and sets.

    The code stays for ever: JAX's runtime calls it even after Python has ended.
    """
    machine = host_machine()
    parts = ["pjrt", *machine.names, *versions()]
    key, store = digest(part.encode() for part in parts), Cache()
    code = store.get_part(key)
    if code is None:
        code = machine.object_code(machine.optimize(ir(machine)))
        store.put_part(key, code)
    entries = (f"PJRT_{name}" for name in interface().arguments)
    native = NativeCode([code], *entries, *_FUNCTIONS, *_VARIABLES)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
    return native.addresses
