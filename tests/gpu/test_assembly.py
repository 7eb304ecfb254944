"""PTX in parts: together they are what one piece would be, and known ones are not compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hlo
from hlo.codegen.launches.program import GpuProgram, write_launches
from hlo.codegen.targets.gpu import AmdGcn, Gpu, Nvptx
from hlo.compiler.lowering import Clock, plan
from hlo.gpu.ptx import parse_ptx
from hlo.llvm import Function, Instruction, LlvmModule, Return
from hlo.runtime import assembly, kept
from hlo.runtime.assembly import assembly_of

GPU = Nvptx("sm_90")


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """What other tests have compiled is not at hand."""
    kept._files.clear()
    yield
    kept._files.clear()


def _program(text: str, gpu: Gpu = GPU) -> GpuProgram:
    return write_launches(plan(hlo.parse(text), gpu, Clock(), passes=""), gpu)


def _tail(name: str, opcode: str) -> str:
    # A barrier to fusion: kernels of their own.
    return f"{name} = f32[300,20] {opcode}(%s) {name}.b = f32[300,20] opt-barrier({name})"


_MANY = (
    "HloModule m ENTRY e { x = f32[300,20] parameter(0) "
    + " ".join(_tail(f"v{n}", op) % ("x" if not n else f"v{n - 1}.b")
               for n, op in enumerate(["tan", "sine", "cosine", "erf", "log", "tanh", "cbrt"] * 3))
    + " ROOT r = f32[300,20] add(v20.b, v3.b) }"
)  # fmt: skip


def test_parts_have_all_kernels_under_their_names() -> None:
    program = _program(_MANY)
    assert len([*assembly._divided(program.module)]) > 2
    code = assembly_of(program.module, "sm_90")
    assert code.count(".version") == code.count(".address_size") == 1
    assert "hlo." not in code
    whole = assembly._compiled(program.module.to_text(), GPU.triple, "sm_90", is_final=True)
    kernels, expected = (parse_ptx(text, "m").kernels for text in (code, whole))
    assert kernels.keys() == expected.keys() == {s.kernel for s in program.plan.launches}
    for name, kernel in kernels.items():
        got, want = (
            [[(i.name, len(i.operands)) for i in b.instructions] for b in k.blocks]
            for k in (kernel, expected[name])
        )
        assert got == want


def test_the_code_does_not_depend_on_what_is_known() -> None:
    module = _program(_MANY).module
    first = assembly_of(module, "sm_90")
    assert assembly_of(module, "sm_90") == first
    kept._files.clear()
    assert assembly_of(_program(_MANY).module, "sm_90") == first


def test_known_kernels_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "HloModule {} ENTRY e {{ {} = f32[99,7] parameter(0) ROOT y = f32[99,7] tan({}) }}"
    assembly_of(_program(text.format("m", "x", "x")).module, "sm_90")

    def none(*_: object, **__: object) -> str:
        raise AssertionError("it is known")

    monkeypatch.setattr(assembly, "_compiled", none)
    code = assembly_of(_program(text.format("other", "z", "z")).module, "sm_90")
    assert len(parse_ptx(code, "m").kernels) == 1
    with pytest.raises(AssertionError, match="it is known"):
        assembly_of(_program(text.format("m", "x", "x")).module, "sm_80")


def test_shared_memory_of_the_launch_is_declared_once() -> None:
    line = ".extern .shared .align 128 .b8 shared_dynamic[];"
    text = f".version 8.0\n.target sm_90\n{assembly._HEADER_END}{line}\n"
    assert assembly._joined([f"{text}a\n", f"{text}b\n"]).splitlines()[3:] == [line, "a", "b"]


def test_assembly_of_amd_is_of_one_piece() -> None:
    gpu = AmdGcn("gfx942")
    code = assembly_of(_program(_MANY, gpu).module, gpu.cpu)
    assert code.count(".amdgpu_metadata") == 1


def test_an_error_of_llvm_names_no_kernel_of_users() -> None:
    wrong = Function("f", [], body=[Instruction("", Return("i64", ("%nothing",)))])
    module = LlvmModule(GPU.triple, GPU.data_layout)
    module.add(wrong)
    with pytest.raises(hlo.HloError, match="LLVM rejects the kernels"):
        assembly_of(module, "sm_90")


def test_kernels_of_many_arrays_have_room_for_their_parameters() -> None:
    count = 520
    scalars = "\n".join(f"p{n} = f32[] parameter({n})" for n in range(count))
    shape = ", ".join(["f32[]"] * count)
    names = ", ".join(f"p{n}" for n in range(count))
    program = _program(f"HloModule m ENTRY e {{ {scalars} ROOT t = ({shape}) tuple({names}) }}")
    (launch,) = program.plan.launches
    # Of the 4 KiB that kernels have before PTX 8.1 each address takes 8 bytes.
    assert len(launch.places) > 512
    assert ".version 8.1\n" in assembly_of(program.module, "sm_80")
    assert ".version 8.6\n" in assembly_of(program.module, "sm_100")
