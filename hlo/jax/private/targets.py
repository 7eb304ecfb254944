"""Functions that programs register with JAX for custom calls."""

from __future__ import annotations

from typing import Any

# What was registered, by platform and name.
_REGISTERED: dict[str, dict[str, Any]] = {}


def collect_targets(platform: str) -> None:
    """Have what programs register with `jax.ffi` for a platform, and for the CPU, be known here.

    `xla_client.register_custom_call_handler`: `jax.ffi` has no other way to say who takes them. The
    CPU's go on to XLA's registry, `_jax.register_custom_call_target`, as JAX has it when it makes a
    client for the CPU; that registry only tells which functions run, not which make their state.
    """
    from jax._src.lib import _jax, xla_client

    def register(to: str) -> None:
        registered = _REGISTERED.setdefault(to, {})

        def add(
            name: str, function: Any, platform: str, /, api_version: int = 0, traits: Any = None
        ) -> None:
            is_typed = api_version == 1 and not isinstance(function, dict)
            registered[name] = {"execute": function} if is_typed else function
            if to == "cpu":
                given = {} if traits is None else {"traits": traits}
                _jax.register_custom_call_target(name, function, platform, api_version, **given)

        xla_client.register_custom_call_handler(to, add)

    register("cpu")
    register(platform)


def take_cpu_types() -> None:
    """Have XLA know the types of states, also where there is no client for the CPU.

    `xla_client.register_custom_type_handler`, as JAX calls it when it makes one.
    """
    from jax._src.lib import _jax, xla_client

    xla_client.register_custom_type_handler("cpu", _jax.register_custom_type)


def target(platform: str, name: str) -> int | dict[str, int] | None:
    """Return a function that was registered for a platform, else for the CPU.

    It is an address, or for the typed FFI the addresses of its stages; None if there is none.
    `xla_client.custom_call_targets` has jaxlib's own: `jax.ffi` only registers functions.
    """
    from jax._src.lib import xla_client

    found = None
    for known in (_REGISTERED.get(platform, {}), _REGISTERED.get("cpu", {})):
        found = known.get(name) if found is None else found
    if found is None:
        found = xla_client.custom_call_targets("cpu").get(name)
    if isinstance(found, dict):
        return {stage: _address(capsule) for stage, capsule in found.items()}
    return None if found is None else _address(found)


def _address(capsule: Any) -> int:
    """Return the address in a capsule, whatever its name is."""
    import ctypes

    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return pointer_of(capsule, name_of(capsule)) or 0
