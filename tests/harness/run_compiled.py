"""Compile a module to native code as it is, run it, and compare with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hlo.compiler.pipeline import compile_text
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.runtime.executable import Executable
from tests.harness.oracle import assert_same, leaves


@lru_cache(maxsize=32)
def compiled(text: str) -> Executable:
    """Return the native code of a module, which has to be valid."""
    return compile_text(text.encode(), "<test>", cache=False, passes="")


def compiled_for(text: str, threads: int) -> Executable:
    """Return the native code of a module for a number of threads."""
    return compile_text(text.encode(), "<test>", cache=False, passes="", threads=threads)


def run_leaves(text: str, args: Sequence[Any]) -> list[np.ndarray]:
    """Return the result leaves of a compiled module, in logical order."""
    return leaves(compiled(text)(*args))


def check(text: str, args: Sequence[Any] = (), **tolerance: Any) -> list[np.ndarray]:
    """Return what a compiled module computes, which the interpreter has to agree with.

    tolerance: what `oracle.assert_same` takes.
    """
    got = run_leaves(text, args)
    module = parse(text)
    assert_same(got, leaves(interpret(module, args)), **tolerance)
    return got
