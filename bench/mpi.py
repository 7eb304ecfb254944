"""All-reduces over MPI beside a C program that calls MPI_Allreduce, on the same machine.

python bench/mpi.py [--ranks N] [--megabytes N] [--rounds N]

Both programs are run in turn, several times; the ratios are of the best times. The C program calls
MPI_Allreduce on separate buffers, with MPI begun without threads; ours is a compiled module: a loop
of thousands of small all-reduces, and a chain of large ones, each of the result of the one before.
It needs mpicc and mpiexec beside Python or on the path (`pip install mpi4py mpich`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from collectives import CHAIN, TURNS, chain, loop

import hlo

_SMALL = 4
_C = f"""#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static double of(float *a, float *b, long n, int turns) {{
  double begin;
  MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  begin = MPI_Wtime();
  for (int k = 0; k < turns; ++k) MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return (MPI_Wtime() - begin) / turns;
}}
int main(int argc, char **argv) {{
  long n = atol(argv[1]);
  float *a = calloc(n, 4), *b = calloc(n, 4);
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double small = of(a, b, {_SMALL}, {TURNS}), large = of(a, b, n, {CHAIN});
  if (rank == 0) printf("[%g, %g]\\n", small, large);
  MPI_Finalize();
}}
"""


def ours(elements: int) -> None:
    """Time the modules on this rank; rank 0 prints the seconds of an all-reduce."""
    from hlo.mpi import World

    world = World()
    client = hlo.Client(world=world, cache=False)
    found = []
    for text, size, turns in (
        (loop(world.size, _SMALL), _SMALL, TURNS), (chain(world.size, elements), elements, CHAIN)
    ):  # fmt: skip
        program = client.compile(hlo.parse(text))
        x = client.transfer_in_process(np.zeros(size, np.float32), client.devices.start)
        client.execute_replicated(program, [[x]])
        world.everywhere(None)
        start = time.perf_counter()
        client.execute_replicated(program, [[x]])
        found.append((time.perf_counter() - start) / turns)
    if world.rank == 0:
        print(json.dumps(found))


def tool(name: str) -> str:
    """Return the path of a tool of MPI."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        sys.exit(f"no {name}: pip install mpich")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ours", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours is not None:
        ours(options.ours)
        return
    elements = options.megabytes << 18
    launch = [tool("mpiexec"), "-n", str(options.ranks)]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "allreduce")
        program.with_suffix(".c").write_text(_C)
        subprocess.run([tool("mpicc"), "-O2", "-o", program, program.with_suffix(".c")], check=True)
        commands = {
            "C": [str(program), str(elements)],
            "ours": [sys.executable, __file__, "--ours", str(elements)],
        }
        best: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for name, command in commands.items():
                done = subprocess.run([*launch, *command], capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stderr)
                times = json.loads(done.stdout.splitlines()[-1])
                best[name] = list(map(min, best.get(name, times), times))
    for n, (what, unit, scale) in enumerate(
        ((f"{_SMALL} floats", "us", 1e6), (f"{options.megabytes} MB", "ms", 1e3))
    ):
        c, mine = best["C"][n], best["ours"][n]
        times = f"{mine * scale:.3g} {unit}, C {c * scale:.3g} {unit}"
        print(f"{what}, {options.ranks} ranks: {times}, C's time over ours {c / mine:.2f}")


if __name__ == "__main__":
    main()
