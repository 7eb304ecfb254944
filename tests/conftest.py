"""Collects `tests/filetests/**/*.hlo`: text in, expectations in comments, many cases a file.

Cases are separated by `// -----` lines. Each is parsed and verified. A case without ERROR lines has
to be valid and to survive printing and parsing unchanged. The directives, anywhere in a comment:

    // ERROR: 12: bad-dimension: names dimension 5
        This line has an error of that code at that column whose message holds those words. Write
        `ERROR@+1:` or `ERROR@-2:` for another line. All errors have to be listed, and no others.
    // VERIFY: layout_sensitive allow_mixed_precision
        Set these fields of VerifyOptions; `no-` in front clears one.
    // EVAL: main({1,2}, 3) == {3,4}
        The interpreter gives that value, to the bit, on those literals. `main` is the entry; any
        other name is that computation. `~=` instead allows a few units in the last place. `raises
        CODE` instead of a value expects an error.
    // RUN: hlo-opt --flag
    // CHECK: words            (and CHECK-NEXT, CHECK-NOT, CHECK-DAG, CHECK-LABEL, CHECK-SAME)
        The command, run in process on this case as its standard input, prints what FileCheck's
        rules ask for. Without RUN it is `hlo-opt`. Write `CHECK{LITERAL}:` where a line has `{{`.
        With `--passes=`, the passes have to keep what the module computes, leave it valid, and
        find nothing more to do in a second run; `// AGAIN: changes` in a case allows the last.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.oracle import assert_same, leaves
from tests.harness.processes import adopt_orphans, kill_leftovers

_SPLIT = re.compile(r"^//\s*-{5,}\s*$")
_ERROR = re.compile(r"//\s*ERROR(?:@([+-]\d+))?:\s*(\d+):\s*([a-z0-9-]+):\s*(.*?)\s*$")
_EVAL = re.compile(r"//\s*EVAL:\s*([\w.-]+)\((.*)\)\s*(==|~=|raises)\s*(.*?)\s*$")
_RUN = re.compile(r"//\s*RUN:\s*(.*?)\s*$")
_VERIFY = re.compile(r"//\s*VERIFY:\s*(.*?)\s*$")
_PASSES = re.compile(r"--passes[= ]")
_AGAIN = re.compile(r"//\s*AGAIN:\s*changes\s*$")
_CHECK = re.compile(r"//\s*CHECK(-[A-Z0-9-]+)?(\{LITERAL\})?:")
_DIRECTIVE = re.compile(r".*//\s*(ERROR\S*|EVAL|RUN|VERIFY|AGAIN|CHECK\S*)\s*:")
_COMMENT = re.compile(r"//\s*(\w.*)")


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep compiled programs of tests out of the user's cache, and those out of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def pytest_configure() -> None:
    adopt_orphans()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Fail where the tests of a file leave a process running."""
    if nextitem is None or nextitem.path != item.path:
        leftovers = kill_leftovers()
        assert not leftovers, f"{item.path} leaves processes running: {leftovers}"


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.File | None:
    """Take every .hlo file under `filetests` as a test file."""
    if file_path.suffix == ".hlo" and "filetests" in file_path.parts:
        return HloFile.from_parent(parent, path=file_path)
    return None


class HloFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[HloCase]:
        start, lines = 1, []
        for number, line in enumerate(self.path.read_text().split("\n"), 1):
            if _SPLIT.match(line):
                yield self._case(start, lines)
                start, lines = number + 1, []
            else:
                lines.append(line)
        yield self._case(start, lines)

    def _case(self, start: int, lines: list[str]) -> HloCase:
        comments = (m[1] for x in lines if not _DIRECTIVE.match(x) and (m := _COMMENT.match(x)))
        name = "-".join([str(start), *itertools.islice(comments, 1)])
        return HloCase.from_parent(self, name=name[:60], start=start, lines=lines)


@dataclass(frozen=True)
class Expected:
    """An error that a case has to have."""

    line: int
    column: int
    code: str
    words: str

    def matches(self, diagnostic: Any) -> bool:
        if diagnostic.span is None or diagnostic.code != self.code:
            return False
        at = diagnostic.span.source.line_column(diagnostic.span.start)
        return at == (self.line, self.column) and self.words in diagnostic.message


class CaseFailure(Exception):
    """What a case found wrong; shown without a traceback."""


