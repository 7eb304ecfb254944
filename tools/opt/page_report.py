"""`hlo-opt --report FILE.html`: a page with all there is to know of a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import click

from ..command_line.common import emit_json, fail, note, progress, read_source


def is_page(path: str | None) -> TypeGuard[str]:
    """True for the name of a page, as against that of a report on partitioning."""
    return path is not None and path.lower().endswith((".html", ".htm"))


def write_page(
    path: str, files: Sequence[str], *, passes: str | None, profile: str | None, verify: str,
    form: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Write the report of the module in a file; returns the exit code."""
    if len(files) != 1:
        raise click.UsageError(f"--report {path}: one FILE is needed.")
    from hlo.api import report
    from hlo.errors import HloError
    from hlo.frontends.sources import read_module

    (file,) = files
    try:
        with progress(f"hlo-opt --report {path}"):
            module = read_module(*read_source(file), form)
            pipeline = "default" if passes is None else passes
            report(module, path, passes=pipeline, profile=profile, verify=verify)
    except HloError as e:
        return fail(e, file, as_json=as_json)
    if as_json:
        emit_json({"file": file, "errors": []})
    else:
        note(f"{module.name}: {path}")
    return 0
