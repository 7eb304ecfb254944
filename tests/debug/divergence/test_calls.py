"""`hlo.first_divergence` where a computation is called several times: calls are told apart."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import hlo
from hlo.debug.divergence.saved import first_of_trace
from hlo.debug.divergence.search import Search
from hlo.debug.divergence.sides import make_side
from hlo.debug.divergence.tolerance import Tolerance
from hlo.frontends.proto import from_proto, to_proto
from hlo.ir import Module
from tests.generators.miscompilations import mark, register

# A loop in a function that is called with two tables. The passes drop one of the calls.
LOOKUPS = """HloModule lookups
body {{ s = (s32[], f32[2], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = f32[2] get-tuple-element(s), index=1
  a = f32[] get-tuple-element(s), index=2
  ds = f32[1] dynamic-slice(t, i), dynamic_slice_sizes={{1}}
  d = f32[] reshape(ds)
  a2 = f32[] add(a, d)
  one = s32[] constant(1)
  i2 = s32[] add(i, one)
  ROOT r = (s32[], f32[2], f32[]) tuple(i2, t, a2) }}
cond {{ s = (s32[], f32[2], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  two = s32[] constant(2)
  ROOT l = pred[] compare(i, two), direction=LT }}
look {{ t = f32[2] parameter(0)
  a = f32[] parameter(1)
  z = s32[] constant(0)
  init = (s32[], f32[2], f32[]) tuple(z, t, a)
  w = (s32[], f32[2], f32[]) while(init), condition=cond, body=body
  ROOT g = f32[] get-tuple-element(w), index=2 }}
ENTRY e {{ q = f32[] parameter(0)
  t1 = f32[2] constant({{0.4, 1.9}})
  t2 = f32[2] constant({{1.9, 0.4}})
  l1 = f32[] call(t1, q), to_apply=look
  l2 = f32[] call(t2, q), to_apply=look
  {end} }}"""
ENDS = {
    "the second call is dropped": "p = pred[] constant(true) ROOT l = f32[] select(p, l1, l2)",
    "the first call is dropped": "p = pred[] constant(false) ROOT l = f32[] select(p, l1, l2)",
    "both calls stay": "ROOT l = f32[] subtract(l1, l2)",
    "a call of a call's result": "m = f32[] call(t1, l2), to_apply=look ROOT l = f32[] add(l1, m)",
    "equal calls": "l3 = f32[] call(t2, q), to_apply=look ROOT l = f32[] multiply(l2, l3)",
}

# Nothing but elementwise operations and data movement, called at two depths.
NESTED = """HloModule nested
half { x = f32[4] parameter(0) y = f32[4] parameter(1)
  s = f32[2] slice(x), slice={[1:3]}
  t = f32[2] slice(y), slice={[0:2]}
  d = f32[2] divide(s, t)
  ROOT c = f32[4] concatenate(d, s), dimensions={0} }
whole { x = f32[4] parameter(0) y = f32[4] parameter(1)
  a = f32[4] call(x, y), to_apply=half
  b = f32[4] call(y, x), to_apply=half
  ROOT r = f32[4] subtract(a, b) }
ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1)
  u = f32[4] call(x, y), to_apply=whole
  v = f32[4] call(y, u), to_apply=whole
  z = f32[4] call(u, x), to_apply=half
  p = pred[4] compare(x, x), direction=NE
  ROOT r = f32[4] select(p, z, v) }"""

VALUES = [np.float32([1, 2, 3, 5]), np.float32([2, -1, 4, 3])]


def undecided(module: Module, *values: object) -> tuple[object, object]:
    """Return the divergence by the default passes, and what is undecided."""
    left = make_side("passes", "reference", "default", module, "strict")
    right = make_side("reference", "reference", "", left.given, "strict")
    search = Search(left, right, values, Tolerance())
    return search.first(), search.undecided


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("has_spans", [True, False])
def test_calls_of_one_loop_are_told_apart(end: str, has_spans: bool) -> None:
    module = hlo.parse(LOOKUPS.format(end=end))
    if not has_spans:
        module = from_proto(to_proto(module))
    assert undecided(module, np.float32(0.5)) == (None, None)


def test_nested_calls_are_told_apart() -> None:
    assert undecided(hlo.parse(NESTED), *VALUES) == (None, None)


@pytest.mark.parametrize("has_spans", [True, False])
@pytest.mark.parametrize("passes", ["miscompile,default", "default,miscompile"])
@pytest.mark.parametrize(
    ("kind", "name"), [("swapped-parts", "c"), ("swapped-operands", "d"), ("lost-operand", "r")]
)
def test_a_wrong_instruction_in_a_called_computation_is_named(
    kind: str, name: str, passes: str, has_spans: bool
) -> None:
    register()
    module = hlo.parse(NESTED)
    comp = next(c for c in module.computations if c.get(name))
    marked = mark(module, kind, comp[name])
    marked = hlo.parse(str(marked)) if has_spans else from_proto(to_proto(marked))
    found = hlo.first_divergence(marked, *VALUES, backend=f"reference{{passes={passes}}}")
    assert found is not None and found.instruction.partition(".")[0] == name
    callers = [frame.instruction.partition(".")[0] for frame in found.frames]
    assert callers and set(callers) <= set("uvzab")


def test_where_all_results_agree_nothing_is_named() -> None:
    text = """HloModule m ENTRY e { x = f32[4] parameter(0)
      y = f32[4] negate(x)
      p = f32[4] multiply(y, y)
      tiny = f32[] constant(1e-30)
      b = f32[4] broadcast(tiny), dimensions={}
      q = f32[4] multiply(y, b)
      ROOT r = f32[4] add(p, q) }"""
    module = hlo.parse(text)
    wrong = hlo.parse(text.replace("multiply(y, b)", "multiply(p, b)"))
    assert hlo.first_divergence(module, VALUES[0], against=wrong, backend="reference") is None
    left, right = (make_side(m.name, "reference", "", m, "strict") for m in (module, wrong))
    search = Search(left, right, VALUES[:1], Tolerance())
    assert search.first() is None
    assert search.undecided is not None and search.undecided.instruction == "q"


# The passes hoist `t` out of the loop, into the element of its state that had `b`.
HOISTED = """HloModule hoisted
body { s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[4] get-tuple-element(s), index=1
  b = f32[4] get-tuple-element(s), index=2
  t = f32[4] tanh(b)
  u = f32[4] sine(t)
  c = f32[4] cosine(a)
  d = f32[4] subtract(c, u)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[4], f32[4]) tuple(j, d, b) }
