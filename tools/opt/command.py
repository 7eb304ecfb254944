"""`hlo-opt`: verify modules, run passes on them, and print them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ..command_line.common import (
    SOURCE_FORMS,
    Tool,
    common_options,
    emit,
    emit_json,
    fail,
    progress,
    read_source,
)
from ..command_line.debug_options import DebugOptions
from ..command_line.partition_report import PartitionReports
from ..command_line.passes import PassFlags, list_passes, load_plugins, pass_options, run_passes
from ..command_line.platforms import KNOWN, note_status, stage_of, target_of
from .device_cost import device_cost
from .memory_report import show_memory
from .op_lists import list_operations, list_unsupported
from .page_report import is_page, write_page
from .printing import FORMS, print_options, print_toggles
from .stages import (
    GPU_STAGES,
    STAGES,
    Machine,
    is_compiled,
    is_hlo,
    runs_passes,
    stage_content,
)

if TYPE_CHECKING:
    from hlo.frontends.text import PrintOptions
    from hlo.ir import Module

_SEPARATOR = "// -----"
_VERIFY = {"verify=lenient": "--lenient", "verify=strict": "--verify"}


class _OptTool(Tool):
    """Takes XLA's debug options out of the arguments, which no list of ours could name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj, rest = DebugOptions.take(args)
        # A flag that may have a value: what follows it is the file.
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
    "StableHLO if it ends in .mlir.",
)
@click.option(
    "--verify/--no-verify", default=True,
    help="Verify the module, or only its structure; --verify=lenient accepts what XLA accepts "
    "if it cannot affect results.",
)  # fmt: skip
@click.option("--lenient", is_flag=True, hidden=True)
@click.option(
    "--print", "form", type=click.Choice(FORMS), default="default", show_default=True,
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
    help="Each FILE contains several modules, separated by lines of `// -----`.",
)
@click.option(
    "--stage", type=click.Choice(list(STAGES)), metavar="STAGE",
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
    help="Print operation counts, costs, memory use, and what collectives send.",
)  # fmt: skip
@click.option("--network", metavar="bandwidth=B/s,latency=S",
              help="With --stats: what a device sends in a second, and how long a message takes "
              "at least.  [default: bandwidth=50GB/s,latency=2us]"
)  # fmt: skip
@click.option("--simulate", metavar="NAME=VALUE,...",
              help="Print a simulated run of the module on machines that are not here. NAMEs, with "
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
              help="With --report FILE.html: times that `hlo-run --profile=FILE.json` measured."
)  # fmt: skip
@click.option("--memory", "report", flag_value="memory",
              help="Print what the compiled module holds in memory at each step of a run: a chart, "
              "the buffers at the peak, and what would lower it."
)  # fmt: skip
@click.option("--signature", "report", flag_value="signature", help="Print parameters and result.")
@click.option("--cost", "report", flag_value="cost",
              help="Print the cost of each instruction of the entry computation, the most "
              "expensive first."
)  # fmt: skip
@click.option("--device", metavar="NAME",
              help="With --cost: also what each kernel takes on a GPU that need not be here: "
              "a100, h100, h200 or rtx4090."
)  # fmt: skip
@click.option("--platform", type=click.Choice(KNOWN, case_sensitive=False),
              help="As in XLA's tool: any but `transforms` without --passes runs the default "
              "pipeline. Of GPUs, it is the --target: nvptx64, amdgcn.")  # fmt: skip
@click.option("--emit-proto", is_flag=True,
              help="Print the HloProto of the module as text, without passes.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print errors only, not the module.")
@click.option("--list-ops", is_flag=True, help="List the operations, and exit.")
@click.option("--compiled", is_flag=True,
              help="With --list-ops: compile each operation in every element type, which takes "
              "minutes, and list those without native code.")  # fmt: skip
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print errors, the report or the list as JSON on stdout.",
)
@click.option("--format", "input_form", type=click.Choice(SOURCE_FORMS),
              help="The format of FILE, instead of detecting it by content and name: HLO text, "
              "a binary or text proto, StableHLO.")  # fmt: skip
