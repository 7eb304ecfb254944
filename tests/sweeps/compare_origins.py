"""Check that functions of one origin are the same in all modules: their object code is shared.

python -m tests.sweeps.compare_origins [--kind KIND] [--first SEED] [--count N]

Random modules are emitted, not compiled; a function is told from others by its text, but for what
the module around it decides.
"""

from __future__ import annotations

import argparse
import re
import sys
import time

from hlo.codegen.targets.cpu import cpu_target
from hlo.compiler.lowering import Clock, emit
from hlo.errors import HloError
from hlo.ir import Module
from hlo.llvm import Compiled
from hlo.runtime.jit import host_machine
from tests.sweeps.compare_generated import GENERATORS, OF_ONE


class _NoneKnown:
    """Asks for the origin of all functions, and finds none."""

    def find(self, key: str) -> Compiled | None:
        return None


def texts(module: Module) -> dict[str, str]:
    """Return the text of each function that has an origin, by the origin's key."""
    machine = host_machine()
    target = cpu_target(machine.triple, machine.data_layout, machine.features, None)
    program = emit(module, "entry", target, Clock(), is_watched=True, known=_NoneKnown())
    return {
        f.origin.key: _text(f"{', '.join(f.parameters)} {f.attributes} {f.body_text}")
        for f in program.module.functions.values()
        if f.origin is not None
    }


def _text(text: str) -> str:
    """Return what is the same in all modules: no numbers of metadata and of functions."""
    return re.sub(r"@(function|records?|constants?)_\d+[.\w]*|(?<=!)\d+", "", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kind", choices=[*GENERATORS, *OF_ONE], action="append")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    generators = GENERATORS | OF_ONE
    known: dict[str, tuple[str, str]] = {}
    modules = again = failed = 0
    start = time.perf_counter()
    for kind in options.kind or GENERATORS:
        for seed in range(options.first, options.first + options.count):
            case = generators[kind](seed)
            modules += 1
            try:
                found = texts(case.module)
            except HloError as e:
                if e.code != "unsupported":
                    raise
                continue
            for key, text in found.items():
                where, other = known.setdefault(key, (f"{kind} {seed}", text))
                again += where != f"{kind} {seed}"
                if text != other:
                    failed += 1
                    print(f"{kind} {seed}: not as in {where}: {key[:300]}")
    seconds, functions = time.perf_counter() - start, f"{len(known)} functions, {again} again"
    print(f"{modules} modules, {functions}: {failed} differ, {seconds:.0f} s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
