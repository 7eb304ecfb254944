"""`hlo-compile`: write a module as an object file, a library, assembly or LLVM IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .command_line.common import (
    Tool,
    common_options,
    emit,
    emit_json,
    fail,
    function_option,
    load,
    note,
    progress,
    strict_math_option,
    verify_option,
)
from .command_line.options import Choice, Option
from .command_line.passes import check_pipeline

if TYPE_CHECKING:
    from hlo.compiler.translation import Machines
    from hlo.compiler.tuning import Tuning
    from hlo.ir import Module
    from hlo.objects.code import Code
    from hlo.objects.gpu.code import GpuCode

# Standard output, in the place of a file's name.
STDOUT = "-"
# What can go there, by the ends of names that files of the kind have; that of a shared library is
# the machine's.
EMITTED = {
    "obj": ".o", "asm": ".s", "llvm-ir": ".ll", "llvm-bc": ".bc", "archive": ".a", "shared": "",
}  # fmt: skip


# Seconds to measure for, where nothing else is said.
_TUNE_S = 30.0


class _CompileTool(Tool):
    """Takes `--tune` without a value for a flag, whatever follows it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"{a}={_TUNE_S}" if a == "--tune" else a for a in args])


@click.command(
    "hlo-compile", cls=_CompileTool, short_help="compile HLO modules for C", no_args_is_help=True
)
@click.argument("file")
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE",
    help="The file to write; its extension selects the kind: .o, .a, .so, .ll, .s, .bc; .wasm, "
    ".dylib; .obj, .lib, .dll; for GPUs .ptx, .cubin, .c, .o, .a, .ll.  May be given more than "
    "once; - is standard output.",
)  # fmt: skip
@click.option("--emit", "shown_kind", cls=Option, requires="--output -",
              type=Choice(list(EMITTED)), metavar="KIND",
              help="What -o - writes: obj (the default, for GPUs asm), asm, llvm-ir, llvm-bc, "
              "archive, shared.",
              )  # fmt: skip
@click.option("--header", metavar="FILE.h",
              help="Write a C header that documents the interface; with .hpp also a C++ "
              "class.")  # fmt: skip
@click.option("--example", metavar="DIR",
              help="Write a C program that calls the module, with the object file, a Makefile "
              "and a CMakeLists.txt.")  # fmt: skip
@click.option("--name", metavar="SYMBOL",
              help="The name of the C function and the C++ class.  [default: from the first "
              "output file]")  # fmt: skip
@click.option("--target", "triple", metavar="TRIPLE",
              help="The LLVM target triple: x86_64-linux-gnu, aarch64-linux-gnu, "
              "arm64-apple-darwin, "
              "riscv64-linux-gnu, i686-linux-gnu, armv7-linux-gnueabihf, wasm32, "
              "x86_64-pc-windows-msvc, nvptx64, amdgcn, ...  [default: this one]")  # fmt: skip
@click.option("--cpu", metavar="CPU[,CPU...]",
              help="LLVM's name of the processor, or of the GPU: sm_90; native is this one, "
              "generic any of the architecture. Code for several, separated by commas, selects the "
              "best one for the processor at the first call (x86).  [default: native for an x86 "
              "without --target, else generic]")  # fmt: skip
@click.option("--features", default="", metavar="LIST",
              help="Features that the processor has or lacks, as in +avx2,-fma.")  # fmt: skip
@click.option("--embed", type=Choice(["ptx", "cubin"]),
              help="What C programs for GPUs contain: PTX, which the driver compiles for this and "
              "later devices, or machine code for one model.  [default: ptx]")  # fmt: skip
@click.option("-g/-g0", "--debug-info/--no-debug-info", "debug_info", default=True,
              show_default=True, help="Emit debug information with the lines of FILE.")  # fmt: skip
@click.option("--linker", default="", metavar="COMMAND",
              help="The command that links .so, .dylib and .dll, or compiles .o and .a for GPUs, "
              "with the interface of a C compiler, as in 'clang "
              "--target=armv7-linux-gnueabihf -fuse-ld=lld'.")  # fmt: skip
@click.option("--passes", default="default", show_default=True, metavar="A,B,fix(C,D)",
              help="The passes that run before compilation, as in hlo-opt; '' for "
              "none.")  # fmt: skip
@click.option("--constants", metavar="FILE|random",
              help="Values for elided constants, {...}: from an npz or safetensors file by name, "
              "from another form of the module that has them, or random.")  # fmt: skip
