"""`hlo-opt`: verify modules, run passes on them, and print them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..command_line.common import (
    SOURCE_FORMS,
    Tool,
    common_options,
    emit,
    emit_json,
    function_option,
    modules_among,
    progress,
    read_source,
    strict_math_option,
)
from ..command_line.debug_options import DebugOptions
from ..command_line.options import Choice, Option
from ..command_line.partition_report import PartitionReports
from ..command_line.passes import PassFlags, list_passes, load_plugins, pass_options
from ..command_line.platforms import KNOWN, stage_of, target_of
from ..command_line.verdicts import Verdicts, ci_options
from .file_errors import FileErrors
from .memory_report import show_memory
from .op_lists import list_operations, list_unsupported
from .page_report import is_page, write_page
from .printing import FORMS, print_options, print_toggles
from .stages import (
    GPU_STAGES,
    STAGES,
    Machine,
    extensions,
    is_hlo,
    runs_passes,
)
from .work import Work

if TYPE_CHECKING:
    from hlo.ir import Module

_SEPARATOR = "// -----"
_REPORTS = ("--stats", "--memory", "--signature", "--cost")
# Reads a module. Raises HloError.
Load = Callable[[], "Module"]
_STRICTNESS = ("strict", "lenient")
_VERIFY = {"verify=lenient": "--lenient", "verify=strict": "--verify"}


class _OptTool(Tool):
    """Takes XLA's debug options out of the arguments, which no list of ours could name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj, rest = DebugOptions.take(args)
        # A flag that may have a value: what follows it is the file.
        for arg in rest:
            name, equals, value = arg.lstrip("-").partition("=")
            if name == "verify" and equals and arg.startswith("-") and value not in _STRICTNESS:
                known = ", ".join(map(repr, _STRICTNESS))
                raise click.UsageError(
                    f"Invalid value for '--verify': {value!r} is not one of {known}.", ctx
                )
        rest = [_VERIFY.get(arg.lstrip("-"), arg) for arg in rest]
        return super().parse_args(ctx, rest)


@click.command(
    "hlo-opt",
    cls=_OptTool,
    short_help="verify, optimize and print HLO modules",
    no_args_is_help=True,
)
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write to FILE instead of standard output: a proto if it ends in .pb or .pbtxt, "
    "StableHLO if it ends in .mlir, a portable artifact of it if it ends in .mlirbc.",
)
@click.option(
    "--verify/--no-verify", default=True,
    help="Verify the module, or only its structure; --verify=lenient accepts what XLA accepts "
    "if it cannot affect results.",
)  # fmt: skip
@click.option("--lenient", is_flag=True, hidden=True)
@click.option(
    "--print", "form", type=Choice(FORMS), default="default", show_default=True,
    help="The style of the text, `xla` for that of XLA's tool; the flags below modify it.",
)  # fmt: skip
@click.option(
    "--constants", "limit", type=click.IntRange(0), metavar="N",
    help="Elide constants of more than N elements as {...}.",
)  # fmt: skip
@print_toggles
@pass_options
@click.option(
    "--split-input-file",
    "split",
    is_flag=True,
    help="Take all modules of each FILE: separated by lines of `// -----`, or inside of other "
    "text.",
)
@click.option(
    "--stage", type=Choice(list(STAGES), "--list-stages"), metavar="STAGE",
    help="Print the module at this stage of compilation; see --list-stages.",
)  # fmt: skip
@click.option("--list-stages", is_flag=True, help="List the stages, and exit.")
@click.option(
    "--target",
    metavar="TRIPLE",
    help="The target of code generation, by default this machine: x86_64-linux-gnu, "
    "aarch64-linux-gnu, riscv64-linux-gnu, armv7-linux-gnueabihf, nvptx64, amdgcn, ...",
)
@click.option("--cpu", metavar="CPU",
              help="LLVM's name of the processor or GPU that code is for, sm_90.  [default: this "
              "processor without --target, else any of the architecture]")  # fmt: skip
