"""AMD's GPUs: LLVM makes assembly of every kernel. Nothing here has run on hardware."""

from __future__ import annotations

import pytest

import hlo
from hlo.codegen.launches.program import write_launches
from hlo.codegen.llvm import Builder, ModuleBuilder, Val
from hlo.codegen.targets.gpu import AmdGcn, Gpu, Nvptx
from hlo.codegen.targets.gpu.base import Grid
from hlo.codegen.targets.gpu.block import Block
from hlo.compiler.lowering import Clock, plan
from hlo.errors import HloError
from hlo.llvm import Function
from hlo.ops import OPS
from hlo.runtime.assembly import assembly_of

MODELS = ["gfx90a", "gfx942", "gfx1100"]
_SUM = "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"


def _assembly(module: hlo.Module, gpu: Gpu) -> str:
    program = write_launches(plan(module, gpu, Clock(), passes=""), gpu)
    return assembly_of(program.module, gpu.cpu)


def _examples() -> list[str]:
    return [text for _, spec in sorted(OPS.items()) for text in spec.examples]


@pytest.mark.parametrize("text", _examples())
def test_examples_of_the_op_table_are_accepted(text: str) -> None:
    module = hlo.parse(text)
    try:
        hlo.verify(module)
    except HloError:
        pytest.skip("not a whole program")
    assert ".amdhsa_kernel" in _assembly(module, AmdGcn("gfx942")) or _needs_no_kernel(module)


def _needs_no_kernel(module: hlo.Module) -> bool:
    gpu = Nvptx("sm_90")
    return not write_launches(plan(module, gpu, Clock(), passes=""), gpu).plan.launches


@pytest.mark.parametrize("cpu", MODELS)
@pytest.mark.parametrize(
    "text",
    [
        f"HloModule m {_SUM} ENTRY e {{ x = f32[300,1000] parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[300] reduce(x, z), dimensions={1}, to_apply=s }",
        f"HloModule m {_SUM} ENTRY e {{ x = f32[300,1000] parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[1000] reduce(x, z), dimensions={0}, to_apply=s }",
        "HloModule m ENTRY e { x = bf16[4096] parameter(0) y = bf16[4096] tanh(x) "
        "ROOT z = bf16[4096] multiply(x, y) }",
        "HloModule m ENTRY e { x = f32[200,300] parameter(0) y = f32[300,100] parameter(1) "
        "ROOT z = f32[200,100] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    ],
    ids=["rows", "columns", "elementwise", "product"],
)
def test_kernels_of_real_size_are_accepted(cpu: str, text: str) -> None:
    code = _assembly(hlo.parse(text), AmdGcn(cpu))
    assert f'.amdgcn_target "amdgcn-amd-amdhsa--{cpu}"' in code
    assert "global_load" in code or "flat_load" in code


def _exchange(cpu: str, how: str) -> str:
    """Return the assembly of a kernel whose lanes exchange a value."""
    gpu = AmdGcn(cpu)
    module = ModuleBuilder(gpu.triple, gpu.data_layout, has_half_conversion=True)
    b = Builder(module)
    block = Block(b, gpu)
    address = b.element_address("%p", "float", block.thread_index())
    value = b.load("float", address)
    found = getattr(block, how)(value, 1)
    block.barrier()
    b.store(found, address)
    b.ret()
    attributes = gpu.kernel_attributes(Grid(256, 1.0, 1, 256))
    function = Function("k", ["ptr %p"], attributes, result=f"{gpu.convention} void")
    b.finish(function)
    module.add(function)
    return assembly_of(module, cpu)


@pytest.mark.parametrize("cpu", MODELS)
@pytest.mark.parametrize("how", ["from_lane_xor", "from_lane_above", "from_lane_below"])
def test_lanes_exchange_values(cpu: str, how: str) -> None:
    code = _exchange(cpu, how)
    assert "ds_bpermute_b32" in code and "s_barrier" in code
    assert ".amdhsa_wavefront_size32 1" in code if cpu == "gfx1100" else "mbcnt_hi" in code


def test_memory_of_a_thread_is_in_the_space_of_the_stack() -> None:
    gpu = AmdGcn("gfx942")
    b = Builder(ModuleBuilder(gpu.triple, gpu.data_layout))
    slot = b.alloca("i64")
    b.store(Val("i64", "1"), slot.name)
    b.ret()
    function = Function("f", [])
    b.finish(function)
    assert "alloca i64, addrspace(5)" in function.text
    assert f"{slot.name} = addrspacecast ptr addrspace(5)" in function.text


def test_models_by_name() -> None:
    assert [AmdGcn(cpu).lanes for cpu in MODELS] == [64, 64, 32]
    assert AmdGcn("gfx90a").model == 910 and AmdGcn("gfx1201").model == 1201
