"""Which values a kernel computes on the way, and which are written to memory."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.codegen.lower.prepare import flatten
from hlo.codegen.plan.roles import FusionRules, assign_roles
from hlo.frontends.text import parse
from hlo.testing.sampling import random_array
from hlo.values.types import F32
from tests.harness.run_compiled import check

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"

# name: (body of an entry with parameters x and y of f32[300], roles by instruction)
PROGRAMS = {
    "comes together again": (
        "e = f32[300] exponential(x) s = f32[300] sine(e) ROOT r = f32[300] add(e, s)",
        {"e": "FUSED", "s": "FUSED"},
    ),
    "comes together after more": (
        "e = f32[300] exponential(x) a = f32[300] add(e, y) b = f32[300] multiply(e, a) "
        "c = f32[300] subtract(a, b) d = f32[300] add(b, c) ROOT r = f32[300] tanh(d)",
        dict.fromkeys("eabcd", "FUSED"),
    ),
    "two results": (
        "e = f32[300] exponential(x) a = f32[300] add(e, y) b = f32[300] multiply(e, y) "
        "ROOT r = (f32[300], f32[300]) tuple(a, b)",
        {"e": "KERNEL", "a": "KERNEL", "b": "KERNEL"},
    ),
    "at another index": (
        "e = f32[300] exponential(x) v = f32[300] reverse(e), dimensions={0} "
        "ROOT r = f32[300] add(e, v)",
        {"e": "KERNEL", "v": "FUSED"},
    ),
    "a number that decides": (
        "i = s32[300] convert(x) n = s32[] constant(5) b = s32[300] broadcast(n), dimensions={} "
        "s = s32[300] shift-left(i, b) d = s32[300] divide(s, b) ROOT r = s32[300] add(d, b)",
        {"n": "FUSED"},
    ),
    "a number among others": (
        "n = f32[] constant(5) b = f32[300] broadcast(n), dimensions={} "
        "ROOT r = f32[300] divide(b, x)",
        {"n": "SCALAR"},
    ),
    "a number that is a result too": (
        "n = f32[] constant(5) b = f32[300] broadcast(n), dimensions={} "
        "d = f32[300] divide(x, b) ROOT r = (f32[300], f32[]) tuple(d, n)",
        {"n": "SCALAR"},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_roles(name: str) -> None:
    body, wanted = PROGRAMS[name]
    text = f"HloModule m\nENTRY e {{ x = f32[300] parameter(0) y = f32[300] parameter(1) {body} }}"
    comp = flatten(parse(text).entry)
    roles = {inst.name: role.name for inst, role in assign_roles(comp).items()}
    assert {n: roles[n] for n in wanted} == wanted
    rng = np.random.default_rng(3)
    check(text, [random_array(rng, F32, (300,)) for _ in range(2)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("opcode", "kernels"), [("negate", 1), ("sine", 43)])
def test_a_chain_in_which_all_is_used_twice(opcode: str, kernels: int) -> None:
    """Of cheap operations it is one kernel; a kernel of costly ones would wait for each.

    Of the sums that several of these read every third is stored, instead of computed from all.
    """
    lines, a, b = [], "x", "y"
    for n in range(30):
        lines.append(f"a{n} = f32[300] add({a}, {b}) b{n} = f32[300] {opcode}({b}) "
                     f"c{n} = f32[300] multiply(b{n}, a{n})")  # fmt: skip
        a, b = f"a{n}", f"c{n}"
    text = (
        "HloModule m\nENTRY e { x = f32[300] parameter(0) y = f32[300] parameter(1)\n"
        + "\n".join(lines)
        + f"\nROOT r = f32[300] add({a}, {b}) }}"
    )
    roles = assign_roles(flatten(parse(text).entry))
    assert sum(role.name == "KERNEL" for role in roles.values()) == kernels


def test_sums_along_residual_connections_are_stored() -> None:
    """Each layer reads the sum so far, not all that was added up."""
    lines, x = [], "x"
    for n in range(9):
        lines.append(f"t{n} = f32[64,32] tanh({x}) v{n} = f32[64,32] dot(t{n}, w), "
                     f"{DOT} x{n} = f32[64,32] add({x}, v{n})")  # fmt: skip
        x = f"x{n}"
    text = (
        "HloModule m\nENTRY e { x = f32[64,32] parameter(0) w = f32[32,32] parameter(1)\n"
        + "\n".join(lines)
        + f"\nROOT r = f32[64,32] negate({x}) }}"
    )
    roles = assign_roles(flatten(parse(text).entry), FusionRules(chains=None))
    assert [i.name for i, role in roles.items() if role.name == "KERNEL" and i.opcode == "add"] == [
        "x1", "x3", "x5", "x7",
    ]  # fmt: skip
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(np.float32) / 8 for shape in ((64, 32), (32, 32)))
    check(text, [x, w], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("length", "is_cut"), [(300, True), (300_000, False)])
def test_long_chains_of_functions_are_cut_in_the_cache(length: int, is_cut: bool) -> None:
    lines = [f"x{n + 1} = f32[{length}] tanh(x{n})" for n in range(17)]
    text = (
        f"HloModule m\nENTRY e {{ x0 = f32[{length}] parameter(0)\n"
        + "\n".join(lines)
        + f"\nROOT r = f32[{length}] negate(x17) }}"
    )
    roles = assign_roles(flatten(parse(text).entry))
    kernels = [i.name for i, role in roles.items() if role.name == "KERNEL"]
    assert kernels == (["x6", "x12", "r"] if is_cut else ["r"])
    x = np.linspace(-3, 3, length, dtype=np.float32)
    check(text, [x], rtol=1e-4, atol=1e-6)
