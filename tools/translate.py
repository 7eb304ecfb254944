"""`hlo-translate`: modules between HLO text, protos and StableHLO as text or bytecode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from .command_line.common import (
    Tool,
    chosen_function,
    common_options,
    emit,
    function_option,
    note,
    progress,
    read_source,
)

if TYPE_CHECKING:
    from hlo.ir import Module

_SEPARATOR = "// -----"
# The directions of XLA's tools, and what comes of each.
_MLIR, _BYTECODE, _HLO, _PROTO = "mlir", "bytecode", "hlo", "proto"
DIRECTIONS = {
    "hlo-to-mlir": _MLIR,
    "hlo-to-stablehlo": _MLIR,
    "hlo-text-to-stablehlo": _MLIR,
    "hlo-to-mlir-hlo": _MLIR,
    "hlo-text-to-mlir-hlo": _MLIR,
    "serialize": _BYTECODE,
    "deserialize": _MLIR,
    "mlir-to-hlo": _HLO,
    "mlir-hlo-to-hlo-text": _HLO,
    "stablehlo-to-hlo-text": _HLO,
    "mlir-hlo-to-hlo": _PROTO,
    "stablehlo-to-hlo": _PROTO,
}
_WRITES = {
    _MLIR: "Write StableHLO.",
    _BYTECODE: "Write a portable artifact of StableHLO.",
    _HLO: "Write HLO text.",
    _PROTO: "Write an HloProto as text.",
}
# Flags that say what is done here in any case.
_ALWAYS = ("hlo-import-all-computations", "hlo-flatten-computation-args-result")


def _directions(command: Any) -> Any:
    for name, result in reversed(DIRECTIONS.items()):
        option = click.option(f"--{name}", "direction", flag_value=name, help=_WRITES[result])
        command = option(command)
    for name in _ALWAYS:
        command = click.option(f"--{name}", is_flag=True, hidden=True, expose_value=False)(command)
    return command


@click.command(
    "hlo-translate", cls=Tool, short_help="convert modules between formats",
    no_args_is_help=True,
)  # fmt: skip
@click.argument("file", required=False, default="-")
@click.option("-o", "--output", metavar="FILE", default="-",
              help="Write to FILE; without a direction its extension selects the format: .mlir, "
              ".mlirbc, .hlo, .txt, .pb, .pbtxt.")  # fmt: skip
@_directions
@click.option("--target", "stablehlo_version", metavar="VERSION",
              help="The version of StableHLO that a portable artifact is for; by default the "
              "oldest that has all that the module has.")  # fmt: skip
@click.option("--emit-proto", is_flag=True, help="Write an HloProto as text instead of HLO text.")
@click.option("--emit-mhlo", is_flag=True, hidden=True)
@click.option("--print-layouts", is_flag=True, help="Print layouts in HLO text.")
@click.option("--print-large-constants", is_flag=True,
              help="Print constants of more than ten elements, which -mlir-to-hlo elides as XLA "
              "does.")  # fmt: skip
@click.option("--print-sugar/--no-print-sugar", default=True,
              help="Print asynchronous operations in short form.")  # fmt: skip
@click.option("--split-input-file", "split", is_flag=True,
              help="Take all modules of FILE: separated by lines of `// -----`, or inside of "
              "other text.")  # fmt: skip
@function_option
@common_options
def main(
    file: str, output: str, direction: str | None, emit_proto: bool, emit_mhlo: bool,
    split: bool, stablehlo_version: str | None, **form: bool,
) -> int:  # fmt: skip
    """Convert the module in FILE (- for standard input) to another format.

    FILE is HLO text, a proto, or StableHLO. Without a direction, HLO becomes StableHLO and
    StableHLO becomes HLO, unless the extension of --output selects a format. What StableHLO
    cannot express is an error that names the instruction.

    \b
    Examples:
      hlo-translate model.hlo -o model.mlir
      hlo-translate model.mlir -o model.pb
      hlo-translate model.hlo -o model.mlirbc --target 1.9.0
      hlo-translate -mlir-to-hlo model.mlir --print-layouts
    """
    from hlo.frontends.sources import module_content
    from hlo.io.files import write_files
    from hlo.io.formats import MLIR_BYTES, MODULES, is_module_file, need_extension

    if output != "-":
        need_extension(output, MODULES, "--output")
    if emit_mhlo:
        raise click.UsageError("--emit-mhlo is not supported; StableHLO is written instead.")
    if direction is None and output.endswith(MLIR_BYTES):
        direction = "serialize"
    is_bytecode = DIRECTIONS.get(direction or "") == _BYTECODE
    if stablehlo_version is not None and not is_bytecode:
        raise click.UsageError("--target is for portable artifacts: --serialize or -o x.mlirbc.")
    parts = []
    with progress(f"hlo-translate {file}"):
        for module, is_mlir in _modules(file, split):
            if direction is None and is_module_file(output):
                parts.append(module_content(output, module))
                continue
            if is_bytecode:
                parts.append(_artifact(module, stablehlo_version))
                continue
            result = _result(direction, output, emit_proto, is_mlir=is_mlir)
            parts.append(_written(module, result, direction, form).encode())
    if (is_module_file(output) or is_bytecode) and len(parts) != 1:
        raise click.UsageError(f"--output {output}: a file of this format has one module.")
    content = f"\n{_SEPARATOR}\n".encode().join(parts)
    if output == "-":
        emit(content)
    else:
        write_files({output: content})
    return 0


def _modules(file: str, split: bool) -> list[tuple[Module, bool]]:
    """Return the modules in a file, verified, and whether each was StableHLO.

    Raises HloError with the errors of all of them.
    """
    from hlo.errors import Diagnostic, HloError
    from hlo.frontends.sources import read_module, recognized
    from hlo.io.module_files import split_modules
    from hlo.verifier import verify

    data, name = read_source(file)
    modules: list[tuple[Module, bool]] = []
    errors: list[Diagnostic] = []
    for content in split_modules(data, name) if split else [data]:
        try:
            module = read_module(content, name)
            verify(module)
        except HloError as e:
            errors += e.diagnostics
            continue
        is_mlir = chosen_function() is not None or recognized(content, name)[0] == "mlir"
        modules.append((module, is_mlir))
    if errors:
        raise HloError(errors)
    return modules


def _artifact(module: Module, version: str | None) -> bytes:
    from hlo.frontends.stablehlo import to_portable_artifact

    return to_portable_artifact(module, version)


def _result(direction: str | None, output: str, emit_proto: bool, *, is_mlir: bool) -> str:
    """Return the form that is asked for."""
    if direction is not None:
        result = DIRECTIONS[direction]
    elif output != "-":
        result = _HLO
    else:
        result = _HLO if is_mlir else _MLIR
    return _PROTO if emit_proto and result == _HLO else result


def _written(module: Module, result: str, direction: str | None, form: dict[str, bool]) -> str:
    if result == _MLIR:
        from hlo.frontends.stablehlo import to_stablehlo

        return to_stablehlo(module)
    if result == _PROTO:
        from hlo.frontends.proto import to_debug_string

        return to_debug_string(module)
    from hlo.frontends.text import PrintOptions, print_module

    options = replace(
        PrintOptions.xla(), layouts=form["print_layouts"], async_sugar=form["print_sugar"]
    )
    if direction is None or form["print_large_constants"]:
        options = replace(options, constant_limit=None)
    elif "{...}" in (text := print_module(module, options)):
        note("note: large constants are elided; --print-large-constants prints them")
        return text + _aliases(module)
    return print_module(module, options) + _aliases(module)


def _aliases(module: Module) -> str:
    """Return the comments that XLA's tool ends with: which results share memory with parameters."""
    from hlo.ops.attrs import write_index

    return "".join(
        f"// OutputIndex {write_index(a.output)} aliases with input {a.parameter} at "
        f"{write_index(a.index)}\n"
        for a in module.attrs.get("input_output_alias", ())
    )
