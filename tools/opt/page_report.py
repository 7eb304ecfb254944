"""`hlo-opt --report FILE.html`: a page with all there is to know of a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import click

from ..command_line.common import emit_json, note, progress, read_source
from .file_errors import FileErrors


def is_page(path: str | None) -> TypeGuard[str]:
    """True for the name of a page, as against that of a report on partitioning."""
    return path is not None and path.lower().endswith((".html", ".htm"))


def write_page(
    path: str, files: Sequence[str], errors: FileErrors, *, passes: str | None, profile: str | None,
    device: str | None, verify: str, form: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Write the report of the module in a file."""
    if len(files) != 1:
        raise click.UsageError(f"--report {path} takes one FILE, not {len(files)}.")
    from hlo.api import report
    from hlo.frontends.sources import read_module

    (file,) = files
    with errors.within(file), progress(f"hlo-opt --report {path}"):
        module = read_module(*read_source(file), form)
        pipeline = "default" if passes is None else passes
        report(module, path, passes=pipeline, profile=profile, device=device, verify=verify)
    errors.end_of(file)
    if as_json:
        emit_json(errors.as_json(file))
    elif file not in errors:
        note(f"{module.name}: {path}")
