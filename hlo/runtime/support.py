"""Native code that all programs share: the watch over a call, and the thread pool."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from functools import cache

from hlo.runtime import quick, watch
from hlo.runtime.jit import Machine, NativeCode
from hlo.runtime.pool import pool_ir


@cache
def support_code(machine: Machine) -> bytes:
    """Return the object file of these functions."""
    pool = pool_ir(machine) if os.name == "posix" else ""
    return machine.quick_code(watch.IR + quick.IR + pool)


class Support:
    """The functions, loaded into this process.

    call: runs the watch at an address, with the GIL held; returns the status of the program's
    entry or a `watch.Ended`. called: addresses of the functions that programs call, by symbol.
    """

    def __init__(self, code: bytes) -> None:
        pool = ("pool_run", "pool_start") if os.name == "posix" else ()
        native = NativeCode([code], *watch.SYMBOLS, "quick_call", *pool)
        # Workers of a pool run this code for as long as the process lives.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
        self.addresses: Mapping[str, int] = native.addresses
        self.called = {name: native.addresses[name] for name in watch.CALLED}
        # ctypes.PyDLL functions keep the GIL, and raise the exception that is set on return.
        call = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
        self.call: Callable[[int], int] = call(native.addresses["watch_call"])
        if "watch_start" in native.addresses:
            ctypes.CFUNCTYPE(ctypes.c_int32)(native.addresses["watch_start"])()
            self.set_main_thread(threading.main_thread().ident)

    def set_main_thread(self, ident: int | None) -> None:
        """Record the thread in which Python handles signals."""
        if "watch_main_thread" in self.addresses:
            at = self.addresses["watch_main_thread"]
            ctypes.c_uint64.from_address(at).value = ident or 0


_loaded: dict[bytes, Support] = {}
_lock = threading.Lock()


def support(code: bytes) -> Support:
    """Return the functions of an object file that `support_code` made, loaded once."""
    found = _loaded.get(code)
    if found is None:
        with _lock:
            found = _loaded.get(code)
            if found is None:
                found = _loaded[code] = Support(code)
    return found


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for loaded in _loaded.values():
        loaded.set_main_thread(threading.get_ident())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
