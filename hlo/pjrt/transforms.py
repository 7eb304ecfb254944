"""PJRT's extension for transformations: functions of the caller that change modules.

`jax.extend.xla.register_hlo_module_transformation` registers one with XLA and with each plug-in.
XLA's stages are those before and after its scheduler; both are here before our passes, on what each
device runs.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from hlo.pjrt.entries import ErrorCode, PjrtError, bytes_at, entry
from hlo.pjrt.interface import interface, struct

if TYPE_CHECKING:
    from hlo.ir import Module

_VERSION = 1
_STRUCTS = interface().structs
_Callbacks = _STRUCTS["XlaTransform_Callbacks"]
_Args = struct(
    "XlaTransform_Args",
    [
        "struct_size:i64", "header:XlaTransform_version_and_error",
        "hlo_module:XlaTransform_string", "transformed_hlo_module:XlaTransform_string",
        "changed:i8",
    ],
    _STRUCTS,
)  # fmt: skip
_TRANSFORM = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t)
_END = ctypes.CFUNCTYPE(None, ctypes.c_size_t)

# By stage and name, in the order in which they were registered: the addresses of callbacks.
TRANSFORMS: dict[tuple[int, str], int] = {}


@entry("Register_Xla_Transform")
def _register(args: Any) -> None:
    name = bytes_at(args.name, args.name_size).decode(errors="replace")
    if not args.callbacks:
        raise PjrtError("INVALID_ARGUMENT", f"the transformation {name!r} has no callbacks")
    TRANSFORMS[args.stage, name] = args.callbacks


@entry("Clear_Xla_Transform")
def _clear(args: Any) -> None:
    name = bytes_at(args.name, args.name_size).decode(errors="replace")
    address = TRANSFORMS.pop((args.stage, name), 0)
    args.cleared = bool(address)
    if address and (end := _Callbacks.from_address(address).dtor):
        _END(end)(address)


def transformed(module: Module) -> Module:
    """Return what the registered functions make of a module. Raises PjrtError or HloError."""
    for (_, name), address in sorted(TRANSFORMS.items(), key=lambda item: item[0][0]):
        module = _transformed(module, name, address)
    return module


def _transformed(module: Module, name: str, address: int) -> Module:
    from hlo.frontends.proto import from_proto, to_proto

    function = _Callbacks.from_address(address).transform_hlo_module
    if not function:
        return module
    given = to_proto(module)
    memory = ctypes.create_string_buffer(given, len(given))
    args: Any = _Args(struct_size=ctypes.sizeof(_Args))
    args.header.api_version = _VERSION
    args.hlo_module.data, args.hlo_module.size = ctypes.addressof(memory), len(given)
    _TRANSFORM(function)(address, ctypes.addressof(args))
    header = args.header
    try:
        if header.has_error:
            said = bytes_at(header.error_msg.data, header.error_msg.size).decode(errors="replace")
            raise PjrtError(ErrorCode(header.code).name, f"transformation {name!r}: {said}")
        if not args.changed:
            return module
        result = args.transformed_hlo_module
        made = from_proto(bytes_at(result.data, result.size), f"transformation {name!r}")
    finally:
        if header.cleanup_fn:
            _END(header.cleanup_fn)(header.data)
    made.custom_calls.update(module.custom_calls)
    return made
