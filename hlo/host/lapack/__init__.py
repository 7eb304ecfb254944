"""LAPACK for the custom calls of JAX on CPU, through the library that scipy includes.

JAX factors matrices by calls of `lapack_<type><routine>_ffi`. They need scipy (the extra `lapack`);
both backends call these functions. A target takes an operation and its operands in logical order,
loops over the batch, and returns the operation's results; matrices are converted to column-major
for LAPACK. LAPACK's `info` is a result like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.host.lapack.call import Call, need_library
from hlo.host.lapack.factors import geqp3, geqrf, getrf, gtsv, orgqr, ormqr
from hlo.host.lapack.spectra import gees, geev, gehrd, gesdd, gesvd, syevd, sytrd
from hlo.ops.host.lapack_targets import is_lapack, lapack_targets, routine
from hlo.ops.spec import OpView
from hlo.values.types import TupleShape

__all__ = ["Target", "lapack_targets", "need_library", "target"]

Target = Callable[[OpView, Sequence[np.ndarray]], Any]


def target(name: str) -> Target | None:
    """Return the function of one of JAX's custom-call targets, None for any other target."""
    return _run if is_lapack(name) else None


def _run(op: OpView, args: Sequence[Any]) -> Any:
    need_library()
    asked = routine(op)
    results = _ROUTINES[asked.name](Call(op, asked, args))
    return results if isinstance(op.shape, TupleShape) else results[0]


_ROUTINES: dict[str, Callable[[Call], Any]] = {
    "getrf": getrf, "geqrf": geqrf, "geqp3": geqp3, "orgqr": orgqr, "ungqr": orgqr, "ormqr": ormqr,
    "unmqr": ormqr, "gesdd": gesdd, "gesvd": gesvd, "syevd": syevd, "heevd": syevd, "geev": geev,
    "gees": gees, "sytrd": sytrd, "hetrd": sytrd, "gehrd": gehrd, "gtsv": gtsv,
}  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
