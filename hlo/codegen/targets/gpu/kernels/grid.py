"""A thread for each of a number of things to do."""

from __future__ import annotations

from collections.abc import Callable

from hlo.codegen.llvm import Index
from hlo.codegen.loops.kernel import Kernel
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.block import Block

_THREADS = 256


def over_threads(k: Kernel, count: int, body: Callable[[Index], None]) -> Grid:
    """Emit the body for one number below a count, the thread's own; returns the grid."""
    assert isinstance(k.target, Gpu)
    b, lanes = k.b, k.target.lanes
    threads = min(_THREADS, -(-count // lanes) * lanes)
    # Both versions of code with rare cases would be run by most warps.
    b.is_careful = True
    at = Block(b, k.target).global_index(threads)
    with b.when(b.compare("slt", at, count)):
        body(at)
    return Grid(count, 1.0, -(-count // threads), threads)
