"""What kernels of GPUs say of their addresses: spaces, alignment, vectors, narrow divisions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hlo.codegen.llvm import Builder, ModuleBuilder, Val, i64
from hlo.codegen.llvm.narrow import with_narrow_divisions
from hlo.codegen.llvm.spaces import add_spaces
from hlo.codegen.llvm.vector_access import with_vector_accesses
from hlo.llvm import Call, Function, Phi

KERNEL = ("ptr align 16 noalias %out", "ptr align 16 noalias readonly %in", "ptr %other")

SHARED = "internal addrspace(3) global [64 x float] undef, align 16"


def kernel(
    write: Callable[[Builder], None], parameters: tuple[str, ...] = KERNEL
) -> tuple[Function, ModuleBuilder]:
    """Return a function of a module."""
    module = ModuleBuilder("nvptx64-nvidia-cuda", "")
    b = Builder(module)
    write(b)
    b.ret()
    module.add(b.finish(Function("kernel", parameters)))
    return module.functions["kernel"], module


def spaced(
    write: Callable[[Builder], None], parameters: tuple[str, ...] = KERNEL
) -> tuple[str, ModuleBuilder]:
    """Return a kernel's text with the spaces of its addresses."""
    _, module = kernel(write, parameters)
    add_spaces(module)
    return module.functions["kernel"].text, module


def at(b: Builder, base: str, number: int) -> str:
    """Return the address of the element so many after element 4 i."""
    return b.element_address(base, "float", b.add(b.mul("%i", 4), number))


# --- spaces -------------------------------------------------------------------------------------


def test_arguments_of_kernels_are_in_global_memory() -> None:
    def write(b: Builder) -> None:
        value = b.load("float", b.element_address("%in", "float", "%i"))
        b.store(value, b.element_address("%out", "float", "%i"))
        b.store(value, "%other")

    text, _ = spaced(write)
    assert "ptr addrspace(1) align 16 noalias %out, ptr addrspace(1)" in text
    assert "getelementptr inbounds float, ptr addrspace(1) %in" in text
    # Nobody writes to what is read only and has no other name.
    assert "load float, ptr addrspace(1) %v1, !invariant.load" in text
    assert "store float %v2, ptr addrspace(1) %other" in text
    assert " ptr %" not in text


def test_a_generic_address_of_a_space_is_the_one_in_the_space() -> None:
    def write(b: Builder) -> None:
        b.module.define("shared", SHARED, space=3, align=16)
        shared = b.converted("ptr addrspace(3)", "@shared")
        address = b.element_address(shared, "float", "%i")
        b.cast("addrspacecast", Val("ptr", address), "ptr addrspace(3)")
        b.store(b.load("float", address), shared)

    text, _ = spaced(write)
    assert "addrspacecast" not in text
    assert "getelementptr inbounds float, ptr addrspace(3) @shared, i64 %i" in text
    assert "ptr addrspace(3) @shared, align 16" in text


def test_tables_and_local_memory_have_spaces() -> None:
    def write(b: Builder) -> None:
        b.module.define("table", "private constant [2 x float] zeroinitializer, align 4")
        own = b.alloca("float", 4).name
        b.store(b.load("float", b.element_address("@table", "float", "%i")), own)

    text, module = spaced(write)
    assert module.globals["table"].text.startswith("private addrspace(1) constant")
    assert "load float, ptr addrspace(1) %v2, !invariant.load" in text
    assert "store float %v3, ptr addrspace(5) %v1" in text


def test_what_is_one_of_several_spaces_is_generic() -> None:
    def write(b: Builder) -> None:
        b.module.define("shared", SHARED, space=3, align=16)
        shared = b.converted("ptr addrspace(3)", "@shared")
        chosen = b.select(Val("i1", "%c"), Val("ptr", shared), Val("ptr", "%in"))
        b.store(b.load("float", chosen.name), "%out")

    text, _ = spaced(write)
    assert "addrspacecast ptr addrspace(3) @shared to ptr" in text
    assert "addrspacecast ptr addrspace(1) %in to ptr" in text
    assert "load float, ptr %" in text


