"""The flags of `hlo-run` that tell what came of comparisons to continuous integration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ..command_line.common import note
from .outcome import mismatch_table
from .verdict_files import Verdict, annotation, junit

if TYPE_CHECKING:
    from hlo.errors import HloError
    from hlo.ir import Instruction

    from .outcome import Outcome


def verdict_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --junit and --github."""
    command = click.option(
        "--github/--no-github", default=None,
        help="Write what fails to standard error as GitHub's annotations too, each at the line of "
        "the result's instruction.  [default: where GITHUB_ACTIONS is true]",
    )(command)  # fmt: skip
    return click.option(
        "--junit", metavar="FILE",
        help="Write what --check, --expect and --fail-on-nan found, or that a module runs, as "
        "JUnit XML.",
    )(command)  # fmt: skip


@dataclass
class Verdicts:
    """The verdicts on all files of a run, and where they go."""

    junit: str | None
    github: bool
    found: list[Verdict] = field(default_factory=list)

    @classmethod
    def take(cls, given: dict[str, Any], files: Sequence[str]) -> Verdicts:
        """Take these flags out of all that were given. Raises HloError for a file not to be had."""
        path, github = given.pop("junit"), given.pop("github")
        if path is not None:
            from hlo.io.files import need_places

            read = [*files, *([given["expect"]] if given["expect"] else [])]
            need_places([path], read)
        if github is None:
            github = os.environ.get("GITHUB_ACTIONS") == "true"
        return cls(path, github)

    @property
    def wanted(self) -> bool:
        return self.github or self.junit is not None

    def add(
        self, outcome: Outcome, source: tuple[bytes, str] | None, form: str | None, suffix: str
    ) -> None:
        """Add what came of a run.

        source: what is in the file, and its name in errors, where results may have lines there.
        form: its format, None if its content tells. suffix: of the names of verdicts, where there
        are several runs of a file.
        """
        if self.wanted:
            self._tell(_judged(outcome, _Places(source, form), suffix))

    def add_error(self, file: str, error: HloError, suffix: str) -> None:
        """Add that a file did not run."""
        if self.wanted:
            self._tell(_failed(file, error, suffix))

    def _tell(self, verdicts: Iterator[Verdict]) -> None:
        for verdict in verdicts:
            self.found.append(verdict)
            if self.github and verdict.problem:
                note(annotation(verdict))

    def conclude(self) -> None:
        """Write the file that was asked for. Raises HloError."""
        if self.junit is not None:
            from hlo.io.files import write_files

            write_files({self.junit: junit(self.found)})


def _judged(outcome: Outcome, places: _Places, suffix: str) -> Iterator[Verdict]:
    file = outcome.file
    yield Verdict(file, f"runs{suffix}", seconds=sum(outcome.runs_s))
    for whose, checks in outcome.checks.items():
        for name, found in checks.items():
            what = f"{name} is {whose}{suffix}"
            if found.same:
                yield Verdict(file, what)
                continue
            message = f"{name}: {found}"
            details = "\n".join([message, *mismatch_table(found)])
            yield Verdict(file, what, "differs", message, details, *places.of(name))
    if outcome.rejected is not None:
        for name, value in outcome.results.items():
            count = outcome.rejected.get(name, 0)
            what = f"{name} has no NaN{suffix}"
            message = f"{name}: {count} of {value.size} elements are NaN"
            if count:
                yield Verdict(file, what, "nan", message, "", *places.of(name))
            else:
                yield Verdict(file, what)


def _failed(file: str, error: HloError, suffix: str) -> Iterator[Verdict]:
    for n, d in enumerate(error.diagnostics):
        place = (file, 0, 0) if file != "-" else ("", 0, 0)
        if d.span is not None and d.span.source.name == file:
            place = (file, *d.span.source.line_column(d.span.start))
        name = f"runs{suffix}" if n == 0 else f"runs{suffix}, error {n + 1}"
        yield Verdict(file, name, d.code, d.message, d.render(), *place, is_error=True)


class _Places:
    """The lines of the instructions that results of a module are."""

    def __init__(self, source: tuple[bytes, str] | None, form: str | None) -> None:
        self._source, self._form = source, form
        self._instructions: list[Instruction] | None = None

    def of(self, name: str) -> tuple[str, int, int]:
        """Return file, line and column of a result; what is not known is empty or 0."""
        if self._source is None:
            return "", 0, 0
        data, file = self._source
        number = name.rpartition(".")[2].removeprefix("out")
        path = "" if file == "<stdin>" else file
        if not number.isdecimal():  # what was fed out
            return path, 0, 0
        if self._instructions is None:
            self._instructions = _results(data, file, self._form)
        span = self._instructions[int(number)].span
        if span is None:
            return path, 0, 0
        return (path, *span.source.line_column(span.start))


def _results(data: bytes, file: str, form: str | None) -> list[Instruction]:
    """Return for each result of a module the instruction that it is, or the nearest to it."""
    from hlo.frontends.sources import read_module
    from hlo.values.types import TokenShape

    root = read_module(data, file, form).entry.root
    found = []
    for path, leaf in root.shape.leaves():
        if isinstance(leaf, TokenShape):
            continue
        inst = root
        for n in path:
            if inst.opcode != "tuple":
                break
            inst = inst.operands[n]
        found.append(inst)
    return found
