"""Run a module on the interpreter and on XLA, and compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.verifier import verify
from tests.harness.oracle import assert_same, xla_run


def run(text: str, args: Sequence[Any] = ()) -> Any:
    """Return what the interpreter makes of a module, which has to be valid."""
    module = parse(text)
    verify(module)
    return interpret(module, args)


def run_both(text: str, args: Sequence[Any] = (), **tolerance: Any) -> Any:
    """Return what the interpreter makes of a module, which XLA has to agree with.

    tolerance: what `oracle.assert_same` takes.
    """
    got = run(text, args)
    assert_same(got, tuple(xla_run(text, args)), **tolerance)
    return got


def errors(text: str) -> list[tuple[str, str]]:
    """Return code and message of what is wrong with a module."""
    try:
        verify(parse(text))
    except HloError as e:
        return [(d.code, d.message) for d in e.diagnostics]
    return []
