"""`make gpu-check`: without a device, and on the stub driver."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from hlo.errors import HloError
from tests.gpu import check
from tests.gpu.check import Cases, report
from tests.gpu.stub_driver.library import build_driver, environment


def on_stub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that start from now on find the stub driver."""
    for name, value in environment(build_driver(folder)).items():
        monkeypatch.setenv(name, value)


def need_bindings() -> None:
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        pytest.skip("cuda-bindings is not installed")


@pytest.mark.parametrize(("options", "status"), [([], 0), (["--require-device"], 2)])
def test_without_a_device_it_says_so(
    options: list[str], status: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def no_machine(name: str) -> None:
        raise HloError.at("no-device", "there is no CUDA driver")

    monkeypatch.setattr(check, "machine_of", no_machine)
    assert check.main(options) == status
    shown = capsys.readouterr().out
    assert shown.startswith("there is no GPU to check, and nothing was checked\nerror:")
    assert "[no-device]" in shown


def test_cases_run_on_a_device_and_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_bindings()
    on_stub(tmp_path, monkeypatch)
    monkeypatch.setattr(check, "about", lambda backend: {"device": "stub", "cpu": "sm_90"})
    assert check.main(["--only=example while", f"--report={tmp_path}"]) == 0
    shown = capsys.readouterr().out
    assert "0 failed" in shown
    assert (tmp_path / "report.txt").read_text() in shown
    results = json.loads((tmp_path / "report.json").read_text())["results"]
    assert results
    assert all(r["name"].startswith("example while") and r["compile_s"] > 0 for r in results)


def test_a_device_that_is_lost_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bindings()
    on_stub(tmp_path, monkeypatch)
    monkeypatch.setenv("HLO_STUB_FAIL", "cuLaunchKernel:2:700")
    cases = Cases("gpu")
    first, second = (cases.run("example add 0") for _ in range(2))
    cases.close()
    # Each process fails at its second launch.
    assert first["code"] == "device-failed"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first["failed"]
    assert second["code"] == "device-failed"
    text = report({"device": "stub", "cpu": "sm_90"}, [first, second], 1.0)
    assert "example: 2, 2 failed" in text
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text


def test_a_process_that_ends_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = Cases("gpu-emulated")
    assert "failed" not in cases.run("example add 0")
    process = cases._process
    assert process is not None
    process.kill()
    process.wait()
    assert cases.run("example add 0")["code"] == "no-result"
    assert "failed" not in cases.run("example add 0")
    cases.close()


def test_times_are_listed_the_slowest_beside_xla_first() -> None:
    common = {"kernels_s": 1e-3, "launches": 3, "compile_s": 2.0}
    results = [
        {"name": "suite fast", "run_s": 1e-3, "xla_s": 2e-3, **common},
        {"name": "suite slow", "run_s": 3e-3, "xla_s": 2e-3, **common},
        {"name": "suite alone", "run_s": 1e-3, "xla_failed": "no such thing", **common},
    ]
    text = report({"device": "GPU", "cpu": "sm_90"}, results, 5.0)
    assert text.index("slow") < text.index("fast") < text.index("alone")
    assert "faster than XLA:GPU in 1 of 2" in text
