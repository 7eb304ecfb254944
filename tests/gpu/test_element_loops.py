"""Loops that go element by element: one launch for all turns."""

from __future__ import annotations

import pytest

from hlo.gpu.plan import Launch, While
from tests.gpu.emulated import check_emulated, program


def loop(body: str, n: int = 6000, turns: int = 9, results: str = "") -> str:
    """Return a loop whose state is a counter, two arrays that change, and one that does not."""
    state = f"(s32[], f32[{n}], f32[{n}], f32[100])"
    return f"""HloModule m
    cond {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
     end = s32[] constant({turns}) ROOT c = pred[] compare(i, end), direction=LT }}
    body {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
     x = f32[{n}] get-tuple-element(p), index=1 y = f32[{n}] get-tuple-element(p), index=2
     t = f32[100] get-tuple-element(p), index=3 one = s32[] constant(1) j = s32[] add(i, one)
     {body}
     ROOT r = {state} tuple(j, a, b, t) }}
    ENTRY e {{ x = f32[{n}] parameter(0) y = f32[{n}] parameter(1) t = f32[100] parameter(2)
     zero = s32[] constant(0) s = {state} tuple(zero, x, y, t)
     w = {state} while(s), condition=cond, body=body
     {results or f"ROOT q = f32[{n}] get-tuple-element(w), index=1"} }}"""


STEP = """a = f32[{n}] subtract(y, x) h = f32[{n}] sine(x) f = f32[] convert(i)
 g = f32[{n}] broadcast(f), dimensions={{}} k = f32[{n}] multiply(h, g) b = f32[{n}] add(k, x)"""
LOOKED_UP = """m = f32[{n}] abs(x) u = s32[{n}] convert(m) v = s32[{n},1] reshape(u)
 a = f32[{n}] gather(t, v), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
  index_vector_dim=1, slice_sizes={{1}}
 b = f32[{n}] add(a, y)"""
SWAPPED = "a = f32[{n}] copy(y) b = f32[{n}] negate(x)"
ALL = "ROOT q = (s32[], f32[{n}], f32[{n}]) tuple(c, a, b)"
TAKEN = "c = s32[] get-tuple-element(w), index=0 a = f32[{n}] get-tuple-element(w), index=1"


@pytest.mark.parametrize("body", [STEP, LOOKED_UP, SWAPPED])
@pytest.mark.parametrize("n", [1, 6000])
def test_all_turns_are_one_launch(body: str, n: int) -> None:
    results = f"{TAKEN} b = f32[{{n}}] get-tuple-element(w), index=2 {ALL}"
    text = loop(body.format(n=n), n, results=results.format(n=n))
    steps = program(text)[0].plan.steps
    assert not any(isinstance(step, While) for step in steps)
    assert sum(isinstance(step, Launch) for step in steps) == 1
    check_emulated(text)


def test_a_loop_that_reads_its_neighbours_is_launched_turn_by_turn() -> None:
    n = 600000
    body = f"a = f32[{n}] reverse(y), dimensions={{0}} b = f32[{n}] add(a, x)"
    (turns,) = [s for s in program(loop(body, n))[0].plan.steps if isinstance(s, While)]
    assert turns.trips is not None
    # The host counts: nothing stores the counter.
    assert all(step.instruction for step in turns.body if isinstance(step, Launch))
    assert not turns.condition
    check_emulated(loop(body.replace(str(n), "60"), 60))


def test_a_counter_is_kept_where_a_turn_reads_it() -> None:
    n = 300000
    body = STEP.format(n=n) + f" c = f32[{n}] reverse(b), dimensions={{0}}"
    text = loop(body, n).replace("tuple(j, a, b, t)", "tuple(j, a, c, t)")
    (turns,) = [s for s in program(text)[0].plan.steps if isinstance(s, While)]
    assert any(isinstance(step, Launch) and not step.instruction for step in turns.body)
    small = text.replace(str(n), "70")
    check_emulated(small)


def test_scalars_of_the_state_are_left_where_the_caller_expects_them() -> None:
    text = loop(STEP.format(n=50), 50, results="ROOT q = s32[] get-tuple-element(w), index=0")
    check_emulated(text)


def test_loops_over_empty_arrays_are_loops_like_others() -> None:
    state = "(s32[], f32[0])"
    check_emulated(f"""HloModule m
    cond {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
     end = s32[] constant(3) ROOT c = pred[] compare(i, end), direction=LT }}
    body {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
     x = f32[0] get-tuple-element(p), index=1 y = f32[0] tanh(x) one = s32[] constant(1)
     j = s32[] add(i, one) ROOT r = {state} tuple(j, y) }}
    ENTRY e {{ x = f32[0] parameter(0) zero = s32[] constant(0) s = {state} tuple(zero, x)
     ROOT w = {state} while(s), condition=cond, body=body }}""")
