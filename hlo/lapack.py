"""LAPACK for the custom calls that JAX makes on CPU, through the library that scipy brings.

JAX factors matrices by calls of `lapack_<type><routine>_ffi`. They work here for whoever has scipy
(the extra `lapack`): both backends call these functions. A target takes an operation and its
operands in logical order, loops over the batch, and returns the operation's results; matrices are
column-major while LAPACK works on them. LAPACK's `info` is a result like any other.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ops.ffi_attributes import ffi_values
from hlo.ops.spec import OpView
from hlo.types import ArrayShape, TupleShape

Target = Callable[[OpView, Sequence[np.ndarray]], Any]

_TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
_REALS = {"s": np.float32, "d": np.float64, "c": np.float32, "z": np.float64}
_NAME = re.compile(r"lapack_([sdcz])([a-z0-9]+)_ffi")


def target(name: str) -> Target | None:
    """Return the function of a custom-call target of JAX's, None for any other target."""
    m = _NAME.fullmatch(name)
    if m is None:
        return None
    run, types = _ROUTINES.get(m[2], (None, ""))
    return functools.partial(_run, run, m[1]) if run is not None and m[1] in types else None


def targets() -> list[str]:
    """Return the names of all targets."""
    return [f"lapack_{t}{name}_ffi" for name, (_, types) in _ROUTINES.items() for t in types]


def need_library() -> None:
    """Raise InferError, code `missing-extra`, unless LAPACK is there."""
    try:
        from scipy.linalg import cython_lapack  # noqa: F401
    except ImportError:
        raise InferError(
            "custom-call: LAPACK comes with scipy, which is not installed",
            attr="custom_call_target", code="missing-extra",
            hint="pip install 'hlo-tools[lapack]'",
        ) from None  # fmt: skip


def _run(routine: Callable[[Call], Any], letter: str, op: OpView, args: Sequence[Any]) -> Any:
    need_library()
    results = routine(Call(op, letter, args))
    return results if isinstance(op.shape, TupleShape) else results[0]


# --- calling Fortran ----------------------------------------------------------------------------


@functools.cache
def _function(name: str) -> Any:
    """Return a routine of LAPACK; every argument of it is an address."""
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
    """Return what passes a value to Fortran: arrays by their memory, the rest by reference."""
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, int):
        return ctypes.byref(ctypes.c_int(value))
    if isinstance(value, str):
        return ctypes.byref(ctypes.c_char(value.encode()))
    return value  # None: a null pointer


