"""The memory that this process holds, and the high-water mark of a run."""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING

from hlo.codegen.entry.buffers import Origin
from hlo.errors import HloError

if TYPE_CHECKING:
    from hlo.codegen.pipeline import PlannedProgram
    from hlo.ir import Module


def reset_peak() -> int:
    """Start to measure the peak of this process's memory anew; returns what it holds now.

    Raises HloError where the system does not let it.
    """
    try:
        # What was freed goes back to the system, or its use would not show.
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except (OSError, AttributeError) as e:
        raise HloError.at(
            "unsupported", f"this system does not measure the memory of a process: {e}"
        ) from None
    return status_bytes("VmRSS")


def status_bytes(field: str) -> int:
    """Return a number of /proc/self/status in bytes."""
    with open("/proc/self/status") as file:
        found = re.search(rf"{field}:\s*(\d+) kB", file.read())
    assert found
    return int(found[1]) << 10


def measured_bytes(module: Module, passes: str, verify: str, planned: PlannedProgram) -> int:
    """Return the high-water mark of a first run on random inputs, arguments and constants included.

    Raises HloError.
    """
    from hlo.compiler.pipeline import compile
    from hlo.io.inputs import Sampler

    run = compile(module, cache=False, passes=passes, verify=verify)
    values = Sampler(domains=run.domains).values(list(run.parameters))
    before = reset_peak()
    run.run_values(values)
    fixed = (Origin.PARAMETER, Origin.SHARED, Origin.CONSTANT)
    given = sum(b.size_bytes for b in planned.assignment.buffers if b.origin in fixed)
    return status_bytes("VmHWM") - before + given
