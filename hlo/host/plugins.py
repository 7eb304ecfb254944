"""Files that define custom calls: libraries of native functions, and Python.

A library is anything that the system's loader accepts; its functions have the types that
`hlo/include/hlo_ffi.h` declares. A Python file is executed, and has to define a dictionary of
functions:

    custom_calls = {"target": lambda op, args: 2 * args[0]}
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from hlo.errors import HloError, InferError
from hlo.host import Host, foreign
from hlo.io.files import read_text

_TABLE = "custom_calls"


def host_of(files: Sequence[str]) -> Host:
    """Return a host with the custom calls of files, those of earlier ones first.

    files: names that end in `.py`, or else libraries; "process" is the process itself. Raises
    HloError for one that cannot be loaded.
    """
    host = Host()
    for file in files:
        if file.endswith(".py"):
            host.custom_calls = {**_functions(file), **host.custom_calls}
        else:
            foreign.library(file)
            host.libraries.append(file)
    return host


def _functions(file: str) -> dict[str, Callable[..., Any]]:
    """Return the functions that a Python file defines, wrapped so that they raise HloErrors."""
    text = read_text(file)
    scope: dict[str, Any] = {"__name__": Path(file).stem, "__file__": file}
    try:
        exec(compile(text, file, "exec"), scope)
    except SyntaxError as e:
        where = f"{file}:{e.lineno}" if e.filename == file else file
        raise HloError.at("bad-library", f"{where}: {e.msg}") from None
    except (Exception, SystemExit) as e:
        raise HloError.at("bad-library", _place(file, e)) from None
    found = scope.get(_TABLE)
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and callable(f) for name, f in found.items()
    ):
        raise HloError.at(
            "bad-library", f"{file}: defines no {_TABLE}",
            hint=f"{_TABLE} = {{'target': f}}, where f(op, args) returns the result",
        )  # fmt: skip
    return {name: _guarded(file, f) for name, f in found.items()}


def _guarded(file: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(op: Any, args: Sequence[Any]) -> Any:
        try:
            return function(op, args)
        except InferError:
            raise
        except Exception as e:
            target = op.custom_call_target
            raise InferError(
                f"custom-call: {target!r} failed: {_place(file, e)}",
                attr="custom_call_target", code="custom-call-failed",
            ) from e  # fmt: skip

    return run


def _place(file: str, error: BaseException) -> str:
    """Return the message of an exception, and the last line of the file in its traceback."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    at = f"{file}:{lines[-1]}" if lines else file
    return f"{at}: {type(error).__name__}: {error}".rstrip(": ")
