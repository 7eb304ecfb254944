"""`hlo-opt --report`: modules are partitioned, and what the partitioner did is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .common import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo.ir import Module
    from hlo.spmd.report import Report

# How many arrays that are replicated are named.
_MOST_NOTES = 5


class PartitionReports:
    """The reports of the modules of a run.

    Attributes:
        path: the file that they are for, `-` for standard output; None for none.
    """

    def __init__(self, path: str | None) -> None:
        from hlo.io.formats import unsupported_extension

        if path is not None and path != "-" and not path.endswith((".txt", ".json")):
            raise click.UsageError(
                f"--report {path}: "
                + unsupported_extension(Path(path).suffix, (".html", ".txt", ".json", "-"))
            )
        self.path = path
        self._reports: list[Report] = []

    def __len__(self) -> int:
        return len(self._reports)

    @property
    def to_stdout(self) -> bool:
        return self.path == "-"

    def partitioned(self, module: Module) -> Module:
        """Return a partitioned module. Raises HloError where its shardings do not fit."""
        from hlo.compiler.partition import partition

        done = partition(module)
        tell(module.name, [str(n) for n in done.notes])
        self._reports.append(done.report)
        return done.module

    def written(self, as_json: bool) -> bytes:
        """Write the reports to their file; returns those for standard output.

        as_json: so are these. Raises HloError where the file cannot be written.
        """
        from hlo.io.files import write_files

        if self.path is None:
            return b""
        if as_json or self.path.endswith(".json"):
            found = [r.as_json() for r in self._reports]
            content = json.dumps(found[0] if len(found) == 1 else found) + "\n"
        else:
            content = "\n".join(f"{r}\n" for r in self._reports)
        if self.to_stdout:
            return content.encode()
        write_files({self.path: content.encode()})
        return b""


def tell(name: str, notes: Sequence[str]) -> None:
    """Show the notes of the partitioner, or passes, on a module: some, and how many more."""
    for text in notes[:_MOST_NOTES]:
        note(f"{name}: note: {text}")
    if len(notes) > _MOST_NOTES:
        note(f"{name}: note: {len(notes) - _MOST_NOTES} more arrays are replicated")
