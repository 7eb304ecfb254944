"""`hlo-reduce`: the smallest module on which a test still fails."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .command_line.common import (
    Tool,
    common_options,
    emit_json,
    fail,
    function_option,
    note,
    read_source,
)
from .command_line.passes import load_plugins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo.debug.reduction.interestingness.base import Test
    from hlo.debug.reduction.journal import Journal
    from hlo.debug.reduction.reducer import Reducer
    from hlo.debug.reduction.workers import Workers
    from hlo.ir import Module

_LINE_S = 0.5


@click.command("hlo-reduce", cls=Tool, short_help="reduce modules that fail", no_args_is_help=True)
@click.argument("file", metavar="FILE")
@click.option("--test", "command", metavar="COMMAND",
              help="A shell command that exits with status 0 for a module that still fails. "
              "{} is replaced by the module's file ($HLO_FILE), which else is the last argument; "
              "{inputs} by an npz of its inputs ($HLO_INPUTS).")  # fmt: skip
@click.option("--test-exit", "status", type=click.IntRange(0, 255), metavar="N", default=0,
              show_default=True, help="The exit status of --test for a module that still "
                                 "fails.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Native code and the interpreter differ, as hlo-run --check "
              "judges.")  # fmt: skip
@click.option("--diverges", metavar="A,B",
              help="Two ways to run the module differ, each as of hlo-run --first-divergence: "
              "reference; compiled; xla; a machine of a package; or one with the passes that run "
              "first, as in compiled{passes=algsimp,dce}.")  # fmt: skip
@click.option("--find-nan", "find_nan", is_flag=True,
              help="An instruction makes a NaN or an infinity of operands without it, as "
              "hlo-run --find-nan judges.")  # fmt: skip
@click.option("--crash", is_flag=False, flag_value="", metavar="[COMMAND]", default=None,
              help="A process is killed by a signal or exits with status 3: hlo-run on random "
              "inputs, or --crash=COMMAND on the module's file.")  # fmt: skip
@click.option("--pass", "pass_", metavar="A,B,fix(C,D)",
              help="A pass, or a pipeline, crashes, leaves an invalid module, or changes "
              "results.")  # fmt: skip
@click.option("--error", metavar="CODE",
              help="An error with this code is reported, by the verifier, the passes or the "
              "compiler; or one whose message has this text, with a space in it.")  # fmt: skip
@click.option("--passes", metavar="A,B", default="default", show_default=True,
              help="With --check, --find-nan, --crash and --error: the passes that run "
              "first.")  # fmt: skip
@click.option("--load-pass-plugin", "plugins", multiple=True, metavar="FILE.py",
              help="A Python file that registers passes.")  # fmt: skip
@click.option("-i", "--input", "given", multiple=True, metavar="[NAME=]SPEC",
              help="An input, as of hlo-run, for all tests but --error. It shrinks with its "
              "parameter.")  # fmt: skip
@click.option("--inputs", "archive", metavar="FILE",
              help="Inputs from an npz, or from a dumped snapshot, as of hlo-run. Instructions "
              "that become parameters get the values that they have on these; the inputs of OUT "
              "are written to OUT's name with .npz.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0),
              help="Seed of random inputs.")  # fmt: skip
@click.option("--random", multiple=True, metavar="[PATTERN=]DIST",
              help="The distribution of random inputs, as of hlo-run.")  # fmt: skip
@click.option("--rtol", type=click.FloatRange(0), metavar="X",
              help="Relative tolerance of floats for --check and --diverges.  "
              "[default: by its type]")  # fmt: skip
@click.option("--atol", type=click.FloatRange(0), metavar="X",
              help="Absolute tolerance, added to the relative one.  "
              "[default: by type; 0 with --rtol]")  # fmt: skip
@click.option("-o", "--output", metavar="OUT",
              help="The smallest module so far, at any time.  "
              "[default: FILE.reduced.hlo, without FILE's extension]")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(1), metavar="N",
              help="Number of modules tested in parallel; it does not change the result.  "
              "[default: one per processor]")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S",
              help="A test that exceeds S seconds counts as not failing.  [default: 10 times the "
              "slowest failing test, from 5 to 300]")  # fmt: skip
@click.option("--resume/--no-resume", default=True, show_default=True,
              help="Continue an interrupted reduction by the same test of the same "
              "file.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True,
              help="Print a summary, or errors, as JSON on stdout.")  # fmt: skip
@function_option
@common_options
def main(
    file: str, output: str | None, jobs: int | None, timeout: float | None, resume: bool,
    as_json: bool, plugins: tuple[str, ...], given: tuple[str, ...], archive: str | None, seed: int,
    random: tuple[str, ...], **rest: Any,
) -> int:  # fmt: skip
    """Reduce the HLO module in FILE (- for standard input) while a test fails on it.

    One of --test, --check, --find-nan, --diverges, --crash, --pass and --error says what is wrong.
    Outputs, instructions, computations and loops are removed, dimensions, constants, types and
    attributes become simpler; every module that is tested is valid. A large module is first cut
    into parts.

    OUT always has the smallest module so far. The same command continues after an interruption.

    \b
    Examples:
      hlo-reduce model.hlo --check
      hlo-reduce model.hlo --pass my-pass --load-pass-plugin my_pass.py -o small.hlo
      hlo-reduce model.hlo --crash='my_compiler {}' --timeout 20
      hlo-reduce model.hlo --test './is_wrong.sh'
      hlo-reduce model.hlo --test 'my_compiler {} 2>&1 | grep -q "unknown layout"'
      hlo-reduce model.hlo --test 'hlo-run {} --backend mine --check' --test-exit 1
      hlo-reduce model.hlo --diverges 'reference{passes=algsimp,dce},reference'
      hlo-reduce model.hlo --check --inputs arguments.npz
      hlo-reduce model.hlo --find-nan --inputs arguments.npz
      hlo-reduce model.hlo --test './is_wrong.sh {} {inputs}' --inputs arguments.npz
    """
    from hlo.debug.reduction.interestingness.values import Inputs, OnInputs
    from hlo.debug.reduction.reducer import Reducer
    from hlo.debug.reduction.workers import Workers
    from hlo.errors import HloError
    from hlo.frontends.sources import read_module
    from hlo.io.files import need_places
    from hlo.io.formats import TEXT, need_extension

    start = time.perf_counter()
    place = output or _default_output(file)
    try:
        need_extension(place, TEXT, "--output")
        need_places([place], [file, *([archive] if archive else [])])
        load_plugins(plugins)
        test = _test(**rest)
        if (given or archive) and not isinstance(test, OnInputs):
            option = "--input" if given else "--inputs"
            raise click.UsageError(f"--error excludes {option}: it does not run the module.")
        # What is random makes a NaN where an instruction that becomes a parameter keeps its value.
        keeps_values = bool(given or archive or rest["find_nan"])
        data, name = read_source(file)
        module = read_module(data, name)
        test.check(module)
        if isinstance(test, OnInputs):
            test.inputs = Inputs(seed, random)
            if keeps_values:
                values = _values(module, given, archive, seed, random)
                test.run_on(module, values, seed, random)
        journal = _journal(place, data, test, resume=resume)
        line = _Line()
        workers = Workers(jobs, timeout)
        begin = journal.module or module
        reducer = Reducer(
            begin, test, workers, adopted=journal.adopted, passed=journal.passed, name=file
        )
        reducer.known |= journal.known
        workers.tick = lambda: line.show(reducer)
        if journal.module is not None:
            note(f"{file}: continues from {place}, {_size(journal.module)}")
        try:
            found = reducer.run(journal.problem)
        except KeyboardInterrupt:
            if reducer.module is not None:
                note(f"{place} has {_size(reducer.module)}; the same command continues from there")
            raise
        finally:
            line.clear()
        written = _written_inputs(place, test, found) if keeps_values else None
        journal.done()
    except HloError as e:
        return fail(e, file, as_json=as_json)
    seconds = time.perf_counter() - start
    if as_json:
        emit_json(_summary(file, place, written, module, found, reducer, workers, seconds))
    else:
        note(
            f"{file}: {reducer.problem}: {_size(module)} reduced to {_size(found)} in "
            f"{seconds:.1f} s and {workers.tested} tests: {place}"
            + (f", inputs {written}" if written else "")
        )
    return 0


def _default_output(file: str) -> str:
    if file == "-":
        return "reduced.hlo"
    path = Path(file)
    return str(path.with_name(f"{path.stem}.reduced.hlo"))


def _test(
    *, command: str | None, status: int, check: bool, diverges: str | None, crash: str | None,
    pass_: str | None, error: str | None, passes: str, rtol: float | None, atol: float | None,
    find_nan: bool,
) -> Test:  # fmt: skip
    """Return the one test that the flags ask for."""
    asked = {
        "--test": command is not None,
        "--check": check,
        "--find-nan": find_nan,
        "--diverges": diverges is not None,
        "--crash": crash is not None,
        "--pass": pass_ is not None,
        "--error": error is not None,
    }
    names = [name for name, is_asked in asked.items() if is_asked]
    if len(names) != 1:
        known = ", ".join(asked)
        raise click.UsageError(
            f"{names[0]} excludes {names[1]}." if names else f"Give a test: one of {known}."
        )
    if command is not None:
        from hlo.debug.reduction.interestingness.command import Command

        return Command(command, status)
    if crash is not None:
        from hlo.debug.reduction.interestingness.crash import Crashes

        return Crashes(crash, passes=passes)
    if pass_ is not None:
        from hlo.debug.reduction.interestingness.passes import PassBreaks

        return PassBreaks(pass_)
    if find_nan:
        from hlo.debug.reduction.interestingness.nonfinite import MakesNonfinite

        return MakesNonfinite(passes)
    if error is not None:
        from hlo.debug.reduction.interestingness.errors import Reports

        return Reports(error, passes)
    from hlo.debug.reduction.interestingness.divergence import Differs, two_ways

    ways = f"compiled{{passes={passes}}}", "reference"
    if diverges is not None:
        ways = two_ways(diverges)
    relative, absolute = rtol, atol
    if (rtol, atol) != (None, None):
        relative, absolute = rtol or 0.0, atol or 0.0
    return Differs(*ways, relative=relative, absolute=absolute)


def _values(
    module: Module, given: Sequence[str], archive: str | None, seed: int, random: Sequence[str]
) -> list[Any]:
    """Return arguments: the given ones, and random others."""
    from hlo.analysis.domains import domains_of
    from hlo.frontends.sources import read_snapshot
    from hlo.io.arguments import Parameter
    from hlo.io.inputs import Sampler, read_inputs
    from hlo.io.random import Distributions

    parameters = [Parameter(p.parameter_number, p.name, p.shape) for p in module.entry.parameters]
    sampler = Sampler(seed, Distributions(random), domains_of(module))
    values, _ = read_inputs(parameters, given, archive, sampler, read_snapshot=read_snapshot)
    return values


def _written_inputs(place: str, test: Test, found: Module) -> str:
    """Write the inputs of a reduced module beside it; returns the file. Raises HloError."""
    from hlo.debug.reduction.interestingness.values import OnInputs
    from hlo.debug.trace.leaves import write_inputs

    assert isinstance(test, OnInputs)
    path = str(Path(place).with_suffix(".npz"))
    write_inputs(path, found, test.inputs.of(found))
    return path


def _journal(place: str, data: bytes, test: Test, *, resume: bool) -> Journal:
    from hlo.debug.reduction.journal import Journal

    return Journal(place, data, str(test), resume=resume)


def _size(module: Module) -> str:
    count = sum(len(comp) for comp in module)
    return f"{count} instruction{'' if count == 1 else 's'}"


class _Line:
    """The line that shows on a terminal how far a reduction is."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last = 0.0
        self._shows = sys.stderr.isatty()

    def show(self, reducer: Reducer) -> None:
        now = time.monotonic()
        if not self._shows or now - self._last < _LINE_S:
            return
        self._last = now
        at = reducer.progress
        text = (
            f"{at.instructions} instructions in {at.computations} computations, "
            f"{at.tested} tests, {now - self._start:.0f} s: {at.stage}"
        )
        click.echo(f"\r\x1b[K{text}", err=True, nl=False)

    def clear(self) -> None:
        if self._shows:
            click.echo("\r\x1b[K", err=True, nl=False)


def _summary(
    file: str, place: str, inputs: str | None, given: Module, found: Module, reducer: Reducer,
    workers: Workers, seconds: float,
) -> dict[str, Any]:  # fmt: skip
    def sizes(module: Module) -> dict[str, int]:
        return {
            "instructions": sum(len(comp) for comp in module),
            "computations": len(module.computations),
        }

    return {
        "file": file,
        "output": place,
        "inputs": inputs,
        "problem": reducer.problem,
        "given": sizes(given),
        "reduced": sizes(found),
        "tests": workers.tested,
        "ended": workers.ended,
        "seconds": seconds,
        "module": str(found),
    }
