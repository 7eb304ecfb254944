"""Imports point one way: `tools -> api -> {verifier, eval, ...} -> ir -> ops -> ... -> errors`.

Every import statement counts, also one inside a function. `import hlo` alone names no room.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Which rooms a room may import besides itself. A room is a file or a package directly under `hlo`.
_GROUND = {
    "errors", "memory", "scan", "types", "values", "numerals", "shape_text", "signature",
    "deadline", "interop", "trees",
}  # fmt: skip
_VALUES = _GROUND | {
    "literal",
    "layout",
    "sharding",
}
ALLOWED: dict[str, set[str]] = {
    "__main__": set(),
    "errors": set(),
    "version": set(),
    "memory": {"errors"},
    "forms": set(),
    "signature": {"errors", "interop"},
    "deadline": {"errors", "signature"},
    "scan": {"errors"},
    "types": {"errors"},
    "values": {"errors", "types"},
    "interop": {"errors"},
    "trees": set(),
    "numerals": {"errors", "scan", "types"},
    "shape_text": {"errors", "scan", "types"},
    "dense": {"errors", "numerals", "types"},
    "layout": _GROUND,
    "explorer": _GROUND | {"layout"},
    "literal": _GROUND | {"dense"},
    "sharding": _GROUND,
    "ops": _VALUES,
    "host": _VALUES | {"ops", "files"},
    "plugins": _VALUES | {"files", "host"},
    "ir": _VALUES | {"ops"},
    "text": _VALUES | {"ops", "ir"},
    "proto": _VALUES | {"forms", "ops", "ir", "text", "verifier"},
    "frontend": {"errors", "ir", "proto", "trees"},
    "stablehlo": _VALUES | {"ops", "ir", "text", "eval"},
    "sources": {"errors", "files", "forms", "ir", "proto", "stablehlo", "text", "types"},
    "verifier": _VALUES | {"ops", "ir"},
    "eval": _VALUES | {"ops", "ir", "analysis", "host"},
    "analysis": _VALUES | {"distribution", "ops", "ir"},
    "builder": _VALUES | {"ops", "ir", "text", "verifier", "eval", "arguments"},
    "graph": {"ops", "ir", "types"},
    "reports": {"analysis", "errors", "files", "graph", "ir", "text"},
    "sampling": _VALUES,
    "passes": _VALUES
    | {"ops", "ir", "analysis", "eval", "compare", "sampling", "expansions", "files"},
    "expansions": _VALUES | {"ops", "ir", "analysis"},
    "codegen": _VALUES | {"ops", "ir", "analysis", "expansions"},
    "runtime": _VALUES | {"arguments", "distribution"},
    "objects": _VALUES | {"arguments", "codegen", "runtime", "host", "binding", "files", "version"},
    "arguments": _VALUES,
    "distribution": _VALUES,
    "compare": set(),
    "summary": {"types"},
    "files": _VALUES,
    "archives": {"errors", "files", "types"},
    "constants": _VALUES
    | {"analysis", "archives", "arguments", "distribution", "files", "ir", "sources", "verifier"},
    "weights": _VALUES | {"archives", "arguments", "files", "ir", "verifier"},
    "inputs": _VALUES | {"archives", "arguments", "distribution", "files", "forms", "sources"},
    "binding": _VALUES | {"ops", "ir", "text", "runtime", "host", "eval"},
    "compiler": _VALUES
    | {"arguments", "files", "ops", "ir", "text", "verifier", "passes", "codegen", "runtime"}
    | {"analysis", "constants", "host", "binding", "objects", "sources", "version", "weights"},
    "support": _VALUES
    | {"arguments", "distribution", "ops", "ir", "text", "verifier", "eval", "compiler"}
    | {"runtime"},
    "client": _VALUES | {"analysis", "api", "arguments", "builder", "compiler", "host", "ir"},
    "api": _VALUES
    | {"ops", "ir", "text", "verifier", "eval", "arguments", "files", "inputs", "compiler"}
    | {"analysis", "constants", "distribution", "passes", "proto", "sources", "stablehlo"}
    | {"weights"},
}


def _modules(tree: ast.AST, package: list[str]) -> set[str]:
    """Return the dotted names that a file imports; relative ones are resolved against `package`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            found.add(name)
            # `from hlo import types` names a room in the list of names.
            if name == "hlo":
                found.update(f"hlo.{alias.name}" for alias in node.names)
    return found


