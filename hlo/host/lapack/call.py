"""Calls of LAPACK: Fortran's calling convention, workspaces, batches, column-major matrices."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.host.ffi_attributes import ffi_values
from hlo.ops.host.lapack_targets import Routine
from hlo.ops.spec import OpView
from hlo.values.types import ArrayShape, TupleShape

_TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
_REALS = {"s": np.float32, "d": np.float64, "c": np.float32, "z": np.float64}


def need_library() -> None:
    """Raise InferError, code `missing-extra`, unless LAPACK is installed."""
    try:
        from scipy.linalg import cython_lapack  # noqa: F401
    except ImportError:
        raise InferError(
            "custom-call: LAPACK functions need scipy, which is not installed",
            attr="custom_call_target", code="missing-extra",
            hint="pip install 'hlo-tools[lapack]'",
        ) from None  # fmt: skip


@functools.cache
def _function(name: str) -> Any:
    """Return a routine of LAPACK, all of whose arguments are addresses."""
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__[name]
    get_name, get_pointer = (
        ctypes.pythonapi.PyCapsule_GetName,
        ctypes.pythonapi.PyCapsule_GetPointer,
    )
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None)(get_pointer(capsule, get_name(capsule)))


def _address(value: Any) -> Any:
    """Return the address that passes a value to Fortran: all arguments are by reference."""
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, int):
        return ctypes.byref(ctypes.c_int(value))
    if isinstance(value, str):
        return ctypes.byref(ctypes.c_char(value.encode()))
    return value  # None: a null pointer


class Call:
    """One verified custom call: operands, results, and how LAPACK is called."""

    def __init__(self, op: OpView, asked: Routine, args: Sequence[np.ndarray]) -> None:
        self.letter = asked.letter
        self.dtype, self.real = np.dtype(_TYPES[self.letter]), np.dtype(_REALS[self.letter])
        self.is_complex = self.dtype.kind == "c"
        self.args = args
        self.attrs = ffi_values(op)
        # The sizes that the names in the routine's signature are bound to.
        self.sizes = asked.sizes
        # The number of batch dimensions.
        self.batch_rank = len(asked.batch)
        shapes = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
        self.shapes = [s for s in shapes if isinstance(s, ArrayShape)]
        if any(s.is_dynamic for s in self.shapes) or not all(
            isinstance(a, np.ndarray) for a in args
        ):
            raise InferError(
                f"custom-call: {op.custom_call_target} of arrays of dynamic size",
                code="unsupported",
            )

    def letter_of(self, key: str) -> str:
        """Return the letter that an attribute encodes."""
        return chr(self.attrs[key])

    def matrices(self, a: np.ndarray) -> np.ndarray:
        """Return a copy `[count, columns, rows]` of matrices `[..., rows, columns]`."""
        count = math.prod(a.shape[:-2])
        return np.ascontiguousarray(a.swapaxes(-1, -2)).reshape(count, *a.shape[:-3:-1]).copy()

    def vectors(self, a: np.ndarray) -> np.ndarray:
        """Return a copy `[count, n]` of vectors `[..., n]`."""
        return np.array(a, order="C").reshape(math.prod(a.shape[:-1]), a.shape[-1])

    def empty(self, n: int) -> np.ndarray:
        """Return memory for result n, one entry per batch element, matrices column-major."""
        shape = self.shapes[n]
        rank = len(shape.dims) - self.batch_rank
        inner = shape.dims[self.batch_rank :][::-1] if rank == 2 else shape.dims[self.batch_rank :]
        count = math.prod(shape.dims[: self.batch_rank])
        return np.zeros((count, *inner), shape.element_type.dtype)

    def results(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return results in their shapes, from arrays with one entry per batch element."""
        found = []
        for array, shape in zip(arrays, self.shapes, strict=True):
            value = array.swapaxes(-1, -2) if array.ndim == 3 else array
            found.append(value.reshape(shape.dims))
        return tuple(found)

    def lapack(self, name: str, *values: Any) -> int:
        """Call a routine, with the type's letter before its name; returns its info, the last."""
        info = ctypes.c_int(0)
        _function(self.letter + name)(*map(_address, values), ctypes.byref(info))
        return info.value

    def space(self, name: str, *values: Any, before: Sequence[Any] = ()) -> np.ndarray:
        """Return a workspace as large as a routine asks for. `before`: the arguments after it."""
        work = np.zeros(1, self.dtype)
        self.lapack(name, *values, work, -1, *before)
        return np.empty(work_size(work), self.dtype)


def work_size(answer: np.ndarray) -> int:
    """Return a workspace size that LAPACK returned as a float, which may have been rounded."""
    return max(1, int(np.nextafter(answer[0].real, np.inf)) + 1)
