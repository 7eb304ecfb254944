"""`hlo-diff`: what changed between two modules."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from .command_line.common import (
    BAD_INPUT,
    Tool,
    common_options,
    emit,
    emit_json,
    fail,
    function_option,
    load,
    progress,
)
from .command_line.options import Choice
from .command_line.verdicts import Verdict, Verdicts, ci_options

if TYPE_CHECKING:
    from hlo.analysis.simulation.machine import Machine
    from hlo.debug.difference import Difference
    from hlo.ir import Module

# The colours of a line by its first character that is no space.
_COLOURS = {"-": "red", "+": "green", "<": "yellow", ">": "yellow", "@": "cyan"}
_EXIT_CODES = (
    "Exit status: 0 no difference; 1 the modules differ, or an error in the input; 2 wrong usage; "
    "3 a bug in this program; 130 interrupted."
)


@click.command(
    "hlo-diff", cls=Tool, epilog=_EXIT_CODES, short_help="compare two modules by structure",
    no_args_is_help=True,
)  # fmt: skip
@click.argument("a", metavar="FILE")
@click.argument("b", metavar="[OTHER]", required=False)
@click.option("--passes", metavar="PASSES",
              help="Compare FILE with what this pipeline makes of it (of OTHER, if that is given); "
              "`default` is the one of hlo-run.")  # fmt: skip
@click.option("--metadata", is_flag=True,
              help="Compare metadata as well: source lines, framework operations.")  # fmt: skip
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Print every occurrence of a change that repeats, not only the first three.",
)
@click.option("--html", metavar="OUT",
              help="Write a page with both modules side by side, which opens offline.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the difference as JSON on stdout.")
@click.option("--machine", metavar="NAME=VALUE,...",
              help="Machine model for time estimates: flops=100TFLOP/s, memory-bandwidth=2TB/s, "
              "overhead=0s for each kernel.")  # fmt: skip
@click.option("--color", type=Choice(["auto", "always", "never"]), default="auto",
              show_default=True, help="Colours in the text; auto: on a terminal.")  # fmt: skip
@ci_options("whether the modules match", "Print errors only: the exit status tells of differences.")
@function_option
@common_options
def main(
    a: str, b: str | None, passes: str | None, metadata: bool, every: bool, html: str | None,
    as_json: bool, machine: str | None, color: str, quiet: bool, **rest: Any,
) -> int:  # fmt: skip
    """Show what changed from the module in FILE to the one in OTHER.

    Instructions are matched by what they do and what surrounds them: other names, and another
    order, are no difference. Changes that belong together are shown as one, and the same change in
    many places once, with the number of places; what costs or saves most comes first. FILE and
    OTHER are HLO text, protos or StableHLO; one of them may be - for standard input.

    \b
    Examples:
      hlo-diff before.hlo after.hlo
      hlo-diff fast.pb slow.pb --html slow.html
      hlo-diff model.hlo --passes default
      hlo-diff model.hlo --passes algsimp,dce --json
    """
    from hlo.errors import HloError

    if b is None and passes is None:
        raise click.UsageError("A second module is needed: give OTHER, or --passes.")
    if a == b == "-":
        raise click.UsageError("FILE and OTHER are both -; standard input has only one module.")
    told = Verdicts.take("hlo-diff", rest, [name for name in (a, b) if name not in (None, "-")])
    file, what = (a, "is unchanged") if b is None else (b, f"matches {a}")
    try:
        difference = _compared(a, b, passes, html, metadata, machine)
    except HloError as e:
        told.add_error(file, what, e)
        told.conclude()
        return fail(e, a if b is None else f"{a}, {b}", as_json=as_json)
    if as_json:
        emit_json(difference.to_json())
    elif not quiet:
        text = _report(difference, every)
        emit(_coloured(text) if _is_coloured(color) else text)
    told.add(_verdicts(difference, file, what))
    told.conclude()
    return BAD_INPUT if difference else 0


def _report(difference: Difference, every: bool) -> str:
    from hlo.debug.difference.text import SHOWN, report

    return report(difference, shown=None if every else SHOWN)


def _verdicts(difference: Difference, file: str, what: str) -> Iterator[Verdict]:
    if difference:
        text = _report(difference, every=False).strip()
        yield Verdict(file, what, "differs", text.partition("\n")[0], text, file)
    else:
        yield Verdict(file, what)


def _compared(
    a: str, b: str | None, passes: str | None, html: str | None, metadata: bool,
    machine: str | None,
) -> Difference:  # fmt: skip
    """Return what changed, and write the page that is asked for. Raises HloError."""
    from hlo import diff, optimize
    from hlo.io.files import need_places, write_files
    from hlo.io.formats import need_extension
    from hlo.support.memory import collector_paused

    where = _machine(machine)
    if html is not None:
        need_extension(html, (".html", ".htm"), "--html")
        need_places([html], [name for name in (a, b) if name not in (None, "-")])
    with progress(f"hlo-diff {a} {b or ''}".rstrip()), collector_paused():
        left, *others = _loaded([a] if b is None else [a, b])
        right = others[0] if others else left.clone()
        names = (a, b or a)
        if passes is not None:
            right = optimize(right, passes, verify="lenient", inplace=True)
            names = (a, f"{b or a} after {passes}")
        difference = diff(
            left, right, metadata=metadata, by_name=b is None, machine=where, names=names
        )
        if html is not None:
            write_files({html: difference.page().encode()})
    return difference


def _loaded(files: Sequence[str]) -> list[Module]:
    """Return the module in each file. Raises HloError with the errors of all of them."""
    from hlo.errors import Diagnostic, HloError

    modules: list[Module] = []
    errors: list[Diagnostic] = []
    for file in files:
        try:
            modules.append(load(file))
        except HloError as e:
            errors += e.diagnostics
    if errors:
        raise HloError(errors)
    return modules


def _machine(text: str | None) -> Machine:
    from hlo.reports.simulation import read_setup

    return read_setup(text or "", "--machine").machine


def _is_coloured(when: str) -> bool:
    if when != "auto":
        return when == "always"
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _coloured(text: str) -> str:
    return "".join(_line(line) for line in text.splitlines(keepends=True))


def _line(line: str) -> str:
    colour: Any = _COLOURS.get(line.lstrip()[:1])
    if colour is None or line.startswith(("      ", "header")):
        return click.style(line, bold=True) if line[:1] not in (" ", "\n") else line
    return click.style(line, fg=colour)


if __name__ == "__main__":
    main()
