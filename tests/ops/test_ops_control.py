"""Control flow and structure: values against XLA, broken signatures, deep and long programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.eval import Host, Interpreter, interpret
from hlo.eval.interpreter import MAX_CALL_DEPTH
from hlo.frontends.text import parse
from hlo.values.arrays import TOKEN_VALUE
from tests.harness.run_both import errors, run, run_both

F32 = np.float32


def scalar(value: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(value, dtype)


# --- while --------------------------------------------------------------------------------------

COUNT = """HloModule count
condition {
  p = (s32[], s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  x = f32[3] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[] convert(j)
  b = f32[3] broadcast(f), dimensions={}
  y = f32[3] add(x, b)
  ROOT t = (s32[], s32[], f32[3]) tuple(j, n, y)
}
ENTRY e {
  n = s32[] parameter(0)
  x = f32[3] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], s32[], f32[3]) tuple(zero, n, x)
  ROOT w = (s32[], s32[], f32[3]) while(t), condition=condition, body=body
}
"""


@pytest.mark.parametrize("n", [-1, 0, 1, 10])
def test_while_runs_its_body_as_long_as_the_condition_holds(n: int) -> None:
    x = np.array([0, -1, 2.5], np.float32)
    i, _, y = run_both(COUNT, [scalar(n, np.int32), x])
    assert i == max(n, 0)
    np.testing.assert_array_equal(y, x + F32(sum(range(1, max(n, 0) + 1))))


def test_while_may_carry_one_array_and_nest() -> None:
    text = """HloModule nested
inner_condition {
  p = s32[] parameter(0)
  n = s32[] constant(7)
  r = s32[] remainder(p, n)
  z = s32[] constant(0)
  ROOT c = pred[] compare(r, z), direction=NE
}
inner_body { p = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT q = s32[] add(p, one)
}
outer_condition { p = s32[] parameter(0)
  n = s32[] constant(50)
  ROOT c = pred[] compare(p, n), direction=LT
}
outer_body { p = s32[] parameter(0)
  one = s32[] constant(1)
  q = s32[] add(p, one)
  ROOT w = s32[] while(q), condition=inner_condition, body=inner_body
}
ENTRY e { p = s32[] parameter(0)
  ROOT w = s32[] while(p), condition=outer_condition, body=outer_body
}
"""
    assert run_both(text, [scalar(3, np.int32)]) == 56


def test_a_long_loop_of_scalars_stays_affordable() -> None:
    # Not a timing: a hundred thousand calls would not end if each was planned anew.
    i, _, _ = interpret(parse(COUNT), [scalar(20_000, np.int32), np.zeros(3, np.float32)])
    assert i == 20_000


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("ROOT c = pred[] compare(i, n), direction=LT", "ROOT c = s32[] add(i, n)",
         "bad-computation", "condition condition returns s32[]"),
        ("ROOT t = (s32[], s32[], f32[3]) tuple(j, n, y)", "ROOT t = (s32[], s32[]) tuple(j, n)",
         "bad-computation", "body body returns (s32[], s32[])"),
        ("while(t)", "while(x)", "bad-computation", "parameter 0 has shape (s32[], s32[], f32[3])"),
    ],
)  # fmt: skip
def test_a_broken_loop_is_an_error(old: str, new: str, code: str, message: str) -> None:
    assert old in COUNT
    found = errors(COUNT.replace(old, new))
    assert any(c == code and message in m for c, m in found), found


# --- conditional --------------------------------------------------------------------------------

SWITCH = """HloModule switch
negated { x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x) }
doubled { x = (f32[2], s32[]) parameter(0)
  y = f32[2] get-tuple-element(x), index=0
  ROOT r = f32[2] add(y, y) }
squared { x = f32[2] parameter(0)
  ROOT r = f32[2] multiply(x, x) }
ENTRY e {
  i = s32[] parameter(0)
  a = f32[2] parameter(1)
  t = (f32[2], s32[]) tuple(a, i)
  ROOT c = f32[2] conditional(i, a, t, a), branch_computations={negated, doubled, squared}
}
"""
CHOICE = """HloModule choice
negated { x = f32[2] parameter(0)
  ROOT r = f32[2] negate(x) }
doubled { x = f32[2] parameter(0)
  ROOT r = f32[2] add(x, x) }
