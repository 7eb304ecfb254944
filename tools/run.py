"""`hlo-run`: run modules on inputs from files, from the command line, or at random."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .backends import Runnable, compiled, reference
from .common import (
    BAD_INPUT,
    Tool,
    common_options,
    diagnostics_json,
    emit,
    emit_json,
    note,
    progress,
    read_source,
    show_error,
)
from .devices import for_devices, inputs_by_device, named_results
from .outcome import (
    Outcome,
    assumed_text,
    comparison,
    made_up_text,
    nan_counts,
    speed,
    times,
    verdict,
)

if TYPE_CHECKING:
    from hlo.compare import Comparison
    from hlo.constants import Constants
    from hlo.host import Host

# Results of more elements are shown by what is in them.
_SHOWN_ELEMENTS = 100


@dataclass
class _Job:
    """What the flags ask for, for every file alike."""

    inputs: tuple[str, ...]
    archives: tuple[str, ...]
    output: str | None
    seed: int
    random: tuple[str, ...]
    constants: str | None
    backend: str
    check: bool
    fail_on_nan: bool
    repeat: int
    threads: int | None
    cache: bool
    passes: str
    many: bool
    replicas: int | None
    partitions: int | None
    vary: bool
    loaded: Host | None = None

    def host(self) -> Host | None:
        """Return a fresh host with the functions that were loaded: runs leave state behind."""
        if self.loaded is None:
            return None
        from hlo.host import Host

        return Host(self.loaded.custom_calls, self.loaded.libraries)

    def filler(self) -> Constants | None:
        """Return what gives elided constants values."""
        if self.constants is None:
            return None
        from hlo.constants import Constants

        return Constants(self.constants, self.seed, self.random)


@click.command("hlo-run", cls=Tool, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="[NAME=]SPEC",
    help="An input: random, zeros, device-id, a .npy file, an HLO literal such as '{1,2}', @FILE "
    "with one, or '2x3xf32=1 2 3 4 5 6'. Without NAME it is for the next parameter.",
)  # fmt: skip
@click.option(
    "--inputs", "archives", multiple=True, metavar="FILE",
    help="Inputs by parameter name, or arg0, arg1, ... of an npz, or those of a dumped snapshot. "
    "Once, or once for each device.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="OUT",
    help="Results to OUT.npz (out0, out1, ...), OUT.npy, a folder DIR/, or - for HLO literals.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0),
              help="Seed of the inputs that are not given.")  # fmt: skip
@click.option(
    "--random", "random", multiple=True, metavar="[PATTERN=]DIST",
    help="What random inputs are: normal, uniform (0 to 1), LO:HI, or safe: normal, but kept to "
    "what the module needs of them. PATTERN says for which, as in 'var*=0.1:1'.  [default: safe]",
)  # fmt: skip
@click.option(
    "--constants", metavar="FILE|random",
    help="Values for elided constants, {...}: from an npz or safetensors file by name, from the "
    "module in a form that has them, or random as the inputs are.",
)  # fmt: skip
@click.option("--backend", type=click.Choice(["compiled", "reference"]), default="compiled",
              show_default=True, help="Native code, or the interpreter.")  # fmt: skip
@click.option("--check", is_flag=True, help="Run both backends; exit 1 if their results differ.")
@click.option("--fail-on-nan", is_flag=True, help="Exit 1 if a result has a NaN.")
@click.option("--repeat", default=1, metavar="N", type=click.IntRange(1), help="Run N times.")
@click.option("--time", "show_time", is_flag=True,
              help="Show how long it takes, and how fast that is.")  # fmt: skip
@click.option("--threads", metavar="N", type=click.IntRange(1),
              help="Threads of native code.  [default: one a processor]")  # fmt: skip
@click.option("--cache/--no-cache", default=True, show_default=True,
              help="Keep native code on disk for the next run.")  # fmt: skip
@click.option(
    "--passes",
    default="default",
    show_default=True,
    metavar="A,B,fix(C,D)",
    help="What optimizes compiled modules first, as in hlo-opt; '' for nothing.",
)
@click.option(
    "--num-replicas",
    metavar="N",
    type=click.IntRange(1),
    help="Devices that run the module side by side, in place of its replica_count.",
)
@click.option(
    "--num-partitions",
    metavar="N",
    type=click.IntRange(1),
    help="Devices that share each replica's work, in place of its num_partitions.",
)
@click.option("--random-by-device", is_flag=True,
              help="Random inputs differ from device to device.")  # fmt: skip
@click.option("--load", multiple=True, metavar="FILE",
              help="Functions for custom calls: a shared library, or a .py file with a dictionary "
              "custom_calls. May be given more than once.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Results or errors as JSON on stdout.")
@common_options
def main(
    files: tuple[str, ...], inputs: tuple[str, ...], archives: tuple[str, ...], output: str | None,
    seed: int, random: tuple[str, ...], constants: str | None, backend: str, check: bool,
    fail_on_nan: bool, repeat: int, show_time: bool, threads: int | None, cache: bool, passes: str,
    num_replicas: int | None, num_partitions: int | None,
    random_by_device: bool, load: tuple[str, ...], as_json: bool,
) -> int:  # fmt: skip
    """Run the HLO module in each FILE (- for standard input) and show its results.

    A FILE is HLO text, StableHLO text, or a proto as XLA dumps it.

    Inputs that are not given are random, from the seed. Results do not depend on the number of
    threads. A module whose collectives are for several devices runs on as many, in threads; inputs
    are for all of them, results are device0.out0, device1.out0, ...

    \b
    Examples:
      hlo-run model.hlo --input x=image.npy --input '{1, 2, 3}' -o result.npz
      hlo-run sharded.hlo --num-partitions 2 --inputs part0.npz --inputs part1.npz --check
    """
    from hlo.errors import HloError
    from hlo.memory import enough_memory

    backend = "compiled" if check else backend
    job = _Job(
        inputs, archives, output, seed, random, constants, backend, check, fail_on_nan, repeat,
        threads, cache, passes, len(files) > 1, num_replicas, num_partitions, random_by_device,
    )  # fmt: skip
    try:
        _check_output(files, job)
        job.loaded = _loaded(load)
    except HloError as e:
        if not as_json:
            raise
        emit_json({"errors": diagnostics_json(e)})
        return BAD_INPUT
    reports, failed = [], []
    for file in files:
        try:
            with enough_memory(file):
                outcome = _run(file, job)
                _deliver(outcome, job, quiet=as_json)
        except HloError as e:
            failed.append(file)
            if as_json:
                reports.append({"file": file, "errors": diagnostics_json(e)})
            else:
                show_error(e)
            continue
        if outcome.failed:
            failed.append(file)
        if as_json:
            reports.append(_report(outcome, job))
            continue
        if check:
            note(verdict(outcome))
        for name, count in outcome.rejected.items():
            note(f"{file}: {name}: {count} of {outcome.results[name].size} elements are NaN")
        if show_time:
            note(times(outcome))
    if as_json:
        emit_json(reports if job.many else reports[0])
    elif job.many:
        done = "agree" if check else "ran"
        note(f"{len(files) - len(failed)} of {len(files)} files {done}")
        for file in failed:
            note(f"failed: {file}")
    return BAD_INPUT if failed else 0


def _loaded(files: tuple[str, ...]) -> Host | None:
    if not files:
        return None
    from hlo.plugins import host_of

    return host_of(files)


def _check_output(files: tuple[str, ...], job: _Job) -> None:
    from hlo.files import need_places

    output = job.output
    if output is None or output == "-":
        return
    if not _is_folder(output):
        if not output.endswith((".npz", ".npy")):
            raise click.UsageError(f"--output {output}: a name ending in .npz or .npy, DIR/, or -")
        if job.many:
            raise click.UsageError("--output: several files need a folder, DIR/, or -")
    sources = [spec.rpartition("=")[2].removeprefix("@") for spec in job.inputs]
    need_places(
        [_place(file, output) for file in files],
        [*files, *sources, *job.archives],
    )


def _place(file: str, output: str) -> str:
    """Return where the results of a module go."""
    if not _is_folder(output):
        return output
    stem = "stdin" if file == "-" else Path(file).stem
    return str(Path(output) / f"{stem}.npz")


def _is_folder(output: str) -> bool:
    return output.endswith("/") or Path(output).is_dir()


def _run(file: str, job: _Job) -> Outcome:
    from hlo.distribution import Distributions
    from hlo.inputs import Sampler

    outcome = Outcome(file)
    source, name = read_source(file)
    with progress(f"preparing {file}"):
        source, counts = for_devices(source, name, job.replicas, job.partitions)
        if counts is not None:
            name += " (printed for other devices)"
        module = _prepared(source, name, job, counts)
        distributions = Distributions(job.random)
        if job.constants != "random":  # else names may be those of constants
            names = [name for p in module.parameters for _, name, _ in p.leaves()]
            distributions.need_names(names)
        sampler = Sampler(job.seed, distributions, module.domains)
        values, outcome.made_up = inputs_by_device(
            module.parameters, prod(module.device_counts), job.inputs, job.archives, sampler,
            vary=job.vary,
        )  # fmt: skip
        outcome.assumed = sampler.assumed
    outcome.devices = len(values)
    leaves = len(named_results(module.result, [None] * len(values)))
    if job.output is not None and job.output.endswith(".npy") and leaves != 1:
        raise click.UsageError(f"--output: {file} has {leaves} results, an npy holds one")
    outcome.prepare_s, outcome.cost = dict(module.seconds), module.cost
    outcome.elided = module.elided
    if outcome.elided:
        from hlo.constants import elided_text

        note(
            f"{file}: warning: {elided_text(outcome.elided)}; results are made up, "
            "--constants FILE or --constants random fills them"
        )
    if outcome.made_up:
        note(made_up_text(outcome, job.seed, vary=job.vary))
    if outcome.assumed:
        note(assumed_text(outcome))
    with progress(f"running {file}"):
        for _ in range(job.repeat):
            start = time.perf_counter()
            results = module.run(values)
            outcome.runs_s.append(time.perf_counter() - start)
    outcome.results = named_results(module.result, results)
    if job.fail_on_nan:
        outcome.rejected = nan_counts(outcome.results)
    if job.check:
        with progress(f"checking {file}"):
            outcome.checks = _compared(outcome.results, source, name, job, values, counts)
    return outcome


def _prepared(source: bytes, name: str, job: _Job, counts: tuple[int, int] | None) -> Runnable:
    if job.backend == "reference":
        return reference(source, name, job.host, counts, job.filler())
    return compiled(
        source, name, cache=job.cache, threads=job.threads, host=job.host, passes=job.passes,
        device_counts=counts, constants=job.filler(),
    )  # fmt: skip


def _compared(
    results: Mapping[str, Any], source: bytes, name: str, job: _Job, values: list[list[Any]],
    counts: tuple[int, int] | None,
) -> dict[str, Comparison]:  # fmt: skip
    """Compare results with the interpreter's.

    Where they differ it runs again, on inputs that differ in their last places: results may be off
    by a few times what that changes.
    """
    from hlo.compare import compare, nudged, spread

    def wanted(values: list[list[Any]]) -> dict[str, Any]:
        module = reference(source, name, job.host, counts, job.filler())
        return named_results(module.result, module.run(values))

    want = wanted(values)
    found = {n: compare(results[n], w) for n, w in want.items()}
    if all(c.same for c in found.values()):
        return found
    near = wanted([[nudged(v) for v in own] for own in values])
    for n, c in found.items():
        if not c.same:
            found[n] = compare(results[n], want[n], sensitivity=spread(want[n], near[n]))
    return found


def _deliver(outcome: Outcome, job: _Job, quiet: bool) -> None:
    """Write the results where they are wanted, or show them."""
    from hlo.files import literal_text, write_npy, write_npz

    output, results = job.output, outcome.results
    if output is None:
        if not quiet:
            for name, value in results.items():
                emit(f"{name} = {_shown(value)}\n")
    elif output == "-":
        if not quiet:
            for value in results.values():
                emit(literal_text(value) + "\n")
    elif (place := _place(outcome.file, output)).endswith(".npz"):
        write_npz(place, results)
    else:
        write_npy(place, *results.values())


def _shown(value: Any) -> str:
    from hlo.files import literal_text, statistics_text

    return literal_text(value) if _is_short(value) else statistics_text(value)


def _is_short(value: Any) -> bool:
    """True for a result that is shown in full: few elements, and few braces around none."""
    from hlo.literal import brace_pairs

    return (value.size or brace_pairs(value.shape)) <= _SHOWN_ELEMENTS


def _report(outcome: Outcome, job: _Job) -> dict[str, Any]:
    """Return the JSON object of a file that ran."""
    from hlo.files import literal_text

    results = []
    for name, value in outcome.results.items():
        entry = {"name": name, "dtype": str(value.dtype), "dims": list(value.shape)}
        if job.output == "-" or (job.output is None and _is_short(value)):
            entry["literal"] = literal_text(value)
        results.append(entry)
    report = {
        "file": outcome.file,
        "backend": job.backend,
        "results": results,
        "seed": job.seed,
        "random_inputs": outcome.made_up,
        "elided_constants": list(outcome.elided),
        "assumed": {name: str(domain) for name, domain in outcome.assumed.items()},
        "devices": outcome.devices,
        "seconds": {"prepare": outcome.prepare_s, "runs": outcome.runs_s},
        "speed": speed(outcome),
        "cost": dict(outcome.cost),
    }
    if job.check:
        report["check"] = {name: comparison(c) for name, c in outcome.checks.items()}
    return report