class Call:
    """One custom call: its operands, what it declares to return, and LAPACK's calling manners."""

    def __init__(self, op: OpView, letter: str, args: Sequence[np.ndarray]) -> None:
        self.op = op
        self.name: str = op.attrs["custom_call_target"]
        self.letter = letter
        self.dtype, self.real = np.dtype(_TYPES[letter]), np.dtype(_REALS[letter])
        self.is_complex = self.dtype.kind == "c"
        self.args = args
        self.attrs = ffi_values(op)
        # How many leading dimensions count matrices; each routine says so first.
        self.batch_rank = 0
        shapes = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
        self.shapes = [s for s in shapes if isinstance(s, ArrayShape)]

    def fail(self, message: str) -> InferError:
        return InferError(f"custom-call: {self.name}: {message}", code="bad-value")

    def need(self, operands: str, results: str) -> tuple[int, ...]:
        """Check operands and results; returns the batch dimensions.

        A letter each: `m` a matrix, `v` a vector, `r` a vector of reals, `i` one of s32, `n` a
        number in s32, `c` a complex matrix.
        """
        given = [(a.shape, a.dtype) for a in self.args]
        declared = [(s.dims, s.element_type.dtype) for s in self.shapes]
        batch: tuple[int, ...] | None = None
        complex_ = np.dtype(np.result_type(self.dtype, np.complex64))
        kinds = {
            "m": (2, self.dtype), "v": (1, self.dtype), "r": (1, self.real),
            "i": (1, np.dtype(np.int32)), "n": (0, np.dtype(np.int32)), "c": (2, complex_),
        }  # fmt: skip
        for what, letters, found in (
            ("operand", operands, given), ("result", results, declared),
        ):  # fmt: skip
            if len(found) != len(letters):
                raise self.fail(f"{len(letters)} {what}s are needed, not {len(found)}")
            for n, (letter, (dims, dtype)) in enumerate(zip(letters, found, strict=True)):
                rank, wanted = kinds[letter]
                lead = dims[: len(dims) - rank]
                if dtype != wanted or len(dims) < rank or (batch is not None and lead != batch):
                    raise self.fail(f"{what} {n} is {dtype}{list(dims)}, which does not fit")
                batch = lead
        return batch or ()

    def need_dims(self, *pairs: tuple[Sequence[int], Sequence[int]]) -> None:
        """Check that dimensions are what they have to be."""
        for got, want in pairs:
            if tuple(got) != tuple(want):
                raise self.fail(f"a dimension is {list(got)}, {list(want)} is needed")

    def letter_of(self, key: str, allowed: str) -> str:
        """Return an attribute that is the code of a letter."""
        value = self.attrs.get(key)
        if isinstance(value, int) and 0 < value < 128 and chr(value) in allowed:
            return chr(value)
        raise self.fail(f"{key} is {value!r}, the code of one of {', '.join(allowed)} is needed")

    def flag(self, key: str) -> bool:
        value = self.attrs.get(key)
        if not isinstance(value, bool):
            raise self.fail(f"{key} is {value!r}, a truth value is needed")
        return value

    def matrices(self, a: np.ndarray) -> np.ndarray:
        """Return a copy `[count, columns, rows]` of matrices `[..., rows, columns]`."""
        count = math.prod(a.shape[:-2])
        return np.ascontiguousarray(a.swapaxes(-1, -2)).reshape(count, *a.shape[:-3:-1]).copy()

    def vectors(self, a: np.ndarray) -> np.ndarray:
        """Return a copy `[count, n]` of vectors `[..., n]`."""
        return np.array(a, order="C").reshape(math.prod(a.shape[:-1]), a.shape[-1])

    def empty(self, n: int) -> np.ndarray:
        """Return memory for result n, matrices column-major, one entry for each of the batch."""
        shape = self.shapes[n]
        rank = len(shape.dims) - self.batch_rank
        inner = shape.dims[self.batch_rank :][::-1] if rank == 2 else shape.dims[self.batch_rank :]
        count = math.prod(shape.dims[: self.batch_rank])
        return np.zeros((count, *inner), shape.element_type.dtype)

    def results(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return results in their shapes, from arrays with one entry for each of the batch."""
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
        """Return the work space that a routine asks for. `before`: what stands after it."""
        work = np.zeros(1, self.dtype)
        self.lapack(name, *values, work, -1, *before)
        return np.empty(_work_size(work), self.dtype)


def _work_size(answer: np.ndarray) -> int:
    """Return a size that LAPACK has given as a number of its type, which may have been rounded."""
    return max(1, int(np.nextafter(answer[0].real, np.inf)) + 1)


# --- factors ------------------------------------------------------------------------------------


def _potrf(c: Call) -> Any:
    c.batch_rank = len(c.need("m", "mn"))
    uplo = c.letter_of("uplo", "LU")
    n = c.args[0].shape[-1]
    c.need_dims((c.args[0].shape, (*c.args[0].shape[:-1], c.args[0].shape[-2])))
    a, info = c.matrices(c.args[0]), c.empty(1)
    for at in range(len(a)):
        info[at] = c.lapack("potrf", uplo, n, a[at], max(1, n))
    return c.results(a, info)


def _getrf(c: Call) -> Any:
    c.batch_rank = len(c.need("m", "min"))
    m, n = c.args[0].shape[-2:]
    c.need_dims((c.shapes[1].dims[-1:], (min(m, n),)))
    a, pivots, info = c.matrices(c.args[0]), c.empty(1), c.empty(2)
    for at in range(len(a)):
        info[at] = c.lapack("getrf", m, n, a[at], max(1, m), pivots[at])
    return c.results(a, pivots, info)


def _geqrf(c: Call) -> Any:
    c.batch_rank = len(c.need("m", "mv"))
    m, n = c.args[0].shape[-2:]
    c.need_dims((c.shapes[1].dims[-1:], (min(m, n),)))
    a, tau = c.matrices(c.args[0]), c.empty(1)
    if a.size:
        work = c.space("geqrf", m, n, a[0], m, tau[0])
        for at in range(len(a)):
            c.lapack("geqrf", m, n, a[at], m, tau[at], work, len(work))
    return c.results(a, tau)


def _geqp3(c: Call) -> Any:
    c.batch_rank = len(c.need("mi", "miv"))
    m, n = c.args[0].shape[-2:]
    c.need_dims((c.args[1].shape[-1:], (n,)), (c.shapes[2].dims[-1:], (min(m, n),)))
    a, pivots, tau = c.matrices(c.args[0]), c.vectors(c.args[1]), c.empty(2)
    more = [np.empty(max(1, 2 * n), c.real)] if c.is_complex else []
    if a.size:
        work = c.space("geqp3", m, n, a[0], m, pivots[0], tau[0], before=more)
        for at in range(len(a)):
            c.lapack("geqp3", m, n, a[at], m, pivots[at], tau[at], work, len(work), *more)
    return c.results(a, pivots, tau)


def _orgqr(c: Call) -> Any:
    c.batch_rank = len(c.need("mv", "m"))
    m, n = c.args[0].shape[-2:]
    k = c.args[1].shape[-1]
    if not k <= n <= m:
        raise c.fail(f"{k} reflectors of {m} elements do not make {n} columns")
    name = "ungqr" if c.is_complex else "orgqr"
    a, tau = c.matrices(c.args[0]), c.vectors(c.args[1])
    if a.size:
        work = c.space(name, m, n, k, a[0], m, tau[0])
        for at in range(len(a)):
            c.lapack(name, m, n, k, a[at], m, tau[at], work, len(work))
    return c.results(a)


def _ormqr(c: Call) -> Any:
    c.batch_rank = len(c.need("mvm", "m"))
    left, transpose = c.flag("left"), c.flag("transpose")
    m, n = c.args[2].shape[-2:]
    k = c.args[1].shape[-1]
    rows = m if left else n
    if k > rows or c.args[0].shape[-2] != rows or c.args[0].shape[-1] < k:
        raise c.fail(f"{k} reflectors in {list(c.args[0].shape[-2:])} do not fit {[m, n]}")
    name = "unmqr" if c.is_complex else "ormqr"
    a, tau, x = c.matrices(c.args[0]), c.vectors(c.args[1]), c.matrices(c.args[2])
    side = "L" if left else "R"
    op = ("C" if c.is_complex else "T") if transpose else "N"
    if x.size and k:
        sizes = (side, op, m, n, k)
        work = c.space(name, *sizes, a[0], rows, tau[0], x[0], m)
        for at in range(len(x)):
            c.lapack(name, *sizes, a[at], rows, tau[at], x[at], m, work, len(work))
    return c.results(x)


# --- singular values ----------------------------------------------------------------------------


def _svd_dims(c: Call) -> tuple[int, int, str]:
    c.batch_rank = len(c.need("m", "mrmmn"))
    m, n = c.args[0].shape[-2:]
    job = c.letter_of("mode", "ASN")
    if job != "N":
        columns, rows = (m, n) if job == "A" else (min(m, n), min(m, n))
        c.need_dims((c.shapes[2].dims[-2:], (m, columns)), (c.shapes[3].dims[-2:], (rows, n)))
    c.need_dims((c.shapes[1].dims[-1:], (min(m, n),)))
    return m, n, job


def _gesdd(c: Call) -> Any:
    m, n, job = _svd_dims(c)
    a, s, u, vt, info = c.matrices(c.args[0]), *map(c.empty, (1, 2, 3, 4))
    small, large = min(m, n), max(m, n)
    more: list[np.ndarray] = []
    if c.is_complex:
        size = 7 * small if job == "N" else small * max(5 * small + 7, 2 * large + 2 * small + 1)
        more = [np.empty(max(1, size), c.real)]
    more.append(np.empty(max(1, 8 * small), np.int32))
    ldvt = max(1, small if job == "S" else n)
    if a.size:
        work = c.space(
            "gesdd", job, m, n, a[0], m, s[0], u[0], m, vt[0], ldvt, before=more
        )  # fmt: skip
        for at in range(len(a)):
            places = (a[at], m, s[at], u[at], m, vt[at], ldvt)
            info[at] = c.lapack("gesdd", job, m, n, *places, work, len(work), *more)
    return c.results(a, s, u, vt, info)


def _gesvd(c: Call) -> Any:
    m, n, job = _svd_dims(c)
    a, s, u, vt, info = c.matrices(c.args[0]), *map(c.empty, (1, 2, 3, 4))
    small = min(m, n)
    more = [np.empty(max(1, 5 * small), c.real)] if c.is_complex else []
    ldvt = max(1, small if job == "S" else n)
    if a.size:
        work = c.space(
            "gesvd", job, job, m, n, a[0], m, s[0], u[0], m, vt[0], ldvt, before=more
        )  # fmt: skip
        for at in range(len(a)):
            places = (a[at], m, s[at], u[at], m, vt[at], ldvt)
            info[at] = c.lapack("gesvd", job, job, m, n, *places, work, len(work), *more)
    return c.results(a, s, u, vt, info)


# --- eigenvalues --------------------------------------------------------------------------------


def _square(c: Call) -> int:
    m, n = c.args[0].shape[-2:]
    if m != n:
        raise c.fail(f"square matrices are needed, not {[m, n]}")
    return n


def _syevd(c: Call) -> Any:
    c.batch_rank = len(c.need("m", "mrn"))
    n, job, uplo = _square(c), c.letter_of("mode", "VN"), c.letter_of("uplo", "LU")
    c.need_dims((c.shapes[1].dims[-1:], (n,)))
    name = "heevd" if c.is_complex else "syevd"
    a, w, info = c.matrices(c.args[0]), c.empty(1), c.empty(2)
    if a.size:
        # LAPACK says how much work space it wants of each kind.
        work, reals, ints = np.zeros(1, c.dtype), np.zeros(1, c.real), np.zeros(1, np.int32)
        more = [reals, -1] if c.is_complex else []
        c.lapack(name, job, uplo, n, a[0], n, w[0], work, -1, *more, ints, -1)
        work = np.empty(_work_size(work), c.dtype)
        ints = np.empty(max(1, int(ints[0])), np.int32)
        if c.is_complex:
            reals = np.empty(_work_size(reals), c.real)
            more = [reals, len(reals)]
        for at in range(len(a)):
            info[at] = c.lapack(
                name, job, uplo, n, a[at], n, w[at], work, len(work), *more, ints, len(ints)
            )
    return c.results(a, w, info)


def _geev(c: Call) -> Any:
    values = "v" if c.is_complex else "rr"
    c.batch_rank = len(c.need("m", f"{values}ccn"))
    n = _square(c)
    left, right = c.letter_of("compute_left", "VN"), c.letter_of("compute_right", "VN")
    count = len(values)
    for shape in c.shapes[:count]:
        c.need_dims((shape.dims[-1:], (n,)))
    for shape in c.shapes[count : count + 2]:
        c.need_dims((shape.dims[-2:], (n, n)))
    a, info = c.matrices(c.args[0]), c.empty(count + 2)
    w = [c.empty(i) for i in range(count)]
    # Of real matrices LAPACK returns complex pairs as two real columns.
    vectors = [np.zeros(a.shape, c.dtype) for _ in range(2)]
    more = [np.empty(max(1, 2 * n), c.real)] if c.is_complex else []
    if a.size:
        places = (*(x[0] for x in w), vectors[0][0], n, vectors[1][0], n)
        work = c.space("geev", left, right, n, a[0], n, *places, before=more)
        for at in range(len(a)):
            places = (*(x[at] for x in w), vectors[0][at], n, vectors[1][at], n)
            info[at] = c.lapack(
                "geev", left, right, n, a[at], n, *places, work, len(work), *more
            )  # fmt: skip
    if not c.is_complex:
        vectors = [_paired(v, w[1]) for v in vectors]
    return c.results(*w, *vectors, info)


def _paired(columns: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Return eigenvectors of real matrices: two columns make a pair of conjugates.

    columns: `[count, n, n]`, a vector each; imaginary: `[count, n]` parts of the eigenvalues.
    """
    result = columns.astype(np.result_type(columns, np.complex64))
    first = np.zeros(imaginary.shape, np.bool_)
    for n in range(imaginary.shape[-1]):
        # A pair begins where the imaginary part is not zero, unless one has just begun.
        begun = first[:, n - 1] if n else False
        first[:, n] = (imaginary[:, n] != 0) & ~begun
    matrix, column = np.nonzero(first[:, :-1])
    pair = columns[matrix, column] + 1j * columns[matrix, column + 1]
    result[matrix, column], result[matrix, column + 1] = pair, pair.conj()
    return result


def _gees(c: Call) -> Any:
    values = "v" if c.is_complex else "vv"
    c.batch_rank = len(c.need("m", f"mm{values}nn"))
    n, job = _square(c), c.letter_of("mode", "VN")
    sort = c.letter_of("sort", "N")
    count = len(values)
    for shape in c.shapes[2 : 2 + count]:
        c.need_dims((shape.dims[-1:], (n,)))
    c.need_dims((c.shapes[1].dims[-2:], (n, n)))
    a, vs = c.matrices(c.args[0]), c.empty(1)
    w = [c.empty(2 + i) for i in range(count)]
    chosen, info = c.empty(2 + count), c.empty(3 + count)
    reals = [np.empty(max(1, n), c.real)] if c.is_complex else []
    unused = np.empty(max(1, n), np.int32)
    if a.size:
        places = (*(x[0] for x in w), vs[0], n)
        work = c.space(
            "gees", job, sort, None, n, a[0], n, chosen, *places, before=[*reals, unused]
        )
        for at in range(len(a)):
            places = (*(x[at] for x in w), vs[at], n)
            info[at] = c.lapack(
                "gees", job, sort, None, n, a[at], n, chosen[at : at + 1], *places,
                work, len(work), *reals, unused,
            )  # fmt: skip
    return c.results(a, vs, *w, chosen, info)


def _sytrd(c: Call) -> Any:
    c.batch_rank = len(c.need("m", "mrrvn"))
    n, uplo = _square(c), c.letter_of("uplo", "LU")
    less = max(0, n - 1)
    c.need_dims(*((c.shapes[i].dims[-1:], (size,)) for i, size in ((1, n), (2, less), (3, less))))
    name = "hetrd" if c.is_complex else "sytrd"
    a, d, e, tau, info = c.matrices(c.args[0]), *map(c.empty, (1, 2, 3, 4))
    if a.size:
        work = c.space(name, uplo, n, a[0], n, d[0], e[0], tau[0])
        for at in range(len(a)):
            info[at] = c.lapack(
                name, uplo, n, a[at], n, d[at], e[at], tau[at], work, len(work)
            )  # fmt: skip
    return c.results(a, d, e, tau, info)


def _gehrd(c: Call) -> Any:
    c.batch_rank = len(c.need("m", "mvn"))
    n = _square(c)
    low, high = c.attrs.get("low"), c.attrs.get("high")
    if not (isinstance(low, int) and isinstance(high, int)) or not 1 <= low <= high <= max(1, n):
        raise c.fail(f"low is {low!r} and high is {high!r}, 1 <= low <= high <= {n} is needed")
    c.need_dims((c.shapes[1].dims[-1:], (max(0, n - 1),)))
    a, tau, info = c.matrices(c.args[0]), c.empty(1), c.empty(2)
    if a.size:
        work = c.space("gehrd", n, low, high, a[0], n, tau[0])
        for at in range(len(a)):
            info[at] = c.lapack("gehrd", n, low, high, a[at], n, tau[at], work, len(work))
    return c.results(a, tau, info)


# --- systems ------------------------------------------------------------------------------------


def _gtsv(c: Call) -> Any:
    """Solve tridiagonal systems; the first element of the lower diagonal is not used."""
    c.batch_rank = len(c.need("vvvm", "vvvmn"))
    n, columns = c.args[3].shape[-2:]
    c.need_dims(*((x.shape[-1:], (n,)) for x in c.args[:3]))
    lower, diagonal, upper = map(c.vectors, c.args[:3])
    x, info = c.matrices(c.args[3]), c.empty(4)
    if x.size:
        for at in range(len(x)):
            diagonals = (lower[at, 1:], diagonal[at], upper[at])
            info[at] = c.lapack("gtsv", n, columns, *diagonals, x[at], n)
    return c.results(lower, diagonal, upper, x, info)


_ROUTINES: dict[str, tuple[Callable[[Call], Any], str]] = {
    "potrf": (_potrf, "sdcz"), "getrf": (_getrf, "sdcz"), "geqrf": (_geqrf, "sdcz"),
    "geqp3": (_geqp3, "sdcz"), "orgqr": (_orgqr, "sd"), "ungqr": (_orgqr, "cz"),
    "ormqr": (_ormqr, "sd"), "unmqr": (_ormqr, "cz"), "gesdd": (_gesdd, "sdcz"),
    "gesvd": (_gesvd, "sdcz"), "syevd": (_syevd, "sd"), "heevd": (_syevd, "cz"),
    "geev": (_geev, "sdcz"), "gees": (_gees, "sdcz"), "sytrd": (_sytrd, "sd"),
    "hetrd": (_sytrd, "cz"), "gehrd": (_gehrd, "sdcz"), "gtsv": (_gtsv, "sdcz"),
}  # fmt: skip
