"""Commands on several MPI ranks, and programs on their devices beside the same in one process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.compiler.backends import load
from hlo.compiler.pipeline import on_host
from hlo.host import Host, run_together
from hlo.mpi.world import World
from hlo.values.literal import Literal
from tests.harness.oracle import leaves
from tests.harness.paths import ROOT
from tests.harness.processes import HANG_S
from tests.harness.replicas import Program

_BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(_BESIDE) if _BESIDE.exists() else shutil.which("mpiexec")
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="no mpi4py, or no mpiexec: pip install mpi4py mpich",
)


def mpiexec(
    ranks: int, *command: str, timeout: float = HANG_S, cwd: Path = ROOT, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of Python's (`-m hlo run ...`) on several ranks."""
    assert MPIEXEC is not None
    return subprocess.run(
        [MPIEXEC, "-n", str(ranks), sys.executable, *command], cwd=cwd, capture_output=True,
        text=True, timeout=timeout, env=os.environ | {"PYTHONPATH": str(ROOT), **env},
    )  # fmt: skip


def run_on_ranks(program: Program, backend: str, world: World) -> list[list[np.ndarray]]:
    """Return the leaves of the results on the devices of this rank."""
    text, counts, arrays = program
    module = hlo.parse(text)
    hosts = [Host() for _ in world.devices]
    if backend == "compiled":
        executable = hlo.compile(module, cache=False, host=hosts[0])
        starts: list[Any] = [on_host(executable, host).run_values for host in hosts]
    else:
        loaded = load(module, backend)
        starts = [partial(_called, loaded.on(host)) for host in hosts]
    runs = [
        partial(start, [a[device] for a in arrays])
        for start, device in zip(starts, world.devices, strict=True)
    ]
    results = run_together(hosts, counts, runs, world)
    return [[np.asarray(v) for v in leaves(Literal.of(r).value)] for r in results]


def _called(run: Any, values: Sequence[Any]) -> Any:
    return run(values, None)


def same_bits(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> bool:
    """True if arrays are equal, NaN and the sign of zero included."""
    return len(got) == len(want) and all(
        g.dtype == w.dtype and g.shape == w.shape and g.tobytes() == w.tobytes()
        for g, w in zip(got, want, strict=True)
    )
