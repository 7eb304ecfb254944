"""Sharding propagation: a sharding for each array of a module, from those that are annotated."""

from hlo.spmd.propagation.propagate import propagate
from hlo.spmd.propagation.result import PropagationResult
from hlo.spmd.propagation.shardy import has_meshes

__all__ = ["PropagationResult", "has_meshes", "propagate"]


def __dir__() -> list[str]:
    return sorted(__all__)