more { s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1)
  z = s32[] constant(0)
  s = (s32[], f32[4], f32[4]) tuple(z, x, y)
  w = (s32[], f32[4], f32[4]) while(s), condition=more, body=body
  ROOT g = f32[4] get-tuple-element(w), index=1 }"""


def test_what_is_hoisted_into_an_element_of_the_state_is_no_divergence() -> None:
    assert undecided(hlo.parse(HOISTED), *VALUES) == (None, None)


@pytest.mark.parametrize("name", ["t", "u", "c"])
def test_what_is_wrong_where_another_value_is_hoisted_is_named(name: str) -> None:
    register()
    module = hlo.parse(HOISTED)
    body = next(c for c in module.computations if c.name == "body")
    marked = hlo.parse(str(mark(module, "other-operation", body[name])))
    for passes in ("miscompile,default", "default,miscompile"):
        found = hlo.first_divergence(marked, *VALUES, backend=f"reference{{passes={passes}}}")
        assert found is not None and found.instruction == name


def test_a_machine_that_is_wrong_beside_a_tuple_is_told() -> None:
    # XLA drops the initial value of a reduction of one element.
    module = hlo.parse("""HloModule f
      mx { a = s16[] parameter(0) b = s16[] parameter(1) ROOT r = s16[] maximum(a, b) }
      ENTRY e { a = s16[4,1] parameter(0) b = s16[3] parameter(1)
        n = s16[4,1] negate(a)
        w = (s16[4,1], s16[3]) tuple(n, b)
        wb = (s16[4,1], s16[3]) opt-barrier(w)
        z = s16[] constant(0)
        q = s16[4] reduce(n, z), dimensions={1}, to_apply=mx
        w1 = s16[3] get-tuple-element(wb), index=1
        w2 = s16[3] negate(w1)
        ROOT r = (s16[4], s16[3]) tuple(q, w2) }""")
    values = [np.int16([[1], [2], [3], [4]]), np.int16([1, 2, 3])]
    found = hlo.first_divergence(module, *values, against="xla", backend="reference")
    assert found is not None and (found.instruction, found.between) == ("q", "xla")
    assert [name for name, _ in found.operands] == ["n"]


BEFORE = """HloModule before
incr { lhs = f32[4] parameter(0) rhs = f32[4] constant({2,3,4,5})
  m = f32[4] multiply(lhs, rhs) ROOT add = f32[4] add(m, rhs) }
