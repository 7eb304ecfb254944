"""For programs that use JAX: `import hlo.jax`.

Names load their part of the package, and JAX, on first use. A file of this package is not called
like a public name: importing it would hide the name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.jax.clients import backend
    from hlo.jax.reports import find_nan, first_divergence, profile
    from hlo.jax.transforms import Transform, TransformRun, transform

# Public names by the module that has them.
_HOMES = {
    "hlo.jax.clients": ("backend",),
    "hlo.jax.reports": ("find_nan", "first_divergence", "profile"),
    "hlo.jax.transforms": ("Transform", "TransformRun", "transform"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Transform",
    "TransformRun",
    "backend",
    "find_nan",
    "first_divergence",
    "profile",
    "transform",
]


if not TYPE_CHECKING:  # what checks types is to know which names there are

    def __getattr__(name: str) -> Any:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'hlo.jax' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
