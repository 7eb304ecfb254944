"""The first instruction that makes a NaN or an infinity."""

from __future__ import annotations

import numpy as np
import pytest

import hlo
from hlo.passes import Rewrites, module_pass
from tests.generators.nan_models import seed
from tests.generators.nan_sources import nan_program
from tests.harness.paths import ROOT

BACKENDS = ("reference", "compiled")
HEAD = "HloModule m ENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) "


@pytest.mark.parametrize("number", [1, 8, 11, 12, 18, 33])
@pytest.mark.parametrize("backend", BACKENDS)
def test_generated(number: int, backend: str) -> None:
    program = nan_program(number)
    found = hlo.find_nan(hlo.parse(program.text), program.x, backend=backend)
    assert found is not None
    assert (found.source, found.instruction) == ("instruction", "seeded")
    assert found.iteration == (program.iteration if "loop" in program.inside else None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_asynchronous_computation(backend: str) -> None:
    module = hlo.parse("""HloModule m
    inside { x = f32[2] parameter(0) ROOT l = f32[2] log(x) }, execution_thread="parallel"
    ENTRY e {
      x = f32[2] parameter(0)
      s = ((f32[2]), f32[2], u32[]) async-start(x), calls=inside, async_execution_thread="parallel"
      u = ((f32[2]), f32[2], u32[]) async-update(s)
      d = f32[2] async-done(u), calls=inside, async_execution_thread="parallel"
      ROOT n = f32[2] negate(d)
    }""")
    found = hlo.find_nan(module, np.array([2, -1], np.float32), backend=backend)
    assert found is not None and (found.instruction, found.index) == ("l", (1,))


@pytest.mark.parametrize("backend", BACKENDS)
def test_finding_runs_alone(backend: str) -> None:
    module = hlo.parse(HEAD + "z = f32[2] divide(x, y) ROOT r = f32[2] tanh(z) }", "m.hlo")
    found = hlo.find_nan(module, [1, 2], [4, 0], backend=backend)
    assert found is not None and found.module is not None
    assert (found.path, found.kind, found.index, found.count) == ("z", "inf", (1,), 1)
    assert [name for name, _ in found.operands] == ["x", "y"]
    np.testing.assert_array_equal(hlo.interpret(found.module, *found.inputs), [0.25, np.inf])


@pytest.mark.parametrize(
    ("body", "x", "expected"),
    [
        # Infinities and NaN that were there before are not blamed on what passes them on.
        ("ROOT z = f32[2] add(x, y)", [np.inf, 1], None),
        ("ROOT z = f32[2] add(x, y)", [np.nan, 1], "x"),
        ("z = f32[2] add(x, y) ROOT w = f32[2] log(z)", [np.nan, -3], "w"),
        ("n = f32[2] constant({nan, 1}) ROOT z = f32[2] add(x, n)", [1, 1], "n"),
        ("i = f32[] constant(-inf) ROOT z = f32[2] pad(x, i), padding=-1_1", [1, 1], None),
        ("ROOT z = f32[2] exponential(x)", [-np.inf, 1], None),
        ("ROOT z = f32[2] sine(x)", [-np.inf, 1], "z"),
        # What is not used is found, too: it may be of a branch that a gradient takes.
        ("z = f32[2] log(x) p = pred[2] is-finite(z) ROOT w = f32[2] select(p, z, y)",
         [-1, 1], "z"),
        ("c = c64[2] complex(x, y) a = c64[2] multiply(c, c) ROOT r = f32[2] abs(a)",
         [1e30, 1], "a"),
        ("ROOT z = f8e5m2[2] convert(x)", [1e9, 1], "z"),
        ("ROOT z = bf16[2] convert(x)", [3.4e38, 1], "z"),
        ("ROOT z = f32[70000] iota(), iota_dimension=0", [1, 1], None),
        ("ROOT z = f16[70000] iota(), iota_dimension=0", [1, 1], "z"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", BACKENDS)
def test_blame(body: str, x: list[float], expected: str | None, backend: str) -> None:
    found = hlo.find_nan(hlo.parse(f"{HEAD}{body} }}"), x, [1, 1], backend=backend)
    assert (None if found is None else found.instruction) == expected


def test_rows_are_judged_one_by_one() -> None:
    text = """HloModule m
      sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
      ENTRY e { x = f32[2,2] parameter(0) z = f32[] constant(0)
        ROOT r = f32[2] reduce(x, z), dimensions={1}, to_apply=sum }"""
    module = hlo.parse(text)
    assert hlo.find_nan(module, [[-np.inf, 1], [1, 1]]) is None
    found = hlo.find_nan(module, [[-np.inf, 1], [3e38, 3e38]])
    assert found is not None and found.index == (1,)


def test_inside_a_reducer() -> None:
    text = """HloModule m
      both { a = f32[] parameter(0) b = f32[] parameter(1) l = f32[] log(b)
        ROOT c = f32[] add(a, l) }
      ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0)
        ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=both }"""
    found = hlo.find_nan(hlo.parse(text), [1, 2, -1, 4])
    assert found is not None and found.path == "r/l"


def test_what_only_passes_make() -> None:
    """Reassociated, the product overflows; as the module says it, it does not."""
    module = hlo.parse(HEAD + "z = f32[2] multiply(x, y) ROOT r = f32[2] multiply(z, x) }", "m.hlo")

    def overflowing_for_a_test(module: hlo.Module, rewrites: Rewrites) -> None:
        """Multiply in another order."""
        root = module.entry.root
        x, y = module.entry.parameters
        square = module.entry.create("multiply", x.shape, [x, x], name="early", like=root)
        late = module.entry.create("multiply", x.shape, [square, y], name="late", like=root)
        module.entry.set_root(late)

    found = hlo.find_nan(
        module, [1e30, 1], [1e-30, 1], passes=[module_pass(overflowing_for_a_test)]
    )
    assert found is not None and found.instruction == "r" and "early" in found.pass_made


def test_devices() -> None:
    text = """HloModule m, replica_count=2
      sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
      ENTRY e { x = f32[2] parameter(0) l = f32[2] log(x)
        ROOT r = f32[2] all-reduce(l), replica_groups={{0,1}}, to_apply=sum }"""
    for backend in BACKENDS:
        found = hlo.find_nan(hlo.parse(text), [1, -1], backend=backend)
        assert found is not None and found.instruction == "l"


def test_dynamic_sizes() -> None:
    """What is behind the end of an array of dynamic size is not looked at."""
    text = """HloModule m ENTRY e { x = f32[4] parameter(0) n = s32[] constant(2)
      d = f32[<=4] set-dimension-size(x, n), dimensions={0} ROOT l = f32[<=4] log(d) }"""
    for backend in BACKENDS:
        assert hlo.find_nan(hlo.parse(text), [1, 2, -3, 0], backend=backend) is None
        found = hlo.find_nan(hlo.parse(text), [1, -2, 3, 0], backend=backend)
        assert found is not None and found.index == (1,)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_in_a_model(number: int) -> None:
    module = hlo.load(ROOT / "examples" / "rnn_scan.hlo")
    place = seed(module, number)
    values = hlo.random_inputs(module)
    found = hlo.find_nan(hlo.parse(str(module)), *values)
    assert found is not None and found.instruction == "seeded", place
