"""LLVM IR in parts: the optimization level of each function, and that nothing is missing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

import hlo
from hlo.codegen.llvm import Builder, ModuleBuilder, Val, i32
from hlo.codegen.pipeline import emit_program
from hlo.codegen.targets.cpu import cpu_target
from hlo.llvm import Binary, Function, Instruction, Return
from hlo.runtime import emission
from hlo.runtime.efforts import Effort
from hlo.runtime.jit import NativeCode, host_machine
from hlo.runtime.parts import split

PTR = Val("ptr", "%x")


def module_of(*writers: Callable[[ModuleBuilder], Function]) -> ModuleBuilder:
    module = ModuleBuilder()
    for write in writers:
        module.add(write(module))
    return module


def function(name: str, *, internal: bool = False) -> Function:
    if internal:
        return Function(name, ["ptr %x"], ("noinline", "nounwind"), linkage="internal")
    return Function(name, ["ptr %x"])


def entry(*calls: str, additions: int = 0) -> Callable[[ModuleBuilder], Function]:
    def write(module: ModuleBuilder) -> Function:
        b = Builder(module)
        for n in range(additions):
            b.store(b.effect("i64", Binary("add", "", "i64", (str(n), "1"))), "%x")
        for name in calls:
            b.call_void(name, [PTR])
        b.ret(i32(0))
        found = b.finish(function("entry"))
        found.result = "i32"
        return found

    return write


def fill(name: str = "fill", *, plain: bool = False) -> Callable[[ModuleBuilder], Function]:
    """Write a loop that stores the numbers below 100."""

    def write(module: ModuleBuilder) -> Function:
        b = Builder(module)
        with b.loop(0, 100, plain=plain) as i:
            b.store(Val("i64", i), b.element_address("%x", "i64", i))
        b.ret()
        return b.finish(function(name, internal=True))

    return write


def swap(module: ModuleBuilder) -> Function:
    """Write the store of a constant."""
    b = Builder(module)
    address = module.define("seven", "internal unnamed_addr constant i64 7")
    b.store(b.load("i64", address), "%x")
    b.ret()
    return b.finish(function("swap", internal=True))


def efforts(module: ModuleBuilder) -> dict[str, Effort]:
    return {
        name: effort
        for part in split(module).parts
        for effort, text in part.texts
        for name in module.functions
        if any(x.startswith("define") and f"@{name}(" in x for x in text.split("\n"))
    }


@pytest.mark.parametrize(("plain", "effort"), [(False, Effort.VECTORIZE), (True, Effort.CLEAN)])
def test_the_optimization_level_of_a_function(plain: bool, effort: Effort) -> None:
    module = module_of(entry("fill", "swap"), fill(plain=plain), swap)
    # So little straight code is not worth a module of its own.
    assert efforts(module) == {"entry": Effort.CLEAN, "fill": effort, "swap": Effort.CLEAN}


def test_only_innermost_loops_matter() -> None:
    def write(module: ModuleBuilder) -> Function:
        b = Builder(module)
        with b.loop(0, 100), b.loop(0, 100, plain=True) as i:
            b.store(Val("i64", i), "%x")
        b.ret()
        return b.finish(function("entry"))

    assert efforts(module_of(write)) == {"entry": Effort.CLEAN}


def test_much_straight_code_is_apart() -> None:
    module = module_of(entry("fill", "swap", additions=2000), fill(), swap)
    assert efforts(module) == {"entry": Effort.NONE, "fill": Effort.VECTORIZE, "swap": Effort.NONE}


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize("threads", [1, 3])
def test_parts_make_the_whole(copies: int, threads: int) -> None:
    """Many functions become many object files, the same for any number of threads."""
    names = [f"fill.{n}" for n in range(copies)]
    module = module_of(entry(*names, "swap"), *map(fill, names), swap)
    machine = host_machine()
    objects = machine.compile(module, threads)
    assert (len(objects) > 1) == (copies > 1)
    assert objects == machine.compile(module, 1)

    data = (ctypes.c_int64 * 100)()
    code = NativeCode(objects, "entry")
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.addresses["entry"])(data) == 0
    assert list(data) == [7, *range(1, 100)]


@pytest.mark.parametrize("library", [SimpleNamespace(), SimpleNamespace(_name=1, LLVMPY_X=None)])
def test_a_binding_without_the_private_names_makes_the_same_code(
    library: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, machine = module_of(entry("fill", "swap"), fill(), swap), host_machine()
    objects = machine.compile(module, 2)
    emission._unlocked.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(emission, "ffi", SimpleNamespace(lib=library))
        assert emission._unlocked("LLVMPY_X") is None
        assert machine.compile(module, 2) == objects
    emission._unlocked.cache_clear()


def test_an_error_of_llvm_is_raised() -> None:
    wrong = Function("f", [], body=[Instruction("", Return("i64", ("%nothing",)))])
    with pytest.raises(RuntimeError):
        host_machine().compile(module_of(lambda _: wrong), 2)


@pytest.mark.parametrize(
    ("text", "is_folded"),
    [
        ("f32[70] add(f32[70] a, f32[70] b)", True),
        ("s8[70] slice(s8[140] a), slice={[0:140:2]}", False),
        ("f32[7,70] transpose(f32[70,7] a), dimensions={1,0}", False),
    ],
)
def test_loops_that_end_with_a_mask(text: str, is_folded: bool) -> None:
    """Elements that lie apart in memory would be loaded one by one under a mask."""
    machine = host_machine()
    target = cpu_target(machine.triple, machine.data_layout, "+avx512bw,+avx512vl,+avx512f")
    llvm = emit_program(hlo.parse(text).entry, "entry", target).llvm
    assert ("vectorize.predicate.enable" in llvm) == is_folded


def driver(
    name: str, body: Callable[[Builder], None], *, is_light: bool
) -> Callable[[ModuleBuilder], Function]:
    """Write a loop around something."""

    def write(module: ModuleBuilder) -> Function:
        b = Builder(module)
        with b.loop(0, 100):
            body(b)
        b.ret()
        return replace(b.finish(function(name, internal=True)), is_light=is_light)

    return write


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda b: b.call_void("fill", [PTR]), True),
        (lambda b: b.store(Val("i8", "0"), "%x"), False),
        (lambda b: b.call_void("swap", [PTR]), False),
    ],
)
def test_light_loops_around_loops_of_other_functions_are_left_as_they_are(
    body: Callable[[Builder], None], expected: bool
) -> None:
    (part,) = split(module_of(driver("driver", body, is_light=True), fill(), swap)).parts
    (line,) = [line for _, t in part.texts for line in t.split("\n") if "@driver(" in line]
    assert ("optnone" in line) == expected


def test_loops_that_are_not_light_around_others_need_no_optimization() -> None:
    def drive(b: Builder) -> None:
        b.call_void("fill", [PTR])

    around = driver("driver", drive, is_light=False)
    module = module_of(entry("driver", additions=2000), around, fill())
    assert efforts(module)["driver"] is Effort.NONE


def test_a_part_has_the_constants_that_constants_refer_to() -> None:
    module = ModuleBuilder()
    module.define("name", 'private constant [2 x i8] c"a\\00"')
    table = module.define("table", "private constant [1 x ptr] [ptr @name]", ["name"])
    module.define("other", "private constant i8 0")
    b = Builder(module)
    b.ret(b.load("ptr", table))
    module.add(b.finish(Function("entry", [], result="ptr")))
    (part,) = split(module).parts
    ((_, text),) = part.texts
    assert "@name = " in text and "@table = " in text and "@other" not in text


# --- parts that are apart -----------------------------------------------------------------------


def long(name: str, table: str, *calls: str) -> Callable[[ModuleBuilder], Function]:
    """Write a long loop in final form that reads a table and calls functions."""

    def write(module: ModuleBuilder) -> Function:
        address = module.define(table, "internal unnamed_addr constant i64 7")
        b = Builder(module)
        with b.loop(0, 100, plain=True) as i:
            number = b.load("i64", address)
            for n in range(200):
                number = b.effect("i64", Binary("add", "", "i64", (number.name, str(n))))
            b.store(number, b.element_address("%x", "i64", i))
            for called in calls:
                b.call_void(called, [PTR])
        b.ret()
        return replace(b.finish(function(name, internal=True)), is_light=True)

    return write


def shared(module: ModuleBuilder) -> set[str]:
    return {text for part in split(module).parts if part.is_shared for _, text in part.texts}


def test_names_and_what_else_is_in_a_module_do_not_matter() -> None:
    a = module_of(entry("kernel.a"), long("kernel.a", "table"))
    b = module_of(
        fill("before", plain=True), long("kernel.b", "other"), entry("before", "kernel.b")
    )
    assert len(shared(a)) == 1 and shared(a) == shared(b)
    (text,) = shared(a)
    assert "kernel" not in text and "table" not in text
    assert "!llvm.loop !1" in text and "!1 = distinct !{!1, !2, !3}" in text and "!dbg" not in text
    assert not any(part.is_shared for part in split(a, keeps_names=True).parts)


def test_what_is_called_is_part_of_the_name() -> None:
    def text(*callee: Callable[[ModuleBuilder], Function]) -> set[str]:
        called = callee[0](ModuleBuilder()).name
        return shared(module_of(entry("f"), *callee, long("f", "t", called)))

    assert text(fill("g", plain=True)) == text(fill("h", plain=True)) != text(swap)


def test_functions_that_differ_by_name_are_one() -> None:
    module = module_of(
        long("a", "t"), long("b", "t"),
        long("f", "t", "a", "b"), long("g", "t", "b", "a"), entry("f", "g"),
    )  # fmt: skip
    assert len(shared(module)) == 2
    data = (ctypes.c_int64 * 100)()
    code = NativeCode(host_machine().compile(module, 1), "entry")
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.addresses["entry"])(data) == 0
    assert list(data) == [7 + sum(range(200))] * 100


def test_functions_that_others_know_keep_their_names() -> None:
    exported = long("exported", "t")(module := module_of())
    module.add(exported.replace(linkage=""))
    module.add(long("caller", "t", "exported")(module))
    module.add(entry("caller")(module))
    assert not shared(module)
    code = NativeCode(host_machine().compile(module, 1), "entry", "exported")
    assert code.addresses["exported"]


def test_functions_that_call_each_other_are_not_apart() -> None:
    module = module_of(long("f", "t", "g"), long("g", "t", "f"), long("h", "t"), entry("f", "h"))
    assert [p.names for p in split(module).parts if p.is_shared] == [("h",)]
    NativeCode(host_machine().compile(module, 1), "entry")


def test_tables_of_functions_follow_their_names() -> None:
    module = module_of(long("f", "t"))
    module.define("note", 'private constant [3 x i8] c"@f\\00"')
    table = module.define("table", "private constant [2 x ptr] [ptr @f, ptr @note]", ["f", "note"])
    b = Builder(module)
    b.ret(b.load("ptr", table))
    module.add(b.finish(Function("entry", [], result="ptr")))
    code = NativeCode(host_machine().compile(module, 1), "entry")
    address = ctypes.CFUNCTYPE(ctypes.c_void_p)(code.addresses["entry"])()
    data = (ctypes.c_int64 * 100)()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(data)
    assert data[0] == 7 + sum(range(200))


def test_general_functions_are_apart_from_what_uses_them() -> None:
    """With what only they use; one caller does not make them part of it."""
    module = ModuleBuilder()
    for function_of in (long("tile", "t"), long("edge", "t", "tile"), long("copy", "t")):
        module.add(replace(function_of(module), is_general=True))
    module.add(long("kernel", "t", "edge", "copy")(module))
    module.add(entry("kernel")(module))
    parts = {p.names: [e for e, _ in p.texts] for p in split(module).parts if p.is_shared}
    assert parts == {
        ("tile", "edge"): [Effort.FINAL], ("copy",): [Effort.FINAL], ("kernel",): [Effort.CLEAN]
    }  # fmt: skip
    data = (ctypes.c_int64 * 100)()
    code = NativeCode(host_machine().compile(module, 1), "entry")
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.addresses["entry"])(data) == 0


def test_renamed_functions_print_what_they_are() -> None:
    module = module_of(long("f", "t", "g"), fill("g", plain=True))
    f = module.functions["f"]
    text = f.renamed({"f": "F", "g": "G", "t": "T"}, {n: n + 10 for n in f.metadata}).text
    fresh = f.renamed({"f": "F", "g": "G", "t": "T"}, {n: n + 10 for n in f.metadata})
    assert text == replace(fresh).text and "@g(" not in text and "define internal void @F(" in text
    assert all(f"!{n + 10}" in text for n in f.metadata)
