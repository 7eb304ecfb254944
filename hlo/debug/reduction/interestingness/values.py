"""Values that tests run modules on, and results as lists of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.analysis.devices import devices_of
from hlo.analysis.domains import domains_of
from hlo.errors import HloError
from hlo.io.arguments import Parameter
from hlo.io.inputs import Sampler
from hlo.io.random import Distributions
from hlo.ir import Module
from hlo.values.arrays import TOKEN_VALUE, actual


def inputs_of(module: Module, seed: int, random: Sequence[str] = ()) -> list[Any]:
    """Return random arguments of a module, as `hlo-run` makes them.

    random: distributions; those of names that no parameter has any more say nothing.
    """
    parameters = [Parameter(p.parameter_number, p.name, p.shape) for p in module.entry.parameters]
    names = [name for p in parameters for _, name, _ in p.leaves()]
    distributions = Distributions([text for text in random if _says(text, names)])
    return Sampler(seed, distributions, domains_of(module)).values(parameters)


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
            hint="--test 'hlo-run {} --check' --test-exit 1 is for any",
        )  # fmt: skip
