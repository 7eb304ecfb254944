"""Modules in files of any format: HLO text, StableHLO, protos in binary or text form.

Input is recognized by its content, or by its extension if that is not conclusive; output has the
format of the extension. Readers of protos and StableHLO are imported on first use, which takes
longer than parsing a typical text.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo.errors import HloError
from hlo.frontends.text import parse, print_module
from hlo.io.files import decode, read_bytes, write_files
from hlo.io.formats import (
    MLIR,
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
_BYTECODE = (
    "stablehlo-translate --deserialize writes the text, as str() of an Exported's mlir_module() "
    "in JAX does"
)


FORMS = ("hlo", "txt", "pb", "pbtxt", "mlir")


def read_module(data: bytes, name: str, form: str | None = None) -> Module:
    """Return the module in the content of a file. `name` names it in errors.

    form: one of FORMS, overrides content and name; `hlo` and `txt` are HLO text, `mlir` is
    StableHLO. Raises HloError. The module may still break rules that `verify` checks.
    """
    if form is not None:
        return _read_as(data, name, form)
    if is_mlir_bytecode(data):
        message = f"{name} is MLIR bytecode, a portable artifact of StableHLO; its text is read"
        raise HloError.at("mlir-bytecode", message, None, _BYTECODE)
    if name.endswith(PROTO_BYTES) or is_proto(data):
        return _read_proto(data, name)
    text = decode(data, name)
    if name.endswith(PROTO_TEXT) or is_pbtxt(text):
        return _read_as(data, name, "pbtxt")
    if name.endswith(MLIR) or is_stablehlo(text):
        return _read_as(data, name, "mlir")
    return parse(text, name)


def _read_as(data: bytes, name: str, form: str) -> Module:
    if form == "pb":
        return _read_proto(data, name)
    text = decode(data, name)
    if form == "pbtxt":
        from hlo.frontends.proto import from_pbtxt

        return from_pbtxt(text, name)
    if form == "mlir":
        from hlo.frontends.stablehlo import from_stablehlo

        return from_stablehlo(text, name)
    return parse(text, name)


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
    if not is_proto_file(name):
        return print_module(module).encode()
    from hlo.frontends.proto import to_pbtxt, to_proto

    return to_proto(module) if name.endswith(PROTO_BYTES) else to_pbtxt(module).encode()
