"""What commands tell continuous integration: `--quiet`, JUnit XML, GitHub's annotations.

A verdict is about one property that a file should have: that the module is valid, that it runs,
that a result matches the expected one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import note

if TYPE_CHECKING:
    from hlo.errors import HloError

# What XML 1.0 cannot hold, not even as a character reference.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Verdict:
    """A property that a file should have, and whether it does.

    problem: the kind of failure, empty if there is none: `differs`, `nan`, or the code of an error.
    message: a line about it. details: further lines. path, line, column: where to show it, empty
    and 0 where that is not known. is_error: the property could not be checked.
    """

    file: str
    name: str
    problem: str = ""
    message: str = ""
    details: str = ""
    path: str = ""
    line: int = 0
    column: int = 0
    seconds: float = 0.0
    is_error: bool = False


def ci_options(properties: str, quiet: str) -> Callable[[Any], Any]:
    """Add --quiet, --junit and --github to a command.

    properties: what verdicts are about, as `--help` says it. quiet: what --quiet does.
    """

    def add(command: Any) -> Any:
        for option in (
            click.option(
                "--github/--no-github", default=None,
                help="Also write each failure to standard error as an annotation of GitHub, at its "
                "line of the file.  [default: where GITHUB_ACTIONS is true]",
            ),
            click.option("--junit", metavar="FILE", help=f"Write {properties} as JUnit XML."),
            click.option("--quiet", is_flag=True, help=quiet),
        ):  # fmt: skip
            command = option(command)
        return command

    return add


@dataclass
class Verdicts:
    """The verdicts of a command on all files, and where they go."""

    command: str
    junit: str | None
    github: bool
    found: list[Verdict] = field(default_factory=list)

    @classmethod
    def take(cls, command: str, given: dict[str, Any], read: Sequence[str]) -> Verdicts:
        """Take the options out of all that were given.

        read: files that are read, and must not be written. Raises HloError for a file that cannot
        be written.
        """
        path, github = given.pop("junit"), given.pop("github")
        if path is not None:
            from hlo.io.files import need_places

            need_places([path], read)
        if github is None:
            github = os.environ.get("GITHUB_ACTIONS") == "true"
        return cls(command, path, github)

    @property
    def wanted(self) -> bool:
        return self.github or self.junit is not None

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """Add verdicts; they are computed only where someone wants them."""
        if self.wanted:
            for verdict in verdicts:
                self.found.append(verdict)
                if self.github and verdict.problem:
                    note(annotation(verdict))

    def add_error(self, file: str, name: str, error: HloError) -> None:
        """Add the errors of a file that does not have a property."""
        self.add(_failed(file, name, error))

    def conclude(self) -> None:
        """Write the file of --junit. Raises HloError."""
        if self.junit is not None:
            from hlo.io.files import write_files

            write_files({self.junit: junit(self.command, self.found)})


def _failed(file: str, name: str, error: HloError) -> Iterable[Verdict]:
    for n, d in enumerate(error.diagnostics):
        place = (file, 0, 0) if file != "-" else ("", 0, 0)
        if d.span is not None and d.span.source.name == file:
            place = (file, *d.span.source.line_column(d.span.start))
        case = name if n == 0 else f"{name}, error {n + 1}"
        yield Verdict(file, case, d.code, d.message, d.render(), *place, is_error=True)


def junit(command: str, verdicts: Sequence[Verdict]) -> bytes:
    """Return a JUnit XML report: a test suite for each file, a test case for each verdict."""
    from xml.etree import ElementTree as xml

    def counted(tag: str, found: Sequence[Verdict], **more: str) -> xml.Element:
        failures = sum(bool(v.problem) and not v.is_error for v in found)
        return xml.Element(
            tag, more, tests=str(len(found)), failures=str(failures),
            errors=str(sum(v.is_error for v in found)), skipped="0",
            time=f"{sum(v.seconds for v in found):.6f}",
        )  # fmt: skip

    suites = counted("testsuites", verdicts, name=command)
    for file in dict.fromkeys(v.file for v in verdicts):
        own = [v for v in verdicts if v.file == file]
        suite = counted("testsuite", own, name=_xml_text(file))
        suites.append(suite)
        for v in own:
            case = xml.SubElement(
                suite, "testcase", classname=_xml_text(file), name=_xml_text(v.name),
                time=f"{v.seconds:.6f}",
            )  # fmt: skip
            if v.line:
                case.set("file", _xml_text(v.path))
                case.set("line", str(v.line))
            if v.problem:
                kind = "error" if v.is_error else "failure"
                told = xml.SubElement(case, kind, message=_xml_text(v.message), type=v.problem)
                told.text = _xml_text(v.details or v.message)
    xml.indent(suites)
    text: bytes = xml.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _xml_text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def annotation(verdict: Verdict) -> str:
    """Return GitHub's workflow command that shows a failure beside the line of a file."""
    properties = {}
    if verdict.path:
        properties["file"] = _in_workspace(verdict.path)
        if verdict.line:
            properties["line"] = str(verdict.line)
        if verdict.column:
            properties["col"] = str(verdict.column)
    properties["title"] = f"{verdict.name}: {verdict.problem}"
    said = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::error {said}::{_data(verdict.details or verdict.message)}"


def _in_workspace(path: str) -> str:
    """Return a path as GitHub has it: from the root of the repository on."""
    root = os.environ.get("GITHUB_WORKSPACE")
    whole = Path(path).absolute()
    if root and whole.is_relative_to(root):
        return whole.relative_to(root).as_posix()
    return path


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
