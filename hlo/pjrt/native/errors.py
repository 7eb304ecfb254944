"""Errors."""

from __future__ import annotations

import ctypes

from hlo.pjrt.native.writer import NULL, Code
from hlo.pjrt.records import Error


def write(code: Code) -> None:
    """Write `error_new(code, message, size)`, which copies the message, and `error_copy(error)`."""
    with code.function("error_new", "i64", "ptr", "i64", exported=True) as (b, number, text, size):
        error = b.new(Error, b.sum(size, 1))
        message = b.after(error.at, ctypes.sizeof(Error))
        error.code, error.message, error.size = number, message, size
        b.copy(message, text, size)
        b.ret(error.at)

    with code.function("error_copy", "ptr") as (b, at):
        with b.exit_if(b.is_null(at)):
            b.ret(NULL)
        error = b.record(Error, at)
        b.ret(b.run("error_new", error.code, error.message, error.size))

    with code.entry("Error_Destroy", returns_error=False) as (b, args):
        b.free(args.error)

    with code.entry("Error_Message", returns_error=False) as (b, args):
        error = b.record(Error, args.error)
        args.message, args.message_size = error.message, error.size

    with code.entry("Error_GetCode") as (b, args):
        b.fail_if(b.is_null(args.error), "INVALID_ARGUMENT", "the error is null")
        args.code = b.cast("trunc", b.record(Error, args.error).code, "i32")

    with code.entry("Error_ForEachPayload"):
        pass  # errors have none
