"""Files that define custom calls: libraries of native functions, and Python.

A library is anything that the system's loader accepts; its functions have the types that
`hlo/include/hlo_ffi.h` declares. A Python file is executed, and has to define a dictionary of
functions:

    custom_calls = {"target": lambda op, args: 2 * args[0]}

The functions of JAX's callbacks, which share a target, are given by number, on arrays alone:

    custom_calls = {"xla_ffi_python_cpu_callback": {0: lambda x: 2 * x}}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from hlo.errors import HloError, InferError
from hlo.host import Host, foreign
from hlo.host.host import Target
from hlo.io.files import read_text
from hlo.ops.host.python_targets import FORM, wrong_form
from hlo.support.user_code import located, takes

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


def _functions(file: str) -> dict[str, Target]:
    """Return the functions that a Python file defines, wrapped so that they raise HloErrors."""
    text = read_text(file)
    scope: dict[str, Any] = {"__name__": Path(file).stem, "__file__": file}
    try:
        exec(compile(text, file, "exec"), scope)
    except MemoryError:
        raise
    except (Exception, SystemExit) as e:
        raise HloError.at("bad-library", located(e)) from e
    functions = scope.get(_TABLE)
    if not isinstance(functions, dict) or not all(
        isinstance(name, str) and (callable(f) or _is_numbered(f)) for name, f in functions.items()
    ):
        raise HloError.at(
            "bad-library", f"{file} defines no dictionary {_TABLE} of functions",
            hint=f"{_TABLE} = {{'target': f}}, where f(op, args) returns the result, or "
            f"{{'target': {{0: f}}}} for callbacks of JAX, where f(*arrays) does",
        )  # fmt: skip
    for name, f in functions.items():
        if callable(f) and not takes(f, 2):
            raise HloError.at("bad-library", wrong_form(name, f), hint=FORM)
    return {name: _guarded(f) if callable(f) else f for name, f in functions.items()}


def _is_numbered(value: object) -> bool:
    """True for the functions of callbacks, by number."""
    return isinstance(value, dict) and all(
        isinstance(number, int) and callable(f) for number, f in value.items()
    )


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(op: Any, args: Sequence[Any]) -> Any:
        try:
            return function(op, args)
        except (InferError, HloError, MemoryError):
            raise
        except (Exception, SystemExit) as e:
            raise InferError(
                f"custom-call: {op.custom_call_target!r} failed: {located(e)}",
                attr="custom_call_target", code="custom-call-failed",
            ) from e  # fmt: skip

    return run
