"""Which loops one kernel runs together, and that they compute the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from hlo.analysis.fusion.operations import is_multi_output
from hlo.analysis.fusion.roles import Role
from hlo.codegen.lower.prepare import flatten
from hlo.codegen.plan.roles import assign_roles, fuse_siblings
from hlo.frontends.text import parse
from hlo.ir import Instruction
from hlo.testing.sampling import random_array
from hlo.values.types import F32
from tests.harness.run_compiled import check

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
# name: (body of an entry with parameters x, y and z of f32[90,7], the kernels of several results)
PROGRAMS = {
    "an optimizer's step": (
        "c = f32[] constant(0.9) b = f32[90,7] broadcast(c), dimensions={} "
        "m1 = f32[90,7] multiply(x, b) m = f32[90,7] add(m1, y) "
        "q = f32[90,7] multiply(y, y) v1 = f32[90,7] multiply(z, b) v = f32[90,7] add(v1, q) "
        "s = f32[90,7] rsqrt(v) u = f32[90,7] multiply(m, s) p = f32[90,7] subtract(x, u) "
        "ROOT r = (f32[90,7], f32[90,7], f32[90,7]) tuple(p, m, v)",
        [("m", "v", "p")],
    ),
    "types of several widths": (
        "c = f64[90,7] convert(x) b = bf16[90,7] convert(x) n = pred[90,7] compare(x, y), "
        "direction=LT ROOT r = (f64[90,7], bf16[90,7], pred[90,7]) tuple(c, b, n)",
        [("c", "b", "n")],
    ),
    "nothing in common": (
        "a = f32[90,7] negate(x) b = f32[90,7] negate(y) "
        "ROOT r = (f32[90,7], f32[90,7]) tuple(a, b)",
        [],
    ),
    "another order of elements": (
        "a = f32[90,7]{0,1} negate(x) b = f32[90,7]{1,0} abs(x) "
        "ROOT r = (f32[90,7]{0,1}, f32[90,7]{1,0}) tuple(a, b)",
        [],
    ),
    "one needs the sum of the other": (
        "a = f32[90,7] negate(x) n = f32[] constant(0) "
        "s = f32[] reduce(a, n), dimensions={0,1}, to_apply=sum "
        "t = f32[90,7] broadcast(s), dimensions={} b = f32[90,7] add(x, t) "
        "ROOT r = (f32[90,7], f32[90,7]) tuple(a, b)",
        [],
    ),
    "one reads the other under another name": (
        "a = f32[90,7] exponential(x) w = f32[630] reshape(a) e = f32[630] negate(w) "
        "d = f32[90,7] reshape(e) b = f32[90,7] add(d, x) "
        "ROOT r = (f32[90,7], f32[90,7], f32[630]) tuple(a, b, e)",
        [],
    ),
    "one reads the other elsewhere": (
        "a = f32[90,7] exponential(x) w = f32[90,7] reverse(a), dimensions={0} "
        "b = f32[90,7] add(w, x) ROOT r = (f32[90,7], f32[90,7]) tuple(a, b)",
        [],
    ),
    "what lies between is needed elsewhere too": (
        "a = f32[90,7] exponential(x) w = f32[90,7] negate(a) b = f32[90,7] add(w, x) "
        "v = f32[90,7] reverse(w), dimensions={0} c = f32[90,7] add(v, y) "
        "ROOT r = (f32[90,7], f32[90,7], f32[90,7]) tuple(a, b, c)",
        [("b", "c")],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_siblings(name: str) -> None:
    body, wanted = PROGRAMS[name]
    inputs = " ".join(f"{p} = f32[90,7] parameter({n})" for n, p in enumerate("xyz"))
    text = f"HloModule m\n{SUM}ENTRY e {{ {inputs} {body} }}"
    comp = flatten(parse(text).entry)
    fuse_siblings(comp, assign_roles(comp))
    found = [tuple(o.name for o in i.operands) for i in comp if is_multi_output(i)]
    assert found == wanted
    rng = np.random.default_rng(3)
    args = [np.abs(random_array(rng, F32, (90, 7))) for _ in range(3)]
    check(text, args, rtol=1e-5, atol=1e-5)


def test_loops_change_several_arrays_in_place() -> None:
    text = """HloModule m
test { s = (s32[], f32[300], f32[300]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9) ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[300], f32[300]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[300] get-tuple-element(s), index=1 v = f32[300] get-tuple-element(s), index=2
  k = s32[] constant(1) j = s32[] add(i, k)
  h = f32[] constant(0.1) b = f32[300] broadcast(h), dimensions={}
  f = f32[300] multiply(x, b) w = f32[300] subtract(v, f)
  g = f32[300] multiply(w, b) y = f32[300] add(x, g)
  ROOT r = (s32[], f32[300], f32[300]) tuple(j, y, w) }
ENTRY e { x = f32[300] parameter(0) v = f32[300] parameter(1) z = s32[] constant(0)
  s = (s32[], f32[300], f32[300]) tuple(z, x, v)
  ROOT w = (s32[], f32[300], f32[300]) while(s), condition=test, body=body }
"""
    rng = np.random.default_rng(3)
    check(text, [random_array(rng, F32, (300,)) for _ in range(2)], rtol=1e-5, atol=1e-5)


def test_functions_of_chains_are_computed_once() -> None:
    """What is cut because it is long is no part of two kernels, whatever they have in common."""
    lines, x = [], "x"
    for n in range(40):
        lines.append(f"p{n} = f32[90,7] add({x}, y) t{n} = f32[90,7] tanh(p{n}) "
                     f"q{n} = f32[90,7] add(t{n}, y) v{n} = f32[90,7] tanh(q{n}) "
                     f"m{n} = f32[90,7] multiply(v{n}, {x})")  # fmt: skip
        x = f"m{n}"
    text = (
        "HloModule m\nENTRY e { x = f32[90,7] parameter(0) y = f32[90,7] parameter(1)\n"
        + "\n".join(lines)
        + f"\nROOT r = f32[90,7] negate({x}) }}"
    )
    entry = flatten(parse(text).entry)
    roles = fuse_siblings(entry, assign_roles(entry))
    computed = [
        inst.name
        for root, role in roles.items()
        if role is Role.KERNEL
        for inst in _fused(root, roles)
        if inst.opcode == "tanh"
    ]
    assert len(computed) == len(set(computed)) == 80
    rng = np.random.default_rng(1)
    check(text, [random_array(rng, F32, (90, 7)) for _ in range(2)], rtol=1e-3, atol=1e-5)


def _fused(root: Instruction, roles: Mapping[Instruction, Role]) -> set[Instruction]:
    """Return what a kernel computes."""
    found, todo = {root}, [root]
    while todo:
        new = {o for o in todo.pop().operands if roles[o] is Role.FUSED} - found
        found |= new
        todo += new
    return found
