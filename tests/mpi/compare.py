"""`mpiexec -n N python -m tests.mpi.compare D`: programs on N ranks of D devices each.

Each program is also run on all devices in one of the processes, and the results compared there.
"""

from __future__ import annotations

import sys
from math import prod

from hlo.mpi.world import World
from tests.harness.devices import BACKENDS, run_here
from tests.harness.mpi import run_on_ranks, same_bits
from tests.mpi.programs import PROGRAMS


def main() -> None:
    world = World(int(sys.argv[1]))
    count = world.size * len(world.devices)
    compared, different = 0, list[str]()
    fitting = {name: p for name, p in PROGRAMS.items() if prod(p[1]) == count}
    runs = [(name, backend) for name in fitting for backend in BACKENDS]
    for number, (name, backend) in enumerate(runs):
        results = world.everywhere(run_on_ranks(fitting[name], backend, world))
        if number % world.size != world.rank:
            continue
        want = run_here(fitting[name], backend)
        for device, mine in enumerate(result for own in results for result in own):
            compared += 1
            if not same_bits(mine, want[device]):
                different.append(f"{name} ({backend}), device {device}: {mine}, {want[device]}")
    for count, lines in world.gathered((compared, different)) or []:
        print(count, "compared")
        print("".join(f"different: {line}\n" for line in lines), end="")
    world.close()


if __name__ == "__main__":
    main()
