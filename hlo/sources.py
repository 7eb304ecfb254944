"""A module in a file, whatever its form: HLO text, StableHLO, or a proto as bytes or as text.

What is read is told apart by its content, and by its name's ending where that says nothing; what is
written has the form that the ending names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hlo.errors import HloError
from hlo.files import decode, write_files
from hlo.ir import Module
from hlo.proto import from_pbtxt, from_proto, is_pbtxt, is_proto, to_pbtxt, to_proto
from hlo.stablehlo import from_stablehlo, is_stablehlo
from hlo.text import parse, print_module

_BINARY = (".pb", ".binpb")
_MLIR = (".mlir", ".stablehlo")
_NOT_TEXT = "its bytes are not UTF-8 text, so it is read as an HloModuleProto"
_TEXT = (".pbtxt", ".textproto", ".txtpb")


def read_module(data: bytes, name: str) -> Module:
    """Return the module that the content of a file says. `name` stands for it in errors.

    Raises HloError. The module may still break rules that `verify` checks.
    """
    if name.endswith(_BINARY):
        return from_proto(data, name)
    if is_proto(data):
        try:
            return from_proto(data, name)
        except HloError as e:
            if e.code != "bad-proto":
                raise
            raise HloError(replace(d, hint=d.hint or _NOT_TEXT) for d in e.diagnostics) from None
    text = decode(data, name)
    if name.endswith(_TEXT) or is_pbtxt(text):
        return from_pbtxt(text, name)
    if name.endswith(_MLIR) or is_stablehlo(text):
        return from_stablehlo(text, name)
    return parse(text, name)


def is_proto_file(path: str) -> bool:
    """Tell whether a file of this name gets a proto, not HLO text."""
    return path.endswith((*_BINARY, *_TEXT))


def write_module(path: str | Path, module: Module) -> None:
    """Write a valid module in the form that the file's name asks for. Raises HloError."""
    name = str(path)
    if name.endswith(_BINARY):
        data = to_proto(module)
    else:
        data = (to_pbtxt(module) if name.endswith(_TEXT) else print_module(module)).encode()
    write_files({name: data})
