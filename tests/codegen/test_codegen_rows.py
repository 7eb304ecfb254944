"""Kernels that go row by row: which reductions they absorb, and that they compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.analysis.fusion import rows
from hlo.analysis.fusion.operations import is_on_demand
from hlo.analysis.fusion.roles import Role, roles_in
from hlo.analysis.fusion.rows import absorb_rows
from hlo.codegen.lower.prepare import flatten
from hlo.frontends.text import parse
from hlo.ir import Instruction
from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES, ArrayShape
from tests.harness.run_compiled import check, compiled_for

HEAD = """HloModule m
mx { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] maximum(a, b) }
sm { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] add(a, b) }
ENTRY e { x = T[80,100] parameter(0)
  low = T[] constant(-inf) zero = T[] constant(0)
"""
SOFTMAX = """  m = T[80] reduce(x, low), dimensions={1}, to_apply=mx
  m1 = T[80,1] reshape(m) m2 = T[80] reshape(m1)
  mb = T[80,100] broadcast(m2), dimensions={0}
  d = T[80,100] subtract(x, mb) e = T[80,100] exponential(d)
  s = T[80] reduce(e, zero), dimensions={1}, to_apply=sm
  sb = T[80,100] broadcast(s), dimensions={0}
"""
PROGRAMS = {
    # text, how many reductions stay kernels
    "softmax": (HEAD + SOFTMAX + "  ROOT r = T[80,100] divide(e, sb) }", 0),
    "log softmax": (
        HEAD + SOFTMAX + "  l = T[80] log(s) lb = T[80,100] broadcast(l), dimensions={0}\n"
        "  ROOT r = T[80,100] subtract(d, lb) }",
        0,
    ),
    "normalization": (
        HEAD + "  s = T[80] reduce(x, zero), dimensions={1}, to_apply=sm n = T[] constant(100)\n"
        "  nb = T[80] broadcast(n), dimensions={} m = T[80] divide(s, nb)\n"
        "  mb = T[80,100] broadcast(m), dimensions={0} d = T[80,100] subtract(x, mb)\n"
        "  q = T[80,100] multiply(d, d) v = T[80] reduce(q, zero), dimensions={1}, to_apply=sm\n"
        "  w = T[80] rsqrt(v) wb = T[80,100] broadcast(w), dimensions={0}\n"
        "  g = T[100] parameter(1) gb = T[80,100] broadcast(g), dimensions={1}\n"
        "  y = T[80,100] multiply(d, wb) ROOT r = T[80,100] multiply(y, gb) }",
        0,
    ),
    "dimensions of size one": (
        HEAD + "  m = T[80] reduce(x, low), dimensions={1}, to_apply=mx\n"
        "  x3 = T[1,80,100] reshape(x) mb = T[1,80,100] broadcast(m), dimensions={1}\n"
        "  d = T[1,80,100] subtract(x3, mb) e = T[1,80,100] exponential(d)\n"
        "  s = T[1,80] reduce(e, zero), dimensions={2}, to_apply=sm\n"
        "  sb = T[1,80,100] broadcast(s), dimensions={0,1} q = T[1,80,100] divide(e, sb)\n"
        "  ROOT r = T[80,1,100] reshape(q) }",
        0,
    ),
    # A reduction of what a reduction goes into.
    "variance": (
        HEAD + "  s = T[80] reduce(x, zero), dimensions={1}, to_apply=sm\n"
        "  sb = T[80,100] broadcast(s), dimensions={0} d = T[80,100] subtract(x, sb)\n"
        "  q = T[80,100] multiply(d, d)\n"
        "  ROOT v = T[80] reduce(q, zero), dimensions={1}, to_apply=sm }",
        1,
    ),
    "a result of its own": (
        HEAD + SOFTMAX + "  r = T[80,100] divide(e, sb)\n"
        "  ROOT t = (T[80,100], T[80]) tuple(r, s) }",
        1,
    ),
    "other rows": (
        HEAD + SOFTMAX + "  b = T[80,100] reverse(sb), dimensions={0}\n"
        "  ROOT r = T[80,100] divide(e, b) }",
        1,
    ),
    "columns": (
        HEAD + "  s = T[100] reduce(x, zero), dimensions={0}, to_apply=sm\n"
        "  sb = T[80,100] broadcast(s), dimensions={1} ROOT r = T[80,100] subtract(x, sb) }",
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_reductions_are_absorbed_where_rows_go_together(name: str) -> None:
    text, left = PROGRAMS[name]
    comp = flatten(parse(text.replace("T[", "f32[")).entry)
    roles = roles_in(comp)
    absorb_rows(comp, roles)
    kernels = [i for i in comp if i.opcode == "reduce" and roles[i] is Role.KERNEL]
    assert len(kernels) == left


def test_the_search_for_reductions_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    length, count = 300, 0
    chain = "".join(f"  a{n + 1} = T[80,100] add(a{n}, x)\n" for n in range(length))
    text = (
        f"{HEAD}  s = T[100] reduce(x, zero), dimensions={{0}}, to_apply=sm\n"
        f"  a0 = T[80,100] broadcast(s), dimensions={{1}}\n{chain}"
        f"  ROOT r = T[80,100] negate(a{length}) }}"
    )
    comp = parse(text.replace("T[", "f32[")).entry

    def counted(inst: Instruction) -> bool:
        nonlocal count
        count += 1
        return is_on_demand(inst)

    monkeypatch.setattr(rows, "is_on_demand", counted)
    absorb_rows(comp, dict.fromkeys(comp, Role.KERNEL))
    assert length < count < 4 * length


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("t", ["f64", "f32", "bf16"])
def test_results(name: str, t: str) -> None:
    text = PROGRAMS[name][0].replace("T[", f"{t}[")
    rng = np.random.default_rng(7)
    args = []
    for p in parse(text).entry.parameters:
        assert isinstance(p.shape, ArrayShape)
        args.append(random_array(rng, ELEMENT_TYPES[t], p.shape.dims))
    tolerance = {"f64": 1e-12, "f32": 1e-5, "bf16": 3e-2}[t]
    check(text, args, rtol=tolerance, atol=tolerance * (100 if name == "variance" else 1))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("layout", ["2,1,0", "0,2,1"])
def test_threads_share_a_concatenation(axis: int, layout: str) -> None:
    sizes = (40, 3, 0, 17)
    dims = [[n if d == axis else 35 for d in range(3)] for n in sizes]
    whole = [sum(sizes) if d == axis else 35 for d in range(3)]
    operands = ", ".join(f"s32[{','.join(map(str, x))}] p{i}" for i, x in enumerate(dims))
    shape = f"s32[{','.join(map(str, whole))}]{{{layout}}}"
    text = f"{shape} concatenate({operands}), dimensions={{{axis}}}"
    args = [np.random.default_rng(i).integers(0, 99, x, np.int32) for i, x in enumerate(dims)]
    for threads in (1, 2):
        got = compiled_for(text, threads)(*args)
        np.testing.assert_array_equal(got, np.concatenate(args, axis))
