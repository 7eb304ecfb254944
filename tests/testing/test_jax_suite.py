"""The runner of JAX's own tests, on a made checkout whose tests do all that a test can do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.sweeps.jax_suite.__main__ import main
from tests.sweeps.jax_suite.compare import compare, read_results, summary
from tests.sweeps.jax_suite.files import SuiteFile, find_files
from tests.sweeps.jax_suite.runner import Limits, Outcome, Runner
from tests.sweeps.jax_suite.sample import chunks, draw

TESTS = """
import os, signal, sys, time, unittest

class Outcomes(unittest.TestCase):
    def test_a_passes(self):
        pass
    def test_b_fails(self):
        self.assertEqual(1, 2)
    def test_c_raises(self):
        raise ValueError("bad value")
    def test_d_is_skipped(self):
        self.skipTest("no such device")
    def test_e_fails_in_part(self):
        with self.subTest("one"):
            self.fail("one is bad")
    def test_f_crashes(self):
        print("just before", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGSEGV)
    def test_g_hangs(self):
        time.sleep(60)
    def test_h_exits(self):
        os._exit(3)
    @unittest.expectedFailure
    def test_i_passes(self):
        self.fail()
    def test_j_has_the_flags(self):
        self.assertEqual(sys.argv, ["many_test.py", "--jax_bits=7"])
    def test_k_sees_its_devices(self):
        self.assertEqual(os.environ["HLO_PJRT_DEVICES"], "8")

setattr(Outcomes, "test_l_has_[1\\n 2]", lambda self: None)

class NotSetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise ValueError("no set-up")
    def test(self):
        pass
"""
REQUEST = "\njtu.request_cpu_devices(8)\n"
BUILD = """
jax_multiplatform_test(name = "a", srcs = ["many_test.py"], args = ["--jax_bits=7", "--other"])
jax_multiplatform_test(name = "b", srcs = ["gpu_test.py"], enable_backends = ["gpu", "tpu"])
jax_multiplatform_test(name = "c", srcs = ["oss_test.py"], enable_backends = if_oss(["cpu"], None))
jax_multiplatform_test(name = "d", srcs = ["oss_test.py"], enable_backends = ["gpu"])
jax_multiplatform_test(name = "e", srcs = ["none_test.py"], enable_backends = [])
jax_multiprocess_test(name = "f", srcs = ["processes_test.py"])
jax_py_test(name = "g", srcs = ["manual_test.py"], tags = ["manual"])
filegroup(name = "h", srcs = glob(["*_test.py"]))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tests = tmp_path / "jax" / "tests"
    (tests / "sub").mkdir(parents=True)
    for name in ("gpu", "oss", "none", "processes", "manual", "sub/free"):
        (tests / f"{name}_test.py").write_text("")
    (tests / "many_test.py").write_text(TESTS + "if 0:" + REQUEST.replace("jtu", "  jtu"))
    (tests / "BUILD").write_text(BUILD)
    return tests.parent


@pytest.fixture
def runner(tree: Path, tmp_path: Path) -> Runner:
    return Runner(sys.executable, tree, {}, Limits(2.0, 2**30), tmp_path)


def _many(tree: Path) -> SuiteFile:
    return next(file for file in find_files(tree) if file.name == "many_test.py")


def test_files_by_the_rules_of_the_build(tree: Path) -> None:
    assert {file.name: file.excluded for file in find_files(tree)} == {
        "gpu_test.py": "for gpu and tpu only",
        "manual_test.py": "run by hand only",
        "many_test.py": "",
        "none_test.py": "for chosen accelerators only",
        "oss_test.py": "",
        "processes_test.py": "several processes",
        "sub/free_test.py": "",
    }
    assert (_many(tree).flags, _many(tree).devices) == (["--jax_bits=7"], 8)


def test_every_outcome(tree: Path, runner: Runner) -> None:
    file = _many(tree)
    ids = runner.collect(file)
    results = {
        x.id.rpartition("test")[2]: x for x in runner.run(file, [*ids, "many_test.py::X::y"])
    }
    got = {name: (x.outcome, x.reason.partition(" File")[0]) for name, x in results.items()}
    assert got == {
        "": ("error", "ValueError: no set-up"),
        "_a_passes": ("passed", ""),
        "_b_fails": ("failed", "AssertionError: 1 != 2"),
        "_c_raises": ("error", "ValueError: bad value"),
        "_d_is_skipped": ("skipped", "no such device"),
        "_e_fails_in_part": ("failed", "AssertionError: one is bad"),
        "_f_crashes": ("crash", "SIGSEGV Fatal Python error: Segmentation fault"),
        "_g_hangs": ("timeout", "timeout Fatal Python error: Aborted"),
        "_h_exits": ("error", "exit status 3: "),
        "_i_passes": ("passed", ""),
        "_j_has_the_flags": ("passed", ""),
        "_k_sees_its_devices": ("passed", ""),
        "_l_has_[1\n 2]": ("passed", ""),
        ".py::X::y": ("error", "no such test on this platform"),
    }
    assert "just before" in results["_f_crashes"].details
    assert "in test_g_hangs" in results["_g_hangs"].details