ENTRY main { x = f32[4] parameter(0)
  call.1 = f32[4] call(x), to_apply=incr
  n = f32[4] negate(x)
  call.2 = f32[4] call(n), to_apply=incr
  ROOT d = f32[4] divide(call.1, call.2) }"""
# What XLA's passes may make of it: names are others, and `add` was given to another value.
AFTER = """HloModule after
fused { p0 = f32[4] parameter(0) p1 = f32[4] parameter(1)
  c = f32[4] constant({2,3,4,5}), origin={{"call.1/rhs"}}
  m.3 = f32[4] multiply(p1, c), origin={{"call.2/m"}}
  add = f32[4] add(m.3, c), origin={{"call.2/add"}}
  n = f32[4] multiply(p0, c), origin={{"call.1/m"}}
  a1 = f32[4] add(n, c), origin={{"call.1/add"}}
  ROOT q = f32[4] divide(a1, add), origin={{"d"}} }
ENTRY main { x = f32[4] parameter(0), origin={{"x"}}
  k = f32[4] negate(x), origin={{"n"}}
  ROOT f = f32[4] fusion(x, k), kind=kLoop, calls=fused, origin={{"d"}} }"""


def test_origins_match_instructions_of_differently_optimized_modules() -> None:
    before, after = hlo.parse(BEFORE), hlo.parse(AFTER)
    for a, b in ((before, after), (after, before), (after, after.clone())):
        assert hlo.first_divergence(a, VALUES[0], against=b, backend="reference") is None
    wrong = hlo.parse(AFTER.replace("add(m.3, c)", "subtract(m.3, c)"))
    found = hlo.first_divergence(before, VALUES[0], against=wrong, backend="reference")
    assert found is not None and found.path == "call.2/add"
    found = hlo.first_divergence(wrong, VALUES[0], against=before, backend="reference")
    assert found is not None and found.instruction == "add"
    annotated = hlo.optimize(before.clone(), "add-original-value")
    for a, b in ((annotated, after), (after, annotated), (annotated, before)):
        assert hlo.first_divergence(a, VALUES[0], against=b, backend="reference") is None
    found = hlo.first_divergence(annotated, VALUES[0], against=wrong, backend="reference")
    assert found is not None and found.path == "call.2/add"


BRANCHES = """HloModule branches
up { a = f32[4] parameter(0) s = f32[4] sine(a) ROOT e = f32[4] exponential(s) }
down { a = f32[4] parameter(0) c = f32[4] cosine(a) ROOT e = f32[4] sort(c), dimensions={0}, \
to_apply=less }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }
choose { x = f32[4] parameter(0) p = pred[] parameter(1)
  n = f32[4] negate(x)
  ROOT c = f32[4] conditional(p, n, x), true_computation=up, false_computation=down }
ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1)
  z = f32[] constant(0)
  s = f32[1] slice(x), slice={[0:1]}
  f = f32[] reshape(s)
  p = pred[] compare(f, z), direction=GT
  q = pred[] not(p)
  u = f32[4] call(x, p), to_apply=choose
  v = f32[4] call(y, q), to_apply=choose
  w = f32[4] call(u, q), to_apply=choose
  d = f32[4] subtract(u, v)
  ROOT r = f32[4] divide(d, w) }"""


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_saved_traces_of_inlined_branches_and_loops_are_no_divergence(backend: str) -> None:
    for text, values in (
        (BRANCHES, VALUES), (LOOKUPS.format(end=ENDS["both calls stay"]), [np.float32(0.5)]),
    ):  # fmt: skip
        module = hlo.parse(text)
        assert hlo.first_divergence(module, *values, backend="reference{passes=default}") is None
        trace = hlo.trace(module, *values, select=["computation=*"], arrays=True, backend=backend)
        side = make_side("reference", "reference", "", module, "strict")
        assert first_of_trace(trace, "t.npz", side, values, Tolerance()) is None


def test_what_is_sent_by_a_module_without_results_is_compared() -> None:
    text = """HloModule m ENTRY e { x = f32[4] parameter(0)
      y = f32[4] cosine(x)
      z = f32[4] subtract(x, y)
      t = token[] after-all()
      ROOT o = token[] outfeed(z, t), outfeed_shape=f32[4] }"""
    module, wrong = hlo.parse(text), hlo.parse(text.replace("subtract(x, y)", "subtract(y, x)"))
    found = hlo.first_divergence(module, VALUES[0], against=wrong, backend="reference")
    assert found is not None and found.instruction == "z"
    assert hlo.first_divergence(module, VALUES[0], against="reference{passes=default}") is None


def test_xla_as_a_machine_leaves_the_types_of_jax_as_they_are() -> None:
    x = np.array([1.0, 2.0**-40])
    text = "HloModule m ENTRY e { x = f64[2] parameter(0) ROOT y = f64[2] add(x, x) }"
    assert hlo.first_divergence(hlo.parse(text), x, against="xla") is None
    assert jax.numpy.asarray(x).dtype == np.float32