ENTRY e {
  p = pred[] parameter(0)
  a = f32[2] parameter(1)
  b = f32[2] parameter(2)
  ROOT c = f32[2] conditional(p, a, b), true_computation=negated, false_computation=doubled
}
"""


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1])
def test_an_index_outside_the_branches_selects_the_last(index: int) -> None:
    a = np.array([3, -5], np.float32)
    got = run_both(SWITCH, [scalar(index, np.int32), a])
    want = {0: -a, 1: a + a}.get(index, a * a)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("predicate", [True, False])
def test_a_predicate_selects_the_operand_of_its_branch(predicate: bool) -> None:
    a, b = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    got = run_both(CHOICE, [scalar(predicate, np.bool_), a, b])
    np.testing.assert_array_equal(got, -a if predicate else b + b)


@pytest.mark.parametrize(
    ("text", "old", "new", "code"),
    [
        (SWITCH, "i = s32[] parameter(0)", "i = s64[] parameter(0)", "type-mismatch"),
        (SWITCH, "branch_computations={negated, doubled, squared}", "branch_computations={}",
         "bad-value"),
        (SWITCH, "conditional(i, a, t, a)", "conditional(i, a, t)", "operand-count"),
        (SWITCH, "conditional(i, a, t, a)", "conditional(i, a, a, a)", "bad-computation"),
        (SWITCH, "squared { x = f32[2] parameter(0)\n  ROOT r = f32[2] multiply(x, x) }",
         "squared { x = f32[2] parameter(0)\n  ROOT r = pred[2] compare(x, x), direction=EQ }",
         "bad-computation"),
        (CHOICE, ", false_computation=doubled", "", "missing-attribute"),
        (CHOICE, "true_computation=negated, false_computation=doubled",
         "branch_computations={negated, doubled}", "unknown-attribute"),
    ],
)  # fmt: skip
def test_a_broken_conditional_is_an_error(text: str, old: str, new: str, code: str) -> None:
    assert old in text
    assert code in [c for c, _ in errors(text.replace(old, new))]


# --- call and fusion ----------------------------------------------------------------------------


def test_call_and_fusion_evaluate_their_computation() -> None:
    text = """HloModule calls
half { x = f32[2] parameter(0)
  h = f32[] constant(0.5)
  b = f32[2] broadcast(h), dimensions={}
  ROOT r = f32[2] multiply(x, b) }
seven { ROOT c = f32[2] constant({7, 8}) }
fused { a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  d = f32[2] subtract(a, b)
  ROOT e = f32[2] exponential(d) }
ENTRY e {
  x = f32[2] parameter(0)
  c = f32[2] call(x), to_apply=half
  s = f32[2] call(), to_apply=seven
  ROOT f = f32[2] fusion(c, s), kind=kLoop, calls=fused
}
"""
    x = np.array([15, 16], np.float32)
    np.testing.assert_allclose(run_both(text, [x], ulps=2), np.exp(x / 2 - [7, 8]), rtol=1e-6)


def test_a_fusion_may_return_a_tuple() -> None:
    # XLA:CPU aborts on this before its own fusion pass has run; the specification has it.
    text = """HloModule outputs
fused { a = f32[2] parameter(0)
  n = f32[2] negate(a)
  ROOT t = (f32[2], f32[2]) tuple(n, a) }
ENTRY e { x = f32[2] parameter(0)
  ROOT f = (f32[2], f32[2]) fusion(x), kind=kLoop, calls=fused,
    output_to_operand_aliasing={{1}: (0, {})}
}
"""
    x = np.array([1, -0.0], np.float32)
    n, a = run(text, [x])
    assert n.tobytes() == (-x).tobytes() and a.tobytes() == x.tobytes()


FUSION = """HloModule m
fused { a = f32[2] parameter(0)
  ROOT n = f32[2] negate(a) }
ENTRY e { x = f32[2] parameter(0)
  y = s32[] parameter(1)
  ROOT f = f32[2] fusion(x), kind=kLoop, calls=fused
}
"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("fusion(x)", "fusion(x, x)", "bad-computation"),
        ("fusion(x)", "fusion(y)", "bad-computation"),
        ("calls=fused", "output_to_operand_aliasing={{}: (1, {})}, calls=fused",
         "index-out-of-range"),
        ("calls=fused", "output_to_operand_aliasing={{0}: (0, {})}, calls=fused",
         "index-out-of-range"),
        ("fusion(x), kind=kLoop", "fusion(x), kind=kLoops", "bad-value"),
        ("f = f32[2] fusion", "f = f32[3] fusion", "shape-mismatch"),
    ],
)  # fmt: skip
def test_a_broken_fusion_is_an_error(old: str, new: str, code: str) -> None:
    assert old in FUSION
    assert code in [c for c, _ in errors(FUSION.replace(old, new))]


