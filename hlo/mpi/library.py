"""The MPI library, by mpi4py: found, begun and asked how many ranks there are."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from hlo.errors import HloError

# How launchers tell a process how many ranks there are, and which one it is.
_LAUNCHERS = (
    ("PMI_SIZE", "PMI_RANK"),  # MPICH, Intel MPI, Slurm
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
    ("SLURM_NTASKS", "PMIX_RANK"),
)


def launched_ranks() -> tuple[int, int]:
    """Return the number of ranks that a launcher such as mpiexec has started, and our own.

    Without a launcher that is rank 0 of 1. MPI is not loaded.
    """
    for size, rank in _LAUNCHERS:
        found = os.environ.get(size, ""), os.environ.get(rank, "")
        if all(text.isdecimal() for text in found):
            return int(found[0]), int(found[1])
    return 1, 0


def library(several_threads: bool) -> Any:
    """Return mpi4py's MPI, begun.

    several_threads: several may call it at the same time; else one at a time, which makes small
    messages twice as fast. Raises HloError where mpi4py or the library is missing, and where the
    library is not that of the launcher.
    """
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = False
        from mpi4py import MPI
    except ImportError as e:
        raise HloError.at(
            "missing-extra", f"runs on several ranks need mpi4py: {e}",
            hint="pip install 'hlo-tools[mpi]'",
        ) from None  # fmt: skip
    except RuntimeError as e:
        first = str(e).splitlines()[0] if str(e) else "no reason given"
        raise HloError.at(
            "missing-extra", f"mpi4py finds no MPI library: {first}",
            hint="pip install mpich, or put the directory of libmpi into LD_LIBRARY_PATH",
        ) from None  # fmt: skip
    needed, name = (
        (MPI.THREAD_MULTIPLE, "MULTIPLE") if several_threads else
        (MPI.THREAD_SERIALIZED, "SERIALIZED")
    )  # fmt: skip
    if not MPI.Is_initialized():
        _begin(MPI, needed)
    size, _ = launched_ranks()
    if size > 1 and MPI.COMM_WORLD.size != size:
        name = MPI.Get_library_version().splitlines()[0].strip("\0 ")
        raise HloError.at(
            "mpi-failed", f"the launcher has started {size} ranks, the MPI library of mpi4py sees "
            f"{MPI.COMM_WORLD.size}", hint=f"use the mpiexec of that library: {name}",
        )  # fmt: skip
    if MPI.Query_thread() < needed:
        raise HloError.at(
            "mpi-failed", f"MPI was begun without MPI_THREAD_{name}",
            hint="begin it at that level, or have one device a process" if several_threads else
            "begin it at that level: mpi4py.rc.thread_level",
        )  # fmt: skip
    return MPI


def _begin(mpi: Any, level: int) -> None:
    """Begin MPI, which waits for all ranks. mpi4py would keep Python's other threads waiting too,
    one of which is to end this process if some never come."""
    provided = ctypes.c_int()
    ctypes.CDLL(mpi.__file__).MPI_Init_thread(None, None, level, ctypes.byref(provided))
    for comm in (mpi.COMM_SELF, mpi.COMM_WORLD):
        comm.Set_errhandler(mpi.ERRORS_RETURN)
