"""Matrix factorizations, what is computed from them, and tridiagonal systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo.host.lapack.call import Call


def getrf(c: Call) -> Any:
    m, n = c.sizes["m"], c.sizes["n"]
    a, pivots, info = c.matrices(c.args[0]), c.empty(1), c.empty(2)
    for at in range(len(a)):
        info[at] = c.lapack("getrf", m, n, a[at], max(1, m), pivots[at])
    return c.results(a, pivots, info)


def geqrf(c: Call) -> Any:
    m, n = c.sizes["m"], c.sizes["n"]
    a, tau = c.matrices(c.args[0]), c.empty(1)
    if a.size:
        work = c.space("geqrf", m, n, a[0], m, tau[0])
        for at in range(len(a)):
            c.lapack("geqrf", m, n, a[at], m, tau[at], work, len(work))
    return c.results(a, tau)


def geqp3(c: Call) -> Any:
    m, n = c.sizes["m"], c.sizes["n"]
    a, pivots, tau = c.matrices(c.args[0]), c.vectors(c.args[1]), c.empty(2)
    more = [np.empty(max(1, 2 * n), c.real)] if c.is_complex else []
    if a.size:
        work = c.space("geqp3", m, n, a[0], m, pivots[0], tau[0], before=more)
        for at in range(len(a)):
            c.lapack("geqp3", m, n, a[at], m, pivots[at], tau[at], work, len(work), *more)
    return c.results(a, pivots, tau)


def orgqr(c: Call) -> Any:
    m, n, k = (c.sizes[name] for name in "mnq")
    name = "ungqr" if c.is_complex else "orgqr"
    a, tau = c.matrices(c.args[0]), c.vectors(c.args[1])
    if a.size:
        work = c.space(name, m, n, k, a[0], m, tau[0])
        for at in range(len(a)):
            c.lapack(name, m, n, k, a[at], m, tau[at], work, len(work))
    return c.results(a)


def ormqr(c: Call) -> Any:
    left, transpose = c.attrs["left"], c.attrs["transpose"]
    m, n, k, rows = (c.sizes[name] for name in "mnqp")
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


def gtsv(c: Call) -> Any:
    """Solve tridiagonal systems; the first element of the lower diagonal is not used."""
    n, columns = c.sizes["n"], c.sizes["c"]
    lower, diagonal, upper = map(c.vectors, c.args[:3])
    x, info = c.matrices(c.args[3]), c.empty(4)
    if x.size:
        for at in range(len(x)):
            diagonals = (lower[at, 1:], diagonal[at], upper[at])
            info[at] = c.lapack("gtsv", n, columns, *diagonals, x[at], n)
    return c.results(lower, diagonal, upper, x, info)
