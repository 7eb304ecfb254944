"""What the outcome of a run tells continuous integration: a verdict for each result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..command_line.verdicts import Verdict
from .outcome import mismatch_table

if TYPE_CHECKING:
    from hlo.ir import Instruction

    from .outcome import Outcome

RUNS = "runs"


def verdicts_on(
    outcome: Outcome, source: tuple[bytes, str] | None, form: str | None, suffix: str
) -> Iterator[Verdict]:
    """Yield the verdicts on a run.

    source: the content of the file, and its name in errors, where results may have lines there.
    form: its format, None to detect it. suffix: of the names of verdicts, where there are several
    runs of a file.
    """
    places = _Places(source, form)
    file = outcome.file
    yield Verdict(file, f"{RUNS}{suffix}", seconds=sum(outcome.runs_s))
    for whose, checks in outcome.checks.items():
        for name, result in checks.items():
            what = f"{name} matches {whose}{suffix}"
            if result.same:
                yield Verdict(file, what)
                continue
            message = f"{name}: {result}"
            details = "\n".join([message, *mismatch_table(result)])
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
