"""Runs on several ranks in which one fails: all have to end, with an error and in time.

python -m tests.sweeps.mpi_failures [--first SEED] [--count N]

Each run is of a loop with collectives, on 2 to 4 ranks of 1 or 2 devices, compiled or interpreted.
Somewhere a rank is killed or stopped from outside, at any time from its start to its end; or at a
random iteration a custom call raises, leaves the process or kills or stops it; or one rank has
another program, or other flags. A run that ends well because the failure came too late is counted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.harness.mpi import MPIEXEC
from tests.harness.paths import ROOT

_ITERATIONS = 40
_PATIENCE_S = 8
# How long a rank that fails may take to end all: a stopped one is waited for first.
_LIMIT_S = {"kill": 10.0, "stop": _PATIENCE_S + 30.0}
_OUTSIDE = ("kill", "stop")
_INSIDE = ("raise", "leave", "kill itself", "stop itself")
_APART = ("another program", "other flags")

_MODULE = """HloModule m, replica_count={count}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
c {{ p = (s32[], f32[{size}]) parameter(0)  n = s32[] get-tuple-element(p), index=0
  m = s32[] constant({iterations})  ROOT r = pred[] compare(n, m), direction=LT }}
b {{ p = (s32[], f32[{size}]) parameter(0)  n = s32[] get-tuple-element(p), index=0
  x = f32[{size}] get-tuple-element(p), index=1
  i = u32[] replica-id()
  k = s32[] custom-call(n, i), custom_call_target="inject", custom_call_has_side_effect=true
  y = f32[{size}] all-reduce(x), replica_groups={{}}, to_apply=add
  h = f32[] constant(0.25)  hb = f32[{size}] broadcast(h), dimensions={{}}
  z = f32[{size}] multiply(y, hb)
  w = f32[{size}] collective-permute(z), source_target_pairs={pairs}
  o = s32[] constant(1)  j = s32[] add(n, o)  l = s32[] add(j, k)
  ROOT r = (s32[], f32[{size}]) tuple(l, w) }}
ENTRY e {{
  x = f32[{size}] parameter(0)  z = s32[] constant(0)
  t = (s32[], f32[{size}]) tuple(z, x)
  ROOT w = (s32[], f32[{size}]) while(t), condition=c, body=b
}}
"""
_PLUGIN = """import os, signal, time
import numpy as np
def inject(op, args):
    time.sleep(0.01)
    if (int(args[0]), int(args[1])) == ({iteration}, {device}):
        {action}
    return np.int32(0)
custom_calls = {{"inject": inject}}
"""
_STATUS = 7
_ACTIONS = {
    "raise": 'raise ValueError("injected")',
    "leave": f"os._exit({_STATUS})",
    "kill itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "stop itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "": "pass",
}


class Hang(Exception):
    """A run has not ended in time."""


def _ranks(mpiexec: int) -> list[int]:
    """Return the processes of Python below a launcher."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            name, rest = text.rsplit(")", 1)
            names[int(entry.name)] = name.partition("(")[2]
            children.setdefault(int(rest.split()[1]), []).append(int(entry.name))
    found, todo = [], [mpiexec]
    while todo:
        for child in children.get(todo.pop(), []):
            todo.append(child)
            if names[child].startswith("python"):
                found.append(child)
    return found


def _run(seed: int, folder: Path) -> tuple[str, str]:
    """Do one run; returns what was to fail, and how it ended. Raises Hang."""
    rng = random.Random(seed)
    ranks, each = rng.randint(2, 4), rng.choice([1, 1, 2])
    backend = rng.choice(["compiled", "compiled", "reference"])
    how = rng.choice(_OUTSIDE * 2 + _INSIDE + _APART)
    size, count = rng.choice([3, 5000]), ranks * each
    pairs = "{" + ",".join(f"{{{n},{(n + 1) % count}}}" for n in range(count)) + "}"
    text = _MODULE.format(count=count, size=size, iterations=_ITERATIONS, pairs=pairs)
    victim = rng.randrange(ranks)
    action = _ACTIONS[how if how in _INSIDE else ""]
    plugin = _PLUGIN.format(
        iteration=rng.randrange(_ITERATIONS), device=victim * each, action=action
    )
    (folder / "inject.py").write_text(plugin)
    (folder / "module.hlo").write_text(text)
    (folder / "other.hlo").write_text(text.replace("0.25", "0.5"))

    def command(rank: int) -> list[str]:
        is_apart = rank == victim and how in _APART
        file = "other.hlo" if is_apart and how == "another program" else "module.hlo"
        flags = (
            ["--num-partitions", "1", "--seed", "3"] if is_apart and how == "other flags" else []
        )
        return [
            sys.executable, "-m", "hlo", "run", str(folder / file), "--load",
            str(folder / "inject.py"), "--backend", backend, "--rank-timeout", str(_PATIENCE_S),
            "--devices-per-process", str(each), *flags,
        ]  # fmt: skip

    line = [str(MPIEXEC)]
    for rank in range(ranks):
        line += [*([":"] if rank else []), "-n", "1", *command(rank)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        line, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    limit = 60.0
    if how in _OUTSIDE:
        time.sleep(rng.uniform(0.3, 8))
        found = _ranks(process.pid)
        if found:
            which = signal.SIGKILL if how == "kill" else signal.SIGSTOP
            os.kill(rng.choice(found), which)
            limit = _LIMIT_S[how]
    begun = time.monotonic()
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        rest = _ranks(process.pid)
        process.kill()
        for pid in rest:
            os.kill(pid, signal.SIGKILL)
        raise Hang(
            f"{how}, {ranks} ranks of {each}, {backend}: not over after {limit:g} s"
        ) from None
    took = time.monotonic() - begun
    if process.returncode == 0:
        if how not in _OUTSIDE or "device" not in out:
            raise AssertionError(f"{how}: it ends well: {out[-500:]} {err[-500:]}")
        return how, "too late"
    said = [x for x in err.splitlines() if x.startswith("error:")]
    by_launcher = "BAD TERMINATION" in out + err or (how, process.returncode) == ("leave", _STATUS)
    if not said and not by_launcher:
        raise AssertionError(f"{how}: no error, status {process.returncode}: {out} {err}")
    if how not in _OUTSIDE and not how.startswith(("leave", "kill", "stop")) and len(said) != 1:
        raise AssertionError(f"{how}: {len(said)} errors: {err[-800:]}")
    print(f"{seed}: {how}, {ranks} ranks of {each}, {backend}, {took:.1f} s: "
          f"{said[0] if said else 'ended by the launcher'}", flush=True)  # fmt: skip
    return how, "error" if said else "ended by the launcher"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    seen: Counter[tuple[str, str]] = Counter()
    bad = 0
    for seed in range(options.first, options.first + options.count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                seen[_run(seed, Path(folder))] += 1
            except (Hang, AssertionError) as e:
                bad += 1
                print(f"{seed}: FAILED: {type(e).__name__}: {e}", flush=True)
    for (how, end), count in sorted(seen.items()):
        print(f"{count:4} {how}: {end}")
    print(f"{options.count} runs, {bad} failed")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
