"""Modules with one call of a vendor's library, on both backends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

import hlo
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import leaves

# By bytes of an element, between the backends: they sum in different orders.
_TOLERANCES = {1: 0.08, 2: 8e-3, 4: 2e-6, 8: 1e-13}


def call_text(
    target: str,
    operands: Sequence[np.ndarray],
    results: str,
    config: dict[str, Any],
    more: str = "",
) -> str:
    """Return a module that calls a target with parameters. more: further attributes."""
    parameters = [f"  p{n} = {shape_of(a)} parameter({n})" for n, a in enumerate(operands)]
    names = ", ".join(f"p{n}" for n in range(len(operands)))
    return "\n".join([
        "HloModule m", "ENTRY e {", *parameters,
        f'  ROOT r = {results} custom-call({names}), {more} custom_call_target="{target}", '
        f"backend_config={json.dumps(config)}", "}",
    ])  # fmt: skip


def shape_of(a: np.ndarray) -> str:
    name = next(n for n, et in ELEMENT_TYPES.items() if et.dtype == a.dtype)
    return f"{name}[{','.join(map(str, a.shape))}]"


def run_call(
    target: str, operands: Sequence[np.ndarray], results: str, config: Any, more: str = ""
) -> list[np.ndarray]:
    """Return the results of a call, on which both backends agree, with passes and without."""
    text = call_text(target, operands, results, config, more)
    module = hlo.parse(text)
    hlo.verify(module)
    want = hlo.interpret(module, *operands)
    for passes in ("default", ""):
        got = hlo.compile(module, passes=passes, cache=False)(*operands)
        for g, w in zip(leaves(got), leaves(want), strict=True):
            assert g.dtype == w.dtype
            assert_close(g, w, _TOLERANCES[(w.real if np.iscomplexobj(w) else w).dtype.itemsize])
    return [np.asarray(x) for x in leaves(want)]


def assert_close(got: np.ndarray, want: Any, tolerance: float = 2e-6) -> None:
    """Fail unless a result is close to what float64 gives, in units of the largest value."""
    want = np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    sizes = np.abs(want.astype(wide))
    largest = max(1.0, float(sizes[np.isfinite(sizes)].max(initial=0)))
    np.testing.assert_array_equal(np.isfinite(got.astype(wide)), np.isfinite(want.astype(wide)))
    with np.errstate(invalid="ignore"):
        error = np.nanmax(np.abs(got.astype(wide) - want.astype(wide)), initial=0)
    assert error <= tolerance * largest, f"error {error} of {largest}"
