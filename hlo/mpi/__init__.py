"""Devices in many processes, which communicate by MPI: see docs/mpi.md."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.mpi.world import World

__all__ = ["World"]


def __getattr__(name: str) -> Any:
    # Whoever only asks how many ranks there are needs none of it.
    if name != "World":
        raise AttributeError(f"module 'hlo.mpi' has no attribute {name!r}")
    from hlo.mpi.world import World

    return World


def __dir__() -> list[str]:
    return sorted(__all__)
