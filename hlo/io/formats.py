"""The formats of programs in files, distinguished by their first bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from hlo.errors import HloError

# Extensions of protos, binary and text.
PROTO_BYTES = (".pb", ".binpb")
PROTO_TEXT = (".pbtxt", ".textproto", ".txtpb")
# Those of StableHLO.
MLIR = (".mlir", ".stablehlo")
# Those of its portable artifacts.
MLIR_BYTES = (".mlirbc", ".mlir.bc")
# Those of HLO text, and of files that modules are written to.
TEXT = (".hlo", ".txt")
MODULES = (*TEXT, *MLIR, *MLIR_BYTES, *PROTO_BYTES, *PROTO_TEXT)
# No text contains these, and every module's message contains some: the tags of its first fields.
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
# How a text message begins, unlike HLO text: a field with a colon, or with a field inside it.
PROTO_FIELD = re.compile(
    r"(?>(?:\s++|#[^\n]*+\n)*)(?P<name>[a-z_]++)\s*+(?::\s*+[^\s:]|(?::\s*+)?\{\s*+[a-z_]+\s*+[:{])"
)
_LOOKED_AT = 4096
_BYTECODE = b"ML\xefR"
_PORTABLE = _BYTECODE + b"\rStableHLO_v"
# `module {` and `func {` could begin HLO text too: there, an instruction follows.
_STABLEHLO_START = re.compile(
    r"(?>(?:\s++|//[^\n]*+\n|#\w[^\n]*+\n)*)"
    r'(?:"builtin\.module"|"func\.func"|module\s*(?:@|attributes\b|\{\s*func)|func\.func\s)'
)


def is_proto_file(path: str) -> bool:
    """Tell by its name whether a file is a proto, and not HLO text."""
    return path.endswith((*PROTO_BYTES, *PROTO_TEXT))


def is_module_file(path: str) -> bool:
    """Tell by its name whether a file holds one module in a form that is not HLO text."""
    return is_proto_file(path) or path.endswith((*MLIR, *MLIR_BYTES))


def need_extension(path: str, extensions: Sequence[str], option: str = "") -> None:
    """Raise HloError, code `bad-output`, for a file whose extension is not one of some.

    A name without an extension is fine: it may be a pipe. option: of a command, for the message.
    """
    suffix = PurePath(path).suffix
    if suffix and not path.endswith(tuple(extensions)):
        where = f"{option} {path}".lstrip()
        raise HloError.at("bad-output", f"{where}: {unsupported_extension(suffix, extensions)}")


def unsupported_extension(suffix: str, extensions: Iterable[str]) -> str:
    """Return what is wrong with a name of an extension, or without one."""
    said = f"unsupported extension {suffix!r}" if suffix else "no extension"
    return f"{said}; use one of {', '.join(extensions)}"


def is_proto(data: bytes) -> bool:
    """Tell a binary message from text by its first bytes."""
    if data.startswith((b"HloModule", codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False  # text with invalid bytes: the parser reports where
    return _NOT_TEXT.search(data, 0, _LOOKED_AT) is not None


def is_mlir_bytecode(data: bytes) -> bool:
    """Tell MLIR's binary form, a portable artifact of StableHLO, and a serialized export of JAX."""
    if data.startswith(_BYTECODE):
        return True
    # An export is a FlatBuffer with bytecode inside: it begins with an offset of four bytes.
    return data[2:4] == b"\0\0" and _PORTABLE in data


def is_pbtxt(text: str) -> bool:
    """Tell a message as text from HLO text by how it begins."""
    return PROTO_FIELD.match(text) is not None


def is_stablehlo(text: str) -> bool:
    """Tell MLIR from HLO text by how it begins."""
    return _STABLEHLO_START.match(text) is not None
