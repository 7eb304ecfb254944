"""Random bits: a thread a counter."""

from __future__ import annotations

from collections.abc import Mapping

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.random.bits import Philox, ThreeFry
from hlo.codegen.llvm import Index
from hlo.codegen.loops.kernel import Kernel, split_index
from hlo.codegen.targets.base import Plan
from hlo.codegen.targets.gpu.base import Gpu, Grid
from hlo.codegen.targets.gpu.kernels.grid import over_threads
from hlo.ir import Instruction


def _emit_threefry(k: Kernel) -> Grid:
    b, g = k.b, ThreeFry(k)

    def counter(at: Index) -> None:
        g.store_state(b.compare("eq", at, 0))
        if g.counters:
            g.store(split_index(b, at, g.half) if g.half else (), at)

    return over_threads(k, max(1, g.counters), counter)


def _emit_philox(k: Kernel) -> Grid:
    b, g = k.b, Philox(k)

    def counter(at: Index) -> None:
        g.store_state(b.compare("eq", at, 0))
        with b.when(b.compare("slt", at, g.whole)):
            g.store(at, g.each)
        if g.rest:
            with b.when(b.compare("eq", at, g.whole)):
                g.store(g.whole, g.rest)

    return over_threads(k, max(1, g.counters), counter)


def _plan_bits(inst: Instruction, _: Mapping[Instruction, Role], __: Gpu) -> Plan:
    is_threefry = inst.algorithm == "rng_three_fry"
    return Plan((_emit_threefry if is_threefry else _emit_philox,))


PLANNERS = {"rng-bit-generator": _plan_bits}
