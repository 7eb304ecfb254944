"""Backends of other packages: found by their entry points, run by the commands and from Python."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import hlo
from tests.harness.paths import ROOT

PACKAGE = ROOT / "tests/plugins/numpy_machine"
EXAMPLES = sorted((ROOT / "examples").glob("*.hlo"))
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the package is installed: its wheel, unpacked."""
    work = tmp_path_factory.mktemp("package")
    shutil.copytree(PACKAGE, work / "source")
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(work)], cwd=work / "source", capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work / "site")
    return work / "site"


@pytest.fixture
def hlo_run(site: Path) -> Command:
    """Return what runs `hlo-run` where the package is installed."""
    return lambda *args: _hlo_run(site, *args)


def _hlo_run(site: Path, *args: str) -> subprocess.CompletedProcess[str]:
    program = "from hlo_tools.run.command import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, check=False,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the package installed in this process."""
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("hlo_numpy_machine", None)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_the_examples_run_on_a_machine_of_another_package(hlo_run: Command, example: Path) -> None:
    done = hlo_run(str(example), "--backend", "numpy", "--check")
    assert done.returncode == 0, done.stderr
    assert "results match the interpreter" in done.stderr


MODULES = {
    "a loop and a branch": """
      HloModule m
      even { x = (s32[], f32[3]) parameter(0) ROOT r = (s32[], f32[3]) copy(x) }
      odd { x = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(x), index=0
        v = f32[3] get-tuple-element(x), index=1 w = f32[3] negate(v) j = s32[] add(i, i)
        ROOT r = (s32[], f32[3]) tuple(j, w) }
      more { x = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(x), index=0
        n = s32[] constant(20) ROOT c = pred[] compare(i, n), direction=LT }
      step { x = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(x), index=0
        v = f32[3] get-tuple-element(x), index=1 one = s32[] constant(1) j = s32[] add(i, one)
        t = (s32[], f32[3]) tuple(j, v) two = s32[] constant(2) r = s32[] remainder(i, two)
        ROOT s = (s32[], f32[3]) conditional(r, t, t), branch_computations={even, odd} }
      ENTRY e { v = f32[3] parameter(0) i = s32[] parameter(1) t = (s32[], f32[3]) tuple(i, v)
        ROOT w = (s32[], f32[3]) while(t), condition=more, body=step }""",
    "what is updated in place, in a buffer of its argument": """
      HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
      ENTRY e { x = f32[4,4] parameter(0) u = f32[1,4] parameter(1) i = s32[] parameter(2)
        z = s32[] constant(0) ROOT y = f32[4,4] dynamic-update-slice(x, u, i, z) }""",
    "layouts with tiles and small elements": """
      HloModule m
      ENTRY e { x = s4[5,6]{0,1:E(4)} parameter(0) y = s4[5,6]{1,0:T(2,4)E(4)} negate(x)
        ROOT t = (s4[5,6]{1,0:T(2,4)E(4)}, s4[5,6]{0,1:E(4)}) tuple(y, x) }""",
    "an array of dynamic size": """
      HloModule m
      ENTRY e { x = f32[<=8] parameter(0) n = s32[] get-dimension-size(x), dimensions={0}
        y = f32[<=8] sine(x) ROOT t = (f32[<=8], s32[]) tuple(y, n) }""",
    "a sort of two arrays, and what is fused around it": """
      HloModule m
      less { a = s32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2)
        d = f32[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }
      ENTRY e { k = s32[9] parameter(0) v = f32[9] parameter(1) w = f32[9] exponential(v)
        s = (s32[9], f32[9]) sort(k, w), dimensions={0}, to_apply=less
        a = s32[9] get-tuple-element(s), index=0 b = f32[9] get-tuple-element(s), index=1
        c = f32[9] convert(a) ROOT r = f32[9] multiply(b, c) }""",
}  # fmt: skip


@pytest.mark.parametrize("what", MODULES)
@pytest.mark.usefixtures("installed")
def test_the_machine_does_what_was_planned(what: str) -> None:
    module = hlo.parse(MODULES[what])
    values = hlo.random_inputs(module, seed=1)
    run = hlo.compile(module, backend="numpy")
    wanted, found = hlo.interpret(module, *values), run(*values)
    for want, got in zip(_leaves(wanted), _leaves(found), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=1e-6)


def _leaves(value: object) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [np.asarray(value)]


@pytest.mark.usefixtures("installed")
def test_it_is_called_as_native_code_is() -> None:
    module = hlo.parse("HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] sqrt(x) }")
    run = hlo.compile(module, backend="numpy")
    assert repr(run) == "<LoadedModule m on numpy: (x: f32[2]) -> f32[2]>"
    assert run([4, 9]).tolist() == run(x=np.float32([4, 9])).tolist() == [2, 3]
    client = hlo.Client(device_count=2, backend="numpy")
    assert client.execute_and_transfer(module, [[1, 4]], device=1).array.tolist() == [1, 2]
    with pytest.raises(hlo.HloError, match="dimensions \\[3\\], f32\\[2\\] is needed"):
        run([1, 2, 3])


