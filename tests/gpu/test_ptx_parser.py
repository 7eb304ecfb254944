"""PTX text to records."""

from __future__ import annotations

import pytest

from hlo.errors import HloError
from hlo.gpu.ptx import parse_ptx
from hlo.gpu.ptx.records import (
    Address,
    Function,
    Immediate,
    Instruction,
    Location,
    Negated,
    Reg,
    Special,
    Symbol,
    Vector,
)

HEAD = ".version 7.8\n.target sm_90\n.address_size 64\n"


def kernel(body: str, before: str = "", parameters: str = "") -> Function:
    """Return a kernel of a body, with some registers."""
    text = f"""{HEAD}{before}
.visible .entry k({parameters})
.maxntid 128
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>, %SPL;
{body}
}}
"""
    return parse_ptx(text).kernels["k"]


def only(body: str) -> Instruction:
    """Return the instruction of a body of one."""
    [block] = kernel(body).blocks
    [found] = block.instructions
    return found


def test_the_module_says_its_version_and_target() -> None:
    module = parse_ptx(HEAD)
    assert (module.version, module.target) == ("7.8", "sm_90")


def test_operands() -> None:
    r1, r2, p1 = Reg("%r1"), Reg("%r2"), Reg("%p1")
    assert only("mov.u32 %r1, %tid.x;").operands == (r1, Special("%tid.x"))
    assert only("mov.b32 %r1, 0f3F800000;").operands[1] == Immediate(0x3F800000, "f32")
    assert only("mov.b64 %rd1, 0dBFF0000000000000;").operands[1] == Immediate(0xBFF << 52, "f64")
    assert only("add.s32 %r1, %r2, -5;").operands == (r1, r2, Immediate(-5))
    assert only("and.b32 %r1, %r2, 0xFF;").operands[2] == Immediate(255)
    assert only("ld.global.b32 %r1, [%rd1+-12];").operands[1] == Address(Reg("%rd1"), -12)
    assert only("st.shared.v2.b32 [%rd1], {%r1, _};").operands == (
        Address(Reg("%rd1")), Vector((r1, Reg("_"))),
    )  # fmt: skip
    assert only("setp.eq.and.s32 %p1|%p2, %r1, 2, !%p3;").operands == (
        Vector((p1, Reg("%p2"))), r1, Immediate(2), Negated(Reg("%p3")),
    )  # fmt: skip


def test_modifiers_and_guards() -> None:
    found = only("@!%p2 ld.shared::cta.v4.f32 {%r1, %r2, %r3, %r4}, [%r5];")
    assert (found.opcode, found.modifiers) == ("ld", ("shared::cta", "v4", "f32"))
    assert (found.guard, found.guard_negated, found.line) == (Reg("%p2"), True, 11)
    assert (found.name, found.type) == ("ld.shared::cta.v4.f32", "f32")


def test_only_registers_that_are_used_are_listed() -> None:
    assert kernel("mov.b32 %r8, 1;\nmov.b64 %SPL, 0;").registers == {"%r8": "b32", "%SPL": "b64"}


def test_carries_are_a_register_without_a_declaration() -> None:
    assert kernel("add.cc.u32 %r1, %r2, %r3;").registers["%cc"] == "pred"
    assert "%cc" not in kernel("add.u32 %r1, %r2, %r3;").registers


def test_basic_blocks_and_branches() -> None:
    found = kernel("""
    setp.gt.u32 %p1, %r1, 15;
    @%p1 bra $L__BB0_2;
    mov.b32 %r1, 0;
$L__BB0_1:
    bra.uni $L__BB0_1;
$L__BB0_2:
    ret;
""")
    assert [b.label for b in found.blocks] == ["", "", "$L__BB0_1", "$L__BB0_2"]
    assert [b.successors for b in found.blocks] == [(3, 1), (2,), (2,), ()]


def test_a_branch_by_a_list_of_labels() -> None:
    found = kernel("""
    $L_brx_0: .branchtargets
        $L__BB0_1,
        $L__BB0_2;
    brx.idx %r1, $L_brx_0;
$L__BB0_1:
    ret;
$L__BB0_2:
    ret;
""")
    assert [b.successors for b in found.blocks] == [(1, 2), (), ()]
    assert found.blocks[0].instructions[0].operands == (
        Reg("%r1"), Vector((Symbol("$L__BB0_1"), Symbol("$L__BB0_2"))),
    )  # fmt: skip