def _room(path: Path) -> str:
    parts = path.relative_to(ROOT / "hlo").with_suffix("").parts
    return parts[0]


def _source_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", _source_files("hlo"), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_of_a_room_point_down(path: Path) -> None:
    room = _room(path)
    package = list(path.relative_to(ROOT).parent.parts)
    rooms = {
        name.split(".")[1]
        for name in _modules(ast.parse(path.read_text()), package)
        if name.startswith("hlo.") and name.split(".")[1] in _rooms()
    }
    if room == "__init__":
        return
    assert room in ALLOWED, f"{room} is a new room: say in this test what it may import"
    assert rooms <= ALLOWED[room] | {room}, f"{room} may not import {rooms - ALLOWED[room]}"


# Parents and children that know each other: their types name each other, nothing is imported at run
# time.
_MUTUAL = [
    {"hlo/ir/computation.py", "hlo/ir/instruction.py", "hlo/ir/module.py"},
    {"hlo/codegen/entry/emitter.py", "hlo/codegen/entry/control.py", "hlo/codegen/entry/host.py"},
    {str(p.relative_to(ROOT)) for p in (ROOT / "hlo/frontends/builder").glob("*.py")},
]


def _names() -> dict[str, str]:
    """Return the file of each module of ours, by dotted name."""
    found = {}
    for path in (*_source_files("hlo"), *_source_files("tools")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        parts[0] = {"tools": "hlo_tools"}.get(parts[0], parts[0])
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = str(path.relative_to(ROOT))
    return found


def _imported(path: Path, names: Mapping[str, str]) -> set[str]:
    """Return the files that a file imports, inside functions and for types alone too."""
    package = list(path.relative_to(ROOT).parent.parts)
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            inside = {f"{module}.{alias.name}" for alias in node.names}
            found |= {i if i in names else module for i in inside}
    return {names[name] for name in found if name in names} - {str(path.relative_to(ROOT))}


def _circle(edges: Mapping[str, set[str]]) -> list[str]:
    """Return files that import one another in a circle, the first one again at the end."""
    done: set[str] = set()
    for start in edges:
        path: list[str] = []
        todo = [(start, True)]
        while todo:
            file, enters = todo.pop()
            if not enters:
                done.add(path.pop())
            elif file in path:
                return [*path[path.index(file) :], file]
            elif file not in done:
                path.append(file)
                todo += [(file, False), *((below, True) for below in sorted(edges[file]))]
    return []


def test_no_files_import_each_other_in_a_circle() -> None:
    names = _names()
    edges = {file: _imported(ROOT / file, names) for file in names.values()}
    for family in _MUTUAL:
        for file in family:
            edges[file] -= family
    assert not _circle(edges), "\n  imports ".join(_circle(edges))


def test_a_circle_is_found() -> None:
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}
    assert _circle(edges) == ["c", "d", "b", "c"]
    assert not _circle({**edges, "d": set()})


@functools.cache
def _rooms() -> frozenset[str]:
    return frozenset({_room(p) for p in _source_files("hlo")} - {"__init__"})


def test_no_file_below_the_tools_imports_them() -> None:
    for path in _source_files("hlo"):
        package = list(path.relative_to(ROOT).parent.parts)
        names = _modules(ast.parse(path.read_text()), package)
        assert not {n for n in names if n.split(".")[0] in ("hlo_tools", "tools")}, path


def test_only_tools_import_the_command_line_library() -> None:
    for path in _source_files("hlo"):
        assert "click" not in _modules(ast.parse(path.read_text()), []), path


def test_the_allowed_edges_have_no_cycle() -> None:
    order: list[str] = []
    left = dict(ALLOWED)
    while left:
        free = [r for r, below in left.items() if not (below - set(order))]
        assert free, f"these rooms import each other: {sorted(left)}"
        order.extend(free)
        for room in free:
            del left[room]


def test_every_package_is_installed() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in ROOT.glob("hlo/**/__init__.py")}
    assert sorted(told) == sorted([*found, "hlo_tools"])
