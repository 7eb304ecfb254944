"""An error that is reported: by the verifier, a pipeline, or the compiler."""

from __future__ import annotations

from hlo.errors import Diagnostic, HloError
from hlo.ir import Module
from hlo.verifier import diagnose


class Reports:
    """A module of which a diagnostic is reported.

    wanted: its code, or a part of its message that has a space in it. passes: the pipeline that
    runs on valid modules before they are compiled. A module whose only errors are the wanted ones
    need not be valid.
    """

    def __init__(self, wanted: str, passes: str = "default") -> None:
        from hlo.passes.default import pipeline_of

        self._wanted, self._passes = wanted, passes
        pipeline_of(passes)

    def prepare(self) -> None:
        import hlo.compiler.pipeline  # noqa: F401

    def check(self, module: Module) -> None:
        others = [d for d in diagnose(module) if not self._is_wanted(d)]
        if others:
            raise HloError(others)

    def wrong(self, module: Module) -> str:
        found = diagnose(module)
        if not found:
            try:
                from hlo.compiler.pipeline import compile

                compile(module, cache=False, threads=1, passes=self._passes)
            except HloError as e:
                found = list(e.diagnostics)
        return f"it reports {self._wanted}" if any(map(self._is_wanted, found)) else ""

    def _is_wanted(self, found: Diagnostic) -> bool:
        return found.code == self._wanted or (" " in self._wanted and self._wanted in found.message)

    def __str__(self) -> str:
        return f"error {self._wanted}, passes {self._passes}"
