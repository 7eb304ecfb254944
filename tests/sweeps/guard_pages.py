"""Run random modules natively between pages that nobody may touch.

python -m tests.sweeps.guard_pages [--kind KIND] [--first SEED] [--count N] [--threads N] [--quick]

The kinds are those of the generators (of one operation, too, as `large-dot`), `examples`, those of
the op table, `dots`, products of matrices, and `targets`: calls of known targets, most with shapes
that do not fit. Every second module has random layouts.

Arguments, results, temporaries and constants each end at such a page, and in a second run begin
behind one; what has not been written is ones in the first, zeros in the second. An access outside
ends the process that runs the modules, which another one sees. Results have to be the same.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from hlo.compiler.binding import bind
from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import build
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.io.arguments import bind_arguments
from hlo.runtime import frame
from hlo.runtime.blocks import ALIGNMENT
from hlo.runtime.boundary import PackedPort, Port, TransposedPort
from hlo.runtime.executable import Executable
from hlo.runtime.jit import host_machine
from hlo.runtime.leaves import leaf_arrays
from hlo.testing.sampling import random_value
from tests.generators.ops import Case
from tests.generators.targets import generate_target
from tests.harness.paths import ROOT
from tests.ops.test_op_table import EXAMPLES, arguments, example, host
from tests.sweeps.compare_generated import GENERATORS, OF_ONE, quick_machine
from tests.sweeps.compare_layouts import Layouts

_PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)


class Guards:
    """Memory between pages that nobody may touch.

    at_end: it ends at one, as closely as its alignment allows; else it begins behind one. fill:
    the byte that it is full of.
    """

    def __init__(self, *, at_end: bool, fill: int) -> None:
        self._at_end, self._fill = at_end, fill
        self._maps: list[mmap.mmap] = []

    def block(self, size_bytes: int, alignment: int = ALIGNMENT) -> np.ndarray:
        """Return aligned memory."""
        inside = -(-max(1, size_bytes) // _PAGE) * _PAGE
        pages = mmap.mmap(-1, inside + 2 * _PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._maps.append(pages)
        whole = np.frombuffer(pages, np.uint8)
        for at in (0, _PAGE + inside):
            if _LIBC.mprotect(ctypes.c_void_p(whole.ctypes.data + at), _PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        room = -(-size_bytes // alignment) * alignment
        begin = _PAGE + (inside - room if self._at_end else 0)
        found = whole[begin : begin + size_bytes]
        found[:] = self._fill
        return found

    def like(self, array: np.ndarray) -> np.ndarray:
        """Return memory for an array of these dimensions and this dtype, in rows."""
        flat = self.block(array.nbytes, max(1, array.dtype.alignment))
        return np.ndarray(array.shape, array.dtype, flat.data)

    def copy(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array."""
        made = self.like(array)
        made[...] = array
        return made


@contextmanager
def _results_in(guards: Guards) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for port in (Port, TransposedPort, PackedPort):
            if "allocate" in vars(port):
                before = port.allocate
                patch.setattr(port, "allocate", lambda p, f=before: guards.like(f(p)))
        patch.setattr(frame, "block", guards.block)
        yield


def run_guarded(exe: Executable, args: Sequence[object], guards: Guards) -> list[bytes]:
    """Return the bytes of the results of a program whose memory is between guards."""
    leaves = leaf_arrays(exe.parameters, bind_arguments(exe.parameters, args))
    memory = [guards.copy(m) for m in exe._physical(leaves)]
    constants, exe._constants = exe._constants, guards.copy(exe._constants)
    exe._frames.clear()
    try:
        with _results_in(guards):
            return [np.array(x).tobytes() for x in exe._run(memory, {})]
    finally:
        exe._frames.clear()
        exe._constants = constants


def _example(seed: int) -> Case:
    name, index = EXAMPLES[seed % len(EXAMPLES)]
    module = parse(example(name, index))
    return Case(module, arguments(module, name))


_TYPES = ("f32", "f64", "bf16", "f16", "s8", "u8", "s16", "u16", "s32", "c64", "s4", "f8e4m3fn")


