"""`parse`: HLO text to a module."""

from __future__ import annotations

from hlo.errors import Source
from hlo.frontends.text.build import Builder
from hlo.frontends.text.recovery import read
from hlo.frontends.text.report import Report
from hlo.ir import Module
from hlo.support.memory import collector_paused


def parse(text: str, name: str = "<string>") -> Module:
    """Parse a module. `name` names the text in errors.

    Raises HloError with all the errors that could be found, and TypeError if `text` is no string.
    """
    if not isinstance(text, str):
        raise TypeError(f"HLO text is a str, not {type(text).__name__}")
    return parse_source(Source(name, text))


def parse_source(source: Source) -> Module:
    """Parse a module of which positions are those of a source. Raises HloError."""
    report = Report(source)
    with collector_paused():
        return Builder(report, read(report)).module()
