"""Launch plans: which launches a program takes, and where its scalars lie."""

from __future__ import annotations

import pytest

from hlo.codegen.launches import program as launches
from hlo.codegen.launches import scalars
from hlo.codegen.launches.program import GpuProgram, write_launches
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.lowering import Clock, plan
from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.gpu.plan import Copy, HostCall, Launch, Region, Switch, While
from tests.gpu.emulated import check_emulated

GPU = Nvptx("sm_90")


def program(text: str) -> GpuProgram:
    return write_launches(plan(parse(text), GPU, Clock(), passes=""), GPU)


def entry(body: str, functions: str = "") -> str:
    return f"HloModule m\n{functions}\nENTRY e {{\n{body}\n}}\n"


def test_a_chain_of_elementwise_operations_is_one_launch() -> None:
    p = program(
        entry(
            "x = f32[100,8] parameter(0)\n s = f32[] parameter(1)\n q = f32[] multiply(s, s)\n"
            "b = f32[100,8] broadcast(q), dimensions={}\n y = f32[100,8] add(x, b)\n"
            "ROOT z = f32[100,8] tanh(y)"
        )
    )
    (launch,) = p.plan.steps
    assert isinstance(launch, Launch)
    assert [place.region for place in launch.places] == [
        Region.RESULT,
        Region.ARGUMENT,
        Region.ARGUMENT,
    ]
    assert p.instructions[launch.kernel].name == "z"
    assert not p.plan.scalar_bytes


def test_scalars_that_are_results_are_stored_by_one_launch() -> None:
    p = program(
        entry(
            "s = f32[] parameter(0)\n t = f32[] parameter(1)\n a = f32[] add(s, t)\n"
            "b = f32[] multiply(a, t)\n ROOT r = (f32[], f32[]) tuple(a, b)"
        )
    )
    (launch,) = p.plan.steps
    assert isinstance(launch, Launch)
    assert (launch.blocks, launch.threads) == (1, 1)


def test_equal_kernels_are_written_once() -> None:
    p = program(
        entry(
            "x = f32[2000000] parameter(0)\n y = f32[2000000] parameter(1)\n"
            "a = f32[2000000] exponential(x)\n b = f32[2000000] exponential(y)\n"
            "ROOT r = (f32[2000000], f32[2000000]) tuple(a, b)"
        )
    )
    first, second = p.plan.launches
    assert first.kernel == second.kernel
    assert first.places != second.places


_STEP = """
cond {{ p = (s32[], f32[{n}]) parameter(0) i = s32[] get-tuple-element(p), index=0
 ROOT c = pred[] compare(i, {end}), direction=LT }}
body {{ p = (s32[], f32[{n}]) parameter(0) i = s32[] get-tuple-element(p), index=0
 x = f32[{n}] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)
 r = f32[{n}] reverse(x), dimensions={{0}} y = f32[{n}] add(x, r)
 ROOT t = (s32[], f32[{n}]) tuple(j, y) }}
"""


def _loop(n: int, end: str = "s32[] constant(9)") -> str:
    functions = _STEP.format(n=n, end="end").replace("ROOT c", f"end = {end} ROOT c")
    return entry(
        f"x = f32[{n}] parameter(0)\n zero = s32[] constant(0)\n"
        f"t = (s32[], f32[{n}]) tuple(zero, x)\n"
        f"w = (s32[], f32[{n}]) while(t), condition=cond, body=body\n"
        f"ROOT r = f32[{n}] get-tuple-element(w), index=1",
        functions,
    )


def test_a_small_loop_is_one_launch_of_one_block() -> None:
    p = program(_loop(100))
    loop = p.plan.launches[-1]
    assert loop.blocks == 1
    assert not [step for step in p.plan.all_steps() if isinstance(step, While)]


def test_a_large_loop_is_launched_from_the_host_which_knows_its_trip_count() -> None:
    p = program(_loop(1 << 20))
    (loop,) = [step for step in p.plan.steps if isinstance(step, While)]
    assert loop.trips == 9
    assert any(isinstance(step, Launch) for step in loop.body)


def test_a_loop_of_unknown_length_ends_a_launch_now_and_then() -> None:
    text = entry(
        "n = s32[] parameter(0)\n w = s32[] while(n), condition=cond, body=body\n"
        "ROOT r = s32[] negate(w)",
        "cond { i = s32[] parameter(0) one = s32[] constant(1)"
        " ROOT c = pred[] compare(i, one), direction=GT }\n"
        "body { i = s32[] parameter(0) two = s32[] constant(2) h = s32[] divide(i, two)"
        " three = s32[] constant(3) one = s32[] constant(1) m = s32[] multiply(i, three)"
        " o = s32[] add(m, one) q = s32[] and(i, one) z = s32[] constant(0)"
        " e = pred[] compare(q, z), direction=EQ ROOT s = s32[] select(e, h, o) }",
    )
    (loop,) = [step for step in program(text).plan.all_steps() if isinstance(step, While)]
    assert loop.trips is None
    assert loop.body == ()
    (launch,) = loop.condition
    assert isinstance(launch, Launch)
    assert loop.flag in launch.places


