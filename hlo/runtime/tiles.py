"""Permission to use the tile registers of AMX, which Linux gives a process that asks for it."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

# The system call, what it asks for, and the number of the tile data among the parts of the state.
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18


@cache
def tiles_are_permitted() -> bool:
    """Ask for the tile registers of an x86-64 processor that has them; False if refused.

    Threads and what is forked have the permission too. Elsewhere than on Linux nobody is asked, and
    the answer is False.
    """
    if not sys.platform.startswith("linux"):
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    numbers = (ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA)
    return bool(call(*map(ctypes.c_long, numbers)) == 0)
