"""The SIMT machine finds each barrier, and each wait for a copy, that our own kernels lack."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hlo.codegen.launches.program import GpuProgram, write_launches
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.lowering import Clock, plan
from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.gpu.execute import LoadedProgram
from hlo.gpu.simt import SimtDevice
from hlo.ir import Module
from hlo.runtime.assembly import assembly_of

_FUNCTIONS = """
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
"""
_PROGRAMS = {
    "reduce": "x = f32[7,3000] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[7] reduce(x, z), dimensions={1}, to_apply=sum",
    "reduce in parts": "x = f32[2,70000] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[2] reduce(x, z), dimensions={1}, to_apply=sum",
    "reduce columns in parts": "x = f32[9000,40] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[40] reduce(x, z), dimensions={0}, to_apply=sum",
    "sort": "x = f32[3,700] parameter(0) "
    "ROOT r = f32[3,700] sort(x), dimensions={1}, to_apply=less",
    "transpose": "x = f32[256,300] parameter(0) "
    "ROOT r = f32[300,256] transpose(x), dimensions={1,0}",
    "dot": "x = f32[256,256] parameter(0) y = f32[256,256] parameter(1) "
    "ROOT r = f32[256,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
}
_WAITS = re.compile(r"\t(?:bar\.sync|cp\.async\.wait_group|fence)\b[^;]*;")


def _emitted(text: str) -> tuple[Module, GpuProgram, str]:
    module = parse(f"HloModule m {_FUNCTIONS} ENTRY e {{ {text} }}")
    target = Nvptx("sm_90")
    program = write_launches(plan(module, target, Clock()), target)
    return module, program, assembly_of(program.module, target.cpu)


def _run(module: Module, program: GpuProgram, ptx: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arguments = [
        rng.standard_normal(p.array_shape.dims).astype(np.float32) for p in module.entry.parameters
    ]
    results = [np.zeros(size, np.uint8) for size in program.plan.results]
    loaded = LoadedProgram(SimtDevice(limit=1_000_000), program.plan, ptx)
    loaded.run(
        [a.reshape(-1).view(np.uint8) for a in arguments], results, lambda *_: [], lambda: None
    )
    return results


@pytest.mark.parametrize("name", _PROGRAMS)
def test_what_is_waited_for_is_needed(name: str) -> None:
    module, program, ptx = _emitted(_PROGRAMS[name])
    _run(module, program, ptx)
    waits = [found.span() for found in _WAITS.finditer(ptx)]
    assert waits
    for begin, end in waits:
        with pytest.raises(HloError) as caught:
            _run(module, program, ptx[:begin] + ptx[end:])
        assert caught.value.code in ("gpu-race", "gpu-unfinished-copy", "gpu-uninitialized")