@click.option("--weights", multiple=True, metavar="FILE",
              help="Turn parameters into constants, with values by name or number from an npz "
              "or safetensors file, or a folder of npy files.  May be given more than "
              "once.")  # fmt: skip
@click.option("--tune", type=click.FloatRange(0, min_open=True), is_flag=False, flag_value=_TUNE_S,
              metavar="[=SECONDS]",
              help="Measure candidate implementations of products on this machine, for about "
              "SECONDS (30 by default), and use the fastest; results are the same.")  # fmt: skip
@click.option("--tuning", metavar="FILE",
              help="The tuning file: written with --tune, read otherwise.")  # fmt: skip
@strict_math_option
@verify_option
@click.option("--json", "as_json", is_flag=True, cls=Option, excludes=["--output -"],
              help="Print the files written, or errors, as JSON on stdout.")  # fmt: skip
@function_option
@common_options
def main(
    file: str, outputs: tuple[str, ...], shown_kind: str | None, header: str | None,
    example: str | None, name: str | None, triple: str | None, cpu: str | None, features: str,
    embed: str | None, debug_info: bool, linker: str, passes: str, verify: str,
    constants: str | None, weights: tuple[str, ...], tune: float | None, tuning: str | None,
    strict_math: bool, as_json: bool,
) -> int:  # fmt: skip
    """Compile the HLO module in FILE (- for standard input) for C programs.

    FILE is HLO text, StableHLO text, or a proto as XLA dumps it.

    The result needs no run-time library of this package, only the C library. Output is
    reproducible byte for byte.

    \b
    Examples:
      hlo-compile model.hlo -o model.o --header model.h
      hlo-compile model.hlo -o model.o --header model.hpp --target armv7-linux-gnueabihf
      hlo-compile model.hlo -o libmodel.so --cpu x86-64-v3
      hlo-compile model.hlo -o model.o --cpu x86-64-v2,x86-64-v3,x86-64-v4
      hlo-compile model.hlo -o model.wasm --target wasm32 --features +simd128
      hlo-compile model.hlo -o model.dll --target x86_64-w64-mingw32
      hlo-compile model.hlo -o model.ptx -o model.cubin --target nvptx64 --cpu sm_90
      hlo-compile model.hlo -o model.c --header model.h --target nvptx64 --cpu sm_90
      hlo-compile model.hlo -o model.o --weights w.safetensors --weights more.npz
      hlo-compile model.hlo -o model.o --tune=60 --tuning model.tuning.json
      hlo-compile model.hlo -o - --emit asm --cpu generic | less
      hlo-compile model.hlo --example demo && make -C demo
    """
    from hlo.errors import HloError
    from hlo.io.files import make_folder, need_places, write_files
    from hlo.io.formats import is_module_file

    if not (outputs or header or example):
        raise click.UsageError("There is nothing to write: give --output, --header or --example.")
    for output in outputs:
        if is_module_file(output):
            raise click.UsageError(f"--output {output}: hlo-opt and hlo-translate write modules.")
    if outputs.count(STDOUT) > 1:
        raise click.UsageError("--output - can be given only once.")
    if embed is not None and not _has_launcher(triple, [*outputs, shown_kind or ""], example):
        raise click.UsageError("--embed requires a C program for a GPU: .c, .o, .a or --example.")
    try:
        given = [*(o for o in outputs if o != STDOUT), *([header] if header else [])]
        given += [tuning] if tuning is not None and tune is not None else []
        symbol = _symbol(name, given, file)
        need_places(given, [file])
        written, code = _compile(
            file, _Outputs(outputs, shown_kind, header, example, symbol, linker, embed == "cubin"),
            (triple, cpu, features), debug_info, passes, verify, constants, weights,
            (tune, tuning), strict_math,
        )  # fmt: skip
        if example is not None:
            make_folder(example)
        shown = written.pop(STDOUT, None)
        need_places(list(written), [file])
        write_files(written)
    except HloError as e:
        return fail(e, file, as_json=as_json)
    if shown is not None:
        emit(shown)
    if as_json:
        emit_json(_report(file, written, code))
    elif example is not None:
        from hlo.objects.example import build_command

        text = written[str(Path(example, "example.c"))].decode()
        note(f"build it with: cd {example} && {build_command(text)}")
    return 0


def _has_launcher(triple: str | None, outputs: list[str], example: str | None) -> bool:
    """Return whether a C program that runs code of a GPU is written."""
    from hlo.objects.gpu.targets import is_gpu

    ends = (".c", ".o", ".a", "obj", "archive")
    return is_gpu(triple) and (example is not None or any(o.endswith(ends) for o in outputs))


