"""Passes: semantics-preserving transformations of modules, one file per pass, and the pass manager.

The files of this folder run passes; each subfolder is a family with one file per pass (files with
a leading underscore are shared by the family).
"""

from hlo.passes.manager import Observer, PassRun, run_pipeline
from hlo.passes.pipeline import Fix, Step, parse_pipeline, step
from hlo.passes.registry import (
    Pass,
    all_passes,
    find_pass,
    idempotent,
    load_plugin,
    module_pass,
)
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import Rule, RuleSet, replace_instruction

__all__ = [
    "Fix",
    "Observer",
    "Pass",
    "PassRun",
    "Rewrites",
    "Rule",
    "RuleSet",
    "Step",
    "all_passes",
    "find_pass",
    "idempotent",
    "load_plugin",
    "module_pass",
    "parse_pipeline",
    "replace_instruction",
    "run_pipeline",
    "step",
]


def __dir__() -> list[str]:
    return sorted(__all__)
