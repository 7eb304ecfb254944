"""The fusions that passes form are the kernels that code generation makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from hlo.analysis.fusion.roles import Role, initial_roles
from hlo.codegen.lower.prepare import flatten
from hlo.codegen.plan.roles import FusionRules, assign_roles, fuse_siblings
from hlo.frontends.text import parse
from hlo.ir import Instruction, Module
from hlo.ops import Trait
from hlo.passes.default import default_pipeline
from hlo.passes.fusion._build import fusible_computations
from hlo.passes.fusion._kernels import members_of
from hlo.passes.manager import run_pipeline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SUM = "sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }\n"
MODULES = {
    **{name: (EXAMPLES / f"{name}.hlo").read_text()
       for name in ("stages", "rnn_scan", "resnet20", "gpt_block")},
    "several results": """HloModule m
ENTRY e { x = f32[90,7] parameter(0) y = f32[90,7] parameter(1)
  m = f32[90,7] add(x, y) q = f32[90,7] multiply(y, y) v = f32[90,7] tanh(q)
  ROOT r = (f32[90,7], f32[90,7]) tuple(m, v) }""",
    "a value of two kernels": f"""HloModule m
{SUM}ENTRY e {{ x = f32[64,8] parameter(0) z = f32[] constant(0)
  c = f32[64,8] add(x, x) e = f32[64,8] exponential(c)
  s = f32[64] reduce(e, z), dimensions={{1}}, to_apply=sum
  ROOT r = (f32[64,8], f32[64], f32[64,8]) tuple(c, s, e) }}""",
    "rows": f"""HloModule m
{SUM}ENTRY e {{ x = f32[80,100] parameter(0) z = f32[] constant(0)
  e = f32[80,100] exponential(x) s = f32[80] reduce(e, z), dimensions={{1}}, to_apply=sum
  b = f32[80,100] broadcast(s), dimensions={{0}} ROOT r = f32[80,100] divide(e, b) }}""",
}  # fmt: skip

# What a kernel computes: the operations in it, those aside that compute nothing.
Kernel = tuple[str, ...]


def kernel(members: Iterable[Instruction]) -> Kernel:
    opcodes = (i.opcode for i in members if not i.spec.has(Trait.VIEW))
    return tuple(sorted(o for o in opcodes if o not in ("constant", "parameter", "iota")))


def optimized(text: str, *, fuses: bool) -> Module:
    module = parse(text)
    run_pipeline(module, default_pipeline(fuses=fuses))
    return module


def of_codegen(text: str) -> Counter[Kernel]:
    """Return the kernels of a module's code, but for what they do with results of products."""
    entry = flatten(optimized(text, fuses=False).entry)
    rules = FusionRules(chains=None)
    roles = fuse_siblings(entry, assign_roles(entry, rules), rules)
    heads = (i for i, role in roles.items() if role is Role.KERNEL and i.parent is not None)
    return Counter(k for i in heads if (k := kernel(members_of(i, roles))))


def of_passes(text: str) -> Counter[Kernel]:
    """Return the fusions of an optimized module, and the kernels that are single instructions.

    Scalars that are computed of elements of arrays are fusions too, but no kernels.
    """
    found: Counter[Kernel] = Counter()
    for comp in fusible_computations(optimized(text, fuses=True)):
        for inst, role in initial_roles(comp).items():
            if inst.opcode == "fusion":
                if initial_roles(inst.calls)[inst.calls.root] is not Role.SCALAR:
                    found[kernel(inst.calls)] += 1
            elif role is Role.KERNEL:
                found[kernel([inst])] += 1
    del found[()]
    return found


@pytest.mark.parametrize("name", MODULES)
def test_fusions_of_passes_are_kernels(name: str) -> None:
    kernels = of_codegen(MODULES[name])
    assert kernels
    assert of_passes(MODULES[name]) == kernels


def test_what_code_generation_expands_is_one_instruction_for_passes() -> None:
    text = """HloModule m
ENTRY e { x = f32[64,8] parameter(0) s = f32[8] parameter(1)
  ROOT b = (f32[64,8], f32[8], f32[8]) batch-norm-training(x, s, s),
    epsilon=0.1, feature_index=1 }"""
    assert of_passes(text) == {("batch-norm-training",): 1}
    assert len(of_codegen(text)) > 1
