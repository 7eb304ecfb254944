"""The arrays of a value: those of a tuple one by one, without tokens; and files of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hlo.io.files import write_npz
from hlo.ir import Module
from hlo.values.arrays import DynamicArray


def leaves(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yield the arrays of a value with their index paths, those of dynamic size as they are."""
    if isinstance(value, tuple):
        for n, part in enumerate(value):
            yield from leaves(part, (*path, n))
    elif isinstance(value, DynamicArray):
        yield path, value.actual
    elif isinstance(value, (np.ndarray, np.generic)):
        yield path, np.asarray(value)


def write_inputs(path: str, module: Module, values: Sequence[Any]) -> None:
    """Write values of a module's parameters to an npz, as `--inputs` takes it. Raises HloError."""
    arrays = {}
    for parameter, value in zip(module.entry.parameters, values, strict=True):
        for leaf, array in leaves(value):
            arrays[".".join([parameter.name, *map(str, leaf)])] = array
    write_npz(path, arrays)
