"""`hlo-opt --memory`: what a compiled module holds in memory at each step of a run."""

from __future__ import annotations

from collections.abc import Sequence

from ..command_line.common import emit, emit_json, fail, progress, read_source


def show_memory(
    files: Sequence[str], *, passes: str | None, verify: str, form: str | None, as_json: bool
) -> int:
    """Print the memory timeline of the module in each file, with one run; returns the exit code."""
    from hlo.errors import HloError
    from hlo.frontends.sources import read_module
    from hlo.profiler.memory import memory_timeline

    for file in files:
        try:
            with progress(f"hlo-opt --memory {file}"):
                module = read_module(*read_source(file), form)
                pipeline = "default" if passes is None else passes
                found = memory_timeline(module, passes=pipeline, verify=verify)
        except HloError as e:
            return fail(e, file, as_json=as_json)
        if as_json:
            emit_json(found.to_json())
        else:
            emit(found.table())
    return 0
