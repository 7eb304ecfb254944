"""Time every case beside XLA:CPU in the same run, and print the ratios, the worst first.

    python bench/run.py [CASE ...] [--seconds S] [--json FILE]

A ratio is ours over XLA's: below one is better; `passes` is our run time over that of the program
compiled without passes, `other` that over the fastest of numpy and scipy where they do the same
job. Run time is measured in alternation in one process;
the time from the text to the first result and the memory beside the inputs in a fresh process each.
`roof` is the share of our run time that the machine needs at least, for the operations of programs
with products at the speed of a large one, or for the bytes at that of a sum of large arrays: arrays
that the caches hold can have more than all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cases import CASES, export
from measure import save_inputs

MEASURE = str(Path(__file__).with_name("measure.py"))
TIMEOUT_S = 600
RATIOS = ("run", "compile", "first", "memory", "passes")


def measure(name: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Return all numbers of a case; `failed` says what went wrong, if anything did."""
    text, args = export(name)
    text_path, inputs_path = folder / f"{name}.hlo", folder / f"{name}.npz"
    text_path.write_text(text)
    save_inputs(str(inputs_path), args)
    found: dict[str, Any] = {"name": name}
    for mode in ("all", "ours", "xla"):
        command = [sys.executable, MEASURE, mode, str(text_path), str(inputs_path), str(seconds)]
        env = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, env=env, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return found | {"failed": f"{mode}: no end in {TIMEOUT_S} s"}
        if run.returncode:
            lines = run.stderr.strip().split("\n")
            return found | {"failed": f"{mode}: exit {run.returncode}: {lines[-1][:150]}"}
        found |= json.loads(run.stdout)
    return found


def other_runs(row: dict[str, Any]) -> list[float]:
    """Return the seconds that other libraries take for a run."""
    return [row[f"{library} run"] for library in CASES[row["name"]].others]


def ratio(row: dict[str, Any], what: str) -> float:
    if what == "passes":
        return float(row["ours run"] / row["plain run"])
    if what == "other":
        return float(row["ours run"] / min(other_runs(row), default=math.nan))
    # Less than a megabyte is noise in what a process holds.
    floor = 1 << 20 if what == "memory" else 1e-9
    return float(max(row[f"ours {what}"], floor) / max(row[f"xla {what}"], floor))


def line(row: dict[str, Any]) -> str:
    ratios = "".join(f"{ratio(row, what):9.2f}" for what in RATIOS)
    other = f"{ratio(row, 'other'):9.2f}" if other_runs(row) else " " * 8 + "-"
    times = f"{row['ours run'] * 1e3:11.3f}{row['xla run'] * 1e3:11.3f}"
    roof = f"{row['roof'] / row['ours run']:7.0%}"
    note = f"  WRONG: {row['difference']}" if row["difference"] else ""
    return f"{row['name']:28}{ratios}{other}{times}{roof}{note}"


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the geometric means, and of the cases that have one also beside other libraries."""

    def mean(rows: list[dict[str, Any]], what: str) -> float:
        return math.exp(sum(math.log(ratio(r, what)) for r in rows) / len(rows))

    means = "".join(f"{mean(rows, what):9.2f}" for what in RATIOS)
    shared = [r for r in rows if other_runs(r)]
    other = f"{mean(shared, 'other'):9.2f} (of {len(shared)})" if shared else ""
    return f"{'geometric mean of ' + str(len(rows)):28}{means}{other}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--seconds", type=float, default=2.0, help="for the runs of a case")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.cases or CASES:
            rows.append(measure(name, options.seconds, Path(folder)))
            done = rows[-1].get("failed") or line(rows[-1])[28:]
            print(f"{name:28}{done}", file=sys.stderr, flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    good = sorted((r for r in rows if "failed" not in r), key=lambda r: -ratio(r, "run"))
    for row in rows:
        if "failed" in row:
            print(f"{row['name']:28}failed: {row['failed']}")
    heads = "".join(f"{what:>9}" for what in RATIOS)
    print(f"{'ours / XLA':28}{heads}{'other':>9}{'ours ms':>11}{'XLA ms':>11}{'roof':>7}")
    for row in good:
        print(line(row))
    if good:
        print(summary(good))
    return 0 if len(good) == len(rows) and not any(r["difference"] for r in good) else 1


if __name__ == "__main__":
    sys.exit(main())
