"""Types that have a structure. All types are text as LLVM IR writes it: `i64`, `ptr`, `float`."""

from __future__ import annotations

from functools import cache


class VectorType(str):
    """The type of a vector, `<8 x float>`: a number of lanes, and the type of each."""

    lanes: int
    element: str


@cache
def vector_type(lanes: int, element: str) -> VectorType:
    """Return the type of a vector of so many lanes."""
    found = VectorType(f"<{lanes} x {element}>")
    found.lanes, found.element = lanes, element
    return found


def as_vector(type_: str) -> VectorType:
    """Return a type that is one of vectors."""
    assert isinstance(type_, VectorType), type_
    return type_


_SHORT = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def overload(type_: str) -> str:
    """Return a type as it ends the name of an intrinsic: `f32`, `v4i64`."""
    if isinstance(type_, VectorType):
        return f"v{type_.lanes}{overload(type_.element)}"
    return _SHORT.get(type_, type_)
