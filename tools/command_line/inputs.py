"""Inputs of a module as a file that `--inputs` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.ir import Module


def write_inputs(path: str, module: Module, values: Sequence[Any]) -> None:
    """Write values of a module's parameters to an npz, by name. Raises HloError."""
    from hlo.debug.trace.leaves import leaves
    from hlo.io.files import write_npz

    arrays = {}
    for parameter, value in zip(module.entry.parameters, values, strict=True):
        for leaf, array in leaves(value):
            arrays[".".join([parameter.name, *map(str, leaf)])] = array
    write_npz(path, arrays)