def _dot(seed: int) -> Case:
    """Return a product of matrices that lie in any order, with odd sizes and even ones."""
    rng = np.random.default_rng(seed)
    et = str(rng.choice(_TYPES))
    is_integer = et[0] in "su"
    m, k, n = (int(rng.choice([1, 2, 3, 5, 8, 17, 33, 64, 100, 257])) for _ in range(3))
    orders = [("0,1", "1,0")[int(rng.integers(2))] for _ in range(3)]
    (left, a), (right, b) = (((0, (p, q)), (1, (q, p)))[int(rng.integers(2))]
                             for p, q in ((k, m), (k, n)))  # fmt: skip
    module = parse(f"""HloModule dots
ENTRY main {{
  a = {et}[{a[0]},{a[1]}]{{{orders[0]}}} parameter(0)
  b = {et}[{b[0]},{b[1]}]{{{orders[1]}}} parameter(1)
  ROOT c = {et[0] + "32" if is_integer else et}[{m},{n}]{{{orders[2]}}} dot(a, b),
    lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}
}}""")
    args = [random_value(rng, p.shape) for p in module.entry.parameters]
    return Case(module, args, rtol=1e-4)


# Some of the targets' are invalid.
CASES = {**GENERATORS, "examples": _example, "dots": _dot, "targets": generate_target}


def check(kind: str, seed: int, threads: int, *, quick: bool) -> None:
    """Fail unless a module has the same results between guards of both kinds. Raises HloError."""
    case = (CASES | OF_ONE)[kind](seed)
    module = Layouts(seed).relay(case.module) if seed % 2 else case.module
    program = build(module, quick_machine() if quick else host_machine(), Clock(), "")
    results = []
    for at_end, fill in ((True, 0xFF), (False, 0)):
        outside = bind(program.imports, host(module)) if program.uses_host else None
        exe = Executable(program, threads=threads, outside=outside)
        results.append(run_guarded(exe, case.args, Guards(at_end=at_end, fill=fill)))
    assert results[0] == results[1], "results depend on memory that nothing has written"
    if kind == "targets":
        interpret(module, case.args)


def _work(cases: Sequence[tuple[str, int]], threads: int, quick: bool) -> None:
    for kind, seed in cases:
        print(f"{kind} {seed}", flush=True)
        try:
            check(kind, seed, threads, quick=quick)
        except (AssertionError, HloError) as e:
            if kind != "targets" or isinstance(e, AssertionError):
                print(f"  {type(e).__name__}: {str(e).splitlines()[0]}", flush=True)


def sweep(cases: Sequence[tuple[str, int]], threads: int = 1, *, quick: bool = False) -> list[str]:
    """Run modules, by kind and seed, in another process; returns what went wrong."""
    found: list[str] = []
    while cases:
        done = subprocess.run(
            [sys.executable, "-m", "tests.sweeps.guard_pages", "--worker"], cwd=ROOT,
            input=json.dumps([cases, threads, quick]),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        begun = 0
        for line in done.stdout.splitlines():
            if line.startswith("  "):
                found.append("{} {}: ".format(*cases[begun - 1]) + line.strip())
            else:
                begun += 1
        if done.returncode:
            last = "{} {}: ".format(*cases[begun - 1]) if begun else ""
            found.append(f"{last}ended by {done.returncode}: {done.stderr.strip()[-300:]}")
        if not begun:
            break
        cases = cases[begun:]
    return found


def main() -> int:
    if sys.argv[1:] == ["--worker"]:
        _work(*json.load(sys.stdin))
        return 0
    parser = argparse.ArgumentParser(description="Run random modules between guard pages.")
    parser.add_argument("--kind", choices=[*CASES, *OF_ONE], help="one kind of modules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many of each kind")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="without LLVM's optimizations")
    options = parser.parse_args()
    kinds = [options.kind] if options.kind else list(CASES)
    seeds = range(options.first, options.first + options.count)
    cases = [(kind, seed) for kind in kinds for seed in seeds]
    found = sweep(cases, options.threads, quick=options.quick)
    for line in found:
        print(line)
    print(f"{len(cases)} modules between guard pages: {len(found)} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
