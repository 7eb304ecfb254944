"""LLVM IR as data: LLVM reads what the records print; what they say of callees and loops."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from hlo.codegen.llvm import FALSE, TRUE, Builder, ModuleBuilder, Val, float_const, i32, i64, ptr
from hlo.llvm import (
    Binary,
    Branch,
    Call,
    Compare,
    Function,
    Instruction,
    Label,
    LlvmModule,
    Location,
    Phi,
    Return,
    Store,
    with_operands,
)


def test_llvm_reads_every_kind_of_instruction() -> None:
    module = ModuleBuilder()
    table = module.define("table", "constant [2 x float] zeroinitializer")
    module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1 immarg"])
    b = Builder(module)
    slot = b.alloca("float", 2, align=16).name
    other = b.alloca("i8").name
    b.call_void("llvm.memset.p0.i64", [ptr(other, align=1), Val("i8", "0"), i64(1), FALSE])
    x = b.load("float", table, align=4, is_constant=True)
    y = b.load("float", b.element_address("%p", "float", "%n"), is_invariant=True)
    total = b.binary("fadd", x, y, "reassoc contract")
    positive = b.fcmp("ogt", b.unary("fneg", total), float_const("float", 0.0))
    chosen = b.select(positive, x, b.intrinsic("fma", "float", [x, y, total]))
    whole = b.intrinsic("fptosi.sat", "i32", [chosen], ["float"])
    wide = b.splat(b.cast("sitofp", whole, "float"), 4)
    turned = b.shuffle_vector(wide, b.insert_element(wide, x, 2), [0, 7, 2, 5])
    b.store(b.extract_element(turned, 1), slot, align=4)
    with b.loop(0, "%n", folded=True) as i, b.when(b.compare("eq", i, 3)):
        b.store(x, b.element_address(slot, "float", b.urem(i, 2)))
    field = b.field_address("{ i32, ptr }", "%p", i64(0), i32(1))
    result = b.call_address(b.load("ptr", field), [ptr(slot)], "i32")
    (merged,) = b.choose(positive, lambda: [result], lambda: [b.call("f", [], "i32")])
    first, second = b.new_label("first"), b.new_label("second")
    b.switch(merged, [first], second)
    b.place(first)
    b.ret(merged)
    b.place(second)
    b.ret(i32(0))
    module.add(b.finish(Function("entry", ["ptr %p", "i64 %n"], result="i32")))
    empty = Builder(module)
    empty.ret(i32(1))
    attributes = ("noinline", "nounwind", "memory(none)")
    module.add(empty.finish(Function("f", [], attributes, "i32", linkage="internal")))
    module.named_metadata["llvm.module.flags"] = (module.node('!{i32 2, !"x", i32 1}'),)

    read = llvm.parse_assembly(module.to_text())
    read.verify()
    opcodes = {i.opcode for f in read.functions for block in f.blocks for i in block.instructions}
    assert opcodes >= {
        "alloca", "br", "call", "extractelement", "fadd", "fcmp", "fneg", "getelementptr", "icmp",
        "insertelement", "load", "phi", "ret", "select", "shufflevector", "sitofp", "store",
        "switch",
    }  # fmt: skip
    assert read.get_function("f").linkage is llvm.Linkage.internal


def test_equal_operations_are_one_value_where_the_first_dominates() -> None:
    b = Builder(ModuleBuilder())
    x, y = Val("i32", "%x"), Val("i32", "%y")
    first = b.binary("add", x, y)
    assert b.binary("add", x, y) == first
    assert b.binary("add", x, y, "nsw") != first
    with b.when(TRUE):
        inside = b.binary("mul", x, y)
    assert b.binary("mul", x, y) != inside
    assert b.load("i32", "%p") != b.load("i32", "%p")


def nest(*, is_final: bool) -> Function:
    """Return a loop around a loop that calls `inner`; the outer one stores the address `@seven`."""
    module = ModuleBuilder()
    b = Builder(module)
    with b.loop(0, 8):
        b.store(ptr("@seven"), "%p")
        with b.loop(0, 8, plain=is_final):
            b.call_void("inner", [])
    b.ret()
    return b.finish(Function("f", ["ptr %p"]))


@pytest.mark.parametrize("is_final", [False, True])
def test_loops_and_symbols_of_a_function(is_final: bool) -> None:
    f = nest(is_final=is_final)
    assert f.symbols == {"seven", "inner"}
    (loop,) = f.innermost_loops
    assert f.symbols_in(loop) == {"inner"}
    assert (loop.metadata is not None and loop.metadata.is_final) == is_final
    assert len(f.metadata) == is_final


def test_a_function_as_others_see_it() -> None:
    f = Function("f", ["ptr %p"], ("nounwind", "memory(none)"), "i32", linkage="internal")
    assert f.replace(linkage="", visibility="hidden").declaration == (
        "declare hidden i32 @f(ptr %p) memory(none)"
    )
    assert f.text.startswith("define internal i32 @f(ptr %p) nounwind memory(none) {")


def test_operands_are_replaced_wherever_they_are() -> None:
    body = [
        Label("entry"),
        Instruction("%i", Phi("i64", ("%begin", "%j"), ("entry", "next"))),
        Instruction("%j", Binary("add", "nsw", "i64", ("%i", "%begin"))),
        Instruction("%c", Compare("icmp", "slt", "i64", ("%j", "%beginning"))),
        Instruction("", Branch(("%c",), ("next", "done"))),
        Instruction("", Call("", "void", "@f", ("i64",), ("%begin",))),
        Instruction("", Store("i64", ("%begin", "%p"))),
        Instruction("", Return("void", ())),
    ]
    found = [str(line) for line in with_operands(body, {"%begin": "0"})]
    assert found == [
        "entry:",
        "  %i = phi i64 [ 0, %entry ], [ %j, %next ]",
        "  %j = add nsw i64 %i, 0",
        "  %c = icmp slt i64 %j, %beginning",
        "  br i1 %c, label %next, label %done",
        "  call void @f(i64 0)",
        "  store i64 0, ptr %p",
        "  ret void",
    ]


def test_functions_that_differ_in_locations_alone_do_the_same() -> None:
    end = Instruction("", Return("void", ()))
    first, second = (Function("", [], body=[Location(line, 3), end]) for line in (1, 2))
    assert first.text != second.text
    assert first.text_without_locations == second.text_without_locations


def test_an_empty_module_has_no_text() -> None:
    assert LlvmModule().to_text() == "\n"
