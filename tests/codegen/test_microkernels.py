"""Microkernels written only for these tests: what a record says is all that a product asks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from hlo.codegen.kernels import planners
from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.kernels.matmul.microkernels import (
    Microkernel,
    PanelFormat,
    PanelOrder,
    Writes,
    block_function,
    microkernels,
    registry,
)
from hlo.codegen.kernels.matmul.microkernels.outer_product import outer_products
from hlo.codegen.kernels.matmul.product import Dim, Leaf, Product, Source
from hlo.codegen.kernels.matmul.scheduler import best_schedule
from hlo.codegen.llvm import Builder, Index, ModuleBuilder, Val
from hlo.codegen.loops.vectors import Types
from hlo.codegen.targets.base import LlvmTarget
from hlo.codegen.targets.cpu import cpu_target
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.llvm import vector_type
from hlo.runtime import kept
from hlo.values.types import ELEMENT_TYPES, ElementType
from tests.harness.oracle import assert_same, leaves
from tests.harness.run_compiled import compiled_for

S8, S32, BF16, F32 = (ELEMENT_TYPES[name] for name in ("s8", "s32", "bf16", "f32"))

# Sizes with and without remainders in a tile of any of these; the last is cut into blocks of k.
SIZES = [(1, 1, 1), (4, 16, 8), (5, 7, 3), (9, 64, 17), (33, 130, 40), (1, 50, 30), (30, 50, 1),
         (70, 1200, 37)]  # fmt: skip


def group_at(b: Builder, kernel: Microkernel, side: str, free: int, group: Index) -> str:
    """Return the address of a group of an operand, by its number in the tile and along k."""
    strides = {s.name: s.name for s in kernel.strides(side)}
    by_free = strides.get("%a_row" if side == "a" else "%b_column", 1)
    by_group = strides.get(f"%{side}_k", 1)
    at = b.add(b.mul(by_free, free), b.mul(group, by_group))
    return b.element_address(f"%{side}", kernel.panel(side).type, at)


def emit_in_scalars(b: Builder, kernel: Microkernel) -> None:
    """Write a tile whose groups are multiplied as vectors of k, one row and column at a time."""
    EMITTED.append(kernel.name)
    total, group = kernel.arithmetic, kernel.group
    stored = [(i, j) for i in range(kernel.mr) for j in range(kernel.nr)]
    zero = Val(total.type, "0.0" if kernel.total.is_float else "0")
    with b.carrying(0, "%k", [zero] * len(stored), plain=True) as turn:
        following = []
        for (i, j), before in zip(stored, turn.values, strict=True):
            x, y = (
                values_of(b, kernel, side, group_at(b, kernel, side, n, turn.index))
                for side, n in (("a", i), ("b", j))
            )
            vector = vector_type(group, total.type)
            product = total.multiply_add(b, x, y, Val(vector, "zeroinitializer"))
            (lanes,) = total.add_lanes(b, [product], group)
            following.append(total.add(b, before, b.extract_element(lanes, 0)))
        turn.values = following
    for (i, j), value in zip(stored, turn.values, strict=True):
        if kernel.writes is Writes.SUMS:
            b.store(value, b.element_address("%out", total.type, i * kernel.nr + j))
            continue
        address = b.element_address("%c", total.type, b.add(b.mul("%c_row", i), j))
        before = b.select(Val("i1", "%more"), b.load(total.type, address), zero)
        b.store(total.add(b, before, value), address)


def values_of(b: Builder, kernel: Microkernel, side: str, address: str) -> Val:
    """Return a group of an operand as a vector of the type of sums."""
    panel = kernel.panel(side)
    bits = max(8, panel.element.bits)
    result = vector_type(kernel.group, kernel.arithmetic.type)
    if panel.element is kernel.total:
        return b.load(result, address, align=bits // 8)
    raw = b.load(vector_type(kernel.group, f"i{bits}"), address, align=bits // 8)
    if panel.element is BF16:
        wide = b.cast("zext", raw, vector_type(kernel.group, "i32"))
        sixteen = ", ".join(["i32 16"] * kernel.group)
        return b.cast("bitcast", b.binary("shl", wide, f"<{sixteen}>"), result)
    return b.cast("sext", raw, result)


# The names of the microkernels that were emitted.
EMITTED: list[str] = []

# Calls that do nothing, in the place of setting a unit up and releasing it.
SETUP, RELEASE = "llvm.sideeffect", "llvm.donothing"


def call(b: Builder, function: str) -> None:
    b.module.declare(function, "void", [])
    b.call_void(function, [])


# As instructions have them: one element at a time; 2x2 blocks of eight s8 or four bf16 (i8mm,
# bfmmla); rows of A with k inside by strips of B in groups, in a unit that is set up before (AMX).
SCALAR = Microkernel(
    "test.scalar", 1, 1, 1, PanelFormat(F32, PanelOrder.ANY),
    PanelFormat(F32, PanelOrder.K_OUTERMOST, is_padded=True), F32, 0.01, 0.0, emit_in_scalars,
)  # fmt: skip
SQUARES = Microkernel(
    "test.squares", 4, 4, 8, PanelFormat(S8, PanelOrder.K_OUTERMOST, 8, is_padded=True),
    PanelFormat(S8, PanelOrder.K_OUTERMOST, 8, is_padded=True), S32, 0.01, 0.0, emit_in_scalars,
    lanes=4,
)  # fmt: skip
LINES = Microkernel(
    "test.lines", 2, 3, 4, PanelFormat(BF16, PanelOrder.K_INNERMOST, 4, is_padded=True),
    PanelFormat(BF16, PanelOrder.K_INNERMOST, 4, is_padded=True), F32, 0.01, 0.0, emit_in_scalars,
    Writes.SUMS,
)  # fmt: skip
UNIT = Microkernel(
    "test.unit", 6, 8, 32, PanelFormat(S8, PanelOrder.K_INNERMOST, 4, is_padded=True),
    PanelFormat(S8, PanelOrder.K_OUTERMOST, 4, is_padded=True), S32, 0.01, 0.0, emit_in_scalars,
    lanes=8,
    prologue=lambda b: call(b, SETUP),
    epilogue=lambda b: call(b, RELEASE),
    attributes=('"no-builtins"',),
)  # fmt: skip

KERNELS = [SCALAR, SQUARES, LINES, UNIT]

Use = Callable[[Microkernel], list[str]]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Return a function after which products are computed by a microkernel, if it is for them.

    Other products are computed by outer products. It returns the names of what was emitted since.
    """

    def use(kernel: Microkernel) -> list[str]:
        def family(
            target: LlvmTarget, lhs: ElementType, rhs: ElementType, total: ElementType
        ) -> Iterator[Microkernel]:
            if (lhs, rhs, total) == (kernel.lhs.element, kernel.rhs.element, kernel.total):
                yield kernel
            else:
                yield from outer_products(target, lhs, rhs, total)

        monkeypatch.setattr(registry, "_FAMILIES", [family])
        monkeypatch.setattr(planners, "_plans", {})
        kept.forget()
        EMITTED.clear()
        return EMITTED

    return use


