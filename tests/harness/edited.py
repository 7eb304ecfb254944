"""What the parser and the verifier say of a text, to compare with a document that is edited."""

from __future__ import annotations

import re

from hlo.editor.document import Document
from hlo.errors import HloError, Source
from hlo.frontends.text import print_module
from hlo.frontends.text.build import Builder
from hlo.frontends.text.recovery import read
from hlo.frontends.text.report import Report
from hlo.support.memory import collector_paused
from hlo.verifier import diagnose

# How the error of an instruction begins that breaks the rule of its operation.
_RULE = re.compile(r"[\w.-]+: [\w-]+: ")
# Code, message and where it begins, of each diagnostic in order.
Found = list[tuple[str, str, int]]


def fresh(text: str) -> tuple[str | None, Found]:
    """Return the module of a text as text, None if it cannot be parsed, and all that is wrong."""
    report = Report(Source("fresh", text), limit=None)
    try:
        with collector_paused():
            module = Builder(report, read(report)).module()
        found = diagnose(module)
    except HloError as e:
        return None, sorted((d.code, d.message, d.span.start) for d in e.diagnostics if d.span)
    printed = print_module(module)
    return printed, sorted((d.code, d.message, d.span.start) for d in found if d.span)


def edited(document: Document) -> tuple[str | None, Found]:
    """Return the same of a document."""
    found = [
        (d.code, d.message, document.offsets(d.span)[0]) for d in document.diagnostics if d.span
    ]
    module = document.module
    return None if module is None else print_module(module), sorted(found)


def difference(document: Document) -> str:
    """Return how a document differs from a new one of its text, nothing if it does not.

    A syntax error may hide what is wrong with the rest of a file; a document finds more then.
    """
    (old, before), (new, now) = edited(document), fresh(document.text)
    if (old is None) != (new is None):
        return f"it can{'not' * (old is None)} be parsed: {before or now}"
    if now and all(code == "syntax" for code, _, _ in now):
        return "" if set(now) <= set(before) else f"missing: {set(now) - set(before)}"
    if any(code == "syntax" for code, _, _ in now):
        # Lines that recovery leaves out hide computations, and with them what calls break.
        before = [found for found in before if found in now or not _RULE.match(found[1])]
    if before != now:
        return f"{before} instead of {now}"
    return "" if old == new else "it is another module"
