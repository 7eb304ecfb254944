"""Modules from the messages of XLA, and back; see the package."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from hlo.errors import Diagnostic, HloError, InferError, Source, Span, TextError
from hlo.frontends.proto import json_form, pbtxt, wire
from hlo.frontends.proto.dumps import read_arguments, read_dump, read_text_dump
from hlo.frontends.proto.reader import read_module
from hlo.frontends.proto.runs import Iteration, read_iterations, write_iterations
from hlo.frontends.proto.schema import Message, schema
from hlo.frontends.proto.writer import write_module, write_xla_module
from hlo.ir import Module
from hlo.support.memory import collector_paused
from hlo.values.literal import Literal

_MODULE = "HloModuleProto"


@contextlib.contextmanager
def _errors_of(data: bytes | str, name: str) -> Iterator[None]:
    """Turn exceptions of readers, at an offset of these bytes or this text, into HloError."""
    try:
        yield
    except TextError as e:
        if isinstance(data, bytes):
            message = f"{name}: byte {e.offset}: {e.message}"
            if e.offset == 0 and e.code == "bad-proto":
                message = f"{name}: not an HloModuleProto: {e.message} at byte 0"
            raise HloError.at(e.code, message, None, e.hint) from None
        span = Span(Source(name, data), e.offset, e.offset + 1)
        raise HloError([Diagnostic(e.code, e.message, span, e.hint)]) from None


def from_proto(data: bytes, name: str = "<bytes>") -> Module:
    """Return the module in the bytes of a HloModuleProto, or of a dump with one.

    name: names the bytes in errors. Raises HloError at the offset of a byte.
    """
    with _errors_of(data, name), collector_paused():
        return read_module(read_dump(data))


def from_pbtxt(text: str, name: str = "<string>") -> Module:
    """Return the module in the text form of a message. Raises HloError."""
    with _errors_of(text, name), collector_paused():
        return read_module(read_text_dump(text))


def snapshot_arguments(data: bytes | str, name: str = "<bytes>") -> list[list[Literal]]:
    """Return the arguments in a snapshot, as a list for each partition.

    data: bytes, or the text form. Raises HloError.
    """
    with _errors_of(data, name), collector_paused():
        return read_arguments(data)


def read_runs(data: bytes | str, name: str = "<bytes>") -> list[Iteration]:
    """Return the values in a RunHloModuleLiterals, its bytes or its text form. Raises HloError."""
    with _errors_of(data, name), collector_paused():
        return read_iterations(data)


def write_runs(iterations: Sequence[Iteration], *, as_text: bool = False) -> bytes:
    """Return the RunHloModuleLiterals of runs. Raises HloError for values it cannot represent."""
    try:
        return write_iterations(iterations, as_text=as_text)
    except (InferError, TextError) as e:
        raise HloError.at(e.code, e.message, None, e.hint) from None


def to_proto(module: Module) -> bytes:
    """Return the bytes of a valid module's HloModuleProto.

    Raises HloError for what messages cannot express; see `docs/protos.md`.
    """
    return wire.encode(_written(module), schema()[_MODULE])


def to_pbtxt(module: Module) -> str:
    """Return the text form of a valid module's HloModuleProto. Raises HloError."""
    return pbtxt.write(_written(module), schema()[_MODULE])


def to_debug_string(module: Module) -> str:
    """Return the text form of a valid module's HloProto, as XLA's tools print it for
    `--emit-proto`. Raises HloError.
    """
    message = Message(hlo_module=_written(module, write_xla_module))
    return pbtxt.write(message, schema()["HloProto"], has_lists=False)


def to_json(module: Module) -> str:
    """Return a valid module's HloModuleProto as JSON, by the names of the fields.

    Raises HloError.
    """
    return json_form.write(_written(module), schema()[_MODULE])


def _written(module: Module, write: Callable[[Module], Message] = write_module) -> Message:
    try:
        return write(module)
    except (InferError, TextError) as e:
        raise HloError.at(e.code, f"module {module.name}: {e.message}", None, e.hint) from None
