"""Units of x86 for products of narrow types, by emulation and by processors that have them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hlo.codegen.kernels.matmul.microkernels import (
    Microkernel,
    block_function,
    microkernels,
    registry,
)
from hlo.codegen.kernels.matmul.microkernels.outer_product import outer_products
from hlo.codegen.llvm import ModuleBuilder
from hlo.codegen.targets.base import LlvmTarget
from hlo.codegen.targets.cpu import cpu_target
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.objects.targets import platform
from hlo.runtime.jit import host_machine
from hlo.values.types import ELEMENT_TYPES, ElementType
from tests.harness.emulated_units import emulated
from tests.harness.oracle import assert_same, leaves
from tests.harness.run_compiled import compiled_for

AVX512 = "+avx2,+fma,+avx512f,+avx512bw,+avx512vl"
TRIPLE = "x86_64-linux-gnu"
# Features with which a unit is the best that there is, types of operands, and the instruction.
UNITS = [
    (f"{AVX512},+avx512vnni", "s8", "s8", "vpdpbusd"),
    (f"{AVX512},+avx512vnni", "u8", "s8", "vpdpbusd"),
    ("+avx2,+fma,+avxvnni", "s8", "s8", "vpdpbusd"),
    ("+avx2,+fma,+avxvnniint8", "s8", "s8", "vpdpbssd"),
    ("+avx2,+fma,+avxvnniint8", "u8", "u8", "vpdpbuud"),
    (f"{AVX512},+avx512bf16", "bf16", "bf16", "vdpbf16ps"),
    (f"{AVX512},+amx-tile,+amx-int8", "s8", "s8", "tdpbssd"),
    (f"{AVX512},+amx-tile,+amx-int8", "s8", "u8", "tdpbsud"),
    (f"{AVX512},+amx-tile,+amx-int8", "u8", "s8", "tdpbusd"),
    (f"{AVX512},+amx-tile,+amx-int8", "u8", "u8", "tdpbuud"),
    (f"{AVX512},+amx-tile,+amx-bf16", "bf16", "bf16", "tdpbf16ps"),
]


def total_of(lhs: str) -> str:
    return "f32" if lhs == "bf16" else "s32"


def kernels_of(features: str, lhs: str, rhs: str) -> list[Microkernel]:
    """Return the microkernels that need a unit."""
    target = cpu_target(TRIPLE, "", features)
    types = [ELEMENT_TYPES[name] for name in (lhs, rhs, total_of(lhs))]
    return [k for k in microkernels(target, *types) if k.features]


# Found before a test puts others in their place.
KERNELS = {(u[0], *types): kernels_of(u[0], *types) for u in UNITS for types in (u[1:3], u[2:0:-1])}


@pytest.fixture
def emulation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have products computed by microkernels of a unit; returns the types of operands."""
    features, lhs, rhs, _ = request.param

    def family(
        target: LlvmTarget, left: ElementType, right: ElementType, total: ElementType
    ) -> Iterator[Microkernel]:
        found = KERNELS.get((features, left.name, right.name), [])
        found = [kernel for kernel in found if kernel.total is total]
        yield from map(emulated, found)
        if not found:
            yield from outer_products(target, left, right, total)

    monkeypatch.setattr(registry, "_FAMILIES", [family])
    return [lhs, rhs]


emulations = pytest.mark.parametrize(
    "emulation", UNITS, indirect=True, ids=lambda u: "-".join(u[1:])
)


def values(rng: np.random.Generator, name: str, dims: tuple[int, ...]) -> np.ndarray:
    """Return all numbers of 8 bits, but of bf16 such whose sums are exact."""
    dtype = ELEMENT_TYPES[name].dtype
    if name == "bf16":
        return rng.integers(-16, 17, dims).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, dims, endpoint=True).astype(dtype)


def check(text: str, args: list[np.ndarray]) -> None:
    got = leaves(compiled_for(text, 1)(*args))
    assert_same(got, leaves(interpret(parse(text), args)), rtol=0, atol=0)


