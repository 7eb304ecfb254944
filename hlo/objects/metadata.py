"""Module-level metadata in LLVM IR: flags, and debug information.

Code generation says which HLO the code is for. That becomes DWARF line tables here: a debugger
steps through the HLO text and breaks on its lines, a profiler attributes costs to them. There are
no variables: values have no fixed location.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import Span
from hlo.llvm import Function, Instruction, Line, LlvmModule, Location
from hlo.values.scan import to_bytes

_DWARF_VERSION, _INFO_VERSION = 5, 3


def add_metadata(
    module: LlvmModule,
    flags: Sequence[str],
    source: str | None = None,
    span: Span | None = None,
    producer: str = "",
    *,
    for_windows: bool = False,
    has_tables: bool = True,
) -> None:
    """Add flags to a module, and debug information if `source` is given.

    flags: module flags in LLVM's syntax. source: path of the HLO file for debuggers. span: the
    source location of exported functions. for_windows: CodeView, which Microsoft's tools read,
    instead of DWARF. has_tables: write DWARF's tables, not only the lines into assembly.
    """
    if source is not None:
        line, _ = span.source.line_column(span.start) if span is not None else (0, 0)
        # The names in CodeView are whole paths.
        folder = "." if for_windows else ""
        emission = "FullDebug" if has_tables else "DebugDirectivesOnly"
        _add_debug_info(module, source, folder, line, producer, emission)
        dwarf = f'!{{i32 7, !"Dwarf Version", i32 {_DWARF_VERSION}}}'
        flags = [
            *flags,
            '!{i32 2, !"CodeView", i32 1}' if for_windows else dwarf,
            f'!{{i32 2, !"Debug Info Version", i32 {_INFO_VERSION}}}',
        ]
    if flags:
        module.named_metadata["llvm.module.flags"] = tuple(map(module.node, flags))


def add_unwinding(module: LlvmModule) -> None:
    """Give all functions unwind tables, which Windows requires of all code."""
    for function in list(module.functions.values()):
        module.add(function.replace(attributes=(*function.attributes, "uwtable")))


def _add_debug_info(
    module: LlvmModule, source: str, folder: str, line: int, producer: str, emission: str
) -> None:
    """Give each instruction its location."""
    if module.target_triple.startswith("nvptx"):
        source = source.replace('"', "'")  # ptxas ends a text there, also after a backslash
    file = module.node(f'!DIFile(filename: {_quoted(source)}, directory: "{folder}")')
    # No name table: debuggers build their own, and the numbers of its labels are not
    # deterministic in LLVM.
    unit = module.node(
        f"distinct !DICompileUnit(language: DW_LANG_C11, file: !{file}, "
        f"producer: {_quoted(producer)}, isOptimized: true, runtimeVersion: 0, "
        f"emissionKind: {emission}, nameTableKind: None)",
        [file],
    )
    module.named_metadata["llvm.dbg.cu"] = (unit,)
    kind = module.node("!DISubroutineType(types: !{null})")
    for function in list(module.functions.values()):
        place = 0 if function.linkage == "internal" else line
        module.add(_with_locations(module, function, file, unit, kind, place))


def _with_locations(
    module: LlvmModule, function: Function, file: int, unit: int, kind: int, place: int
) -> Function:
    """Return a function with locations. place: its line if its code says none."""
    marks = (line for line in function.body if isinstance(line, Location))
    # A helper has no line of HLO, but functions inlined into it may.
    first = next(marks, Location(place, 0)).line
    scope = module.node(
        f"distinct !DISubprogram(name: {_quoted(function.name)}, file: !{file}, line: {first}, "
        f"type: !{kind}, scopeLine: {first}, "
        f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{unit})",
        [file, kind, unit],
    )
    nodes: dict[Location, int] = {}

    def node_of(location: Location) -> int:
        found = nodes.get(location)
        if found is None:
            # The format has 16 bits for a column.
            column = location.column if location.column < 1 << 16 else 0
            text = f"!DILocation(line: {location.line}, column: {column}, scope: !{scope})"
            found = nodes[location] = module.node(text, [scope])
        return found

    here = node_of(Location(first, 0))
    body: list[Line] = []
    for line in function.body:
        if isinstance(line, Location):
            here = node_of(line)
        elif isinstance(line, Instruction):
            body.append(line._replace(debug=here))
        else:
            body.append(line)
    return function.with_body(body, debug=scope)


def _quoted(text: str) -> str:
    body = "".join(
        chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in to_bytes(text)
    )
    return f'"{body}"'
