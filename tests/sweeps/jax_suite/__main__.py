"""Runs a sample of JAX's own tests and writes their outcomes, one JSON object a line.

    python -m tests.sweeps.jax_suite TREE [--platform hlo|cpu] [--results FILE]
    python -m tests.sweeps.jax_suite --compare CPU.jsonl HLO.jsonl

TREE is a checkout of JAX at the tag of the installed version. A results file that exists is
continued: what has an outcome is not run again, unless --rerun says so.

On platform `hlo` the plug-in calls its devices `cpu` unless --own-name is given: most of JAX's
tests skip platforms that they do not know.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.sweeps.jax_suite.compare import compare, read_results, summary
from tests.sweeps.jax_suite.files import SuiteFile, find_files
from tests.sweeps.jax_suite.runner import Limits, Outcome, Runner
from tests.sweeps.jax_suite.sample import chunks, draw, file_of

_VERSION = re.compile(r'^_version = "(.*)"', re.MULTILINE)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sweeps.jax_suite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tree", nargs="?", type=Path, help="checkout of JAX")
    add("--compare", nargs=2, type=Path, metavar=("FIRST", "SECOND"), help="two results files")
    add("--platform", choices=("hlo", "cpu"), default="hlo")
    add("--own-name", action="store_true", help="leave the plug-in's devices the name hlo")
    add("--results", type=Path, help="by default jax-VERSION-PLATFORM.jsonl")
    add("--count", type=int, default=6000, help="tests to draw from all files (default 6000)")
    add("--seed", type=int, default=0)
    add("--files", nargs="+", metavar="PATTERN", help="only tests of these files")
    add("--ids", type=Path, help="a file of test ids, or a results file: run these instead")
    add("--rerun", action="store_true", help="run what neither passed nor was skipped again")
    add("--list-files", action="store_true", help="say which files apply and why others do not")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="workers at a time")
    add("--chunk", type=int, default=100, help="tests of a file in one process (default 100)")
    add("--timeout", type=float, default=180.0, help="seconds for each test (default 180)")
    add("--memory", type=float, default=8.0, help="GiB for each worker (default 8)")
    add("--python", default=sys.executable, help="the Python that has jax and its tests' needs")
    add("--x64", action="store_true", help="with 64-bit types, as JAX's second CPU run")
    add("--transform", metavar="NAME", help="identity, rewrite, same-bytes, or a pipeline of ours")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="for the workers")
    result = parser.parse_args(arguments)
    if not result.tree and not result.compare:
        parser.error("a checkout of JAX is needed")
    return result


def _environment(options: argparse.Namespace) -> dict[str, str]:
    result = {"JAX_PLATFORMS": options.platform, "JAX_SKIP_SLOW_TESTS": "1"}
    if options.platform == "hlo" and not options.own_name:
        result["HLO_PJRT_PLATFORM"] = "cpu"
    if options.x64:
        result["JAX_ENABLE_X64"] = "1"
    if options.transform:
        result["HLO_JAX_TRANSFORM"] = options.transform
    return result | dict(x.split("=", 1) for x in options.env)


def _check_version(tree: Path, installed: str) -> None:
    found = _VERSION.search((tree / "jax" / "version.py").read_text())
    version = found[1] if found else "unknown"
    if version != installed:
        print(f"warning: tests of jax {version}, but jax {installed} is installed", file=sys.stderr)


def _collect(
    runner: Runner, files: list[SuiteFile], cache: Path, jobs: int
) -> dict[str, list[str]]:
    """Return the ids of all tests of each file; a file that cannot be loaded has none."""
    known: dict[str, list[str]] = json.loads(cache.read_text()) if cache.exists() else {}

    def one(file: SuiteFile) -> None:
        if file.name not in known:
            try:
                known[file.name] = runner.collect(file)
            except RuntimeError as e:
                print(f"not collected: {e}", file=sys.stderr)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, files))
    cache.write_text(json.dumps(known))
    return {file.name: known.get(file.name, []) for file in files}


def _read_ids(path: Path) -> list[str]:
    lines = path.read_text().split("\n")
    if path.suffix == ".jsonl":
        return list(read_results(path))
    return [line.strip() for line in lines if line.strip()]


def _run(
    runner: Runner, files: dict[str, SuiteFile], ids: list[str], version: str, o: argparse.Namespace
) -> None:
    """Run tests, several files at a time, and add each outcome to the results file at once."""
    lock = threading.Lock()
    began = time.monotonic()
    count = 0

    def note(outcome: Outcome) -> None:
        nonlocal count
        with lock:
            results.write(outcome.line())
            results.flush()
            count += 1
            if outcome.outcome not in ("passed", "skipped"):
                reason = " ".join(outcome.reason.split())[:120]
                print(f"{outcome.outcome}: {outcome.id}: {reason}", flush=True)
            if count % 100 == 0:
                print(f"{count} of {len(ids)}, {time.monotonic() - began:.0f} s", flush=True)

    def one(chunk: list[str]) -> None:
        for outcome in runner.run(files[file_of(chunk[0])], chunk):
            note(outcome)

    with o.results.open("a") as results:
        run: dict[str, Any] = {"version": version, "platform": o.platform, "seed": o.seed}
        run |= {"count": len(ids), "environment": dict(runner.environment), "began": time.time()}
        results.write(json.dumps({"run": run}) + "\n")
        with ThreadPoolExecutor(o.jobs) as pool:
            for future in [pool.submit(one, chunk) for chunk in chunks(ids, o.chunk, o.seed)]:
                future.result()


def main(arguments: list[str] | None = None) -> int:
    o = _parse(arguments)
    if o.compare:
        print(compare(*map(read_results, o.compare)))
        return 0
    files = find_files(o.tree)
    if o.files:
        files = [x for x in files if any(fnmatch.fnmatch(x.name, p) for p in o.files)]
    if o.list_files:
        for file in files:
            print(f"{file.name}: {f'not run, {file.excluded}' if file.excluded else 'run'}")
        return 0
    applying = [file for file in files if not file.excluded]
    print(f"{len(applying)} files apply to a CPU, {len(files) - len(applying)} do not")
    with tempfile.TemporaryDirectory() as logs, suppress(KeyboardInterrupt):
        limits = Limits(o.timeout, int(o.memory * 2**30))
        runner = Runner(o.python, o.tree.resolve(), _environment(o), limits, Path(logs))
        try:
            version = runner.version()
        except RuntimeError as e:
            print(f"error: {e}", file=sys.stderr)
            return 1
        _check_version(o.tree, version)
        o.results = o.results or Path(f"jax-{version}-{o.platform}.jsonl")
        by_name = {file.name: file for file in applying}
        if o.ids:
            ids = [x for x in _read_ids(o.ids) if file_of(x) in by_name]
        else:
            cache = o.results.with_name(f"jax-{version}-tests{'-x64' if o.x64 else ''}.json")
            tests = _collect(runner, applying, cache, o.jobs)
            print(f"{sum(map(len, tests.values()))} tests in {len(tests)} files")
            ids = draw(tests, o.count, o.seed)
        done = read_results(o.results)
        finished = ("passed", "skipped") if o.rerun else None
        left = [x for x in ids if x not in done or (finished and done[x].outcome not in finished)]
        print(f"{len(ids)} tests, of these {len(ids) - len(left)} are done: {o.results}")
        _run(runner, by_name, left, version, o)
    results = read_results(o.results)
    print(summary({id_: results[id_] for id_ in results if file_of(id_) in by_name}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