def test_variables_of_the_module() -> None:
    module = parse_ptx(
        HEAD + ".global .align 8 .b8 t[4] = {1, 2, 0xFF};\n.const .u64 p[2] = {7, generic(t)+2};\n"
        ".extern .shared .align 16 .b8 dynamic[];\n.global .align 4 .f32 x = 0f3F800000;\n"
    )
    t, p, dynamic, x = module.variables.values()
    assert (t.name, t.space, t.size, t.align, t.content) == ("t", "global", 4, 8, b"\1\2\xff")
    assert (p.size, p.content[:8], p.addresses) == (16, b"\7" + bytes(7), ((8, "t", 2),))
    assert (dynamic.space, dynamic.size, dynamic.align) == ("shared", 0, 16)
    assert x.content == bytes.fromhex("0000803f")


def test_shared_memory_counts_where_it_is_named_also_by_what_is_called() -> None:
    module = parse_ptx(f"""{HEAD}
.shared .align 4 .b8 a[8];
.shared .align 4 .b8 b[8];
.func f()
{{
    .reg .b32 %r<2>;
    ld.shared.b32 %r1, [a+4];
    ret;
}}
.visible .entry calls() {{
    call f, ();
    ret;
}}
.visible .entry alone() {{ ret; }}
""")
    assert [v.name for v in module.kernels["calls"].shared] == ["a"]
    assert module.kernels["alone"].shared == ()


def test_calls_of_device_functions() -> None:
    module = parse_ptx(f"""{HEAD}
.func (.param .b32 func_retval0) f(.param .b32 f_param_0) {{ ret; }}
.visible .entry k(.param .u64 .ptr .align 16 k_param_0)
{{
    .reg .b32 %r<3>;
    {{ // callseq 0, 0
    .param .b32 param0;
    .param .b32 retval0;
    st.param.b32 [param0], %r1;
    call.uni (retval0),
    f,
    (
    param0
    );
    ld.param.b32 %r2, [retval0];
    }} // callseq 0
    ret;
}}
""")
    f, k = module.functions["f"], module.kernels["k"]
    assert [v.name for v in f.parameters + f.results] == ["f_param_0", "func_retval0"]
    assert (k.parameters[0].name, k.parameters[0].size) == ("k_param_0", 8)
    assert list(k.variables) == ["param0", "retval0"]
    call = k.blocks[0].instructions[1]
    assert call.operands == (
        Vector((Symbol("retval0"),)), Symbol("f"), Vector((Symbol("param0"),)),
    )  # fmt: skip


def test_registers_in_braces_are_others() -> None:
    found = kernel("""
    { .reg .pred %p1; setp.eq.s32 %p1, %r1, 0; }
    { .reg .b32 q;
    mov.b32 q, %r1; mov.b32 %r2, q; }
    mov.pred %p2, %p1;
""")
    names = [i.operands[0] for i in found.blocks[0].instructions]
    assert [str(reg.name) for reg in names if isinstance(reg, Reg)] == [
        "%p1.1", "q.2", "%r2", "%p2",
    ]  # fmt: skip
    assert found.registers["%p1"] == found.registers["%p1.1"] == "pred"


def test_statements_over_several_lines_and_comments() -> None:
    found = only("""
    // begin inline asm
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%r1, %r2}, /* two
        lines */ {%r3}, // one
        {%r4};
    // end inline asm
""")
    assert [len(o.elements) for o in found.operands if isinstance(o, Vector)] == [2, 1, 1]


def test_locations_and_sections_of_debug_information() -> None:
    module = parse_ptx(f"""{HEAD}
.entry k() {{
    .loc 1 12 5
    ret;
}}
    .file 1 "/tmp/a.hlo"
    .section .debug_abbrev
    {{
.b8 1 // code
    }}
""")
    assert module.kernels["k"].blocks[0].instructions[0].location == Location("/tmp/a.hlo", 12)


def test_sizes_of_local_memory_and_blocks() -> None:
    found = kernel(".local .align 64 .b8 d[10];\n.local .align 4 .b8 e[4];\nmov.b64 %rd1, d;")
    assert (found.local_bytes, found.threads) == (16, 128)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.b32 %r1, 0q;", "a number is expected"),
        ("add.s32 %r1, , 2;", "an operand is expected"),
        ("@%p9 bra x;", "unknown register"),
        (".reg .b32 %x<>;", "a number of registers"),
        (";", "an instruction is expected"),
        ("@;", "unknown register"),
        (".frobnicate 1;", "unknown directive"),
        ("bra nowhere;", "unknown label"),
        ("ld.b32 %r1, [%tid.x];", "an address is expected"),
    ],
)
def test_errors_have_the_line(body: str, message: str) -> None:
    with pytest.raises(HloError, match=message) as caught:
        kernel(body)
    assert caught.value.code == "ptx-syntax"
    assert caught.value.diagnostics[0].span is not None


def test_a_function_that_is_called_needs_a_body() -> None:
    with pytest.raises(HloError, match="has no body"):
        kernel("call f, ();", before=".extern .func f();\n")
