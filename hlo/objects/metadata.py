"""Module-level metadata in LLVM IR: flags, and debug information.

Code generation marks the code with comments that name its HLO. They become DWARF line tables
here: a debugger steps through the HLO text and breaks on its lines, a profiler attributes costs
to them. There are no variables: values have no fixed location.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hlo.codegen.llvm import PLACE_MARK as MARK
from hlo.errors import Span
from hlo.values.scan import to_bytes

_DWARF_VERSION, _INFO_VERSION = 5, 3
_NUMBERED = re.compile(r"^!(\d+) = ")
_DEFINED = re.compile(r'^define [^@]*@(?:"([^"]+)"|([\w.$-]+))\(')


class _Metadata:
    """Metadata nodes under construction, numbered after existing ones."""

    def __init__(self, first: int) -> None:
        self._next = first
        self.lines: list[str] = []

    def node(self, text: str, *, distinct: bool = False) -> str:
        name = f"!{self._next}"
        self._next += 1
        self.lines.append(f"{name} = {'distinct ' if distinct else ''}{text}")
        return name


def with_metadata(
    llvm: str,
    flags: Sequence[str],
    source: str | None = None,
    span: Span | None = None,
    producer: str = "",
    *,
    for_windows: bool = False,
) -> str:
    """Return a module in LLVM IR with flags, and with debug information if `source` is given.

    flags: module flags in LLVM's syntax. source: path of the HLO file for debuggers. span: the
    source location of exported functions. for_windows: CodeView, which Microsoft's tools read,
    instead of DWARF.
    """
    lines = llvm.split("\n")
    numbers = [int(m[1]) for line in lines if (m := _NUMBERED.match(line))]
    nodes = _Metadata(max(numbers, default=-1) + 1)
    named = []
    if source is not None:
        line, _ = span.source.line_column(span.start) if span is not None else (0, 0)
        # The names in CodeView are whole paths.
        folder = "." if for_windows else ""
        lines = _with_debug_info(lines, nodes, source, folder, line, producer)
        dwarf = f'!{{i32 7, !"Dwarf Version", i32 {_DWARF_VERSION}}}'
        flags = [
            *flags,
            '!{i32 2, !"CodeView", i32 1}' if for_windows else dwarf,
            f'!{{i32 2, !"Debug Info Version", i32 {_INFO_VERSION}}}',
        ]
        named.append("!llvm.dbg.cu = !{!" + f"{max(numbers, default=-1) + 2}" + "}")
    if flags:
        named.append("!llvm.module.flags = !{" + ", ".join(nodes.node(f) for f in flags) + "}")
    return "\n".join([*lines, *nodes.lines, *named, ""])


def with_unwinding(llvm: str) -> str:
    """Return a module whose functions have unwind tables, which Windows requires of all code."""
    return re.sub(r"^(define .*?) \{$", r"\1 uwtable {", llvm, flags=re.MULTILINE | re.DOTALL)


def _with_debug_info(
    lines: Sequence[str], nodes: _Metadata, source: str, folder: str, line: int, producer: str
) -> list[str]:
    """Return the lines with a location on each instruction."""
    file = nodes.node(f'!DIFile(filename: {_quoted(source)}, directory: "{folder}")')
    # No name table: debuggers build their own, and the numbers of its labels are not
    # deterministic in LLVM.
    unit = nodes.node(
        f"!DICompileUnit(language: DW_LANG_C11, file: {file}, producer: {_quoted(producer)}, "
        "isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug, nameTableKind: None)",
        distinct=True,
    )
    kind = nodes.node("!DISubroutineType(types: !{null})")
    found: list[str] = []
    at = 0
    while at < len(lines):
        if not _DEFINED.match(lines[at]):
            found.append(lines[at])
            at += 1
            continue
        # The header may span several lines.
        body = at
        while not lines[body].endswith("{"):
            body += 1
        end = body
        while lines[end] != "}":
            end += 1
        place = 0 if lines[at].startswith("define internal") else line
        head = " ".join(x.strip() for x in lines[at : body + 1])
        function = [head, *lines[body + 1 : end + 1]]
        found += _function(function, nodes, file, unit, kind, place)
        at = end + 1
    return found


def _function(
    lines: Sequence[str], nodes: _Metadata, file: str, unit: str, kind: str, place: int
) -> list[str]:
    """Return a function's lines with locations. place: its line if its code says none."""
    marks = (line[len(MARK) :].split() for line in lines if line.startswith(MARK))
    # A helper has no line of HLO, but functions inlined into it may.
    first, _ = next(marks, (str(place), "0"))
    match = _DEFINED.match(lines[0])
    assert match is not None
    scope = nodes.node(
        f"!DISubprogram(name: {_quoted(match[1] or match[2])}, file: {file}, line: {first}, "
        f"type: {kind}, scopeLine: {first}, "
        f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {unit})",
        distinct=True,
    )
    places: dict[tuple[str, str], str] = {}

    def location(line: str, column: str) -> str:
        found = places.get((line, column))
        if found is None:
            # The format has 16 bits for a column.
            shown = column if int(column) < 1 << 16 else "0"
            text = f"!DILocation(line: {line}, column: {shown}, scope: {scope})"
            found = places[line, column] = nodes.node(text)
        return found

    here = location(first, "0")
    found = [lines[0].removesuffix(" {") + f" !dbg {scope} {{"]
    depth = 0
    for line in lines[1:]:
        if line.startswith(MARK):
            here = location(*line[len(MARK) :].split())
        elif not line.startswith("  ") or line.startswith("  ;"):
            found.append(line)
        else:
            # An instruction over several lines (a switch) is annotated where it ends.
            depth += line.count("[") - line.count("]")
            found.append(line if depth else f"{line}, !dbg {here}")
    return found


def _quoted(text: str) -> str:
    body = "".join(
        chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in to_bytes(text)
    )
    return f'"{body}"'
