"""What the measurements of overhead have in common: plain native code, timed; the command line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from hlo.runtime.executable import Executable

# The least number of rounds.
FEWEST = 3


class Timed:
    """A plain executable whose native code is timed as the profiled one's is."""

    def __init__(self, executable: Executable) -> None:
        self.run_values = executable.run_values
        self.seconds = 0.0
        call = executable._call

        def timed(watch: int) -> int:
            start = time.perf_counter()
            status = call(watch)
            self.seconds += time.perf_counter() - start
            return status

        executable._call = timed


def run(doc: str, columns: str, measure: Callable[[str, int | None, float], str]) -> None:
    """Print a line for each module of the command line.

    measure: returns that of a file, for a number of threads, in so many seconds.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each module")
    given = parser.parse_args()
    print(f"{columns}  module")
    for path in given.files:
        print(measure(path, given.threads, given.seconds), flush=True)
