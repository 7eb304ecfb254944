"""Values that tests run modules on, and results as lists of arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from hlo.analysis.devices import devices_of
from hlo.analysis.domains import domains_of
from hlo.debug.reduction.interestingness.base import ValidModules
from hlo.errors import HloError
from hlo.eval import run_values
from hlo.io.arguments import Parameter
from hlo.io.inputs import Sampler
from hlo.io.random import Distributions
from hlo.ir import Instruction, Module
from hlo.values.arrays import TOKEN_VALUE, actual
from hlo.values.types import ArrayShape, Shape, TupleShape


class Inputs:
    """What tests run modules on: random values of a seed, or those that are known by name.

    random: distributions; those of names that no parameter has any more say nothing. known: values
    of parameters, and of instructions that parameters take the place of. They are cut to shapes
    that have become smaller, and converted to types that have become simpler.
    """

    def __init__(
        self, seed: int = 0, random: Sequence[str] = (), known: Mapping[str, Any] | None = None
    ) -> None:
        self._seed, self._random, self.known = seed, tuple(random), known or {}

    def of(self, module: Module) -> list[Any]:
        """Return arguments of a module."""
        parameters = [
            Parameter(p.parameter_number, p.name, p.shape) for p in module.entry.parameters
        ]
        fitting = {p.number: _fitted(self.known.get(p.name), p.shape) for p in parameters}
        others = [p for p in parameters if fitting[p.number] is None]
        names = [name for p in others for _, name, _ in p.leaves()]
        distributions = Distributions([text for text in self._random if _says(text, names)])
        made = Sampler(self._seed, distributions, domains_of(module)).values(others)
        fitting |= {p.number: value for p, value in zip(others, made, strict=True)}
        return [fitting[p.number] for p in parameters]

    def __str__(self) -> str:
        digest = sha256()
        for name, value in self.known.items():
            digest.update(name.encode())
            for leaf in leaves(value):
                digest.update(leaf.tobytes())
        known = f" known {digest.hexdigest()}" if self.known else ""
        return f"seed {self._seed} {' '.join(self._random)}{known}"


class OnInputs(ValidModules):
    """A test that runs modules on inputs: the same ones on each of several devices."""

    def __init__(self, inputs: Inputs | None) -> None:
        self.inputs = inputs or Inputs()

    def run_on(
        self, module: Module, arguments: Sequence[Any], seed: int = 0, random: Sequence[str] = ()
    ) -> None:
        """Run modules on arguments of a module, and on what its instructions are on these.

        seed, random: for parameters that neither names.
        """
        self.inputs = Inputs(seed, random, values_by_name(module, arguments))


def values_by_name(module: Module, arguments: Sequence[Any]) -> dict[str, Any]:
    """Return what parameters and other instructions of the entry are on arguments, by name.

    By the interpreter: those that it has computed until an error or for a minute at most, as long
    as they are not too large in all.
    """
    found: dict[str, Any] = {}
    left = _MOST_BYTES

    def observe(inst: Instruction, operands: Sequence[Any], value: Any) -> None:
        nonlocal left
        size = sum(a.nbytes for a in leaves(value))
        if inst.parent is module.entry and size <= left:
            found[inst.name] = value
            left -= size

    with contextlib.suppress(HloError), np.errstate(all="ignore"):
        run_values(module, arguments, timeout=_SECONDS, observe=observe)
    return found | {p.name: arguments[p.parameter_number] for p in module.entry.parameters}


_MOST_BYTES = 1 << 30
_SECONDS = 60


def _fitted(value: Any, shape: Shape) -> Any:
    """Return a value for a shape that may be smaller, or of another type; None if it is no such."""
    if isinstance(shape, TupleShape):
        if not isinstance(value, tuple) or len(value) != len(shape.elements):
            return None
        parts = tuple(_fitted(v, s) for v, s in zip(value, shape.elements, strict=True))
        return None if any(part is None for part in parts) else parts
    if not isinstance(shape, ArrayShape) or shape.is_dynamic or not isinstance(value, np.ndarray):
        return None
    if len(value.shape) != len(shape.dims) or any(
        have < wanted for have, wanted in zip(value.shape, shape.dims, strict=True)
    ):
        return None
    part = value[tuple(slice(size) for size in shape.dims)]
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(part.astype(shape.element_type.dtype)).reshape(shape.dims)


def _says(text: str, names: Sequence[str]) -> bool:
    try:
        Distributions([text]).need_names(names)
    except HloError:
        return False
    return True


def leaves(value: Any) -> list[Any]:
    """Return the arrays of a result, tuples flat, without tokens."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in leaves(element)]
    return [] if value is TOKEN_VALUE else [actual(value)]


def need_one_device(module: Module) -> None:
    """Raise HloError for a module that several devices run together."""
    if devices_of(module) != (1, 1):
        raise HloError.at(
            "several-devices", "this test runs modules of one device",
            hint="a command, as --test and --crash take one, may run hlo-run, which is for any",
        )  # fmt: skip
