"""The records of one result over the executions of its instruction, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hlo.debug.trace.record import TracedValue
from hlo.debug.trace.statistics import merged

# Of an instruction that runs more often than twice this, neighbouring executions are one record.
RECORDS = 64

# A record with its number in the order of execution.
Numbered = tuple[int, TracedValue]


@dataclass
class Series:
    """The records of one result: each of at least `width` executions, but for the last."""

    width: int = 1
    records: list[Numbered] = field(default_factory=list)

    def add(self, number: int, value: TracedValue) -> None:
        """Add an execution, or several, with the number of the first among all of the run."""
        records = self.records
        if records and records[-1][1].executions < self.width:
            records[-1] = _joined(records[-1], (number, value))
            return
        if len(records) == 2 * RECORDS:
            pairs = zip(records[::2], records[1::2], strict=True)
            self.records = records = [_joined(a, b) for a, b in pairs]
            self.width *= 2
        records.append((number, value))


def _joined(a: Numbered, b: Numbered) -> Numbered:
    first, last = a[1], b[1]
    together = replace(
        first, statistics=merged([first.statistics, last.statistics]),
        executions=first.executions + last.executions, last_frames=last.last_frames or last.frames,
    )  # fmt: skip
    return a[0], together


def in_order(all_of: Iterable[Series]) -> list[TracedValue]:
    """Return the records of several series in the order of execution."""
    records = [record for series in all_of for record in series.records]
    return [value for _, value in sorted(records, key=lambda record: record[0])]


def notes_of(all_of: Iterable[Series]) -> list[str]:
    """Return what there is to say of executions that were put together."""
    joined = sum(any(v.executions > 1 for _, v in series.records) for series in all_of)
    if not joined:
        return []
    return [
        f"{joined} results of instructions that ran more than {2 * RECORDS} times: neighbouring "
        "executions are put together; iteration=N:M selects single ones"
    ]
