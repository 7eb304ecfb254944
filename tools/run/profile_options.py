"""The flags of `hlo-run` that show where the time of runs and of compilations goes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..command_line.common import emit, note
from ..command_line.options import Choice, Option

if TYPE_CHECKING:
    from hlo.profiler.compilation import StageClock
    from hlo.profiler.profile import Profile

    from .backends import Runnable
    from .job import Job
    from .outcome import Outcome

# What follows a flag without a value.
_HERE = "-"
# The form of a file by its ending, the longest first.
_ENDINGS = {
    ".trace.json": "chrome", ".perfetto.json": "chrome", ".json": "json", ".folded": "folded",
    ".txt": "table",
}  # fmt: skip
_FORMATS = ("table", "json", "chrome", "folded", "folded-op-name", "perf")
_BACKENDS = ("compiled", "gpu", "gpu-emulated", "reference")
_LINES = 40


def profile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --profile, --profile-compile and --profile-format."""
    for option in (
        click.option(
            "--profile-format", cls=Option, requires=["--profile", "--profile-compile"],
            type=Choice(_FORMATS),
            help="The format of the profile, by default from OUT's extension: .json, .trace.json "
            "(Chrome trace events, for Perfetto), .folded (stacks for flame graphs; folded-op-name "
            "has the framework's), .txt; perf writes the addresses of kernels to "
            "/tmp/perf-PID.map, where perf finds their names.",
        ),
        click.option(
            "--profile-compile", cls=Option, requires="--backend compiled", is_flag=False,
            flag_value=_HERE, metavar="[=OUT]",
            help="Show the time of compilation by stage, pass and part of the code, or write it to "
            "OUT.",
        ),
        click.option(
            "--profile", is_flag=False, flag_value=_HERE, metavar="[=OUT]",
            help="Show the time of each kernel in the runs, or write it to OUT. One run before "
            "them is not measured.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def with_profile_values(args: Sequence[str]) -> list[str]:
    """Return arguments in which these flags do not take the next one for their value."""
    return [f"{a}={_HERE}" if a in ("--profile", "--profile-compile") else a for a in args]


@dataclass(frozen=True)
class ProfileFlags:
    """What the flags say: where profiles go, None for none, and in which form."""

    runs: str | None
    compilation: str | None
    form: str | None

    @classmethod
    def take(cls, given: dict[str, Any], files: Sequence[str]) -> ProfileFlags | None:
        """Take these flags out of all that were given; None without. Raises UsageError."""
        flags = cls(*map(given.pop, ("profile", "profile_compile", "profile_format")))
        if flags.runs is None and flags.compilation is None:
            return None
        flags._check(given["backend"], has_world=given.get("world") is not None)
        outs = [out for out in (flags.runs, flags.compilation) if out not in (None, _HERE)]
        if outs:
            if len(files) > 1:
                raise click.UsageError(f"--profile={outs[0]} takes one FILE, not {len(files)}.")
            if len(outs) > len(set(outs)):
                raise click.UsageError("--profile and --profile-compile need different files.")
            from hlo.io.files import need_places

            need_places([out for out in outs if out is not None], files)
        return flags

    def _check(self, backend: str, *, has_world: bool) -> None:
        """Raise UsageError for a backend or a format that has no such profile."""
        for out in (self.runs, self.compilation):
            if out is not None:
                self._form_of(out)
        if backend not in _BACKENDS:
            raise click.UsageError(
                f"--profile supports only the backends {', '.join(_BACKENDS[:-1])} and "
                f"{_BACKENDS[-1]}."
            )
        if self.form == "perf" and self.compilation is not None:
            raise click.UsageError("--profile-format perf excludes --profile-compile.")
        if self.form == "perf" and backend != "compiled":
            raise click.UsageError("--profile-format perf requires --backend compiled.")
        if has_world:
            raise click.UsageError("--profile does not run under mpiexec.")

    def _form_of(self, out: str) -> str:
        """Return the form of what is written to a file, a table on the terminal."""
        if self.form is not None:
            return self.form
        if out == _HERE:
            return "table"
        for ending, form in _ENDINGS.items():
            if out.endswith(ending):
                return form
        from hlo.io.formats import unsupported_extension

        problem = unsupported_extension(Path(out).suffix, _ENDINGS)
        raise click.UsageError(f"--profile={out}: {problem}, or give --profile-format.")

    def clock(self) -> StageClock | None:
        """Return what divides the time of a compilation, if that is wanted."""
        if self.compilation is None:
            return None
        from hlo.profiler.compilation import StageClock

        return StageClock()

    def begin(self, module: Runnable, run: Callable[[], object]) -> None:
        """Run once, and forget it: the first run of a program finds nothing in memory."""
        if self.runs is None:
            return
        run()
        for profiler in module.profilers:
            profiler.forget()

    def profiles(self, module: Runnable, job: Job) -> list[Profile]:
        """Return the profile of the runs on each device. Raises HloError."""
        if self.runs is None:
            return []
        if self.form == "perf":
            self._write_map(module, job)
            return []
        from hlo.profiler.measure import beside_peak

        found = [p.profile(device) for device, p in enumerate(module.profilers)]
        # What the processor can do says nothing of the interpreter, nor of a GPU.
        return beside_peak(found) if job.backend == "compiled" else found

    def _write_map(self, module: Runnable, job: Job) -> None:
        """Write where native functions are, by default where `perf` looks for them."""
        from hlo.io.files import write_text
        from hlo.profiler.measure import ProfiledExecutable

        out = f"/tmp/perf-{os.getpid()}.map" if self.runs == _HERE else self.runs
        assert out is not None
        programs = [p for p in module.profilers if isinstance(p, ProfiledExecutable)]
        write_text(out, "".join(p.perf_map() for p in programs))
        note(f"addresses of native functions in {out}")

    def deliver(self, outcome: Outcome, job: Job, *, quiet: bool) -> None:
        """Write the profiles of an outcome, or show them unless `quiet`. Raises HloError."""
        for out, profiles in (
            (self.compilation, outcome.compilation), (self.runs, outcome.profiles),
        ):  # fmt: skip
            if out is None or not profiles:
                continue
            text = _text(profiles, self._form_of(out))
            if out != _HERE:
                from hlo.io.files import write_text

                write_text(out, text)
                note(f"{outcome.file}: profile in {out}")
            elif not quiet:
                # Standard output is for results where they are wanted there.
                (note if job.output == "-" else emit)(text.rstrip("\n"))


def _text(profiles: Sequence[Profile], form: str) -> str:
    """Return profiles, one for each device, in a form."""
    from hlo.profiler.stacks import folded_stacks
    from hlo.profiler.trace_events import chrome_trace

    match form:
        case "json":
            data = [p.to_json() for p in profiles]
            return json.dumps(data[0] if len(data) == 1 else data) + "\n"
        case "chrome":
            return json.dumps(chrome_trace(profiles)) + "\n"
        case "folded" | "folded-op-name":
            return folded_stacks(profiles, "op_name" if "-" in form else "computation")
    return "\n".join(p.table(_LINES) for p in profiles)