def test_a_file_that_cannot_be_loaded(tree: Path, runner: Runner) -> None:
    (tree / "tests" / "bad_test.py").write_text("import no_such_module\n")
    file = SuiteFile("bad_test.py")
    with pytest.raises(RuntimeError, match=r"bad_test\.py: exit status 1: ModuleNotFoundError"):
        runner.collect(file)
    outcomes = [x.outcome for x in runner.run(file, ["bad_test.py::A::a", "bad_test.py::A::b"])]
    assert outcomes == ["error", "error"]


def test_memory_and_unclean_exits(tree: Path, runner: Runner) -> None:
    (tree / "tests" / "big_test.py").write_text(
        "import atexit, os, time, unittest\n"
        "class T(unittest.TestCase):\n"
        "  def test_a(self):\n    atexit.register(os.abort)\n"
        "  def test_b(self):\n    x = bytearray(b'1' * 2**28); time.sleep(60)\n"
    )
    file = SuiteFile("big_test.py")
    runner.limits.bytes = 2**27
    results = list(runner.run(file, ["big_test.py::T::test_b", "big_test.py::T::test_a"]))
    assert [(x.id, x.outcome) for x in results] == [
        ("big_test.py::T::test_b", "memory"),
        ("big_test.py::T::test_a", "passed"),
        ("big_test.py::exit", "crash"),
    ]


def test_a_larger_sample_contains_a_smaller_one() -> None:
    tests = {f: [f"{f}::T::t{i}" for i in range(n)] for f, n in (("a", 400), ("b", 4), ("c", 100))}
    small, large = draw(tests, 40, 1), draw(tests, 80, 1)
    assert set(small) < set(large)
    assert small != draw(tests, 40, 2)
    # Roots: 20, 2 and 10.
    assert [sum(x[0] == f for x in small) for f in "abc"] == [25, 3, 12]
    assert len(draw(tests, 10000, 1)) == 504
    lists = chunks(large, 10, 0)
    assert sorted(id_ for ids in lists for id_ in ids) == sorted(large)
    assert all(len({x[0] for x in ids}) == 1 and len(ids) <= 10 for ids in lists)


def test_results_are_continued_and_compared(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "version", lambda self: "1.2.3")
    (tree / "jax").mkdir()
    (tree / "jax" / "version.py").write_text('_version = "1.2.4"\n')
    results = tmp_path / "r.jsonl"
    (tree / "tests" / "small_test.py").write_text(
        "import unittest\n"
        "class T(unittest.TestCase):\n"
        "  def test_a(self): pass\n  def test_b(self): pass\n  def test_c(self): self.fail()\n"
    )
    options = [str(tree), "--results", str(results), "--files", "small*"]
    assert main([*options, "--count", "2"]) == 0
    assert "tests of jax 1.2.4, but jax 1.2.3 is installed" in capsys.readouterr().err
    assert main(options) == 0
    assert "3 tests, of these 2 are done" in capsys.readouterr().out
    assert main([*options, "--rerun"]) == 0
    assert "3 tests, of these 2 are done" in capsys.readouterr().out
    assert summary(read_results(results)) == "3 tests: 2 passed, 1 failed"


def test_comparison() -> None:
    def results(*outcomes: str) -> dict[str, Outcome]:
        names = "abcdef"
        return {x: Outcome(x, y, 0.0, f"{x} is {y}") for x, y in zip(names, outcomes, strict=False)}

    base = results("passed", "passed", "passed", "failed", "skipped")
    other = results("passed", "crash", "skipped", "passed", "passed", "failed")
    other["m_test.py::exit"] = Outcome("m_test.py::exit", "crash", 0.0, "SIGSEGV")
    assert compare(base, other).splitlines() == [
        "5 tests in both; of 3 that pass in the first, in the second 1 pass, 1 do not, "
        "1 are skipped: 50.00 % of those that ran",
        "",
        "pass only in the first: 1",
        "  b",
        "    crash: b is crash",
        "",
        "skipped only in the second: 1",
        "  c",
        "    skipped: c is skipped",
        "",
        "pass only in the second; in the first: 1",
        "  d",
        "    failed: d is failed",
        "",
        "processes that end uncleanly only in the second: 1",
        "  m_test.py::exit",
        "    crash: SIGSEGV",
    ]
    assert summary(other) == "6 tests: 3 passed, 1 crash, 1 skipped, 1 failed, 1 unclean exits"
