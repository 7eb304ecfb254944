"""An instruction that makes a NaN or an infinity of operands without it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import prod
from typing import Any

from hlo.debug.reduction.interestingness.values import Inputs, OnInputs
from hlo.debug.trace.blame import has_nonfinite
from hlo.errors import HloError
from hlo.ir import Module

# Compiling a small module takes as long.
_QUICK_S = 1.0


class MakesNonfinite(OnInputs):
    """A module of which an instruction makes a NaN or an infinity, as `hlo.find_nan` judges.

    It runs as native code, or, where that is quicker and shows it as well, by the interpreter.
    passes: the pipeline that runs before native code is made. Two modules are wrong in the same way
    if instructions of one opcode make the same.
    """

    def __init__(self, passes: str = "default", inputs: Inputs | None = None) -> None:
        from hlo.passes.default import pipeline_of

        super().__init__(inputs)
        self._passes = passes
        self._backend = "compiled"
        pipeline_of(passes)

    def run_on(
        self, module: Module, arguments: Sequence[Any], seed: int = 0, random: Sequence[str] = ()
    ) -> None:
        start = time.monotonic()
        super().run_on(module, arguments, seed, random)
        seconds = time.monotonic() - start
        if seconds < _QUICK_S and any(map(has_nonfinite, self.inputs.known.values())):
            self._backend = "reference"

    def prepare(self) -> None:
        import hlo.debug.trace.nan  # noqa: F401

    def wrong(self, module: Module) -> str:
        from hlo.debug.trace.nan import find_nan_values

        values = [self.inputs.of(module)] * prod(module.device_counts)
        try:
            finding = find_nan_values(
                module, values, backend=self._backend, passes=self._passes, threads=1
            )
        except HloError:
            return ""  # the module does not run
        if finding is None or finding.source != "instruction":
            return ""
        return f"{finding.opcode} makes {'NaN' if finding.kind == 'nan' else 'an infinity'}"

    def __str__(self) -> str:
        return f"find-nan {self._passes} {self._backend} {self.inputs}"
