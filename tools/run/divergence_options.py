"""The flags of `hlo-run` that look for the first instruction where two runs diverge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..command_line.options import Option
from .alone import value_lines, values_json, write_alone
from .outcome import comparison, mismatch_table
from .trace_options import HERE, Inspection

if TYPE_CHECKING:
    from hlo.debug.divergence.record import Divergence
    from hlo.debug.divergence.tolerance import Tolerance
    from hlo.ir import Module

    from .job import Job

_FLAG = "--first-divergence"
_EXCLUDED = (
    "--trace", "--find-nan", "--output", "--expect", "--check", "--outfeed", "--fail-on-nan",
    "--junit", "--infeed",
)  # fmt: skip
_MODULES = (".hlo", ".txt", ".pb", ".pbtxt", ".mlir", ".mlirbc")


def divergence_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --first-divergence and what goes with it."""
    for option in (
        click.option(
            "--load-pass-plugin", "plugins", multiple=True, metavar="FILE.py",
            help="Run a Python file that registers passes, for --passes and --first-divergence.",
        ),
        click.option(
            "--divergence-dir", cls=Option, requires=_FLAG, metavar="DIR",
            help="Where --first-divergence writes the instruction as a module and its inputs.  "
            "[default: FILE's name with .divergence]",
        ),
        click.option(
            _FLAG, cls=Option, excludes=_EXCLUDED, is_flag=False, flag_value=HERE,
            metavar="[=SPEC]",
            help="Run in two ways and name the first instruction where they diverge; exit 1 if "
            "there is one. The other way is SPEC: reference, the default; compiled; "
            "compiled{passes=A,B}; xla; a machine of a package; another module's FILE; or an npz "
            "of --trace. Two FILEs without SPEC are compared with each other. --rtol and --atol "
            "are of a single instruction.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@dataclass(frozen=True)
class DivergenceFlags:
    """What the flags say. files: what is run. spec: what to compare with."""

    files: Sequence[str]
    spec: str
    folder: str | None

    @classmethod
    def take(cls, given: dict[str, Any], files: Sequence[str]) -> DivergenceFlags | None:
        """Take these flags out of all that were given; None without. Raises UsageError, HloError.

        Passes of plug-ins are there from now on.
        """
        from ..command_line.passes import load_plugins

        spec, folder = given.pop("first_divergence"), given.pop("divergence_dir")
        load_plugins(given.pop("plugins"))
        if spec is None:
            return None
        if given.get("world") is not None:
            raise click.UsageError(f"{_FLAG} does not run under mpiexec.")
        if spec == HERE and len(files) == 2:
            files, spec = files[:1], files[1]
        if folder is not None and len(files) > 1:
            raise click.UsageError(f"--divergence-dir takes one FILE, not {len(files)}.")
        return cls(files, spec, folder)

    def inspect(
        self, file: str, module: Module, values: Sequence[Sequence[Any]], job: Job, queue: list[Any]
    ) -> Inspection:
        """Look for where a run on the values of its device diverges. Raises HloError."""
        from hlo.debug.divergence.tolerance import Tolerance

        found, undecided = self._found(module, values[0], job, Tolerance(job.rtol, job.atol))
        if found is None:
            lines = [f"{file}: no divergence", *_undecided(undecided)]
            text = "".join(f"{line}\n" for line in lines)
            return Inspection(text, _json(None, [], undecided))
        written: list[str] = []
        if found.module is not None:
            stem = "stdin" if file == "-" else Path(file).stem
            written = write_alone(
                found.module, found.inputs, Path(self.folder or f"{stem}.divergence")
            )
        lines = [f"{file}: {found.headline}", *(f"  {line}" for line in _details(found, written))]
        text = "".join(f"{line}\n" for line in lines)
        return Inspection(text, _json(found, written, None), failed=True)

    def _found(
        self, module: Module, values: Sequence[Any], job: Job, tolerance: Tolerance
    ) -> tuple[Divergence | None, Divergence | None]:
        """Return the first divergence, and what is undecided where there is none."""
        from hlo.debug.divergence.saved import first_of_trace
        from hlo.debug.divergence.search import Search
        from hlo.debug.divergence.sides import left_side, make_side, side_of
        from hlo.debug.trace.record import Trace
        from hlo.frontends.sources import read_module
        from hlo.io.module_files import file_and_module

        from ..command_line.common import read_source, tell

        spec = self.spec
        left = left_side(job.backend, job.passes, module, job.verify)
        if spec == HERE:
            spec = "compiled" if job.backend == "reference" else "reference"
        if spec.endswith(".npz"):
            trace = Trace.load(spec)
            found = first_of_trace(trace, spec, left, values, tolerance)
            if found is not None:
                return found, None
            spec = "reference"
        if spec == "-" or spec.endswith(_MODULES) or Path(file_and_module(spec)[0]).is_file():
            other = read_module(*read_source(spec))
            filler = job.filler()
            if filler is not None:
                filler.fill(other)
            right = make_side(spec, left.backend, left.passes, other, job.verify)
        else:
            right = side_of(spec, left.given, job.verify)
        search = Search(left, right, values, tolerance, job.threads, job.host(), tell)
        return search.first(), search.undecided


_BETWEEN = {
    "module": "the modules say different things",
    "passes": "passes change what it computes",
    "trace": "the saved run computed something else",
}


def _undecided(f: Divergence | None) -> list[str]:
    """Return the lines about a value that differs where all results agree."""
    if f is None:
        return []
    lines = [
        f"undecided {f.path} ({f.opcode}) differs and all results agree: either no result depends "
        "on it here, or it was compared with another value"
    ]
    if str(f.location):
        lines.append(f"at        {f.location}")
    if f.counterpart:
        lines.append(f"there     {f.counterpart}")
    if f.comparison is not None:
        lines.append(f"elements  {f.comparison}")
    return [f"  {line}" for line in lines]


def _details(f: Divergence, written: list[str]) -> list[str]:
    lines = []
    if f.kind != "growth":
        if str(f.location):
            lines.append(f"at        {f.location}")
        if f.frames:
            lines.append(f"in        {f.path}, computation {f.computation}")
        lines.append(f"because   {_BETWEEN.get(f.between, f'{f.between} computes something else')}")
        if f.counterpart:
            lines.append(f"there     {f.counterpart}")
        lines += [f"by        {rule}" for rule in f.rules]
        for name, value in f.operands:
            lines += value_lines("operand", name, value)
        lines += [*value_lines("found", f.left, f.got), *value_lines("expected", f.right, f.want)]
    if f.comparison is not None:
        lines.append(f"elements  {f.comparison}")
        lines += [f"          {row}" for row in mismatch_table(f.comparison)]
    off = {name: c for name, c in f.results.items() if not c.same}
    if f.results:
        same = len(f.results) - len(off)
        lines.append(f"results   {same} of {len(f.results)} agree")
    for name, c in off.items() if f.kind == "growth" else ():
        lines.append(f"          {name}: {c}")
    if written:
        lines.append(f"written   {', '.join(written)}")
        lines.append(f"again     hlo-run {written[0]} --inputs {written[1]} --check")
    return lines


def _json(f: Divergence | None, written: list[str], undecided: Divergence | None) -> dict[str, Any]:
    return {
        "first_divergence": None if f is None else _as_json(f, written),
        "undecided": None if undecided is None else _as_json(undecided, []),
    }


def _as_json(f: Divergence, written: list[str]) -> dict[str, Any]:
    return {
        "kind": f.kind, "left": f.left, "right": f.right, "between": f.between,
        "instruction": f.instruction, "opcode": f.opcode, "computation": f.computation,
        "frames": [asdict(frame) for frame in f.frames], "location": asdict(f.location),
        "counterpart": f.counterpart, "rules": list(f.rules),
        "comparison": None if f.comparison is None else comparison(f.comparison),
        "operands": [v for name, value in f.operands for v in values_json(name, value)],
        "found": [] if f.got is None else values_json(f.left, f.got),
        "expected": [] if f.want is None else values_json(f.right, f.want),
        "results": {name: comparison(c) for name, c in f.results.items()},
        "written": written,
    }  # fmt: skip
