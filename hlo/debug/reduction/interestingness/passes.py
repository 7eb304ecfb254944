"""A pass or a pipeline that leaves an invalid module, crashes, or changes results."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from hlo.analysis.devices import devices_of
from hlo.debug.reduction.interestingness.values import Inputs, OnInputs, leaves
from hlo.errors import HloError
from hlo.frontends.text.printer import PrintOptions, print_module
from hlo.ir import Module

# A crash, an invalid module or other results: what is reduced keeps being wrong in the same way.
INVALID, CHANGED = "an invalid module", "changed results"


class PassBreaks(OnInputs):
    """What a pipeline does to modules, by the interpreter on inputs.

    passes: a pipeline, as of `hlo.optimize`.
    """

    def __init__(self, passes: str, inputs: Inputs | None = None) -> None:
        from hlo.passes.default import pipeline_of

        super().__init__(inputs)
        self.passes = passes
        self._pipeline = pipeline_of(passes)

    def prepare(self) -> None:
        import hlo.eval
        import hlo.passes.validate  # noqa: F401

    def wrong(self, module: Module) -> str:
        from hlo.passes import run_pipeline
        from hlo.passes.validate import difference, takes_whole_arrays
        from hlo.verifier import verify

        after = module.clone()
        try:
            runs = run_pipeline(after, self._pipeline)
        except HloError as e:
            if e.code == "pass-broke-module":
                return INVALID
            if e.code == "pass-failed":
                return _crash(e.__cause__)
            return ""  # the pass says that it cannot handle the module
        except MemoryError:
            raise
        except Exception as e:  # whatever a pass raises is what its author looks for
            return _crash(e)
        if _text(after) == _text(module):
            return ""
        try:
            verify(after)
        except HloError:
            return INVALID
        approximate = any(r.approximate for run in runs for r in run.rewrites)
        counts = devices_of(module)
        values = self.inputs.of(module) * prod(counts)
        whole = takes_whole_arrays(module, counts)
        with np.errstate(all="ignore"):
            want, got = (_results(m, values, counts, whole=whole) for m in (module, after))
        return CHANGED if difference(got, want, approximate) is not None else ""

    def __str__(self) -> str:
        return f"pass {self.passes}, {self.inputs}"


def _crash(error: BaseException | None) -> str:
    return f"{type(error).__name__} in the pass"


def _text(module: Module) -> str:
    """Return all that a module says of what it computes."""
    return print_module(module, PrintOptions(metadata=False))


def _results(
    module: Module, values: Sequence[Any], counts: tuple[int, int], *, whole: bool
) -> list[Any] | HloError:
    """Return the leaves of a module's result by the interpreter, or its error."""
    from hlo.passes.validate import interpret_as

    try:
        return leaves(interpret_as(module, values, counts, takes_whole_arrays=whole))
    except HloError as e:
        return e
