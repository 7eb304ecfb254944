"""The flags of `hlo-run` that show where the time of runs goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .common import emit, note

if TYPE_CHECKING:
    from hlo.profiler.profile import Profile

    from .backends import Runnable
    from .job import Job
    from .outcome import Outcome

# What follows a flag without a value.
_HERE = "-"
# The form of a file by its ending, the longest first.
_ENDINGS = {
    ".trace.json": "chrome", ".perfetto.json": "chrome", ".json": "json", ".folded": "folded",
    ".map": "perf", ".txt": "table",
}  # fmt: skip
_FORMATS = ("table", "json", "chrome", "folded", "folded-op-name", "perf")
_LINES = 40


def profile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --profile and --profile-format."""
    for option in (
        click.option(
            "--profile-format", type=click.Choice(_FORMATS),
            help="The form of the profile, instead of by OUT's ending: .json, .trace.json (Chrome "
            "trace events, for Perfetto), .folded (stacks for flame graphs; folded-op-name has the "
            "framework's), .map (addresses for perf), .txt.",
        ),
        click.option(
            "--profile", is_flag=False, flag_value=_HERE, metavar="[=OUT]",
            help="Show where the time of the runs goes, kernel by kernel, or write it to OUT. A "
            "run that is not measured comes first.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def with_profile_values(args: Sequence[str]) -> list[str]:
    """Return arguments in which --profile does not take the next one for their value."""
    return [f"{a}={_HERE}" if a == "--profile" else a for a in args]


@dataclass(frozen=True)
class ProfileFlags:
    """What the flags say: where the profile goes, and in which form."""

    out: str
    form: str

    @classmethod
    def take(cls, given: dict[str, Any], files: Sequence[str]) -> ProfileFlags | None:
        """Take these flags out of all that were given; None without. Raises UsageError."""
        out, form = given.pop("profile"), given.pop("profile_format")
        if out is None:
            if form is not None:
                raise click.UsageError("--profile-format says how --profile is written.")
            return None
        if given["backend"] not in ("compiled", "reference"):
            raise click.UsageError("--profile: of native code, or of the interpreter.")
        if given.get("world") is not None:
            raise click.UsageError("--profile: on the devices of one process, without mpiexec.")
        if out != _HERE:
            if len(files) > 1:
                raise click.UsageError(f"--profile={out}: several files would be written there.")
            from hlo.io.files import need_places

            need_places([out], files)
        return cls(out, form or _form_of(out))

    def begin(self, module: Runnable, run: Callable[[], object]) -> None:
        """Run once, and forget it: the first run of a program finds nothing in memory."""
        run()
        for profiler in module.profilers:
            profiler.forget()

    def profiles(self, module: Runnable) -> list[Profile]:
        """Return the profile of the runs on each device. Raises HloError."""
        from hlo.profiler.measure import beside_peak

        found = [p.profile(device) for device, p in enumerate(module.profilers)]
        return beside_peak(found)

    def deliver(self, outcome: Outcome, job: Job, *, quiet: bool) -> None:
        """Write the profiles of an outcome, or show them unless `quiet`. Raises HloError."""
        if not outcome.profiles:
            return
        text = _text(outcome.profiles, self.form)
        if self.out != _HERE:
            from hlo.io.files import write_text

            write_text(self.out, text)
            note(f"{outcome.file}: profile in {self.out}")
        elif not quiet:
            # Standard output is for results where they are wanted there.
            (note if job.output == "-" else emit)(text.rstrip("\n"))


def _form_of(out: str) -> str:
    """Return the form of what is written to a file, a table on the terminal."""
    if out == _HERE:
        return "table"
    for ending, form in _ENDINGS.items():
        if out.endswith(ending):
            return form
    raise click.UsageError(
        f"--profile={out}: a name ending in {', '.join(_ENDINGS)}, or --profile-format"
    )


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
        case "perf":
            return "".join(p.perf_map() for p in profiles)
    return "\n".join(p.table(_LINES) for p in profiles)
