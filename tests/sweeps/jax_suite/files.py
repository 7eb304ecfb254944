"""Which of JAX's test files apply to a CPU, by the rules of JAX's own build."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Rules of JAX's BUILD files that start one process with the tests of a file.
_RULES = ("jax_multiplatform_test", "jax_py_test", "pytype_test")
_DEVICES = re.compile(r"^\s*(?:jtu\.)?request_cpu_devices\((\d+)\)", re.MULTILINE)


@dataclass
class SuiteFile:
    name: str  # relative to the folder of tests, with slashes
    excluded: str = ""  # why it does not apply to a CPU
    flags: list[str] = field(default_factory=list)  # JAX's flags that its rule asks for
    devices: int = 1  # how many CPU devices it requests


def find_files(tree: Path) -> list[SuiteFile]:
    """Return all test files of a checkout, in the order of their names."""
    tests = tree / "tests"
    rules: dict[str, list[ast.Call]] = {}
    for build in sorted(tests.rglob("BUILD")):
        for rule in _calls(build):
            for source in _strings(_argument(rule, "srcs")):
                path = build.parent / source
                if path.is_file():
                    rules.setdefault(path.relative_to(tests).as_posix(), []).append(rule)
    names = sorted(path.relative_to(tests).as_posix() for path in tests.rglob("*_test.py"))
    return [_describe(tests, name, rules.get(name, [])) for name in names]


def _describe(tests: Path, name: str, rules: list[ast.Call]) -> SuiteFile:
    reasons = [_why_excluded(rule) for rule in rules]
    if rules and all(reasons):
        return SuiteFile(name, excluded=reasons[0])
    requested = _DEVICES.findall((tests / name).read_text())
    result = SuiteFile(name, devices=max(map(int, requested), default=1))
    for rule, reason in zip(rules, reasons, strict=True):
        if not reason:
            result.flags = [x for x in _strings(_argument(rule, "args")) if x.startswith("--jax")]
            break
    return result


def _why_excluded(rule: ast.Call) -> str:
    kind = ast.unparse(rule.func)
    if kind == "jax_multiprocess_test":
        return "several processes"
    if kind not in _RULES:
        return f"rule {kind}"
    if "manual" in _strings(_argument(rule, "tags")):
        return "run by hand only"
    backends = _argument(rule, "enable_backends")
    if backends is not None and "cpu" not in _strings(backends):
        return f"for {' and '.join(_strings(backends)) or 'chosen accelerators'} only"
    return ""


def _calls(build: Path) -> Iterator[ast.Call]:
    for statement in ast.parse(build.read_text()).body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if ast.unparse(statement.value.func) not in ("filegroup", "sh_binary"):
                yield statement.value


def _argument(rule: ast.Call, name: str) -> ast.expr | None:
    """Return an argument; of `if_oss(a, b)` what holds outside of Google."""
    value = next((k.value for k in rule.keywords if k.arg == name), None)
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "if_oss":
        return value.args[0]
    return value


def _strings(value: ast.expr | None) -> list[str]:
    if value is None:
        return []
    constants = (node.value for node in ast.walk(value) if isinstance(node, ast.Constant))
    return [constant for constant in constants if isinstance(constant, str)]
