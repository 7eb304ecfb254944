"""Exceptions of code that users bring: passes, custom calls, backends of other packages."""

from __future__ import annotations

import importlib
import inspect
import os
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from hlo.errors import HloError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# What imports a file runs before the file's own code.
_MACHINERY = ("<frozen ", os.path.dirname(importlib.__file__) + os.sep)


def located(error: BaseException, skipped: str = "") -> str:
    """Return `FILE:LINE: TYPE: message` of an exception that code outside this package raised.

    The file is the one that was called, or executed; the line is the innermost one of it. Without
    such a file the text is `TYPE: message`. skipped: the files of modules do not count whose names
    have this prefix.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    message = error.diagnostics[0].message if isinstance(error, HloError) else str(error)
    text = f"{type(error).__name__}: {message}".rstrip(": ")
    names = [_module_name(frame) for frame, _ in traceback.walk_tb(error.__traceback__)]
    frames = [
        frame
        for name, frame in zip(names, traceback.extract_tb(error.__traceback__), strict=True)
        if _is_outside(frame.filename) and not (skipped and name.startswith(skipped))
    ]
    if not frames:
        return text
    last = [f for f in frames if f.filename == frames[0].filename][-1]
    return f"{last.filename}:{last.lineno}: {text}"


def _is_outside(file: str) -> bool:
    return not (file.startswith(_MACHINERY) or os.path.abspath(file).startswith(_PACKAGE))


def is_raised_in(error: BaseException, module_prefix: str) -> bool:
    """Return whether code of a module whose name has a prefix was running at an exception."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(_module_name(f).startswith(module_prefix) for f, _ in frames)


def _module_name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def definition(function: Callable[..., Any]) -> str:
    """Return `FILE:LINE` of a function, or its name where no file is known."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", type(function).__name__)
    return f"{code.co_filename}:{code.co_firstlineno}"


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with so many positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a built-in one that does not say
        return True
    return True
