"""Two ways to run a module that give different results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.debug.divergence.sides import XLA, side_of, way_of
from hlo.debug.reduction.interestingness.values import Inputs, OnInputs, leaves, need_one_device
from hlo.errors import HloError
from hlo.io.formats import is_module_file
from hlo.ir import Module


class Way:
    """A way to run modules, as `hlo-run --first-divergence` names it.

    Raises HloError for a text that names none.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        if name.endswith(".npz") or is_module_file(name):
            raise HloError.at(
                "bad-backend", f"{name} cannot run other modules",
                hint=f"hlo-run FILE --first-divergence={name} finds the first instruction "
                "where they part",
            )  # fmt: skip
        self.backend, _ = way_of(name)

    def prepare(self) -> None:
        """Import what runs need."""
        if self.backend == XLA:
            from hlo.debug.divergence.xla import need_xla

            need_xla()
        elif self.backend == "compiled":
            import hlo.codegen.pipeline
            import hlo.compiler.pipeline
            import hlo.runtime.executable
            import hlo.runtime.jit  # noqa: F401

    def run(self, module: Module, values: Sequence[Any]) -> list[Any]:
        """Return the arrays of a valid module's result. Raises HloError."""
        return leaves(side_of(self.name, module, "lenient").on_devices(values))


def two_ways(text: str) -> tuple[str, str]:
    """Return the names of two ways from `A,B`; commas in braces are theirs. Raises HloError."""
    names = [name.strip() for name in re.split(r",(?![^{]*\})", text)]
    if len(names) != 2:
        raise HloError.at(
            "bad-backend", f"{text!r}: two ways are needed, as A,B",
            hint="passes in front of one are compiled{passes=C,D}",
        )  # fmt: skip
    return names[0], names[1]


class Differs(OnInputs):
    """The results of two ways to run a module, judged as `hlo-run --check` does.

    one, other: ways by name; what `other` gives is taken to be right. relative, absolute: what
    floats may be off by; by default what their type and the sensitivity of the results to rounding
    say.
    """

    def __init__(
        self, one: str = "compiled", other: str = "reference", inputs: Inputs | None = None,
        relative: float | None = None, absolute: float | None = None,
    ) -> None:  # fmt: skip
        self._one, self._other = Way(one), Way(other)
        super().__init__(inputs)
        self._tolerances = relative, absolute

    def prepare(self) -> None:
        import hlo.eval
        import hlo.testing.compare  # noqa: F401

        self._one.prepare()
        self._other.prepare()

    def check(self, module: Module) -> None:
        super().check(module)
        if XLA in (self._one.backend, self._other.backend):
            need_one_device(module)

    def wrong(self, module: Module) -> str:
        values = self.inputs.of(module)
        try:
            want = self._other.run(module, values)
        except HloError:
            return ""  # there is nothing to compare with
        try:
            got = self._one.run(module, values)
        except HloError as e:
            return f"{self._one.name} fails: {e.diagnostics[0].code}"
        return "results differ" if self._differ(module, values, got, want) else ""

    def _differ(
        self, module: Module, values: Sequence[Any], got: list[Any], want: list[Any]
    ) -> bool:
        from hlo.analysis.rounding import rounded_digits
        from hlo.testing.compare import judged, nudged

        def nearby() -> dict[str, np.ndarray]:
            digits = rounded_digits(module)
            return _numbered(self._other.run(module, [nudged(v, digits) for v in values]))

        if any(g.shape != w.shape or g.dtype != w.dtype for g, w in zip(got, want, strict=True)):
            return True
        found = judged(_numbered(got), _numbered(want), nearby, *self._tolerances)
        return not all(c.same for c in found.values())

    def __str__(self) -> str:
        return f"{self._one.name}, {self._other.name}, {self.inputs} {self._tolerances}"


def _numbered(values: Sequence[Any]) -> dict[str, np.ndarray]:
    return {str(n): value for n, value in enumerate(values)}