@pytest.mark.parametrize("predicate", ["pred[]", "s32[]"])
def test_branches_are_chosen_by_a_number_in_memory(predicate: str) -> None:
    how = "branch_computations={yes, no}" if predicate == "s32[]" else (
        "true_computation=yes, false_computation=no"
    )  # fmt: skip
    text = entry(
        f"p = {predicate} parameter(0)\n x = f32[4] parameter(1)\n"
        f"ROOT r = f32[4] conditional(p, x, x), {how}",
        "yes { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }\n"
        "no { x = f32[4] parameter(0) ROOT y = f32[4] exponential(x) }",
    )
    steps = program(text).plan.steps
    (switch,) = [step for step in steps if isinstance(step, Switch)]
    assert len(switch.branches) == 2
    assert all(branch for branch in switch.branches)


def test_what_the_host_runs_has_the_places_of_its_operands() -> None:
    text = entry(
        "x = f32[4] parameter(0)\n y = f32[4] negate(x)\n"
        'c = f32[4] custom-call(y), custom_call_target="mine"\n ROOT r = f32[4] negate(c)'
    )
    p = program(text)
    (call,) = [step for step in p.plan.steps if isinstance(step, HostCall)]
    assert p.calls[call.number].name == "c"
    assert [size for _, size in (*call.operands, *call.results)] == [16, 16]


def test_a_parameter_that_is_a_result_is_copied() -> None:
    (copy,) = program(entry("ROOT x = f32[7] parameter(0)")).plan.steps
    assert isinstance(copy, Copy)
    assert copy.size == 28


def test_a_scalar_that_a_kernel_computes_is_written_where_the_caller_expects_it() -> None:
    text = entry(
        "x = f32[64] parameter(0)\n z = f32[] constant(0)\n"
        "r = f32[] reduce(x, z), dimensions={0}, to_apply=sum\n ROOT t = (f32[]) tuple(r)",
        "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }",
    )
    (launch,) = program(text).plan.steps
    assert isinstance(launch, Launch)
    assert launch.places[0].region is Region.RESULT


_SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"


def test_what_is_made_of_a_sum_ends_its_reduction() -> None:
    text = entry(
        "x = f32[300,7] parameter(0)\n n = f32[] parameter(1)\n z = f32[] constant(0)\n"
        "r = f32[] reduce(x, z), dimensions={0,1}, to_apply=sum\n"
        "m = f32[] divide(r, n)\n ROOT s = f32[] sqrt(m)",
        _SUM,
    )
    (launch,) = program(text).plan.steps
    assert isinstance(launch, Launch)
    assert launch.instruction == "s"
    check_emulated(text)


def test_scalars_are_computed_where_they_are_read_and_stored_by_what_runs_next() -> None:
    text = entry(
        "k = s32[4] parameter(0)\n x = s32[600] parameter(1)\n"
        "a = s32[1] slice(k), slice={[1:2]}\n b = s32[] reshape(a)\n c = s32[] negate(b)\n"
        "d = s32[600] broadcast(c), dimensions={}\n e = s32[600] add(x, d)\n"
        "ROOT r = (s32[], s32[600]) tuple(c, e)"
    )
    (launch,) = program(text).plan.steps
    assert isinstance(launch, Launch)
    assert launch.blocks > 1
    check_emulated(text)


def test_a_number_of_an_array_that_is_overwritten_is_read_before() -> None:
    text = entry(
        "x = s32[600] parameter(0)\n y = s32[600] reverse(x), dimensions={0}\n"
        "a = s32[1] slice(y), slice={[5:6]}\n b = s32[] reshape(a)\n"
        "u = s32[] add(b, b)\n d = s32[600] broadcast(u), dimensions={}\n"
        "z = s32[600] reverse(y), dimensions={0}\n e = s32[600] add(z, d)\n"
        "w = s32[600] sort(e), dimensions={0}, to_apply=less\n"
        "v = s32[1] slice(w), slice={[0:1]}\n v0 = s32[] reshape(v)\n"
        "ROOT r = (s32[], s32[600], s32[]) tuple(u, w, v0)",
        "less { a = s32[] parameter(0) b = s32[] parameter(1)"
        " ROOT c = pred[] compare(a, b), direction=LT }",
    )
    check_emulated(text)


def test_more_blocks_than_a_launch_can_have_are_an_error() -> None:
    text = entry("x = u8[17592186044416] parameter(0)\n ROOT y = u8[17592186044416] negate(x)")
    with pytest.raises(HloError, match=r"y: a kernel of 4294967296 blocks.*2147483647") as caught:
        program(text)
    assert (caught.value.code, caught.value.diagnostics[0].span is not None) == ("too-large", True)


def test_more_parameters_than_a_kernel_can_have_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Nvptx, "most_parameters", 2)
    text = entry("s = f32[] parameter(0)\n t = f32[] parameter(1)\n ROOT a = f32[] add(s, t)")
    with pytest.raises(HloError, match="a kernel of 3 arrays and scalars") as caught:
        program(text)
    assert caught.value.code == "too-large"


def test_padded_scalars_have_room_for_their_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here all scalars are kept, as long ones are."""
    for module in (scalars, launches):
        monkeypatch.setattr(module, "MOST_OPERATIONS", 0)
    text = entry(
        "n = s32[] parameter(0) x = s32[4] parameter(1) c = s32[]{:L(64)} copy(n)\n"
        "b = s32[4] broadcast(c), dimensions={} y = s32[4] multiply(b, x)\n"
        "ROOT t = (s32[]{:L(64)}, s32[4]) tuple(c, y)"
    )
    check_emulated(text)
