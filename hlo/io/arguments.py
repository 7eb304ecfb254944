"""Values for parameters: checked, generated, and assembled from their leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.errors import HloError, InferError, did_you_mean
from hlo.support.interop import array_of
from hlo.support.memory import check_memory
from hlo.support.trees import Trees
from hlo.values.arrays import TOKEN_VALUE, DynamicArray, OnDevice
from hlo.values.literal import Literal
from hlo.values.numerals import from_double
from hlo.values.types import (
    UNBOUNDED,
    ArrayShape,
    ElementType,
    Kind,
    Shape,
    TokenShape,
    TupleShape,
    integer_range,
)

Path = tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a program, as callers see it."""

    number: int
    name: str
    shape: Shape

    def leaves(self) -> Iterator[tuple[Path, str, Shape]]:
        """Yield index path, name and shape of each leaf, without tokens."""
        for path, shape in self.shape.leaves():
            if not isinstance(shape, TokenShape):
                yield path, ".".join([self.name, *map(str, path)]), shape


def assemble(shape: Shape, leaves: Mapping[Path, Any], path: Path = ()) -> Any:
    """Return the nested value of a shape from its leaves by index path."""
    if isinstance(shape, TupleShape):
        return tuple(assemble(s, leaves, (*path, i)) for i, s in enumerate(shape.elements))
    return TOKEN_VALUE if isinstance(shape, TokenShape) else leaves[path]


def named_leaves(shape: Shape, value: Any = None) -> list[tuple[str, Shape, Any]]:
    """Return name (`out0, out1, ..`), shape and value of each array of a result, in order.

    value: the result of a run; without it the values are None.
    """
    found: list[tuple[str, Shape, Any]] = []
    for path, leaf_shape in shape.leaves():
        if not isinstance(leaf_shape, TokenShape):
            leaf = value
            for i in path if value is not None else ():
                leaf = leaf[i]
            found.append((f"out{len(found)}", leaf_shape, leaf))
    return found


# --- checking -----------------------------------------------------------------------------------


def bind_call(
    parameters: Sequence[Parameter],
    args: Sequence[Any],
    named: Mapping[str, Any],
    trees: Trees | None = None,
) -> list[Any]:
    """Return one checked value for each parameter of a call.

    args: as for `bind_arguments`. named: further parameters by name, or leaves of one by theirs,
    `t.0.1`. trees: how the program nests its arguments, which may be passed that way if all of them
    are still parameters. Raises TypeError for names that no parameter has, as a function call does,
    and HloError for values that do not fit.
    """
    if trees is not None and trees.parameters == len(parameters):
        leaves = trees.leaves(args, named)
        if leaves is not None:
            return bind_arguments(parameters, leaves)
    if named:
        return _bind_whole(parameters, _by_name(parameters, args, named))
    return bind_arguments(parameters, args)


