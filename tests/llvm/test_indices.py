"""Arithmetic on indices and addresses: known numbers come last, loops begin at known starts."""

from __future__ import annotations

from hlo.codegen.llvm import Builder, ModuleBuilder, i64
from hlo.llvm import Function


def _builder() -> Builder:
    return Builder(ModuleBuilder())


def _text(b: Builder) -> str:
    b.ret()
    return b.finish(Function("f", ["ptr %buf0", "i64 %n", "i64 %i"])).text


def test_sums_with_known_numbers_are_one():
    b = _builder()
    at = b.add(b.add("%i", 3), b.add(4, "%n"))
    assert at == b.add(b.add("%i", "%n"), 7)
    assert b.sub(b.add("%i", 3), 3) == "%i"


def test_products_of_sums_add_known_numbers_last():
    b = _builder()
    assert b.mul(b.add("%i", 3), 8) == b.add(b.mul("%i", 8), 24)


def test_elements_at_known_distances_have_one_address():
    b = _builder()
    first = b.element_address("%buf0", "float", b.add("%i", 1))
    second = b.element_address("%buf0", "float", b.add("%i", 2))
    assert b.root_of(first)[0] == b.root_of(second)[0]
    assert [b.root_of(x)[1] for x in (first, second)] == [4, 8]
    row = b.element_address("%buf0", "float", 16)
    assert b.element_address(row, "float", b.sub("%i", 15)) == first
    assert b.element_address(first, "float", 1) == second


def test_distances_that_add_up_to_nothing_are_none():
    b = _builder()
    before = b.element_address("%buf0", "float", -1)
    first = b.element_address("%buf0", "float", "%i")
    assert b.element_address(before, "float", b.add("%i", 1)) == first


def test_of_unknown_sizes_indices_stay():
    b = _builder()
    address = b.element_address("%buf0", "ptr", b.add("%i", 1))
    assert b.root_of(address) == (address, 0)


def test_unused_values_are_left_out():
    b = _builder()
    address = b.element_address("%buf0", "float", b.add("%i", 1))
    b.store(b.load("float", address), "%buf0")
    # Neither the sum, which has become part of the address, nor what nobody asks for.
    b.binary("fadd", b.load("float", "%buf0"), b.load("float", "%buf0"))
    text = _text(b)
    assert " add " not in text
    assert "fadd" not in text


def test_addresses_in_a_loop_begin_before_it():
    b = _builder()
    with b.loop(0, "%n", plain=True) as i:
        row = b.add(b.mul("%i", 64), i)
        x = b.load("float", b.element_address("%buf0", "float", row))
        b.store(x, b.element_address("%buf0", "float", b.add(row, 64)))
    text = _text(b)
    before, inside = text.split("body")[0], text.split("body", 2)[2]
    assert "strip.invariant.group" in before
    assert "mul" in before
    assert "mul" not in inside


def test_addresses_that_change_with_what_is_loaded_stay():
    b = _builder()
    with b.loop(0, "%n", plain=True) as i:
        at = b.load("i64", b.element_address("%buf0", "i64", i)).name
        b.store(b.load("float", b.element_address("%buf0", "float", at)), "%buf0")
    assert "strip.invariant.group" not in _text(b)


def test_loops_that_carry_values_have_no_starts():
    b = _builder()
    with b.carrying(0, "%n", [i64("%i")], plain=True) as turn:
        place = b.add(turn.values[0].name, turn.index)
        b.store(turn.values[0], b.element_address("%buf0", "i64", place))
        turn.values[0] = i64(b.add(turn.values[0].name, 3))
    text = _text(b)
    before, inside = text.split("body")[0], text.split("body", 2)[2]
    assert "getelementptr" in inside
    assert "getelementptr" not in before
