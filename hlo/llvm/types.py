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


_SHORT = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


def overload(type_: str) -> str:
    """Return a type as it ends the name of an intrinsic: `f32`, `v4i64`."""
    if isinstance(type_, VectorType):
        return f"v{type_.lanes}{overload(type_.element)}"
    return _SHORT.get(type_, type_)


_BYTES = {
    "half": 2, "bfloat": 2, "float": 4, "double": 8,
    "i8": 1, "i16": 2, "i32": 4, "i64": 8, "i128": 16,
}  # fmt: skip


def byte_size(type_: str) -> int:
    """Return the bytes from an element of a type to the next; 0 where a machine says how many."""
    if isinstance(type_, VectorType):
        size = type_.lanes * byte_size(type_.element)
        return size if size.bit_count() == 1 else 0
    return _BYTES.get(type_, 0)