@common_options
@click.pass_obj
def main(
    debug_options: DebugOptions, files: tuple[str, ...], output: str | None, verify: bool,
    lenient: bool, form: str, limit: int | None, quiet: bool, list_ops: bool, compiled: bool,
    as_json: bool, split: bool, stage: str | None, list_stages: bool, target: str | None,
    extract: str | None, report: str | None, platform: str | None, emit_proto: bool,
    input_form: str | None, network: str | None, simulate: str | None, partition_report: str | None,
    profile: str | None, device: str | None, cpu: str | None,
    **rest: Any,
) -> int:  # fmt: skip
    """Verify the HLO module in each FILE (- for standard input), run passes on it, and print it.

    A FILE is HLO text, StableHLO text, or a proto as XLA dumps it.

    All errors are reported at once, with their source locations.

    \b
    Example:
      hlo-opt model.hlo --print=short --constants=10
      hlo-opt model.hlo --passes='tuple-simplifier,fix(algsimp,dce)' --time-passes
      hlo-opt model.hlo --report model.html --profile profile.json
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
    if compiled:
        raise click.UsageError("--compiled goes with --list-ops.")
    if network is not None and report != "stats":
        raise click.UsageError("--network goes with --stats.")
    if device is not None and report != "cost":
        raise click.UsageError("--device goes with --cost, and no other report.")
    if simulate is not None:
        if report is not None:
            raise click.UsageError(f"--simulate and --{report} are two reports: one at a time.")
        report = "simulate"
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.")
    if is_page(partition_report):
        return write_page(partition_report, files, passes=flags.passes, profile=profile,
                          verify="lenient" if lenient or not verify else "strict",
                          form=input_form, as_json=as_json)  # fmt: skip
    strictness = "lenient" if lenient or not verify else "strict"
    if report == "memory":
        if target is not None:
            raise click.UsageError("--memory is of this machine's plan: it goes without --target.")
        return show_memory(files, passes=flags.passes, verify=strictness, form=input_form,
                           as_json=as_json)  # fmt: skip
    if profile is not None:
        raise click.UsageError("--profile goes with --report FILE.html.")
    stage = stage_of(platform, stage, flags.passes)
    machine = Machine(target_of(platform, target, is_for_gpu=stage in GPU_STAGES), cpu)
    if emit_proto:
        flags = replace(flags, passes=None)
    elif flags.passes is None and runs_passes(stage):
        flags = replace(flags, passes="default")
    if flags.any_without_passes:
        raise click.UsageError("This needs --passes, for example --passes=default.")
    from hlo.errors import HloError
    from hlo.frontends.sources import module_content
    from hlo.io.files import write_files
    from hlo.io.formats import is_module_file

    parts: list[bytes] = []
    partitions = PartitionReports(partition_report)
    options = print_options(form, limit, rest, debug_options)

    def show(module: Module) -> bytes:
        if report is not None:
            if device is not None:
                return device_cost(module, device, flags.passes, strictness, as_json).encode()
            return _report(module, report, simulate or network or "", as_json).encode()
        if emit_proto:
            return _debug_string(module).encode()
        if stage is not None and not is_hlo(stage):
            return stage_content(module, stage, machine)
        return _print(module, options).encode()

    holds_one = output is not None and is_module_file(output)
    if holds_one and (split or len(files) > 1 or report or emit_proto or not is_hlo(stage)):
        raise click.UsageError(f"--output {output}: it holds one module and nothing else.")

    def take(module: Module, number: int) -> None:
        _verify(module, rules=verify, lenient=lenient)
        if partition_report is not None:
            module = partitions.partitioned(module)
        if flags.passes is not None:
            run_passes(module, flags, number, debug_options, is_compiled=is_compiled(stage),
                       lenient=lenient)  # fmt: skip
        if extract is not None:
            module = _extract(module, extract)
        if output is not None and holds_one:
            parts.append(module_content(output, module))
        else:
            parts.append(b"" if quiet or partitions.to_stdout else show(module))

    try:
        with progress(f"hlo-opt {' '.join(files)}"):
            for file in files:
                for module in _modules(file, split, input_form):
                    take(module, len(parts))
        separator = b"" if partitions.to_stdout else _separator(form, report, stage)
        content = separator.join(parts) + partitions.written(as_json)
        if output not in (None, "-"):
            write_files({output: content})
    except HloError as e:
        if form == "xla" and not as_json:
            note_status(e)
        return fail(e, file, as_json=as_json)
    if as_json and report is None and not partitions.to_stdout:
        emit_json({"file": file, "errors": []})
    elif output in (None, "-"):
        emit(content)
    return 0


def _stages(form: str) -> str:
    if form == "xla":
        return "".join(f"{name}\n" for name in sorted(STAGES))
    return "".join(f"{name:28}{what}\n" for name, what in STAGES.items())


def _separator(form: str, report: str | None, stage: str | None) -> bytes:
    """Return what stands between modules: XLA's tool has nothing that FileCheck could not skip."""
    if report is not None or form == "xla" or stage == "obj":
        return b""
    return f"{_SEPARATOR}\n\n".encode()