def test_addresses_that_loops_carry_keep_their_space() -> None:
    def write(b: Builder) -> None:
        with b.carrying(0, 8, [Val("ptr", "%in")]) as turn:
            (address,) = turn.values
            b.store(b.load("float", address.name), "%out")
            turn.values = [Val("ptr", b.element_address(address.name, "float", 4))]

    text, module = spaced(write)
    assert "phi ptr addrspace(1) [ %in, %entry ]" in text
    assert "align 16" in text
    assert not [line for line in module.functions["kernel"].body if "addrspacecast" in str(line)]


def test_functions_get_what_all_their_callers_know() -> None:
    module = ModuleBuilder("nvptx64-nvidia-cuda", "")
    for name, base in (("one", "%in"), ("two", "%other")):
        b = Builder(module)
        b.call_void("used", [Val("ptr", base), Val("ptr", "%out")])
        b.ret()
        module.add(b.finish(Function(name, KERNEL)))
    b = Builder(module)
    b.store(b.load("float", "%x"), "%y")
    b.ret()
    module.add(b.finish(Function("used", ("ptr %x", "ptr %y"), linkage="internal")))
    add_spaces(module)
    assert "call void @used(ptr addrspace(1) %in, ptr addrspace(1) %out)" in module.to_text()
    text = module.functions["used"].text
    # Of the first, one caller knows no alignment and that others may write.
    assert "load float, ptr addrspace(1) %x\n" in text
    assert "store float %v1, ptr addrspace(1) %y, align 16" in text


# --- vectors ------------------------------------------------------------------------------------


def vectors(write: Callable[[Builder], None], parameters: tuple[str, ...] = KERNEL) -> list[str]:
    """Return the loads and stores of a kernel."""
    _, module = kernel(write, parameters)
    add_spaces(module)
    lines = with_vector_accesses(module.functions["kernel"], module)
    return [t for t in map(str, lines) if " load " in t or "  store " in t]


def test_neighbours_are_one_access() -> None:
    def write(b: Builder) -> None:
        for n in range(4):
            b.store(b.load("float", at(b, "%in", n)), at(b, "%out", n))

    load, store = vectors(write)
    assert "load <4 x float>, ptr addrspace(1)" in load and "align 16" in load
    assert "store <4 x float>" in store and "align 16" in store


def test_neighbours_in_another_order_are_one_access() -> None:
    def write(b: Builder) -> None:
        values = [b.load("float", at(b, "%in", n)) for n in (2, 0, 3, 1)]
        b.store(b.binary("fadd", values[0], values[1]), "%out")
        b.store(b.binary("fadd", values[2], values[3]), "%out")

    assert "load <4 x float>" in vectors(write)[0]


def test_accesses_are_as_wide_as_alignment_allows() -> None:
    def write(b: Builder) -> None:
        for n in range(1, 5):
            b.store(b.load("float", at(b, "%in", n)), at(b, "%other", n))

    found = vectors(write)
    loads = [t.split("load ")[1].split(",")[0] for t in found if "load" in t]
    # Of %other nothing is known.
    assert loads == ["float", "<2 x float>", "float"]
    assert sum("store float" in t for t in found) == 4


def test_a_store_in_between_that_may_be_to_the_same_place_keeps_loads_apart() -> None:
    def write(b: Builder) -> None:
        first = b.load("float", at(b, "%in", 0))
        b.store(first, "%other")
        b.store(b.load("float", at(b, "%in", 1)), at(b, "%out", 1))

    alone = ("ptr align 16 noalias %out", "ptr align 16 %in", "ptr align 16 %other")
    assert sum("<2 x float>" in t for t in vectors(write, alone)) == 0
    assert sum("<2 x float>" in t for t in vectors(write)) == 1


def test_stores_do_not_move_behind_loads_of_the_same_place() -> None:
    def write(b: Builder) -> None:
        one = Val("float", "1.0")
        b.store(one, at(b, "%out", 0))
        before = b.load("float", b.element_address("%out", "float", "%j"))
        b.store(before, at(b, "%out", 1))

    assert not any("<2 x float>" in t for t in vectors(write))


def test_loads_that_have_moved_up_keep_stores_where_they_are() -> None:
    """A load of what the first store writes moves above the second store."""

    def write(b: Builder) -> None:
        one = Val("float", "1.0")
        b.store(one, at(b, "%out", 0))
        low = b.load("float", at(b, "%out", 4))
        b.store(one, at(b, "%out", 1))
        high = b.load("float", at(b, "%out", 5))
        b.store(b.binary("fadd", low, high), at(b, "%out", 8))

    found = vectors(write)
    assert sum("load <2 x float>" in t for t in found) == 1
    assert sum("store <2 x float>" in t for t in found) == 1


