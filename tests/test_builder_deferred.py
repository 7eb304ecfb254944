"""Errors that wait for `build`, as in the first document."""

from __future__ import annotations

import pytest

import hlo
from hlo.builder import XlaBuilder


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


def test_a_sub_builder_notes_its_errors_in_its_parent() -> None:
    b = XlaBuilder("parent")
    b.set_die_immediately_on_error(False)
    inner = b.create_sub_builder("child")
    inner.cholesky(inner.parameter(0, "f32[2]"), True)
    assert inner.build_and_note_error() is None
    b.parameter(0, "f32[]")
    with pytest.raises(hlo.HloError) as e:
        b.build()
    assert "cholesky" in str(e.value)
