"""Reductions by functions: what is left, that all that is tested is valid, processes or not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import hlo
from hlo.debug.reduction.interestingness.base import Predicate
from hlo.debug.reduction.reducer import Reducer
from hlo.debug.reduction.resizing import resize
from hlo.debug.reduction.workers import Verdict, Workers
from hlo.ir import Module
from hlo.verifier import diagnose

LOOP = """HloModule m, entry_computation_layout={(f32[6,4]{0,1})->(f32[6,4]{1,0}, f32[4]{0})}

body {
  p = (s32[], f32[6,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[6,4] get-tuple-element(p), index=1
  t = f32[6,4] tanh(x)
  e = f32[6,4] exponential(t), metadata={op_name="e"}
  ROOT r = (s32[], f32[6,4]) tuple(j, e)
}

condition {
  p = (s32[], f32[6,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT
}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[6,4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[6,4]) tuple(zero, x)
  loop = (s32[], f32[6,4]) while(start), condition=condition, body=body
  y = f32[6,4] get-tuple-element(loop), index=1
  none = f32[] constant(0)
  s = f32[4] reduce(y, none), dimensions={0}, to_apply=add
  ROOT r = (f32[6,4], f32[4]) tuple(y, s)
}
"""

CHAIN = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] tanh(x)
  z = f32[4] exponential(y)
  ROOT w = f32[4] sine(z)
}
"""


def has(*opcodes: str) -> Callable[[Module], bool]:
    return lambda module: set(opcodes) <= {i.opcode for i in module.instructions()}


def opcodes(module: Module) -> list[str]:
    return [i.opcode for i in module.instructions()]


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (["exponential"], ["parameter", "exponential"]),
        (["reduce"], ["constant", "constant", "parameter", "parameter", "parameter", "reduce"]),
        (["parameter"], ["parameter"]),
    ],
)
def test_what_is_left_is_what_the_test_wants(wanted: list[str], left: list[str]) -> None:
    reduced = hlo.reduce(hlo.parse(LOOP), has(*wanted))
    assert sorted(opcodes(reduced)) == sorted(left)
    hlo.verify(reduced)


def test_every_module_that_is_tested_is_valid() -> None:
    seen = []

    def test(module: Module) -> bool:
        seen.append(diagnose(module))
        return has("while", "tanh")(module)

    reduced = hlo.reduce(hlo.parse(LOOP), test)
    assert len(seen) > 20 and not any(seen)
    # The state is two values, neither of which can go.
    assert len(opcodes(reduced)) < 16


def test_the_result_does_not_depend_on_the_number_of_processes() -> None:
    texts = {str(hlo.reduce(hlo.parse(CHAIN), has("tanh"), jobs=jobs)) for jobs in (0, 1, 3)}
    assert len(texts) == 1


def test_a_test_that_dies_or_hangs_takes_only_its_process_down(tmp_path: Path) -> None:
    hung = tmp_path / "hung"

    def test(module: Module) -> bool:
        if not has("exponential")(module):
            os.kill(os.getpid(), signal.SIGKILL)
        if not has("tanh")(module) and not hung.exists():
            hung.touch()
            signal.pause()
        return has("tanh")(module)

    workers = Workers(2, timeout=5)
    reduced = Reducer(hlo.parse(CHAIN), Predicate(test), workers).run()
    assert {"tanh", "exponential"} <= set(opcodes(reduced))
    assert workers.ended.keys() == {"SIGKILL", "timeout"}


def test_a_module_that_passes_is_an_error() -> None:
    with pytest.raises(hlo.HloError, match="nothing-wrong"):
        hlo.reduce(hlo.parse(LOOP), has("sine"))
    with pytest.raises(hlo.HloError, match=r"'chekc' is not a test.*\n.*did you mean 'check'"):
        hlo.reduce(hlo.parse(LOOP), "chekc")


@pytest.mark.parametrize("jobs", [0, 2])
def test_a_function_that_raises_is_named_with_its_line(jobs: int) -> None:
    def is_wrong(module: hlo.Module) -> bool:
        return bool(module.no_such_thing)  # type: ignore[attr-defined]

    with pytest.raises(hlo.HloError, match=r"test_reducer.py:\d+: AttributeError: 'Module'") as e:
        hlo.reduce(hlo.parse(CHAIN), is_wrong, jobs=jobs)
    assert e.value.code == "test-failed" and "is_wrong failed" in str(e.value)


def test_the_given_module_stays_as_it_is() -> None:
    module = hlo.parse(LOOP)
    before = str(module)
    hlo.reduce(module, has("add"))
    assert str(module) == before


def test_it_is_wrong_in_the_same_way_to_the_end() -> None:
    class Kinds(Predicate):
        def wrong(self, module: Module) -> str:
            found = has("tanh")(module), has("exponential")(module)
            return "both" if all(found) else "one" if any(found) else ""

    reduced = Reducer(hlo.parse(LOOP), Kinds(bool), Workers(0)).run()
    assert {"tanh", "exponential"} <= set(opcodes(reduced))


def test_a_large_module_is_cut_to_a_part_first() -> None:
    lines = [f"v{n} = f32[64,32] add(v{n - 1}, v{n - 1})" for n in range(1, 400)]
    lines[200] = "v201 = f32[64,32] tanh(v200)"
    text = "HloModule m\nENTRY e {\n  v0 = f32[64,32] parameter(0)\n" + "\n".join(lines) + "\n}\n"
    sizes = []

    def test(module: Module) -> bool:
        sizes.append(len(module.entry))
        return has("tanh")(module)

    reduced = hlo.reduce(hlo.parse(text), test)
    assert opcodes(reduced) == ["parameter", "tanh"]
    assert max(sizes) < 150


STATE = """HloModule m

body {
  p = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[4] get-tuple-element(p), index=1
  y = f32[4] get-tuple-element(p), index=2
  z = f32[4] get-tuple-element(p), index=3
  t = f32[4] tanh(x)
  e = f32[4] exponential(y)
  s = f32[4] sine(z)
  ROOT r = (s32[], f32[4], f32[4], f32[4]) tuple(j, t, e, s)
}

condition {
  p = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4], f32[4], f32[4]) tuple(zero, x, x, x)
  ROOT loop = (s32[], f32[4], f32[4], f32[4]) while(start), condition=condition, body=body
}
"""


def test_elements_of_a_loop_that_nothing_needs_go() -> None:
    reduced = hlo.reduce(hlo.parse(STATE), has("while", "exponential"))
    [loop] = [i for i in reduced.instructions() if i.opcode == "while"]
    assert len(list(loop.shape.leaves())) <= 3
    assert not {"tanh", "sine"} & set(opcodes(reduced))


def test_constants_become_simpler_and_that_comes_to_an_end() -> None:
    text = """HloModule m
    ENTRY e {
      c = f32[3] constant({1, 2, 3})
      d = f64[2] constant({7, 8})
      ROOT t = (f32[3], f64[2]) tuple(c, d)
    }"""
    reduced = hlo.reduce(hlo.parse(text), lambda m: opcodes(m).count("constant") == 2)
    assert [i.literal.array.tolist() for i in reduced.entry if i.opcode == "constant"] == [[0], [0]]
    assert "f64" not in str(reduced)


def test_dimensions_shrink_where_they_are_the_same_index() -> None:
    text = """HloModule m
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ENTRY e {
      x = f32[8,32,32,6] parameter(0)
      w = f32[3,3,6,10] parameter(1)
      v = f32[2560,5] parameter(2)
      y = f32[8,16,16,10] convolution(x, w),
        window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f
      f = f32[8,2560] reshape(y)
      d = f32[8,5] dot(f, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      none = f32[] constant(0)
      ROOT s = f32[5] reduce(d, none), dimensions={0}, to_apply=add
    }"""
    wanted = has("convolution", "reshape", "dot", "reduce")
    reduced = hlo.reduce(hlo.parse(text), wanted)
    sizes = [s.num_elements for i in reduced.instructions() for _, s in i.shape.leaves()]
    assert wanted(reduced) and max(sizes) <= 9


def test_what_one_change_makes_possible_is_tried_again() -> None:
    module = hlo.parse("""HloModule reduced
ENTRY %main (p0: c64[]) -> f32[] {
  %p0 = c64[] parameter(0)
  %v1 = f32[] real(%p0)
  %v2 = f32[] exponential(%v1)
  %v3 = f32[] sine(%v2)
  ROOT %v4 = f32[] cosine(%v3)
}
""")

    def test(module: Module) -> bool:
        if not has("exponential", "sine")(module):
            return False
        return has("real")(module) or not has("cosine")(module)

    assert opcodes(hlo.reduce(module, test)) == ["parameter", "exponential", "sine"]


def test_dimensions_that_cannot_shrink_keep_their_sizes_in_any_order() -> None:
    module = hlo.parse("""HloModule m
ENTRY e {
  x = f32[4,4] parameter(0)
  y = f32[4,4] tanh(x)
  s = f32[4,2] slice(y), slice={[0:4], [0:2]}
  t = f32[4,2] slice(y), slice={[0:4], [2:4]}
  ROOT r = f32[4,4] concatenate(s, t), dimensions={1}
}
""")
    found = set()
    for _ in range(30):
        small = module.clone()
        resize(small, lambda axis: min(axis.size, 3))
        hlo.verify(small)
        found.add(str(small))
    assert len(found) == 1


def test_dimensions_of_an_instruction_shrink_where_others_cannot() -> None:
    module = hlo.parse("""HloModule m
    ge { a = f32[] parameter(0)  b = f32[] parameter(1)
      ROOT c = pred[] compare(a, b), direction=GE }
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ENTRY e {
      x = f32[32,9,9,64] parameter(0)
      s = f32[32,4,4,64] parameter(1)
      none = f32[] constant(0)
      ROOT r = f32[32,9,9,64] select-and-scatter(x, s, none), window={size=1x3x3x1 stride=1x2x2x1},
        select=ge, scatter=add
    }""")
    # Rows of 3 would be of another number of windows than 3.
    assert resize(module, lambda axis: min(axis.size, 3))
    hlo.verify(module)
    assert [str(o.shape.dims) for o in module.entry.root.operands[:2]] == [
        "(3, 9, 9, 3)",
        "(3, 4, 4, 3)",
    ]


@pytest.mark.parametrize("jobs", [0, 1])
def test_what_is_judged_is_what_the_text_gives_back(jobs: int) -> None:
    """What the parser makes has a span in the text; what a step makes has none."""

    def test(module: Module) -> bool:
        return has("tanh")(module) and all(i.span is not None for i in module.instructions())

    given = hlo.parse(CHAIN)
    root = given.entry.root
    given.entry.create("negate", root.shape, [root], root=True)
    assert not test(given)
    small = hlo.reduce(given, test, jobs=jobs)
    assert opcodes(small) == ["parameter", "tanh"]
    assert test(small) and test(hlo.parse(str(small)))


NAN = """HloModule m

ENTRY e {
  x = f32[2,4] parameter(0)
  w = f32[2,4] parameter(1)
  y = f32[2,4] tanh(w)
  d = f32[2,4] subtract(x, y)
  l = f32[2,4] log(d)
  s = f32[2,4] sine(l)
  ROOT r = f32[2,4] add(s, y)
}
"""


def test_the_instruction_that_makes_a_nan() -> None:
    small = hlo.reduce(hlo.parse(NAN), "find-nan", jobs=0)
    assert "log" in opcodes(small) and not {"sine", "add"} & set(opcodes(small))
    found = hlo.find_nan(small, *hlo.random_inputs(small), backend="reference")
    assert found is None or found.opcode == "log"


def test_what_passes_a_nan_on_makes_none() -> None:
    text = "HloModule m ENTRY e { c = f32[2] constant({nan, 1})  ROOT r = f32[2] negate(c) }"
    with pytest.raises(hlo.HloError, match=r"nothing to reduce: the test does not fail on m\b"):
        hlo.reduce(hlo.parse(text), "find-nan", jobs=0)


def test_a_test_may_take_ten_times_as_long_as_one_that_failed() -> None:
    workers = Workers(1)
    assert workers.limit == 300
    list(workers.verdicts([lambda: Verdict("wrong")]))
    assert workers.limit == 5
    assert Workers(1, timeout=7).limit == 7
