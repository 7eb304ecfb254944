"""Reduce models that a pass miscompiles: how small they get, and how long it takes.

python -m tests.sweeps.reduce_miscompilations MODEL.hlo ... [--first N] [--count N] [--own]
    [--most 12] [--seconds 180] [-j 2]

A program that the pass `miscompile` gets wrong is embedded in each model, another one each time; or
(`--own`) the pass gets an instruction of the model itself wrong. The time is that of the reduction,
without reading the model. Each smaller module is read and verified again.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time

import hlo
from hlo.debug.reduction.interestingness.passes import PassBreaks
from hlo.debug.reduction.reducer import Reducer
from hlo.debug.reduction.workers import Workers
from hlo.ir import Module
from tests.generators import miscompilations
from tests.generators.miscompiled_programs import PROGRAMS, embed


def _check(module: Module, problem: str) -> None:
    hlo.verify(hlo.parse(str(module)))


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _cases(model: Module, own: bool) -> list[tuple[str, str | None]]:
    """Return what goes wrong in each case: of an instruction of the model, its kind as well."""
    if not own:
        return [(str(which), None) for which in PROGRAMS]
    sites = [(f"{i.parent.name}/{i.name}", kind) for kind, i in miscompilations.sites(model)]  # type: ignore[union-attr]
    return random.Random(0).sample(sites, len(sites))  # type: ignore[return-value]


def main() -> int:
    parser = argparse.ArgumentParser(description="Reduce models that a pass miscompiles.")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, default=40, help="how many cases of each model")
    parser.add_argument("--own", action="store_true", help="of instructions of the model itself")
    parser.add_argument("--most", type=int, default=12, help="instructions that may be left")
    parser.add_argument("--seconds", type=float, default=180, help="that it may take")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--print", action="store_true", help="show each reduced module")
    options = parser.parse_args()
    miscompilations.register()
    bad = 0
    for file in options.models:
        start = time.perf_counter()
        model = hlo.load(file)
        print(f"{file}: read in {time.perf_counter() - start:.1f} s", flush=True)
        for number, (what, kind) in enumerate(_cases(model, options.own)):
            if not options.first <= number < options.first + options.count:
                continue
            if kind is None:
                module, _ = embed(model, PROGRAMS[number], number)
            else:
                inst = model[what]
                assert isinstance(inst, hlo.Instruction)
                module, what = miscompilations.mark(model, kind, inst), f"{what}: {kind}"
            workers = Workers(options.jobs, 120)
            start, cpu = time.perf_counter(), _cpu_seconds()
            try:
                found = Reducer(module, PassBreaks("miscompile"), workers, adopted=_check).run()
            except hlo.HloError as e:
                print(f"{number:3} {what}: {e}", flush=True)
                bad += 1
                continue
            seconds, cpu = time.perf_counter() - start, _cpu_seconds() - cpu
            left = sum(len(comp) for comp in found)
            fits = left <= options.most and seconds <= options.seconds
            bad += not fits
            print(
                f"{number:3} {'' if fits else 'MISSED '}{what}: {left} instructions, "
                f"{seconds:.1f} s ({cpu:.1f} s of processors), {workers.tested} tests, "
                f"{workers.ended or 'none died'}",
                flush=True,
            )
            if options.print or not fits:
                print(found)
    print(f"{bad} missed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
