"""What this package uses of JAX that is not public: no other file names anything private.

Each function says which name it uses and why there is no public one. Tested with 0.10.2.
"""

from __future__ import annotations

from types import ModuleType

from hlo.errors import HloError


def need_jax(user: str) -> ModuleType:
    """Return JAX. Raises HloError (`missing-extra`) where it is not installed.

    user: the function that needs it, as users call it.
    """
    try:
        import jax
    except ImportError:
        raise HloError.at(
            "missing-extra", f"{user} needs JAX, which is not installed", None,
            "pip install 'hlo-tools[jax]'",
        ) from None  # fmt: skip
    return jax
