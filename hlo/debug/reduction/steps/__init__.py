"""The steps of a reduction, in the order in which they run: a file each."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

from hlo.ir import Module


class Step(Protocol):
    """One way to make a module simpler: a file of this package.

    Names of targets are all that is handed on: the module that they are of may be copied.
    """

    def targets(self, module: Module) -> list[str]:
        """Return what can be changed; neighbours are tried together."""

    def apply(self, module: Module, targets: Sequence[str]) -> bool:
        """Change a module in place; False if none of the targets is there any more.

        The module may be invalid afterwards: then the change is not made.
        """


ORDER = (
    "instructions", "outputs", "simplification", "calls", "state", "nested", "bypasses", "shapes",
    "parameters", "header", "constants", "types", "attributes", "annotations", "layouts", "names",
)  # fmt: skip

# Steps that look at what operations say of their shapes, as valid ones do.
NEED_VALID = frozenset({"calls", "nested", "shapes", "simplification", "state"})


def steps() -> list[tuple[str, Step]]:
    """Return the steps by name, in order."""
    found = []
    for name in ORDER:
        found.append((name, importlib.import_module(f"{__name__}.{name}")))
    return found  # type: ignore[return-value]
