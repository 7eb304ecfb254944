"""How JAX lowers its primitives for this backend.

JAX has rules for any platform, and others for the platforms that it knows. The CPU's are of two
kinds: some call LAPACK or Python, where the rule for any platform is missing, or calls functions of
TPUs; these are right here too. The others avoid what XLA does badly on a CPU, or does not do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hlo.jax.private import backends

# What JAX lowers to calls of LAPACK on a CPU. The rules for any platform are TPU's.
_LAPACK = frozenset(
    {
        "cholesky", "geqrf", "householder_product", "lu", "ormqr", "svd", "triangular_solve",
        "tridiagonal_solve",
    }
)  # fmt: skip

# Rules for the CPU that are not taken, and why that for any platform is the better one.
_NOT_TAKEN = {
    "bcsr_dot_general": "it calls XLA's own kernels of sparse products",
    "conv_general_dilated": "it expands complex convolutions, which this compiler has",
    "dot_general": "it refuses algorithms that XLA ignores on a CPU",
    "random_gamma": "it runs the loops of all samples one after the other",
    "select_and_scatter_add": "it is slower: XLA has no good code for the operation on a CPU",
    "threefry2x32": "it has loops that this compiler would unroll again",
}

# Those without a rule for any platform: the CPU's is the only one.
_ONLY_RULES = frozenset(
    {
        "check", "csr_spmm", "csr_spmv", "debug_callback", "debug_print", "eig", "eigh", "geqp3",
        "hessenberg", "schur", "spsolve", "tridiagonal",
    }
)  # fmt: skip

KNOWN = _LAPACK | _ONLY_RULES | frozenset(_NOT_TAKEN)


def rule_for(primitive: Any) -> Any:
    """Return the lowering rule of a primitive for this backend; None for that of any platform."""
    general = backends.rules_of(None).get(primitive)
    if general is None or primitive.name in _LAPACK:
        # Also what other packages have for the CPU alone.
        return backends.rules_of("cpu").get(primitive)
    wrap = _WRAPPERS.get(primitive.name)
    return None if wrap is None else backends.with_rule(general, wrap(general.rule))


# --- rules that look at the name of the platform --------------------------------------------------


def _as_cpu(platforms: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Add this backend to platforms that have the CPU. None stands for all others."""
    if not platforms or "cpu" not in platforms or "hlo" in platforms:
        return platforms
    return (*platforms, "hlo")


def _branches(branches: Any) -> Any:
    """Have this backend take the CPU's branch, unless it has one of its own."""
    if any("hlo" in (platforms or ()) for platforms in branches):
        return branches
    return tuple(_as_cpu(platforms) for platforms in branches)


def _platform_index(rule: Callable[..., Any]) -> Callable[..., Any]:
    """`lax.platform_dependent(x, cpu=f, default=g)` is f."""

    def lower(context: Any, *args: Any, platforms: Any) -> Any:
        return rule(context, *args, platforms=_branches(platforms))

    return lower


def _conditional(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The branches of `lax.platform_dependent`."""

    def lower(context: Any, *args: Any, branches_platforms: Any = None, **params: Any) -> Any:
        if branches_platforms is not None:
            params["branches_platforms"] = _branches(branches_platforms)
        return rule(context, *args, **params)

    return lower


def _exported(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A program that was exported for the CPU runs here."""

    def lower(context: Any, *args: Any, exported: Any) -> Any:
        if "hlo" not in exported.platforms and "cpu" in exported.platforms:
            # One name for another: a program for several platforms takes their index.
            platforms = tuple("hlo" if p == "cpu" else p for p in exported.platforms)
            exported = dataclasses.replace(exported, platforms=platforms)
        return rule(context, *args, exported=exported)

    return lower


_WRAPPERS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "call_exported": _exported,
    "cond": _conditional,
    "platform_index": _platform_index,
}
