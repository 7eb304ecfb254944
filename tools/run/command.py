"""`hlo-run`: run modules on inputs from files, from the command line, or at random."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..command_line.common import (
    BAD_INPUT,
    SOURCE_FORMS,
    Tool,
    common_options,
    diagnostics_json,
    emit,
    emit_json,
    function_option,
    modules_among,
    note,
    read_source,
    show_error,
    strict_math_option,
    verify_option,
)
from ..command_line.debug_options import DebugOptions
from ..command_line.options import Choice, Option
from ..command_line.passes import check_pipeline
from ..command_line.time_limit import time_limit
from ..command_line.verdicts import Verdicts, ci_options
from .backends import BackendName
from .divergence_options import DivergenceFlags, divergence_options
from .job import WHOSE, Job, run
from .outcome import Outcome, comparison, speed, times, verdicts
from .profile_options import ProfileFlags, profile_options, with_profile_values
from .ranks import be_quiet_unless_first, is_first, joined, settled, source_of, time_for, worst
from .results import entries, shown
from .run_module import HEADING, ModuleFlags, XlaOption, module_options
from .trace_options import TraceFlags, trace_options, with_values
from .verdicts import RUNS, verdicts_on

if TYPE_CHECKING:
    from hlo.errors import HloError
    from hlo.host import Host


class _RunTool(Tool):
    """Takes XLA's debug options out of the arguments; lists flags of XLA's tool separately."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        be_quiet_unless_first()
        ctx.obj, rest = DebugOptions.take(with_profile_values(with_values(args)))
        return super().parse_args(ctx, rest)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, is_xla in (("Options", False), (HEADING, True)):
            options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
            params = [p for p in options if isinstance(p, XlaOption) == is_xla]
            records = [record for p in params if (record := p.get_help_record(ctx)) is not None]
            with formatter.section(heading):
                formatter.write_dl(records)


@click.command(
    "hlo-run", cls=_RunTool, short_help="run HLO modules on inputs", no_args_is_help=True
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="[NAME=]SPEC",
    help="An input: random, zeros, device-id, a .npy file, an HLO literal such as '{1,2}', "
    "@FILE containing one, or '2x3xf32=1 2 3 4 5 6', with the numbers or @FILE. Without NAME it "
    "is for the next parameter.",
)  # fmt: skip
@click.option(
    "--inputs", "archives", multiple=True, metavar="FILE",
    help="Inputs from an npz, by parameter name or as arg0, arg1, ..., or from a dumped "
    "snapshot. Give it once, or once per device.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="OUT",
    help="Write results to OUT.npz (out0, out1, ...), OUT.npy or a folder DIR/, or print them "
    "as HLO literals (-).",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0),
              help="Seed of random inputs.")  # fmt: skip
@click.option(
    "--random", "random", multiple=True, metavar="[PATTERN=]DIST",
    help="The distribution of random inputs: normal, uniform (0 to 1), LO:HI, large (any order "
    "of magnitude), or safe: normal, restricted to the domain that the module requires. Integers "
    "of at most 8 bits, and large ones, have any value of their type, others 0 to 9. PATTERN "
    "selects inputs, as in 'var*=0.1:1'.  [default: safe]",
)  # fmt: skip
@click.option(
    "--constants", metavar="FILE|random",
    help="Values for elided constants, {...}: from an npz or safetensors file by name, from "
    "another form of the module that has them, or random like the inputs.",
)  # fmt: skip
@click.option("--backend", type=BackendName(), metavar="NAME", default="compiled",
              show_default=True, help="What runs the module: compiled (native code), reference "
                                 "(the interpreter), gpu (this machine's NVIDIA GPU), gpu-emulated "
                                 "(runs the GPU's kernels and checks them), or a backend of an "
                                 "installed package.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Compare with the interpreter; exit 1 if results differ.")  # fmt: skip