# --- structure ----------------------------------------------------------------------------------


def test_tuples_tokens_barriers_and_domains_hand_values_on() -> None:
    text = """HloModule structure
ENTRY e {
  x = f32[2] parameter(0)
  t = (f32[2], (s32[])) parameter(1)
  k = token[] after-all()
  l = token[] after-all(k, k)
  y = f32[2] add-dependency(x, l)
  b = (f32[2], (s32[])) opt-barrier(t)
  i = (s32[]) get-tuple-element(b), index=1
  d = f32[2] domain(y), domain={kind="sharding", entry={maximal device=0}, exit={maximal device=1}}
  empty = () tuple()
  ROOT r = (f32[2], (s32[]), (), token[]) tuple(d, i, empty, l)
}
"""
    x = np.array([1, 2], np.float32)
    d, i, empty, token = run(text, [x, (x, (scalar(9, np.int32),))])
    assert d is x and i[0] == 9 and empty == () and token is TOKEN_VALUE


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("s32[] get-tuple-element((s32[]) t), index=1", "index-out-of-range"),
        ("s32[] get-tuple-element((s32[]) t), index=-1", "index-out-of-range"),
        ("s32[] get-tuple-element(s32[] t), index=0", "type-mismatch"),
        ("f32[] add-dependency(f32[] x, f32[] y)", "type-mismatch"),
        ("f32[] add-dependency(f32[] x)", "operand-count"),
        ("f32[2] opt-barrier(f32[3] x)", "shape-mismatch"),
        ('f32[] domain(f32[] x), domain={kind="other", entry={manual}, exit={manual}}',
         "bad-value"),
    ],
)  # fmt: skip
def test_broken_structure_is_an_error(line: str, code: str) -> None:
    assert code in [c for c, _ in errors(line)]


# --- the interpreter ----------------------------------------------------------------------------


def chain(depth: int) -> str:
    lines = ["HloModule chain", "c0 { p = f32[] parameter(0)\n  ROOT r = f32[] negate(p) }"]
    for i in range(1, depth):
        body = f"p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=c{i - 1}"
        lines.append(f"{'ENTRY ' if i == depth - 1 else ''}c{i} {{ {body} }}")
    return "\n".join(lines)


def test_a_deep_chain_of_calls_runs() -> None:
    assert run(chain(MAX_CALL_DEPTH - 1), [scalar(2)]) == -2


def test_a_chain_of_calls_too_deep_is_an_error_with_a_place() -> None:
    with pytest.raises(HloError) as e:
        interpret(parse(chain(10_000)), [scalar(2)])
    assert e.value.code == "call-depth" and e.value.diagnostics[0].span is not None


def test_an_error_names_the_innermost_instruction() -> None:
    text = """HloModule inner
deep { p = f32[] parameter(0)
  ROOT bad = f32[] custom-call(p), custom_call_target="nobody" }
middle { p = f32[] parameter(0)
  ROOT m = f32[] call(p), to_apply=deep }
ENTRY e { x = f32[4] parameter(0)
  ROOT r = f32[4] map(x), dimensions={0}, to_apply=middle }
"""
    with pytest.raises(HloError) as e:
        run(text, [np.ones(4, np.float32)])
    assert ":3:" in str(e.value) and "bad" in str(e.value)


def test_a_result_that_no_machine_holds_is_an_error() -> None:
    text = "f32[1000000,1000000,1000000] broadcast(f32[] x), dimensions={}"
    with pytest.raises(HloError) as e:
        interpret(parse(text), [scalar(0)])
    assert e.value.code == "out-of-memory" and e.value.diagnostics[0].span is not None


def test_an_interpreter_can_be_used_again_after_an_error() -> None:
    host = Host()
    interpreter = Interpreter(host)
    module = parse('f32[] custom-call(f32[] x), custom_call_target="later"')
    with pytest.raises(HloError):
        interpreter.call(module.entry, [scalar(1)])
    host.custom_calls["later"] = lambda op, args: args[0] + np.float32(1)
    assert interpreter.call(module.entry, [scalar(1)]) == 2


