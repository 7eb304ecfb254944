"""Values that share memory: updates in place, loop state, results of branches, arguments."""

from __future__ import annotations

import numpy as np
import pytest

from tests.harness.run_compiled import check, compiled, compiled_for

X = np.arange(1, 7, dtype=np.int32)
Y = np.arange(10, 16, dtype=np.int32)

# A loop of three iterations over (counter, a, b); `{body}` makes the new `na` and `nb` of `i`, `a`
# and `b`, `{test}` may add to the condition.
LOOP = """HloModule loop
test {{
  s = (s32[], s32[6], s32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = s32[6] get-tuple-element(s), index=1
  b = s32[6] get-tuple-element(s), index=2
  three = s32[] constant(3)
  one = s32[] constant(1)
  more = pred[] compare(i, three), direction=LT
  {test}
}}
body {{
  s = (s32[], s32[6], s32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = s32[6] get-tuple-element(s), index=1
  b = s32[6] get-tuple-element(s), index=2
  one = s32[] constant(1)
  two = s32[2] constant({{7, 8}})
  ni = s32[] add(i, one)
  {body}
  ROOT n = (s32[], s32[6], s32[6]) tuple(ni, na, nb)
}}
ENTRY main {{
  x = s32[6] parameter(0)
  y = s32[6] parameter(1)
  zero = s32[] constant(0)
  {init}
  s = (s32[], s32[6], s32[6]) tuple(zero, ia, ib)
  w = (s32[], s32[6], s32[6]) while(s), condition=test, body=body
  ra = s32[6] get-tuple-element(w), index=1
  rb = s32[6] get-tuple-element(w), index=2
  ROOT r = ({types}) tuple({results})
}}
"""


def loop(
    body: str,
    init: str = "ia = s32[6] copy(x)\n  ib = s32[6] copy(y)",
    test: str = "ROOT m = pred[] copy(more)",
    results: str = "ra, rb",
) -> str:
    types = ", ".join(["s32[6]"] * len(results.split(",")))
    return LOOP.format(body=body, init=init, test=test, results=results, types=types)


