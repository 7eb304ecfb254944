"""LAPACK for the custom calls that JAX makes on CPU, through the library that scipy brings.

JAX factors matrices by calls of `lapack_<type><routine>_ffi`. They work here for whoever has scipy
(the extra `lapack`): both backends call these functions. A target takes an operation and its
operands in logical order, loops over the batch, and returns the operation's results; matrices are
column-major while LAPACK works on them. LAPACK's `info` is a result like any other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.host.lapack.call import Call, need_library
from hlo.host.lapack.factors import geqp3, geqrf, getrf, gtsv, orgqr, ormqr
from hlo.host.lapack.spectra import gees, geev, gehrd, gesdd, gesvd, syevd, sytrd
from hlo.ops.spec import OpView
from hlo.types import TupleShape

__all__ = ["Target", "need_library", "target", "targets"]

Target = Callable[[OpView, Sequence[np.ndarray]], Any]

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


def _run(routine: Callable[[Call], Any], letter: str, op: OpView, args: Sequence[Any]) -> Any:
    need_library()
    results = routine(Call(op, letter, args))
    return results if isinstance(op.shape, TupleShape) else results[0]


_ROUTINES: dict[str, tuple[Callable[[Call], Any], str]] = {
    "getrf": (getrf, "sdcz"), "geqrf": (geqrf, "sdcz"),
    "geqp3": (geqp3, "sdcz"), "orgqr": (orgqr, "sd"), "ungqr": (orgqr, "cz"),
    "ormqr": (ormqr, "sd"), "unmqr": (ormqr, "cz"), "gesdd": (gesdd, "sdcz"),
    "gesvd": (gesvd, "sdcz"), "syevd": (syevd, "sd"), "heevd": (syevd, "cz"),
    "geev": (geev, "sdcz"), "gees": (gees, "sdcz"), "sytrd": (sytrd, "sd"),
    "hetrd": (sytrd, "cz"), "gehrd": (gehrd, "sdcz"), "gtsv": (gtsv, "sdcz"),
}  # fmt: skip
