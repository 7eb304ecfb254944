"""Errors that wait for `build`, as in the first document."""

from __future__ import annotations

import pytest

import hlo
from hlo.frontends.builder import XlaBuilder


def test_errors_can_wait_for_build() -> None:
    b = XlaBuilder("deferred")
    b.set_die_immediately_on_error(False)
    x = b.parameter(0, "f32[2,3]")
    bad = b.transpose(x, (0, 2))
    b.add(bad, 1.0)  # no second error: it has the first one's operand
    b.rev(x, (7,))
    with pytest.raises(hlo.HloError) as e:
        bad.shape  # noqa: B018
    assert "transpose" in str(e.value)
    with pytest.raises(hlo.HloError) as e:
        b.build()
    assert [d.code for d in e.value.diagnostics] == ["bad-dimension"] * 2


def test_errors_of_a_program_without_a_file() -> None:
    """As in an interactive session: there is no line to show, and each error is there once."""
    program = """
b = XlaBuilder("typed")
b.set_die_immediately_on_error(False)
b.neg(b.neg(b.constant(300, "u8")))
"""
    names = {"XlaBuilder": XlaBuilder}
    exec(compile(program, "<typed>", "exec"), names)
    with pytest.raises(hlo.HloError) as e:
        names["b"].build()  # type: ignore[attr-defined]
    assert [d.code for d in e.value.diagnostics] == ["type-mismatch"]
    assert e.value.diagnostics[0].span is None


def test_what_is_done_with_a_value_in_error_is_no_second_error() -> None:
    b = XlaBuilder("operators")
    b.set_die_immediately_on_error(False)
    bad = b.reshape(b.parameter(0, "f32[2,3]"), (7,))
    for value in (bad[0], bad >> 1, 1 >> bad, -bad, bad == bad, bad @ bad, b.select(bad, bad, 1)):
        assert repr(value) == "<XlaOp in error>"
    with pytest.raises(hlo.HloError) as e:
        b.build()
    assert [d.message.partition(":")[0] for d in e.value.diagnostics] == ["reshape"]


def test_a_sub_builder_does_with_errors_as_its_parent() -> None:
    b = XlaBuilder("parent")
    with pytest.raises(hlo.HloError):
        b.create_sub_builder("child").constant([1, [2]])
    b.set_die_immediately_on_error(False)
    b.create_sub_builder("child").constant([1, [2]])


def test_what_queries_and_checks_do_with_errors() -> None:
    b = XlaBuilder("queries")
    b.set_die_immediately_on_error(False)
    x = b.parameter(0, "f32[2,3]")
    bad = b.reshape(x, (7,))
    for query in (b.get_shape, b.set_return_value, b.is_constant, b.compute_constant):
        with pytest.raises(hlo.HloError, match="reshape"):
            query(bad)
    with pytest.raises(hlo.HloError, match="check_same_shape"):
        b.check_same_shape(x, b.constant(1))
    b.check_shape(x, "f32[3]")
    with pytest.raises(hlo.HloError) as e:
        b.build()
    assert [d.message.partition(":")[0] for d in e.value.diagnostics] == ["reshape", "check_shape"]


def test_a_sub_builder_notes_its_errors_in_its_parent() -> None:
    b = XlaBuilder("parent")
    b.set_die_immediately_on_error(False)
    inner = b.create_sub_builder("child")
    inner.cholesky(inner.parameter(0, "f32[2]"), True)
    less = inner.build_and_note_error()
    assert less is None
    x = b.parameter(0, "f32[]")
    b.neg(b.call(less, [x]))  # type: ignore[arg-type]
    with pytest.raises(hlo.HloError) as e:
        b.build()
    assert [d.message.partition(":")[0] for d in e.value.diagnostics] == ["cholesky", "call"]


def test_build_and_note_error_without_an_error_or_a_parent() -> None:
    b = XlaBuilder("parent")
    inner = b.create_sub_builder("child")
    inner.parameter(0, "f32[]")
    same = inner.build_and_note_error()
    assert same is not None
    x = b.parameter(0, "f32[]")
    assert hlo.interpret(b.build(b.call(same, [x])).module(), 2.5) == 2.5
    with pytest.raises(hlo.HloError, match="no operations"):
        XlaBuilder("alone").build_and_note_error()
