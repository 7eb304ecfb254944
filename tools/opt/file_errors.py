"""Errors in the files of `hlo-opt`: after one, the command goes on with the next file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..command_line.common import BAD_INPUT, diagnostics_json, note, show_error
from ..command_line.platforms import note_status
from ..command_line.verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from hlo.errors import HloError

_VALID = "is valid"


class FileErrors:
    """The errors in each file, shown as they occur, or kept for JSON.

    notes_status: whether the status of XLA's tool is written, too.
    """

    def __init__(self, verdicts: Verdicts, *, as_json: bool, notes_status: bool = False) -> None:
        self._verdicts, self._as_json, self._notes_status = verdicts, as_json, notes_status
        self._errors: dict[str, list[dict[str, Any]]] = {}

    @contextmanager
    def within(self, file: str) -> Iterator[None]:
        """Report an HloError of a file, and go on."""
        from hlo.errors import HloError

        try:
            yield
        except HloError as e:
            self._add(file, e)

    def _add(self, file: str, error: HloError) -> None:
        if self._as_json:
            self._errors.setdefault(file, []).extend(diagnostics_json(error))
        else:
            self._errors.setdefault(file, [])
            if self._notes_status:
                note_status(error)
            show_error(error)
        self._verdicts.add_error(file, _VALID, error)

    def end_of(self, file: str) -> None:
        """Say that a file is done."""
        if file not in self._errors:
            self._verdicts.add([Verdict(file, _VALID)])

    def as_json(self, file: str) -> dict[str, Any]:
        """Return the JSON object of a file: its errors, an empty list where there are none."""
        return {"file": file, "errors": self._errors.get(file, [])}

    def summary(self, count: int) -> int:
        """Write how many of `count` files have errors, where there are several; the exit status."""
        failed = list(self._errors)
        if failed and count > 1 and not self._as_json:
            note(f"{len(failed)} of {count} files have errors: {', '.join(failed)}")
        return BAD_INPUT if failed else 0

    def __bool__(self) -> bool:
        return bool(self._errors)

    def __contains__(self, file: str) -> bool:
        return file in self._errors
