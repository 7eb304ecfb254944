"""Check a GPU: `make gpu-check`, or python -m tests.gpu.check.

    python -m tests.gpu.check [--count 1000] [--models FOLDER] [--only PREFIX] [--require-device]
        [--report FOLDER] [--backend gpu]

Runs the op table's examples, generated modules, models and the programs of the benchmark on the
GPU, and compares with the interpreter, large ones with native code. Each runs three times, for the
same bits. What it leaves in the device's memory is counted. Models and programs of the benchmark
are timed: from call to result on data of the device, in turns with XLA:GPU where jax has that, and
their kernels alone by events. All goes to report.json and report.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hlo.compiler.backends import machine_of
from hlo.errors import HloError
from tests.gpu.check_worker import names
from tests.harness.paths import ROOT

# After so many seconds a case counts as one that does not end.
_TIMEOUT_S = {"example": 60.0, "generated": 120.0, "model": 600.0, "suite": 300.0}
# The worker starts in so many.
_START_S = 60.0


class Cases:
    """Runs cases in a process of their own, which is replaced when it fails."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._process: subprocess.Popen[str] | None = None

    def run(self, name: str) -> dict[str, Any]:
        """Return what was found for a case."""
        process = self._process
        patience = _TIMEOUT_S[name.partition(" ")[0]]
        if process is None:
            command = [sys.executable, "-m", "tests.gpu.check_worker", self._backend]
            # XLA would take most of the device's memory when it starts.
            env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
            process = self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env
            )
            patience += _START_S
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(name + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], patience)
            line = process.stdout.readline() if ready else ""
        except BrokenPipeError:
            ready, line = [process.stdout], ""
        if not line:
            said = "the process ended" if ready else f"no result in {patience:g} s"
            self.close()
            return {"name": name, "failed": said, "code": "no-result"}
        found: dict[str, Any] = json.loads(line)
        if found.get("code") == "device-failed":
            self.close()  # it has lost the device
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def about(backend: str) -> dict[str, Any]:
    """Return what is known of the device. Raises HloError, code `no-device`, without one."""
    machine = machine_of(backend)
    assert machine is not None
    properties = getattr(machine.device, "properties", None)
    return {
        "backend": backend, "cpu": machine.cpu,
        "device": properties.name if properties is not None else "the SIMT machine",
        "memory_bytes": properties.memory_bytes if properties is not None else 0,
    }  # fmt: skip


def report(device: dict[str, Any], results: list[dict[str, Any]], seconds: float) -> str:
    """Return the results as text."""
    lines = [f"{device['device']} ({device['cpu']}), {len(results)} cases in {seconds:.0f} s", ""]
    total, failed = Counter[str](), Counter[str]()
    for result in results:
        kind = result["name"].partition(" ")[0]
        total[kind] += 1
        failed[kind] += "failed" in result
    lines += [f"{kind}: {total[kind]}, {failed[kind]} failed" for kind in total]
    wrong = [r for r in results if "failed" in r]
    lines += ["", *(f"{r['name']}: {r['failed']} [{r['code']}]" for r in wrong)]
    lines += [f"{r['name']}: not run, {r['skipped']}" for r in results if "skipped" in r]
    timed = [r for r in results if "run_s" in r]
    if timed:
        lines += [
            "",
            _row("run", "kernels", "launches", "XLA", "ours/XLA", "differs", "compile", "name"),
        ]
        timed.sort(key=lambda r: -r["run_s"] / r.get("xla_s", 1e9))
        lines += map(_timed, timed)
        ratios = [r["run_s"] / r["xla_s"] for r in timed if "xla_s" in r]
        if ratios:
            faster = sum(ratio < 1 for ratio in ratios)
            lines += ["", f"faster than XLA:GPU in {faster} of {len(ratios)}"]
    return "\n".join(lines) + "\n"


def _timed(result: dict[str, Any]) -> str:
    xla = result.get("xla_s")
    return _row(
        _ms(result["run_s"]), _ms(result["kernels_s"]), str(result["launches"]),
        result.get("xla_failed", "")[:9] if xla is None else _ms(xla),
        "" if xla is None else f"{result['run_s'] / xla:.2f}",
        f"{result['xla_difference']:.1e}" if "xla_difference" in result else "",
        f"{result['compile_s']:.1f} s", Path(result["name"].partition(" ")[2]).stem,
    )  # fmt: skip


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _row(*cells: str) -> str:
    return "  ".join([*(f"{cell:>9}" for cell in cells[:-1]), cells[-1]])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check a GPU.")
    parser.add_argument("--count", type=int, default=1000, help="how many generated modules")
    parser.add_argument("--models", type=Path, help="a folder of HLO files, beside the examples")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "gpu-check")
    parser.add_argument("--backend", default="gpu", choices=["gpu", "gpu-emulated"])
    parser.add_argument("--require-device", action="store_true", help="exit 2 without a device")
    options = parser.parse_args(arguments)
    try:
        device = about(options.backend)
    except HloError as e:
        if e.code != "no-device":
            raise
        print(f"there is no GPU to check, and nothing was checked\n{e}")
        return 2 if options.require_device else 0
    models = options.models
    if models is None and (ROOT.parent / "shared" / "models").is_dir():
        models = ROOT.parent / "shared" / "models"
    cases = names(options.count, models)
    cases = [name for name in cases if name.startswith(options.only)]
    results, start = [], time.perf_counter()
    runner = Cases(options.backend)
    for number, name in enumerate(cases):
        results.append(runner.run(name))
        if "failed" in results[-1]:
            print(f"{name}: {results[-1]['failed']}", flush=True)
        elif number % 100 == 99:
            print(f"{number + 1} of {len(cases)}", flush=True)
    runner.close()
    text = report(device, results, time.perf_counter() - start)
    options.report.mkdir(parents=True, exist_ok=True)
    whole = {"device": device, "results": results}
    (options.report / "report.json").write_text(json.dumps(whole, indent=1) + "\n")
    (options.report / "report.txt").write_text(text)
    print(text)
    return 1 if any("failed" in r for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
