"""`hlo-run`: run modules on inputs from files, from the command line, or at random."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
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

if TYPE_CHECKING:
    from hlo.compare import Comparison
    from hlo.host import Host

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
    backend: str
    check: bool
    repeat: int
    threads: int | None
    cache: bool
    passes: str
    many: bool
    loaded: Host | None = None

    def host(self) -> Host | None:
        """Return a fresh host with the functions that were loaded: runs leave state behind."""
        if self.loaded is None:
            return None
        from hlo.host import Host

        return Host(self.loaded.custom_calls, self.loaded.libraries)


@dataclass
class _Outcome:
    """What came of one file."""

    file: str
    results: dict[str, Any] = field(default_factory=dict)
    made_up: list[str] = field(default_factory=list)
    prepare_s: dict[str, float] = field(default_factory=dict)
    runs_s: list[float] = field(default_factory=list)
    cost: Mapping[str, int] = field(default_factory=dict)
    # How each result compares with the interpreter's, where that was asked.
    checks: dict[str, Comparison] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return not all(c.same for c in self.checks.values())


@click.command("hlo-run", cls=Tool, no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="[NAME=]SPEC",
    help="An input: random, zeros, a .npy file, an HLO literal such as '{1,2}', @FILE with one, "
    "or '2x3xf32=1 2 3 4 5 6'. Without NAME it is for the next parameter.",
)  # fmt: skip
@click.option(
    "--inputs", "archive", metavar="FILE",
    help="Inputs by parameter name, or arg0, arg1, ... of an npz, or those of a dumped snapshot.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="OUT",
    help="Results to OUT.npz (out0, out1, ...), OUT.npy, a folder DIR/, or - for HLO literals.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0),
              help="Seed of the inputs that are not given.")  # fmt: skip
@click.option("--backend", type=click.Choice(["compiled", "reference"]), default="compiled",
              show_default=True, help="Native code, or the interpreter.")  # fmt: skip
@click.option("--check", is_flag=True, help="Run both backends; exit 1 if their results differ.")
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
@click.option("--load", multiple=True, metavar="FILE",
              help="Functions for custom calls: a shared library, or a .py file with a dictionary "
              "custom_calls. May be given more than once.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Results or errors as JSON on stdout.")
@common_options
def main(
    files: tuple[str, ...], inputs: tuple[str, ...], archive: str | None, output: str | None,
    seed: int, backend: str, check: bool, repeat: int, show_time: bool, threads: int | None,
    cache: bool, passes: str, load: tuple[str, ...], as_json: bool,
) -> int:  # fmt: skip
    """Run the HLO module in each FILE (- for standard input) and show its results.

    Inputs that are not given are random, from the seed. Results do not depend on the number of
    threads.

    \b
    Example:
      hlo-run model.hlo --input x=image.npy --input '{1, 2, 3}' -o result.npz
    """
    from hlo.errors import HloError
    from hlo.memory import enough_memory

    backend = "compiled" if check else backend
    job = _Job(inputs, archive, output, seed, backend, check, repeat, threads, cache, passes,
               len(files) > 1)  # fmt: skip
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
            note(_verdict(outcome))
        if show_time:
            note(_times(outcome))
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
        [*files, *sources, *([job.archive] if job.archive else [])],
    )


def _place(file: str, output: str) -> str:
    """Return where the results of a module go."""
    if not _is_folder(output):
        return output
    stem = "stdin" if file == "-" else Path(file).stem
    return str(Path(output) / f"{stem}.npz")


def _is_folder(output: str) -> bool:
    return output.endswith("/") or Path(output).is_dir()


def _run(file: str, job: _Job) -> _Outcome:
    from hlo.arguments import named_leaves
    from hlo.inputs import read_inputs

    outcome = _Outcome(file)
    source, name = read_source(file)
    with progress(f"preparing {file}"):
        module = _prepared(source, name, job)
        values, outcome.made_up = read_inputs(module.parameters, job.inputs, job.archive, job.seed)
    leaves = len(named_leaves(module.result))
    if job.output is not None and job.output.endswith(".npy") and leaves != 1:
        raise click.UsageError(f"--output: {file} has {leaves} results, an npy holds one")
    outcome.prepare_s, outcome.cost = dict(module.seconds), module.cost
    if outcome.made_up:
        note(_made_up(outcome, job.seed))
    with progress(f"running {file}"):
        for _ in range(job.repeat):
            start = time.perf_counter()
            result = module.run(values)
            outcome.runs_s.append(time.perf_counter() - start)
    outcome.results = {name: leaf for name, _, leaf in named_leaves(module.result, result)}
    if job.check:
        with progress(f"checking {file}"):
            outcome.checks = _compared(outcome.results, source, name, job, values)
    return outcome


def _prepared(source: bytes, name: str, job: _Job) -> Runnable:
    if job.backend == "reference":
        return reference(source, name, job.host())
    return compiled(
        source, name, cache=job.cache, threads=job.threads, host=job.host(), passes=job.passes
    )


def _compared(
    results: Mapping[str, Any], source: bytes, name: str, job: _Job, values: list[Any]
) -> dict[str, Comparison]:
    """Compare results with the interpreter's.

    Where they differ it runs again, on inputs that differ in their last places: results may be off
    by a few times what that changes.
    """
    from hlo.arguments import named_leaves
    from hlo.compare import compare, nudged, spread

    def wanted(values: list[Any]) -> dict[str, Any]:
        module = reference(source, name, job.host())
        return {n: leaf for n, _, leaf in named_leaves(module.result, module.run(values))}

    want = wanted(values)
    found = {n: compare(results[n], w) for n, w in want.items()}
    if all(c.same for c in found.values()):
        return found
    near = wanted([nudged(v) for v in values])
    for n, c in found.items():
        if not c.same:
            found[n] = compare(results[n], want[n], sensitivity=spread(want[n], near[n]))
    return found


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
    elif (place := _place(outcome.file, output)).endswith(".npz"):
        write_npz(place, results)
    else:
        write_npy(place, *results.values())


def _shown(value: Any) -> str:
    from hlo.files import literal_text, statistics_text

    return literal_text(value) if value.size <= _SHOWN_ELEMENTS else statistics_text(value)


def _verdict(outcome: _Outcome) -> str:
    checks = outcome.checks.items()
    noted = [f"{outcome.file}: {n}: {c}" for n, c in checks if not c.same or c.sensitivity]
    same = sum(c.same for c in outcome.checks.values())
    summary = f"{outcome.file}: {same} of {len(outcome.checks)} results are the interpreter's"
    return "\n".join([*noted, summary])


def _times(outcome: _Outcome) -> str:
    stages = ", ".join(f"{name} {seconds:.3f}" for name, seconds in outcome.prepare_s.items())
    ran = _speed(outcome)
    text = f"{outcome.file}: prepared in {sum(outcome.prepare_s.values()):.3f} s ({stages})\n"
    text += f"{outcome.file}: ran in {ran['median']:.6f} s"
    if len(outcome.runs_s) > 1:
        text += f" (median of {len(outcome.runs_s)}; min {ran['min']:.6f}, max {ran['max']:.6f})"
    if outcome.cost:
        about = "" if outcome.cost["exact"] else "at least "
        text += f", {about}{ran['gflops']:.4g} GFLOP/s, {about}{ran['gbytes']:.4g} GB/s"
    return text


def _speed(outcome: _Outcome) -> dict[str, float]:
    """Return seconds a run, and at the median 10^9 operations and bytes a second."""
    from statistics import median

    runs = outcome.runs_s
    found = {"min": min(runs), "median": median(runs), "max": max(runs)}
    if outcome.cost:
        rate = 1e-9 / max(found["median"], 1e-9)
        found["gflops"] = rate * (outcome.cost["operations"] + outcome.cost["transcendentals"])
        found["gbytes"] = rate * outcome.cost["bytes"]
    return found


def _report(outcome: _Outcome, job: _Job) -> dict[str, Any]:
    """Return the JSON object of a file that ran."""
    from hlo.files import literal_text

    results = []
    for name, value in outcome.results.items():
        entry = {"name": name, "dtype": str(value.dtype), "dims": list(value.shape)}
        if job.output == "-" or (job.output is None and value.size <= _SHOWN_ELEMENTS):
            entry["literal"] = literal_text(value)
        results.append(entry)
    report = {
        "file": outcome.file,
        "backend": job.backend,
        "results": results,
        "seed": job.seed,
        "random_inputs": outcome.made_up,
        "seconds": {"prepare": outcome.prepare_s, "runs": outcome.runs_s},
        "speed": _speed(outcome),
        "cost": dict(outcome.cost),
    }
    if job.check:
        report["check"] = {name: _comparison(c) for name, c in outcome.checks.items()}
    return report


def _comparison(c: Comparison) -> dict[str, Any]:
    found: dict[str, Any] = {"elements": c.elements, "mismatches": c.mismatches}
    if c.sensitivity:
        found["sensitivity"] = c.sensitivity
    if not c.same:
        found |= {"worst": c.worst, "got": str(c.got), "want": str(c.want)}
    return found