@click.option("--fail-on-nan", is_flag=True, help="Exit 1 if a result contains NaN.")
@click.option(
    "--expect", metavar="FILE",
    help="Compare results with an npz or safetensors file by name (out0, ...), an npy, or a text "
    "of literals as -o - writes; exit 1 if they differ.",
)  # fmt: skip
@ci_options(
    "the outcome of --check, --expect and --fail-on-nan, or whether a module runs,",
    "Print errors and failed comparisons only.",
)
@click.option("--rtol", type=click.FloatRange(0), metavar="X",
              help="Relative tolerance of floats for --check and --expect.  "
              "[default: by its type]")  # fmt: skip
@click.option("--atol", type=click.FloatRange(0), metavar="X",
              help="Absolute tolerance, added to the relative one.  "
              "[default: by type; 0 with --rtol]")  # fmt: skip
@click.option(
    "--infeed", multiple=True, metavar="FILE",
    help="Values that infeed reads, on each device: an npy, an npz (0, 1, ...; of a tuple 0.0, "
    "0.1, ...), or a text of literals with their shapes. Several files are concatenated.",
)  # fmt: skip
@click.option(
    "--outfeed",
    metavar="FILE",
    help="Write the values of outfeed to an npz in the format of --infeed.",
)
@click.option("--repeat", default=1, metavar="N", type=click.IntRange(1), help="Run N times.")
@click.option("--time", "show_time", is_flag=True,
              help="Show compile and run times, operations and bytes per second.")  # fmt: skip
@click.option("--timeout", metavar="S", type=click.FloatRange(0, min_open=True),
              help="Fail after S seconds; the error names the stage that was "
              "interrupted.")  # fmt: skip
@click.option("--threads", metavar="N", type=click.IntRange(1),
              help="Number of threads for native code.  [default: one per processor]")  # fmt: skip
@click.option("--cache/--no-cache", default=True, show_default=True,
              help="Cache native code on disk for the next run.")  # fmt: skip
@click.option(
    "--passes",
    default="default",
    show_default=True,
    metavar="A,B,fix(C,D)",
    help="The passes that run before compilation, as in hlo-opt; '' for none.",
)
@click.option(
    "--num-replicas",
    "replicas",
    metavar="N",
    type=click.IntRange(1),
    help="Number of replicas, instead of the module's replica_count.",
)
@click.option(
    "--num-partitions",
    "partitions",
    metavar="N",
    type=click.IntRange(1),
    help="Number of partitions of each replica, instead of the module's num_partitions.",
)
@click.option(
    "--devices-per-process",
    metavar="N",
    type=click.IntRange(1),
    help="Under mpiexec, the number of devices of each process.  [default: 1]",
)
@click.option("--rank-timeout", metavar="S", type=click.FloatRange(1), default=60.0,
              show_default=True, help="Under mpiexec, fail when a process does not answer for S "
                                 "seconds.")  # fmt: skip
@click.option("--per-device", is_flag=True,
              help="Read and write the shards of each device, device0.out0, ..., also for a module "
              "with shardings, whose inputs and results are whole arrays by default.")  # fmt: skip
@click.option("--partition", metavar="devices=N,M,...",
              help="Partition a module without shardings over a grid of devices, by "
              "--shard.")  # fmt: skip
@click.option("--shard", "shards", multiple=True, metavar="NAME=AXIS,...|FILE.json",
              help="The axis of the grid that each dimension of a value is sharded over: x=0 "
              "shards dimension 0 over axis 0, w=-,1 dimension 1 over axis 1, y=0+1 over both. "
              "NAME is a parameter (a pattern, or argN), an instruction of the entry, or "
              "outN.")  # fmt: skip
@click.option("--random-by-device", "vary", is_flag=True,
              help="Use different random inputs on each device.")  # fmt: skip
@click.option("--load", multiple=True, metavar="FILE",
              help="Functions for custom calls: a shared library, or a .py file with a dictionary "
              "custom_calls. May be given more than once.")  # fmt: skip
@strict_math_option
@verify_option
@click.option("--format", "--input-format", "form",
              type=Choice([*SOURCE_FORMS, "stablehlo", "mhlo"]),
              help="The format of FILE, instead of detecting it by content and name.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print results or errors as JSON on stdout.")
