"""The benchmark's programs export, and the measuring works; nothing is said about times here."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo
from tests.harness.paths import ROOT
from tests.harness.processes import HANG_S

BENCH = ROOT / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def test_inputs_keep_their_types(bench: None, tmp_path: Path) -> None:
    import ml_dtypes

    measure = importlib.import_module("measure")
    given = [
        np.float32(1.5).reshape(()),
        np.arange(6, dtype=np.int8).reshape(2, 3).T,
        np.array([[1], [2]], ml_dtypes.bfloat16),
        np.zeros((0, 4)),
        np.array([True, False]),
    ]
    measure.save_inputs(str(tmp_path / "x.npz"), given)
    for got, want in zip(measure.load_inputs(str(tmp_path / "x.npz")), given, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_a_case_is_measured_on_both_sides() -> None:
    command = [sys.executable, str(BENCH / "run.py"), "tiny_add", "--seconds", "0.1"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert run.returncode == 0, run.stderr
    row = next(x for x in run.stdout.split("\n") if x.startswith("tiny_add")).split()
    assert len(row) == 14 and row[-1] in ("numpy", "onnxruntime")
    assert all(float(x.rstrip("%")) >= 0 for x in row[1:-1])
    assert "WRONG" not in run.stdout


def test_what_stands_outside_fusions_is_counted(bench: None) -> None:
    models = importlib.import_module("models")
    module = hlo.parse("""HloModule m
f {
  x = f32[4] parameter(0)
  y = f32[4] negate(x)
  ROOT z = f32[4] sine(y)
}
body {
  a = f32[4] parameter(0)
  ROOT b = f32[4] fusion(a), kind=kLoop, calls=f
}
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] call(a), to_apply=body
  ROOT c = f32[4] multiply(b, b)
}
""")
    want = models.Counts(instructions=8, outside=5, kernels=2, bytes=64, peak=48, operations=8)
    assert models.count(module) == want


@pytest.mark.parametrize("devices", [2, 8])
def test_programs_of_the_simulator_run_and_are_simulated(bench: None, devices: int) -> None:
    from hlo.analysis.simulation.machine import Machine
    from hlo.analysis.simulation.topology import Links

    scaling = importlib.import_module("scaling")
    for make in scaling.PROGRAMS.values():
        run = scaling.simulated(make(devices), devices, Machine(), Links())
        assert run.exact and run.waiting > 0
        assert all(c.count == scaling.ITERATIONS for c in run.collectives)
    took = scaling.measured(scaling.probes(devices), devices, 1)
    machine, links = scaling.peaks(devices, took)
    assert machine.flops > 0 and links.bandwidth > 0


def test_what_more_processors_gain_is_estimated(bench: None) -> None:
    cores = importlib.import_module("cores")
    kernel = cores.Kernel(seconds=1.0, bytes=1e6, calls=1, shares=(64, 1))
    # One step of two is divided; 64 shares are five rounds on 15 processors.
    assert kernel.on(16, 1e12) == pytest.approx(0.5 + 0.5 * 4 / 64, 1e-3)
    assert kernel.on(15, 1e12) == pytest.approx(0.5 + 0.5 * 5 / 64, 1e-3)
    # What is read and written takes its time whatever computes.
    assert kernel.on(64, 1.25e6) == pytest.approx(0.8, 1e-3)
    module = hlo.parse("""HloModule m ENTRY e {
      x = f32[512,512] parameter(0)
      y = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT z = f32[512,512] transpose(y), dimensions={1,0} }""")
    found, rest = cores.kernels(module, list(hlo.random_inputs(module)))
    assert rest > 0 and all(k.seconds > 0 for k in found)
    assert max(n for k in found for n in k.shares) > 8