def values(rng: np.random.Generator, et: ElementType, dims: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-128, 128, dims).astype(et.dtype)


def check(text: str, args: list[np.ndarray], *, threads: int = 1) -> None:
    """Compare native code with the interpreter: all sums here are exact."""
    got = leaves(compiled_for(text, threads)(*args))
    assert_same(got, leaves(interpret(parse(text), args)), rtol=0, atol=0)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("sizes", SIZES)
def test_dot_of_any_size_and_order(
    use: Use, kernel: Microkernel, sizes: tuple[int, int, int]
) -> None:
    (m, k, n), et, total = sizes, kernel.lhs.element, kernel.total
    lines, args, results = [], [], []
    rng = np.random.default_rng(m + 7 * k + 31 * n)
    for number, (a, b) in enumerate(itertools.product((0, 1), repeat=2)):
        lhs, rhs = ((3, k, m) if a else (3, m, k)), ((3, n, k) if b else (3, k, n))
        args += [values(rng, et, lhs), values(rng, et, rhs)]
        lines.append(f"""
  a{number} = {et}[{",".join(map(str, lhs))}] parameter({2 * number})
  b{number} = {et}[{",".join(map(str, rhs))}] parameter({2 * number + 1})
  c{number} = {total}[3,{m},{n}] dot(a{number}, b{number}), lhs_batch_dims={{0}},
    rhs_batch_dims={{0}}, lhs_contracting_dims={{{2 - a}}}, rhs_contracting_dims={{{1 + b}}}""")
        results.append(f"{total}[3,{m},{n}]")
    text = f"""HloModule m
ENTRY main {{{"".join(lines)}
  ROOT all = ({", ".join(results)}) tuple(c0, c1, c2, c3)
}}"""
    emitted = use(kernel)
    check(text, args)
    assert emitted == [kernel.name]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_sums_go_by_way_of_memory_where_no_row_or_column_is_contiguous(
    use: Use, kernel: Microkernel
) -> None:
    et = kernel.lhs.element
    text = f"""HloModule m
ENTRY main {{
  a = {et}[3,37,90] parameter(0)
  b = {et}[3,90,21] parameter(1)
  ROOT c = {kernel.total}[3,37,21]{{0,2,1}} dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}"""
    rng = np.random.default_rng(1)
    emitted = use(kernel)
    check(text, [values(rng, et, (3, 37, 90)), values(rng, et, (3, 90, 21))], threads=3)
    assert emitted == [kernel.name]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("features", [3, 32])