@pytest.mark.parametrize("name", ["llvm.nvvm.barrier.cta.sync.aligned.all", "unknown"])
def test_barriers_keep_accesses_apart(name: str) -> None:
    def write(b: Builder) -> None:
        values = [b.load("float", at(b, "%in", 0))]
        b.module.declare(name, "void", ["i32"], "convergent nounwind")
        b.write(Call("", "void", f"@{name}", ("i32",), ("0",)))
        values.append(b.load("float", at(b, "%in", 1)))
        b.store(b.binary("fadd", *values), "%out")

    assert not any("<2 x float>" in t for t in vectors(write))


def test_accesses_of_other_blocks_stay_there() -> None:
    def write(b: Builder) -> None:
        first = b.load("float", at(b, "%in", 0))
        with b.when(Val("i1", "%c")):
            b.store(b.binary("fadd", first, b.load("float", at(b, "%in", 1))), "%out")

    assert not any("<2 x float>" in t for t in vectors(write))


# --- divisions ----------------------------------------------------------------------------------


def divisions(write: Callable[[Builder], None]) -> list[str]:
    function, _ = kernel(write)
    lines = with_narrow_divisions(function.body, {"@thread": 1023})
    return [str(x).split(" = ")[1].split(" %")[0] for x in lines if "div " in str(x)]


def thread(b: Builder) -> str:
    value = b.effect("i32", Call("", "i32", "@thread", (), ()))
    return b.cast("zext", value, "i64").name


@pytest.mark.parametrize(
    ("factor", "expected"), [(1, "udiv i32"), (1 << 22, "udiv i32"), (1 << 23, "udiv i64")]
)
def test_what_is_known_to_be_small_is_divided_in_32_bits(factor: int, expected: str) -> None:
    def write(b: Builder) -> None:
        b.store(i64(b.udiv(b.mul(thread(b), factor), 3)), "%out")

    assert divisions(write) == [expected]


def test_what_may_be_negative_or_large_is_divided_in_64_bits() -> None:
    def write(b: Builder) -> None:
        b.store(i64(b.udiv(b.sub(thread(b), "%j"), 3)), "%out")
        b.store(i64(b.udiv("%j", 5)), "%out")
        # The quotient of a number that may be 1.
        small = b.binary("udiv", Val("i64", b.mul(thread(b), 1 << 23)), thread(b))
        b.store(i64(b.udiv(small.name, 3)), "%out")

    assert set(divisions(write)) == {"udiv i64"}


@pytest.mark.parametrize(("end", "expected"), [(100, "udiv i32"), ("%n", "udiv i64")])
def test_counters_of_loops_are_as_large_as_their_ends(end: int | str, expected: str) -> None:
    def write(b: Builder) -> None:
        with b.loop(0, end, plain=True) as i:
            b.store(i64(b.udiv(i, 3)), "%out")

    assert divisions(write) == [expected]


def test_what_is_added_after_the_test_counts() -> None:
    """After the last turn the counter is larger than in any."""

    def write(b: Builder) -> None:
        with b.loop(0, (1 << 32) - 2, 4, plain=True) as i:
            b.store(i64(b.udiv(i, 3)), "%out")

    assert divisions(write) == ["udiv i64"]


def test_other_values_of_loops_are_anything() -> None:
    def write(b: Builder) -> None:
        with b.carrying(0, 8, [Val("i64", "1")], plain=True) as turn:
            (value,) = turn.values
            b.store(i64(b.udiv(value.name, 3)), "%out")
            turn.values = [b.binary("add", value, value)]

    function, _ = kernel(write)
    assert any(isinstance(getattr(x, "operation", None), Phi) for x in function.body)
    assert divisions(write) == ["udiv i64"]


def test_words_that_are_negative_as_signed_ones_are_anything() -> None:
    def write(b: Builder) -> None:
        word = b.binary("and", Val("i32", "%w"), Val("i32", str(0xF0000000)))
        least = b.intrinsic("smin", "i32", [word, Val("i32", "10")])
        b.store(i64(b.udiv(b.mul(b.cast("zext", least, "i64").name, 1 << 20), 3)), "%out")

    assert divisions(write) == ["udiv i64"]