@emulations
def test_products_and_a_padded_convolution(emulation: list[str]) -> None:
    lhs, rhs = emulation
    total = total_of(lhs)
    rng = np.random.default_rng(1)
    x, w = f"{lhs}[2,9,11,24]", f"{rhs}[3,3,24,20]"
    lines = [
        f"x = {x} parameter(0)", f"w = {w} parameter(1)",
        f"y = {total}[2,5,6,20] convolution(x, w), window={{size=3x3 stride=2x2 pad=1_1x1_1}}, "
        "dim_labels=b01f_01io->b01f",
    ]  # fmt: skip
    args = [values(rng, lhs, (2, 9, 11, 24)), values(rng, rhs, (3, 3, 24, 20))]
    results, names = [f"{total}[2,5,6,20]"], ["y"]
    # One row, parts of tiles, several blocks of k, a transposed B.
    for n, (m, k, columns, turned) in enumerate(
        ((1, 9, 70, 0), (37, 70, 43, 0), (5, 700, 33, 0), (33, 40, 18, 1))
    ):
        dims = (2, columns, k) if turned else (2, k, columns)
        args += [values(rng, lhs, (2, m, k)), values(rng, rhs, dims)]
        lines += [
            f"a{n} = {lhs}[2,{m},{k}] parameter({2 * n + 2})",
            f"b{n} = {rhs}[{','.join(map(str, dims))}] parameter({2 * n + 3})",
            f"c{n} = {total}[2,{m},{columns}] dot(a{n}, b{n}), lhs_batch_dims={{0}}, "
            f"rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
            f"rhs_contracting_dims={{{1 + turned}}}",
        ]
        results.append(f"{total}[2,{m},{columns}]")
        names.append(f"c{n}")
    lines.append(f"ROOT all = ({', '.join(results)}) tuple({', '.join(names)})")
    body = "\n  ".join(lines)
    check(f"HloModule m\nENTRY main {{\n  {body}\n}}", args)


@pytest.mark.parametrize(("features", "lhs", "rhs", "instruction"), UNITS)
def test_instructions(features: str, lhs: str, rhs: str, instruction: str) -> None:
    machine = platform(TRIPLE, None, features).machine
    found = KERNELS[features, lhs, rhs]
    assert found
    module = ModuleBuilder(target_triple=TRIPLE, data_layout=machine.data_layout)
    for kernel in found:
        block_function(module, kernel, is_light=False)
    text = module.to_text().replace("define internal", "define")
    listing = machine.assembly(machine.optimize(text))
    for kernel in found:
        code = listing.partition(f"\n{kernel.name}.tile:")[2].partition("cfi_endproc")[0]
        assert f"\t{instruction}\t" in code, kernel.name


@pytest.mark.parametrize(("features", "lhs", "rhs", "instruction"), UNITS)
def test_by_the_hardware(features: str, lhs: str, rhs: str, instruction: str) -> None:
    lacking = [f for f in features.split(",") if f not in host_machine().features.split(",")]
    if lacking:
        pytest.skip(f"this processor has no {instruction}: it lacks {', '.join(lacking)}")
    total = total_of(lhs)
    rng = np.random.default_rng(2)
    text = f"""HloModule m
ENTRY main {{
  a = {lhs}[3,70,300] parameter(0)
  b = {rhs}[3,300,90] parameter(1)
  ROOT c = {total}[3,70,90] dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}"""
    check(text, [values(rng, lhs, (3, 70, 300)), values(rng, rhs, (3, 300, 90))])


DENORMALS = """HloModule m
ENTRY main {
  a = bf16[4,8] parameter(0)
  b = bf16[8,16] parameter(1)
  ROOT c = f32[4,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}%s
}"""


@pytest.mark.parametrize("emulation", [u for u in UNITS if u[1] == "bf16"], indirect=True)
def test_denormals_count_unless_the_default_precision_is_asked_for(emulation: list[str]) -> None:
    a = np.full((4, 8), 2.0**-130).astype(ELEMENT_TYPES["bf16"].dtype)
    b = np.full((8, 16), 2.0**100).astype(ELEMENT_TYPES["bf16"].dtype)
    default = leaves(compiled_for(DENORMALS % "", 1)(a, b))[0]
    assert (default == 0).all()
    asked = ", operand_precision={highest,default}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_FAMILIES", [*registry._FAMILIES, outer_products])
        exact = leaves(compiled_for(DENORMALS % asked, 1)(a, b))[0]
    assert (exact == 2.0**-27).all()