def _modules(file: str, split: bool, form: str | None) -> Iterator[Module]:
    """Yield the modules in a file, one if it is not to be split; places are those in the file."""
    from hlo.frontends.sources import read_module
    from hlo.io.files import decode

    data, name = read_source(file)
    if not split:
        yield read_module(data, name, form)
        return
    text = decode(data, name)
    line = 0
    for part in re.split(rf"(?m)^{_SEPARATOR}-*[ \t]*\r?$\n?", text):
        if part.strip():
            yield read_module(("\n" * line + part).encode(), name, form)
        line += part.count("\n") + 1


def _verify(module: Any, *, rules: bool, lenient: bool) -> None:
    """Check a module, or its graph alone: nothing ends on computations that call themselves."""
    from hlo.verifier import verify_as, verify_structure

    if rules:
        verify_as(module, "lenient" if lenient else "strict")
    else:
        verify_structure(module)


def _debug_string(module: Module) -> str:
    from hlo.frontends.proto import to_debug_string

    return to_debug_string(module)


def _print(module: Any, options: PrintOptions) -> str:
    from hlo.frontends.text import print_module

    return print_module(module, options)


def _extract(module: Module, wanted: str) -> Module:
    """Return the module of one instruction, given as [COMPUTATION/]NAME[:HEIGHT]."""
    from hlo.errors import HloError, did_you_mean
    from hlo.ir.extract import extract

    name, colon, height = wanted.rpartition(":")
    if not colon:
        name, height = wanted, ""
    if height and not height.isdecimal():
        raise click.UsageError(f"--extract {wanted}: {height!r} is not a height.")
    where, _, name = name.lstrip("%").rpartition("/")
    comps = [c for c in module.computations if where in ("", c.name)]
    # The entry first: names are unique in their computation only.
    comps.sort(key=lambda c: c is not module.entry)
    found = next((i for c in comps if (i := c.get(name)) is not None), None)
    if found is None:
        hint = did_you_mean(name, (i.name for c in comps for i in c))
        raise HloError.at("unknown-instruction", f"there is no instruction {name}", None, hint)
    return extract(found, int(height) if height else None)


def _report(module: Module, report: str, settings: str, as_json: bool) -> str:
    """Return a report as text. settings: of the network of `stats`, or of `simulate`."""
    if report == "signature":
        from .analysis import signature, signature_text

        found = signature(module)
        return _shown(found, signature_text(found), as_json)
    if report == "simulate":
        from hlo.reports.simulation import read_setup, simulated_run

        run = simulated_run(module, read_setup(settings))
        return _shown(run.as_dict(), str(run), as_json)
    from hlo.analysis.network.costs import read_network
    from hlo.reports.module import module_cost, statistics

    if report == "stats":
        stats = statistics(module, read_network(settings))
        return _shown(stats.as_dict(), repr(stats), as_json)
    cost = module_cost(module)
    return _shown(cost.as_rows(), repr(cost), as_json)


def _shown(found: Any, text: str, as_json: bool) -> str:
    return (json.dumps(found) if as_json else text) + "\n"
