"""Updates in place, concatenations, copies to layouts, gathers and random bits on GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.emulated import check_emulated, program


@pytest.mark.parametrize(
    ("dims", "part", "starts"),
    [
        ((100, 16), (10, 16), (5, 0)), ((100, 16), (10, 7), (95, 20)), ((1,), (1,), (3,)),
        ((5, 6, 7), (2, 3, 4), (-3, 2, 1)), ((8,), (0,), (3,)), ((4, 300), (4, 299), (0, 1)),
    ],
)  # fmt: skip
def test_update(dims: tuple[int, ...], part: tuple[int, ...], starts: tuple[int, ...]) -> None:
    whole, some = (",".join(map(str, d)) for d in (dims, part))
    names = [f"i{n}" for n in range(len(starts))]
    parameters = " ".join(f"{name} = s32[] parameter({n + 2})" for n, name in enumerate(names))
    rng = np.random.default_rng(7)
    check_emulated(
        f"""
HloModule m
ENTRY e {{ x = f32[{whole}] parameter(0) u = f32[{some}] parameter(1) {parameters}
  ROOT y = f32[{whole}] dynamic-update-slice(x, u, {", ".join(names)}) }}""",
        rng.standard_normal(dims, np.float32), rng.standard_normal(part, np.float32),
        *map(np.int32, starts),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "result", "axis"),
    [
        (("100,16", "10,16", "3,16"), "113,16", 0), (("5,6", "5,1", "5,300"), "5,307", 1),
        (("0,3", "2,3"), "2,3", 0), (("2,3,4", "2,5,4"), "2,8,4", 1),
    ],
)  # fmt: skip
def test_concatenate(shapes: tuple[str, ...], result: str, axis: int) -> None:
    operands = " ".join(f"x{n} = bf16[{s}] parameter({n})" for n, s in enumerate(shapes))
    names = ", ".join(f"x{n}" for n in range(len(shapes)))
    check_emulated(f"""
HloModule m
ENTRY e {{ {operands}
  ROOT y = bf16[{result}] concatenate({names}), dimensions={{{axis}}} }}""")


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1:T(2,4)}", "{1,0:E(4)}"])
def test_copy_to_a_layout(layout: str) -> None:
    et = "s4" if "E" in layout else "f32"
    check_emulated(f"""
HloModule m, entry_computation_layout={{({et}[10,21]{{1,0}})->{et}[10,21]{layout}}}
ENTRY e {{ x = {et}[10,21] parameter(0) ROOT y = {et}[10,21]{layout} copy(x) }}""")


def test_gather_of_rows() -> None:
    text = """
HloModule m
ENTRY e { x = f32[50,64] parameter(0) i = s32[30,1] parameter(1)
  ROOT y = f32[30,64] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,64} }"""
    rng = np.random.default_rng(8)
    x, i = rng.standard_normal((50, 64), np.float32), rng.integers(-9, 60, (30, 1), dtype=np.int32)
    check_emulated(text, x, i)


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
@pytest.mark.parametrize("et", ["u8", "u16", "u32", "u64"])
@pytest.mark.parametrize("dims", ["", "1", "1000", "7,33", "3,5,7"])
def test_random_bits(algorithm: str, et: str, dims: str) -> None:
    check_emulated(
        f"""
HloModule m
ENTRY e {{ s = u64[2] parameter(0)
  ROOT r = (u64[2], {et}[{dims}]) rng-bit-generator(s), algorithm={algorithm} }}""",
        np.array([5, 2**64 - 3], np.uint64),
    )


def test_many_random_bits_have_many_threads() -> None:
    found, _ = program("""
HloModule m
ENTRY e { s = u64[2] parameter(0)
  ROOT r = (u64[2], u32[1000000]) rng-bit-generator(s), algorithm=rng_three_fry }""")
    (launch,) = found.plan.launches
    assert launch.blocks * launch.threads >= 500_000
