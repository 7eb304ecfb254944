"""Time programs beside XLA:CPU in the same run, and print the ratios, the worst first.

    python bench/run.py [CASE|FILE ...] [--seconds S] [--json FILE]

Without names all cases and the examples are measured; files of HLO are given random inputs.

A ratio is ours over XLA's: below one is better. Run time is measured in alternation in one process;
the time from the text to the first result and the memory beside the inputs in a fresh process each.

*       compiling, and the time to the first result, with this program's kernels in the cache,
        though not the program
passes  our run time over that of the program compiled without passes
error   ours over XLA's: the distance from the results in double precision, root mean square
other   our run time over that of the fastest of numpy, scipy and onnxruntime, which is named,
        where they do the same job
roof    the share of our run time that the machine needs at least, for the operations of programs
        with products at the speed of arithmetic in registers (bf16 and s8: of a large product), or
        for the bytes at that of a sum of large arrays: arrays that the caches hold can have more
        than all
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

import numpy as np
from cases import CASES, export
from measure import save_inputs

import hlo

MEASURE = str(Path(__file__).with_name("measure.py"))
FOLDER = Path(__file__).parents[1] / "examples"
# Those that one device runs.
EXAMPLES = [str(FOLDER / f"{name}.hlo") for name in ("gpt_block", "resnet20", "rnn_scan")]
TIMEOUT_S = 600
COLUMNS = ("run", "compile", "compile*", "first", "first*", "memory", "passes", "error", "other")


def program(name: str) -> tuple[str, list[np.ndarray]]:
    """Return the text of a case or of a file, and inputs."""
    if name in CASES:
        return export(name)
    module = hlo.load(name)
    # Inputs are used again and again: results get memory of their own.
    for promise in ("input_output_alias", "buffer_donor"):
        module.attrs.pop(promise, None)
    return hlo.print_module(module), list(hlo.random_inputs(module, seed=0))


def measure(source: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Return all numbers of a program; `failed` says what went wrong, if anything did."""
    text, args = program(source)
    name = Path(source).stem
    text_path, inputs_path = folder / f"{name}.hlo", folder / f"{name}.npz"
    text_path.write_text(text)
    save_inputs(str(inputs_path), args)
    found: dict[str, Any] = {"name": name}
    kernels = str(folder / "kernels")
    # The first of two with kernels in a folder puts them there.
    for mode, last in (
        ("all", str(seconds)), ("ours", ""), ("xla", ""), ("kept", kernels), ("kept", kernels)
    ):  # fmt: skip
        command = [sys.executable, MEASURE, mode, str(text_path), str(inputs_path), last]
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


def fastest_other(row: dict[str, Any]) -> str | None:
    """Return the library that takes least time for a run."""
    return min(row["others"], key=lambda library: row[f"{library} run"], default=None)


def ratio(row: dict[str, Any], what: str) -> float:
    if what == "passes":
        return float(row["ours run"] / row["plain run"])
    if what == "other":
        return float(row["ours run"] / row[f"{fastest_other(row)} run"])
    if what.endswith("*"):
        return float(row[f"kept {what[:-1]}"] / row[f"xla {what[:-1]}"])
    if what == "error":
        # Less than that is the rounding of the exact results.
        floor = 1e-15
        return max(row["ours error"], floor) / max(row["xla error"], floor)
    # Less than a megabyte is noise in what a process holds.
    floor = 1 << 20 if what == "memory" else 1e-9
    return float(max(row[f"ours {what}"], floor) / max(row[f"xla {what}"], floor))


def known(row: dict[str, Any], what: str) -> bool:
    """True if a program has a ratio: not all have floats, or are what other libraries do."""
    if what == "other":
        return bool(row["others"])
    return what != "error" or row.get("ours error") is not None


def line(row: dict[str, Any]) -> str:
    columns = (f"{ratio(row, c):9.2f}" if known(row, c) else f"{'-':>9}" for c in COLUMNS)
    times = f"{row['ours run'] * 1e3:11.3f}{row['xla run'] * 1e3:11.3f}"
    roof = f"{row['roof'] / row['ours run']:7.0%}"
    notes = "  ".join([fastest_other(row) or "", *row.get("left out", ())])
    if row["difference"]:
        notes += f"  WRONG: {row['difference']}"
    return f"{row['name'][:27]:28}{''.join(columns)}{times}{roof}  {notes}".rstrip()


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the geometric means over the programs that have a ratio."""
    means = ""
    for what in COLUMNS:
        found = [math.log(ratio(r, what)) for r in rows if known(r, what)]
        means += f"{math.exp(sum(found) / len(found)):9.2f}" if found else f"{'-':>9}"
    return f"{'geometric mean of ' + str(len(rows)):28}{means}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "programs", nargs="*", metavar="CASE|FILE", help=f"HLO, or of {', '.join(CASES)}"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="for the runs of each")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    options = parser.parse_args()
    unknown = [n for n in options.programs if n not in CASES and not Path(n).is_file()]
    if unknown:
        parser.error(f"no such case or file: {', '.join(unknown)}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for source in options.programs or [*CASES, *EXAMPLES]:
            rows.append(measure(source, options.seconds, Path(folder)))
            done = rows[-1].get("failed") or line(rows[-1])[28:]
            print(f"{rows[-1]['name'][:27]:28}{done}", file=sys.stderr, flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    good = sorted((r for r in rows if "failed" not in r), key=lambda r: -ratio(r, "run"))
    for row in rows:
        if "failed" in row:
            print(f"{row['name']:28}failed: {row['failed']}")
    heads = "".join(f"{what:>9}" for what in COLUMNS)
    print(f"{'ours / XLA':28}{heads}{'ours ms':>11}{'XLA ms':>11}{'roof':>7}  fastest other")
    for row in good:
        print(line(row))
    if good:
        print(summary(good))
    return 0 if len(good) == len(rows) and not any(r["difference"] for r in good) else 1


if __name__ == "__main__":
    sys.exit(main())