@click.option(
    "--extract",
    metavar="NAME[:HEIGHT]",
    help="Continue with a module of this instruction and its operands, transitively up to "
    "HEIGHT operations deep.",
)
@click.option(
    "--stats", "report", flag_value="stats",
    help="Print operation counts, costs, memory use, and the traffic of collectives.",
)  # fmt: skip
@click.option("--network", cls=Option, requires="--stats", metavar="bandwidth=B/s,latency=S",
              help="With --stats: the bandwidth of a device and the latency of a message.  "
              "[default: bandwidth=50GB/s,latency=2us]"
)  # fmt: skip
@click.option("--simulate", cls=Option, excludes=_REPORTS, metavar="NAME=VALUE,...",
              help="Simulate a run of the module on other machines. NAMEs, with "
              "their defaults: devices (as the module), topology=switch (or ring, torus2d, "
              "torus:8x8, fat-tree:32, nodes:8), bandwidth=50GB/s, latency=2us, "
              "node-bandwidth=400GB/s, node-latency=1us, oversubscription=1, "
              "flops=100TFLOP/s, memory-bandwidth=2TB/s, overhead=0s, jitter=0, seed=0.",
)  # fmt: skip
@click.option("--report", "partition_report", metavar="FILE",
              help="FILE.html: write a page that opens offline, instead of the module: graph, "
              "table of instructions with costs, roofline, memory, what each pass changes "
              "(--passes, by default the default pipeline), shardings and collectives. "
              "FILE.txt, FILE.json or - (standard output, instead of the module): partition the "
              "module by its shardings, before passes, and write the sharding of each "
              "instruction, where it came from, and what each change of distribution sends."
)  # fmt: skip
@click.option("--profile", metavar="FILE.json",
              help="With --report FILE.html: use times that `hlo-run --profile=FILE.json` measured."
)  # fmt: skip
@click.option("--memory", "report", flag_value="memory",
              help="Print the memory that the compiled module uses at each step of a run on "
              "--target: a chart, the buffers at the peak, and how to lower it."
)  # fmt: skip
@click.option("--signature", "report", flag_value="signature", help="Print parameters and result.")
@click.option("--cost", "report", flag_value="cost",
              help="Print the cost of each instruction of the entry computation, the most "
              "expensive first."
)  # fmt: skip
@click.option("--device", cls=Option, excludes=["--profile"], metavar="NAME",
              help="With --cost or --report FILE.html: estimate the time of each kernel on a GPU, "
              "which need not be present: a100, h100, h200 or rtx4090."
)  # fmt: skip
@strict_math_option
@click.option("--platform", type=Choice(KNOWN, case_sensitive=False),
              help="As in XLA's tool: any but `transforms` without --passes runs the default "
              "pipeline. For GPUs it also sets --target: nvptx64, amdgcn.")  # fmt: skip
@click.option("--emit-proto", is_flag=True,
              help="Print the HloProto of the module as text, without passes.")  # fmt: skip
@ci_options("whether each file is valid", "Print errors only, not the module.")
@click.option("--list-ops", is_flag=True, help="List the operations, and exit.")
@click.option("--compiled", is_flag=True, cls=Option, requires="--list-ops",
              help="With --list-ops: compile each operation in every element type, which takes "
              "minutes, and list those without native code.")  # fmt: skip
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print errors, the report or the list as JSON on stdout.",
)
@click.option("--format", "input_form", type=Choice(SOURCE_FORMS),
              help="The format of FILE, instead of detecting it by content and name: HLO text, "
              "a binary or text proto, StableHLO.")  # fmt: skip
@function_option
@common_options
@click.pass_obj
def main(
    debug_options: DebugOptions, files: tuple[str, ...], output: str | None, verify: bool,
    lenient: bool, form: str, limit: int | None, quiet: bool, list_ops: bool, compiled: bool,
    as_json: bool, split: bool, stage: str | None, list_stages: bool, target: str | None,
    extract: str | None, report: str | None, platform: str | None, emit_proto: bool,
    input_form: str | None, network: str | None, simulate: str | None, partition_report: str | None,
    profile: str | None, device: str | None, cpu: str | None, strict_math: bool,
    **rest: Any,
) -> int:  # fmt: skip
    """Verify the HLO module in each FILE (- for standard input), run passes on it, and print it.

    A FILE is HLO text, StableHLO text, or a proto as XLA dumps it; the text may be inside of
    another, as in a log. FILE#NAME is one of several modules in a file.

    All errors are reported at once, with their source locations.

    \b
    Example:
      hlo-opt model.hlo --print=short --constants=10
      hlo-opt model.hlo --passes='tuple-simplifier,fix(algsimp,dce)' --time-passes
      hlo-opt model.hlo --report model.html --profile profile.json
      hlo-opt model.hlo --report model.html --device h100
      hlo-opt model.hlo --memory
      hlo-opt model.hlo --cost --device h100
      hlo-opt model.hlo --stage=launches --target=nvptx64 --cpu=sm_90
      hlo-opt partitioned.hlo --stats --network bandwidth=25GB/s,latency=5us
      hlo-opt partitioned.hlo --simulate devices=64,topology=torus:8x8,bandwidth=90GB/s
    """
    flags = PassFlags.take(rest)
    load_plugins(flags.plugins)
    if flags.list:
        return list_passes(as_json, one_line=form == "xla")
    if list_ops:
        return list_unsupported(as_json) if compiled else list_operations(as_json)
    if list_stages:
        if as_json:
            emit_json([{"name": name, "summary": what} for name, what in STAGES.items()])
        else:
            emit(_stages(form))
        return 0
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.")
    files = modules_among(files)
    verdicts = Verdicts.take("hlo-opt", rest, files)
    errors = FileErrors(verdicts, as_json=as_json, notes_status=form == "xla")
    strictness = "lenient" if lenient or not verify else "strict"
    if is_page(partition_report):
        write_page(partition_report, files, errors, passes=flags.passes, profile=profile,
                   device=device, verify=strictness, form=input_form, as_json=as_json)  # fmt: skip
    elif profile is not None:
        raise click.UsageError("--profile requires --report FILE.html.")
    elif device is not None and report != "cost":
        raise click.UsageError("--device requires --cost or --report FILE.html.")
    elif report == "memory":
        show_memory(files, errors, passes=flags.passes, verify=strictness, form=input_form,
                    as_json=as_json, target=target_of(platform, target, is_for_gpu=False),
                    cpu=cpu,
                    strict_math=strict_math)  # fmt: skip
    else:
        stage = stage_of(platform, stage, flags.passes)
        if emit_proto:
            flags = replace(flags, passes=None)
        elif flags.passes is None and runs_passes(stage):
            flags = replace(flags, passes="default")
        if flags.without_passes is not None:
            raise click.UsageError(
                f"{flags.without_passes} requires --passes, for example --passes=default."
            )
        report = "simulate" if simulate is not None else report
        holds_module = _holds_module(output, report, emit_proto, stage)
        if holds_module and (split or len(files) > 1):
            raise click.UsageError(f"--output {output}: a file of this format has one module.")
        work = Work(
            flags, debug_options, verify, lenient, PartitionReports(partition_report), extract,
            output if holds_module else None, quiet and output in (None, "-"), report,
            simulate or network or "", device, emit_proto, stage,
            Machine(target_of(platform, target, is_for_gpu=stage in GPU_STAGES), cpu),
            print_options(form, limit, rest, debug_options), as_json,
        )  # fmt: skip
        with progress(f"hlo-opt {' '.join(files)}"):
            loads = [
                (file, partial(_modules, file, split, input_form, strict_math)) for file in files
            ]
            _write(work, loads, errors, output, _separator(form, report, stage))
    verdicts.conclude()
    return errors.summary(len(files))


