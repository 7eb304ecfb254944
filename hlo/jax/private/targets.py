"""Functions that programs register with JAX for custom calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

# Of platforms other than those of XLA's registry: `name -> what was registered`.
_OWN: dict[str, dict[str, Any]] = {}


def collect_targets(platform: str) -> None:
    """Have `jax.ffi.register_ffi_target(name, function, platform=...)` work for a platform.

    `xla_client.register_custom_call_handler`: `jax.ffi` has no other way to say who takes them.
    """
    from jax._src.lib import xla_client

    own = _OWN.setdefault(platform, {})

    def add(
        name: str, function: Any, platform: str, /, api_version: int = 0, traits: Any = None
    ) -> None:
        is_typed = api_version == 1 and not isinstance(function, dict)
        own[name] = {"execute": function} if is_typed else function

    xla_client.register_custom_call_handler(platform, add)


def target(platform: str, name: str) -> int | dict[str, int] | None:
    """Return a function that was registered for a platform, else for the CPU.

    It is an address, or for the typed FFI the addresses of its stages; None if there is none.
    `xla_client.custom_call_targets`: `jax.ffi` only registers them.
    """
    from jax._src.lib import xla_client

    found = _OWN.get(platform, {}).get(name)
    if found is None:
        found = xla_client.custom_call_targets("cpu").get(name)
    if isinstance(found, dict):
        return {stage: _address(capsule) for stage, capsule in found.items()}
    return None if found is None else _address(found)


_name: Callable[[Any], bytes | None] = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer: Callable[[Any, bytes | None], int] = ctypes.PYFUNCTYPE(
    ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _address(capsule: Any) -> int:
    return _pointer(capsule, _name(capsule)) or 0
