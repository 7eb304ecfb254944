"""What this package uses of JAX that is not public: no other files name anything private.

Each use says which name, and why there is no public one. Tested with JAX 0.10.2, 0.11.0 and
0.12.0.1. `backends.py` is part of every program with JAX: it imports nothing of ours, and of JAX
what is loaded by then.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

# The name of the backend, as in `JAX_PLATFORMS=hlo` and `jax.devices("hlo")`.
NAME = "hlo"


def need_jax(user: str) -> ModuleType:
    """Return JAX. Raises HloError (`missing-extra`) where it is not installed.

    user: the function that needs it, as users call it.
    """
    try:
        import jax
    except ImportError:
        from hlo.errors import HloError

        raise HloError.at(
            "missing-extra", f"{user} needs JAX, which is not installed", None,
            "pip install 'hlo-tools[jax]'",
        ) from None  # fmt: skip
    return jax


def static_arguments(function: Any) -> tuple[set[int], set[str]]:
    """Return the numbers and the names of the static arguments of a jitted function.

    `_jit_info` of what `jax.jit` returns, as tracing does not say which arguments it left out.
    """
    info = getattr(function, "_jit_info", None)
    return set(getattr(info, "static_argnums", ())), set(getattr(info, "static_argnames", ()))
