"""Singular values, eigenvalues, and the reduced forms they are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.host.lapack.call import Call, work_size

# --- singular values ----------------------------------------------------------------------------


def _svd(c: Call) -> tuple[int, int, str]:
    return c.sizes["m"], c.sizes["n"], c.letter_of("mode")


def gesdd(c: Call) -> Any:
    m, n, job = _svd(c)
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


def gesvd(c: Call) -> Any:
    m, n, job = _svd(c)
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


def syevd(c: Call) -> Any:
    n, job, uplo = c.sizes["n"], c.letter_of("mode"), c.letter_of("uplo")
    name = "heevd" if c.is_complex else "syevd"
    a, w, info = c.matrices(c.args[0]), c.empty(1), c.empty(2)
    if a.size:
        # Ask LAPACK for the size of each workspace.
        work, reals, ints = np.zeros(1, c.dtype), np.zeros(1, c.real), np.zeros(1, np.int32)
        more = [reals, -1] if c.is_complex else []
        c.lapack(name, job, uplo, n, a[0], n, w[0], work, -1, *more, ints, -1)
        work = np.empty(work_size(work), c.dtype)
        ints = np.empty(max(1, int(ints[0])), np.int32)
        if c.is_complex:
            reals = np.empty(work_size(reals), c.real)
            more = [reals, len(reals)]
        for at in range(len(a)):
            info[at] = c.lapack(
                name, job, uplo, n, a[at], n, w[at], work, len(work), *more, ints, len(ints)
            )
    return c.results(a, w, info)


def geev(c: Call) -> Any:
    n = c.sizes["n"]
    left, right = c.letter_of("compute_left"), c.letter_of("compute_right")
    count = 1 if c.is_complex else 2
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
    """Return eigenvectors of real matrices: two columns form a pair of conjugates.

    columns: `[count, n, n]`, a vector each; imaginary: `[count, n]`, of the eigenvalues.
    """
    result = columns.astype(np.result_type(columns, np.complex64))
    first = np.zeros(imaginary.shape, np.bool_)
    for n in range(imaginary.shape[-1]):
        # A nonzero imaginary part starts a pair, unless it is the second of one.
        begun = first[:, n - 1] if n else np.False_
        first[:, n] = (imaginary[:, n] != 0) & ~begun
    matrix, column = np.nonzero(first[:, :-1])
    pair = columns[matrix, column] + 1j * columns[matrix, column + 1]
    result[matrix, column], result[matrix, column + 1] = pair, pair.conj()
    return result


def gees(c: Call) -> Any:
    n, job, sort = c.sizes["n"], c.letter_of("mode"), c.letter_of("sort")
    count = 1 if c.is_complex else 2
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


def sytrd(c: Call) -> Any:
    n, uplo = c.sizes["n"], c.letter_of("uplo")
    name = "hetrd" if c.is_complex else "sytrd"
    a, d, e, tau, info = c.matrices(c.args[0]), *map(c.empty, (1, 2, 3, 4))
    if a.size:
        work = c.space(name, uplo, n, a[0], n, d[0], e[0], tau[0])
        for at in range(len(a)):
            info[at] = c.lapack(
                name, uplo, n, a[at], n, d[at], e[at], tau[at], work, len(work)
            )  # fmt: skip
    return c.results(a, d, e, tau, info)


def gehrd(c: Call) -> Any:
    n = c.sizes["n"]
    low, high = c.attrs["low"], c.attrs["high"]
    a, tau, info = c.matrices(c.args[0]), c.empty(1), c.empty(2)
    if a.size:
        work = c.space("gehrd", n, low, high, a[0], n, tau[0])
        for at in range(len(a)):
            info[at] = c.lapack("gehrd", n, low, high, a[at], n, tau[at], work, len(work))
    return c.results(a, tau, info)
