"""PJRT's table of functions, in memory, as JAX's runtime gets it."""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any

from hlo.errors import HloError
from hlo.pjrt import client
from hlo.pjrt.entries import ENTRIES, ENTRY_NAMES, ErrorCode, PjrtError, code_of
from hlo.pjrt.interface import Struct, interface, struct
from hlo.pjrt.native.code import addresses
from hlo.pjrt.records import Failure

_CALL = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int64, ctypes.c_size_t)
_POINTER_BYTES = 8
# What daemon threads get to reach a program in, where the main thread holds them back.
_ENDING_SECONDS = 0.05


# The entries that some thread is in.
_entered: list[str] = []


def _call(number: int, address: int) -> int:
    """Call a Python entry on the arguments at an address; returns the address of an error, or 0."""
    name = ENTRY_NAMES[number]
    kind: type[Struct] = interface().arguments.get(name, Failure)
    _entered.append(name)
    try:
        function = ENTRIES.get(name) or _deferred(name)
        if function is None:
            raise PjrtError("UNIMPLEMENTED", f"PJRT_{name} is not implemented by hlo-tools")
        function(kind.from_address(address))
        return 0
    except PjrtError as e:
        return _error(e.code, e.message)
    except HloError as e:
        return _error(ErrorCode[code_of(e, "INVALID_ARGUMENT")], str(e))
    except BaseException:
        return _error(ErrorCode["INTERNAL"], traceback.format_exc())
    finally:
        _entered.pop()


def _deferred(name: str) -> Callable[[Any], None] | None:
    """Return an entry of the files that programs need: they import the whole compiler."""
    from hlo.pjrt import compile, layouts, serialized, shardings, transfers  # noqa: F401

    return ENTRIES.get(name)


@cache
def _error_new() -> Any:
    function = ctypes.CFUNCTYPE(
        ctypes.c_size_t, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64
    )  # fmt: skip
    return function(addresses()["error_new"])


def _error(code: int, message: str) -> int:
    text = message.encode()
    made: int = _error_new()(code, text, len(text))
    return made


def _kept(thing: Any) -> Any:
    """Keep something for ever: JAX's runtime uses it after Python has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def _extensions() -> int:
    """Return the address of the first extension of the table."""
    following = 0
    base = interface().structs["Extension_Base"]
    for extension in interface().extensions.values():
        count = len(extension.calls)
        memory = _kept((ctypes.c_char * (ctypes.sizeof(base) + _POINTER_BYTES * count))())
        at = ctypes.addressof(memory)
        head = base.from_address(at)
        head.struct_size, head.type, head.next = len(memory), extension.number, following
        table = (ctypes.c_size_t * count).from_address(at + ctypes.sizeof(base))
        table[:] = [addresses()[f"PJRT_{name}"] for name in extension.calls]
        following = at
    return following


@cache
def api() -> int:
    """Return the address of the table, `PJRT_Api`, which stays valid for ever."""
    calls = interface().calls
    version = interface().structs["Api_Version"]
    fields = ["struct_size:i64", "extension_start:ptr", "version:Version"]
    kind = struct("Api", [*fields, *(f"{name}:ptr" for name in calls)], {"Version": version})
    table: Any = _kept(kind())
    table.struct_size = ctypes.sizeof(kind)
    table.extension_start = _extensions()
    table.version.struct_size = ctypes.sizeof(version)
    table.version.major_version, table.version.minor_version = 0, interface().minor
    for name in calls:
        setattr(table, name, addresses()[f"PJRT_{name}"])
    ctypes.CFUNCTYPE(None)(addresses()["devices_start"])()
    callback = _kept(_CALL(_call))
    function = ctypes.c_size_t.from_address(addresses()["python_function"])
    function.value = ctypes.cast(callback, ctypes.c_void_p).value or 0
    atexit.register(_end)
    return ctypes.addressof(table)


def _end() -> None:
    """Wait for what runs, and have native code neither call Python nor return to it any more.

    Other threads may go on until they run a program; those of the interpreter that never do are not
    waited for.
    """
    known = addresses()
    if len(threading.enumerate()) > 1:
        ctypes.c_int64.from_address(known["ending_thread"]).value = threading.get_ident()
        time.sleep(_ENDING_SECONDS)
        while _entered:
            time.sleep(_ENDING_SECONDS)
    client.wait_for_devices()
    ctypes.c_size_t.from_address(known["python_function"]).value = 0


@cache
def capsule() -> Any:
    """Return the table as JAX's `register_plugin` takes it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(api(), _kept(b"pjrt_c_api"), None)
