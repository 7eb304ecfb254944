"""Compile a module to native code, run it, and compare with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from oracle import assert_same, leaves

from hlo.codegen.entry import emit_program
from hlo.codegen.target import Target
from hlo.eval import interpret
from hlo.layout import pack, unpack
from hlo.runtime.executable import Executable
from hlo.runtime.jit import NativeCode, host_machine, to_object
from hlo.text import parse
from hlo.types import ArrayShape
from hlo.verify import verify


@lru_cache(maxsize=32)
def compiled(text: str) -> Executable:
    """Return the native code of a module, which has to be valid."""
    module = parse(text)
    verify(module)
    features = llvm.get_host_cpu_features().flatten()
    target = Target.of(llvm.get_default_triple(), str(host_machine().target_data), features)
    p = emit_program(module.entry, "entry", target)
    return Executable(
        NativeCode(to_object(p.llvm), p.entry), p.entry, p.arguments, p.results, p.arena_bytes,
        p.constants, p.constant_bytes,
    )  # fmt: skip


def run_leaves(text: str, args: Sequence[Any]) -> list[np.ndarray]:
    """Return the result leaves of a compiled module, in logical order."""
    exe = compiled(text)
    flat = [np.asarray(a) for a in leaves(tuple(args))]
    given = [_physical(a, s) for a, s in zip(flat, exe.arguments, strict=True)]
    results = exe.run(given)
    return [_logical(r, s) for r, s in zip(results, exe.results, strict=True)]


def _physical(array: np.ndarray, shape: ArrayShape) -> np.ndarray:
    return pack(array, shape) if array.size else array


def _logical(array: np.ndarray, shape: ArrayShape) -> np.ndarray:
    if not array.size:
        return array
    return unpack(np.ascontiguousarray(array).reshape(-1).view(np.uint8), shape)


def check(text: str, args: Sequence[Any] = (), **tolerance: Any) -> list[np.ndarray]:
    """Return what a compiled module computes, which the interpreter has to agree with.

    tolerance: what `oracle.assert_same` takes.
    """
    got = run_leaves(text, args)
    module = parse(text)
    assert_same(got, leaves(interpret(module, args)), **tolerance)
    return got