@click.option("--simt-report", is_flag=True, cls=Option, requires="--backend gpu-emulated",
              excludes=["--trace", "--find-nan", "--first-divergence"],
              help="With --backend gpu-emulated: show bank conflicts, uncoalesced accesses and "
              "other counts of the kernels, by HLO instruction.")  # fmt: skip
@profile_options
@trace_options
@divergence_options
@module_options
@function_option
@common_options
@click.pass_obj
def main(
    debug_options: DebugOptions, files: tuple[str, ...], show_time: bool, load: tuple[str, ...],
    as_json: bool, **rest: Any,
) -> int:  # fmt: skip
    """Run the HLO module in each FILE (- for standard input) and show its results.

    A FILE is HLO text, StableHLO text, or a proto as XLA dumps it; the text may be inside of
    another, as in a log. FILE#NAME is one of several modules in a file.

    Inputs that are not given are random. Results do not depend on the number of threads. A module
    with collectives for several devices runs on that many, one thread per device; inputs are
    passed to each device, results are called device0.out0, device1.out0, ... One with shardings
    is partitioned first; its inputs and results are whole arrays.

    \b
    Examples:
      hlo-run model.hlo --input x=image.npy --input '{1, 2, 3}' -o result.npz
      hlo-run parts.hlo --num-partitions 2 --inputs part0.npz --inputs part1.npz --check
      hlo-run model.hlo --partition devices=2,2 --shard x=0 --shard w=-,1 --check
      hlo-run model.hlo --repeat 20 --profile=model.trace.json
      hlo-run model.hlo --trace --trace-only opcode=dot --trace-only iteration=:3
      hlo-run model.hlo --find-nan
      hlo-run model.hlo other.hlo --first-divergence
      hlo-run model.hlo --backend gpu --check
      hlo-run model.hlo --backend gpu-emulated --simt-report
    """
    from hlo.errors import HloError

    seconds, devices, patience = map(rest.pop, ("timeout", "devices_per_process", "rank_timeout"))
    show = partial(_show, as_json=as_json)
    with time_limit(time_for(seconds), show):
        try:
            with joined(devices, patience, show) as world:
                code = _run(debug_options, files, show_time, load, as_json, rest | {"world": world})
                return worst(world, code)
        except HloError as e:
            if not as_json:
                raise
            show(e)
    return BAD_INPUT


def _show(error: HloError, *, as_json: bool) -> None:
    if as_json:
        emit_json({"errors": diagnostics_json(error)})
    else:
        show_error(error)


def _run(
    debug_options: DebugOptions, files: tuple[str, ...], show_time: bool, load: tuple[str, ...],
    as_json: bool, rest: dict[str, Any],
) -> int:  # fmt: skip
    from hlo.errors import HloError
    from hlo.support.memory import enough_memory

    inspects, profiles = TraceFlags.take(rest, files), ProfileFlags.take(rest, files)
    parts = DivergenceFlags.take(rest, files)
    if parts is not None:
        files = tuple(parts.files)
    files = modules_among(files)
    read = [*files, *([rest["expect"]] if rest["expect"] else [])]
    flags, told = ModuleFlags.take(rest), Verdicts.take("hlo-run", rest, read)
    job = Job(many=len(files) * flags.iterations > 1, debug_options=debug_options, **rest)
    job.inspects, job.profiles = inspects or parts, profiles
    with settled(job.world):
        flags.apply(job)
        flags.need_places(files)
        check_pipeline(job.passes)
        _check_output(files, job)
        job.loaded = _loaded(load)
        jobs = flags.jobs(job)
    if job.world is not None and flags.isolate_instructions:
        raise click.UsageError("--isolate-instructions does not run under mpiexec.")

    reports: list[dict[str, Any]] = []
    failed = []
    for number, file in enumerate(files):
        source, bad, outcomes = None, 0, []
        for n, one in enumerate(jobs):
            if len(jobs) > 1 and not job.quiet:
                note(f"\n=== Iteration {n + 1}")
            if flags.isolate_instructions:
                bad += _run_isolated(file, one, reports, told, as_json=as_json)
                continue
            suffix = f" in iteration {n + 1}" if len(jobs) > 1 else ""
            try:
                with enough_memory(file):
                    source = source or source_of(one.world, file)
                    outcome = run(file, *source, replace(one, number=number))
                    if is_first(one.world):
                        _deliver(outcome, one, as_json=as_json)
                    if one.profiles is not None:
                        one.profiles.deliver(outcome, one, quiet=as_json or job.quiet)
                    if outcome.simt_report and not as_json:
                        (note if one.output == "-" else emit)(outcome.simt_report)
            except HloError as e:
                bad += 1
                told.add_error(file, f"{RUNS}{suffix}", e)
                if as_json:
                    reports.append({"file": file, "errors": diagnostics_json(e)})
                else:
                    show_error(e)
                continue
            bad += outcome.failed
            told.add(verdicts_on(outcome, source, one.form, suffix))
            if as_json:
                reports.append(_report(outcome, one))
            else:
                _tell(outcome, one, show_time=show_time)
            flags.tell(outcome, quiet=as_json or job.quiet)
            outcomes.append(outcome)
        if bad:
            failed.append(file)
        if is_first(job.world):
            flags.conclude(outcomes, bad)
    if is_first(job.world):
        told.conclude()
    if as_json:
        emit_json(reports if job.many or flags.isolate_instructions else reports[0])
    elif len(files) > 1 and (failed or not job.quiet):
        done = "agree" if job.check or job.expect else "ran"
        note(f"{len(files) - len(failed)} of {len(files)} files {done}")
        for file in failed:
            note(f"failed: {file}")
    return BAD_INPUT if failed else 0