def _symbol(name: str | None, outputs: list[str], file: str) -> str:
    """Return the name of the exported function."""
    from hlo.objects.interface import is_symbol, symbol_of_file

    if name is None:
        return symbol_of_file(outputs[0] if outputs else file)
    if not is_symbol(name):
        raise click.UsageError(f"--name: {name!r} is not a valid C identifier")
    return name


@dataclass(frozen=True)
class _Outputs:
    """What to write, as given on the command line; `kind` is what goes to standard output."""

    files: tuple[str, ...]
    kind: str | None
    header: str | None
    example: str | None
    symbol: str
    linker: str
    has_cubin: bool

    def kinds(self, machines: Machines) -> dict[str, str]:
        """Return for each file the end of name that says what is in it. Raises HloError."""
        from hlo.compiler.translation import kinds_of
        from hlo.errors import HloError
        from hlo.objects.code import kind_of

        kinds = kinds_of(machines)
        # Of GPUs: there are no shared libraries.
        usual, library = "asm", ".so"
        if isinstance(machines, Sequence):
            usual, library = "obj", machines[0].library_suffix
        shown = EMITTED[self.kind or usual] or library
        if STDOUT in self.files and shown not in kinds:
            emitted = [kind for kind, end in EMITTED.items() if (end or library) in kinds]
            raise HloError.at(
                "bad-output", f"--emit {self.kind}: this target has {', '.join(emitted)}"
            )
        return {f: kind_of(f"{STDOUT}{shown}" if f == STDOUT else f, kinds) for f in self.files}


def _compile(
    file: str, outputs: _Outputs, target: tuple[str | None, str | None, str], debug_info: bool,
    passes: str, verify: str, constants: str | None, weights: tuple[str, ...],
    tuned: tuple[float | None, str | None], strict_math: bool,
) -> tuple[dict[str, bytes], Code | GpuCode]:  # fmt: skip
    """Return what to write, by path."""
    from hlo.analysis.devices import needs_partitioning, unused_devices
    from hlo.compiler.constants import fill
    from hlo.compiler.translation import machines_of, translated
    from hlo.compiler.weights import bake, read_weights

    # What can be wrong without a look at the module is said first.
    check_pipeline(passes)
    machines = machines_of(*target)
    kinds = outputs.kinds(machines)
    symbol = outputs.symbol
    with progress(f"hlo-compile {file}"):
        module = load(file, strict_math=strict_math)
        if constants is not None:
            fill(module, constants)
        if weights:
            bake(module, read_weights(weights), ", ".join(weights))
        if needs_partitioning(module) and unused_devices(module):
            note(
                f"{file}: note: the code is for one device, on whole arrays: hlo-opt --passes="
                "shardy-xla,sharding-propagation,spmd-partitioning writes the program of each"
            )
        located = _source(file) if debug_info else None
        tuning = _tuning(module, *tuned, passes, verify)
        code = translated(
            module, machines, symbol, source=located, passes=passes, verify=verify, tuning=tuning,
            has_cubin=outputs.has_cubin,
        )  # fmt: skip
        written = {}
        if tuning is not None and None not in tuned:
            written[str(tuned[1])] = tuning.to_json().encode()
        for path, kind in kinds.items():
            name = f"{symbol}{kind}" if path == STDOUT else Path(path).name
            written[path] = code.write(kind, name, outputs.linker)
        if outputs.header is not None:
            _add(written, code.headers(_source(file), outputs.header))
        if outputs.example is not None:
            _add(written, code.example(_source(file), outputs.example))
    return written, code


def _tuning(
    module: Module, seconds: float | None, file: str | None, passes: str, verify: str
) -> Tuning | None:
    """Return what was measured, now or before."""
    from hlo.compiler.pipeline import measured
    from hlo.compiler.tuning import read_tuning

    if seconds is not None:
        return measured(module, seconds, passes=passes, verify=verify)
    return None if file is None else read_tuning(file)


def _add(written: dict[str, bytes], more: Mapping[str, bytes]) -> None:
    """Add files to write, one of a path."""
    from hlo.errors import HloError

    for path, data in more.items():
        if written.setdefault(path, data) != data:
            raise HloError.at("bad-output", f"{path} would be written twice")


def _source(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _report(file: str, written: dict[str, bytes], code: Code | GpuCode) -> dict[str, Any]:
    sizes = {path: len(data) for path, data in written.items()}
    return {"file": file, "written": sizes, **code.interface.to_json()}
