"""What came of runs, in the forms that continuous integration reads: JUnit XML, GitHub annotations.

A verdict is one thing that was to hold: that a module runs, that a result is the one expected, that
a result has no NaN.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# What XML 1.0 cannot hold, not even as a character reference.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Verdict:
    """What was to hold of a file, and whether it does.

    problem: what kind of failure it is, empty if it holds: `differs`, `nan`, or the code of an
    error. message: a line about it. details: further lines. path, line, column: where to show it,
    empty and 0 where that is not known. is_error: it could not be looked at.
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


def junit(verdicts: Sequence[Verdict]) -> bytes:
    """Return a JUnit XML report: a test suite for each file, a test case for each verdict."""
    from xml.etree import ElementTree as xml

    def counted(tag: str, found: Sequence[Verdict], **more: str) -> xml.Element:
        failures = sum(bool(v.problem) and not v.is_error for v in found)
        return xml.Element(
            tag, more, tests=str(len(found)), failures=str(failures),
            errors=str(sum(v.is_error for v in found)), skipped="0",
            time=f"{sum(v.seconds for v in found):.6f}",
        )  # fmt: skip

    suites = counted("testsuites", verdicts, name="hlo-run")
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
    """Return GitHub's workflow command that shows what does not hold beside the line of a file."""
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
