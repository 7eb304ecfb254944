"""`hlo-fmt`: HLO text in canonical form, with its comments."""

from __future__ import annotations

import difflib
import io
import os
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from .command_line.common import (
    BAD_INPUT,
    Tool,
    common_options,
    diagnostics_json,
    emit,
    emit_json,
    modules_among,
    note,
    read_source,
    show_error,
)
from .command_line.options import Option
from .command_line.verdicts import Verdict, Verdicts, ci_options

_CANONICAL, _NOT_CANONICAL = "is in canonical form", "not in canonical form"


@click.command("hlo-fmt", cls=Tool, short_help="format HLO text", no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True,
              help="Write nothing; name the files that are not in canonical form, and exit with 1 "
              "if there are any.")  # fmt: skip
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
@click.option("--json", "as_json", is_flag=True, cls=Option, excludes=["--diff"],
              help="Print which files changed, or their errors, as JSON on stdout.")  # fmt: skip
@ci_options(
    "whether each file is in canonical form", "Print errors and what --check rejects, no summary."
)
@common_options
def main(
    files: tuple[str, ...], check: bool, diff: bool, as_json: bool, quiet: bool, **rest: Any
) -> int:
    """Bring HLO text into canonical form: files in place, standard input (-) to standard output.

    FILE is HLO text, or a directory, which is searched recursively for *.hlo. Only white space
    changes: comments and every word stay, in their order. A file that cannot be parsed stays as
    it is. Several modules in one file are separated by lines of `// -----`.

    \b
    Examples:
      hlo-fmt model.hlo
      hlo-fmt --check tests/
      hlo-fmt --diff - < model.hlo
    """
    from hlo.errors import HloError

    if as_json and "-" in files:
        raise click.UsageError("--json excludes -, whose text goes to standard output.")
    paths = modules_among(tuple(_paths(files)))
    told = Verdicts.take("hlo-fmt", rest, paths)
    reports: list[dict[str, Any]] = []
    for path in paths:
        try:
            line = _formatted(path, check=check, diff=diff)
        except HloError as e:
            reports.append({"file": path, "errors": diagnostics_json(e)})
            told.add_error(path, _CANONICAL, e)
            if not as_json:
                show_error(e)
            continue
        reports.append({"file": path, "changed": line > 0})
        told.add([_verdict(path, line if check else 0)])
        if line and check and not as_json:
            note(f"{path}: {_NOT_CANONICAL}")
    told.conclude()
    if as_json:
        emit_json({"files": reports})
    elif len(reports) > 1 and not quiet:
        note(_summary(reports, check=check or diff))
    is_bad = any("errors" in r or (check and r["changed"]) for r in reports)
    return BAD_INPUT if is_bad else 0


def _verdict(path: str, line: int) -> Verdict:
    """Return the verdict on a file, whose first line that would change is given; 0 for none."""
    if not line:
        return Verdict(path, _CANONICAL)
    shown = ("", 0) if path == "-" else (path, line)
    return Verdict(path, _CANONICAL, "not-canonical", _NOT_CANONICAL, "", *shown)


def _paths(files: tuple[str, ...]) -> list[str]:
    """Return the given files and those in the given directories, each once."""
    paths: dict[str, None] = {}
    for name in files:
        below = sorted(Path(name).rglob("*.hlo")) if os.path.isdir(name) else [name]
        paths |= dict.fromkeys(map(str, below))
    return list(paths)


def _formatted(path: str, *, check: bool, diff: bool) -> int:
    """Format one file; returns the first line that changes, 0 if it was in canonical form."""
    from hlo.errors import HloError, Source
    from hlo.frontends.text.format import format_text
    from hlo.io.excerpts import modules_in
    from hlo.io.files import decode, write_text

    data, name = read_source(path)
    text = decode(data, name)
    if modules_in(Source(name, text)):
        raise HloError.at(
            "bad-file", f"{name}: a module inside of other text is not formatted",
            hint="put it into a file of its own",
        )  # fmt: skip
    result = format_text(text, name)
    if b"\r\n" in data:
        result = result.replace("\n", "\r\n")
    changed = result.encode(errors="surrogateescape") != data
    if diff and changed:
        emit(_difference(text, result.replace("\r\n", "\n"), name))
    if path == "-" and not (check or diff):
        emit(result)
    elif changed and not (check or diff):
        write_text(path, result)
    return _first_difference(data.decode(errors="replace"), result) if changed else 0


def _first_difference(old: str, new: str) -> int:
    """Return the first line in which two texts differ, from 1."""
    pairs = zip_longest(old.split("\n"), new.split("\n"))
    return next((n for n, (a, b) in enumerate(pairs, 1) if a != b), 1)


def _difference(old: str, new: str, name: str) -> str:
    before, after = (list(io.StringIO(text, newline="\n")) for text in (old, new))
    lines = difflib.unified_diff(before, after, name, f"{name} (formatted)")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _summary(reports: list[dict[str, Any]], *, check: bool) -> str:
    changed = sum(r.get("changed", False) for r in reports)
    bad = sum("errors" in r for r in reports)
    parts = [f"{changed} of {len(reports)} files {'would change' if check else 'changed'}"]
    return ", ".join(parts + ([f"{bad} could not be parsed"] if bad else []))


if __name__ == "__main__":
    main()
