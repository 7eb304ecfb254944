"""Runs tests of one of JAX's test files; a program of its own.

It imports nothing of this project but for HLO_JAX_TRANSFORM, see `_transform`.

    python worker.py TREE FILE [--jax_FLAG=VALUE ...] < IDS

IDS is a JSON array, as the name of a test may have several lines. Without it (an empty standard
input) the worker lists the tests of the file. Each line that it writes to the file descriptor of
JAX_SUITE_CHANNEL is a JSON array: ["start", id], ["end", id, outcome, seconds, reason, details], or
["test", id] in a list.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.abc
import importlib.machinery
import importlib.resources
import json
import os
import sys
import time
import traceback
import unittest
from collections.abc import Iterator
from typing import Any

_DETAILS = 4000


def _say(*words: Any) -> None:
    line = json.dumps(words) + "\n"
    os.write(int(os.environ["JAX_SUITE_CHANNEL"]), line.encode())


class Result(unittest.TestResult):
    """Reports each test as it starts and ends; the first problem of a test is its outcome."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self._names = names
        self._problem: tuple[str, str, str] | None = None
        self._started = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._problem = None
        self._started = time.monotonic()
        _say("start", self._names[test.id()])

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        seconds = round(time.monotonic() - self._started, 3)
        outcome, reason, details = self._problem or ("passed", "", "")
        _say("end", self._names[test.id()], outcome, seconds, reason, details)

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self._note(test, "failed", err)

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self._note(test, "error", err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._note(test, "failed" if failed else "error", err)

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        if test.id() in self._names:
            self._problem = self._problem or ("skipped", reason, "")
        else:
            self._all_of(test, "skipped", reason, "")

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        self._problem = self._problem or ("failed", "passes, where a failure is expected", "")

    def _note(self, test: Any, outcome: str, err: Any) -> None:
        lines = traceback.format_exception(*err)
        reason = "".join(traceback.format_exception_only(err[0], err[1])).strip()
        details = "".join(lines)[-_DETAILS:]
        if test.id() not in self._names:  # setUpClass or setUpModule: none of its tests run
            self._all_of(test, outcome, reason, details)
        elif self._problem is None or self._problem[0] == "skipped":
            self._problem = (outcome, reason, details)

    def _all_of(self, test: Any, outcome: str, reason: str, details: str) -> None:
        """Report all tests of a class, or of the module, whose set-up failed or skips."""
        where = test.id().partition("(")[2].rstrip(")")
        ids = [id_ for name, id_ in self._names.items() if name.startswith(where + ".")]
        if test.id().startswith("tearDown"):
            ids = [f"{ids[0].partition('::')[0]}::{test.id()}"]
        for id_ in ids:
            _say("end", id_, outcome, 0.0, reason, details)


class _OnlyInTree(importlib.abc.MetaPathFinder):
    """Finds what JAX's tests import of JAX and its wheel has not, such as their own utilities."""

    def __init__(self, tree: str) -> None:
        self._tree = tree

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.startswith("jax."):
            folder = os.path.join(self._tree, *name.split(".")[:-1])
            return importlib.machinery.PathFinder.find_spec(name, [folder], target)
        return None


def _flatten(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flatten(test)
        else:
            yield test


def _load(tree: str, file: str) -> dict[str, unittest.TestCase]:
    """Return the tests of a file, by ids of pytest's form."""
    path = os.path.join(tree, "tests", file)
    os.chdir(tree)
    sys.meta_path.append(_OnlyInTree(tree))  # after those that find the installed JAX
    sys.path[0] = os.path.dirname(path)  # instead of this script's folder
    module = importlib.import_module(os.path.basename(path).removesuffix(".py"))
    if "absl.flags" in sys.modules and not (flags := sys.modules["absl.flags"].FLAGS).is_parsed():
        flags(sys.argv[:1])
    tests = list(_flatten(unittest.defaultTestLoader.loadTestsFromModule(module)))
    return {f"{file}::{type(x).__qualname__}::{x._testMethodName}": x for x in tests}


def _transform(name: str) -> None:
    """Have XLA run something on each module that it compiles.

    `identity` reads the module and changes nothing; `rewrite` writes what was read; `same-bytes` is
    XLA's own share of that: it builds the module again from its own bytes. Else it is a pipeline.
    """
    if name in ("rewrite", "same-bytes"):
        import jax.extend.xla as xla

        import hlo

        def rewrite(data: bytes) -> bytes:
            return hlo.to_proto(hlo.from_proto(data)) if name == "rewrite" else data

        for stage in xla.PipelineStage:
            xla.register_hlo_module_transformation(rewrite, name=name, stage=stage, platforms="cpu")
        return
    import hlo.jax

    for stage in ("pre-scheduler", "post-scheduler"):
        passes = (lambda module: None) if name == "identity" else name
        hlo.jax.transform(passes, stage=stage, platforms="cpu")


def main() -> None:
    faulthandler.enable()
    os.set_inheritable(int(os.environ["JAX_SUITE_CHANNEL"]), False)
    tree, file, *flags = sys.argv[1:]
    tree = os.path.abspath(tree)
    sys.argv[:] = [file, *flags]
    wanted = json.loads(sys.stdin.read() or "[]")
    tests = _load(tree, file)
    if not wanted:
        for id_ in tests:
            _say("test", id_)
        return
    for id_ in wanted:
        if id_ not in tests:
            _say("end", id_, "error", 0.0, "no such test on this platform", "")
    names = {tests[id_].id(): id_ for id_ in wanted if id_ in tests}
    if "HLO_JAX_TRANSFORM" in os.environ:
        _transform(os.environ["HLO_JAX_TRANSFORM"])
    suite = unittest.TestSuite(tests[id_] for id_ in wanted if id_ in tests)
    suite.run(Result(names))


if __name__ == "__main__":
    main()
