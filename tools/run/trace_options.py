"""The flags of `hlo-run` that show what instructions compute, and what makes the first NaN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..command_line.common import note
from ..command_line.options import Option
from .alone import array_text, values_json, write_alone
from .results import aligned

if TYPE_CHECKING:
    import numpy as np

    from hlo.debug.trace.finding import Finding
    from hlo.debug.trace.record import Trace
    from hlo.ir import Module

    from .job import Job

# The value of a flag that was given without one.
HERE = "-"
# Options about results, which a run under inspection does not give.
_RESULTS = ("--output", "--expect", "--check", "--outfeed", "--fail-on-nan", "--junit")


def trace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --trace, --trace-only and --find-nan."""
    for option in (
        click.option(
            "--find-nan", cls=Option, excludes=["--trace", *_RESULTS], is_flag=False,
            flag_value=HERE, metavar="[=DIR/]",
            help="Find the first instruction that makes a NaN or an infinity from operands without "
            "one; exit 1 if there is one. It is written as a module, with its inputs, to DIR, by "
            "default FILE's name with .nan.",
        ),
        click.option(
            "--trace-only", cls=Option, requires="--trace", multiple=True, metavar="[KIND=]PATTERN",
            help="Trace only instructions that match: a name with * and ?, opcode=, computation= "
            "or op_name=; or iterations of the innermost loop, iteration=3:5. May be given more "
            "than once.",
        ),
        click.option(
            "--trace", cls=Option, excludes=_RESULTS, is_flag=False, flag_value=HERE,
            metavar="[=OUT]",
            help="Show statistics of what each instruction computes, in loops by iteration, or "
            "write them to OUT.json, or with the whole arrays to OUT.npz.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def with_values(args: Sequence[str]) -> list[str]:
    """Return arguments in which these flags do not take the next one for their value."""
    return [
        f"{a}={HERE}" if a in ("--trace", "--find-nan", "--first-divergence") else a for a in args
    ]


@dataclass(frozen=True)
class Inspection:
    """What was found of a run instead of its results. json: for the report."""

    text: str
    json: dict[str, Any]
    failed: bool = False


@dataclass(frozen=True)
class TraceFlags:
    """What the flags say."""

    trace: str | None
    only: tuple[str, ...]
    find_nan: str | None

    @classmethod
    def take(cls, given: dict[str, Any], files: Sequence[str]) -> TraceFlags | None:
        """Take these flags out of all that were given; None without. Raises UsageError."""
        flags = cls(given.pop("trace"), given.pop("trace_only"), given.pop("find_nan"))
        if flags.trace is None and flags.find_nan is None:
            return None
        name = "--trace" if flags.trace is not None else "--find-nan"
        if given.get("world") is not None:
            raise click.UsageError(f"{name} does not run under mpiexec.")
        out = flags.trace if flags.trace is not None else flags.find_nan
        if out not in (None, HERE) and len(files) > 1:
            raise click.UsageError(f"{name}={out} takes one FILE, not {len(files)}.")
        flags._need_place(files)
        return flags

    def _need_place(self, files: Sequence[str]) -> None:
        if self.trace in (None, HERE):
            return
        assert self.trace is not None
        from hlo.io.files import need_places
        from hlo.io.formats import unsupported_extension

        if not self.trace.endswith((".npz", ".json")):
            suffix = Path(self.trace).suffix
            problem = unsupported_extension(suffix, (".npz", ".json"))
            raise click.UsageError(f"--trace={self.trace}: {problem}")
        need_places([self.trace], files)

    def inspect(
        self, file: str, module: Module, values: Sequence[Sequence[Any]], job: Job, queue: list[Any]
    ) -> Inspection:
        """Run a module on the values of each device, as the flags say. Raises HloError."""
        from hlo.host import Host

        host = job.host() or Host()
        host.infeed.extend(queue)
        options: dict[str, Any] = {
            "backend": job.backend, "passes": job.passes, "host": host, "threads": job.threads,
            "verify": job.verify,
        }  # fmt: skip
        if self.trace is not None:
            return self._traced(module, values, options, quiet=job.quiet)
        from hlo.debug.trace.nan import find_nan_values

        found = find_nan_values(module, values, **options)
        return _found(found, file, "" if self.find_nan == HERE else self.find_nan or "")

    def _traced(
        self, module: Module, values: Sequence[Sequence[Any]], options: dict[str, Any], *,
        quiet: bool,
    ) -> Inspection:  # fmt: skip
        import json

        from hlo.debug.trace.selection import Selection
        from hlo.debug.trace.stored import STORED_ONLY
        from hlo.debug.trace.tracing import trace_values
        from hlo.io.files import write_text
        from hlo.ir.computation import counted

        assert self.trace is not None
        whole = self.trace.endswith(".npz")
        select = Selection.of(self.only)
        trace = trace_values(module, values, select=select, arrays=whole, **options)
        for text in () if quiet else trace.notes:
            note(f"{text} (--trace-only)" if text == STORED_ONLY else text)
        if not trace.values:
            note("nothing was traced: no instruction that ran matches")
        report: dict[str, Any] = {"trace": trace.to_json()}
        if self.trace == HERE:
            return Inspection(_table(trace), report)
        if whole:
            trace.save(self.trace)
        else:
            write_text(self.trace, json.dumps(report["trace"], indent=1) + "\n")
        return Inspection(f"{counted(len(trace.values), 'value')} in {self.trace}\n", report)


def _table(trace: Trace) -> str:
    from hlo.debug.trace.record import COLUMNS

    many = any(v.device for v in trace.values)
    rows = [[*COLUMNS]]
    for v in trace.values:
        name, *cells = v.row()
        rows.append([f"device{v.device}: {name}" if many else name, *cells])
    last = max(len(row[-1]) for row in rows)
    rows = [[*row[:-1], row[-1].ljust(last)] for row in rows]
    return "".join(line + "\n" for line in aligned(rows, begin=2))


# --- what made a NaN ------------------------------------------------------------------------------


def _found(found: Finding | None, file: str, folder: str) -> Inspection:
    if found is None:
        return Inspection(
            f"{file}: no instruction makes a NaN or an infinity\n", {"find_nan": None}
        )
    written: list[str] = []
    if found.module is not None:
        stem = "stdin" if file == "-" else Path(file).stem
        written = write_alone(found.module, found.inputs, Path(folder or f"{stem}.nan"))
    lines = [f"{file}: {found.headline}", *(f"  {line}" for line in _details(found, written))]
    return Inspection("".join(f"{line}\n" for line in lines), _json(found, written), failed=True)


def _details(f: Finding, written: list[str]) -> list[str]:
    lines = []
    if str(f.location):
        lines.append(f"at        {f.location}")
    if f.frames:
        lines.append(f"in        {f.path}, computation {f.computation}")
    if f.device:
        lines.append(f"device    {f.device}")
    if f.pass_made:
        lines.append(f"passes    only after them: {f.pass_made}")
    where = f"[{', '.join(map(str, f.index))}]"
    lines.append(f"elements  {f.count}, the first at {where}")
    for title, (name, value) in (
        *(("operand", o) for o in f.operands), ("result", (f.instruction, f.value)),
    ):  # fmt: skip
        for leaf, array in _arrays(value):
            label = ".".join([name, *map(str, leaf)])
            lines.append(f"{title:<9} {label}: {_summary(array, f)}")
    if f.given:
        lines.append(f"NaN too   {', '.join(f.given)}, before any instruction ran")
    if written:
        lines.append(f"written   {', '.join(written)}")
        lines.append(f"again     hlo-run {written[0]} --inputs {written[1]} --passes ''")
    return lines


def _arrays(value: Any) -> list[tuple[tuple[int, ...], np.ndarray]]:
    from hlo.debug.trace.leaves import leaves

    return list(leaves(value))


def _summary(array: np.ndarray, f: Finding) -> str:
    text = array_text(array)
    same = [v for _, v in _arrays(f.value)]
    if any(array.shape == v.shape for v in same) and len(array.shape) == len(f.index) > 0:
        text += f"; there {array[f.index]}"
    return text


def _json(f: Finding, written: list[str]) -> dict[str, Any]:
    from dataclasses import asdict

    found = {
        "kind": f.kind, "source": f.source, "instruction": f.instruction, "opcode": f.opcode,
        "computation": f.computation, "frames": [asdict(frame) for frame in f.frames],
        "device": f.device, "leaf": list(f.leaf), "index": list(f.index), "elements": f.count,
        "operands": [v for name, value in f.operands for v in values_json(name, value)],
        "result": values_json(f.instruction, f.value), "location": asdict(f.location),
        "given": list(f.given), "pass_made": f.pass_made, "written": written,
    }  # fmt: skip
    return {"find_nan": found}
