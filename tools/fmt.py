"""`hlo-fmt`: HLO text in canonical form, with its comments."""

from __future__ import annotations

import difflib
import io
import os
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
    note,
    read_source,
    show_error,
)


@click.command("hlo-fmt", cls=Tool, short_help="format HLO text", no_args_is_help=True)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True,
              help="Write nothing; name the files that are not in canonical form, and exit with 1 "
              "if there are any.")  # fmt: skip
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
@click.option("--json", "as_json", is_flag=True,
              help="Print what came of each file, or its errors, as JSON on stdout.")  # fmt: skip
@common_options
def main(files: tuple[str, ...], check: bool, diff: bool, as_json: bool) -> int:
    """Bring HLO text into canonical form: files in place, standard input (-) to standard output.

    FILE is HLO text or a folder, of which all files below named *.hlo are meant. Only white space
    changes: comments and every word stay, in their order. A file that cannot be parsed stays as
    it is. Several modules in one file are separated by lines of `// -----`.

    \b
    Examples:
      hlo-fmt model.hlo
      hlo-fmt --check tests/
      hlo-fmt --diff - < model.hlo
    """
    from hlo.errors import HloError

    if as_json and ("-" in files or diff):
        raise click.UsageError("--json goes with files that are formatted in place or checked.")
    found: list[dict[str, Any]] = []
    for path in _paths(files):
        try:
            changed = _formatted(path, check=check, diff=diff)
        except HloError as e:
            found.append({"file": path, "errors": diagnostics_json(e)})
            if not as_json:
                show_error(e)
            continue
        found.append({"file": path, "changed": changed})
        if changed and check and not as_json:
            note(f"{path}: not in canonical form")
    if as_json:
        emit_json({"files": found})
    elif len(found) > 1:
        note(_summary(found, check=check or diff))
    is_bad = any("errors" in f or (check and f["changed"]) for f in found)
    return BAD_INPUT if is_bad else 0


def _paths(files: tuple[str, ...]) -> list[str]:
    """Return the files that are meant, each once."""
    found: dict[str, None] = {}
    for name in files:
        below = sorted(Path(name).rglob("*.hlo")) if os.path.isdir(name) else [name]
        found |= dict.fromkeys(map(str, below))
    return list(found)


def _formatted(path: str, *, check: bool, diff: bool) -> bool:
    """Format one file; returns whether it was not in canonical form."""
    from hlo.frontends.text.format import format_text
    from hlo.io.files import decode, write_text

    data, name = read_source(path)
    text = decode(data, name)
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
    return changed


def _difference(old: str, new: str, name: str) -> str:
    before, after = (list(io.StringIO(text, newline="\n")) for text in (old, new))
    lines = difflib.unified_diff(before, after, name, f"{name} (formatted)")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _summary(found: list[dict[str, Any]], *, check: bool) -> str:
    changed = sum(f.get("changed", False) for f in found)
    bad = sum("errors" in f for f in found)
    parts = [f"{changed} of {len(found)} files {'would change' if check else 'changed'}"]
    return ", ".join(parts + ([f"{bad} could not be parsed"] if bad else []))


if __name__ == "__main__":
    main()