APPLY = """HloModule apply
{helpers}
body {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  {body} }}
ENTRY e {{ x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  ROOT m = f32[2,3] map(x, y), dimensions={{0,1}}, to_apply=body }}
"""


NEGATED = "f { p = f32[] parameter(0)\n  ROOT n = f32[] negate(p) }\n"
DOUBLED = "g { p = f32[] parameter(0)\n  ROOT n = f32[] add(p, p) }\n"
LESS = "c = pred[] compare(a, b), direction=LT\n"
CLIMB = """c { p = (f32[], f32[]) parameter(0)
  x = f32[] get-tuple-element(p), index=0
  y = f32[] get-tuple-element(p), index=1
  ROOT c = pred[] compare(x, y), direction=LT }
d { p = (f32[], f32[]) parameter(0)
  x = f32[] get-tuple-element(p), index=0
  y = f32[] get-tuple-element(p), index=1
  one = f32[] constant(1)
  z = f32[] add(x, one)
  ROOT t = (f32[], f32[]) tuple(z, y) }
"""


@pytest.mark.parametrize(
    ("helpers", "body", "want"),
    [
        ("", "ROOT r = f32[] multiply(a, b)", lambda a, b: a * b),
        ("", "ROOT r = f32[] constant(3)", lambda a, b: np.full_like(a, 3)),
        ("", "c = f32[] constant(3)\n  d = f32[] negate(c)\n  ROOT r = f32[] add(a, d)",
         lambda a, b: a - 3),
        ("", LESS + "ROOT r = f32[] select(c, a, b)", np.minimum),
        ("", "t = (f32[], f32[]) tuple(a, b)\n  ROOT r = f32[] get-tuple-element(t), index=1",
         lambda a, b: b),
        (NEGATED, "ROOT r = f32[] call(a), to_apply=f", lambda a, b: -a),
        (NEGATED + DOUBLED, LESS +
         "ROOT r = f32[] conditional(c, a, b), true_computation=f, false_computation=g",
         lambda a, b: np.where(a < b, -a, b + b)),
        (CLIMB, "t = (f32[], f32[]) tuple(a, b)\n"
         "  w = (f32[], f32[]) while(t), condition=c, body=d\n"
         "  ROOT r = f32[] get-tuple-element(w), index=0",
         lambda a, b: np.where(a < b, a + np.ceil(b - a), a)),
    ],
)  # fmt: skip
def test_a_scalar_computation_is_applied_to_each_element(
    helpers: str, body: str, want: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> None:
    # XLA:CPU aborts on a map whose body has a call or a loop, so numpy says what is right.
    x = np.array([[1, 2, 3], [-4, 0.5, 0]], np.float32)
    y = np.array([[3, 2, 1], [4, -0.5, 1]], np.float32)
    got = run(APPLY.format(helpers=helpers, body=body), [x, y])
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want(x, y))


ENDLESS = """HloModule endless
condition {{ s = (pred[], s32[]) parameter(0)  {test} }}
body {{ s = (pred[], s32[]) parameter(0)  p = pred[] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  {more}
  ROOT t = (pred[], s32[]) tuple(p, j) }}
ENTRY e {{ p = pred[] parameter(0)  i = s32[] parameter(1)  t = (pred[], s32[]) tuple(p, i)
  w = (pred[], s32[]) while(t), condition=condition, body=body
  ROOT r = s32[] get-tuple-element(w), index=1 }}
"""
_ALWAYS = "ROOT go = pred[] constant(true)"
_INFEED = "a = token[] after-all()  in = (f32[], token[]) infeed(a)"


@pytest.mark.parametrize(
    ("test", "more", "code"),
    [
        (_ALWAYS, "", "endless-loop"),
        ("ROOT go = pred[] get-tuple-element(s), index=0", "", "endless-loop"),
        # The host may end it, here by having nothing more to read.
        (_ALWAYS, _INFEED, "empty-queue"),
    ],
)
def test_a_loop_that_never_ends_is_an_error(test: str, more: str, code: str) -> None:
    text = ENDLESS.format(test=test, more=more)
    args = [np.True_, np.int32(3)]
    with pytest.raises(HloError) as e:
        run(text, args)
    assert e.value.code == code
    for passes in ("", "default"):
        exe = hlo.compile(parse(text), cache=False, passes=passes)
        with pytest.raises(HloError) as e:
            exe(*args)
        assert e.value.code == code
        if test != _ALWAYS:
            assert exe(np.False_, np.int32(3)) == 3
