"""Computations to call: built ones, and functions from handles to a handle, which build one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hlo.errors import HloError
from hlo.frontends.builder.call_site import Unnamed, call_site
from hlo.frontends.builder.computation import XlaComputation
from hlo.frontends.builder.core import BuilderCore, append
from hlo.frontends.builder.handle import Handle
from hlo.ir import Computation, Instruction
from hlo.values.types import Shape

Callee = XlaComputation | Callable[..., Handle]
"""A computation to call: a built one, or a function from handles to a handle that builds it."""


def callee_of(
    builder: BuilderCore[Any], callee: Callee, shapes: Sequence[Shape], role: str
) -> Computation:
    """Return the computation to call; a function builds it on parameters of `shapes`.

    role: what it is for the operation that calls it, such as `reducer`. Raises HloError for what is
    no computation, such as the None of a `build_and_note_error` that failed; what is wrong inside a
    function is said with the shapes that it got.
    """
    if isinstance(callee, XlaComputation):
        return callee.computation
    if not callable(callee):
        found = "None" if callee is None else f"a {type(callee).__name__}"
        raise Unnamed.at(
            "bad-computation", f"{role} is {found}, a computation is needed", call_site(),
            "a function from handles to a handle, or what build() returns",
        )  # fmt: skip
    name = getattr(callee, "__name__", role).strip("<>")
    given = ", ".join(s.to_string(False) for s in shapes)
    check_arity(callee, role, len(shapes), given)
    try:
        return _built(builder.create_sub_builder(name), callee, shapes)
    except HloError as e:
        note = (f"in {role} {name}, which gets ({given})", call_site())
        raise HloError(replace(d, notes=(*d.notes, note)) for d in e.diagnostics) from None


def check_arity(callee: Callable[..., Handle], role: str, count: int, given: str) -> None:
    try:
        signature = inspect.signature(callee)
    except ValueError:  # some that are written in C have none
        return
    try:
        signature.bind(*range(count))
    except TypeError:
        raise Unnamed.at(
            "bad-computation",
            f"{role} is a function of {signature}, {count} values are passed: ({given})",
            call_site(),
        ) from None


def _built(
    inner: BuilderCore[Any], function: Callable[..., Handle], shapes: Sequence[Shape]
) -> Computation:
    handles = [
        append(inner, Instruction(f"p{n}", "parameter", s, (), {"number": n}, span=call_site()))
        for n, s in enumerate(shapes)
    ]
    root = function(*handles)
    if root is None:  # else the operation appended last would be taken
        raise HloError.at(
            "type-mismatch",
            f"{inner.name}: the function returns nothing, a value of the program is needed",
            call_site(),
        )
    return inner.build(root).computation
