"""`hlo-run`: run modules on inputs from files, from the command line, or at random."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from .common import (
    BAD_INPUT,
    Tool,
    common_options,
    diagnostics_json,
    emit,
    emit_json,
    load,
    note,
    progress,
    show_error,
)

# Results of more elements are shown by what is in them.
_SHOWN_ELEMENTS = 100
_NAMED_INPUTS = 6


@dataclass
class _Job:
    """What the flags ask for, for every file alike."""

    inputs: tuple[str, ...]
    archive: str | None
    output: str | None
    seed: int
    repeat: int
    many: bool


@dataclass
class _Outcome:
    """What came of one file."""

    file: str
    results: dict[str, Any] = field(default_factory=dict)
    made_up: list[str] = field(default_factory=list)
    prepare_s: float = 0.0
    runs_s: list[float] = field(default_factory=list)


@click.command("hlo-run", cls=Tool, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="[NAME=]SPEC",
    help="An input: random, zeros, a .npy file, an HLO literal such as '{1,2}', @FILE with one, "
    "or '2x3xf32=1 2 3 4 5 6'. Without NAME it is for the next parameter.",
)  # fmt: skip
@click.option(
    "--inputs", "archive", metavar="FILE.npz",
    help="Inputs by parameter name, or arg0, arg1, ...",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="OUT",
    help="Results to OUT.npz (out0, out1, ...), OUT.npy, a folder DIR/, or - for HLO literals.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0),
              help="Seed of the inputs that are not given.")  # fmt: skip
@click.option("--backend", type=click.Choice(["reference"]), default="reference",
              show_default=True, help="What runs the module.")  # fmt: skip
@click.option("--repeat", default=1, metavar="N", type=click.IntRange(1), help="Run N times.")
@click.option("--time", "show_time", is_flag=True, help="Show how long it takes.")
@click.option("--json", "as_json", is_flag=True, help="Results or errors as JSON on stdout.")
@common_options
def main(
    files: tuple[str, ...], inputs: tuple[str, ...], archive: str | None, output: str | None,
    seed: int, backend: str, repeat: int, show_time: bool, as_json: bool,
) -> int:  # fmt: skip
    """Run the HLO module in each FILE (- for standard input) and show its results.

    Inputs that are not given are random, from the seed.

    \b
    Example:
      hlo-run model.hlo --input x=image.npy --input '{1, 2, 3}' -o result.npz
    """
    from hlo.errors import HloError

    job = _Job(inputs, archive, output, seed, repeat, len(files) > 1)
    _check_output(job)
    reports, failed = [], []
    for file in files:
        try:
            outcome = _run(file, job)
            _deliver(outcome, job, quiet=as_json)
        except HloError as e:
            failed.append(file)
            if as_json:
                reports.append({"file": file, "errors": diagnostics_json(e)})
            else:
                show_error(e)
            continue
        if as_json:
            reports.append(_report(outcome, job))
        elif show_time:
            note(_times(outcome))
    if as_json:
        emit_json(reports if job.many else reports[0])
    elif job.many:
        note(f"{len(files) - len(failed)} of {len(files)} files ran")
        for file in failed:
            note(f"failed: {file}")
    return BAD_INPUT if failed else 0


def _check_output(job: _Job) -> None:
    output = job.output
    if output is None or output == "-" or _is_folder(output):
        return
    if not output.endswith((".npz", ".npy")):
        raise click.UsageError(f"--output {output}: a name ending in .npz or .npy, DIR/, or -")
    if job.many:
        raise click.UsageError("--output: several files need a folder, DIR/, or -")


def _is_folder(output: str) -> bool:
    return output.endswith("/") or Path(output).is_dir()


def _run(file: str, job: _Job) -> _Outcome:
    from hlo.api import parameters_of, result_leaves, run_values, verify
    from hlo.inputs import read_inputs

    outcome = _Outcome(file)
    start = time.perf_counter()
    with progress(f"reading {file}"):
        module = load(file)
        verify(module)
        values, outcome.made_up = read_inputs(
            parameters_of(module), job.inputs, job.archive, job.seed
        )
        leaves = len(result_leaves(module))
        if job.output is not None and job.output.endswith(".npy") and leaves != 1:
            raise click.UsageError(f"--output: {file} has {leaves} results, an npy holds one")
    outcome.prepare_s = time.perf_counter() - start
    if outcome.made_up:
        note(_made_up(outcome, job.seed))
    for _ in range(job.repeat):
        start = time.perf_counter()
        with progress(f"running {file}"):
            result = run_values(module, values)
        outcome.runs_s.append(time.perf_counter() - start)
    outcome.results = {name: leaf for name, _, leaf in result_leaves(module, result)}
    return outcome


def _made_up(outcome: _Outcome, seed: int) -> str:
    names = outcome.made_up
    which = ", ".join(names[:_NAMED_INPUTS]) + (", ..." if len(names) > _NAMED_INPUTS else "")
    plural = "s are" if len(names) > 1 else " is"
    return f"{outcome.file}: {len(names)} input{plural} random from seed {seed}: {which}"


def _deliver(outcome: _Outcome, job: _Job, quiet: bool) -> None:
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
    elif _is_folder(output):
        stem = "stdin" if outcome.file == "-" else Path(outcome.file).stem
        write_npz(Path(output) / f"{stem}.npz", results)
    elif output.endswith(".npz"):
        write_npz(output, results)
    else:
        write_npy(output, *results.values())


def _shown(value: Any) -> str:
    from hlo.files import literal_text, statistics_text

    return literal_text(value) if value.size <= _SHOWN_ELEMENTS else statistics_text(value)


def _times(outcome: _Outcome) -> str:
    from statistics import median

    runs = outcome.runs_s
    text = f"{outcome.file}: prepared in {outcome.prepare_s:.3f} s, ran in {median(runs):.6f} s"
    if len(runs) > 1:
        text += f" (median of {len(runs)}; min {min(runs):.6f}, max {max(runs):.6f})"
    return text


def _report(outcome: _Outcome, job: _Job) -> dict[str, Any]:
    """Return the JSON object of a file that ran."""
    from hlo.files import literal_text

    results = []
    for name, value in outcome.results.items():
        entry = {"name": name, "dtype": str(value.dtype), "dims": list(value.shape)}
        if job.output == "-" or (job.output is None and value.size <= _SHOWN_ELEMENTS):
            entry["literal"] = literal_text(value)
        results.append(entry)
    return {
        "file": outcome.file,
        "results": results,
        "seed": job.seed,
        "random_inputs": outcome.made_up,
        "seconds": {"prepare": outcome.prepare_s, "runs": outcome.runs_s},
    }