class HloCase(pytest.Item):
    """One case."""

    def __init__(self, *, start: int, lines: list[str], **rest: Any) -> None:
        super().__init__(**rest)
        self.start = start
        self.lines = lines
        # Blank lines in front keep the line numbers of the file.
        self.text = "\n" * (start - 1) + "\n".join(lines)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.start - 1, f"{self.path.name}:{self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, CaseFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def runtest(self) -> None:
        from hlo.errors import HloError
        from hlo.frontends.text import parse

        self._reject_misspelt_directives()
        expected = self._expected_errors()
        module = None
        try:
            module = parse(self.text, str(self.path))
            found = self._diagnose(module)
        except HloError as e:
            found = list(e.diagnostics)
        self._compare_errors(found, expected)
        if module is None or expected:
            return
        text = str(module)
        if str(parse(text)) != text:
            raise CaseFailure(f"printing and parsing changes the module:\n{text}")
        self._run_evals(module)
        if any(_CHECK.search(line) for line in self.lines):
            self._run_checks()

    # --- errors ---------------------------------------------------------------------------------

    def _reject_misspelt_directives(self) -> None:
        for offset, line in enumerate(self.lines):
            m = _DIRECTIVE.match(line)
            if m and not any(
                p.search(line) for p in (_ERROR, _EVAL, _RUN, _VERIFY, _AGAIN, _CHECK)
            ):
                raise CaseFailure(f"{self.path}:{self.start + offset}: cannot read {m[0]}")

    def _expected_errors(self) -> list[Expected]:
        return [
            Expected(self.start + i + int(m[1] or 0), int(m[2]), m[3], m[4])
            for i, line in enumerate(self.lines)
            if (m := _ERROR.search(line))
        ]

    def _diagnose(self, module: Any) -> list[Any]:
        from hlo.verifier import VerifyOptions, diagnose

        words = [w for line in self.lines if (m := _VERIFY.search(line)) for w in m[1].split()]
        options = {w.removeprefix("no-"): not w.startswith("no-") for w in words}
        return diagnose(module, VerifyOptions(**options))

    def _compare_errors(self, found: list[Any], expected: list[Expected]) -> None:
        unmet = list(expected)
        extra = []
        for diagnostic in found:
            hit = next((e for e in unmet if e.matches(diagnostic)), None)
            if hit is None:
                extra.append(diagnostic)
            else:
                unmet.remove(hit)
        if extra or unmet:
            parts = [f"unexpected:\n{d.render()}" for d in extra]
            parts += [
                f"missing: {self.path}:{e.line}:{e.column}: {e.words} [{e.code}]" for e in unmet
            ]
            raise CaseFailure("\n".join(parts))

    # --- values ---------------------------------------------------------------------------------

    def _run_evals(self, module: Any) -> None:
        from hlo.errors import HloError
        from hlo.eval import Interpreter
        from hlo.values.literal import read_literal

        for offset, line in enumerate(self.lines):
            m = _EVAL.search(line)
            if m is None:
                continue
            where = f"{self.path}:{self.start + offset}"
            name, args, relation, want = m.groups()
            comp = module.entry if name == "main" else module.get(name)
            if comp is None:
                raise CaseFailure(f"{where}: there is no computation {name}")
            literals = _split_arguments(args)
            if len(literals) != len(comp.parameters):
                raise CaseFailure(
                    f"{where}: {len(literals)} arguments for {len(comp.parameters)} parameters"
                )
            values = [
                read_literal(a, s).value
                for a, s in zip(literals, comp.parameter_shapes, strict=True)
            ]
            try:
                got = Interpreter().call(comp, values)
            except HloError as e:
                if relation != "raises" or e.code != want:
                    raise CaseFailure(f"{where}: {e}") from None
                continue
            if relation == "raises":
                raise CaseFailure(f"{where}: no error {want}, the result is {got}")
            wanted = read_literal(want, comp.result_shape).value
            exact = {"ulps": 0.0, "signed_zero": True} if relation == "==" else {}
            try:
                assert_same(got, wanted, **exact)
            except AssertionError as e:
                raise CaseFailure(f"{where}: {e}\ngot {leaves(got)}") from None

    # --- printed text ---------------------------------------------------------------------------

    def _run_checks(self) -> None:
        runs = [m[1] for line in self.lines if (m := _RUN.search(line))] or ["hlo-opt"]
        for command in runs:
            if _PASSES.search(command):
                self._run_passes(command)
            status, printed, errors = _run_command(command, self.text)
            if status:
                raise CaseFailure(f"{command}: exit status {status}\n{errors}")
            report = _file_check(self.path, self.text, printed)
            if report:
                raise CaseFailure(f"{command}:\n{report}\nprinted:\n{printed}")

    # --- passes ---------------------------------------------------------------------------------

    def _run_passes(self, command: str) -> None:
        """Fail unless the passes of a command keep results, validity, and reach a fixed point."""
        from hlo.frontends.text import parse
        from hlo.passes import parse_pipeline, run_pipeline
        from hlo.passes.observers import VerifyEach
        from hlo.passes.validate import Validate
        from hlo.verifier import verify

        words = shlex.split(_PASSES.sub("--passes=", command))
        passes = next(w for w in words if w.startswith("--passes=")).removeprefix("--passes=")
        pipeline = parse_pipeline(passes)
        module = parse(self.text, str(self.path))
        run_pipeline(module, pipeline, [VerifyEach(verify), Validate(module)])
        text = str(module)
        if str(parse(text)) != text:
            raise CaseFailure(f"printing and parsing changes the module:\n{text}")
        again = [run for run in run_pipeline(module, pipeline) if run.changed]
        if again and not any(_AGAIN.search(line) for line in self.lines):
            changes = [f"{run.step}: {rewrite}" for run in again for rewrite in run.rewrites]
            raise CaseFailure("a second run changes the module:\n" + "\n".join(changes))


def _split_arguments(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "({") - (c in ")}")
        if c == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in (*parts, text[start:])] if text.strip() else []


def _run_command(command: str, text: str) -> tuple[int, str, str]:
    import hlo_tools.opt.command
    import hlo_tools.run.command
    from click.testing import CliRunner

    name, *flags = shlex.split(command)
    tool = {"hlo-opt": hlo_tools.opt.command.main, "hlo-run": hlo_tools.run.command.main}[name]
    result = CliRunner().invoke(tool, ["-", *flags], input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def _file_check(path: Path, expectations: str, printed: str) -> str:
    """Return FileCheck's report, empty when all expectations are met."""
    from filecheck.finput import FInput
    from filecheck.matcher import Matcher
    from filecheck.options import Options
    from filecheck.parser import Parser, pattern_for_opts

    options = Options(str(path), comment_prefixes=["COM"])
    report = io.StringIO()
    checks = Parser(options, io.StringIO(expectations), *pattern_for_opts(options))
    with contextlib.redirect_stderr(report):
        status = Matcher(options, FInput("printed", printed), checks).run()
    return report.getvalue() or f"FileCheck's status is {status}" if status else ""
