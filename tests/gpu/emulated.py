"""Modules on the SIMT machine, beside the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

import hlo
from hlo.codegen.launches.program import GpuProgram, write_launches
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.lowering import Clock, plan
from hlo.runtime.assembly import assembly_of
from hlo.testing.compare import compare
from hlo.testing.sampling import random_value
from tests.harness.oracle import leaves


def check_emulated(text: str, *args: Any, edges: bool = False, seed: int = 0) -> None:
    """Fail unless a module computes on the SIMT machine what it means.

    args: random values without them, with special ones among them if `edges`.
    """
    module = hlo.parse(text)
    rng = np.random.default_rng(seed)
    shapes = module.entry.parameter_shapes
    values = list(args) or [random_value(rng, s, edges=edges) for s in shapes]
    with np.errstate(all="ignore"):
        want = leaves(hlo.interpret(module, *values))
        got = leaves(hlo.compile(module, backend="gpu-emulated")(*values))
        for found, expected in zip(got, want, strict=True):
            result = compare(np.asarray(found), np.asarray(expected))
            assert result.same, result


def program(text: str, cpu: str = "sm_90") -> tuple[GpuProgram, str]:
    """Return the program of a module for a GPU, and its PTX."""
    target = Nvptx(cpu)
    found = write_launches(plan(hlo.parse(text), target, Clock()), target)
    return found, assembly_of(found.module, cpu)