@pytest.mark.usefixtures("installed")
def test_a_run_on_it_ends_in_time() -> None:
    module = hlo.parse("""HloModule m
      more { n = s32[] parameter(0) z = s32[] constant(0)
        ROOT c = pred[] compare(n, z), direction=GE }
      step { n = s32[] parameter(0) ROOT m = s32[] abs(n) }
      ENTRY e { n = s32[] parameter(0) ROOT w = s32[] while(n), condition=more, body=step }""")
    with pytest.raises(hlo.HloError, match=r"\[timeout\]"):
        hlo.compile(module, backend="numpy")(3, timeout=0.2)


def test_devices_run_beside_each_other_on_it(hlo_run: Command, tmp_path: Path) -> None:
    file = tmp_path / "sum.hlo"
    file.write_text("""HloModule m, replica_count=2
      add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
      ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] all-reduce(x), to_apply=add }""")
    done = hlo_run(str(file), "--backend=numpy", "--input=x={1,2}", "--output=-")
    assert (done.returncode, done.stdout) == (0, "f32[2] {2, 4}\nf32[2] {2, 4}\n"), done.stderr


# --- what does not work -------------------------------------------------------------------------

MODULE = "HloModule m ENTRY e { ROOT x = f32[2] iota(), iota_dimension=0 }"


def test_names_that_are_unknown(hlo_run: Command, site: Path) -> None:
    done = hlo_run("examples/stages.hlo", "--backend=numpi")
    assert done.returncode == 2
    known = "compiled, reference, gpu, gpu-emulated, numpy"
    assert f"'numpi' is not a backend; one of {known}" in done.stderr
    with pytest.raises(hlo.HloError, match=r"'tpu' is not a backend \[bad-value\]"):
        hlo.compile(hlo.parse(MODULE), backend="tpu")


@pytest.mark.parametrize("option", [{"threads": 2}, {"features": "-avx2"}])
def test_options_of_native_code_are_errors_elsewhere(option: dict[str, object]) -> None:
    module = hlo.parse("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }")
    with pytest.raises(hlo.HloError, match="is for native code") as error:
        hlo.compile(module, backend="reference", **option)  # type: ignore[call-overload]
    assert error.value.code == "bad-value"


def _register(site: Path, package: str, entry: str, content: str) -> None:
    """Install a package of one file that registers an entry point."""
    info = site / f"{package}-2.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(f"[hlo.targets]\n{entry}\n")
    (site / f"{package}.py").write_text(content)


BROKEN = {
    "fails to import": (
        "import nowhere",
        "broken.py:1: ModuleNotFoundError: No module named 'nowhere'",
    ),
    "has no such part": ("Other = 1", "AttributeError: "),
    "is no backend": ("Mine = dict", "broken:Mine is neither an hlo.compiler.backends.Backend"),
    "lacks methods": (
        "from hlo.compiler.backends import PlannedBackend\nclass Mine(PlannedBackend): pass",
        "TypeError: Can't instantiate abstract class Mine",
    ),
    "fails to load a module": (
        "from hlo.compiler.backends import Backend\n"
        "class Mine(Backend):\n  def load(self, *_): return 1 / 0",
        "broken.py:3: ZeroDivisionError: division by zero",
    ),
    "loads something else": (
        "from hlo.compiler.backends import Backend\n"
        "class Mine(Backend):\n  def load(self, *_): return 1",
        "load does not return an hlo.compiler.backends.Loaded",
    ),
    "fails to run": (
        "from hlo.compiler.backends import Backend, Loaded\n"
        "class Mine(Backend):\n  def load(self, *_): return Loaded(lambda host: lambda *_: {}[3])",
        "broken.py:3: KeyError: 3",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_package_that_does_not_work_is_named(tmp_path: Path, how: str) -> None:
    content, message = BROKEN[how]
    _register(tmp_path, "broken", "mine = broken:Mine", content)
    (tmp_path / "m.hlo").write_text(MODULE)
    done = _hlo_run(tmp_path, str(tmp_path / "m.hlo"), "--backend=mine")
    assert done.returncode == 1
    assert done.stderr.startswith("error: backend 'mine' of broken 2.5: "), done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.endswith("[bad-backend]\n")


def test_two_packages_with_one_name(tmp_path: Path) -> None:
    for package in ("one", "two"):
        _register(tmp_path, package, f"mine = {package}:Mine", "")
    (tmp_path / "m.hlo").write_text(MODULE)
    done = _hlo_run(tmp_path, str(tmp_path / "m.hlo"), "--backend=mine")
    assert done.returncode == 1
    assert "registered by one 2.5 and by two 2.5 [bad-backend]" in done.stderr


def test_packages_are_looked_for_only_by_names_that_are_not_built_in() -> None:
    """Searching all packages for entry points takes as long as all else that a command does."""
    program = (
        "import importlib.metadata as m, sys\n"
        "def asked(**_): raise SystemExit('asked')\n"
        "m.entry_points = asked\n"
        "from hlo_tools.run.command import main; main()"
    )
    for name in ("compiled", "reference"):
        done = subprocess.run(
            [sys.executable, "-c", program, "examples/stages.hlo", f"--backend={name}"], cwd=ROOT,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