def _run_isolated(
    file: str, job: Job, reports: list[dict[str, Any]], told: Verdicts, *, as_json: bool
) -> int:
    """Run each instruction of a module alone; returns how many fail."""
    from hlo.errors import HloError
    from hlo.support.memory import enough_memory

    from .isolate import isolated

    count = bad = 0
    alone = replace(job, quiet=True, form=None, debug_options=None)

    def failed(error: HloError, name: str) -> None:
        told.add_error(file, f"{RUNS}: {name}" if name else RUNS, error)
        if as_json:
            reports.append({"file": file, "instruction": name, "errors": diagnostics_json(error)})
        else:
            show_error(error)

    try:
        for name, text in isolated(*read_source(file), job.form, job.verify):
            label = f"{file}: {name}"
            count += 1
            try:
                with enough_memory(label):
                    outcome = run(label, text, label, alone)
            except HloError as e:
                if e.code == "no-device":
                    raise  # nor is it there for the others
                bad += 1
                failed(e, name)
                continue
            bad += outcome.failed
            told.add(verdicts_on(replace(outcome, file=file), None, None, f": {name}"))
            if as_json:
                reports.append({**_report(outcome, alone), "file": file, "instruction": name})
            elif outcome.failed:
                _tell(outcome, alone, show_time=False)
    except HloError as e:
        failed(e, "")
        return 1
    if not as_json and (bad or not job.quiet):
        done = "agree" if job.check else "run"
        note(f"{file}: {count - bad} of {count} instructions {done}")
    return bad


def _tell(outcome: Outcome, job: Job, *, show_time: bool) -> None:
    """Write the summary of a run besides its results."""
    for line in verdicts(outcome) if outcome.failed or not job.quiet else ():
        note(line)
    for name, count in (outcome.rejected or {}).items():
        size = outcome.results[name].size
        note(f"{outcome.file}: {name}: {count} of {size} elements are NaN")
    if show_time or job.compile_only:
        note(times(outcome))


def _loaded(files: tuple[str, ...]) -> Host | None:
    if not files:
        return None
    from hlo.host.plugins import host_of

    return host_of(files)


