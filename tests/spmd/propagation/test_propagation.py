"""Properties of sharding propagation, on generated modules and on large ones."""

from __future__ import annotations

import time

import pytest

import hlo
from hlo.ir import Instruction, Module
from hlo.spmd.propagation import propagate
from hlo.spmd.propagation.graph import running_computations
from tests.generators.shardings import generate_sharded


def _annotated(module: Module) -> dict[str, str]:
    """Return the shardings of a module's instructions, by computation and name."""
    return {
        f"{comp.name}/{inst.name}": str(inst.annotations["sharding"])
        for comp in running_computations(module)
        for inst in comp
        if "sharding" in inst.annotations
    }


@pytest.mark.parametrize("kind", ["flat", "nested", "dot", "reduce"])
@pytest.mark.parametrize("seed", range(6))
def test_annotations_stay_and_everything_gets_a_sharding(kind: str, seed: int) -> None:
    _, case, _ = generate_sharded(kind, seed)
    module = case.module.clone()
    said = _annotated(module)
    again = module.clone()
    result = propagate(module)
    hlo.verify(module)
    found = _annotated(module)
    assert found.items() >= said.items()
    running = [i for comp in running_computations(module) for i in comp]
    assert all("sharding" in i.annotations and result.origins[i] for i in running)
    propagate(again)
    assert str(again) == str(module)  # the same module has the same result


@pytest.mark.parametrize("seed", range(8))
def test_a_fixed_point_is_reached(seed: int) -> None:
    _, case, _ = generate_sharded("nested" if seed % 2 else "flat", seed)
    module = case.module.clone()
    propagate(module)
    changes: list[tuple[str, Instruction]] = []

    def allow(rule: str, inst: Instruction) -> bool:
        changes.append((rule, inst))
        return True

    propagate(module, allow)
    assert not changes


def test_time_is_linear_in_the_instructions() -> None:
    lines = ["x0 = f32[64,64] parameter(0), sharding={devices=[2,2]<=[4]}"]
    lines += [
        f"x{n} = f32[64,64] {op}"
        for n in range(1, 4_001)
        for op in [
            f"tanh(x{n - 1})" if n % 2 else f"add(x{n - 1}, x{max(0, n - 9)})"
        ]
    ]  # fmt: skip
    lines[-1] = "ROOT " + lines[-1]
    module = hlo.parse("HloModule m, num_partitions=4\nENTRY e {\n" + "\n".join(lines) + "\n}")
    start = time.process_time()
    propagate(module)
    assert time.process_time() - start < 8
    assert str(module["x3999"].annotations["sharding"]) == "{devices=[2,2]<=[4]}"


def test_each_sharding_says_where_it_came_from() -> None:
    module = hlo.parse("""
HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[16,32] parameter(1)
  d = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[8,32] negate(d)
  c = f32[8,32] custom-call(n), custom_call_target="Sharding", sharding={devices=[2,2]<=[4]}
  k = f32[3] constant({1,2,3})
  ROOT t = (f32[8,32], f32[3]) tuple(c, k)
}""")
    origins = {inst.name: text for inst, text in propagate(module).origins.items()}
    assert origins == {
        "x": "annotation",
        "w": "the parameter's header: it stays replicated",
        "d": "from the result of n",
        "n": "from the result of c",
        "k": "no sharding propagated here",
        "t": "the result's header: it stays replicated",
    }


_MESHES = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2]>}}'


@pytest.mark.parametrize(
    ("header", "text", "words"),
    [
        (_MESHES, r"#sdy.sharding<@mesh, [{\"z\"}]>", "no axis 'z'"),
        (_MESHES, r"#sdy.sharding<@other, [{\"x\"}]>", "no mesh @other"),
        (_MESHES, r"#sdy.sharding<@mesh, [{\"x\"}, {\"x\"}]>", "axis 'x' twice"),
        (_MESHES, r"#sdy.sharding<@mesh, [{\"x\"}, {}]>", "cuts 2 dimensions"),
        (_MESHES, r"#sdy.sharding<@mesh, [{\"x\":(1)3}]>", "no sub-axis"),
        (_MESHES, "nonsense", "not a #sdy.sharding"),
        (_MESHES.replace('"y"=2', '"y"=4'), r"#sdy.sharding<@mesh, [{\"y\"}]>", "8 devices"),
        ("frontend_attributes={xla.sdy.meshes={mesh = nonsense}}", "", "xla.sdy.meshes"),
    ],
)
def test_a_bad_sharding_is_one_error_at_its_instruction(header: str, text: str, words: str) -> None:
    module = hlo.parse(
        f"HloModule m, num_partitions=4, {header}\nENTRY e {{ ROOT x = f32[8] parameter(0), "
        f'frontend_attributes={{xla.sdy.sharding="{text}"}} }}'
    )
    with pytest.raises(hlo.HloError, match="^[^\n]*" + words):
        propagate(module)
