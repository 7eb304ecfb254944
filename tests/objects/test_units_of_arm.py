"""AArch64's instructions for products of narrow types: by qemu, or by a processor that has them."""

from __future__ import annotations

import platform as system
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hlo.frontends.text import parse
from hlo.values.types import ELEMENT_TYPES
from tests.harness.c_programs import run_program
from tests.harness.native import MACHINES, Machine

# What each set of features computes products with, by the types of operands.
INSTRUCTIONS = {
    "+dotprod": {("s8", "s8"): "sdot", ("u8", "u8"): "udot"},
    "+dotprod,+i8mm": {("s8", "s8"): "smmla", ("u8", "s8"): "usmmla", ("u8", "u8"): "ummla"},
    "+bf16": {("bf16", "bf16"): "bfmmla"},
}
# Of a row, products are not taken by squares.
OF_ROWS = {"smmla": "sdot", "usmmla": "usdot", "ummla": "udot", "bfmmla": "bfdot"}
CASES = [(f, *t, name) for f, names in INSTRUCTIONS.items() for t, name in names.items()]


def machine(features: str) -> Machine:
    """Return a machine that has features, which the test needs."""
    arm = MACHINES["aarch64"]
    if system.machine() != "aarch64":
        emulator, *options = arm.runner
        arm = replace(arm, features=features, runner=(emulator, "-cpu", "max", *options))
        arm.need()
        return arm
    here = Path("/proc/cpuinfo").read_text()
    names = {"+dotprod": "asimddp", "+i8mm": "i8mm", "+bf16": "bf16"}
    for feature in features.split(","):
        if names[feature] not in here:
            pytest.skip(f"this processor lacks {feature[1:]}")
    return replace(MACHINES["native"], triple="aarch64-linux-gnu", features=features)


def module(lhs: str, rhs: str) -> str:
    """Return products of many sizes and orders, and a convolution with padding."""
    total = "f32" if lhs == "bf16" else "s32"
    lines, results, n = list[str](), list[str](), 0
    for m, k, columns in ((1, 40, 70), (37, 70, 43), (9, 700, 17)):
        for a, b in ((2, 1), (1, 2))[: 2 if m == 37 else 1]:
            left, right = (f"2,{m},{k}", f"2,{k},{columns}")
            left = left if a == 2 else f"2,{k},{m}"
            right = right if b == 1 else f"2,{columns},{k}"
            lines.append(f"""
  a{n} = {lhs}[{left}] parameter({2 * n})
  b{n} = {rhs}[{right}] parameter({2 * n + 1})
  c{n} = {total}[2,{m},{columns}] dot(a{n}, b{n}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{{a}}}, rhs_contracting_dims={{{b}}}""")
            results.append(f"{total}[2,{m},{columns}]")
            n += 1
    lines.append(f"""
  x = {lhs}[2,9,11,24] parameter({2 * n})
  w = {rhs}[3,3,24,20] parameter({2 * n + 1})
  c{n} = {total}[2,5,6,20] convolution(x, w), window={{size=3x3 stride=2x2 pad=1_1x1_1}},
    dim_labels=b01f_01io->b01f""")
    results.append(f"{total}[2,5,6,20]")
    names = ", ".join(f"c{i}" for i in range(n + 1))
    return (
        f"HloModule m\nENTRY main {{{''.join(lines)}\n"
        f"  ROOT all = ({', '.join(results)}) tuple({names})\n}}\n"
    )


def values(text: str) -> list[np.ndarray]:
    """Return arguments of all numbers of 8 bits, but of bf16 such whose sums are exact."""
    rng, result = np.random.default_rng(1), list[np.ndarray]()
    for shape in parse(text).entry.parameter_shapes:
        et = shape.element_type
        low, high = (-16, 16) if et is ELEMENT_TYPES["bf16"] else (
            np.iinfo(et.dtype).min, np.iinfo(et.dtype).max
        )  # fmt: skip
        dims = shape.dims
        result.append(rng.integers(low, high, dims, endpoint=True).astype(et.dtype))
    return result


@pytest.mark.parametrize(("features", "lhs", "rhs", "name"), CASES)
def test_products(tmp_path: Path, features: str, lhs: str, rhs: str, name: str) -> None:
    on = machine(features)
    text = module(lhs, rhs)
    run_program(tmp_path, on, text, values(text))
    listing = subprocess.run(
        ["aarch64-linux-gnu-objdump", "-d", "m.o"], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    for wanted in {name, OF_ROWS.get(name, name)}:
        assert f"\t{wanted}\t" in listing