def _holds_module(
    output: str | None, report: str | None, emit_proto: bool, stage: str | None
) -> bool:
    """Return whether a file of one module is written, in the format of its extension.

    Raises HloError for an extension that does not fit what is written.
    """
    from hlo.io.formats import is_module_file, need_extension

    if output in (None, "-"):
        return False
    allowed = extensions(stage)
    if report is not None:
        allowed = (".txt", ".json")
    elif emit_proto:
        allowed = (".pbtxt", ".textproto", ".txtpb", ".txt")
    need_extension(output, allowed, "--output")
    return report is None and not emit_proto and is_hlo(stage) and is_module_file(output)


def _write(
    work: Work, loads: Sequence[tuple[str, Callable[[], Iterable[Load]]]], errors: FileErrors,
    output: str | None, separator: bytes,
) -> None:  # fmt: skip
    """Write what comes of all files: to standard output, or to a file if there are no errors."""
    from hlo.io.files import write_files

    parts: list[bytes] = []
    to_stdout, is_report = work.partitions.to_stdout, work.report is not None
    for file, modules in loads:
        with errors.within(file):
            for load in modules():
                with errors.within(file):
                    parts.append(work.content(load(), len(parts)))
        if file in errors and work.as_json and (is_report or to_stdout):
            parts.append(json.dumps(errors.as_json(file)).encode() + b"\n")
        errors.end_of(file)
    is_file = output not in (None, "-")
    content = (b"" if to_stdout or work.quiet else separator).join(parts)
    if not errors or (to_stdout and work.partitions):
        with errors.within(loads[-1][0]):
            content += work.partitions.written(work.as_json)
            if output is not None and is_file:
                write_files({output: content})
    if work.as_json and not is_report and not to_stdout:
        verdicts = [errors.as_json(file) for file, _ in loads]
        emit_json(verdicts if len(verdicts) > 1 else verdicts[0])
    elif not is_file:
        emit(content)


def _stages(form: str) -> str:
    if form == "xla":
        return "".join(f"{name}\n" for name in sorted(STAGES))
    return "".join(f"{name:28}{what}\n" for name, what in STAGES.items())


def _separator(form: str, report: str | None, stage: str | None) -> bytes:
    """Return what stands between modules: XLA's tool has nothing that FileCheck could not skip."""
    if report is not None or form == "xla" or stage == "obj":
        return b""
    return f"{_SEPARATOR}\n\n".encode()


def _modules(file: str, split: bool, form: str | None, strict_math: bool) -> Sequence[Load]:
    """Return what reads each module in a file, one if it is not to be split.

    Errors have the lines of the file. Raises HloError for a file that cannot be read.
    """
    from hlo.analysis.strict_math import ask_for_strict_math
    from hlo.frontends.sources import read_module
    from hlo.io.module_files import split_modules

    def read(content: bytes) -> Module:
        module = read_module(content, name, form)
        if strict_math:
            ask_for_strict_math(module)
        return module

    data, name = read_source(file)
    contents = split_modules(data, name) if split else [data]
    return [partial(read, content) for content in contents]
