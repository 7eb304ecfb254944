"""Two ways to run a module that give different results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hlo.debug.reduction.interestingness.base import ValidModules
from hlo.debug.reduction.interestingness.values import inputs_of, leaves
from hlo.errors import HloError, did_you_mean
from hlo.ir import Module

Way = Callable[[Module, Sequence[Any]], list[Any]]
"""Runs a module on values; returns the arrays of its result. Raises HloError."""

WAYS = ("reference", "compiled")


def way(text: str) -> Way:
    """Return what `reference`, `compiled` or either with `:PASSES` runs modules with.

    Raises HloError for anything else.
    """
    name, colon, passes = text.partition(":")
    if name not in WAYS:
        raise HloError.at(
            "bad-value", f"{text!r} is no way to run a module",
            hint=did_you_mean(name, WAYS) or f"there are {', '.join(WAYS)}, and those with :PASSES",
        )  # fmt: skip
    if colon:
        from hlo.passes.default import pipeline_of

        pipeline_of(passes, fuses=False, name=name)
    if name == "compiled":
        return lambda module, values: _compiled(module, values, passes if colon else "default")
    return lambda module, values: _interpreted(module, values, passes)


def _interpreted(module: Module, values: Sequence[Any], passes: str) -> list[Any]:
    from hlo.eval import interpret

    if passes:
        from hlo.passes import run_pipeline
        from hlo.passes.default import pipeline_of

        module = module.clone()
        run_pipeline(module, pipeline_of(passes, fuses=False))
    return leaves(interpret(module, values))


def _compiled(module: Module, values: Sequence[Any], passes: str) -> list[Any]:
    from hlo.compiler.pipeline import compile

    return leaves(compile(module, cache=False, threads=1, passes=passes)(*values))


class Differs(ValidModules):
    """The results of two ways to run a module, judged as `hlo-run --check` does.

    one, other: ways by name; what `other` gives is taken to be right. seed, random: of the inputs.
    relative, absolute: what floats may be off by; by default what their type and the sensitivity
    of the results to rounding say.
    """

    def __init__(
        self, one: str = "compiled", other: str = "reference", seed: int = 0,
        random: Sequence[str] = (), relative: float | None = None, absolute: float | None = None,
    ) -> None:  # fmt: skip
        self._names = one, other
        self._one, self._other = way(one), way(other)
        self._seed, self._random = seed, tuple(random)
        self._tolerances = relative, absolute

    def prepare(self) -> None:
        import hlo.eval
        import hlo.testing.compare

        if any(name.startswith("compiled") for name in self._names):
            import hlo.codegen.pipeline
            import hlo.compiler.pipeline
            import hlo.passes
            import hlo.runtime.executable
            import hlo.runtime.jit  # noqa: F401

    def wrong(self, module: Module) -> str:
        values = inputs_of(module, self._seed, self._random)
        try:
            want = self._other(module, values)
        except HloError:
            return ""  # there is nothing to compare with
        try:
            got = self._one(module, values)
        except HloError as e:
            return f"{self._names[0]} fails: {e.diagnostics[0].code}"
        return "results differ" if self._differ(module, values, got, want) else ""

    def _differ(
        self, module: Module, values: Sequence[Any], got: list[Any], want: list[Any]
    ) -> bool:
        from hlo.analysis.rounding import rounded_digits
        from hlo.testing.compare import compare, nudged, spread

        pairs = list(zip(got, want, strict=True))
        if any(g.shape != w.shape or g.dtype != w.dtype for g, w in pairs):
            return True
        wrong = [n for n, (g, w) in enumerate(pairs) if not compare(g, w, *self._tolerances).same]
        if not wrong or self._tolerances != (None, None):
            return bool(wrong)
        digits = rounded_digits(module)
        near = self._other(module, [nudged(v, digits) for v in values])
        return not all(
            compare(got[n], want[n], sensitivity=spread(want[n], near[n])).same for n in wrong
        )

    def __str__(self) -> str:
        return f"{self._names} seed {self._seed} {self._random} {self._tolerances}"