STATES = {
    "swapped": loop("na = s32[6] copy(b)\n  nb = s32[6] copy(a)"),
    "swapped without copies": loop(
        "na = s32[6] get-tuple-element(s), index=2\n  nb = s32[6] get-tuple-element(s), index=1"
    ),
    "one made of both": loop("na = s32[6] add(a, b)\n  nb = s32[6] opt-barrier(a)"),
    "both made of both": loop("na = s32[6] add(a, b)\n  nb = s32[6] subtract(a, b)"),
    "one value for both": loop("na = s32[6] add(a, b)\n  nb = s32[6] opt-barrier(na)"),
    "updated in place": loop(
        "na = s32[6] dynamic-update-slice(a, two, i)\n  nb = s32[6] opt-barrier(b)"
    ),
    "updated and kept": loop("na = s32[6] dynamic-update-slice(a, two, i)\n  nb = s32[6] copy(a)"),
    "updated into the other": loop(
        "nb = s32[6] dynamic-update-slice(a, two, i)\n  na = s32[6] add(b, b)"
    ),
    "updated, then the other made of it": loop(
        "na = s32[6] dynamic-update-slice(a, two, i)\n  nb = s32[6] add(na, b)"
    ),
    "updated after it was read": loop(
        "nb = s32[6] reverse(a), dimensions={0}\n  na = s32[6] dynamic-update-slice(a, two, i)"
    ),
    "updated from itself": loop(
        "u = s32[3] slice(a), slice={[0:3]}\n  na = s32[6] dynamic-update-slice(a, u, i)\n"
        "  nb = s32[6] add(b, na)"
    ),
    "reversed": loop("na = s32[6] reverse(a), dimensions={0}\n  nb = s32[6] add(b, b)"),
    "from one value": loop(
        "na = s32[6] dynamic-update-slice(a, two, i)\n  nb = s32[6] add(b, na)",
        init="ia = s32[6] add(x, y)\n  ib = s32[6] opt-barrier(ia)",
    ),
    "from a value that is needed afterwards": loop(
        "na = s32[6] dynamic-update-slice(a, two, i)\n  nb = s32[6] add(b, na)",
        init="ia = s32[6] add(x, y)\n  ib = s32[6] copy(ia)",
        results="ra, rb, ia",
    ),
    "arguments": loop(
        "na = s32[6] dynamic-update-slice(a, two, i)\n  nb = s32[6] add(b, na)",
        init="ia = s32[6] opt-barrier(x)\n  ib = s32[6] opt-barrier(y)",
        results="ra, rb, x, y",
    ),
    "an argument that stays": loop(
        "na = s32[6] add(a, b)\n  nb = s32[6] opt-barrier(b)",
        init="ia = s32[6] opt-barrier(x)\n  ib = s32[6] opt-barrier(x)",
        results="ra, rb, ra",
    ),
    "a constant": loop(
        "na = s32[6] dynamic-update-slice(a, two, i)\n  nb = s32[6] add(b, na)",
        init="ia = s32[6] constant({1,2,3,4,5,6})\n  ib = s32[6] opt-barrier(ia)",
        results="ra, rb, ia",
    ),
    "read by a condition that changes it": loop(
        "na = s32[6] add(a, b)\n  nb = s32[6] opt-barrier(b)",
        test="u = s32[1] constant({-5})\n  c = s32[6] dynamic-update-slice(a, u, i)\n"
        "  f = s32[1] dynamic-slice(c, i), dynamic_slice_sizes={1}\n  g = s32[] reshape(f)\n"
        "  h = pred[] compare(g, one), direction=LT\n  ROOT m = pred[] and(more, h)",
    ),
    "not used afterwards": loop(
        "na = s32[6] dynamic-update-slice(a, two, i)\n  nb = s32[6] add(b, a)", results="rb"
    ),
    "written twice": loop(
        "u = s32[6] dynamic-update-slice(a, two, i)\n"
        "  na = s32[6] dynamic-update-slice(u, two, ni)\n"
        "  nb = s32[6] add(b, u)"
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_a_loop(name: str) -> None:
    check(STATES[name], [X, Y])


NESTED = """HloModule nested
inner_test {
  s = (s32[], s32[6]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  two = s32[] constant(2)
  ROOT m = pred[] compare(j, two), direction=LT
}
inner {
  s = (s32[], s32[6]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  c = s32[6] get-tuple-element(s), index=1
  one = s32[] constant(1)
  nj = s32[] add(j, one)
  part = s32[1] dynamic-slice(c, j), dynamic_slice_sizes={1}
  more = s32[1] add(part, part)
  nc = s32[6] dynamic-update-slice(c, more, nj)
  ROOT n = (s32[], s32[6]) tuple(nj, nc)
}
outer_test {
  s = (s32[], s32[6], s32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT m = pred[] compare(i, three), direction=LT
}
outer {
  s = (s32[], s32[6], s32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = s32[6] get-tuple-element(s), index=1
  b = s32[6] get-tuple-element(s), index=2
  one = s32[] constant(1)
  ni = s32[] add(i, one)
  zero = s32[] constant(0)
  t = (s32[], s32[6]) tuple(zero, %s)
  w = (s32[], s32[6]) while(t), condition=inner_test, body=inner
  na = s32[6] get-tuple-element(w), index=1
  nb = s32[6] add(b, %s)
  ROOT n = (s32[], s32[6], s32[6]) tuple(ni, %s)
}
ENTRY main {
  x = s32[6] parameter(0)
  y = s32[6] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], s32[6], s32[6]) tuple(zero, x, y)
  w = (s32[], s32[6], s32[6]) while(s), condition=outer_test, body=outer
  a = s32[6] get-tuple-element(w), index=1
  b = s32[6] get-tuple-element(w), index=2
  ROOT r = (s32[6], s32[6]) tuple(a, b)
}
"""


@pytest.mark.parametrize("init", ["a", "b"])
@pytest.mark.parametrize("added", ["a", "na"])
@pytest.mark.parametrize("carried", ["na, nb", "nb, na", "a, nb", "na, na", "na, a"])
def test_the_state_of_a_loop_in_a_loop(init: str, added: str, carried: str) -> None:
    check(NESTED % (init, added, carried), [X, Y])


def test_a_loop_in_a_loop_works_where_the_outer_one_keeps_its_state() -> None:
    text = (NESTED % ("a", "b", "na, nb")).replace("s32[6]", "s32[600]")
    # The state of the outer loop is in the results' memory, and so is that of the inner one.
    assert compiled(text).arena_bytes < 600 * X.itemsize


BRANCHES = """HloModule branches
one {
  p = (s32[6], s32[6]) parameter(0)
  a = s32[6] get-tuple-element(p), index=0
  b = s32[6] get-tuple-element(p), index=1
  u = s32[2] constant({7, 8})
  at = s32[] constant(1)
  n = s32[6] dynamic-update-slice(a, u, at)
  ROOT r = (s32[6], s32[6]) tuple(%s)
}
two {
  p = (s32[6], s32[6]) parameter(0)
  a = s32[6] get-tuple-element(p), index=0
  b = s32[6] get-tuple-element(p), index=1
  n = s32[6] subtract(a, b)
  ROOT r = (s32[6], s32[6]) tuple(%s)
}
ENTRY main {
  which = s32[] parameter(0)
  x = s32[6] parameter(1)
  y = s32[6] parameter(2)
  p = s32[6] add(x, y)
  q = s32[6] multiply(x, y)
  t = (s32[6], s32[6]) tuple(p, q)
  c = (s32[6], s32[6]) conditional(which, t, t), branch_computations={one, two}
  a = s32[6] get-tuple-element(c), index=0
  b = s32[6] get-tuple-element(c), index=1
  ROOT r = (%s) tuple(%s)
}
"""


@pytest.mark.parametrize("second", ["a, b", "b, a", "n, a", "a, a"])
@pytest.mark.parametrize("first", ["a, b", "n, b", "b, n", "n, n", "n, a"])
@pytest.mark.parametrize("afterwards", ["a, b", "a, b, p", "b, q"])
def test_results_of_branches(first: str, second: str, afterwards: str) -> None:
    types = ", ".join(["s32[6]"] * len(afterwards.split(",")))
    text = BRANCHES % (first, second, types, afterwards)
    for which in (0, 1, 5):
        check(text, [np.int32(which), X, Y])


def test_what_a_branch_hands_on_is_not_copied() -> None:
    text = """HloModule m
keep { p = s32[4096] parameter(0)
  ROOT r = s32[4096] copy(p) }
change { p = s32[4096] parameter(0)
  u = s32[2] constant({7, 8})
  at = s32[] constant(1)
  ROOT r = s32[4096] dynamic-update-slice(p, u, at) }
ENTRY main { c = pred[] parameter(0)
  x = s32[4096] parameter(1)
  a = s32[4096] add(x, x)
  ROOT r = s32[4096] conditional(c, a, a), true_computation=change, false_computation=keep }"""
    x = np.arange(4096, dtype=np.int32)
    for c in (False, True):
        check(text, [np.bool_(c), x])
    assert compiled(text).arena_bytes < x.nbytes


@pytest.mark.parametrize(
    "results",
    ["x", "x, x", "x, y", "y, x", "s, s", "s, x, s", "c, c", "c, s, c", "u, s", "s, u", "u, u"],
)
def test_results_that_are_one_value_or_an_argument(results: str) -> None:
    types = ", ".join(["s32[6]"] * len(results.split(",")))
    check(
        f"""HloModule m
ENTRY main {{
  x = s32[6] parameter(0)
  y = s32[6] parameter(1)
  c = s32[6] constant({{6, 5, 4, 3, 2, 1}})
  s = s32[6] add(x, y)
  k = s32[] constant(2)
  p = s32[2] slice(y), slice={{[0:2]}}
  u = s32[6] dynamic-update-slice(s, p, k)
  ROOT r = ({types}) tuple({results})
}}
""",
        [X, Y],
    )


@pytest.mark.parametrize("results", ["s, x", "x, s", "u, x", "y, x", "x, y", "u, s", "s, u"])
def test_results_in_the_memory_of_arguments(results: str) -> None:
    aliases = "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"
    text = f"""HloModule m, {aliases}
ENTRY main {{
  x = s32[6] parameter(0)
  y = s32[6] parameter(1)
  k = s32[] constant(2)
  p = s32[2] slice(y), slice={{[0:2]}}
  u = s32[6] dynamic-update-slice(x, p, k)
  s = s32[6] subtract(x, y)
  ROOT r = (s32[6], s32[6]) tuple({results})
}}
"""
    want = check(text, [X, Y])
    got = compiled(text)(X.copy(), Y.copy(), donate=True)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_updates_one_after_the_other_are_of_one_array() -> None:
    lines = [
        f"  v{n} = s32[4096] dynamic-update-slice(v{n - 1}, p, k{n % 2})" for n in range(1, 20)
    ]
    text = (
        "HloModule m\nENTRY main {\n  x = s32[4096] parameter(0)\n  p = s32[2] constant({1, 2})\n"
        "  k0 = s32[] constant(5)\n  k1 = s32[] constant(9)\n  v0 = s32[4096] add(x, x)\n"
        + "\n".join(lines)
        + "\n  ROOT r = s32[4096] negate(v19)\n}\n"
    )
    check(text, [np.arange(4096, dtype=np.int32)])
    assert compiled(text).arena_bytes <= 4 * 4096


def test_updates_of_a_value_that_is_needed_are_of_copies() -> None:
    text = """HloModule m
ENTRY main {
  x = s32[6] parameter(0)
  s = s32[6] add(x, x)
  p = s32[2] constant({1, 2})
  k = s32[] constant(1)
  j = s32[] constant(3)
  u = s32[6] dynamic-update-slice(s, p, k)
  v = s32[6] dynamic-update-slice(s, p, j)
  w = s32[6] dynamic-update-slice(v, p, k)
  a = s32[6] add(u, v)
  ROOT r = s32[6] add(a, w)
}
"""
    check(text, [X])


# --- copies of tuples ---------------------------------------------------------------------------

COPIES = {
    "alone": "ROOT c = (s32[6], s32[6]) copy(t)",
    "of an element": """c = (s32[6], s32[6]) copy(t)
  ROOT g = s32[6] get-tuple-element(c), index=1""",
    "twice": """b = (s32[6], s32[6]) copy(t)
  ROOT c = (s32[6], s32[6]) copy(b)""",
    "nested, with a token and nothing": """k = token[] after-all()
  e = () tuple()
  u = ((s32[6], s32[6]), token[], (), s32[6]) tuple(t, k, e, x)
  c = ((s32[6], s32[6]), token[], (), s32[6]) copy(u)
  d = (s32[6], s32[6]) get-tuple-element(c), index=0
  ROOT g = s32[6] get-tuple-element(d), index=0""",
    "after another": """a = s32[6] add(x, y)
  c = (s32[6], s32[6]) copy(t), control-predecessors={a}
  n = s32[6] negate(x), control-predecessors={c}
  ROOT u = ((s32[6], s32[6]), s32[6]) tuple(c, n)""",
    "in a fusion": "ROOT f = (s32[6], s32[6]) fusion(t), kind=kInput, calls=copied",
    "in a call": "ROOT f = (s32[6], s32[6]) call(t), to_apply=copied",
    "in a loop": """z = s32[] constant(0)
  s = (s32[], (s32[6], s32[6])) tuple(z, t)
  ROOT w = (s32[], (s32[6], s32[6])) while(s), condition=test, body=body""",
    "in branches": """p = pred[] constant(true)
  ROOT b = (s32[6], s32[6]) conditional(p, t, t), true_computation=copied,
    false_computation=swapped""",
}
AROUND = """HloModule m
copied {
  p = (s32[6], s32[6]) parameter(0)
  ROOT c = (s32[6], s32[6]) copy(p)
}
swapped {
  p = (s32[6], s32[6]) parameter(0)
  c = (s32[6], s32[6]) copy(p)
  a = s32[6] get-tuple-element(c), index=1
  b = s32[6] get-tuple-element(c), index=0
  ROOT t = (s32[6], s32[6]) tuple(a, b)
}
test {
  s = (s32[], (s32[6], s32[6])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT m = pred[] compare(i, three), direction=LT
}
body {
  s = (s32[], (s32[6], s32[6])) parameter(0)
  c = (s32[], (s32[6], s32[6])) copy(s)
  i = s32[] get-tuple-element(c), index=0
  one = s32[] constant(1)
  n = s32[] add(i, one)
  p = (s32[6], s32[6]) get-tuple-element(c), index=1
  q = (s32[6], s32[6]) call(p), to_apply=swapped
  a = s32[6] get-tuple-element(q), index=0
  b = s32[6] get-tuple-element(p), index=0
  d = s32[6] add(a, b)
  r = (s32[6], s32[6]) tuple(d, b)
  ROOT t = (s32[], (s32[6], s32[6])) tuple(n, r)
}
ENTRY main {
  x = s32[6] parameter(0)
  y = s32[6] parameter(1)
  t = (s32[6], s32[6]) tuple(x, y)
  COPY
}
"""


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_tuples(name: str) -> None:
    check(AROUND.replace("COPY", COPIES[name]), [X, Y])


def test_a_copy_of_a_tuple_in_another_layout() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[3,4]{1,0} parameter(0)
  t = (f32[3,4]{1,0}, f32[3,4]{1,0}) tuple(x, x)
  ROOT c = (f32[3,4]{0,1}, f32[3,4]{1,0}) copy(t)
}
"""
    check(text, [np.arange(12, dtype=np.float32).reshape(3, 4)])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [(1 << 18) - 1, 1 << 18, (1 << 18) + 1, 300_007])
def test_a_large_array_that_is_updated_is_copied_in_blocks(size: int, threads: int) -> None:
    text = f"""HloModule m
      ENTRY e {{ x = f32[{size}] parameter(0) u = f32[3] parameter(1) i = s32[] parameter(2)
        ROOT r = f32[{size}] dynamic-update-slice(x, u, i) }}"""
    x, want = np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32)
    want[70_000:70_003] = [-1, -2, -3]
    exe = compiled_for(text, threads)
    np.testing.assert_array_equal(exe(x, np.float32([-1, -2, -3]), np.int32(70_000)), want)
    assert x[70_000] == 70_000