def _by_name(
    parameters: Sequence[Parameter], args: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Return one value for each parameter, from positional and named ones."""
    if len(args) > len(parameters):
        raise HloError.at(
            "argument-count", f"{len(args)} arguments by position for {len(parameters)} parameters"
        )
    values: dict[int, Any] = dict(enumerate(args))
    whole = {p.name: p.number for p in parameters}
    parts = {name: (p.number, path) for p in parameters for path, name, _ in p.leaves()}
    found: dict[int, dict[Path, Any]] = {}
    for name, value in named.items():
        number, path = parts[name] if name in parts else (whole.get(name), ())
        if number is None:
            hint = did_you_mean(name, whole) or f"parameters are {', '.join(whole)}"
            raise TypeError(f"there is no parameter called {name!r}; {hint}")
        if number < len(args):
            raise TypeError(f"parameter {name!r} is given by position and by name")
        if name in whole:
            values[number] = value
        else:
            found.setdefault(number, {})[path] = value
    for p in parameters:
        if p.number in found and found[p.number].keys() >= {path for path, _, _ in p.leaves()}:
            values.setdefault(p.number, assemble(p.shape, found[p.number]))
    missing = [p.name for p in parameters if p.number not in values]
    if missing:
        raise HloError.at("argument-count", f"there is no value for {', '.join(missing)}")
    return [values[p.number] for p in parameters]


def bind_arguments(parameters: Sequence[Parameter], args: Sequence[Any]) -> list[Any]:
    """Return one checked value for each parameter.

    args: one for each parameter, tuples nested, or all leaves (but tokens) flat; literals count as
    their values. Arrays that fit are not copied. Raises HloError.
    """
    args = [a.value if isinstance(a, Literal) else a for a in args]
    leaves = [(p, *leaf) for p in parameters for leaf in p.leaves()]
    if len(args) == len(parameters) and all(map(_may_be_whole, parameters, args)):
        return _bind_whole(parameters, args)
    if len(args) != len(leaves):
        counts = f"{len(parameters)} parameters"
        if len(leaves) != len(parameters):
            counts += f" ({len(leaves)} arrays in all)"
        raise HloError.at("argument-count", f"{len(args)} arguments for {counts}")
    found: dict[int, dict[Path, Any]] = {p.number: {} for p in parameters}
    for arg, (p, path, name, shape) in zip(args, leaves, strict=True):
        found[p.number][path] = _bound(arg, shape, f"argument {name}")
    return [assemble(p.shape, found[p.number]) for p in parameters]


def _bind_whole(parameters: Sequence[Parameter], args: Sequence[Any]) -> list[Any]:
    return [
        _nested(arg, p.shape, f"argument {p.number} ({p.name})")
        for p, arg in zip(parameters, args, strict=True)
    ]


def _may_be_whole(parameter: Parameter, arg: Any) -> bool:
    return not isinstance(parameter.shape, TupleShape) or isinstance(arg, (tuple, list))


def _nested(value: Any, shape: Shape, what: str) -> Any:
    if isinstance(value, Literal):
        value = value.value
    if isinstance(shape, TupleShape):
        if not isinstance(value, (tuple, list)) or len(value) != len(shape.elements):
            have = f"{len(value)}" if isinstance(value, (tuple, list)) else "no"
            raise HloError.at(
                "type-mismatch",
                f"{what}: a tuple of {len(shape.elements)} is needed, it has {have} elements",
            )
        return tuple(
            _nested(v, s, f"{what}.{i}")
            for i, (v, s) in enumerate(zip(value, shape.elements, strict=True))
        )
    return TOKEN_VALUE if isinstance(shape, TokenShape) else _bound(value, shape, what)


def _bound(value: Any, shape: Shape, what: str) -> Any:
    """Return what is passed for a leaf: see `as_leaf`. What is on a device stays there if it fits
    exactly."""
    if isinstance(value, OnDevice):
        if isinstance(shape, ArrayShape) and not shape.is_dynamic:
            if value.dtype == shape.element_type.dtype and value.shape == shape.dims:
                return value
        value = np.asarray(value.array)
    return as_leaf(value, shape, what)


def as_leaf(value: Any, shape: Shape, what: str) -> np.ndarray | DynamicArray:
    """Convert a value to an array of a shape. `what` names it in errors.

    Arrays, of numpy or another library, need the shape's dtype, or its bits: `|V2` and `uint16`
    arrays are reinterpreted as bf16, and so on; sub-byte integers may come as int8 or uint8 of
    small values. Python numbers and lists are converted if the type has numbers of their kind. A
    dynamic dimension may be shorter than its bound. Raises HloError.
    """
    if not isinstance(shape, ArrayShape):
        raise HloError.at("unsupported", f"{what}: there are no values of shape {shape}")
    if isinstance(value, DynamicArray):
        value = value.actual
    et = shape.element_type
    found = array_of(value, what)
    array = _as_type(_from_python(value, shape, what) if found is None else found, et, what, shape)
    fits = array.ndim == shape.rank and all(
        n == size or size == UNBOUNDED or (shape.is_dynamic_dim(d) and n < size)
        for d, (n, size) in enumerate(zip(array.shape, shape.dims, strict=True))
    )
    if not fits:
        raise HloError.at(
            "shape-mismatch",
            f"{what} has dimensions {list(array.shape)}, {shape.to_string(False)} is needed",
        )
    return array


def as_constant(value: Any, et: ElementType, what: str) -> np.ndarray:
    """Return a number, an array or nested lists as an array of an element type. Raises HloError."""
    data = as_leaf(value, ArrayShape(et, dims_of(value, what)), what)
    assert isinstance(data, np.ndarray)
    return data


def dims_of(value: Any, what: str) -> tuple[int, ...]:
    """Return the dimensions of a number, an array or nested lists. Raises HloError."""
    try:
        return np.asarray(value).shape
    except ValueError:
        raise HloError.at(
            "shape-mismatch", f"{what}: its lists differ in length or are nested too deep"
        ) from None


# numpy's kinds of numbers, and the kinds of element types that can represent them.
_HELD_BY = {
    "b": set(Kind),
    "i": {Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.COMPLEX},
    "u": {Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.COMPLEX},
    "f": {Kind.FLOAT, Kind.COMPLEX},
    "c": {Kind.COMPLEX},
}


def _from_python(value: Any, shape: ArrayShape, what: str) -> np.ndarray:
    """Return a number, or nested lists of numbers, as an array of the shape's type."""
    et = shape.element_type
    try:
        array = np.asarray(value)
    except ValueError:
        raise HloError.at("shape-mismatch", f"{what}: its lists differ in length") from None
    except (BufferError, RuntimeError, TypeError) as e:
        # Lists of objects whose conversion to an array fails.
        raise HloError.at("type-mismatch", f"{what}: numpy takes no list of these: {e}") from e
    if array.size and et.kind not in _HELD_BY.get(array.dtype.kind, ()):
        raise HloError.at(
            "type-mismatch",
            f"{what}: {array.dtype} numbers do not convert to {shape.to_string(False)}",
        )
    if et.is_integer and array.size:
        return _small_integers(array, et, what)
    if et.is_float:
        return from_double(array.astype(np.float64), et)
    return array.astype(et.dtype)


def _as_type(array: np.ndarray, et: ElementType, what: str, shape: ArrayShape) -> np.ndarray:
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    dtype = array.dtype
    if dtype == et.dtype:
        return array
    if dtype.itemsize == et.byte_width:
        of_numpy = et.dtype.isbuiltin == 1
        if dtype.type is np.void and dtype.names is None:
            # Untyped bytes: how numpy's files store types that it does not know.
            octets = np.array(array, order="C")
            return octets.view(np.uint8) != 0 if et.is_pred else octets.view(et.dtype)
        if et.is_integer and not of_numpy and dtype.kind in "iu":
            return _small_integers(array, et, what)
        if et.is_float and not of_numpy and dtype.kind == "u":
            if et.bits < 8 and np.any(array >= 1 << et.bits):
                raise HloError.at("type-mismatch", f"{what} has bits outside the {et.bits} of {et}")
            return np.array(array, order="C").view(et.dtype)
    name = f"numpy.{dtype.name}" if dtype.isbuiltin == 1 else dtype.name
    raise HloError.at(
        "type-mismatch",
        f"{what} has dtype {name}, {shape.to_string(False)} is needed",
        hint=f"{et} is dtype {et.dtype.type.__module__}.{et.dtype.name}",
    )


def _small_integers(array: np.ndarray, et: ElementType, what: str) -> np.ndarray:
    lo, hi = integer_range(et)
    if array.size and (int(array.min()) < lo or int(array.max()) > hi):
        raise HloError.at("type-mismatch", f"{what} has values outside {et}: [{lo}, {hi}]")
    return array.astype(et.dtype)


# --- generating ---------------------------------------------------------------------------------


def need_size(shape: Shape, what: str) -> ArrayShape:
    """Return an array shape of a known size that fits in memory. Raises HloError."""
    if not isinstance(shape, ArrayShape):
        raise HloError.at("unsupported", f"{what}: there are no values of shape {shape}")
    if UNBOUNDED in shape.dims:
        raise HloError.at(
            "shape-mismatch", f"{what}: {shape.to_string(False)} has no size, so it needs a value"
        )
    try:
        check_memory(shape.byte_size, f"{what}, {shape.to_string(False)},")
    except InferError as e:
        raise HloError.at(e.code, e.message) from None
    return shape


def known_bytes(shape: Shape) -> int:
    """Return the bytes of a value's arrays, without those of unknown size."""
    arrays = [leaf for _, leaf in shape.leaves() if isinstance(leaf, ArrayShape)]
    return sum(a.byte_size for a in arrays if UNBOUNDED not in a.dims)


def zero_array(shape: ArrayShape) -> np.ndarray:
    """Return zeros of a shape; f8e8m0fnu, which has none, gets its smallest number."""
    return np.zeros(shape.dims, f"V{shape.element_type.byte_width}").view(shape.element_type.dtype)
