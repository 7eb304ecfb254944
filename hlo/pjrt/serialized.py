"""Executables as bytes: what JAX's persistent compilation cache keeps.

They have the module, the compile options, and the native code, for this version of the package and
this kind of processor.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from hlo.compiler.keys import sources
from hlo.compiler.pipeline import load_program
from hlo.errors import TextError
from hlo.pjrt.calls import give_functions, host
from hlo.pjrt.client import CLIENTS
from hlo.pjrt.compile import load
from hlo.pjrt.compile_options import read_compile_options
from hlo.pjrt.entries import PjrtError, bytes_at, entry
from hlo.pjrt.executables import EXECUTABLES, Executable, drop_dead
from hlo.pjrt.memory import FREE, handed
from hlo.pjrt.options import Options
from hlo.pjrt.program_shape import ProgramShape
from hlo.pjrt.programs import Program
from hlo.runtime.executable import Executable as NativeExecutable
from hlo.runtime.jit import host_machine
from hlo.runtime.program import from_bytes, to_bytes
from hlo.version import __version__

_MAGIC = b"hlo-pjrt"
_LENGTH = struct.Struct("<Q")


def _version() -> str:
    """Return what has to be equal where an executable is made and where it is loaded."""
    return "\n".join((__version__, sources(), *host_machine().names))


def to_content(e: Executable) -> bytes:
    """Return an executable as bytes. Raises PjrtError where it calls Python."""
    if e.native.custom_calls:
        raise PjrtError(
            "UNIMPLEMENTED", f"{e.native.name} calls Python functions of this process, as of "
            "jax.pure_callback, which a serialized executable does not have",
        )  # fmt: skip
    native = b"".join(bytes(piece) for piece in to_bytes(e.native.program))
    parts = [e.program.code, e.options.content, native]
    header = {
        "version": _version(), "sizes": [len(p) for p in parts], "threads": e.native.threads,
        "form": e.program.form, "shape": e.program.shape.to_json(),
    }  # fmt: skip
    head = json.dumps(header).encode()
    return b"".join([_MAGIC, _LENGTH.pack(len(head)), head, *parts])


def from_content(content: bytes, defaults: Options) -> tuple[Program, NativeExecutable, bytes]:
    """Return what `to_content` was given: the program, its code, and the compile options.

    Raises PjrtError.
    """
    try:
        if not content.startswith(_MAGIC):
            raise ValueError("they do not begin like one")
        at = len(_MAGIC) + _LENGTH.size
        (size,) = _LENGTH.unpack_from(content, len(_MAGIC))
        header, at = json.loads(content[at : at + size]), at + size
        if header["version"] != _version():
            raise ValueError("it was made by another version, or for another processor")
        parts = []
        for size in header["sizes"]:
            parts.append(content[at : at + size])
            at += size
        code, options, native = parts
        shape = ProgramShape.from_json(header["shape"])
        program = Program(code, header["form"], read_compile_options(options, defaults), shape)
        loaded = from_bytes(memoryview(native))
    except (ValueError, KeyError, TypeError, struct.error, TextError) as e:
        raise PjrtError("INVALID_ARGUMENT", f"these bytes are no executable: {e}") from None
    own: dict[str, Any] = {}
    if loaded.imports:
        give_functions(program.module)
        own = program.module.custom_calls
    calls = host() if loaded.uses_host else None
    found = load_program(loaded, threads=header["threads"], host=calls, custom_calls=own)
    return program, found, options


@entry("Executable_Serialize")
def _serialize(args: Any) -> None:
    content = to_content(EXECUTABLES[args.executable])
    args.serialized_bytes = args.serialized_executable = handed(content)
    args.serialized_bytes_size, args.serialized_executable_deleter = len(content), FREE


@entry("Executable_DeserializeAndLoad")
def _deserialize(args: Any) -> None:
    drop_dead()
    client = CLIENTS[args.client]
    content = bytes_at(args.serialized_executable, args.serialized_executable_size)
    program, native, given = from_content(content, client.options)
    if args.overridden_serialized_compile_options_size:
        given = bytes_at(
            args.overridden_serialized_compile_options,
            args.overridden_serialized_compile_options_size,
        )
    options = read_compile_options(given, client.options)
    args.loaded_executable = load(program, native, options, client).address