def _check_output(files: tuple[str, ...], job: Job) -> None:
    from hlo.io.archives import SAFETENSORS
    from hlo.io.files import make_folder, need_places
    from hlo.io.formats import unsupported_extension

    for file in files:
        if file.endswith((".npy", ".npz", SAFETENSORS)):
            flag = "--input" if file.endswith(".npy") else "--inputs"
            raise click.UsageError(f"{file} is not a module; {flag} {file} takes its values.")
    output = job.output
    if job.outfeed is not None:
        if not job.outfeed.endswith(".npz") or job.many:
            raise click.UsageError(
                f"--outfeed {job.outfeed}: the outfeed of one module is written to an .npz."
            )
        need_places([job.outfeed], files)
    if output is None or output == "-":
        return
    if _is_folder(output):
        make_folder(output)
    else:
        if not output.endswith((".npz", ".npy")):
            problem = unsupported_extension(Path(output).suffix, (".npz", ".npy", "DIR/", "-"))
            raise click.UsageError(f"--output {output}: {problem}")
        if len(files) > 1:
            raise click.UsageError(
                f"--output {output}: results of several files need a directory, DIR/, or -."
            )
    if job.many and len(files) == 1:
        raise click.UsageError(
            "--output excludes several --iterations; --output-literals-file writes all results."
        )
    sources = [spec.rpartition("=")[2].removeprefix("@") for spec in job.inputs]
    read = [*files, *sources, *job.archives, *job.infeed, *([job.expect] if job.expect else [])]
    need_places([_place(file, output) for file in files], read)


def _place(file: str, output: str) -> str:
    """Return where the results of a module go."""
    if not _is_folder(output):
        return output
    from hlo.io.module_files import file_and_module

    name, module = file_and_module(file)
    stem = "stdin" if file == "-" else Path(name).stem + (f".{module}" if module else "")
    return str(Path(output) / f"{stem}.npz")


def _is_folder(output: str) -> bool:
    return output.endswith("/") or Path(output).is_dir()


def _deliver(outcome: Outcome, job: Job, *, as_json: bool) -> None:
    """Write the results to the files that they are for, or show them."""
    from hlo.io.files import literal_text, write_npy, write_npz

    output, results = job.output, outcome.results
    shows = not (as_json or job.quiet)
    if job.compile_only:
        return
    if outcome.inspection is not None:
        if shows or (outcome.inspection.failed and not as_json):
            emit(outcome.inspection.text)
        return
    if job.outfeed is not None:
        names = {name.replace("outfeed", "", 1): v for name, v in outcome.outfeed.items()}
        write_npz(job.outfeed, names)
    elif shows and output != "-":
        emit(shown(outcome.outfeed))
    if output is None:
        if shows and not job.prints_literals:
            emit(shown(results))
    elif output == "-":
        if not as_json:
            for value in results.values():
                emit(literal_text(value) + "\n")
    elif (place := _place(outcome.file, output)).endswith(".npz"):
        write_npz(place, results)
    else:
        write_npy(place, *results.values())


def _report(outcome: Outcome, job: Job) -> dict[str, Any]:
    """Return the JSON object of a file that ran; docs/hlo-run.md describes it."""
    literals = True if job.output == "-" else None if job.output is None else False
    report = {
        "file": outcome.file,
        "backend": job.backend,
        "results": entries(outcome.results, literals),
        "outfeed": entries(outcome.outfeed, literals),
        "seed": job.seed,
        "random_inputs": outcome.made_up,
        "elided_constants": list(outcome.elided),
        "assumed": {name: str(domain) for name, domain in outcome.assumed.items()},
        "devices": outcome.devices,
        "unused_devices": outcome.unused_devices,
        "seconds": {"prepare": outcome.prepare_s, "runs": outcome.runs_s},
        "speed": speed(outcome),
        "cost": dict(outcome.cost),
    }
    if job.fail_on_nan:
        report["nan"] = outcome.rejected
    for whose, checks in outcome.checks.items():
        key = "check" if whose in WHOSE.values() else "expect"
        report[key] = {name: comparison(c) for name, c in checks.items()}
    if outcome.inspection is not None:
        report |= outcome.inspection.json
    for key, profiles in (("profile", outcome.profiles), ("compilation", outcome.compilation)):
        if profiles:
            report[key] = [p.to_json() for p in profiles]
    if job.simt_report:
        report["simt"] = list(outcome.simt_counts)
    return report
