"""Imports point one way: `tools -> api -> compiler -> {passes, ...} -> ir -> ... -> errors`.

Every import statement counts, also one inside a function. `import hlo` alone names no room.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.harness.paths import ROOT

# Which rooms a room may import besides itself. A room is a file or a package directly under `hlo`.
_VALUES = {"errors", "version", "support", "values"}
_IR = _VALUES | {"ops", "ir"}
ALLOWED: dict[str, set[str]] = {
    "__main__": set(),
    "errors": set(),
    "version": set(),
    "support": {"errors"},
    "values": {"errors", "support"},
    "ops": _VALUES,
    "io": _VALUES,
    "testing": _VALUES,
    "ir": _VALUES | {"ops"},
    "host": _VALUES | {"ops", "io"},
    "mpi": _VALUES | {"ops", "host", "llvm", "runtime"},
    "verifier": _IR,
    "lenient": _IR | {"verifier", "passes"},
    "library_calls": _IR,
    "analysis": _IR | {"io", "library_calls"},
    "expansions": _IR | {"analysis"},
    "eval": _IR | {"analysis", "host", "library_calls"},
    "spmd": _IR | {"analysis", "expansions"},
    "frontends": _IR | {"io", "verifier", "expansions", "eval"},
    "reports": _IR
    | {"io", "analysis", "frontends", "passes", "compiler", "profiler", "gpu"}
    | {"library_calls"},
    "passes": _IR
    | {"io", "verifier", "analysis", "eval", "expansions", "library_calls", "spmd", "testing"},
    "llvm": set(),
    "gpu": _VALUES,
    "codegen": _IR | {"analysis", "expansions", "library_calls", "llvm", "gpu"},
    "runtime": _VALUES | {"io", "llvm"},
    "objects": _VALUES | {"io", "host", "llvm", "codegen", "runtime", "gpu"},
    "compiler": _IR
    | {"io", "host", "verifier", "analysis", "eval", "frontends", "passes", "spmd", "codegen"}
    | {"lenient", "library_calls", "runtime", "objects", "gpu"},
    "api": _IR
    | {"io", "verifier", "analysis", "eval", "frontends", "passes", "spmd", "compiler"}
    | {"lenient", "debug", "profiler", "reports"},
    "profiler": _IR
    | {"io", "host", "llvm", "verifier", "analysis", "eval", "frontends", "passes", "codegen"}
    | {"lenient", "runtime", "compiler", "gpu"},
    "debug": _IR
    | {"io", "testing", "host", "verifier", "analysis", "eval", "frontends", "passes", "spmd"}
    | {"lenient", "expansions", "codegen", "runtime", "compiler", "reports"},
    "pjrt": _IR
    | {"io", "host", "analysis", "frontends", "llvm", "codegen", "runtime", "compiler", "spmd"},
    "editor": _IR | {"verifier", "analysis", "frontends", "io"},
    # What a user of JAX imports.
    "jax": _IR
    | {"io", "host", "verifier", "analysis", "eval", "frontends", "passes", "compiler"}
    | {"lenient", "debug", "profiler", "reports", "api", "pjrt", "spmd"},
    "builder": {"frontends"},
    "client": _IR
    | {"io", "host", "mpi", "analysis", "eval", "frontends", "spmd", "compiler", "api"},
}
# The same for the rooms inside a room, where there is an order among them.
INSIDE: dict[str, dict[str, set[str]]] = {
    "values": {
        "scan": set(),
        "types": set(),
        "arrays": {"types"},
        "numerals": {"scan", "types"},
        "shape_text": {"scan", "types"},
        "dense": {"numerals", "types"},
        "layout": {"scan", "types", "arrays", "numerals", "shape_text"},
        "literal": {"scan", "types", "arrays", "numerals", "shape_text", "dense"},
        "sharding": {"scan", "types", "arrays", "numerals", "shape_text"},
    },
    "frontends": {
        "text": set(),
        "proto": {"text"},
        "stablehlo": {"text"},
        "builder": {"text"},
        "jax": {"proto", "jax_callbacks", "tree_mismatch"},
        "jax_callbacks": {"jax_buffers"},
        "jax_buffers": set(),
        "tree_mismatch": set(),
        "sources": {"text", "proto", "stablehlo"},
        "programs": {"jax", "sources"},
    },
    # The interface of a machine lies below the kernels, the machines that have them above.
    "codegen": {
        "llvm": set(),
        "choices": set(),
        "scalar": {"llvm"},
        "kernels.matmul.arithmetic": {"llvm", "scalar"},
        "kernels.matmul.microkernels.record": {"llvm", "scalar", "kernels.matmul.arithmetic"},
        "targets.base": {"llvm", "choices", "kernels.matmul.microkernels.record"},
        "loops": {"llvm", "scalar", "targets.base"},
        "plan": {"loops", "scalar"},
        "kernels": {"llvm", "scalar", "targets.base", "loops", "plan"}
        | {"kernels.matmul.arithmetic", "kernels.matmul.microkernels.record"},
        "targets": {"llvm", "choices", "targets.base", "kernels"}
        | {"kernels.matmul.microkernels.record"},
        "targets.gpu": {"llvm", "scalar", "targets.base", "loops", "plan", "kernels"},
        "lower": {"kernels"},
        "entry": {"llvm", "scalar", "targets.base", "loops", "plan", "kernels"},
        "report": {"loops", "plan", "entry"},
        "launches": {"llvm", "scalar", "loops", "plan", "entry", "pipeline", "targets.gpu"}
        | {"targets.base", "kernels"},
        "pipeline": {"llvm", "loops", "plan", "targets.base", "lower", "entry", "report"},
    },
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
            found.update(f"{name}.{alias.name}" for alias in node.names)
    return found


def _room(name: str, rooms: Collection[str]) -> str:
    """Return the innermost room that a file is in; names are dotted, and end in those of files."""
    parts = name.split(".")
    inside = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((room for room in inside if room in rooms), parts[0])


def _source_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def _imported(path: Path, within: str, rooms: Collection[str]) -> set[str]:
    """Return the rooms of a folder that a file of it imports."""
    package = list(path.relative_to(ROOT).parent.parts)
    head, known = within.replace("/", ".") + ".", _entries(within)
    names = _modules(ast.parse(path.read_text()), package)
    inside = {n.removeprefix(head) for n in names if n.startswith(head)}
    return {_room(n, rooms) for n in inside if n.split(".")[0] in known}


@functools.cache
def _entries(within: str) -> frozenset[str]:
    """Return the files and folders that lie in a folder."""
    return frozenset(p.relative_to(ROOT / within).parts[0] for p in _source_files(within)) | {
        p.stem for p in (ROOT / within).glob("*.py")
    }


def _check_room(path: Path, within: str, allowed: dict[str, set[str]]) -> None:
    name = ".".join(path.relative_to(ROOT / within).with_suffix("").parts)
    if name == "__init__":
        return
    room = _room(name.removesuffix(".__init__"), allowed)
    assert room in allowed, f"{room} is a new room: say in this test what it may import"
    rooms = _imported(path, within, allowed)
    assert rooms <= allowed[room] | {room}, f"{room} may not import {rooms - allowed[room]}"


# Parents and children that know each other: their types name each other, nothing is imported at run
# time.
_MUTUAL = [
    {"hlo/ir/computation.py", "hlo/ir/instruction.py", "hlo/ir/module.py"},
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


def _imported_files(path: Path, names: Mapping[str, str]) -> set[str]:
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
    edges = {file: _imported_files(ROOT / file, names) for file in names.values()}
    for family in _MUTUAL:
        for file in family:
            edges[file] -= family
    assert not _circle(edges), "\n  imports ".join(_circle(edges))


def test_a_circle_is_found() -> None:
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}
    assert _circle(edges) == ["c", "d", "b", "c"]
    assert not _circle({**edges, "d": set()})


@pytest.mark.parametrize("path", _source_files("hlo"), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_of_a_room_point_down(path: Path) -> None:
    _check_room(path, "hlo", ALLOWED)


@pytest.mark.parametrize("outer", INSIDE)
def test_imports_inside_a_room_point_down(outer: str) -> None:
    for path in _source_files(f"hlo/{outer}"):
        _check_room(path, f"hlo/{outer}", INSIDE[outer])


def test_no_file_below_the_tools_imports_them() -> None:
    for path in _source_files("hlo"):
        package = list(path.relative_to(ROOT).parent.parts)
        names = _modules(ast.parse(path.read_text()), package)
        assert not {n for n in names if n.split(".")[0] in ("hlo_tools", "tools")}, path


def test_only_tools_import_the_command_line_library() -> None:
    for path in _source_files("hlo"):
        assert "click" not in _modules(ast.parse(path.read_text()), []), path


@pytest.mark.parametrize("allowed", [ALLOWED, *INSIDE.values()], ids=["hlo", *INSIDE])
def test_the_allowed_edges_have_no_cycle(allowed: dict[str, set[str]]) -> None:
    order: list[str] = []
    left = dict(allowed)
    while left:
        free = [r for r, below in left.items() if not (below - set(order))]
        assert free, f"these rooms import each other: {sorted(left)}"
        order.extend(free)
        for room in free:
            del left[room]


# Who makes, prints, splits or completes LLVM IR.
_LLVM_IR = (
    "hlo/llvm/**/*.py", "hlo/codegen/**/*.py", "hlo/runtime/**/*.py", "hlo/objects/exports.py",
    "hlo/objects/metadata.py",
)  # fmt: skip
# They look into data layouts, and into the names of HLO instructions.
_READS_NAMES = {"hlo/codegen/targets/base.py", "hlo/codegen/entry/calls.py"}


def test_llvm_ir_is_not_parsed() -> None:
    """It is records until it is printed, and what is printed goes to LLVM only."""
    files = {str(p.relative_to(ROOT)): p for pattern in _LLVM_IR for p in ROOT.glob(pattern)}
    assert _READS_NAMES <= files.keys()
    parsing = {f for f, p in files.items() if "re" in _modules(ast.parse(p.read_text()), [])}
    assert parsing == _READS_NAMES, "see `hlo.llvm` for what is known of functions"


def test_every_package_is_installed() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    inits = [*ROOT.glob("hlo/**/__init__.py"), *ROOT.glob("tools/**/__init__.py")]
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in inits}
    assert sorted(told) == sorted({re.sub("^tools", "hlo_tools", name) for name in found})
