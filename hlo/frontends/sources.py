"""Modules in files of any format: HLO text, StableHLO, protos in binary or text form.

Input is recognized by its content, or by its extension if that is not conclusive; output has the
format of the extension. Readers of protos and StableHLO are imported on first use, which takes
longer than parsing a typical text.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo.errors import HloError, Source
from hlo.frontends.text import print_module
from hlo.frontends.text.parser import parse_source
from hlo.io.compressed import unpacked
from hlo.io.excerpts import listed, modules_in
from hlo.io.files import decode, read_bytes, write_files
from hlo.io.foreign import foreign_bytes, foreign_text, not_a_module
from hlo.io.formats import (
    MLIR,
    MLIR_BYTES,
    MODULES,
    PROTO_BYTES,
    PROTO_TEXT,
    is_mlir_bytecode,
    is_pbtxt,
    is_proto,
    is_proto_file,
    is_stablehlo,
    need_extension,
)
from hlo.ir import Module
from hlo.values.types import ArrayShape

if TYPE_CHECKING:
    import numpy as np

_NOT_TEXT = "its bytes are not UTF-8 text, so it is read as an HloModuleProto"

FORMS = ("hlo", "txt", "pb", "pbtxt", "mlir")


def read_module(data: bytes, name: str, form: str | None = None) -> Module:
    """Return the module in the content of a file. `name` names it in errors.

    Text may be inside of other text: in a Markdown fence, behind a log's prefix, in a string of a
    program. gzip may have compressed it. form: one of FORMS, overrides content and name; `hlo` and
    `txt` are HLO text, `mlir` is StableHLO, as text or as bytecode. Raises HloError. The module may
    still break rules that `verify` checks.
    """
    data = unpacked(data, name)
    content: bytes | Source
    if form is None:
        form, content = recognized(data, name)
    else:
        content = data if form == "pb" else _text_source(data, name, form)
    if isinstance(content, bytes):
        return _read_proto(content, name)
    if form == "pbtxt":
        from hlo.frontends.proto import from_pbtxt

        return from_pbtxt(content.text, name)
    if form == "mlir":
        from hlo.frontends.stablehlo import from_source

        return from_source(content)
    return parse_source(content)


def recognized(data: bytes, name: str) -> tuple[str, bytes | Source]:
    """Return which of FORMS the module in a file has, and the module: bytes of `pb`, or its text.

    Raises HloError for a file that has none, or several.
    """
    data, extension = unpacked(data, name), name.removesuffix(".gz")
    if is_mlir_bytecode(data):
        return "mlir", _bytecode_source(data, name)
    if (foreign := foreign_bytes(data, name)) is not None:
        raise not_a_module(name, foreign)
    if extension.endswith(PROTO_BYTES) or is_proto(data):
        return "pb", data
    source = Source(name, decode(data, name))
    if extension.endswith(PROTO_TEXT):
        return "pbtxt", source
    if extension.endswith(MLIR):
        return "mlir", source
    source = _module_source(source)
    if is_pbtxt(source.text):
        return "pbtxt", source
    return "mlir" if is_stablehlo(source.text) else "hlo", source


def _text_source(data: bytes, name: str, form: str) -> Source:
    """Return a file as text that has one of FORMS. Raises HloError."""
    if form == "mlir" and is_mlir_bytecode(data):
        return _bytecode_source(data, name)
    return Source(name, decode(data, name))


def _bytecode_source(data: bytes, name: str) -> Source:
    from hlo.frontends.stablehlo import bytecode_source

    return bytecode_source(data, name)


def _module_source(source: Source) -> Source:
    """Return what a text has of a module: all, or a piece of it. Raises HloError."""
    name, text = source.name, source.text
    modules = modules_in(source)
    if len(modules) == 1:
        return modules[0].source
    if modules:
        file = "FILE" if name == "<stdin>" else name
        raise HloError.at(
            "several-modules", f"{name} has {len(modules)} modules: {listed(modules)}",
            hint=f"{file}#{modules[0].name or 1} is the first of them; hlo-opt and hlo-translate "
            "take all with --split-input-file",
        )  # fmt: skip
    if not is_stablehlo(text) and (foreign := foreign_text(text, name)) is not None:
        raise not_a_module(name, foreign)
    return source


def _read_proto(data: bytes, name: str) -> Module:
    from hlo.frontends.proto import from_proto

    try:
        return from_proto(data, name)
    except HloError as e:
        if e.code != "bad-proto" or name.endswith(PROTO_BYTES):
            raise
        raise HloError(replace(d, hint=d.hint or _NOT_TEXT) for d in e.diagnostics) from None


def read_snapshot(path: str) -> dict[str, np.ndarray]:
    """Return the arguments of a dumped snapshot by name: `arg0`, or `arg0.1` of a tuple.

    Raises HloError.
    """
    from hlo.frontends.proto import snapshot_arguments

    data = read_bytes(path)
    partitions = snapshot_arguments(data if is_proto(data) else decode(data, path), path)
    if len(partitions) != 1 or not partitions[0]:
        found = f"those of {len(partitions)} partitions" if len(partitions) > 1 else "none"
        raise HloError.at(
            "bad-file", f"{path}: the arguments of a call are needed, it holds {found}",
            hint="XLA's flags --xla_dump_hlo_snapshots and --xla_dump_hlo_unoptimized_snapshots "
            "write them",
        )  # fmt: skip
    values = {}
    for number, argument in enumerate(partitions[0]):
        for index, shape in argument.shape.leaves():
            leaf = argument
            for i in index:
                leaf = leaf.elements[i]
            if isinstance(shape, ArrayShape):
                values[".".join([f"arg{number}", *map(str, index)])] = leaf.array
    return values


def write_module(path: str | Path, module: Module) -> None:
    """Write a valid module in the format of the file's extension. Raises HloError."""
    write_files({str(path): module_content(str(path), module)})


def module_content(name: str, module: Module) -> bytes:
    """Return a valid module in the format of a file's extension. Raises HloError."""
    need_extension(name, MODULES)
    if name.endswith(MLIR):
        from hlo.frontends.stablehlo import to_stablehlo

        return to_stablehlo(module).encode()
    if name.endswith(MLIR_BYTES):
        from hlo.frontends.stablehlo import to_portable_artifact

        return to_portable_artifact(module)
    if not is_proto_file(name):
        return print_module(module).encode()
    from hlo.frontends.proto import to_pbtxt, to_proto

    return to_proto(module) if name.endswith(PROTO_BYTES) else to_pbtxt(module).encode()
