"""What a case is, and the arguments that most of them have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

Program = tuple[Callable[..., Any], Sequence[Any]]
# Another library's function for the same job, of the leaves of the arguments.
Other = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A program and its arguments, made on demand. `about` says what its time depends on.

    others: functions of other libraries that do the same job, by the library's name.
    """

    name: str
    about: str
    make: Callable[[], Program]
    others: Mapping[str, Other]


CASES: dict[str, Case] = {}


def case(about: str, **others: Other) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    """Register a program under the function's name."""

    def add(make: Callable[[], Program]) -> Callable[[], Program]:
        assert make.__name__ not in CASES, f"there are two cases called {make.__name__}"
        CASES[make.__name__] = Case(make.__name__, about, make, others)
        return make

    return add


def normal(*dims: int, scale: float = 1.0, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    values = np.random.default_rng([seed, *dims]).standard_normal(dims, np.float32)
    return (values * np.float32(scale)).astype(dtype)


def integers(high: int, *dims: int, dtype: Any = np.int32, low: int = 0) -> np.ndarray:
    return np.random.default_rng([high, *dims]).integers(low, high, dims, dtype)


def export(name: str) -> tuple[str, list[np.ndarray]]:
    """Return a case as HLO text with the leaves of its arguments."""
    function, args = CASES[name].make()
    wide = any(np.asarray(a).dtype == np.float64 for a in jax.tree.leaves(args))
    with jax.enable_x64(wide):
        text = jax.jit(function, keep_unused=True).lower(*args).compiler_ir("hlo").as_hlo_text(True)
    return text, [np.asarray(a) for a in jax.tree.leaves(args)]
