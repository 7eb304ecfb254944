"""Files of modules, as commands name them: `FILE`, or `FILE#NAME` for one of several in a file.

Nothing is parsed here: what is in the cache needs no parser.
"""

from __future__ import annotations

import os
from pathlib import Path

from hlo.errors import HloError, Source
from hlo.io.compressed import unpacked
from hlo.io.excerpts import modules_in, modules_of, only, select
from hlo.io.files import decode, named_file, read_bytes
from hlo.io.foreign import LOOKED_AT, Foreign, foreign_bytes, foreign_text
from hlo.io.formats import is_mlir_bytecode, is_proto


def foreign_file(path: str | Path) -> Foreign | None:
    """Return what a file is that has no module; None for one that may have, or cannot be read.

    All but a text with strings in it is recognized by its first bytes.
    """
    name = str(path)
    if os.path.isdir(named_file(path)):
        return Foreign("a directory", f"name the files in it, as in {name.rstrip('/')}/*.txt")
    if not os.path.isfile(path):
        return None  # a pipe is read once
    try:
        with open(named_file(path), "rb") as file:
            start = file.read(LOOKED_AT)
    except OSError:
        return None
    if start.startswith(b"HloModule") or is_mlir_bytecode(start):
        return None
    if (foreign := foreign_bytes(start, name)) is not None:
        return foreign
    foreign = None if is_proto(start) else foreign_text(start.decode(errors="ignore"), name)
    if foreign is None:
        return None
    return None if modules_in(Source(name, read_bytes(path).decode(errors="replace"))) else foreign


def read_file(path: str | Path) -> tuple[bytes, str]:
    """Return the content of a file, and what errors are to call it.

    `FILE#NAME` is a module of a file that has several, by its name or by a number from 1 on: the
    content is that module on the lines that it has there. Raises HloError.
    """
    name, wanted = file_and_module(str(path))
    data = unpacked(read_bytes(name), name)
    if not wanted:
        return data, name
    if is_proto(data) or is_mlir_bytecode(data):
        raise HloError.at(
            "unknown-module",
            f"#{wanted} selects a module in a text; {name} is binary and has one module",
            hint=f"leave out #{wanted}",
        )
    source = Source(name, decode(data, name))
    return only(source, select(source, wanted)).encode(), name


def file_and_module(path: str) -> tuple[str, str]:
    """Return the two halves of `FILE#NAME`; the second is empty where the path is that of a file.

    Raises HloError for what cannot be a path.
    """
    if "#" not in path or os.path.exists(named_file(path)):
        return path, ""
    name, _, wanted = path.rpartition("#")
    return name, wanted


def split_modules(data: bytes, name: str) -> list[bytes]:
    """Return the content of each module of a file, on the lines that it has there.

    Modules are inside of other text, or separated by lines of `// -----`. Raises HloError.
    """
    source = Source(name, decode(unpacked(data, name), name))
    return [only(source, module).encode() for module in modules_of(source)]
