"""`hlo-opt --memory`: what a compiled module holds in memory at each step of a run."""

from __future__ import annotations

from collections.abc import Sequence

from ..command_line.common import emit, emit_json, progress, read_source
from .file_errors import FileErrors


def show_memory(
    files: Sequence[str], errors: FileErrors, *, passes: str | None, verify: str, form: str | None,
    as_json: bool, target: str | None, cpu: str | None, strict_math: bool,
) -> None:  # fmt: skip
    """Print the memory timeline of the module in each file, with one run.

    target, cpu: what code is for, by default this machine.
    """
    from hlo.analysis.strict_math import ask_for_strict_math
    from hlo.frontends.sources import read_module
    from hlo.profiler.memory import memory_timeline

    for file in files:
        with errors.within(file), progress(f"hlo-opt --memory {file}"):
            module = read_module(*read_source(file), form)
            if strict_math:
                ask_for_strict_math(module)
            pipeline = "default" if passes is None else passes
            timeline = memory_timeline(
                module, passes=pipeline, verify=verify, target=target, cpu=cpu
            )
        errors.end_of(file)
        if file in errors:
            if as_json:
                emit_json(errors.as_json(file))
        elif as_json:
            emit_json(timeline.to_json())
        else:
            emit(timeline.table())