def test_convolution_with_padding(use: Use, kernel: Microkernel, features: int) -> None:
    et = kernel.lhs.element
    text = f"""HloModule m
ENTRY main {{
  x = {et}[2,9,11,{features}] parameter(0)
  w = {et}[3,3,{features},20] parameter(1)
  ROOT y = {kernel.total}[2,5,6,20] convolution(x, w), window={{size=3x3 stride=2x2 pad=1_1x1_1}},
    dim_labels=b01f_01io->b01f
}}"""
    rng = np.random.default_rng(features)
    emitted = use(kernel)
    args = [values(rng, et, (2, 9, 11, features)), values(rng, et, (3, 3, features, 20))]
    check(text, args, threads=3)
    assert emitted == [kernel.name]


def test_a_block_is_between_prologue_and_epilogue() -> None:
    module = ModuleBuilder("x86_64-linux-gnu", "", 64)
    text = module.functions[block_function(module, UNIT, is_light=False)].text
    assert 'nounwind "no-builtins" {' in text
    calls = re.findall(r"call void @([\w.]+)\(", text)
    assert (calls[0], calls[-1]) == (SETUP, RELEASE)
    assert calls.count(f"{UNIT.name}.tile") == 2


def test_a_target_has_the_microkernels_whose_features_it_has(use: Use) -> None:
    use(replace(UNIT, features=frozenset({"amx-int8"})))
    without, with_ = (
        cpu_target("x86_64-linux-gnu", "", features) for features in ("+avx2", "+avx2,+amx-int8")
    )
    assert UNIT.name not in [k.name for k in microkernels(without, S8, S8, S32)]
    assert UNIT.name in [k.name for k in microkernels(with_, S8, S8, S32)]
    assert UNIT.name not in [k.name for k in microkernels(with_, S8, S8, F32)]


@pytest.mark.parametrize("sizes", [(1, 64, 1), (7, 777, 16), (128, 64, 100)])
def test_small_integers_are_multiplied_in_pairs(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    product = Product(
        Source(Leaf(0), S8), Source(Leaf(1), S8), (), (Dim(m, a=k, c=n),), (Dim(n, b=1, c=1),),
        (Dim(k, a=1, b=n),), Arithmetic(S32), Types.of(S32),
    )  # fmt: skip
    schedule = best_schedule(product, cpu_target("x86_64-linux-gnu", "", "+avx2,+fma"))
    assert (schedule.kernel.group, schedule.kernel.lhs.element.name) == (2, "s16")
